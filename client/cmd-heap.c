/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl heap: who allocated, held and leaked memory in a capture. */
#include "client/commands.h"

#include <string.h>

#include "client/base/choice.h"
#include "client/heap/heap.h"
#include "client/model/capture-file.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/heap/heap-chart.h"
#include "client/heap/heap-report.h"
#include "client/base/pager.h"
#include "client/report/profile-diff.h"
#include "client/report/profile-text.h"
#include "client/report/profile-view.h"
#include "client/base/text.h"

#define DEFAULT_COLUMNS 80u
#define N_JSON_POINTS   1000u
#define MAX_NOTES       64u

/* A moment of --diff that is no time. */
#define MOMENT_PEAK (-1)
#define MOMENT_END  (-2)

typedef struct
{
  SondeHeapMetric metric;
  gboolean is_view; /* whether one was asked for */
  SondeUnit unit;
  gboolean bottom_up;
  char *callers;
  gboolean flat;
  gboolean graph;
  char *svg;
  gboolean json;
  gboolean no_pager;
  SondeProfileStyle style;
  const char *path;
  const char *other_path; /* of two captures that are compared the second, else NULL */
  gboolean diff;
  gint64 moments_ns[SONDE_HEAP_N_MOMENTS]; /* of a diff of one capture; as above, or since start */
  SondeHeapOptions heap;
  gboolean lines;
  gboolean no_lines;
  SondeSymbolOptions symbols;
  char *cache_folder;
  char *by;
  SondeSuppressions *suppressions;
  gboolean has_suppressions; /* whether any were asked for */
} HeapCommand;

static void
heap_command_clear (HeapCommand *self)
{
  g_clear_pointer (&self->callers, g_free);
  g_clear_pointer (&self->svg, g_free);
  g_clear_pointer (&self->cache_folder, g_free);
  g_clear_pointer (&self->by, g_free);
  g_clear_pointer (&self->suppressions, sonde_suppressions_free);
  sonde_sample_filter_clear (&self->heap.filter);
  sonde_folding_clear (&self->heap.folding);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (HeapCommand, heap_command_clear)

static const struct
{
  const char *option;
  const char *title;
} views[SONDE_HEAP_N_METRICS] = {
  [SONDE_HEAP_ALLOCATED] = { NULL, "Allocated" },
  [SONDE_HEAP_PEAK] = { "--peak", "Live at the peak" },
  [SONDE_HEAP_LEFT] = { "--leaks", "Never freed" },
  [SONDE_HEAP_TEMPORARY] = { "--temporary", "Temporary" },
  [SONDE_HEAP_CROSS_THREAD] = { "--cross-thread", "Freed by another thread" },
  [SONDE_HEAP_AT_FIRST] = { NULL, "Live at the first moment" },
  [SONDE_HEAP_AT_SECOND] = { NULL, "Live at the second moment" },
};

static gboolean
choose_view (HeapCommand *self, SondeHeapMetric metric, GError **error)
{
  if (self->is_view && self->metric != metric)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, "%s and %s exclude each other",
                   views[self->metric].option, views[metric].option);
      return FALSE;
    }
  self->is_view = TRUE;
  self->metric = metric;
  return TRUE;
}

static gboolean
parse_view (const char *name, const char *value, gpointer user_data, GError **error)
{
  for (SondeHeapMetric i = 0; i < SONDE_HEAP_N_METRICS; i++)
    if (g_strcmp0 (views[i].option, name) == 0)
      return choose_view (user_data, i, error);
  g_assert_not_reached ();
}

static gboolean
parse_temporary (const char *name, const char *value, gpointer user_data, GError **error)
{
  HeapCommand *self = user_data;

  if (value == NULL || sonde_text_parse_duration (value, &self->heap.temporary_ns))
    return choose_view (self, SONDE_HEAP_TEMPORARY, error);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "%s takes a duration such as 10us or 1.5ms, not \"%s\"", name, value);
  return FALSE;
}

static gboolean
parse_unit (const char *name, const char *value, gpointer user_data, GError **error)
{
  static const char *const units[] = { "bytes", "count", NULL };
  HeapCommand *self = user_data;
  int index = sonde_choice_find (name, value, units, error);

  self->unit = index == 1 ? SONDE_UNIT_BLOCKS : SONDE_UNIT_BYTES;
  return index >= 0;
}

static gboolean
parse_suppressions (const char *name, const char *value, gpointer user_data, GError **error)
{
  HeapCommand *self = user_data;

  if (value[0] == '\0')
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "Option %s needs a value",
                   name);
      return FALSE;
    }
  self->has_suppressions = TRUE;
  if (!g_str_equal (value, "none"))
    return sonde_suppressions_add_file (self->suppressions, value, error);
  sonde_suppressions_clear (self->suppressions);
  return TRUE;
}

static gboolean
parse_options (HeapCommand *self, int *argc, char ***argv)
{
  const GOptionEntry entries[] = {
    { "peak", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_view,
      "What was live when that was most", NULL },
    { "leaks", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_view,
      "What was never freed", NULL },
    { "temporary", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_temporary,
      "Freed before the next allocation, or sooner", "DURATION" },
    { "cross-thread", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_view,
      "What another thread freed", NULL },
    { "unit", 0, 0, G_OPTION_ARG_CALLBACK, (gpointer) parse_unit, "bytes (the default) or count",
      "UNIT" },
    { "by", 0, 0, G_OPTION_ARG_STRING, &self->by, "What is one: command, process, module ...",
      "GROUP" },
    { "bottom-up", 'b', 0, G_OPTION_ARG_NONE, &self->bottom_up, "Functions, their callers below",
      NULL },
    { "callers", 0, 0, G_OPTION_ARG_STRING, &self->callers, "Only FUNCTION and its callers",
      "FUNCTION" },
    { "flat", 'f', 0, G_OPTION_ARG_NONE, &self->flat, "Functions by their own share", NULL },
    { "inline", 'i', 0, G_OPTION_ARG_NONE, &self->symbols.inlines, "Show inlined functions, too",
      NULL },
    { "lines", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &self->lines, "", NULL },
    { "no-lines", 0, 0, G_OPTION_ARG_NONE, &self->no_lines, "No source lines", NULL },
    { "graph", 'g', 0, G_OPTION_ARG_NONE, &self->graph, "The heap over time", NULL },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &self->svg, "Draw it into FILE", "FILE" },
    { "diff", 0, 0, G_OPTION_ARG_NONE, &self->diff, "What grew and shrank from A to B", NULL },
    SONDE_SAMPLE_FILTER_PROCESSES (&self->heap.filter, "in-unit"),
    SONDE_SAMPLE_FILTER_THREADS (&self->heap.filter),
    SONDE_SAMPLE_FILTER_TIME (&self->heap.filter, "allocations"),
    SONDE_FOLDING_OPTIONS (&self->heap.folding),
    { "suppressions", 0, G_OPTION_FLAG_FILENAME, G_OPTION_ARG_CALLBACK,
      (gpointer) parse_suppressions, "No leak:PATTERN of it in --leaks; or none", "FILE" },
    { "full-names", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &self->style.full_names, "", NULL },
    { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &self->style.percent_limit,
      "Sum up what is lighter (0.5)", "PERCENT" },
    { "max-depth", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, &self->style.max_depth, "", "N" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &self->json, "For programs", NULL },
    { "no-pager", 0, 0, G_OPTION_ARG_NONE, &self->no_pager, "Do not start $PAGER", NULL },
    G_OPTION_ENTRY_NULL
  };

  return sonde_cli_parse (
      argc, argv, "FILE | --diff FROM TO FILE | --diff A B",
      "Shows how a capture's heap was used, and who allocated what. FROM and TO are\n"
      "moments of one: a time (10s, 1min), peak or end. FILE may be - (standard input).",
      NULL, entries, FALSE, self);
}

static gboolean
parse_files (HeapCommand *self, int argc, char **argv)
{
  if (argc < 2 || argc > (self->diff ? 4 : 2) || (self->diff && argc < 3))
    {
      sonde_cli_complain (self->diff ? "--diff needs BEFORE and AFTER, or two moments and one FILE"
                                     : "heap needs one FILE; see sondectl heap --help");
      return FALSE;
    }
  self->path = argv[argc == 4 ? 3 : 1];
  if (argc == 3)
    self->other_path = argv[2];
  if (argc < 4)
    return TRUE;
  for (guint i = 0; i < SONDE_HEAP_N_MOMENTS; i++)
    {
      const char *text = argv[1 + i];

      if (g_str_equal (text, "peak"))
        self->moments_ns[i] = MOMENT_PEAK;
      else if (g_str_equal (text, "end"))
        self->moments_ns[i] = MOMENT_END;
      else if (!sonde_text_parse_duration (text, &self->moments_ns[i]))
        {
          g_autofree char *shown = sonde_text_escape (text, -1);

          sonde_cli_complain ("a moment is a time such as 10s or 1.5ms, peak or end, not \"%s\"",
                              shown);
          return FALSE;
        }
      /* one that is no time is taken early and not looked at */
      self->heap.moments_ns[i] = i == 0                     ? MAX (self->moments_ns[i], 0)
                                 : self->moments_ns[i] >= 0 ? self->moments_ns[i]
                                                            : G_MAXINT64;
    }
  if (self->moments_ns[0] >= 0 && self->moments_ns[1] >= 0
      && self->moments_ns[0] > self->moments_ns[1])
    {
      sonde_cli_complain ("the first moment of --diff is the earlier one");
      return FALSE;
    }
  return TRUE;
}

static gboolean
check (HeapCommand *self)
{
  int by = SONDE_BY_COMMAND;

  if (self->by != NULL)
    by = sonde_choice_find_or_complain ("--by", self->by, sonde_by_words);
  if (by < 0 || !sonde_sample_filter_check (&self->heap.filter)
      || !sonde_folding_check (&self->heap.folding,
                               self->json ? SONDE_RECURSION_NONE : SONDE_RECURSION_DIRECT))
    return FALSE;
  self->heap.by = (SondeBy) by;
  if (!self->diff || self->metric == SONDE_HEAP_LEFT)
    self->heap.suppressions = self->suppressions;
  self->heap.folding.folds_wrappers = !self->heap.folding.shows_internals;
  if (by == SONDE_BY_THREAD)
    sonde_cli_complain ("--by: blocks have no thread to be grouped by; --thread chooses them");
  else if (self->bottom_up + self->flat + (self->callers != NULL) > 1)
    sonde_cli_complain ("only one of --bottom-up, --flat and --callers at a time");
  else if (self->diff && self->other_path == NULL && self->is_view)
    sonde_cli_complain ("two moments are compared by what was live: no %s",
                        views[self->metric].option);
  else if (self->diff && (self->graph || self->svg != NULL))
    sonde_cli_complain ("--diff has no graph");
  else if (self->diff && self->has_suppressions
           && (self->other_path == NULL || self->metric != SONDE_HEAP_LEFT))
    sonde_cli_complain ("of --diff only --leaks of two captures has --suppressions");
  else if (self->lines && self->no_lines)
    sonde_cli_complain ("--lines and --no-lines exclude each other");
  else if (!sonde_profile_style_check (&self->style))
    return FALSE;
  else
    return TRUE;
  return FALSE;
}

/* What libsonde-memory.so says of blocks that it does not see; once, of however many processes. */
static void
add_note (GPtrArray *notes, const SondeFrame *frame)
{
  const SondeFrameLog *log = (const SondeFrameLog *) frame;

  if (frame->type == SONDE_FRAME_LOG && notes->len < MAX_NOTES
      && strncmp (log->domain, "sonde-memory", sizeof log->domain) == 0
      && !g_ptr_array_find_with_equal_func (notes, log->message, g_str_equal, NULL))
    g_ptr_array_add (notes, g_strdup (log->message));
}

static void
tell_notes (const GPtrArray *notes)
{
  for (guint i = 0; i < notes->len; i++)
    {
      g_autofree char *shown = sonde_text_escape (g_ptr_array_index (notes, i), -1);

      sonde_cli_complain ("%s", shown);
    }
}

/* What comes before a break in the capture is shown all the same. NULL, having complained, if there
 * is nothing to show. @is_whole: (inout): FALSE from the first break on */
static SondeHeap *
read_heap (const char *path, const HeapCommand *command, gboolean *is_whole)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeProgress) progress = NULL;
  g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *shown = sonde_text_escape (path, -1);
  const SondeFrame *frame;

  if (file == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return NULL;
    }
  heap = sonde_heap_new (&command->heap, sonde_capture_file_header (file)->time_ns);
  progress = sonde_progress_new ();
  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &error))
    {
      add_note (notes, frame);
      sonde_heap_add_frame (heap, frame);
    }
  sonde_progress_begin (progress, "Looking up names", 0);
  sonde_heap_finish (heap, &command->symbols);
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  *is_whole = *is_whole && error == NULL;
  tell_notes (notes);

  if (sonde_heap_cannot_be_cut (heap))
    sonde_cli_complain ("%s has sums of its heap, which tell no times and no threads of "
                        "allocations: only --diff FROM TO cuts it (record --memory-detail=log)",
                        shown);
  else if (sonde_heap_n_events (heap) == 0)
    sonde_cli_complain ("%s tells nothing of the heap: sondectl record --memory does", shown);
  else if (command->metric == SONDE_HEAP_TEMPORARY && command->heap.temporary_ns < 0
           && heap->interval_bytes > 0)
    sonde_cli_complain ("of a sampled capture only --temporary=DURATION can be told");
  else
    return g_steal_pointer (&heap);
  return NULL;
}

/* (transfer full): @profile as it is asked for; NULL if it has no such function. Uses functions of
 * @profile. */
static SondeProfile *
new_view (SondeProfile *profile, const HeapCommand *command)
{
  if (command->bottom_up)
    return sonde_profile_view_bottom_up (profile);
  if (command->callers != NULL)
    return sonde_profile_view_callers (profile, command->callers);
  return NULL;
}

static void
append_profile (GString *out, const char *title, SondeProfile *profile, const HeapCommand *command)
{
  g_autoptr (SondeProfile) view = new_view (profile, command);
  const SondeProfile *shown = view != NULL ? view : profile;

  if (sonde_profile_total (profile) == 0)
    g_string_append_printf (out, "\n%s: nothing\n", title);
  else if (command->callers != NULL && view == NULL)
    g_string_append_printf (out, "\n%s: nothing by a function of that name\n", title);
  else
    {
      g_string_append_printf (out, "\n%s", title);
      if (command->flat)
        sonde_profile_append_flat (out, shown, &command->style);
      else
        sonde_profile_append_tree (out, shown, &command->style);
    }
}

static gboolean
print (const GString *out, const HeapCommand *command)
{
  return command->json || command->no_pager ? sonde_cli_print (out) : sonde_pager_print (out);
}

/* --- one capture --- */

/* Of several processes the heaviest gives its name. */
static gboolean
write_svg (const SondeHeap *heap, const HeapCommand *command, const SondeProfile *profile)
{
  g_autoptr (GString) svg = g_string_new (NULL);
  g_autoptr (GError) error = NULL;

  sonde_heap_append_svg (svg, heap,
                         sonde_profile_n_processes (profile) > 0
                             ? sonde_profile_process (profile, 0)->process.cmdline
                             : "");
  if (sonde_output_put (command->svg, svg, &error))
    return TRUE;
  sonde_cli_complain ("%s", error->message);
  return FALSE;
}

static gboolean
print_heap (const SondeHeap *heap, const HeapCommand *command)
{
  g_autoptr (SondeProfile) profile = sonde_heap_dup_profile (heap, command->metric, command->unit);
  gboolean has_graph = command->graph || command->svg != NULL;
  g_autoptr (GString) out = NULL;

  if (command->svg != NULL && !write_svg (heap, command, profile))
    return FALSE;
  if (g_strcmp0 (command->svg, "-") == 0)
    return TRUE;
  if (command->json)
    {
      g_autoptr (SondeProfile) view = new_view (profile, command);

      out = sonde_heap_dup_json (heap, view != NULL ? view : profile, command->flat,
                                 command->style.percent_limit, has_graph ? N_JSON_POINTS : 0);
      return print (out, command);
    }

  out = g_string_new (NULL);
  sonde_heap_append_header (out, heap, &command->heap);
  if (has_graph)
    sonde_heap_append_chart (
        out, heap, sonde_pager_n_columns () > 0 ? sonde_pager_n_columns () : DEFAULT_COLUMNS,
        g_get_charset (NULL));
  if (!has_graph || command->is_view)
    append_profile (out, views[command->metric].title, profile, command);
  return print (out, command);
}

/* --- two moments, or captures --- */

typedef struct
{
  const SondeHeap *heap;
  SondeHeapMetric metric;
  char *name; /* "10.0 s", "live at the peak", "before.syscap" */
} Side;

static void
side_clear (Side *side)
{
  g_free (side->name);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Side, side_clear)

static void
append_side (GString *out, const char *label, const Side *side, const SondeHeapAmount *amount)
{
  g_string_append_printf (out, "%-10s%s: ", label, side->name);
  sonde_heap_append_amount (out, amount);
  g_string_append_c (out, '\n');
  if (side->metric == SONDE_HEAP_LEFT)
    sonde_heap_append_suppressed (out, side->heap);
}

static gboolean
print_diff (const Side *before, const Side *after, const HeapCommand *command)
{
  g_autoptr (SondeProfile) old
      = sonde_heap_dup_profile (before->heap, before->metric, command->unit);
  g_autoptr (SondeProfile) new = sonde_heap_dup_profile (after->heap, after->metric, command->unit);
  g_autoptr (SondeProfile) grown = sonde_profile_dup_growth (old, new);
  g_autoptr (SondeProfile) shrunk = sonde_profile_dup_growth (new, old);
  SondeHeapAmount amounts[] = { before->heap->tracker->totals.amounts[before->metric],
                                after->heap->tracker->totals.amounts[after->metric] };
  SondeHeapDiff diff
      = { .before = &amounts[0], .after = &amounts[1], .grown = grown, .shrunk = shrunk };
  g_autoptr (GString) out = NULL;

  if (before->heap->suppressed_by != NULL)
    {
      diff.suppressed[0] = before->heap;
      diff.suppressed[1] = after->heap;
    }
  if (command->json)
    {
      out = sonde_heap_dup_diff_json (&diff, command->flat, command->style.percent_limit);
      return print (out, command);
    }
  out = g_string_new (NULL);
  append_side (out, "Before", before, &amounts[0]);
  append_side (out, "After", after, &amounts[1]);
  append_profile (out, "Grown", grown, command);
  append_profile (out, "Shrunk", shrunk, command);
  return print (out, command);
}

static Side
side_of_moment (const SondeHeap *heap, guint index, gint64 moment_ns)
{
  if (moment_ns == MOMENT_PEAK)
    return (Side){ heap, SONDE_HEAP_PEAK, g_strdup ("live at the peak") };
  if (moment_ns == MOMENT_END)
    return (Side){ heap, SONDE_HEAP_LEFT, g_strdup ("never freed") };
  return (Side){ heap, SONDE_HEAP_AT_FIRST + index, sonde_heap_dup_time (moment_ns) };
}

static gboolean
diff_moments (const SondeHeap *heap, const HeapCommand *command)
{
  gint64 duration_ns = heap->tracker->series->newest_ns;
  g_auto (Side) before = side_of_moment (heap, 0, command->moments_ns[0]);
  g_auto (Side) after = side_of_moment (heap, 1, command->moments_ns[1]);
  g_autofree char *duration = sonde_heap_dup_time (duration_ns);

  if (command->moments_ns[0] > duration_ns || command->moments_ns[1] > duration_ns)
    {
      sonde_cli_complain ("the heap changed last after %s: take an earlier moment, or end",
                          duration);
      return FALSE;
    }
  return print_diff (&before, &after, command);
}

int
sonde_cmd_heap (int argc, char **argv)
{
  g_auto (HeapCommand) command = { 0 };
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeHeap) other = NULL;
  gboolean is_whole = TRUE;
  gboolean is_printed;

  command = (HeapCommand){ .unit = SONDE_UNIT_BYTES, .heap = SONDE_HEAP_OPTIONS_INIT };
  command.suppressions = sonde_suppressions_new ();
  sonde_profile_style_init (&command.style);
  if (!parse_options (&command, &argc, &argv) || !parse_files (&command, argc, argv)
      || !check (&command))
    return 1;
  /* Who compares two captures has changed the program: its functions have other lines now. */
  command.symbols.lines = command.lines || (command.other_path == NULL && !command.no_lines);
  command.cache_folder = g_build_filename (g_get_user_cache_dir (), "sonde", "lines", NULL);
  command.symbols.cache_folder = command.cache_folder;
  heap = read_heap (command.path, &command, &is_whole);
  if (heap == NULL)
    return 1;
  if (command.other_path != NULL
      && (other = read_heap (command.other_path, &command, &is_whole)) == NULL)
    return 1;

  if (other != NULL)
    {
      g_auto (Side) before = { heap, command.metric, sonde_text_escape (command.path, -1) };
      g_auto (Side) after = { other, command.metric, sonde_text_escape (command.other_path, -1) };

      is_printed = print_diff (&before, &after, &command);
    }
  else if (command.diff)
    is_printed = diff_moments (heap, &command);
  else
    is_printed = print_heap (heap, &command);
  return is_printed && is_whole ? 0 : 1;
}
