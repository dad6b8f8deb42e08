/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of call tries as a capture has them, an embedded file. */
#pragma once

#include "protocol/heap-log.h"

/**
 * SECTION: calls
 *
 * Chunks, labels and numbers are as those of the log of heap events (protocol/heap-log.h); a
 * label's events are 0. A segment is of one region, which is the call tries of a process, added up
 * by path: what its threads called since the segment before.
 *
 * In an epoch of a region paths are numbered from 1, in the order in which they come, and amounts
 * add up, from the beginning of the region on. Another epoch of it stands in place of the one
 * before. Segments of different regions lie in any order.
 *
 * Source: docs/protocol.md, "Calls"
 */
#define SONDE_CALLS_PATH    "sonde/calls.v1.zst"
#define SONDE_CALLS_VERSION 1

typedef enum
{
  SONDE_CALLS_PATHS, /* of each: the number of its caller's, or 0; its address, as its difference to
                        the one before, zigzag. See SONDE_CALLS_ROOT */
  SONDE_CALLS_COUNTS, /* of each: its path, as the difference to the one before, zigzag; calls */
  SONDE_CALLS_TIMES, /* of each: its path, so, too; then SondeCallsTime; how many buckets follow; of
                        each its number, less that of the one before; calls */
  SONDE_CALLS_WORDS, /* of each thread that was in a call when its process was over, or killed: its
                        number; the path */
  SONDE_CALLS_N_COLUMNS,
} SondeCallsColumn;

/* What is known of how long calls took. Ticks; weighted, so that a call that stands for 64 others
 * counts 64 times. */
typedef enum
{
  SONDE_CALLS_TIMED,
  SONDE_CALLS_TOTAL,
  SONDE_CALLS_SELF,   /* of the mode "exact" alone */
  SONDE_CALLS_NESTED, /* calls below, whose hooks are part of the total */
  SONDE_CALLS_MIN,    /* this and the next: of the path by now, not to be added up */
  SONDE_CALLS_MAX,
  SONDE_CALLS_N_TIMES,
} SondeCallsTime;

/* What a region says of itself by now; calls, but for the last three. */
typedef enum
{
  SONDE_CALLS_ENTERED, /* = counted + lost-budget + lost-depth, when its process is over */
  SONDE_CALLS_COUNTED, /* by paths of this file */
  SONDE_CALLS_LOST_BUDGET,
  SONDE_CALLS_LOST_DEPTH,
  SONDE_CALLS_LOST_INTERRUPTED,
  SONDE_CALLS_LOST_THREADS,
  SONDE_CALLS_LOST_TIMINGS,
  SONDE_CALLS_RESYNCED,
  SONDE_CALLS_UNMATCHED,
  SONDE_CALLS_HOOK_TICKS, /* of those hooks that were timed */
  SONDE_CALLS_N_HOOKS,
  SONDE_CALLS_N_THREADS,
  SONDE_CALLS_N_ACCOUNTS,
} SondeCallsAccount;

typedef struct
{
  uint32_t version;      /* SONDE_CALLS_VERSION */
  int32_t pid;           /* of its process */
  uint32_t region;       /* in the session, from 1 */
  uint32_t epoch;        /* of the region, counts up */
  uint32_t sequence;     /* in the epoch, from 0 */
  uint32_t mode;         /* 1: calls are counted; 2: and some timed; 3: and all timed */
  uint32_t sample_every; /* of paths that take short, calls for one that is timed */
  uint32_t state;        /* SondeCallsState */
  int64_t begin_ns;      /* when the process got the region, CLOCK_MONOTONIC */
  int64_t time_ns;       /* up to when what it wrote is in the file */
  uint64_t ticks_per_s;
  uint64_t accounts[SONDE_CALLS_N_ACCOUNTS];
  uint32_t column_bytes[SONDE_CALLS_N_COLUMNS];
} SondeCallsSegment;

static_assert (sizeof (SondeCallsSegment) == 168, "a segment's header is 168 bytes");

typedef enum
{
  SONDE_CALLS_LIVE,
  SONDE_CALLS_OVER,   /* its process is, or its session */
  SONDE_CALLS_FAULTY, /* nothing more is read of it: it is no region any more */
  SONDE_CALLS_N_STATES,
} SondeCallsState;

/* The address of a path without a caller: where a thread begins, or a handler that interrupted a
 * hook. All others are addresses of functions, or lie in one. */
#define SONDE_CALLS_ROOT        UINT64_C (0)
#define SONDE_CALLS_SIGNAL_ROOT UINT64_C (1)

/* A time below 16 ticks has a bucket of its own; else there are 16 equal ones between two powers of
 * two, and what is beyond the last of them is in that. */
#define SONDE_CALLS_N_BUCKETS 560u

/* Bounds of a segment, and of an epoch. */
#define SONDE_CALLS_MAX_BYTES  SONDE_HEAP_LOG_MAX_BYTES
#define SONDE_CALLS_MAX_PACKED SONDE_HEAP_LOG_MAX_PACKED
#define SONDE_CALLS_MAX_PATHS  (1u << 20)
/* Unpacked bytes for each of label and frames. */
#define SONDE_CALLS_MAX_DENSITY 1024u

static inline int
sonde_calls_is_chunk (const SondeFrame *frame)
{
  return sonde_heap_is_chunk_of (frame, SONDE_CALLS_PATH);
}
