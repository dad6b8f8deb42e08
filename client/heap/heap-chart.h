/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap over time, drawn with characters. */
#pragma once

#include "client/heap/heap.h"

/* @n_columns: of the whole picture; @utf8: blocks of eighths instead of # */
void sonde_heap_append_chart (GString *out, const SondeHeap *heap, guint n_columns, gboolean utf8);

/**
 * sonde_heap_chart_step:
 * @n_most: steps
 * @base: 1000 or 1024: its powers, and round multiples of them, are round
 *
 * Returns: the smallest round step of which @n_most cover @span
 */
double sonde_heap_chart_step (double span, guint n_most, double base);

/* "750 MiB", "1250 MiB", "1.5 s": a multiple of @step in the unit of @step; "0". */
char *sonde_heap_chart_size (double bytes, double step);
char *sonde_heap_chart_time (double time_ns, double step_ns);
