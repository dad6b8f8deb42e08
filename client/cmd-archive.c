/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl archive: makes a capture readable everywhere. */
#include "client/commands.h"

#include <elfutils/debuginfod.h>

#include "client/names/archive.h"
#include "client/base/cli.h"
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
      = { { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "Leave FILE as it is",
            "OUTPUT" },
          { "debug-directory", 0, 0, G_OPTION_ARG_FILENAME, &options.debug_directory,
            "Debug files (/usr/lib/debug)", "DIR" },
          { "debuginfod", 0, 0, G_OPTION_ARG_STRING, &options.debuginfod,
            "Get debug information from there", "URL" },
          G_OPTION_ENTRY_NULL };
  g_autoptr (GError) error = NULL;
  g_autofree char *shown = NULL;
  SondeArchiveOptions archive = { 0 };
  SondeArchiveResult result;
  const char *output;

  if (!sonde_cli_parse (&argc, &argv, "FILE",
                        "Embeds the names of functions into a capture, so that it needs neither\n"
                        "the programs nor their debug files any more.",
                        "Example:\n  sondectl archive slow.syscap", entries, FALSE, NULL))
    return 1;
  if (argc != 2)
    {
      sonde_cli_complain ("archive needs one FILE; see sondectl archive --help");
      return 1;
    }
  if (options.debuginfod != NULL)
    g_setenv (DEBUGINFOD_URLS_ENV_VAR, options.debuginfod, TRUE);
  output = options.output != NULL ? options.output : argv[1];
  archive.debug_directory = options.debug_directory;
  if (!sonde_archive_embed (argv[1], output, &archive, &result, &error))
    {
      sonde_cli_complain ("%s", error->message);
      return 1;
    }
  shown = sonde_text_escape (output, -1);
  g_print ("%s: %u functions with a name, %u of them new\n", shown, result.n_names, result.n_added);
  return 0;
}
