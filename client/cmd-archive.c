/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl archive: makes a capture readable everywhere. */
#include "client/commands.h"

#include <elfutils/debuginfod.h>

#include "client/names/archive.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/base/text.h"

typedef struct
{
  char *output;
  char *debug_directory;
  char *debuginfod;
} ArchiveOptions;

static void
archive_options_clear (ArchiveOptions *options)
{
  g_free (options->output);
  g_free (options->debug_directory);
  g_free (options->debuginfod);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ArchiveOptions, archive_options_clear)

int
sonde_cmd_archive (int argc, char **argv)
{
  g_auto (ArchiveOptions) options = { 0 };
  const GOptionEntry entries[]
      = { { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
            "Leave FILE as it is; - is standard output", "OUTPUT" },
          { "debug-directory", 0, 0, G_OPTION_ARG_FILENAME, &options.debug_directory,
            "Debug files (/usr/lib/debug)", "DIR" },
          { "debuginfod", 0, 0, G_OPTION_ARG_STRING, &options.debuginfod,
            "Get debug information from there", "URL" },
          G_OPTION_ENTRY_NULL };
  g_autoptr (GError) error = NULL;
  g_autofree char *shown = NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  SondeArchiveOptions archive = { 0 };
  g_autoptr (SondeProgress) progress = NULL;
  SondeArchiveResult result;
  gboolean is_good;
  const char *output;
  const char *path = sonde_cli_parse_file (
      argc, argv,
      "Embeds the names of functions into a capture, so that it needs neither\n"
      "the programs nor their debug files any more.",
      "Example:\n  sondectl archive slow.syscap", entries);

  if (path == NULL
      || (options.output != NULL && sonde_output_refuse_terminal (options.output, "a capture")))
    return 1;
  if (options.debuginfod != NULL)
    g_setenv (DEBUGINFOD_URLS_ENV_VAR, options.debuginfod, TRUE);
  output = options.output != NULL ? options.output : path;
  progress = sonde_progress_new ();
  archive.debug_directory = options.debug_directory;
  archive.progress = progress;
  is_good = sonde_archive_embed (path, output, &archive, &result, &error);
  g_clear_pointer (&progress, sonde_progress_free);
  if (!is_good)
    return sonde_cli_fail (error);
  sonde_cli_tell_truncated (path, &result.budget);
  shown = sonde_text_escape (output, -1);
  g_string_printf (out, "%s: %u functions with a name, %u of them new\n",
                   g_str_equal (output, "-") ? "standard output" : shown, result.n_names,
                   result.n_added);
  if (!g_str_equal (output, "-"))
    return sonde_cli_print (out) ? 0 : 1;
  g_printerr ("%s", out->str);
  return 0;
}
