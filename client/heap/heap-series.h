/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a quantity changed over time, in a fixed number of intervals. */
#pragma once

#include <glib.h>

/**
 * SECTION: heap-series
 *
 * How long it goes on is known only at the end: intervals begin short, and each time that they do
 * not reach, pairs of them become one of twice the length. Between half of SONDE_HEAP_SERIES_SIZE
 * and all of it are in use at the end, unless there was less than that many ns.
 */
typedef struct SondeHeapSeries SondeHeapSeries;

#define SONDE_HEAP_SERIES_SIZE 4096u

/* @start_ns: when the quantity was 0, and the time of the first interval */
SondeHeapSeries *sonde_heap_series_new (gint64 start_ns);
void sonde_heap_series_free (SondeHeapSeries *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapSeries, sonde_heap_series_free)

/* From @time_ns on it is @value. Times ascend; earlier ones count as the newest so far. */
void sonde_heap_series_add (SondeHeapSeries *self, gint64 time_ns, double value);

/* From the start to the last change; 0 if there was none. */
gint64 sonde_heap_series_duration_ns (const SondeHeapSeries *self);

/**
 * sonde_heap_series_sample:
 * @maxima: (out): the largest value in each of @n equal parts of the duration
 */
void sonde_heap_series_sample (const SondeHeapSeries *self, double *maxima, guint n);
