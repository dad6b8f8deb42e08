/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl export: a capture in the formats of other viewers. */
#include "client/commands.h"

#include <string.h>
#include <unistd.h>

#include "client/base/cli.h"
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

static const char *const units[] = {
  [SONDE_UNIT_SAMPLES] = "samples", [SONDE_UNIT_BYTES] = "bytes", [SONDE_UNIT_BLOCKS] = "blocks"
};

typedef struct
{
  char *format;
  char *output;
  char *unit;
  guint index; /* of formats */
  SondeExportOptions options;
} Options;

static void
options_clear (Options *self)
{
  g_free (self->format);
  g_free (self->output);
  g_free (self->unit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
find_format (Options *options)
{
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      if (g_strcmp0 (options->format, formats[i].name) == 0)
        {
          options->index = i;
          return TRUE;
        }
      g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", formats[i].name);
    }
  sonde_cli_complain ("--format must be one of %s", names->str);
  return FALSE;
}

static gboolean
find_unit (Options *options)
{
  if (options->unit == NULL)
    return TRUE;
  if (!formats[options->index].has_unit)
    {
      sonde_cli_complain ("%s has all units, --unit is for folded and dot", options->format);
      return FALSE;
    }
  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    if (g_str_equal (options->unit, units[i]))
      {
        options->options.unit = (SondeUnit) i;
        return TRUE;
      }
  sonde_cli_complain ("--unit must be one of samples, bytes, blocks");
  return FALSE;
}

static gboolean
parse (int *argc, char ***argv, Options *options)
{
  const GOptionEntry entries[]
      = { { "format", 'f', 0, G_OPTION_ARG_STRING, &options->format,
            "folded, speedscope, firefox, pprof, perfetto, chrome, perf-script, dot", "FORMAT" },
          { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
            "Write to FILE, replacing it (standard output)", "FILE" },
          { "unit", 0, 0, G_OPTION_ARG_STRING, &options->unit,
            "Of folded and dot: samples, bytes or blocks allocated (samples)", "UNIT" },
          G_OPTION_ENTRY_NULL };

  if (!sonde_cli_parse (argc, argv, "FILE", "Writes a capture in the format of another viewer.",
                        "Example:\n  sondectl export --format=folded slow.syscap", entries, FALSE,
                        NULL))
    return FALSE;
  if (*argc != 2)
    {
      sonde_cli_complain ("export needs one capture; see sondectl export --help");
      return FALSE;
    }
  if (!find_format (options) || !find_unit (options))
    return FALSE;
  if (formats[options->index].is_binary && options->output == NULL && isatty (STDOUT_FILENO))
    {
      sonde_cli_complain ("%s is not for terminals: -o FILE", options->format);
      return FALSE;
    }
  return TRUE;
}

/* A file that would be empty is more often a mistake than what was wanted. */
static gboolean
check_content (const SondeExportSource *source, const Options *options)
{
  SondeUnit unit = options->options.unit;

  if (!formats[options->index].has_unit || sonde_export_source_count (source, unit) > 0)
    return TRUE;
  sonde_cli_complain (unit == SONDE_UNIT_SAMPLES ? "the capture has no samples%s"
                                                 : "the capture has no allocations%s",
                      unit == SONDE_UNIT_SAMPLES
                              && sonde_export_source_count (source, SONDE_UNIT_BYTES) > 0
                          ? "; it has allocations: --unit bytes"
                          : "");
  return FALSE;
}

int
sonde_cmd_export (int argc, char **argv)
{
  g_auto (Options) options = { 0 };
  g_autoptr (SondeExportSource) source = NULL;
  g_autoptr (SondeExportOutput) output = NULL;
  g_autoptr (GError) error = NULL;

  if (!parse (&argc, &argv, &options))
    return 1;
  source = sonde_export_source_new (argv[1], &error);
  if (source != NULL && !check_content (source, &options))
    return 1;
  if (source != NULL)
    output = sonde_export_output_new (options.output, formats[options.index].is_compressed, &error);
  if (output == NULL || !formats[options.index].write (source, &options.options, output, &error)
      || !sonde_export_output_close (output, &error))
    {
      sonde_cli_complain ("%s", error->message);
      return 1;
    }
  if (sonde_export_source_fault (source) == NULL)
    return 0;
  sonde_cli_complain ("%s; exported what came before", sonde_export_source_fault (source)->message);
  return 1;
}
