/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What others may do with a session, and what they learn if they may not. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

#define RULES      "/etc/polkit-1/rules.d/50-test.rules"
#define NO_SESSION "/org/sonde/Profiler1/session/987654"

/* polkitd reads its rules again by itself, some time later: wait for what follows from it, when a
 * rule is set and when it is set to "false" for the next case. */
static void
set_rule (const char *condition)
{
  g_autofree char *text = g_strdup_printf ("polkit.addRule(function(action, subject) {\n"
                                           "  if (%s) return polkit.Result.YES;\n"
                                           "});\n",
                                           condition);
  g_autoptr (GError) error = NULL;

  /* Only in the mount namespace of a private bus is that not this machine's. */
  g_assert_nonnull (g_getenv ("PRIVATE_BUS_POLKITD_PID"));
  g_file_set_contents (RULES, text, -1, &error);
  g_assert_no_error (error);
  g_assert_cmpint (chmod (RULES, 0644), ==, 0);
}

/* A session of @owner; close the descriptor to end it. */
static int
start (BusUser *owner, char **session)
{
  int capture = -1;

  bus_profile_pid (owner->bus, owner->target, NULL, session, &capture);
  return capture;
}

/* What @bus is told when it asks for @name of the interface Session at @path. */
static char *
ask (GDBusConnection *bus, const char *path, const char *name, GVariant *arguments, BusUser *other)
{
  g_autoptr (GUnixFDList) fds
      = g_str_equal (name, "AddProcess") ? bus_open_proc (other->target, "maps", O_RDONLY) : NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;

  if (g_str_equal (name, "GetAll"))
    answer = g_dbus_connection_call_sync (bus, "org.sonde.Profiler1", path,
                                          "org.freedesktop.DBus.Properties", "GetAll", arguments,
                                          NULL, G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  else if (g_ascii_isupper (name[0]) && arguments == NULL && strcmp (name, "State") == 0)
    answer = bus_session_get (bus, path, name, &error);
  else
    answer = bus_session_call (bus, path, name, arguments, fds, &error);
  g_assert_null (answer);
  bus_assert_error (error, "NotAuthorized");
  return g_strdup (error->message);
}

/* A session of somebody else, one that is over, one that never was and what is no number: an
 * outsider cannot tell them apart. */
static void
test_outsider (void)
{
  static const struct
  {
    const char *name;
    const char *arguments;
  } doors[] = {
    { "Stop", NULL },        { "Pause", NULL },
    { "Resume", NULL },      { "OpenCapture", "(@a{sv} {},)" },
    { "OpenControl", NULL }, { "AddProcess", "([(uint32 1, handle 0)],)" },
    { "State", NULL },       { "GetAll", "('org.sonde.Profiler1.Session',)" },
  };
  g_auto (BusUser) owner = { 0 };
  g_auto (BusUser) other = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *finished = NULL;
  g_autofree char *words = NULL;
  int capture;

  bus_user_init (&owner, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  capture = start (&owner, &finished);
  g_variant_unref (bus_stop (owner.bus, finished));
  close (capture);
  capture = start (&owner, &session);
  for (guint i = 0; i < G_N_ELEMENTS (doors); i++)
    {
      const char *paths[] = { session, finished, NO_SESSION, "/org/sonde/Profiler1/session/x",
                              "/org/sonde/Profiler1/session/007" };

      for (guint k = 0; k < G_N_ELEMENTS (paths); k++)
        {
          GVariant *arguments
              = doors[i].arguments != NULL ? g_variant_new_parsed (doors[i].arguments) : NULL;
          g_autofree char *message = ask (other.bus, paths[k], doors[i].name, arguments, &other);

          g_test_message ("%s %s: %s", doors[i].name, paths[k], message);
          if (words == NULL)
            words = g_strdup (message);
          g_assert_cmpstr (message, ==, words);
        }
    }
  bus_assert_state (owner.bus, session, "running");
  close (capture);
}

typedef struct
{
  GDBusConnection *bus;
  const char *session;
  const char *method;
} Try;

static gboolean
is_let_in (gpointer user_data)
{
  const Try *try = user_data;
  g_autoptr (GVariant) answer
      = bus_session_call (try->bus, try->session, try->method, NULL, NULL, NULL);

  return answer != NULL;
}

static gboolean
sees_nothing (gpointer user_data)
{
  const Try *try = user_data;
  g_autofree char *listed = bus_list_all_paths (try->bus);

  return listed[0] == '\0';
}

/* manage-sessions stops and lists, and shows nothing of the content. */
static void
test_manager (void)
{
  g_auto (BusUser) owner = { 0 };
  g_auto (BusUser) manager = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *stopped = NULL;
  g_autofree char *listed = NULL;
  g_autofree char *unasked = NULL;
  g_autoptr (GError) error = NULL;
  int captures[2];

  bus_user_init (&owner, BUS_CHILD_WAIT);
  bus_user_init (&manager, BUS_CHILD_WAIT);
  captures[0] = start (&owner, &session);
  captures[1] = start (&owner, &stopped);
  set_rule ("action.id == 'org.sonde.profiler1.manage-sessions'");
  bus_wait (is_let_in, &(Try){ manager.bus, session, "Pause" }, "the manager's right");
  bus_assert_state (owner.bus, session, "paused");
  listed = bus_list_all_paths (manager.bus);
  g_assert_nonnull (strstr (listed, session));
  unasked = bus_list_paths (manager.bus);
  g_assert_cmpstr (unasked, ==, "");
  g_assert_cmpint (bus_open_capture (manager.bus, session, NULL, &error), ==, -1);
  bus_assert_error (error, "NotAuthorized");
  g_clear_error (&error);
  g_assert_null (bus_session_call (manager.bus, NO_SESSION, "Stop", NULL, NULL, &error));
  bus_assert_error (error, "NoSuchSession");
  g_variant_unref (bus_stop (manager.bus, stopped));
  set_rule ("false");
  bus_wait (sees_nothing, &(Try){ .bus = manager.bus }, "the end of the manager's right");
  for (guint i = 0; i < 2; i++)
    close (captures[i]);
}

static gboolean
can_read (gpointer user_data)
{
  const Try *try = user_data;
  int fd = bus_open_capture (try->bus, try->session, NULL, NULL);

  if (fd >= 0)
    close (fd);
  return fd >= 0;
}

static gboolean
cannot_read (gpointer user_data)
{
  return !can_read (user_data);
}

/* Who may profile others by number may read along, and no more than that. */
static void
test_reader (void)
{
  g_auto (BusUser) owner = { 0 };
  g_auto (BusUser) reader = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  int capture;

  bus_user_init (&owner, BUS_CHILD_WAIT);
  bus_user_init (&reader, BUS_CHILD_WAIT);
  capture = start (&owner, &session);
  set_rule ("action.id == 'org.sonde.profiler1.profile-others'");
  bus_wait (can_read, &(Try){ reader.bus, session, NULL }, "the reader's right");
  bus_assert_state (reader.bus, session, "running");
  g_assert_null (bus_session_call (reader.bus, session, "Stop", NULL, NULL, &error));
  bus_assert_error (error, "NotAuthorized");
  set_rule ("false");
  bus_wait (cannot_read, &(Try){ reader.bus, session, NULL }, "the end of the reader's right");
  close (capture);
}

static gboolean
can_profile (gpointer user_data)
{
  const BusUser *user = user_data;
  g_autofree char *session = NULL;
  int capture = -1;

  if (!bus_profile (
          user->bus,
          g_variant_new_parsed ("{'pids': <[%u]>, 'label': <'yes'>}", (guint32) user->target), NULL,
          &session, &capture, NULL))
    return FALSE;
  close (capture);
  return TRUE;
}

/* A rule sees what would run, and who asks. */
static void
test_details (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *rule = NULL;
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_WAIT);
  rule = g_strdup_printf (
      "action.id == 'org.sonde.profiler1.profile-others' && action.lookup('scope') == 'pids' && "
      "action.lookup('targets') == '%d' && action.lookup('target-uids') == '%d' && "
      "action.lookup('what') == 'process %d' && action.lookup('event') == 'auto' && "
      "action.lookup('frequency') == '1000' && action.lookup('duration') == '0' && "
      "action.lookup('kernel') == 'false' && action.lookup('label') == 'yes' && "
      "action.lookup('client-pid') == '%d'",
      user.target, user.uid, user.target, getpid ());
  set_rule (rule);
  bus_wait (can_profile, &user, "the right to what the rule names");
  g_assert_false (bus_profile (
      user.bus, g_variant_new_parsed ("{'pids': <[%u]>, 'label': <'no'>}", (guint32) user.target),
      NULL, &session, &capture, &error));
  bus_assert_error (error, "NotAuthorized");
  set_rule ("false");
}

static void
take_refusal (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);
  guint *n_pending = user_data;

  g_assert_null (answer);
  (*n_pending)--;
}

static gboolean
is_zero (gpointer user_data)
{
  return *(guint *) user_data == 0;
}

/* A question that nobody answers waits alone, and goes when its caller does. */
static void
test_silent_polkit (void)
{
  g_auto (BusUser) asking = { 0 };
  g_auto (BusUser) other = { 0 };
  pid_t polkitd = atoi (g_getenv ("PRIVATE_BUS_POLKITD_PID"));
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autofree char *session = NULL;
  guint n_pending = 1;
  int capture;

  bus_user_init (&asking, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  capture = start (&asking, &session);
  g_assert_cmpint (kill (polkitd, SIGSTOP), ==, 0);
  g_dbus_connection_call (asking.bus, "org.sonde.Profiler1", "/org/sonde/Profiler1",
                          "org.sonde.Profiler1.Manager", "Profile",
                          g_variant_new_parsed ("({'system': <true>},)"), NULL,
                          G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, take_refusal, &n_pending);
  for (guint i = 0; i < 50; i++)
    {
      g_autofree char *listed = bus_list_paths (other.bus);

      g_assert_cmpstr (listed, ==, "");
    }
  g_assert_cmpuint (n_pending, ==, 1);
  g_assert_true (g_dbus_connection_close_sync (asking.bus, NULL, NULL));
  bus_wait (is_zero, &n_pending, "the end of the call");
  g_assert_cmpint (kill (polkitd, SIGCONT), ==, 0);
  bus_wait (sees_nothing, &(Try){ .bus = root }, "the end of the caller's session");
  close (capture);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/rights/" path, function)
  ADD ("outsider-learns-nothing-of-sessions", test_outsider);
  ADD ("manager-stops-and-lists-and-reads-nothing", test_manager);
  ADD ("reader-reads-and-stops-nothing", test_reader);
  ADD ("rules-see-what-would-run", test_details);
  ADD ("silent-polkit-delays-nobody-else", test_silent_polkit);
#undef ADD
  return g_test_run ();
}
