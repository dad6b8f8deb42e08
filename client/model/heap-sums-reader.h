/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the sums of heap events in a capture: stacks, and what each has by now. */
#pragma once

#include <glib.h>

#include "client/model/heap-log-reader.h"
#include "protocol/heap-sums.h"

/**
 * SECTION: heap-sums-reader
 *
 * Segments say what stacks have by then, from the beginning of the session on. One that is not
 * readable, or that this stream lost, makes what builds on it unreadable up to the next epoch,
 * which has all that its processes still have. Whatever comes, it takes memory for what epochs may
 * have at most, and time by the bytes of segments.
 */
typedef struct
{
  SondeHeapSumsAmount amounts[SONDE_HEAP_SUMS_N_KINDS];
  guint64 id;
  guint64 peak;
  gboolean is_over;
} SondeHeapSum;

typedef struct
{
  SondeHeapLogCounts log;      /* n_told: events of segments that could be read */
  gboolean is_complete;        /* all from the beginning was read: sums are those of the header */
  gboolean is_whole;           /* with the last segment all was told */
  guint64 n_before;            /* events before the first segment that could be read */
  guint64 n_cut;               /* stacks without room: their sums are not known */
  SondeHeapSumsSegment header; /* of the last that could be read */
} SondeHeapSumsCounts;

typedef struct SondeHeapSumsReader SondeHeapSumsReader;

/* A stack that is new: @sum counts up from 0. @stack: (transfer none) */
typedef void (*SondeHeapSumsStackFunc) (
    guint32 sum, gint32 pid, gint64 time_ns, SondeHeapLogStack *stack, gpointer user_data);
/* Before sums are changed by the segment of @next: see the reader for what they were. */
typedef void (*SondeHeapSumsNextFunc) (const SondeHeapSumsSegment *next, gpointer user_data);

typedef struct
{
  SondeHeapSumsStackFunc stack; /* NULL: as the next, it is not told */
  SondeHeapSumsNextFunc next;
} SondeHeapSumsFuncs;

SondeHeapSumsReader *sonde_heap_sums_reader_new (const SondeHeapSumsFuncs *funcs,
                                                 gpointer user_data);
void sonde_heap_sums_reader_free (SondeHeapSumsReader *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapSumsReader, sonde_heap_sums_reader_free)

/* @chunk: accepted by sonde_frame_check(); any but the sums' is left alone. */
void sonde_heap_sums_reader_add (SondeHeapSumsReader *self, const SondeFrame *chunk);

const SondeHeapSumsCounts *sonde_heap_sums_reader_counts (const SondeHeapSumsReader *self);
guint32 sonde_heap_sums_reader_n_sums (const SondeHeapSumsReader *self);
const SondeHeapSum *sonde_heap_sums_reader_sum (const SondeHeapSumsReader *self, guint32 sum);
/* What is live of it, or was when its process ended. */
SondeHeapSumsAmount sonde_heap_sum_live (const SondeHeapSum *self);
/* What was live of it at the peak of the last segment. */
SondeHeapSumsAmount sonde_heap_sums_reader_at_peak (const SondeHeapSumsReader *self,
                                                    const SondeHeapSum *sum);
/* NULL, or in what the sums do not close: a clause. */
const char *sonde_heap_sums_reader_check (const SondeHeapSumsReader *self);
