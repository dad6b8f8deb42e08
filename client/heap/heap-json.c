/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A heap as JSON for programs: docs/sondectl.1.rst has its members. */
#include "client/heap/heap-json.h"

#include "client/report/profile-json.h"

static void
add_number (JsonBuilder *builder, const char *member, guint64 value)
{
  json_builder_set_member_name (builder, member);
  json_builder_add_int_value (builder, (gint64) MIN (value, (guint64) G_MAXINT64));
}

static void
add_amount (JsonBuilder *builder, const char *member, const SondeHeapAmount *amount)
{
  json_builder_set_member_name (builder, member);
  json_builder_begin_object (builder);
  add_number (builder, "bytes", sonde_heap_round (amount->bytes));
  add_number (builder, "blocks", sonde_heap_round (amount->blocks));
  json_builder_end_object (builder);
}

static void
add_totals (JsonBuilder *builder, const SondeHeap *heap)
{
  const SondeHeapTotals *totals = sonde_heap_totals (heap);

  add_amount (builder, "allocated", &totals->amounts[SONDE_HEAP_ALLOCATED]);
  add_amount (builder, "freed", &totals->freed);
  add_amount (builder, "left", &totals->amounts[SONDE_HEAP_LEFT]);
  add_amount (builder, "peak", &totals->amounts[SONDE_HEAP_PEAK]);
  add_number (builder, "peak-ns", (guint64) sonde_heap_since_start (heap, totals->peak_ns));
  add_amount (builder, "temporary", &totals->amounts[SONDE_HEAP_TEMPORARY]);
  add_amount (builder, "cross-thread", &totals->amounts[SONDE_HEAP_CROSS_THREAD]);
  add_amount (builder, "inherited", &totals->inherited);
}

/* What makes the sums inexact; all 0 where nothing does. */
static void
add_caveats (JsonBuilder *builder, const SondeHeap *heap)
{
  const SondeHeapTotals *totals = sonde_heap_totals (heap);

  json_builder_set_member_name (builder, "inexact");
  json_builder_begin_object (builder);
  add_number (builder, "lost", sonde_heap_n_lost (heap));
  add_number (builder, "unknown-freed", totals->n_unknown_freed);
  add_number (builder, "frees-missing", totals->n_frees_missing);
  add_number (builder, "late", sonde_heap_n_late (heap));
  add_number (builder, "forks-not-followed", totals->n_forks_not_followed);
  json_builder_end_object (builder);
}

/* The largest number of live bytes in each of equal parts of the time. */
static void
add_graph (JsonBuilder *builder, const SondeHeap *heap, guint n_points)
{
  g_autofree double *maxima = g_new (double, n_points);

  sonde_heap_series_sample (sonde_heap_series (heap), maxima, n_points);
  json_builder_set_member_name (builder, "graph");
  json_builder_begin_array (builder);
  for (guint i = 0; i < n_points; i++)
    json_builder_add_int_value (builder, (gint64) sonde_heap_round (maxima[i]));
  json_builder_end_array (builder);
}

static void
add_profile (JsonBuilder *builder,
             const SondeProfile *profile,
             gboolean as_rows,
             double percent_limit)
{
  json_builder_set_member_name (builder, "unit");
  json_builder_add_string_value (
      builder, sonde_profile_unit (profile) == SONDE_UNIT_BYTES ? "bytes" : "blocks");
  add_number (builder, "total", sonde_profile_total (profile));
  if (as_rows)
    sonde_profile_json_add_rows (builder, "rows", profile, percent_limit);
  else
    sonde_profile_json_add_tree (builder, profile, percent_limit);
}

/* (transfer full): what @builder built, as one line. */
static GString *
dup_line (JsonBuilder *builder)
{
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  GString *out = g_string_new (NULL);

  json_generator_set_root (generator, root);
  json_generator_to_gstring (generator, out);
  g_string_append_c (out, '\n');
  return out;
}

GString *
sonde_heap_dup_json (const SondeHeap *heap,
                     const SondeProfile *shown,
                     gboolean as_rows,
                     double percent_limit,
                     guint n_points)
{
  g_autoptr (JsonBuilder) builder = json_builder_new_immutable ();

  json_builder_begin_object (builder);
  add_number (builder, "version", SONDE_HEAP_JSON_VERSION);
  add_number (builder, "events", sonde_capture_model_n_allocations (sonde_heap_model (heap)));
  add_number (builder, "interval-bytes", sonde_heap_interval_bytes (heap));
  add_number (builder, "duration-ns",
              (guint64) sonde_heap_series_duration_ns (sonde_heap_series (heap)));
  add_totals (builder, heap);
  add_caveats (builder, heap);
  if (n_points > 0)
    add_graph (builder, heap, n_points);
  add_profile (builder, shown, as_rows, percent_limit);
  json_builder_end_object (builder);
  return dup_line (builder);
}

static void
add_change (JsonBuilder *builder,
            const char *member,
            const SondeProfile *change,
            gboolean as_rows,
            double percent_limit)
{
  json_builder_set_member_name (builder, member);
  json_builder_begin_object (builder);
  add_profile (builder, change, as_rows, percent_limit);
  json_builder_end_object (builder);
}

GString *
sonde_heap_dup_diff_json (const SondeHeapDiff *diff, gboolean as_rows, double percent_limit)
{
  g_autoptr (JsonBuilder) builder = json_builder_new_immutable ();

  json_builder_begin_object (builder);
  add_number (builder, "version", SONDE_HEAP_JSON_VERSION);
  add_amount (builder, "before", diff->before);
  add_amount (builder, "after", diff->after);
  add_change (builder, "grown", diff->grown, as_rows, percent_limit);
  add_change (builder, "shrunk", diff->shrunk, as_rows, percent_limit);
  json_builder_end_object (builder);
  return dup_line (builder);
}
