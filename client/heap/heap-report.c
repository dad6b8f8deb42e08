/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/heap/heap-report.h"

#include "client/base/json.h"
#include "client/report/profile-json.h"
#include "client/report/report-text.h"
#include "client/base/text.h"

#define MAX_TOLD 8u /* patterns that suppressed something */

char *
sonde_heap_dup_time (gint64 time_ns)
{
  if (time_ns < 1000000)
    return g_strdup_printf ("%.1f us", (double) MAX (time_ns, 0) / 1e3);
  if (time_ns < 1000000000)
    return g_strdup_printf ("%.1f ms", (double) time_ns / 1e6);
  return sonde_text_duration (time_ns);
}

void
sonde_heap_append_amount (GString *out, const SondeHeapAmount *amount)
{
  guint64 n_bytes = sonde_heap_round (amount->bytes);
  g_autofree char *bytes = sonde_text_plural (n_bytes, "byte", "bytes");
  g_autofree char *size = sonde_text_size (n_bytes);
  g_autofree char *blocks
      = sonde_text_plural (sonde_heap_round (amount->blocks), "block", "blocks");

  g_string_append (out, bytes);
  if (n_bytes >= 1024)
    g_string_append_printf (out, " (%s)", size);
  g_string_append_printf (out, " in %s", blocks);
}

static void
append_row (GString *out, const char *label, const SondeHeapAmount *amount, const char *more)
{
  g_autoptr (GString) line = g_string_new (NULL);

  sonde_heap_append_amount (line, amount);
  g_string_append (line, more);
  sonde_text_append_labelled (out, label, line->str);
}

/* "Of these  72,704 bytes (71.0 KiB) in 1 block suppressed: leak:pool" */
void
sonde_heap_append_suppressed (GString *out, const SondeHeap *heap)
{
  guint n_rules = heap->by_rule != NULL ? sonde_suppressions_n_rules (heap->suppressions) : 0;
  SondeHeapAmount rest = heap->suppressed;
  guint n_told = 0;

  for (guint i = 0; i < n_rules && n_told < MAX_TOLD; i++)
    {
      const SondeHeapAmount *amount = &heap->by_rule[i];
      g_autofree char *more = NULL;

      if (amount->blocks <= 0)
        continue;
      more = g_strdup_printf (" suppressed: %s", sonde_suppressions_rule (heap->suppressions, i));
      append_row (out, "Of these", amount, more);
      rest.bytes -= amount->bytes;
      rest.blocks -= amount->blocks;
      n_told++;
    }
  if (sonde_heap_round (rest.blocks) > 0)
    append_row (out, "Of these", &rest, " suppressed by others");
}

/* ": 16.2% of all blocks, freed by their thread before it allocated again" */
static void
append_share (GString *out,
              const char *label,
              const SondeHeapTotals *totals,
              SondeHeapMetric metric,
              const char *text)
{
  const SondeHeapAmount *amount = &totals->amounts[metric];
  double allocated = totals->amounts[SONDE_HEAP_ALLOCATED].blocks;
  g_autofree char *more = NULL;

  if (amount->blocks < 0.5)
    return;
  more = g_strdup_printf (", %.1f%% of all: %s", 100 * amount->blocks / MAX (allocated, 1), text);
  append_row (out, label, amount, more);
}

static void
append_caveat (GString *out, guint64 n, const char *singular, const char *plural)
{
  g_autofree char *line = NULL;

  if (n == 0)
    return;
  line = sonde_text_plural (n, singular, plural);
  sonde_text_append_labelled (out, "Inexact", line);
}

void
sonde_heap_append_header (GString *out, const SondeHeap *heap, const SondeHeapOptions *options)
{
  const SondeCaptureModel *model = heap->model;
  const SondeHeapTotals *totals = &heap->tracker->totals;
  g_autoptr (SondeProfile) profile
      = sonde_heap_dup_profile (heap, SONDE_HEAP_ALLOCATED, SONDE_UNIT_BYTES);
  g_autofree char *peak_time = sonde_heap_dup_time (sonde_heap_since_start (heap, totals->peak_ns));
  g_autofree char *when = g_strdup_printf (", after %s", peak_time);
  g_autofree char *limit = NULL;
  g_autofree char *text = NULL;
  guint64 interval_bytes;
  g_autofree char *events = NULL;
  g_autofree char *time = NULL;
  g_autofree char *interval = NULL;
  g_autofree char *line = NULL;

  sonde_report_append_subject (out, model, profile);
  interval_bytes = heap->interval_bytes;
  events = sonde_text_count (sonde_heap_n_events (heap));
  time = sonde_heap_dup_time (heap->tracker->series->newest_ns);
  interval = sonde_text_size (interval_bytes);
  line = interval_bytes > 0 ? g_strdup_printf (
             "%s events in %s, sampled each %s: what follows are estimates", events, time, interval)
                            : g_strdup_printf ("%s in %s", events, time);
  sonde_text_append_labelled (out, "Events", line);
  append_row (out, "Allocated", &totals->amounts[SONDE_HEAP_ALLOCATED], "");
  append_row (out, "Freed", &totals->freed, "");
  append_row (out, "Not freed", &totals->amounts[SONDE_HEAP_LEFT], "");
  sonde_heap_append_suppressed (out, heap);
  append_row (out, "Peak", &totals->amounts[SONDE_HEAP_PEAK], when);
  limit = sonde_heap_dup_time (options->temporary_ns);
  text = g_strdup_printf ("freed within %s", limit);
  append_share (out, "Temporary", totals, SONDE_HEAP_TEMPORARY,
                options->temporary_ns < 0 ? "freed by their thread before it allocated again"
                                          : text);
  append_share (out, "Handed on", totals, SONDE_HEAP_CROSS_THREAD, "freed by another thread");
  if (totals->inherited.blocks > 0)
    append_row (out, "Inherited", &totals->inherited,
                ": of parents, not freed by forked children; not counted above");
  append_caveat (out, sonde_heap_n_lost (heap),
                 "event was lost (record --memory-wait=1000000): the sums lack it",
                 "events were lost (record --memory-wait=1000000): the sums lack them");
  append_caveat (out, sonde_heap_n_unreadable (heap),
                 "event of the log could not be read: the sums lack it",
                 "events of the log could not be read: the sums lack them");
  append_caveat (out, sonde_heap_sums_reader_counts (heap->sums)->n_cut,
                 "stack of a capture with sums has no room here: the sums lack it",
                 "stacks of a capture with sums have no room here: the sums lack them");
  append_caveat (out, totals->n_unknown_freed,
                 "block was freed that was allocated before the capture began, or unseen",
                 "blocks were freed that were allocated before the capture began, or unseen");
  append_caveat (out, totals->n_frees_missing,
                 "address was allocated again without a free, which is taken for granted",
                 "addresses were allocated again without a free, which is taken for granted");
  append_caveat (out, heap->order.n_late, "event could not be put in order of time",
                 "events could not be put in order of time");
  append_caveat (out, totals->n_forks_not_followed,
                 "forked child had too many blocks of its parent: their frees are unknown",
                 "forked children had too many blocks of their parents: their frees are unknown");
  sonde_report_append_truncated (out, model);
}

static void
add_number (SondeJson *json, const char *member, guint64 value)
{
  sonde_json_add_number (json, member, (gint64) MIN (value, (guint64) G_MAXINT64));
}

static void
add_amount (SondeJson *json, const char *member, const SondeHeapAmount *amount)
{
  sonde_json_begin_object (json, member);
  add_number (json, "bytes", sonde_heap_round (amount->bytes));
  add_number (json, "blocks", sonde_heap_round (amount->blocks));
  sonde_json_end_object (json);
}

static void
add_suppressed (SondeJson *json, const char *member, const SondeHeap *heap)
{
  guint n_rules = heap->by_rule != NULL ? sonde_suppressions_n_rules (heap->suppressions) : 0;

  sonde_json_begin_object (json, member);
  add_number (json, "bytes", sonde_heap_round (heap->suppressed.bytes));
  add_number (json, "blocks", sonde_heap_round (heap->suppressed.blocks));
  sonde_json_begin_array (json, "by");
  for (guint i = 0; i < n_rules; i++)
    if (heap->by_rule[i].blocks > 0)
      {
        sonde_json_begin_object (json, NULL);
        sonde_json_add_text (json, "rule", sonde_suppressions_rule (heap->suppressions, i));
        add_number (json, "bytes", sonde_heap_round (heap->by_rule[i].bytes));
        add_number (json, "blocks", sonde_heap_round (heap->by_rule[i].blocks));
        sonde_json_end_object (json);
      }
  sonde_json_end_array (json);
  sonde_json_end_object (json);
}

static void
add_profile (SondeJson *json, const SondeProfile *profile, gboolean as_rows, double percent_limit)
{
  sonde_json_add_text (json, "unit",
                       sonde_profile_unit (profile) == SONDE_UNIT_BYTES ? "bytes" : "blocks");
  add_number (json, "total", sonde_profile_total (profile));
  if (as_rows)
    sonde_profile_json_add_rows (json, "rows", profile, percent_limit);
  else
    sonde_profile_json_add_tree (json, profile, percent_limit);
}

GString *
sonde_heap_dup_json (const SondeHeap *heap,
                     const SondeProfile *shown,
                     gboolean as_rows,
                     double percent_limit,
                     guint n_points)
{
  GString *out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);
  const SondeHeapTotals *totals = &heap->tracker->totals;

  sonde_json_begin_object (&json, NULL);
  add_number (&json, "version", SONDE_HEAP_JSON_VERSION);
  add_number (&json, "events", sonde_heap_n_events (heap));
  add_number (&json, "interval-bytes", heap->interval_bytes);
  add_number (&json, "duration-ns", (guint64) heap->tracker->series->newest_ns);
  add_amount (&json, "allocated", &totals->amounts[SONDE_HEAP_ALLOCATED]);
  add_amount (&json, "freed", &totals->freed);
  add_amount (&json, "left", &totals->amounts[SONDE_HEAP_LEFT]);
  add_suppressed (&json, "suppressed", heap);
  add_amount (&json, "peak", &totals->amounts[SONDE_HEAP_PEAK]);
  add_number (&json, "peak-ns", (guint64) sonde_heap_since_start (heap, totals->peak_ns));
  add_amount (&json, "temporary", &totals->amounts[SONDE_HEAP_TEMPORARY]);
  add_amount (&json, "cross-thread", &totals->amounts[SONDE_HEAP_CROSS_THREAD]);
  add_amount (&json, "inherited", &totals->inherited);
  /* What makes the sums inexact; all 0 where nothing does. */
  sonde_json_begin_object (&json, "inexact");
  add_number (&json, "lost", sonde_heap_n_lost (heap));
  add_number (&json, "unknown-freed", totals->n_unknown_freed);
  add_number (&json, "frees-missing", totals->n_frees_missing);
  add_number (&json, "late", heap->order.n_late);
  add_number (&json, "forks-not-followed", totals->n_forks_not_followed);
  add_number (&json, "unreadable", sonde_heap_n_unreadable (heap));
  sonde_json_end_object (&json);
  sonde_profile_json_add_truncated (&json, heap->model);
  if (n_points > 0)
    {
      g_autofree double *maxima = g_new (double, n_points);

      /* The largest number of live bytes in each of equal parts of the time. */
      sonde_heap_series_sample (heap->tracker->series, maxima, n_points);
      sonde_json_begin_array (&json, "graph");
      for (guint i = 0; i < n_points; i++)
        sonde_json_add_number (&json, NULL, (gint64) sonde_heap_round (maxima[i]));
      sonde_json_end_array (&json);
    }
  add_profile (&json, shown, as_rows, percent_limit);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
  return out;
}

static void
add_change (SondeJson *json,
            const char *member,
            const SondeProfile *change,
            gboolean as_rows,
            double percent_limit)
{
  sonde_json_begin_object (json, member);
  add_profile (json, change, as_rows, percent_limit);
  sonde_json_end_object (json);
}

GString *
sonde_heap_dup_diff_json (const SondeHeapDiff *diff, gboolean as_rows, double percent_limit)
{
  GString *out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);

  sonde_json_begin_object (&json, NULL);
  add_number (&json, "version", SONDE_HEAP_JSON_VERSION);
  add_amount (&json, "before", diff->before);
  add_amount (&json, "after", diff->after);
  if (diff->suppressed[0] != NULL)
    {
      add_suppressed (&json, "suppressed-before", diff->suppressed[0]);
      add_suppressed (&json, "suppressed-after", diff->suppressed[1]);
    }
  add_change (&json, "grown", diff->grown, as_rows, percent_limit);
  add_change (&json, "shrunk", diff->shrunk, as_rows, percent_limit);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
  return out;
}
