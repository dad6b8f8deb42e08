/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl import: a capture of what another profiler recorded. */
#include "client/commands.h"

#include <gio/gio.h>
#include <string.h>

#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/base/text.h"
#include "client/import/import.h"

#define PERF_MAGIC     "PERFILE2"
#define MAX_FILE_BYTES (1u << 30) /* of a profile, or of text */

/* What perf script prints of @path; FALSE, as @error says, if there is no perf or it refuses. */
static gboolean
run_perf_script (const char *path, char **text, gsize *size_bytes, GError **error)
{
  /* Not all events have a period, and perf then prints nothing. */
  static const char *const fields[]
      = { "comm,pid,tid,time,period,event,ip,sym,dso", "comm,pid,tid,time,event,ip,sym,dso" };
  g_autofree char *complaint = NULL;
  g_autofree char *shown = sonde_text_escape (path, -1);
  gboolean is_good = FALSE;

  for (gsize i = 0; i < G_N_ELEMENTS (fields) && !is_good; i++)
    {
      g_autoptr (GSubprocess) perf
          = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                              error, "perf", "script", "--input", path, "--ns", "--no-inline",
                              "--show-task-events", "--fields", fields[i], NULL);
      g_autoptr (GBytes) out = NULL;
      g_autoptr (GBytes) err = NULL;

      if (perf == NULL)
        {
          g_prefix_error (error, "%s is read through perf script: ", shown);
          return FALSE;
        }
      if (!g_subprocess_communicate (perf, NULL, NULL, &out, &err, error))
        return FALSE;
      is_good = g_subprocess_get_successful (perf) && g_bytes_get_size (out) > 0;
      if (is_good)
        {
          *size_bytes = g_bytes_get_size (out);
          *text = g_malloc (*size_bytes + 1);
          memcpy (*text, g_bytes_get_data (out, NULL), *size_bytes);
          (*text)[*size_bytes] = '\0';
        }
      g_free (complaint);
      complaint = g_strndup (g_bytes_get_size (err) > 0 ? g_bytes_get_data (err, NULL) : "",
                             g_bytes_get_size (err));
    }
  if (!is_good)
    {
      g_autofree char *said = sonde_text_escape (g_strstrip (complaint), -1);

      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "perf script cannot read %s: %s",
                   shown, said[0] != '\0' ? said : "it says nothing");
    }
  return is_good;
}

/* Text has no bytes that protobuf begins with. */
static gboolean
is_text (const char *bytes, gsize size_bytes)
{
  for (gsize i = 0; i < MIN (size_bytes, 64); i++)
    if ((guint8) bytes[i] < ' ' && bytes[i] != '\t' && bytes[i] != '\r' && bytes[i] != '\n')
      return FALSE;
  return size_bytes > 0;
}

static gboolean
import (const char *path, SondeOutput *output, SondeImported *imported, GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  g_autofree char *text = NULL;
  g_autofree char *shown = sonde_text_escape (path, -1);
  const char *bytes;
  gsize size_bytes;
  gboolean is_script;

  if (file == NULL)
    return FALSE;
  bytes = g_mapped_file_get_contents (file);
  size_bytes = g_mapped_file_get_length (file);
  if (size_bytes == 0 || size_bytes > MAX_FILE_BYTES)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                   size_bytes == 0 ? "%s is empty" : "%s is larger than 1 GiB", shown);
      return FALSE;
    }
  is_script = is_text (bytes, size_bytes);
  if (size_bytes >= strlen (PERF_MAGIC) && memcmp (bytes, PERF_MAGIC, strlen (PERF_MAGIC)) == 0)
    {
      if (!run_perf_script (path, &text, &size_bytes, error))
        return FALSE;
      bytes = text;
      is_script = TRUE;
    }
  if (is_script
          ? !sonde_import_perf_script (bytes, size_bytes, path, output, imported, error)
          : !sonde_import_pprof ((const guint8 *) bytes, size_bytes, path, output, imported, error))
    return FALSE;
  return sonde_import_close (imported->import, imported->event, imported->period, error);
}

int
sonde_cmd_import (int argc, char **argv)
{
  g_autofree char *path_out = NULL;
  const GOptionEntry entries[]
      = { { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path_out,
            "Write to OUTPUT, replacing it (-, standard output)", "OUTPUT" },
          G_OPTION_ENTRY_NULL };
  const char *path = sonde_cli_parse_file (
      argc, argv,
      "Makes a capture of what perf record or a pprof profile has: perf.data, the\n"
      "text of perf script, or profile.proto, compressed or not.",
      "Example:\n  sondectl import perf.data -o perf.syscap", entries);
  g_autoptr (SondeOutput) output = NULL;
  g_autoptr (SondeImport) owned = NULL;
  g_autofree char *event = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *samples = NULL;
  g_autofree char *blocks = NULL;
  SondeImported imported = { 0 };
  gboolean is_good;

  if (path == NULL)
    return 1;
  if (path_out == NULL)
    path_out = g_strconcat (path, ".syscap", NULL);
  if (sonde_output_refuse_terminal (path_out, "a capture"))
    return 1;
  output = sonde_output_open (path_out, SONDE_OUTPUT_WHOLE, &error);
  is_good = output != NULL && import (path, output, &imported, &error);
  owned = imported.import;
  event = imported.event;
  if (!is_good)
    return sonde_cli_fail (error);
  samples = sonde_text_plural (sonde_import_n_samples (owned), "sample", "samples");
  blocks = sonde_text_plural (sonde_import_n_blocks (owned), "block", "blocks");
  if (imported.n_left_out + sonde_import_n_truncated (owned) > 0)
    {
      g_autofree char *left_out = sonde_text_plural (imported.n_left_out, "event", "events");
      g_autofree char *cut
          = sonde_text_plural (sonde_import_n_truncated (owned), "frame", "frames");

      sonde_cli_complain ("%s had no room, and %s no name", left_out, cut);
    }
  g_printerr ("%s: %s and %s\n", sonde_output_name (output), samples, blocks);
  return 0;
}
