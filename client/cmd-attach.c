/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl attach and snapshot: what a session records, or its recorder has, as a capture of our
 * own. */
#include "client/commands.h"

#include <errno.h>
#include <signal.h>

#include "base/fd.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/model/capture-sink.h"
#include "client/service/service.h"

#define PIECE_BYTES    65536
#define MAX_NAME_TRIES 100

typedef struct
{
  char *output;
  char **pids;
  char *frames;
} AttachOptions;

static void
options_clear (AttachOptions *self)
{
  g_free (self->output);
  g_strfreev (self->pids);
  g_free (self->frames);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AttachOptions, options_clear)

/* What is out of range is the service's to refuse. */
static gboolean
add_pids (GVariantBuilder *request, char **texts)
{
  GVariantBuilder pids;

  if (texts == NULL)
    return TRUE;
  g_variant_builder_init (&pids, G_VARIANT_TYPE ("au"));
  for (guint i = 0; texts[i] != NULL; i++)
    {
      guint64 pid;

      if (!g_ascii_string_to_unsigned (texts[i], 10, 1, G_MAXINT32, &pid, NULL))
        {
          sonde_cli_complain ("%s is not the number of a process", texts[i]);
          g_variant_builder_clear (&pids);
          return FALSE;
        }
      g_variant_builder_add (&pids, "u", (guint32) pid);
    }
  g_variant_builder_add (request, "{sv}", "pids", g_variant_builder_end (&pids));
  return TRUE;
}

/* (transfer floating) (nullable): a{sv} of OpenCapture */
static GVariant *
make_request (const AttachOptions *options)
{
  g_auto (GVariantBuilder) request = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);

  if (!add_pids (&request, options->pids))
    return NULL;
  if (options->frames != NULL)
    {
      g_auto (GStrv) kinds = g_strsplit (options->frames, ",", -1);

      g_variant_builder_add (&request, "{sv}", "frames",
                             g_variant_new_strv ((const char *const *) kinds, -1));
    }
  return g_variant_builder_end (&request);
}

/* To the end of the capture, or of the room for it. */
static gboolean
copy (int from, SondeCaptureSink *sink, const char *name)
{
  g_autofree guint8 *bytes = g_malloc (PIECE_BYTES);
  g_autoptr (GError) error = NULL;
  gssize size_bytes;

  while (error == NULL && (size_bytes = read (from, bytes, PIECE_BYTES)) != 0)
    if (size_bytes > 0)
      sonde_capture_sink_add (sink, bytes, (gsize) size_bytes, &error);
    else if (errno != EINTR)
      g_set_error (&error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot read the capture: %s",
                   g_strerror (errno));
  sonde_capture_sink_finish (sink);
  if (error != NULL)
    sonde_cli_complain ("%s: %s", name, error->message);
  return error == NULL;
}

/* Of @capture. @output: where to; it stays what it was before there is something to write */
static int
write_capture (int capture, SondeOutput *output)
{
  g_autoptr (SondeCaptureSink) sink = sonde_capture_sink_new (sonde_output_fd (output));
  g_autoptr (GError) error = NULL;
  gboolean is_whole;

  signal (SIGPIPE, SIG_IGN);
  is_whole = copy (capture, sink, sonde_output_name (output));
  if (sonde_capture_sink_kept (sink)->n_bytes > 0 && !sonde_output_close (output, &error))
    sonde_cli_complain ("%s", error->message);
  return is_whole && error == NULL ? 0 : 1;
}

static int
attach (const AttachOptions *options, guint64 session)
{
  g_autoptr (GVariant) request = make_request (options);
  g_autoptr (SondeClientProfiler) profiler = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOutput) output = NULL;
  sonde_autofd int capture = -1;

  if (request == NULL || sonde_output_refuse_terminal (options->output, "a capture"))
    return 1;
  g_variant_ref_sink (request);
  profiler = sonde_service_connect (SONDE_CLIENT_ASK_TERMINAL);
  if (profiler == NULL)
    return 1;
  capture = sonde_client_profiler_attach_sync (profiler, session, request, NULL, &error);
  if (capture < 0)
    return sonde_service_fail (profiler, session, error);
  /* Not before there is a capture: a file of that name stays what it is. */
  output = sonde_output_open (options->output, SONDE_OUTPUT_IN_PLACE, &error);
  if (output == NULL)
    return sonde_cli_fail (error);
  return write_capture (capture, output);
}

int
sonde_cmd_attach (int argc, char **argv)
{
  g_auto (AttachOptions) options = { 0 };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
      "Where the capture goes; - is standard output", "FILE" },
    { "pid", 'p', 0, G_OPTION_ARG_STRING_ARRAY, &options.pids,
      "Only samples of this process; may be repeated", "PID" },
    { "frames", 0, 0, G_OPTION_ARG_STRING, &options.frames,
      "Only these: samples,allocations,marks,counters,logs", "KINDS" },
    G_OPTION_ENTRY_NULL,
  };
  guint64 session = 0;

  if (!sonde_cli_parse (&argc, &argv, "SESSION -o FILE",
                        "Copies the capture of a running session from now on to its end, or of one "
                        "that is over.\nSESSION is its number, as sondectl list shows it.",
                        "Example:\n  sondectl attach 1 -o session.syscap", entries, FALSE, NULL))
    return 1;
  if (argc == 2)
    session = sonde_client_session_number (argv[1]);
  if (session == 0 || options.output == NULL)
    {
      sonde_cli_complain ("attach needs the number of one SESSION, as sondectl list shows it, and "
                          "-o FILE");
      return 1;
    }
  return attach (&options, session);
}

/* --- snapshot --- */

/* The caller's only one that has a recorder; 0, having complained. */
static guint64
find_recorder (SondeClientProfiler *profiler)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) sessions
      = sonde_client_profiler_list_sessions_sync (profiler, FALSE, NULL, &error);
  gsize n_sessions = sessions != NULL ? g_variant_n_children (sessions) : 0;
  guint64 found = 0;
  guint n_found = 0;

  if (sessions == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 0;
    }
  for (gsize i = 0; i < n_sessions; i++)
    {
      g_autoptr (GVariant) properties = NULL;
      g_autoptr (GVariant) options = NULL;
      const char *path, *state;

      g_variant_get_child (sessions, i, "(&ou&sts)", &path, NULL, &state, NULL, NULL);
      if (!g_str_equal (state, "running") && !g_str_equal (state, "paused"))
        continue;
      properties = sonde_client_profiler_dup_properties_sync (
          profiler, sonde_client_session_number (path), NULL, NULL);
      if (properties != NULL)
        options = g_variant_lookup_value (properties, "Options", G_VARIANT_TYPE_VARDICT);
      if (options == NULL || !g_variant_lookup (options, "recorder-bytes", "t", NULL))
        continue;
      found = sonde_client_session_number (path);
      n_found++;
    }
  if (n_found == 1)
    return found;
  sonde_cli_complain (n_found == 0 ? "No session has a recorder: sondectl start --recorder=30s ..."
                                   : "Several sessions have recorders: snapshot needs the number "
                                     "of one SESSION; sondectl list shows them");
  return 0;
}

/* @path: NULL: a new file in this folder, whose name is printed */
static SondeOutput *
open_snapshot (const char *path, char **made_up, GError **error)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *time = g_date_time_format (now, "%Y%m%d-%H%M%S");
  SondeOutput *output = NULL;

  if (path != NULL)
    return sonde_output_open (path, SONDE_OUTPUT_IN_PLACE, error);
  /* A name of our own never replaces a file. */
  for (guint i = 1; output == NULL && i <= MAX_NAME_TRIES; i++)
    {
      g_free (*made_up);
      *made_up = i == 1 ? g_strdup_printf ("sonde-snapshot-%s.syscap", time)
                        : g_strdup_printf ("sonde-snapshot-%s-%u.syscap", time, i);
      g_clear_error (error);
      output = sonde_output_open (*made_up, SONDE_OUTPUT_NEW, error);
      if (output == NULL && !g_error_matches (*error, G_FILE_ERROR, G_FILE_ERROR_EXIST))
        break;
    }
  return output;
}

static int
take_snapshot (const char *path, guint64 session)
{
  g_autoptr (SondeClientProfiler) profiler = sonde_service_connect (SONDE_CLIENT_ASK_TERMINAL);
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOutput) output = NULL;
  g_autofree char *made_up = NULL;
  g_autoptr (GString) out = NULL;
  sonde_autofd int capture = -1;

  if (profiler == NULL)
    return 1;
  if (session == 0)
    session = find_recorder (profiler);
  if (session == 0)
    return 1;
  capture = sonde_client_profiler_snapshot_sync (profiler, session, NULL, &error);
  if (capture < 0)
    return sonde_service_fail (profiler, session, error);
  output = open_snapshot (path, &made_up, &error);
  if (output == NULL)
    return sonde_cli_fail (error);
  if (write_capture (capture, output) != 0)
    return 1;
  if (path != NULL)
    return 0;
  out = g_string_new (made_up);
  g_string_append_c (out, '\n');
  return sonde_cli_print (out) ? 0 : 1;
}

int
sonde_cmd_snapshot (int argc, char **argv)
{
  g_autofree char *path = NULL;
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
      "Where the capture goes (a new file); - is standard output", "FILE" },
    G_OPTION_ENTRY_NULL,
  };
  guint64 session = 0;

  if (!sonde_cli_parse (&argc, &argv, "[SESSION]",
                        "Writes what the recorder of a session has at this moment: a whole "
                        "capture, while the session "
                        "goes on.\nSESSION is its number, as sondectl list shows it; it can be "
                        "left out if only one "
                        "has a recorder.",
                        "Example:\n  sondectl snapshot 1 -o before.syscap", entries, FALSE, NULL))
    return 1;
  if (argc == 2)
    session = sonde_client_session_number (argv[1]);
  if (argc > 2 || (argc == 2 && session == 0))
    {
      sonde_cli_complain ("snapshot takes the number of one SESSION; sondectl list shows them");
      return 1;
    }
  if (path != NULL && sonde_output_refuse_terminal (path, "a capture"))
    return 1;
  return take_snapshot (path, session);
}
