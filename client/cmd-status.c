/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl status: what sessions record, what they lost and what they cost. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/service/service.h"
#include "protocol/ledger.h"

/* What is lost for good, by the ledger's names; frames of readers are the readers' own. */
static const SondeLedger losses[]
    = { SONDE_LEDGER_LOST_KERNEL,      SONDE_LEDGER_LOST_RING,      SONDE_LEDGER_LOST_QUEUE,
        SONDE_LEDGER_EVENTS_LOST_RING, SONDE_LEDGER_EVENTS_REFUSED, SONDE_LEDGER_STREAM_LOST };

static void
append_recorded (GString *out, GVariant *statistics)
{
  guint64 n_events = sonde_service_count (statistics, "events-recorded");
  g_autofree char *samples
      = sonde_text_plural (sonde_service_count (statistics, "recorded"), "sample", "samples");
  g_autofree char *events = sonde_text_plural (n_events, "event", "events");
  g_autofree char *processes
      = sonde_text_plural (sonde_service_count (statistics, "processes"), "process", "processes");
  g_autofree char *line = g_strdup_printf ("%s%s%s of %s", samples, n_events > 0 ? " and " : "",
                                           n_events > 0 ? events : "", processes);

  sonde_text_append_labelled (out, "Recorded", line);
}

static void
append_lost (GString *out, GVariant *statistics)
{
  g_autoptr (GString) line = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    {
      const char *name = sonde_ledger_name (losses[i]);
      guint64 n = sonde_service_count (statistics, name);

      if (n > 0)
        g_string_append_printf (line, "%s%s %" G_GUINT64_FORMAT, line->len > 0 ? ", " : "", name,
                                n);
    }
  sonde_text_append_labelled (out, "Lost", line->len > 0 ? line->str : "nothing");
}

/* "the last 30.1 s, in 2.3 MiB; 1,234 frames have gone"; nothing of a session without a recorder */
static void
append_recorder (GString *out, GVariant *statistics)
{
  guint64 length_us = sonde_service_count (statistics, "recorder-us");
  g_autofree char *length = sonde_text_duration ((gint64) length_us * 1000);
  g_autofree char *size = sonde_text_size (sonde_service_count (statistics, "recorder-bytes"));
  g_autofree char *gone
      = sonde_text_plural (sonde_service_count (statistics, "recorder-gone"),
                           "frame from before is gone", "frames from before are gone");
  g_autofree char *line = g_strdup_printf ("the last %s, in %s; %s", length, size, gone);

  if (length_us > 0)
    sonde_text_append_labelled (out, "Recorder", line);
}

/* "0.31 s of CPU, 23.0 MiB"; NULL: the service does not say */
static char *
dup_cost (GVariant *statistics, const char *cpu_key, const char *memory_key)
{
  g_autofree char *size = sonde_text_size (sonde_service_count (statistics, memory_key));
  guint64 cpu_us;

  if (!g_variant_lookup (statistics, cpu_key, "t", &cpu_us))
    return NULL;
  return g_strdup_printf ("%.2f s of CPU, %s", (double) cpu_us / 1e6, size);
}

/* FALSE, having complained. */
static gboolean
append_session (GString *out, SondeClientProfiler *profiler, guint64 session)
{
  g_autoptr (GVariant) properties = sonde_service_dup_properties (profiler, session);
  g_autoptr (GVariant) statistics = NULL;
  const char *state = "?", *description = "?", *file = "";
  guint32 uid = 0;
  guint64 start_us = 0;
  g_autofree char *owner = NULL;
  g_autofree char *start = NULL;
  g_autofree char *line = NULL;
  g_autofree char *shown = NULL;
  g_autofree char *shown_file = NULL;
  g_autofree char *cost = NULL;

  if (properties == NULL)
    return FALSE;
  g_variant_lookup (properties, "State", "&s", &state);
  g_variant_lookup (properties, "Description", "&s", &description);
  g_variant_lookup (properties, "CaptureFile", "&s", &file);
  g_variant_lookup (properties, "Owner", "u", &uid);
  g_variant_lookup (properties, "StartTime", "t", &start_us);
  owner = sonde_service_dup_owner (uid);
  start = sonde_service_dup_time (start_us);
  line
      = g_strdup_printf ("%" G_GUINT64_FORMAT ": %s, of %s since %s", session, state, owner, start);
  shown = sonde_text_escape (description, -1);
  shown_file = sonde_text_escape (file, -1);
  sonde_text_append_labelled (out, "Session", line);
  sonde_text_append_labelled (out, "Records", shown);
  if (*file != '\0')
    sonde_text_append_labelled (out, "Capture", shown_file);
  statistics = g_variant_lookup_value (properties, "Statistics", G_VARIANT_TYPE ("a{st}"));
  if (statistics == NULL)
    return TRUE;
  append_recorded (out, statistics);
  append_lost (out, statistics);
  append_recorder (out, statistics);
  cost = dup_cost (statistics, "worker-cpu-us", "worker-memory-bytes");
  if (cost != NULL)
    sonde_text_append_labelled (out, "Worker", cost);
  return TRUE;
}

/* "Service   sonded 0.2.0: 0.31 s of CPU, 23.0 MiB"; FALSE, having complained. */
static gboolean
append_service (GString *out, SondeClientProfiler *profiler)
{
  g_autoptr (GVariant) properties = sonde_service_dup_properties (profiler, 0);
  g_autoptr (GVariant) statistics = NULL;
  const char *version = "?";
  g_autofree char *shown = NULL;
  g_autofree char *cost = NULL;

  if (properties == NULL)
    return FALSE;
  g_variant_lookup (properties, "Version", "&s", &version);
  shown = sonde_text_escape (version, -1);
  statistics = g_variant_lookup_value (properties, "Statistics", G_VARIANT_TYPE ("a{st}"));
  if (statistics != NULL)
    cost = dup_cost (statistics, "daemon-cpu-us", "daemon-memory-bytes");
  g_string_append_printf (out, "%-10ssonded %s%s%s\n", "Service", shown, cost != NULL ? ": " : "",
                          cost != NULL ? cost : "");
  return TRUE;
}

/* All that the caller may see. */
static gboolean
append_sessions (GString *out, SondeClientProfiler *profiler)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) sessions
      = sonde_client_profiler_list_sessions_sync (profiler, FALSE, NULL, &error);
  gsize n_sessions = sessions != NULL ? g_variant_n_children (sessions) : 0;
  gboolean is_good = TRUE;

  if (sessions == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return FALSE;
    }
  if (n_sessions == 0)
    g_string_append (out, "No sessions.\n");
  for (gsize i = 0; i < n_sessions; i++)
    {
      const char *path;

      g_variant_get_child (sessions, i, "(&ousts)", &path, NULL, NULL, NULL, NULL);
      g_string_append_c (out, '\n');
      is_good = append_session (out, profiler, sonde_client_session_number (path)) && is_good;
    }
  return is_good;
}

int
sonde_cmd_status (int argc, char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr (SondeClientProfiler) profiler = NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  guint64 session = 0;
  gboolean is_good;

  if (!sonde_cli_parse (&argc, &argv, "[SESSION]",
                        "Shows what a session records, what it lost and what it costs: of the one "
                        "whose number, as sondectl list shows it, is given, or of all of yours.",
                        "Example:\n  sondectl status", entries, FALSE, NULL))
    return 1;
  if (argc == 2)
    session = sonde_client_session_number (argv[1]);
  if (argc > 2 || (argc == 2 && session == 0))
    {
      sonde_cli_complain ("status takes the number of one SESSION; sondectl list shows them");
      return 1;
    }
  profiler
      = sonde_service_connect (session != 0 ? SONDE_CLIENT_ASK_TERMINAL : SONDE_CLIENT_ASK_NOBODY);
  if (profiler == NULL)
    return 1;
  is_good = append_service (out, profiler)
            && (session != 0 ? append_session (out, profiler, session)
                             : append_sessions (out, profiler));
  return sonde_cli_print (out) && is_good ? 0 : 1;
}
