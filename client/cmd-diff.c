/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl diff: what became slower from one capture to another. */
#include "client/commands.h"

#include "client/model/capture-file.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/pager.h"
#include "client/report/profile-diff.h"
#include "client/report/profile-view.h"
#include "client/report/report-text.h"
#include "client/report/report.h"
#include "client/base/text.h"

typedef struct
{
  SondeReportOptions report;
  char *by;
} DiffOptions;

static void
diff_options_clear (DiffOptions *self)
{
  g_free (self->by);
  sonde_sample_filter_clear (&self->report.filter);
  sonde_folding_clear (&self->report.folding);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DiffOptions, diff_options_clear)

/* Processes and threads of two captures have no number in common. */
static gboolean
check (DiffOptions *self)
{
  int by = SONDE_BY_FUNCTION;

  if (self->by != NULL)
    by = sonde_choice_find_or_complain ("--by", self->by, sonde_by_words);
  self->report.by = (SondeBy) MAX (by, 0);
  if (by == SONDE_BY_PROCESS || by == SONDE_BY_THREAD)
    {
      sonde_cli_complain ("two captures have no %s in common: --by=command compares names",
                          self->by);
      return FALSE;
    }
  return by >= 0 && sonde_sample_filter_check (&self->report.filter)
         && sonde_folding_check (&self->report.folding, SONDE_RECURSION_NONE);
}

/* NULL, having complained, unless the whole capture could be read and has samples. */
static SondeReport *
read_report (const char *path, const SondeReportOptions *options)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeReport) report = NULL;
  g_autoptr (SondeProgress) progress = file != NULL ? sonde_progress_new () : NULL;
  g_autofree char *shown = sonde_text_escape (path, -1);
  const SondeFrame *frame;

  if (file != NULL)
    {
      report = sonde_report_new (options, sonde_capture_file_header (file)->time_ns);
      sonde_capture_file_show (file, progress);
    }
  while (file != NULL && sonde_capture_file_next (file, &frame, &error))
    sonde_report_add_frame (report, frame);
  if (error == NULL)
    {
      const SondeSymbolOptions symbols = { .lines = options->by == SONDE_BY_LINE };

      sonde_progress_begin (progress, "Looking up names", 0);
      sonde_report_finish (report, &symbols);
    }
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return NULL;
    }
  if (sonde_profile_total (report->profile) == 0)
    {
      sonde_cli_complain ("%s has no samples to compare", shown);
      return NULL;
    }
  return g_steal_pointer (&report);
}

static void
append_title (GString *out, const char *label, const char *path, const SondeReport *report)
{
  const SondeProfile *profile = report->profile;
  g_autofree char *name = sonde_text_escape (path, -1);
  g_autofree char *samples = sonde_text_plural (sonde_profile_total (profile), "sample", "samples");
  g_autofree char *duration = sonde_text_duration (sonde_capture_model_duration_ns (report->model));

  g_string_append_printf (out, "%-10s%s: %s in %s\n", label, name, samples, duration);
  sonde_report_append_truncated (out, report->model);
}

int
sonde_cmd_diff (int argc, char **argv)
{
  SondeProfileStyle style;
  g_auto (DiffOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  gboolean no_pager = FALSE;
  const GOptionEntry entries[]
      = { { "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
            "function (the default), module, line, command, unit, container, none", "GROUP" },
          SONDE_SAMPLE_FILTER_OPTIONS (&options.report.filter, "unit"),
          SONDE_FOLDING_OPTIONS (&options.report.folding),
          { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &style.percent_limit,
            "Leave out what changed less (0.5)", "PERCENT" },
          { "max-depth", 0, 0, G_OPTION_ARG_INT, &style.max_depth, "Show at most N frames (512)",
            "N" },
          { "full-names", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &style.full_names, "", NULL },
          { "no-pager", 0, 0, G_OPTION_ARG_NONE, &no_pager, "Do not start $PAGER", NULL },
          G_OPTION_ENTRY_NULL };
  g_autoptr (SondeReport) before = NULL;
  g_autoptr (SondeReport) after = NULL;
  g_autoptr (SondeProfile) rows_before = NULL;
  g_autoptr (SondeProfile) rows_after = NULL;
  g_autoptr (SondeProfileDiff) diff = NULL;
  g_autoptr (GString) out = g_string_new (NULL);

  sonde_profile_style_init (&style);
  if (!sonde_cli_parse (&argc, &argv, "BEFORE AFTER",
                        "Shows what became slower from one capture to another, in shares of each.",
                        SONDE_SAMPLE_FILTER_HELP
                        "\nExample:\n  sondectl diff before.syscap after.syscap",
                        entries, FALSE, NULL))
    return 1;
  if (argc != 3)
    {
      sonde_cli_complain ("diff needs two captures; see sondectl diff --help");
      return 1;
    }
  if (!sonde_profile_style_check (&style) || !check (&options))
    return 1;
  before = read_report (argv[1], &options.report);
  after = before != NULL ? read_report (argv[2], &options.report) : NULL;
  if (after == NULL)
    return 1;

  rows_before = sonde_profile_view_by (before->profile, options.report.by);
  rows_after = sonde_profile_view_by (after->profile, options.report.by);
  diff = sonde_profile_diff_new (rows_before != NULL ? rows_before : before->profile,
                                 rows_after != NULL ? rows_after : after->profile);
  append_title (out, "Before", argv[1], before);
  append_title (out, "After", argv[2], after);
  sonde_profile_diff_append_functions (out, diff, &style);
  sonde_profile_diff_append_paths (out, diff, &style);
  return (no_pager ? sonde_cli_print (out) : sonde_pager_print (out)) ? 0 : 1;
}
