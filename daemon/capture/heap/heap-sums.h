/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sums of heap events by process and stack, with what each had alive when all together had most. */
#pragma once

#include <glib.h>
#include <stdint.h>

#include "base/table.h"

/**
 * SECTION: heap-sums
 *
 * A *row* is the sums of one process at one node of the tree of stacks. What is alive at the peak
 * is kept lazily: a new peak raises the number of peaks, and nothing else; a row that changes, and
 * was not changed since the newest peak, first remembers what it has, which is what it had then. So
 * each event costs the same, however many rows there are, and no peak is missed.
 *
 * Main thread only. Open to be read.
 */
typedef struct
{
  uint64_t bytes;
  uint64_t blocks;
} SondeHeapSum;

/* In the order in which a snapshot has them (protocol/heap-log.h). */
typedef enum
{
  SONDE_HEAP_SUM_ALLOCATED,
  SONDE_HEAP_SUM_LIVE,
  SONDE_HEAP_SUM_PEAK,         /* of a row: see @n_peaks */
  SONDE_HEAP_SUM_LEFT,         /* alive when the process ended */
  SONDE_HEAP_SUM_TEMPORARY,    /* freed by its thread before that allocated again */
  SONDE_HEAP_SUM_CROSS_THREAD, /* freed by another thread */
  SONDE_HEAP_N_SUMS,
} SondeHeapSumKind;

typedef struct
{
  uint32_t process; /* both numbers are the caller's business */
  uint32_t node;
  uint64_t n_peaks; /* up to which PEAK is right: later ones had what is alive now */
  SondeHeapSum sums[SONDE_HEAP_N_SUMS];
  gboolean is_changed; /* since sonde_heap_sums_next_changed() told it */
} SondeHeapRow;

typedef struct
{
  GArray *rows;    /* SondeHeapRow */
  GArray *changed; /* guint32, numbers of rows */
  SondeTable numbers;
  SondeHeapSum live;
  SondeHeapSum peak;
  int64_t peak_ns;
  uint64_t n_peaks; /* so far */
  guint max_rows;
} SondeHeapSums;

SondeHeapSums *sonde_heap_sums_new (guint max_rows);
void sonde_heap_sums_free (SondeHeapSums *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapSums, sonde_heap_sums_free)

/* The row's number. FALSE: there is none, nor room for it. */
gboolean sonde_heap_sums_row (SondeHeapSums *self, uint32_t process, uint32_t node, uint32_t *row);

/* @n_blocks of @size_bytes each begin to live. */
void sonde_heap_sums_begin (
    SondeHeapSums *self, uint32_t row, uint64_t size_bytes, uint64_t n_blocks, int64_t time_ns);
/* Or begin, and are followed no further. */
void
sonde_heap_sums_count (SondeHeapSums *self, uint32_t row, uint64_t size_bytes, uint64_t n_blocks);
/* They end. @kinds: bits (1 << SondeHeapSumKind) of the sums that they are part of, too: LEFT,
 * TEMPORARY, CROSS_THREAD */
void sonde_heap_sums_end (
    SondeHeapSums *self, uint32_t row, uint64_t size_bytes, uint64_t n_blocks, unsigned kinds);

/* What the row had alive at the newest peak. */
SondeHeapSum sonde_heap_sums_peak_of (const SondeHeapSums *self, uint32_t row);

/* Rows that changed, each once, until it changes again. FALSE: no more. */
gboolean sonde_heap_sums_next_changed (SondeHeapSums *self, uint32_t *row);
