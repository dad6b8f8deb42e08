/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A heap as JSON for programs, and what stands above its call trees as text: its sums, and how far
 * they are to be trusted. */
#pragma once

#include "client/heap/heap.h"

#define SONDE_HEAP_JSON_VERSION 1 /* raised when a member changes its meaning or goes */

/**
 * sonde_heap_dup_json:
 * @shown: call trees
 * @as_rows: their functions instead of their trees
 * @percent_limit: of @shown: lighter subtrees and functions are left out
 * @n_points: of the graph, 0: none
 *
 * Returns: (transfer full): one line
 */
GString *sonde_heap_dup_json (const SondeHeap *heap,
                              const SondeProfile *shown,
                              gboolean as_rows,
                              double percent_limit,
                              guint n_points);

/* One heap at two moments, or two. */
typedef struct
{
  const SondeHeapAmount *before;
  const SondeHeapAmount *after;
  const SondeProfile *grown;
  const SondeProfile *shrunk;
  const SondeHeap *suppressed[2]; /* whose suppressed blocks are told; NULL: not */
} SondeHeapDiff;

GString *
sonde_heap_dup_diff_json (const SondeHeapDiff *diff, gboolean as_rows, double percent_limit);

/* @options: those that the heap was made with */
void
sonde_heap_append_header (GString *out, const SondeHeap *heap, const SondeHeapOptions *options);

/* "47,395,000 bytes (45.2 MiB) in 12,345 blocks" */
void sonde_heap_append_amount (GString *out, const SondeHeapAmount *amount);

/* What was suppressed of what was never freed, by which rule: lines, or nothing. */
void sonde_heap_append_suppressed (GString *out, const SondeHeap *heap);

/* "1.5 us", "10.0 ms", "2.50 s" */
char *sonde_heap_dup_time (gint64 time_ns);
