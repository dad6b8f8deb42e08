/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl report: where the time of a capture went. */
#include "client/commands.h"

#include <elfutils/debuginfod.h>

#include "client/model/capture-file.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/pager.h"
#include "client/names/short-name.h"
#include "client/report/profile-text.h"
#include "client/report/profile-view.h"
#include "client/report/report.h"
#include "client/report/report-text.h"
#include "client/report/waits-report.h"
#include "client/base/text.h"

typedef struct
{
  SondeReportOptions report;
  gboolean bottom_up;
  gboolean flat;
  gboolean waits;
  char *callers;
  char *by;
  SondeSymbolOptions symbols;
  char *debuginfod;
  char *debug_directory;
  gboolean verbose;
  gboolean json;
  gboolean no_pager;
  SondeProfileStyle style;
} ReportOptions;

static void
report_options_clear (ReportOptions *options)
{
  g_free (options->callers);
  g_free (options->by);
  sonde_sample_filter_clear (&options->report.filter);
  sonde_folding_clear (&options->report.folding);
  g_free (options->debuginfod);
  g_free (options->debug_directory);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ReportOptions, report_options_clear)

/* FILE; NULL, having complained. */
static const char *
parse (int argc, char **argv, ReportOptions *options)
{
  const GOptionEntry entries[] = {
    { "bottom-up", 'b', 0, G_OPTION_ARG_NONE, &options->bottom_up, "Functions, their callers below",
      NULL },
    { "callers", 0, 0, G_OPTION_ARG_STRING, &options->callers, "Only FUNCTION and its callers",
      "FUNCTION" },
    { "flat", 'f', 0, G_OPTION_ARG_NONE, &options->flat, "Functions by their own share", NULL },
    { "waits", 0, 0, G_OPTION_ARG_NONE, &options->waits,
      "How long threads ran, and how long they waited", NULL },
    { "by", 0, 0, G_OPTION_ARG_STRING, &options->by,
      "command (the default), unit, container, process, thread, none; module, function, line",
      "GROUP" },
    SONDE_SAMPLE_FILTER_OPTIONS (&options->report.filter, "unit"),
    SONDE_FOLDING_OPTIONS (&options->report.folding),
    { "full-names", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &options->style.full_names, "",
      NULL },
    { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &options->style.percent_limit,
      "Sum up what is lighter (0.5)", "PERCENT" },
    { "max-depth", 0, 0, G_OPTION_ARG_INT, &options->style.max_depth, "Show at most N frames (512)",
      "N" },
    { "inline", 'i', 0, G_OPTION_ARG_NONE, &options->symbols.inlines, "Show inlined functions, too",
      NULL },
    { "lines", 0, 0, G_OPTION_ARG_NONE, &options->symbols.lines, "Show source lines", NULL },
    { "debug-directory", 0, 0, G_OPTION_ARG_FILENAME, &options->debug_directory,
      "Debug files (/usr/lib/debug)", "DIR" },
    { "debuginfod", 0, 0, G_OPTION_ARG_STRING, &options->debuginfod,
      "Get debug information from there", "URL" },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &options->verbose, "Say why names are missing", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &options->json, "For programs", NULL },
    { "no-pager", 0, 0, G_OPTION_ARG_NONE, &options->no_pager, "Do not start $PAGER", NULL },
    G_OPTION_ENTRY_NULL
  };
  const char *path = sonde_cli_parse_file (
      argc, argv, "Shows the heaviest call tree of a capture. FILE may be - (standard input).",
      SONDE_SAMPLE_FILTER_HELP "\nExample:\n  sondectl report --flat slow.syscap", entries);
  int by = SONDE_BY_COMMAND;

  if (path == NULL)
    return NULL;
  if (options->by != NULL)
    by = sonde_choice_find_or_complain ("--by", options->by, sonde_by_words);
  if (by < 0 || !sonde_profile_style_check (&options->style)
      || !sonde_sample_filter_check (&options->report.filter)
      || !sonde_folding_check (&options->report.folding,
                               options->json ? SONDE_RECURSION_NONE : SONDE_RECURSION_DIRECT))
    return NULL;
  options->report.by = (SondeBy) by;
  if (options->bottom_up + options->flat + (options->callers != NULL) > 1
      || (sonde_by_is_of_functions (options->report.by)
          && (options->bottom_up || options->callers != NULL)))
    {
      sonde_cli_complain ("only one of --bottom-up, --flat, --callers and --by with module, "
                          "function or line at a time");
      return NULL;
    }
  if (options->waits
      && (options->bottom_up || options->flat || options->callers != NULL
          || sonde_by_is_of_functions (options->report.by)))
    {
      sonde_cli_complain ("--waits shows threads, not functions: it goes with none of --bottom-up, "
                          "--flat, --callers and --by with module, function or line");
      return NULL;
    }
  if (options->waits
      && (options->report.filter.from_s > 0 || isfinite (options->report.filter.to_s)))
    {
      sonde_cli_complain ("--waits has the whole life of a thread: it does not go with --from and "
                          "--to");
      return NULL;
    }
  return path;
}

/* A break in the capture is told, and what came before it is shown all the same. */
static gboolean
read_capture (SondeCaptureFile *file, SondeReport *report, const SondeSymbolOptions *symbols)
{
  g_autoptr (SondeProgress) progress = sonde_progress_new ();
  g_autoptr (GError) error = NULL;
  const SondeFrame *frame;

  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &error))
    sonde_report_add_frame (report, frame);
  sonde_progress_begin (progress, "Looking up names", 0);
  sonde_report_finish (report, symbols);
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  return error == NULL;
}

/* (transfer full): NULL if the report's own profile is what is wanted. */
static SondeProfile *
new_view (const SondeReport *report, const ReportOptions *options)
{
  const SondeProfile *profile = report->profile;

  if (options->bottom_up)
    return sonde_profile_view_bottom_up (profile);
  if (options->callers != NULL)
    return sonde_profile_view_callers (profile, options->callers);
  return sonde_by_is_of_functions (options->report.by) || (options->flat && options->by != NULL)
             ? sonde_profile_view_by (profile, options->report.by)
             : NULL;
}

/* Lines of the head that are wider than the terminal. */
static void
fit_lines (GString *text, const SondeProfileStyle *style)
{
  g_auto (GStrv) lines = g_strsplit (text->str, "\n", -1);

  if (style->width == 0)
    return;
  g_string_truncate (text, 0);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_autofree char *fit = sonde_short_name_fit (lines[i], style->width, style->utf8);

      g_string_append_printf (text, "%s%s", i > 0 ? "\n" : "", fit);
    }
}

static gboolean
print_report (const SondeReport *report, const ReportOptions *options)
{
  gboolean as_rows = options->flat || sonde_by_is_of_functions (options->report.by);
  g_autoptr (SondeProfile) view = new_view (report, options);
  const SondeProfile *shown = view != NULL ? view : report->profile;
  g_autoptr (GString) out = NULL;

  if (options->callers != NULL && view == NULL)
    {
      g_autofree char *name = sonde_text_escape (options->callers, -1);

      sonde_cli_complain ("no sample has a function %s; sondectl report --flat lists functions",
                          name);
      return FALSE;
    }
  if (options->json)
    {
      out = sonde_report_dup_json (report, shown, as_rows, options->style.percent_limit);
      return sonde_cli_print (out);
    }
  out = g_string_new (NULL);
  sonde_report_append_header (out, report);
  fit_lines (out, &options->style);
  if (sonde_profile_total (shown) == 0)
    g_string_append (out, "\nNo samples.\n");
  else if (as_rows)
    sonde_profile_append_flat (out, shown, &options->style);
  else
    sonde_profile_append_tree (out, shown, &options->style);
  return options->no_pager ? sonde_cli_print (out) : sonde_pager_print (out);
}

/* Exit status. */
static int
report_waits (SondeCaptureFile *file, const ReportOptions *options)
{
  g_autoptr (SondeWaitsReport) report = sonde_waits_report_new ();
  g_autoptr (SondeProgress) progress = sonde_progress_new ();
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  const SondeFrame *frame;
  const char *fault;

  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &error))
    sonde_waits_report_add_frame (report, frame);
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  fault = sonde_waits_reader_fault (report->reader);
  if (fault != NULL)
    sonde_cli_complain ("%s; showing what came before", fault);
  else if (sonde_waits_reader_n_files (report->reader) == 0)
    {
      sonde_cli_complain ("the capture does not tell how long threads waited; sondectl record "
                          "--waits=times does");
      return 1;
    }
  sonde_waits_report_finish (report, options->report.by, &options->report.filter);
  if (options->json)
    sonde_waits_report_append_json (out, report);
  else
    {
      sonde_waits_report_append (out, report);
      fit_lines (out, &options->style);
    }
  if (options->json || options->no_pager ? !sonde_cli_print (out) : !sonde_pager_print (out))
    return 1;
  return error == NULL && fault == NULL ? 0 : 1;
}

int
sonde_cmd_report (int argc, char **argv)
{
  g_auto (ReportOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (SondeReport) report = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *cache_folder = NULL;
  gboolean is_whole;
  const char *path;

  sonde_profile_style_init (&options.style);
  path = parse (argc, argv, &options);
  if (path == NULL)
    return 1;
  file = sonde_capture_file_open (path, &error);
  if (file == NULL)
    return sonde_cli_fail (error);

  if (options.waits)
    return report_waits (file, &options);
  if (options.debuginfod != NULL)
    g_setenv (DEBUGINFOD_URLS_ENV_VAR, options.debuginfod, TRUE);
  cache_folder = g_build_filename (g_get_user_cache_dir (), "sonde", "lines", NULL);
  options.symbols.cache_folder = cache_folder;
  options.symbols.debug_directory = options.debug_directory;
  options.symbols.lines |= options.report.by == SONDE_BY_LINE;
  report = sonde_report_new (&options.report, sonde_capture_file_header (file)->time_ns);
  is_whole = read_capture (file, report, &options.symbols);
  if (options.verbose)
    {
      g_autoptr (GString) misses = g_string_new (NULL);

      /* On standard error, so that the report stays the same. */
      sonde_symbol_resolver_append_misses (report->resolver, misses);
      g_printerr ("%s", misses->str);
    }
  return print_report (report, &options) && is_whole ? 0 : 1;
}
