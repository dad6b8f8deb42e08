/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl pause, resume and stop: what becomes of a session. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/service/service.h"

#define POLL_US (50 * 1000)

/* The only argument; 0, having complained. */
static guint64
parse_session (int argc, char **argv, const char *summary, const char *example)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autofree char *command = g_strdup (argv[0]);
  guint64 session = 0;

  if (!sonde_cli_parse (&argc, &argv, "SESSION", summary, example, entries, FALSE, NULL))
    return 0;
  if (argc == 2)
    session = sonde_client_session_number (argv[1]);
  if (session == 0)
    sonde_cli_complain ("%s needs the number of one SESSION; sondectl list shows them", command);
  return session;
}

static int
switch_session (guint64 session, gboolean is_pause)
{
  g_autoptr (SondeClientProfiler) profiler = sonde_service_connect (SONDE_CLIENT_ASK_TERMINAL);
  g_autoptr (GString) out = g_string_new (is_pause ? "Paused" : "Resumed");
  g_autoptr (GError) error = NULL;

  if (profiler == NULL)
    return 1;
  if (!(is_pause ? sonde_client_profiler_pause_session_sync (profiler, session, NULL, &error)
                 : sonde_client_profiler_resume_session_sync (profiler, session, NULL, &error)))
    return sonde_service_fail (profiler, session, error);
  g_string_append_printf (out, " session %" G_GUINT64_FORMAT "\n", session);
  return sonde_cli_print (out) ? 0 : 1;
}

int
sonde_cmd_pause (int argc, char **argv)
{
  guint64 session
      = parse_session (argc, argv,
                       "Samples nothing until resume; processes are followed, so that the capture "
                       "can be read afterwards. SESSION is its number, as sondectl list shows it.",
                       "Example:\n  sondectl pause 1");

  return session != 0 ? switch_session (session, TRUE) : 1;
}

int
sonde_cmd_resume (int argc, char **argv)
{
  guint64 session = parse_session (argc, argv,
                                   "Samples again, after pause. SESSION is its number, as "
                                   "sondectl list shows it.",
                                   "Example:\n  sondectl resume 1");

  return session != 0 ? switch_session (session, FALSE) : 1;
}

/* Stop has answered; the rest of the capture, names above all, is still being written. The service
 * bounds how long that takes. @file: (out): of the capture; NULL: none, or the session is gone */
static void
wait_for_end (SondeClientProfiler *profiler, guint64 session, char **file)
{
  for (;;)
    {
      g_autoptr (GVariant) properties
          = sonde_client_profiler_dup_properties_sync (profiler, session, NULL, NULL);
      const char *state;

      if (properties == NULL)
        return;
      g_clear_pointer (file, g_free);
      g_variant_lookup (properties, "CaptureFile", "s", file);
      if (!g_variant_lookup (properties, "State", "&s", &state) || !g_str_equal (state, "draining"))
        return;
      g_usleep (POLL_US);
    }
}

int
sonde_cmd_stop (int argc, char **argv)
{
  guint64 session = parse_session (argc, argv,
                                   "Ends a session of the system's service. SESSION is its "
                                   "number, as sondectl list shows it.",
                                   "Example:\n  sondectl stop 1");
  g_autoptr (SondeClientProfiler) profiler
      = session != 0 ? sonde_service_connect (SONDE_CLIENT_ASK_TERMINAL) : NULL;
  g_autoptr (GVariant) statistics = NULL;
  g_autofree char *file = NULL;
  g_autoptr (GError) error = NULL;
  guint64 n_lost;
  g_autofree char *samples = NULL;
  g_autofree char *lost = NULL;
  g_autoptr (GString) out = NULL;

  if (profiler == NULL)
    return 1;
  statistics = sonde_client_profiler_stop_session_sync (profiler, session, NULL, &error);
  if (statistics == NULL)
    return sonde_service_fail (profiler, session, error);
  wait_for_end (profiler, session, &file);
  n_lost = sonde_service_count (statistics, "lost-kernel")
           + sonde_service_count (statistics, "lost-ring")
           + sonde_service_count (statistics, "lost-queue");
  samples = sonde_text_plural (sonde_service_count (statistics, "recorded"), "sample", "samples");
  lost = n_lost > 0 ? sonde_text_count (n_lost) : g_strdup ("none");
  out = g_string_new (NULL);
  g_string_append_printf (out, "Stopped session %" G_GUINT64_FORMAT ": %s, %s lost\n", session,
                          samples, lost);
  if (file != NULL && *file != '\0')
    g_string_append_printf (out, "%s\n", file);
  return sonde_cli_print (out) ? 0 : 1;
}
