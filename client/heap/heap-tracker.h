/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Follows the heaps of processes through their allocations and frees, stack by stack. */
#pragma once

#include <glib.h>

#include "client/base/budget.h"
#include "client/base/id-map.h"

/**
 * SECTION: heap-series
 *
 * How long it goes on is known only at the end: intervals begin short, and each time that they do
 * not reach, pairs of them become one of twice the length. Between half of SONDE_HEAP_SERIES_SIZE
 * and all of it are in use at the end, unless there was less than that many ns.
 */
#define SONDE_HEAP_SERIES_SIZE 4096u

typedef struct
{
  gint64 start_ns;
  gint64 newest_ns;    /* of the last change, since the start; 0 if there was none */
  guint64 interval_ns; /* a power of two */
  guint n_used;        /* intervals up to the newest */
  double value;        /* now */
  double maxima[SONDE_HEAP_SERIES_SIZE];
} SondeHeapSeries;

/* @start_ns: when the quantity was 0, and the time of the first interval */
SondeHeapSeries *sonde_heap_series_new (gint64 start_ns);
void sonde_heap_series_free (SondeHeapSeries *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapSeries, sonde_heap_series_free)

/* From @time_ns on it is @value. Times ascend; earlier ones count as the newest so far. */
void sonde_heap_series_add (SondeHeapSeries *self, gint64 time_ns, double value);

/**
 * sonde_heap_series_sample:
 * @maxima: (out): the largest value in each of @n equal parts of the duration
 */
void sonde_heap_series_sample (const SondeHeapSeries *self, double *maxima, guint n);

/**
 * SECTION: heap-tracker
 *
 * Each allocation belongs to the process that made it. A forked child has its parent's blocks, too:
 * it may free them, but they are not allocated, live or left a second time. An exec or the end of a
 * process ends its heap, and what is live then was never freed. Addresses are reused; if one is
 * allocated that is live, its free is missing, and is taken to have happened in between.
 *
 * Events come in order of time. Memory grows with live blocks and distinct stacks. A block that has
 * no room is allocated, and not followed any further.
 */
typedef struct
{
  double bytes; /* whole numbers, unless the capture was sampled and these are estimates */
  double blocks;
} SondeHeapAmount;

typedef enum
{
  SONDE_HEAP_ALLOCATED,
  SONDE_HEAP_PEAK,         /* live when all heaps together were largest */
  SONDE_HEAP_LEFT,         /* never freed: live when its process ended, or the capture */
  SONDE_HEAP_TEMPORARY,    /* freed by its thread before that allocated again, or soon */
  SONDE_HEAP_CROSS_THREAD, /* freed by another thread */
  SONDE_HEAP_AT_FIRST,     /* live at the first moment that was asked for */
  SONDE_HEAP_AT_SECOND,
  SONDE_HEAP_N_METRICS,
} SondeHeapMetric;

#define SONDE_HEAP_N_MOMENTS 2

typedef struct
{
  SondeHeapAmount amounts[SONDE_HEAP_N_METRICS];
  SondeHeapAmount freed;
  gint64 peak_ns;               /* CLOCK_MONOTONIC */
  SondeHeapAmount inherited;    /* of a parent, not freed when the child ended */
  guint64 n_inherited_freed;    /* events, as all below */
  guint64 n_unknown_freed;      /* of addresses that were not allocated in the capture */
  guint64 n_frees_missing;      /* allocations of an address that was live */
  guint64 n_forks_not_followed; /* whose child had more blocks than are followed in all children */
} SondeHeapTotals;

/* What becomes of a block. */
typedef enum
{
  SONDE_HEAP_BLOCK_BEGUN,
  SONDE_HEAP_BLOCK_FREED,
  SONDE_HEAP_BLOCK_UNSEEN, /* begun, without room to see when it is freed: never live */
} SondeHeapBlockTurn;

/* @amount: what the block stands for */
typedef void (*SondeHeapBlockFunc) (SondeHeapBlockTurn turn,
                                    guint32 stack,
                                    const SondeHeapAmount *amount,
                                    gint64 time_ns,
                                    gpointer user_data);

typedef struct
{
  gint64 start_ns;     /* of the capture */
  gint64 temporary_ns; /* what lives shorter is temporary; -1: until its thread's next allocation */
  gint64 moments_ns[SONDE_HEAP_N_MOMENTS]; /* CLOCK_MONOTONIC, ascending; G_MAXINT64: not wanted */
  SondeBudget *budget;      /* NULL: no limits. Threads, stacks and live blocks are taken of it */
  SondeHeapBlockFunc block; /* told of blocks that are part of the sums, as it comes; NULL: not */
  gpointer user_data;
} SondeHeapTrackerOptions;

/* Open to be read. */
typedef struct
{
  SondeHeapTotals totals;  /* after the end */
  SondeHeapSeries *series; /* live bytes over time */

  SondeHeapTrackerOptions options;
  double interval_bytes;  /* 0: every allocation is there */
  GHashTable *heaps;      /* pid → Heap */
  GArray *threads;        /* TrackedThread */
  SondeIdMap *thread_ids; /* pid << 32 | tid → number of a thread */
  SondeIdMap *pids;       /* tid → pid, of threads; and each pid → itself */
  GArray *stacks;         /* Stack */
  SondeHeapAmount live;
  guint32 peak;           /* raised by each new peak */
  guint n_moments;        /* that are past */
  gsize n_inherited;      /* slots, of the heaps at hand */
  gsize n_ever_inherited; /* and of those that ended */
} SondeHeapTracker;

/* Memory that was allocated or freed, or a turn in a process's life. */
typedef struct
{
  gint64 time_ns;
  guint64 address;
  gint64 size_bytes; /* above 0: allocated; 0: freed; below 0: see below */
  guint32 stack;
  guint32 thread;
} SondeHeapEvent;

/* Sizes of events that are no sizes. Address: FORKED: the child's id; thread: all: a pid, FORKED:
 * of the forking thread. */
enum
{
  SONDE_HEAP_EVENT_FORKED = -1,
  SONDE_HEAP_EVENT_ENDED = -2, /* exit, or exec */
};

/* @options: copied */
SondeHeapTracker *sonde_heap_tracker_new (const SondeHeapTrackerOptions *options);
void sonde_heap_tracker_free (SondeHeapTracker *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapTracker, sonde_heap_tracker_free)

/* Each block stands for more, so that the sums estimate what a capture sampled once in @bytes would
 * have had. Before the first event. */
void sonde_heap_tracker_set_interval (SondeHeapTracker *self, guint64 bytes);

/* The number of a thread, to be told before its first event is taken, and better long before: then
 * it is known at a fork that the child is a process with a heap. */
guint32 sonde_heap_tracker_ensure_thread (SondeHeapTracker *self, gint32 pid, gint32 tid);

/* The number of one more stack: 0, 1, ... @counts: whether its blocks are part of the sums. */
guint32 sonde_heap_tracker_add_stack (SondeHeapTracker *self, gboolean counts);

/* One whose blocks are no part of the sums, though their process is. */
guint32 sonde_heap_tracker_add_cut_stack (SondeHeapTracker *self);

/* Fetches from memory what an event of that block will look at, a few events before it is told. */
void sonde_heap_tracker_foresee (const SondeHeapTracker *self, gint32 pid, guint64 address);

/* @event: of a free, stack is not 0 if it is part of the sums */
void sonde_heap_tracker_take (SondeHeapTracker *self, const SondeHeapEvent *event);

/* Ends all heaps. What is below may be asked only afterwards. */
void sonde_heap_tracker_finish (SondeHeapTracker *self);

/* What somebody else has summed up, of that stack. Afterwards, too. */
void sonde_heap_tracker_add_sums (SondeHeapTracker *self,
                                  guint32 stack,
                                  const SondeHeapAmount amounts[SONDE_HEAP_N_METRICS],
                                  const SondeHeapAmount *freed);

const SondeHeapAmount *
sonde_heap_tracker_amount (const SondeHeapTracker *self, guint32 stack, SondeHeapMetric metric);
