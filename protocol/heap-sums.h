/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of the sums of heap events, an embedded file of captures. */
#pragma once

#include "protocol/heap-log.h"

/**
 * SECTION: heap-sums
 *
 * Chunks, segments, labels and numbers are as those of the log (protocol/heap-log.h). A segment has
 * no events but what they have made: of each stack of a process that has changed since it was told
 * last, all of its sums, from the beginning of the session on. So a segment that is missed is made
 * good by what comes, and the last that tells of a stack is right.
 *
 * In an epoch pcs, nodes and stacks are numbered from 0, nodes from 1. A stack has an id, too, the
 * same in all epochs of a session: who reads two knows again what he has.
 *
 * Source: docs/protocol.md, "Sums of heap events"
 */
#define SONDE_HEAP_SUMS_PATH    "sonde/heap-sums.v1.zst"
#define SONDE_HEAP_SUMS_VERSION 1

typedef enum
{
  SONDE_HEAP_SUMS_PCS,    /* of each: its difference to the one before, zigzag */
  SONDE_HEAP_SUMS_NODES,  /* of each: its caller's node, or 0; its pc */
  SONDE_HEAP_SUMS_STACKS, /* of each: its id, as its difference to the one before, zigzag; process;
                             node, or 0; ns from the segment's time to its first block's, zigzag */
  SONDE_HEAP_SUMS_VALUES, /* of each: its stack, as the difference to the one before, zigzag;
                             SondeHeapSumsFlag; the number of the peak; then bytes and blocks of
                             each of SondeHeapSumsKind */
  SONDE_HEAP_SUMS_N_COLUMNS,
} SondeHeapSumsColumn;

/* What is live is what was allocated, less what was freed, less what was not followed. */
typedef enum
{
  SONDE_HEAP_SUMS_ALLOCATED,
  SONDE_HEAP_SUMS_FREED,
  SONDE_HEAP_SUMS_UNFOLLOWED, /* without room to see when it is freed: never live */
  SONDE_HEAP_SUMS_TEMPORARY,  /* freed by its thread before that allocated again */
  SONDE_HEAP_SUMS_CROSS_THREAD,
  SONDE_HEAP_SUMS_PEAK, /* live at the peak of that number. At a later one it was what is live now,
                           or nothing if its process is over */
  SONDE_HEAP_SUMS_N_KINDS,
} SondeHeapSumsKind;

typedef enum
{
  SONDE_HEAP_SUMS_IS_OVER = 1 << 0, /* its process has ended: it does not change any more */
} SondeHeapSumsFlag;

typedef struct
{
  uint64_t bytes;
  uint64_t blocks; /* times SondeHeapSumsSegment.scale */
} SondeHeapSumsAmount;

typedef struct
{
  uint32_t version;  /* SONDE_HEAP_SUMS_VERSION */
  uint32_t epoch;    /* counts up from 0 */
  uint32_t sequence; /* in its epoch, from 0 */
  uint32_t is_whole; /* with this segment all that has changed is told */
  uint32_t scale;    /* 1, or of a sampled session what estimated numbers of blocks are times */
  uint32_t padding;
  int64_t time_ns; /* up to when events are in it, CLOCK_MONOTONIC */

  /* events since the session began, this segment's with them */
  uint64_t n_allocated;
  uint64_t n_freed;
  uint64_t n_inherited_freed; /* by a forked child, of its parent's blocks */
  uint64_t n_unknown_freed;   /* of addresses that have no block here */
  uint64_t n_frees_missing;   /* blocks, whose address was allocated again; no events */

  uint64_t peak;                 /* its number; 0: nothing was ever live */
  int64_t peak_ns;               /* when it was */
  int64_t most_ns;               /* when most was live since the segment before */
  uint64_t most_bytes;           /* how much that was */
  SondeHeapSumsAmount live;      /* now */
  SondeHeapSumsAmount at_peak;   /* then */
  SondeHeapSumsAmount left;      /* live when their process ended */
  SondeHeapSumsAmount inherited; /* of parents, not freed when a forked child ended */
  uint32_t column_bytes[SONDE_HEAP_SUMS_N_COLUMNS];
} SondeHeapSumsSegment;

static_assert (sizeof (SondeHeapSumsSegment) == 184, "a segment's header is 184 bytes");

/* Bounds of a segment, beside those of one of the log, and of an epoch. */
#define SONDE_HEAP_SUMS_MAX_BYTES  SONDE_HEAP_LOG_MAX_BYTES
#define SONDE_HEAP_SUMS_MAX_PACKED SONDE_HEAP_LOG_MAX_PACKED
#define SONDE_HEAP_SUMS_MAX_NODES  SONDE_HEAP_LOG_MAX_NODES
#define SONDE_HEAP_SUMS_MAX_STACKS (1u << 20)
#define SONDE_HEAP_SUMS_MAX_SCALE  (1u << 20)
/* Unpacked bytes for each of label and frames. */
#define SONDE_HEAP_SUMS_MAX_DENSITY 1024u

static inline int
sonde_heap_sums_is_chunk (const SondeFrame *frame)
{
  return sonde_heap_is_chunk_of (frame, SONDE_HEAP_SUMS_PATH);
}

/* The same as sonde_heap_log_n_events(), of either file. */
static inline uint32_t
sonde_heap_chunk_n_events (const SondeFrame *frame)
{
  return sonde_heap_sums_is_chunk (frame) ? sonde_heap_label_n_events (frame, UINT32_MAX)
                                          : sonde_heap_log_n_events (frame);
}
