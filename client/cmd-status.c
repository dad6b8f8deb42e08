/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl status: what sessions record, what they lost and what they cost. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/base/json.h"
#include "client/base/text.h"
#include "client/service/service.h"
#include "protocol/ledger.h"

#define SCHEMA_VERSION 1

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

/* What the service says of a session, or of itself; strings are of @properties. */
typedef struct
{
  GVariant *properties;
  GVariant *statistics; /* NULL: it does not say */
  guint64 session;
  const char *state;
  const char *description;
  const char *file; /* "": none */
  guint32 uid;
  guint64 start_us;
} Session;

static void
session_clear (Session *self)
{
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_pointer (&self->properties, g_variant_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Session, session_clear)

/* FALSE, having complained. */
static gboolean
session_ask (Session *self, SondeClientProfiler *profiler, guint64 session)
{
  *self = (Session){ .properties = sonde_service_dup_properties (profiler, session),
                     .session = session,
                     .state = "?",
                     .description = "?",
                     .file = "" };
  if (self->properties == NULL)
    return FALSE;
  self->statistics
      = g_variant_lookup_value (self->properties, "Statistics", G_VARIANT_TYPE ("a{st}"));
  g_variant_lookup (self->properties, "State", "&s", &self->state);
  g_variant_lookup (self->properties, "Description", "&s", &self->description);
  g_variant_lookup (self->properties, "CaptureFile", "&s", &self->file);
  g_variant_lookup (self->properties, "Owner", "u", &self->uid);
  g_variant_lookup (self->properties, "StartTime", "t", &self->start_us);
  return TRUE;
}

static void
append_session (GString *out, const Session *session)
{
  g_autofree char *owner = sonde_service_dup_owner (session->uid);
  g_autofree char *start = sonde_service_dup_time (session->start_us);
  g_autofree char *line = g_strdup_printf ("%" G_GUINT64_FORMAT ": %s, of %s since %s",
                                           session->session, session->state, owner, start);
  g_autofree char *shown = sonde_text_escape (session->description, -1);
  g_autofree char *shown_file = sonde_text_escape (session->file, -1);
  g_autofree char *cost = NULL;

  sonde_text_append_labelled (out, "Session", line);
  sonde_text_append_labelled (out, "Records", shown);
  if (*session->file != '\0')
    sonde_text_append_labelled (out, "Capture", shown_file);
  if (session->statistics == NULL)
    return;
  append_recorded (out, session->statistics);
  append_lost (out, session->statistics);
  append_recorder (out, session->statistics);
  cost = dup_cost (session->statistics, "worker-cpu-us", "worker-memory-bytes");
  if (cost != NULL)
    sonde_text_append_labelled (out, "Worker", cost);
}

static void
add_statistics (SondeJson *json, GVariant *statistics)
{
  GVariantIter iter;
  const char *name;
  guint64 value;

  sonde_json_begin_object (json, "statistics");
  if (statistics != NULL)
    {
      g_variant_iter_init (&iter, statistics);
      while (g_variant_iter_next (&iter, "{&st}", &name, &value))
        {
          g_autofree char *shown = sonde_text_escape (name, -1);

          sonde_json_add_number (json, shown, (gint64) MIN (value, (guint64) G_MAXINT64));
        }
    }
  sonde_json_end_object (json);
}

static void
add_session (SondeJson *json, const Session *session)
{
  g_autofree char *owner = sonde_service_dup_owner (session->uid);

  sonde_json_begin_object (json, NULL);
  sonde_json_add_number (json, "session", (gint64) session->session);
  sonde_json_add_number (json, "uid", session->uid);
  sonde_json_add_escaped (json, "owner", owner);
  sonde_json_add_escaped (json, "state", session->state);
  sonde_json_add_number (json, "start-us", (gint64) session->start_us);
  sonde_json_add_escaped (json, "description", session->description);
  sonde_json_add_escaped (json, "capture", session->file);
  add_statistics (json, session->statistics);
  sonde_json_end_object (json);
}

/* "Service   sonded 0.2.0: 0.31 s of CPU, 23.0 MiB" */
static void
append_service (GString *out, const Session *service, const char *version)
{
  g_autofree char *shown = sonde_text_escape (version, -1);
  g_autofree char *cost
      = service->statistics != NULL
            ? dup_cost (service->statistics, "daemon-cpu-us", "daemon-memory-bytes")
            : NULL;

  g_string_append_printf (out, "%-10ssonded %s%s%s\n", "Service", shown, cost != NULL ? ": " : "",
                          cost != NULL ? cost : "");
}

/* guint64: the numbers of all that the caller may see; NULL, having complained. */
static GArray *
find_sessions (SondeClientProfiler *profiler)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) sessions
      = sonde_client_profiler_list_sessions_sync (profiler, FALSE, NULL, &error);
  GArray *numbers;

  if (sessions == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return NULL;
    }
  numbers = g_array_new (FALSE, FALSE, sizeof (guint64));
  for (gsize i = 0; i < g_variant_n_children (sessions); i++)
    {
      const char *path;
      guint64 number;

      g_variant_get_child (sessions, i, "(&ousts)", &path, NULL, NULL, NULL, NULL);
      number = sonde_client_session_number (path);
      g_array_append_val (numbers, number);
    }
  return numbers;
}

/* FALSE, having complained; what could be had is in @out all the same.
 * @session: 0: all that the caller may see */
static gboolean
append_status (GString *out, SondeClientProfiler *profiler, guint64 session, gboolean as_json)
{
  SondeJson json = SONDE_JSON_INIT (out);
  g_auto (Session) service = { 0 };
  g_autoptr (GArray) numbers = NULL;
  const char *version = "?";
  gboolean is_good = TRUE;

  if (!session_ask (&service, profiler, 0))
    return FALSE;
  g_variant_lookup (service.properties, "Version", "&s", &version);
  if (session != 0)
    {
      numbers = g_array_new (FALSE, FALSE, sizeof (guint64));
      g_array_append_val (numbers, session);
    }
  else
    numbers = find_sessions (profiler);
  if (as_json)
    {
      sonde_json_begin_object (&json, NULL);
      sonde_json_add_number (&json, "version", SCHEMA_VERSION);
      sonde_json_begin_object (&json, "service");
      sonde_json_add_escaped (&json, "version", version);
      add_statistics (&json, service.statistics);
      sonde_json_end_object (&json);
      sonde_json_begin_array (&json, "sessions");
    }
  else
    append_service (out, &service, version);
  if (!as_json && numbers != NULL && numbers->len == 0)
    g_string_append (out, "No sessions.\n");
  for (guint i = 0; numbers != NULL && i < numbers->len; i++)
    {
      g_auto (Session) one = { 0 };

      if (!as_json && session == 0)
        g_string_append_c (out, '\n');
      if (!session_ask (&one, profiler, g_array_index (numbers, guint64, i)))
        is_good = FALSE;
      else if (as_json)
        add_session (&json, &one);
      else
        append_session (out, &one);
    }
  if (as_json)
    {
      sonde_json_end_array (&json);
      sonde_json_end_object (&json);
      g_string_append_c (out, '\n');
    }
  return is_good && numbers != NULL;
}

int
sonde_cmd_status (int argc, char **argv)
{
  gboolean as_json = FALSE;
  const GOptionEntry entries[]
      = { { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "For programs", NULL },
          G_OPTION_ENTRY_NULL };
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
  is_good = append_status (out, profiler, session, as_json);
  return sonde_cli_print (out) && is_good ? 0 : 1;
}
