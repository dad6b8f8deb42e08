/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl heap: who allocated, held and leaked memory in a capture. */
#include "client/commands.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "client/model/capture-file.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/heap/heap-chart.h"
#include "client/heap/heap-json.h"
#include "client/heap/heap-options.h"
#include "client/heap/heap-svg.h"
#include "client/heap/heap-text.h"
#include "client/base/pager.h"
#include "client/report/profile-growth.h"
#include "client/report/profile-text.h"
#include "client/report/profile-view.h"
#include "client/base/text.h"

#define DEFAULT_COLUMNS 80u
#define N_JSON_POINTS   1000u

/* What comes before a break in the capture is shown all the same. NULL, having complained, if there
 * is nothing to show. @is_whole: (inout): FALSE from the first break on */
static SondeHeap *
read_heap (const char *path, const SondeHeapCommand *command, gboolean *is_whole)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeProgress) progress = NULL;
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
    sonde_heap_add_frame (heap, frame);
  sonde_progress_begin (progress, "Looking up names", 0);
  sonde_heap_finish (heap, &command->symbols);
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  *is_whole = *is_whole && error == NULL;

  if (sonde_capture_model_n_allocations (sonde_heap_model (heap)) == 0)
    sonde_cli_complain ("%s tells nothing of the heap: sondectl record --memory does", shown);
  else if (command->metric == SONDE_HEAP_TEMPORARY && command->heap.temporary_ns < 0
           && sonde_heap_interval_bytes (heap) > 0)
    sonde_cli_complain ("of a sampled capture only --temporary=DURATION can be told");
  else
    return g_steal_pointer (&heap);
  return NULL;
}

/* (transfer full): @profile as it is asked for; NULL if it has no such function. Uses functions of
 * @profile. */
static SondeProfile *
new_view (SondeProfile *profile, const SondeHeapCommand *command)
{
  if (command->bottom_up)
    return sonde_profile_view_bottom_up (profile);
  if (command->callers != NULL)
    return sonde_profile_view_callers (profile, command->callers);
  return NULL;
}

static void
append_profile (GString *out,
                const char *title,
                SondeProfile *profile,
                const SondeHeapCommand *command)
{
  SondeProfileStyle style = {
    .percent_limit = command->percent_limit,
    .max_depth = (guint) command->max_depth,
    .utf8 = g_get_charset (NULL),
    .colours = sonde_pager_wants_colours (),
  };
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
        sonde_profile_append_flat (out, shown, &style);
      else
        sonde_profile_append_tree (out, shown, &style);
    }
}

static gboolean
print (const GString *out, const SondeHeapCommand *command)
{
  return command->json || command->no_pager ? sonde_cli_print (out) : sonde_pager_print (out);
}

/* --- one capture --- */

static guint
count_columns (void)
{
  struct winsize size = { 0 };

  return isatty (STDOUT_FILENO) && ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
             ? size.ws_col
             : DEFAULT_COLUMNS;
}

/* Of several processes the heaviest gives its name. */
static gboolean
write_svg (const SondeHeap *heap, const SondeHeapCommand *command, const SondeProfile *profile)
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
print_heap (const SondeHeap *heap, const SondeHeapCommand *command)
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
                                 command->percent_limit, has_graph ? N_JSON_POINTS : 0);
      return print (out, command);
    }

  out = g_string_new (NULL);
  sonde_heap_append_header (out, heap, &command->heap);
  if (has_graph)
    sonde_heap_append_chart (out, heap, count_columns (), g_get_charset (NULL));
  if (!has_graph || command->is_view)
    append_profile (out, sonde_heap_metric_title (command->metric), profile, command);
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
append_side (GString *out, const char *label, const Side *side)
{
  const SondeHeapAmount *amount = &sonde_heap_totals (side->heap)->amounts[side->metric];

  g_string_append_printf (out, "%-10s%s: ", label, side->name);
  sonde_heap_append_amount (out, amount);
  g_string_append_c (out, '\n');
}

static const SondeHeapAmount *
amount_of (const Side *side)
{
  return &sonde_heap_totals (side->heap)->amounts[side->metric];
}

static gboolean
print_diff (const Side *before, const Side *after, const SondeHeapCommand *command)
{
  g_autoptr (SondeProfile) old
      = sonde_heap_dup_profile (before->heap, before->metric, command->unit);
  g_autoptr (SondeProfile) new = sonde_heap_dup_profile (after->heap, after->metric, command->unit);
  g_autoptr (SondeProfile) grown = sonde_profile_dup_growth (old, new);
  g_autoptr (SondeProfile) shrunk = sonde_profile_dup_growth (new, old);
  SondeHeapDiff diff = { amount_of (before), amount_of (after), grown, shrunk };
  g_autoptr (GString) out = NULL;

  if (command->json)
    {
      out = sonde_heap_dup_diff_json (&diff, command->flat, command->percent_limit);
      return print (out, command);
    }
  out = g_string_new (NULL);
  append_side (out, "Before", before);
  append_side (out, "After", after);
  append_profile (out, "Grown", grown, command);
  append_profile (out, "Shrunk", shrunk, command);
  return print (out, command);
}

static Side
side_of_moment (const SondeHeap *heap, guint index, gint64 moment_ns)
{
  if (moment_ns == SONDE_HEAP_MOMENT_PEAK)
    return (Side){ heap, SONDE_HEAP_PEAK, g_strdup ("live at the peak") };
  if (moment_ns == SONDE_HEAP_MOMENT_END)
    return (Side){ heap, SONDE_HEAP_LEFT, g_strdup ("never freed") };
  return (Side){ heap, SONDE_HEAP_AT_FIRST + index, sonde_heap_dup_time (moment_ns) };
}

static gboolean
diff_moments (const SondeHeap *heap, const SondeHeapCommand *command)
{
  gint64 duration_ns = sonde_heap_series_duration_ns (sonde_heap_series (heap));
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

static gboolean
diff_captures (const SondeHeap *old, const SondeHeap *new, const SondeHeapCommand *command)
{
  g_auto (Side) before = { old, command->metric, sonde_text_escape (command->path, -1) };
  g_auto (Side) after = { new, command->metric, sonde_text_escape (command->other_path, -1) };

  return print_diff (&before, &after, command);
}

int
sonde_cmd_heap (int argc, char **argv)
{
  g_auto (SondeHeapCommand) command = { 0 };
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeHeap) other = NULL;
  gboolean is_whole = TRUE;
  gboolean is_printed;

  if (!sonde_heap_command_parse (&command, &argc, &argv))
    return 1;
  heap = read_heap (command.path, &command, &is_whole);
  if (heap == NULL)
    return 1;
  if (command.other_path != NULL
      && (other = read_heap (command.other_path, &command, &is_whole)) == NULL)
    return 1;

  if (other != NULL)
    is_printed = diff_captures (heap, other, &command);
  else if (command.diff)
    is_printed = diff_moments (heap, &command);
  else
    is_printed = print_heap (heap, &command);
  return is_printed && is_whole ? 0 : 1;
}
