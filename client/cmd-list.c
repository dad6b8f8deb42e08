/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl list: the sessions that the caller may see. */
#include "client/commands.h"

#include <pwd.h>

#include "client/base/cli.h"
#include "client/library/sonde-client.h"
#include "client/service/service-error.h"
#include "client/service/session-name.h"
#include "client/base/text.h"

static char *
dup_owner (guint32 uid)
{
  const struct passwd *user = getpwuid (uid);

  return user != NULL ? g_strdup (user->pw_name) : g_strdup_printf ("%u", uid);
}

/* Description holds another user's label: escaped, as all that comes from elsewhere. */
static void
append_session (GString *out, GVariant *session)
{
  const char *path, *state, *description;
  guint32 uid;
  guint64 start_us;
  g_autofree char *owner = NULL;
  g_autofree char *time = NULL;
  g_autofree char *shown_state = NULL;
  g_autofree char *shown = NULL;
  g_autoptr (GDateTime) start = NULL;

  g_variant_get (session, "(&ou&st&s)", &path, &uid, &state, &start_us, &description);
  owner = dup_owner (uid);
  start = g_date_time_new_from_unix_local ((gint64) (start_us / G_USEC_PER_SEC));
  time = start != NULL ? g_date_time_format (start, "%Y-%m-%d %H:%M:%S") : g_strdup ("-");
  shown_state = sonde_text_escape (state, -1);
  shown = sonde_text_escape (description, -1);
  g_string_append_printf (out, "%7s  %-12s %-9s %-19s  %s\n", sonde_session_name_short (path),
                          owner, shown_state, time, shown);
}

static int
print_sessions (GVariant *sessions)
{
  g_autoptr (GString) out = g_string_new (NULL);
  gsize n_sessions = g_variant_n_children (sessions);

  if (n_sessions == 0)
    g_string_append (out, "No sessions.\n");
  else
    g_string_append_printf (out, "%7s  %-12s %-9s %-19s  %s\n", "SESSION", "OWNER", "STATE",
                            "STARTED", "DESCRIPTION");
  for (gsize i = 0; i < n_sessions; i++)
    {
      g_autoptr (GVariant) session = g_variant_get_child_value (sessions, i);

      append_session (out, session);
    }
  return sonde_cli_print (out) ? 0 : 1;
}

/* a(ousts), or NULL with @error */
static GVariant *
list_sessions (gboolean all, GError **error)
{
  g_autoptr (SondeClientProfiler) profiler = sonde_client_profiler_new_bus (
      all ? SONDE_CLIENT_ASK_TERMINAL : SONDE_CLIENT_ASK_NOBODY, error);
  g_autoptr (GVariant) answer = NULL;

  if (profiler == NULL)
    return NULL;
  answer = g_dbus_connection_call_sync (
      sonde_client_profiler_get_connection (profiler),
      sonde_client_profiler_get_bus_name (profiler), "/org/sonde/Profiler1",
      "org.sonde.Profiler1.Manager", "ListSessions", NULL, G_VARIANT_TYPE ("(a(ousts))"),
      all ? G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION : G_DBUS_CALL_FLAGS_NONE, G_MAXINT,
      NULL, error);
  return answer != NULL ? g_variant_get_child_value (answer, 0) : NULL;
}

int
sonde_cmd_list (int argc, char **argv)
{
  gboolean all = FALSE;
  const GOptionEntry entries[]
      = { { "all", 'a', 0, G_OPTION_ARG_NONE, &all, "Ask for the right to see everybody's", NULL },
          G_OPTION_ENTRY_NULL };
  g_autoptr (GVariant) sessions = NULL;
  g_autoptr (GError) error = NULL;

  if (!sonde_cli_parse (&argc, &argv, NULL,
                        "Lists your own sessions of the system's service, or everybody's.",
                        "Example:\n  sondectl list", entries, FALSE, NULL))
    return 1;
  if (argc != 1)
    {
      sonde_cli_complain ("list takes no arguments; see sondectl list --help");
      return 1;
    }
  sessions = list_sessions (all, &error);
  if (sessions == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 1;
    }
  return print_sessions (sessions);
}
