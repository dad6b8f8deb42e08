/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl diff: what became slower from one capture to another. */
#include "client/commands.h"

#include "client/model/capture-file.h"
#include "client/base/budget.h"
#include "client/base/chance.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/json.h"
#include "client/base/pager.h"
#include "client/report/profile-diff.h"
#include "client/report/profile-json.h"
#include "client/report/profile-view.h"
#include "client/report/report-text.h"
#include "client/report/report.h"
#include "client/base/text.h"

#define SCHEMA_VERSION 1

/* Something became slower by what --fail-on says, or more. */
#define EXIT_SLOWER 3

typedef struct
{
  SondeReportOptions report;
  char *by;
  char *per;
  gboolean is_of_time;
  double fail_percent; /* -1: nothing makes it fail */
  gboolean markdown;
  gboolean json;
  SondeProfileStyle style;
} DiffOptions;

/* One of the captures. */
typedef struct
{
  const char *path;
  SondeReport *report;
  SondeProfile *view; /* NULL: the report's own profile is shown */
  gint64 from_ns;     /* CLOCK_MONOTONIC: what of it is compared */
  gint64 to_ns;
  double frequency_hz; /* 0: not known */
  gint64 first_ns;     /* of samples; any if there are none */
  gint64 last_ns;
  gsize n_samples;
  gint64 *times_ns; /* of each */
  guint32 *rows;    /* functions of what is shown that they are of */
} Side;

static void
side_clear (Side *self)
{
  sonde_profile_free (self->view);
  sonde_report_free (self->report);
  g_free (self->times_ns);
  g_free (self->rows);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Side, side_clear)

static void
diff_options_clear (DiffOptions *self)
{
  g_free (self->by);
  g_free (self->per);
  sonde_sample_filter_clear (&self->report.filter);
  sonde_folding_clear (&self->report.folding);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DiffOptions, diff_options_clear)

/* Processes and threads of two captures have no number in common. */
static gboolean
check (DiffOptions *self)
{
  static const char *const wholes[] = { "sample", "second", NULL };
  int by = SONDE_BY_FUNCTION;
  int per = 0;

  if (self->per != NULL)
    per = sonde_choice_find_or_complain ("--per", self->per, wholes);
  if (per < 0)
    return FALSE;
  self->is_of_time = per == 1;

  if (self->markdown && self->json)
    {
      sonde_cli_complain ("--markdown and --json exclude each other");
      return FALSE;
    }
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

/* By function of @profile the row of the view, which has it by name. */
static guint32 *
dup_rows_of_functions (const SondeProfile *profile, const SondeProfile *view, SondeBy by)
{
  g_autoptr (GHashTable) numbers = g_hash_table_new_full (sonde_text_hash, g_str_equal, NULL, NULL);
  guint32 n = sonde_profile_n_functions (profile);
  guint32 *rows = g_new (guint32, n);

  for (guint32 i = 0; i < sonde_profile_n_functions (view); i++)
    g_hash_table_insert (numbers, (gpointer) sonde_profile_function (view, i)->name,
                         GUINT_TO_POINTER (i));
  for (guint32 i = 0; i < n; i++)
    {
      g_autofree char *name = sonde_profile_dup_row_name (sonde_profile_function (profile, i), by);
      gpointer found;

      rows[i] = g_hash_table_lookup_extended (numbers, name, NULL, &found)
                    ? GPOINTER_TO_UINT (found)
                    : SONDE_REPORT_NOWHERE;
    }
  return rows;
}

/* The same by thread of the samples. */
static guint32 *
dup_rows_of_threads (const SondeReport *report, const SondeProfile *view, SondeBy by)
{
  g_autoptr (GHashTable) numbers = g_hash_table_new_full (sonde_text_hash, g_str_equal, NULL, NULL);
  g_autoptr (SondeGrouping) grouping = sonde_grouping_new (by, report->model);
  const GArray *threads = report->samples.threads;
  guint32 *rows = g_new (guint32, threads->len);

  for (guint32 i = 0; i < sonde_profile_n_functions (view); i++)
    g_hash_table_insert (numbers, (gpointer) sonde_profile_function (view, i)->name,
                         GUINT_TO_POINTER (i));
  for (guint i = 0; i < threads->len; i++)
    {
      const SondeSampleThread *thread = sonde_samples_thread (&report->samples, i);
      guint group = sonde_grouping_find (
          grouping, sonde_capture_model_process (report->model, thread->process), thread->tid);
      g_autofree char *name = sonde_text_escape (sonde_grouping_name (grouping, group), -1);
      gpointer found;

      rows[i] = g_hash_table_lookup_extended (numbers, name, NULL, &found)
                    ? GPOINTER_TO_UINT (found)
                    : SONDE_REPORT_NOWHERE;
    }
  return rows;
}

/* What is compared of a capture, and when its samples were where of that. */
static void
look_at (Side *self, SondeBy by)
{
  const SondeReport *report = self->report;
  g_autoptr (GArray) places = g_steal_pointer (&self->report->samples.places);
  gboolean is_of_functions = sonde_by_is_of_functions (by);
  g_autofree guint32 *rows = NULL;
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (report->model);
  gint64 end_ns;

  self->view = is_of_functions ? sonde_profile_view_by (report->profile, by)
                               : sonde_profile_view_by_name (report->profile);
  if (self->view != NULL)
    rows = is_of_functions ? dup_rows_of_functions (report->profile, self->view, by)
                           : dup_rows_of_threads (report, self->view, by);
  self->n_samples = places->len;
  self->times_ns = g_new (gint64, places->len);
  self->rows = g_new (guint32, places->len);
  for (guint i = 0; i < places->len; i++)
    {
      const SondeSamplePlace *place = &g_array_index (places, SondeSamplePlace, i);

      self->times_ns[i] = place->time_ns;
      self->first_ns = i == 0 ? place->time_ns : MIN (self->first_ns, place->time_ns);
      self->last_ns = i == 0 ? place->time_ns : MAX (self->last_ns, place->time_ns);
      self->rows[i] = rows == NULL                          ? place->node
                      : !is_of_functions                    ? rows[place->thread]
                      : place->node != SONDE_REPORT_NOWHERE ? rows[place->node]
                                                            : SONDE_REPORT_NOWHERE;
    }
  if (__builtin_add_overflow (report->start_ns, sonde_capture_model_duration_ns (report->model),
                              &end_ns))
    end_ns = G_MAXINT64;
  self->from_ns = MAX (report->from_ns, report->start_ns);
  self->to_ns = MIN (report->to_ns, end_ns);
  if (settings != NULL)
    self->frequency_hz
        = (double) g_key_file_get_uint64 (settings, SONDE_CAPTURE_SETTINGS, "frequency", NULL);
}

static double
seconds_of (const Side *self)
{
  return ((double) self->to_ns - (double) self->from_ns) / 1e9;
}

/* Complains if there is no time to compare. */
static gboolean
has_time (const Side *self)
{
  g_autofree char *shown = sonde_text_escape (self->path, -1);

  if (self->frequency_hz > 0 && seconds_of (self) > 0)
    return TRUE;
  sonde_cli_complain ("%s does not say how often it was sampled: no --per=second", shown);
  return FALSE;
}

/* @verdict: (out) */
static SondeProfileDiff *
compare (const Side sides[2], const DiffOptions *options, SondeDiffVerdict *verdict)
{
  SondeProfileSide profiles[2];
  SondeProfileTimes times[2];
  SondeProfileDiff *diff;

  for (guint i = 0; i < 2; i++)
    {
      const Side *side = &sides[i];

      profiles[i] = (SondeProfileSide){
        .profile = side->view != NULL ? side->view : side->report->profile,
        .whole = options->is_of_time ? seconds_of (side) * side->frequency_hz : 0
      };
      times[i]
          = (SondeProfileTimes){ .times_ns = side->times_ns,
                                 .functions = side->rows,
                                 .n = side->n_samples,
                                 /* shares say nothing of pauses at the ends */
                                 .from_ns = options->is_of_time ? side->from_ns : side->first_ns,
                                 .to_ns = options->is_of_time ? side->to_ns : side->last_ns,
                                 .is_of_time = options->is_of_time };
    }
  diff = sonde_profile_diff_new (&profiles[0], &profiles[1]);
  /* what is not shown may be what it fails on */
  *verdict = sonde_profile_diff_judge (
      diff, &times[0], &times[1],
      options->fail_percent >= 0 ? MIN (options->style.percent_limit, options->fail_percent)
                                 : options->style.percent_limit);
  return diff;
}

/* How long programs ran, too: what takes a larger share of less may take less. */
static void
append_title (GString *out, const char *label, const Side *side, const DiffOptions *options)
{
  const SondeProfile *profile = side->report->profile;
  guint64 total = sonde_profile_total (profile);
  g_autofree char *name = sonde_text_escape (side->path, -1);
  g_autofree char *cut = sonde_budget_describe (sonde_capture_model_budget (side->report->model));
  g_autofree char *samples = sonde_text_plural (total, "sample", "samples");
  g_autofree char *duration = sonde_text_duration (MAX (side->to_ns - side->from_ns, 0));
  g_autoptr (GString) line = g_string_new (NULL);

  if (options->markdown)
    sonde_text_append_code (line, name, FALSE);
  else
    g_string_append (line, name);
  g_string_append_printf (line, ": %s in %s", samples, duration);
  if (side->frequency_hz > 0 && seconds_of (side) > 0)
    g_string_append_printf (line, ", %.1f%% of a CPU",
                            100 * (double) total / side->frequency_hz / seconds_of (side));
  if (!options->markdown)
    {
      sonde_text_append_labelled (out, label, line->str);
      sonde_report_append_truncated (out, side->report->model);
      return;
    }
  g_string_append_printf (out, "- %s: %s\n", label, line->str);
  if (cut != NULL)
    g_string_append_printf (out, "- Truncated: %s\n", cut);
}

/* The exit status. What these captures cannot show is no proof that nothing has changed. */
static int
judge (const SondeProfileDiff *diff, SondeDiffVerdict verdict, const DiffOptions *options)
{
  const SondeFunction *heaviest = NULL;
  const SondeFunction *slower;
  double seen = sonde_profile_diff_seen (diff, &heaviest);
  double change;
  guint n_unjudged;

  /* What is nowhere as large as that cannot have become slower by it. */
  if (options->fail_percent < 0 || verdict == SONDE_DIFF_EMPTY)
    return 0;
  if (verdict == SONDE_DIFF_UNKNOWN)
    {
      sonde_cli_complain ("--fail-on: too few samples to tell changes from chance");
      return 1;
    }
  slower = sonde_profile_diff_find_slower (diff, options->fail_percent, &change);
  if (slower != NULL)
    {
      sonde_cli_complain ("%s takes %.2f points more, of which --fail-on=%g%% allows less",
                          slower->name, change, options->fail_percent);
      return EXIT_SLOWER;
    }
  n_unjudged = sonde_profile_diff_count_unjudged (diff, options->fail_percent);
  if (n_unjudged > 0)
    sonde_cli_complain ("--fail-on: %u that take so much more are beyond the %u that are judged",
                        n_unjudged, SONDE_CHANCE_MAX_ROWS);
  if (heaviest != NULL && seen > options->fail_percent)
    sonde_cli_complain ("of %s these captures show changes of %.2f points, not of less: longer "
                        "ones do",
                        heaviest->name, seen);
  return 0;
}

static gboolean
parse_fail_on (const char *name, const char *value, gpointer user_data, GError **error)
{
  DiffOptions *self = user_data;
  char *end;

  self->fail_percent = g_ascii_strtod (value, &end);
  if (end != value && (*end == '\0' || g_str_equal (end, "%")) && self->fail_percent >= 0
      && self->fail_percent <= 100)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "Option %s takes points such as 3%%, 0 to 100, not \"%s\"", name, value);
  return FALSE;
}

static void
append_text (GString *out,
             const SondeProfileDiff *diff,
             const Side sides[2],
             const DiffOptions *options)
{
  static const char *const labels[] = { "Before", "After" };

  if (options->markdown)
    g_string_append (out, "### What became slower\n\n");
  for (guint i = 0; i < 2; i++)
    append_title (out, labels[i], &sides[i], options);
  if (options->markdown)
    {
      sonde_profile_diff_append_chance (out, diff, &options->style, TRUE);
      sonde_profile_diff_append_markdown (out, diff, &options->style);
      return;
    }
  sonde_profile_diff_append_chance (out, diff, &options->style, FALSE);
  sonde_profile_diff_append_functions (out, diff, &options->style);
  sonde_profile_diff_append_paths (out, diff, &options->style);
}

static void
add_side (SondeJson *json, const char *member, const Side *side)
{
  double cpu_seconds = side->frequency_hz * seconds_of (side);
  guint64 total = sonde_profile_total (side->report->profile);

  sonde_json_begin_object (json, member);
  sonde_json_add_escaped (json, "path", side->path);
  sonde_json_add_number (json, "samples", (gint64) total);
  sonde_json_add_number (json, "duration-ns", MAX (side->to_ns - side->from_ns, 0));
  if (cpu_seconds > 0)
    sonde_json_add_real (json, "cpu-percent", 100 * (double) total / cpu_seconds);
  sonde_profile_json_add_truncated (json, side->report->model);
  sonde_json_end_object (json);
}

static void
append_json (GString *out,
             const SondeProfileDiff *diff,
             const Side sides[2],
             const DiffOptions *options)
{
  SondeJson json = SONDE_JSON_INIT (out);

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SCHEMA_VERSION);
  sonde_json_add_text (&json, "by", sonde_by_words[options->report.by]);
  sonde_json_add_text (&json, "per", options->is_of_time ? "second" : "sample");
  add_side (&json, "before", &sides[0]);
  add_side (&json, "after", &sides[1]);
  sonde_profile_diff_add_json (&json, diff, &options->style);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
}

int
sonde_cmd_diff (int argc, char **argv)
{
  g_auto (DiffOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT, .fail_percent = -1 };
  gboolean no_pager = FALSE;
  const GOptionEntry entries[]
      = { { "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
            "function (the default), module, line, command, unit, container, none", "GROUP" },
          { "per", 0, 0, G_OPTION_ARG_STRING, &options.per,
            "Shares of samples (sample, the default), or of a CPU's time (second)", "WHOLE" },
          { "fail-on", 0, 0, G_OPTION_ARG_CALLBACK, (gpointer) parse_fail_on,
            "Exit with 3 if a function takes so many points more", "PERCENT" },
          { "markdown", 0, 0, G_OPTION_ARG_NONE, &options.markdown, "A table in Markdown", NULL },
          { "json", 0, 0, G_OPTION_ARG_NONE, &options.json, "For programs", NULL },
          SONDE_SAMPLE_FILTER_OPTIONS (&options.report.filter, "unit"),
          SONDE_FOLDING_OPTIONS (&options.report.folding),
          { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &options.style.percent_limit,
            "Leave out what changed less, unless marked (0.5)", "PERCENT" },
          { "max-depth", 0, 0, G_OPTION_ARG_INT, &options.style.max_depth,
            "Show at most N frames (512)", "N" },
          { "full-names", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &options.style.full_names, "",
            NULL },
          { "no-pager", 0, 0, G_OPTION_ARG_NONE, &no_pager, "Do not start $PAGER", NULL },
          G_OPTION_ENTRY_NULL };
  g_auto (Side) before = { 0 };
  g_auto (Side) after = { 0 };
  Side *const sides[] = { &before, &after };
  g_autoptr (SondeProfileDiff) diff = NULL;
  SondeDiffVerdict verdict;
  g_autoptr (GString) out = g_string_new (NULL);

  sonde_profile_style_init (&options.style);
  if (!sonde_cli_parse (&argc, &argv, "BEFORE AFTER",
                        "Shows what became slower from one capture to another, and whether that is "
                        "more\nthan chance.",
                        SONDE_SAMPLE_FILTER_HELP
                        "\nExample:\n  sondectl diff before.syscap after.syscap",
                        entries, FALSE, &options))
    return 1;
  if (argc != 3)
    {
      sonde_cli_complain ("diff needs two captures; see sondectl diff --help");
      return 1;
    }
  if (!sonde_profile_style_check (&options.style) || !check (&options))
    return 1;
  options.report.keeps_times = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    {
      sides[i]->path = argv[1 + i];
      sides[i]->report = read_report (argv[1 + i], &options.report);
      if (sides[i]->report == NULL)
        return 1;
      look_at (sides[i], options.report.by);
      if (options.is_of_time && !has_time (sides[i]))
        return 1;
    }
  diff = compare ((const Side[]){ before, after }, &options, &verdict);
  if (options.json)
    append_json (out, diff, (const Side[]){ before, after }, &options);
  else
    append_text (out, diff, (const Side[]){ before, after }, &options);
  if (!(no_pager || options.markdown || options.json ? sonde_cli_print (out)
                                                     : sonde_pager_print (out)))
    return 1;
  return judge (diff, verdict, &options);
}
