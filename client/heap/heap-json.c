/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A heap as JSON for programs: docs/sondectl.1.rst has its members. */
#include "client/heap/heap-json.h"

#include "client/base/json.h"
#include "client/report/profile-json.h"

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
add_totals (SondeJson *json, const SondeHeap *heap)
{
  const SondeHeapTotals *totals = sonde_heap_totals (heap);

  add_amount (json, "allocated", &totals->amounts[SONDE_HEAP_ALLOCATED]);
  add_amount (json, "freed", &totals->freed);
  add_amount (json, "left", &totals->amounts[SONDE_HEAP_LEFT]);
  add_amount (json, "peak", &totals->amounts[SONDE_HEAP_PEAK]);
  add_number (json, "peak-ns", (guint64) sonde_heap_since_start (heap, totals->peak_ns));
  add_amount (json, "temporary", &totals->amounts[SONDE_HEAP_TEMPORARY]);
  add_amount (json, "cross-thread", &totals->amounts[SONDE_HEAP_CROSS_THREAD]);
  add_amount (json, "inherited", &totals->inherited);
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
  const SondeHeapTotals *totals;

  sonde_json_begin_object (&json, NULL);
  add_number (&json, "version", SONDE_HEAP_JSON_VERSION);
  add_number (&json, "events", sonde_capture_model_n_allocations (sonde_heap_model (heap)));
  add_number (&json, "interval-bytes", sonde_heap_interval_bytes (heap));
  add_number (&json, "duration-ns",
              (guint64) sonde_heap_series_duration_ns (sonde_heap_series (heap)));
  add_totals (&json, heap);
  /* What makes the sums inexact; all 0 where nothing does. */
  totals = sonde_heap_totals (heap);
  sonde_json_begin_object (&json, "inexact");
  add_number (&json, "lost", sonde_heap_n_lost (heap));
  add_number (&json, "unknown-freed", totals->n_unknown_freed);
  add_number (&json, "frees-missing", totals->n_frees_missing);
  add_number (&json, "late", sonde_heap_n_late (heap));
  add_number (&json, "forks-not-followed", totals->n_forks_not_followed);
  sonde_json_end_object (&json);
  sonde_profile_json_add_truncated (&json, sonde_heap_model (heap));
  if (n_points > 0)
    {
      g_autofree double *maxima = g_new (double, n_points);

      /* The largest number of live bytes in each of equal parts of the time. */
      sonde_heap_series_sample (sonde_heap_series (heap), maxima, n_points);
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
  add_change (&json, "grown", diff->grown, as_rows, percent_limit);
  add_change (&json, "shrunk", diff->shrunk, as_rows, percent_limit);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
  return out;
}
