/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A heap as JSON for programs: docs/sondectl.1.rst has its members. */
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
} SondeHeapDiff;

GString *
sonde_heap_dup_diff_json (const SondeHeapDiff *diff, gboolean as_rows, double percent_limit);
