/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl attach: one more reader of a session, or the capture file of one that is over. */
#include "client/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "client/base/cli.h"
#include "client/base/fd.h"
#include "client/library/sonde-client.h"
#include "client/service/service-error.h"
#include "client/service/session-capture.h"
#include "client/service/session-name.h"

#define PIECE_BYTES 65536

typedef struct
{
  char *output;
  char **pids;
  char *frames;
} Options;

static void
options_clear (Options *self)
{
  g_free (self->output);
  g_strfreev (self->pids);
  g_free (self->frames);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

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
make_request (const Options *options)
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

static gboolean
write_all (int fd, const guint8 *bytes, gsize size_bytes)
{
  while (size_bytes > 0)
    {
      gssize written = write (fd, bytes, size_bytes);

      if (written < 0 && errno != EINTR)
        return FALSE;
      if (written > 0)
        {
          bytes += written;
          size_bytes -= (gsize) written;
        }
    }
  return TRUE;
}

/* To the end of the capture. */
static gboolean
copy (int from, int to, const char *name)
{
  g_autofree guint8 *bytes = g_malloc (PIECE_BYTES);
  gssize size_bytes;

  while ((size_bytes = read (from, bytes, PIECE_BYTES)) != 0)
    {
      if (size_bytes < 0 && errno != EINTR)
        {
          sonde_cli_complain ("Cannot read the capture: %s", g_strerror (errno));
          return FALSE;
        }
      if (size_bytes > 0 && !write_all (to, bytes, (gsize) size_bytes))
        {
          sonde_cli_complain ("Cannot write %s: %s", name, g_strerror (errno));
          return FALSE;
        }
    }
  return TRUE;
}

static int
attach (const Options *options, const char *path)
{
  g_autoptr (GVariant) request = make_request (options);
  g_autoptr (SondeClientProfiler) profiler = NULL;
  g_autoptr (GError) error = NULL;
  sonde_autofd int capture = -1;
  sonde_autofd int out = -1;

  if (request == NULL)
    return 1;
  g_variant_ref_sink (request);
  profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_TERMINAL, &error);
  if (profiler == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 1;
    }
  capture = sonde_session_capture_open (profiler, path, request, &error);
  if (capture < 0)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 1;
    }
  /* Not before there is a capture: a file of that name stays what it is. */
  out = g_str_equal (options->output, "-")
            ? dup (STDOUT_FILENO)
            : open (options->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (out < 0)
    {
      sonde_cli_complain ("Cannot write %s: %s", options->output, g_strerror (errno));
      return 1;
    }
  return copy (capture, out, options->output) ? 0 : 1;
}

int
sonde_cmd_attach (int argc, char **argv)
{
  g_auto (Options) options = { 0 };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
      "Where the capture goes; - is standard output", "FILE" },
    { "pid", 'p', 0, G_OPTION_ARG_STRING_ARRAY, &options.pids,
      "Only samples of this process; may be repeated", "PID" },
    { "frames", 0, 0, G_OPTION_ARG_STRING, &options.frames,
      "Only these: samples,allocations,marks,counters,logs", "KINDS" },
    G_OPTION_ENTRY_NULL,
  };
  g_autofree char *path = NULL;

  if (!sonde_cli_parse (&argc, &argv, "SESSION -o FILE",
                        "Copies the capture of a running session from now on to its end, or of one "
                        "that is over.\nSESSION is its number, as sondectl list shows it.",
                        "Example:\n  sondectl attach 1 -o session.syscap", entries, FALSE, NULL))
    return 1;
  if (argc == 2)
    path = sonde_session_name_dup_path (argv[1]);
  if (path == NULL || options.output == NULL)
    {
      sonde_cli_complain ("attach needs the number of one SESSION, as sondectl list shows it, and "
                          "-o FILE");
      return 1;
    }
  return attach (&options, path);
}
