/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap of a capture: its sums, by stack, and over time. */
#pragma once

#include "client/heap/heap-tracker.h"
#include "client/report/profile.h"
#include "client/report/report.h"

typedef struct SondeHeap SondeHeap;

typedef struct
{
  SondeReportFilter filter;                /* which processes count */
  gint64 temporary_ns;                     /* as in SondeHeapTrackerOptions */
  gint64 moments_ns[SONDE_HEAP_N_MOMENTS]; /* since the start; ascending; G_MAXINT64: not wanted */
} SondeHeapOptions;

#define SONDE_HEAP_OPTIONS_INIT                                                                    \
  {                                                                                                \
    .filter = { .pid = -1 }, .temporary_ns = -1, .moments_ns = { G_MAXINT64, G_MAXINT64 }          \
  }

/**
 * sonde_heap_new:
 * @options: copied
 * @start_ns: of the capture, CLOCK_MONOTONIC: its file header's
 */
SondeHeap *sonde_heap_new (const SondeHeapOptions *options, gint64 start_ns);
void sonde_heap_free (SondeHeap *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeap, sonde_heap_free)

/* @frame: accepted by sonde_frame_check() */
void sonde_heap_add_frame (SondeHeap *self, const SondeFrame *frame);

/* Looks up the names, as @options (nullable) ask. No frame may follow; what is below may be asked
 * only afterwards. */
void sonde_heap_finish (SondeHeap *self, const SondeSymbolOptions *options);

const SondeCaptureModel *sonde_heap_model (const SondeHeap *self);
const SondeHeapTotals *sonde_heap_totals (const SondeHeap *self);
const SondeHeapSeries *sonde_heap_series (const SondeHeap *self);

/* @time_ns: CLOCK_MONOTONIC */
gint64 sonde_heap_since_start (const SondeHeap *self, gint64 time_ns);

/* Mean distance of sampled bytes; 0: the capture has all allocations. */
guint64 sonde_heap_interval_bytes (const SondeHeap *self);

/* Events that could not be put in order of time. */
guint64 sonde_heap_n_late (const SondeHeap *self);

/* Events of programs that the ledger says are missing: allocations, frees, or others. */
guint64 sonde_heap_n_lost (const SondeHeap *self);

/* A sum as a whole number; 0 if it is less. */
guint64 sonde_heap_round (double value);

/**
 * sonde_heap_dup_profile:
 * @metric: which amounts
 * @unit: what shares and order are of: SONDE_UNIT_BYTES or _BLOCKS; the other stands beside it
 *
 * Returns: (transfer full): to be freed before the heap, whose functions it shares
 */
SondeProfile *
sonde_heap_dup_profile (const SondeHeap *self, SondeHeapMetric metric, SondeUnit unit);
