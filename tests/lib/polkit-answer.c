/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/polkit-answer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/bus-client.h"

#define POLKIT  "org.freedesktop.PolicyKit1"
#define POLKITD "/usr/lib/polkit-1/polkitd"
/* An action of polkit itself, which nothing here asks for but the probe. */
#define PROBE "org.freedesktop.policykit.exec"

/* Root's connection asks, and @nobody is asked about. */
typedef struct
{
  GDBusConnection *root;
  GDBusConnection *nobody;
  pid_t polkitd;
  gboolean is_running;
  guint generation;
} Asker;

static Asker asker;

const char *
polkit_answer_name (PolkitAnswer answer)
{
  static const char *const names[POLKIT_N_ANSWERS] = {
    [POLKIT_DEFAULTS] = "defaults",   [POLKIT_YES] = "yes",       [POLKIT_NO] = "no",
    [POLKIT_CHALLENGE] = "challenge", [POLKIT_ABSENT] = "absent",
  };

  return names[answer];
}

/* Whether polkitd knows the rules of @user_data, a generation. Rules are read again some time after
 * their folder has changed, and nothing says when. */
static gboolean
is_in_force (gpointer user_data)
{
  g_autofree char *generation = g_strdup_printf ("%u", *(guint *) user_data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  gboolean is_authorized = FALSE;

  answer = g_dbus_connection_call_sync (
      asker.root, POLKIT, "/org/freedesktop/PolicyKit1/Authority", POLKIT ".Authority",
      "CheckAuthorization",
      g_variant_new_parsed ("(('system-bus-name', {'name': <%s>}), %s, {'generation': %s}, "
                            "uint32 0, '')",
                            g_dbus_connection_get_unique_name (asker.nobody), PROBE, generation),
      G_VARIANT_TYPE ("((bba{ss}))"), G_DBUS_CALL_FLAGS_NO_AUTO_START, BUS_CALL_MS, NULL, &error);
  if (answer != NULL)
    g_variant_get (answer, "((bba{ss}))", &is_authorized, NULL, NULL);
  return is_authorized;
}

static void
write_rules (const char *result)
{
  g_autofree char *text = NULL;
  g_autofree char *name = NULL;
  g_autofree char *path = NULL;
  g_autofree char *previous_name = g_strdup_printf ("%u.rules", asker.generation);
  g_autofree char *previous = NULL;
  g_autoptr (GError) error = NULL;

  asker.generation++;
  text = g_strdup_printf ("polkit.addRule(function(action, subject) {\n"
                          "  if (action.id == '" PROBE "' && action.lookup('generation') == '%u')\n"
                          "    return polkit.Result.YES;\n"
                          "  if (action.id.indexOf('org.sonde.profiler1.') == 0)\n"
                          "    return polkit.Result.%s;\n"
                          "});\n",
                          asker.generation, result);
  name = g_strdup_printf ("%u.rules", asker.generation);
  path = g_build_filename (g_getenv ("PRIVATE_BUS_RULES"), name, NULL);
  previous = g_build_filename (g_getenv ("PRIVATE_BUS_RULES"), previous_name, NULL);
  remove (previous);
  g_file_set_contents (path, text, -1, &error);
  g_assert_no_error (error);
}

static gboolean
is_absent (gpointer user_data)
{
  return !bus_has_name (asker.root, POLKIT);
}

static void
end_polkitd (void)
{
  g_assert_cmpint (kill (asker.polkitd, SIGKILL), ==, 0);
  bus_wait (is_absent, NULL, "the end of polkitd");
  asker.is_running = FALSE;
}

static void
start_polkitd (void)
{
  const char *const argv[] = { POLKITD, "--no-debug", NULL };
  g_autoptr (GError) error = NULL;

  g_spawn_async (NULL, (char **) argv, NULL,
                 G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
                 &asker.polkitd, &error);
  g_assert_no_error (error);
  asker.is_running = TRUE;
}

void
polkit_answer_set (PolkitAnswer answer)
{
  static const char *const results[POLKIT_N_ANSWERS] = {
    [POLKIT_DEFAULTS] = "NOT_HANDLED",
    [POLKIT_YES] = "YES",
    [POLKIT_NO] = "NO",
    [POLKIT_CHALLENGE] = "AUTH_ADMIN",
  };

  if (asker.root == NULL)
    {
      asker.root = bus_connect (0);
      asker.nobody = bus_connect (bus_next_uid ());
      asker.polkitd = atoi (g_getenv ("PRIVATE_BUS_POLKITD_PID"));
      asker.is_running = TRUE;
    }
  if (answer == POLKIT_ABSENT)
    {
      if (asker.is_running)
        end_polkitd ();
      return;
    }
  write_rules (results[answer]);
  if (!asker.is_running)
    start_polkitd ();
  bus_wait (is_in_force, &asker.generation, "polkitd reading its rules");
}

void
polkit_answer_delay (gboolean waits)
{
  g_assert_cmpint (kill (asker.polkitd, waits ? SIGSTOP : SIGCONT), ==, 0);
  if (!waits)
    bus_wait (is_in_force, &asker.generation, "polkitd going on");
}
