/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl export: a capture in the formats of other viewers. */
#include "client/commands.h"

#include <string.h>

#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/export/export.h"
#include "client/base/text.h"

static const struct
{
  const char *name;
  SondeExportFunc write;
  gboolean is_compressed;
  gboolean is_binary;
  gboolean has_unit;
} formats[] = {
  { "folded", sonde_export_folded, FALSE, FALSE, TRUE },
  { "speedscope", sonde_export_speedscope, FALSE, FALSE, FALSE },
  { "firefox", sonde_export_firefox, FALSE, FALSE, FALSE },
  { "pprof", sonde_export_pprof, TRUE, TRUE, FALSE },
  { "perfetto", sonde_export_perfetto, FALSE, TRUE, FALSE },
  { "chrome", sonde_export_chrome, FALSE, FALSE, FALSE },
  { "perf-script", sonde_export_perf_script, FALSE, FALSE, FALSE },
  { "dot", sonde_export_dot, FALSE, FALSE, TRUE },
};

static const char *const units[] = { [SONDE_UNIT_SAMPLES] = "samples",
                                     [SONDE_UNIT_BYTES] = "bytes",
                                     [SONDE_UNIT_BLOCKS] = "blocks",
                                     NULL };

typedef struct
{
  char *format;
  char *output;
  char *unit;
  guint index; /* of formats */
  SondeExportOptions options;
} ExportCommand;

static void
options_clear (ExportCommand *self)
{
  g_free (self->format);
  g_free (self->output);
  g_free (self->unit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExportCommand, options_clear)

static gboolean
find_format (ExportCommand *options)
{
  const char *names[G_N_ELEMENTS (formats) + 1] = { NULL };
  int index;

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    names[i] = formats[i].name;
  if (options->format == NULL)
    {
      g_autofree char *all = g_strjoinv (", ", (char **) names);

      sonde_cli_complain ("export needs a --format: %s", all);
      return FALSE;
    }
  index = sonde_choice_find_or_complain ("--format", options->format, names);
  options->index = (guint) MAX (index, 0);
  return index >= 0;
}

static gboolean
find_unit (ExportCommand *options)
{
  int index;

  if (options->unit == NULL)
    return TRUE;
  if (!formats[options->index].has_unit)
    {
      sonde_cli_complain ("%s has all units, --unit is for folded and dot", options->format);
      return FALSE;
    }
  index = sonde_choice_find_or_complain ("--unit", options->unit, units);
  options->options.unit = (SondeUnit) MAX (index, 0);
  return index >= 0;
}

/* A file that would be empty is more often a mistake than what was wanted. */
static gboolean
check_content (const SondeExportSource *source, const ExportCommand *options, GError **error)
{
  SondeUnit unit = options->options.unit;

  if (!formats[options->index].has_unit || sonde_export_source_count (source, unit) > 0)
    return TRUE;
  if (unit != SONDE_UNIT_SAMPLES)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "the capture has no allocations");
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "the capture has no samples%s",
                 sonde_export_source_count (source, SONDE_UNIT_BYTES) > 0
                     ? "; it has allocations: --unit bytes"
                     : "");
  return FALSE;
}

static gboolean export(SondeExportSource *source, const ExportCommand *options, GError **error)
{
  g_autoptr (SondeExportOutput) output = NULL;

  if (!check_content (source, options, error))
    return FALSE;
  output = sonde_export_output_new (options->output, formats[options->index].is_compressed, error);
  return output != NULL && formats[options->index].write (source, &options->options, output, error)
         && sonde_export_output_close (output, error);
}

int
sonde_cmd_export (int argc, char **argv)
{
  g_auto (ExportCommand) options = { 0 };
  g_autoptr (SondeProgress) progress = NULL;
  g_autoptr (SondeExportSource) source = NULL;
  g_autoptr (GError) error = NULL;
  gboolean is_good;
  const GOptionEntry entries[]
      = { { "format", 'f', 0, G_OPTION_ARG_STRING, &options.format,
            "folded, speedscope, firefox, pprof, perfetto, chrome, perf-script, dot", "FORMAT" },
          { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
            "Write to FILE, replacing it (-, standard output)", "FILE" },
          { "unit", 0, 0, G_OPTION_ARG_STRING, &options.unit,
            "Of folded and dot: samples, bytes or blocks allocated (samples)", "UNIT" },
          G_OPTION_ENTRY_NULL };

  if (!sonde_cli_parse (&argc, &argv, "FILE", "Writes a capture in the format of another viewer.",
                        "Example:\n  sondectl export --format=folded slow.syscap", entries, FALSE,
                        NULL))
    return 1;
  if (argc != 2)
    {
      sonde_cli_complain ("export needs one capture; see sondectl export --help");
      return 1;
    }
  if (!find_format (&options) || !find_unit (&options))
    return 1;
  if (formats[options.index].is_binary
      && sonde_output_is_terminal (options.output != NULL ? options.output : "-"))
    {
      sonde_cli_complain ("%s is not for terminals: -o FILE", options.format);
      return 1;
    }
  /* one terminal is not for both */
  if (options.output != NULL || !isatty (STDOUT_FILENO))
    progress = sonde_progress_new ();
  source = sonde_export_source_new (argv[1], progress, &error);
  is_good = source != NULL && export(source, &options, &error);
  g_clear_pointer (&progress, sonde_progress_free);
  if (!is_good)
    {
      sonde_cli_complain ("%s", error->message);
      return 1;
    }
  sonde_cli_tell_truncated (argv[1], sonde_export_source_budget (source));
  if (sonde_export_source_fault (source) == NULL)
    return 0;
  sonde_cli_complain ("%s; exported what came before", sonde_export_source_fault (source)->message);
  return 1;
}
