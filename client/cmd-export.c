/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl export: a capture in the formats of other viewers. */
#include "client/commands.h"

#include <string.h>

#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/export/export.h"
#include "client/base/text.h"

typedef struct
{
  const char *name;
  SondeExportFunc *write;
  gboolean is_compressed;
  gboolean is_binary;
  gboolean has_unit;
  gboolean has_calls;   /* shows calls of functions, too, but for samples and allocations */
  gboolean is_heap;     /* shows allocations alone, and is compressed if its name ends so */
  gboolean takes_sums;  /* of heap events, in the place of each */
  gboolean has_places;  /* shows addresses, lines and inlined functions, */
  gboolean has_threads; /* and threads apart unless --by says otherwise */
} Format;

static const Format formats[] = {
  { .name = "folded", .write = sonde_export_folded, .has_unit = TRUE, .has_calls = TRUE },
  { .name = "speedscope", .write = sonde_export_speedscope, .has_calls = TRUE },
  { .name = "firefox", .write = sonde_export_firefox, .has_places = TRUE, .has_threads = TRUE },
  { .name = "pprof",
    .write = sonde_export_pprof,
    .is_compressed = TRUE,
    .is_binary = TRUE,
    .has_calls = TRUE,
    .has_places = TRUE,
    .has_threads = TRUE },
  { .name = "perfetto", .write = sonde_export_perfetto, .is_binary = TRUE },
  { .name = "chrome", .write = sonde_export_chrome },
  { .name = "perf-script", .write = sonde_export_perf_script },
  { .name = "dot", .write = sonde_export_dot, .has_unit = TRUE, .has_calls = TRUE },
  { .name = "cpuprofile", .write = sonde_export_cpuprofile, .has_places = TRUE },
  { .name = "heapprofile", .write = sonde_export_heapprofile, .is_heap = TRUE, .takes_sums = TRUE },
  { .name = "heaptrack", .write = sonde_export_heaptrack, .is_heap = TRUE },
};

static const char *const units[] = {
  [SONDE_UNIT_SAMPLES] = "samples", [SONDE_UNIT_BYTES] = "bytes", [SONDE_UNIT_BLOCKS] = "blocks",
  [SONDE_UNIT_CALLS] = "calls",     [SONDE_UNIT_SELF] = "self",   NULL
};

typedef struct
{
  char *format_name;
  char *output;
  char *unit_name;
  char *by;
  SondeReportOptions report;
  const Format *format;
  SondeUnit unit;
} ExportCommand;

static void
options_clear (ExportCommand *self)
{
  g_free (self->format_name);
  g_free (self->output);
  g_free (self->unit_name);
  g_free (self->by);
  sonde_sample_filter_clear (&self->report.filter);
  sonde_folding_clear (&self->report.folding);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExportCommand, options_clear)

/* "folded, speedscope, ..." */
static char *
dup_formats (void)
{
  const char *names[G_N_ELEMENTS (formats) + 1] = { NULL };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    names[i] = formats[i].name;
  return g_strjoinv (", ", (char **) names);
}

static gboolean
is_of_calls (SondeUnit unit)
{
  return unit == SONDE_UNIT_CALLS || unit == SONDE_UNIT_SELF;
}

static gboolean
parse (ExportCommand *options, int *argc, char ***argv)
{
  g_autofree char *all = dup_formats ();
  g_auto (GStrv) names = g_strsplit (all, ", ", -1);
  const GOptionEntry entries[]
      = { { "format", 'f', 0, G_OPTION_ARG_STRING, &options->format_name, all, "FORMAT" },
          { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
            "Write to FILE, replacing it (-, standard output)", "FILE" },
          { "unit", 0, 0, G_OPTION_ARG_STRING, &options->unit_name,
            "Of folded and dot: samples, bytes or blocks, calls or self (samples)", "UNIT" },
          { "by", 0, 0, G_OPTION_ARG_STRING, &options->by,
            "command (mostly the default), unit, container, process, thread or none", "GROUP" },
          SONDE_SAMPLE_FILTER_PROCESSES (&options->report.filter, "in-unit"),
          SONDE_SAMPLE_FILTER_THREADS (&options->report.filter),
          SONDE_SAMPLE_FILTER_TIME (&options->report.filter, "samples"),
          SONDE_FOLDING_OPTIONS (&options->report.folding),
          G_OPTION_ENTRY_NULL };
  int format;
  int unit = SONDE_UNIT_SAMPLES;
  int by = SONDE_BY_COMMAND;

  if (!sonde_cli_parse (argc, argv, "FILE", "Writes a capture in the format of another viewer.",
                        SONDE_SAMPLE_FILTER_HELP
                        "\nExample:\n  sondectl export --format=folded slow.syscap",
                        entries, FALSE, NULL))
    return FALSE;
  if (*argc != 2)
    {
      sonde_cli_complain ("export needs one capture; see sondectl export --help");
      return FALSE;
    }
  if (options->format_name == NULL)
    {
      sonde_cli_complain ("export needs a --format: %s", all);
      return FALSE;
    }
  format = sonde_choice_find_or_complain ("--format", options->format_name,
                                          (const char *const *) names);
  if (format < 0)
    return FALSE;
  options->format = &formats[format];
  if (options->format->has_threads)
    by = SONDE_BY_THREAD;
  if (options->by != NULL)
    by = sonde_choice_find_or_complain ("--by", options->by, sonde_by_words);
  if (by < 0 || !sonde_sample_filter_check (&options->report.filter)
      || !sonde_folding_check (&options->report.folding, SONDE_RECURSION_NONE))
    return FALSE;
  options->report.by = (SondeBy) by;
  if (sonde_by_is_of_functions (options->report.by))
    {
      sonde_cli_complain ("exports have functions: --by says which processes are one");
      return FALSE;
    }
  if (options->unit_name != NULL)
    unit = sonde_choice_find_or_complain ("--unit", options->unit_name, units);
  options->unit = (SondeUnit) MAX (unit, 0);
  if (unit < 0)
    return FALSE;
  if (is_of_calls (options->unit) && !options->format->has_calls)
    {
      sonde_cli_complain ("calls are for folded, dot, speedscope and pprof, not for %s",
                          options->format_name);
      return FALSE;
    }
  if (options->unit_name != NULL && !options->format->has_unit && !is_of_calls (options->unit))
    {
      sonde_cli_complain ("%s has all units, --unit is for folded and dot", options->format_name);
      return FALSE;
    }
  if (options->format->is_heap && options->output != NULL
      && g_str_has_suffix (options->output, ".zst"))
    {
      sonde_cli_complain ("%s reads by the name: .zst is not written, take .gz or neither",
                          options->format_name);
      return FALSE;
    }
  return TRUE;
}

/* A file that would be empty is more often a mistake than what was wanted. */
static gboolean
check_content (const SondeExportSource *source, const ExportCommand *options, GError **error)
{
  SondeUnit unit = options->format->is_heap ? SONDE_UNIT_BYTES : options->unit;

  if (source->calls != NULL && unit == SONDE_UNIT_SAMPLES)
    unit = SONDE_UNIT_CALLS;
  if (!(options->format->has_unit || options->format->is_heap || source->calls != NULL)
      || sonde_export_source_count (source, unit) > 0)
    return TRUE;
  if (is_of_calls (unit))
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                 sonde_export_source_count (source, SONDE_UNIT_CALLS) > 0
                     ? "no call of the capture was timed; calls were counted: --unit calls"
                     : "the capture has no calls: sondectl record --trace makes some");
  else if (unit != SONDE_UNIT_SAMPLES)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "the capture has no allocations");
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "the capture has no samples%s",
                 sonde_export_source_count (source, SONDE_UNIT_BYTES) > 0
                     ? "; it has allocations: --unit bytes"
                 : source->has_calls ? "; it has calls of functions: --unit calls or self"
                                     : "");
  return FALSE;
}

/* Of formats that show all there is. */
static gboolean
has_calls_alone (const SondeExportSource *source, const ExportCommand *options)
{
  return source->has_calls && options->format->has_calls && !options->format->has_unit
         && sonde_export_source_count (source, SONDE_UNIT_SAMPLES) == 0
         && sonde_export_source_count (source, SONDE_UNIT_BYTES) == 0;
}

/* Of a heap whose events were summed up nobody knows the order, nor any one of them. */
static gboolean
check_sums (const SondeExportSource *source, const ExportCommand *options, GError **error)
{
  if (!source->has_sums || options->unit != SONDE_UNIT_SAMPLES || options->format->takes_sums)
    return TRUE;
  if (options->format->is_heap)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                   "the capture has sums of heap events, and %s needs each of them: record with "
                   "--memory-detail=log; folded and dot show sums, with --unit bytes",
                   options->format->name);
      return FALSE;
    }
  sonde_cli_complain ("the capture has sums of heap events, which are not in this: folded and dot "
                      "show them, with --unit bytes");
  return TRUE;
}

static gboolean export(SondeExportSource *source, const ExportCommand *options, GError **error)
{
  g_autoptr (SondeExportOutput) output = NULL;
  gboolean is_compressed = options->format->is_compressed
                           || (options->format->is_heap && options->output != NULL
                               && g_str_has_suffix (options->output, ".gz"));

  if (!check_sums (source, options, error) || !check_content (source, options, error))
    return FALSE;
  output = sonde_export_output_new (options->output, is_compressed, error);
  return output != NULL && options->format->write (source, options->unit, output, error)
         && sonde_export_output_close (output, error);
}

/* Frames of a recursion that is folded are told apart by their functions alone. */
static SondeExportSource *
open_source (const char *path,
             const ExportCommand *options,
             SondeProgress *progress,
             GError **error)
{
  if (options->format->is_heap)
    return sonde_export_source_new_heap (path, &options->report, progress, error);
  if (options->format->has_places && options->report.folding.recursion == SONDE_RECURSION_NONE)
    return sonde_export_source_new_frames (path, &options->report, progress, error);
  return sonde_export_source_new (path, &options->report, progress, error);
}

int
sonde_cmd_export (int argc, char **argv)
{
  g_auto (ExportCommand) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  g_autoptr (SondeProgress) progress = NULL;
  g_autoptr (SondeExportSource) source = NULL;
  g_autoptr (GError) error = NULL;
  gboolean is_good;

  if (!parse (&options, &argc, &argv))
    return 1;
  if (options.format->is_binary
      && sonde_output_refuse_terminal (options.output != NULL ? options.output : "-",
                                       options.format->name))
    return 1;
  /* one terminal is not for both */
  if (options.output != NULL || !isatty (STDOUT_FILENO))
    progress = sonde_progress_new ();
  source = open_source (argv[1], &options, progress, &error);
  if (source != NULL && source->has_sums && options.unit != SONDE_UNIT_SAMPLES
      && source->heap == NULL)
    {
      sonde_export_source_free (source);
      source = sonde_export_source_new_sums (argv[1], &options.report, progress, &error);
    }
  if (source != NULL && (is_of_calls (options.unit) || has_calls_alone (source, &options)))
    {
      sonde_export_source_free (source);
      source = sonde_export_source_new_calls (argv[1], &options.report, progress, &error);
    }
  is_good = source != NULL && export(source, &options, &error);
  g_clear_pointer (&progress, sonde_progress_free);
  if (!is_good)
    return sonde_cli_fail (error);
  sonde_cli_tell_truncated (argv[1], sonde_capture_model_budget (source->model));
  if (source->fault == NULL)
    return 0;
  sonde_cli_complain ("%s; exported what came before", source->fault->message);
  return 1;
}
