/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap of a capture: its sums, by stack, and over time. */
#pragma once

#include "client/heap/heap-tracker.h"
#include "client/heap/suppressions.h"
#include "client/model/heap-sums-reader.h"
#include "client/report/profile.h"
#include "client/report/report.h"

#define SONDE_HEAP_WINDOW_BYTES (64u << 20)

/* Threads of a program write into rings of their own, or a few, and the rings are emptied one after
 * the other: in a capture a free may stand before the allocation in another thread, and both before
 * what the kernel told of their process. A frame is handed on when %SONDE_HEAP_WINDOW_BYTES of
 * frames have later times. That is what all rings of single threads in a session hold together; so
 * frames are out of place only in captures that others made or merged, and where hundreds of
 * processes have their rings full at a time; then they are counted, and handed on late.
 * Frames of the same time stay as they came. */
typedef struct
{
  GByteArray *frames; /* at most twice the window, and a frame */
  GByteArray *spare;  /* empty */
  GArray *entries;    /* FramePlace */
  GArray *scratch;    /* as long as entries when they are sorted */
  gsize stack_words;  /* of the log that were told since all was handed on */
  gint64 newest_ns;   /* of what was handed on */
  guint64 n_late;     /* events that could not be put in order of time */
} SondeHeapOrder;

/* Open to be read. */
typedef struct
{
  SondeSampleFilter filter; /* texts are the caller's */
  gboolean is_cut;          /* it chooses allocations by time or thread, too */
  gint64 from_ns;           /* CLOCK_MONOTONIC */
  gint64 to_ns;
  guint32 cut; /* the stack of all that are not wanted then, + 1; 0: there was none */
  SondeBy by;
  SondeFolding folding;
  gint64 start_ns;
  guint64 interval_bytes; /* mean distance of sampled bytes; 0: the capture has all allocations */
  SondeCaptureModel *model;
  SondeHeapOrder order;
  SondeHeapLogReader *log;
  SondeHeapTracker *tracker;

  SondeHeapSumsReader *sums;
  GArray *sum_stacks; /* guint32: of each sum, the number of its stack + 1; 0: not known yet */
  guint64 n_defined;  /* of these: to the model each is an allocation */
  guint32 defined;    /* the sum whose stack is told now, + 1; 0: none is */
  guint n_moments;    /* that are past, by sums */
  GArray *moments[SONDE_HEAP_N_MOMENTS]; /* SondeHeapSumsAmount: what was live of each sum */

  SondeCallTree *paths; /* below the root numbers of processes, below them locations; no weights */
  GArray *numbers;      /* guint32: number of the stack that ends at a node of paths, + 1; or 0 */
  GArray *ends;         /* guint32: node of paths where a stack ends, by its number */
  GArray *known;        /* guint32: number of a stack, by its number in the model */
  GArray *path;         /* guint32: of the allocation at hand */
  SondeSymbolResolver *resolver; /* after the end */

  const SondeSuppressions *suppressions; /* NULL: none */
  GArray *suppressed_by;                 /* guint32: by stack its rule + 1, or 0; NULL: none is */
  SondeHeapAmount *by_rule; /* what was never freed, of suppressed stacks; and of all */
  SondeHeapAmount suppressed;
} SondeHeap;

typedef struct
{
  SondeSampleFilter filter; /* which allocations count, whenever and by whoever they are freed; its
                               texts are kept by the caller */
  SondeBy by;               /* what sonde_heap_dup_profile() makes one of them, */
  SondeFolding folding;     /* and leaves out */
  gint64 temporary_ns;      /* as in SondeHeapTrackerOptions */
  gint64 moments_ns[SONDE_HEAP_N_MOMENTS]; /* since the start; ascending; G_MAXINT64: not wanted */
  SondeHeapBlockFunc block;                /* as in SondeHeapTrackerOptions */
  gpointer user_data;
  const SondeSuppressions *suppressions; /* (nullable): of what was never freed; the caller's */
} SondeHeapOptions;

#define SONDE_HEAP_OPTIONS_INIT                                                                    \
  {                                                                                                \
    .filter = SONDE_SAMPLE_FILTER_INIT, .by = SONDE_BY_PROCESS,                                    \
    .folding = { .recursion = SONDE_RECURSION_NONE }, .temporary_ns = -1,                          \
    .moments_ns                                                                                    \
        = { G_MAXINT64,                                                                            \
            G_MAXINT64 }                                                                           \
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

/* Hands on what waits for its turn: of sums and blocks all is told then, names are not known. No
 * frame may follow. */
void sonde_heap_settle (SondeHeap *self);

/* The same, and looks up the names, as @options (nullable) ask. What is below may be asked only
 * afterwards. */
void sonde_heap_finish (SondeHeap *self, const SondeSymbolOptions *options);

/* Events of heaps in the capture, one by one or in sums. */
guint64 sonde_heap_n_events (const SondeHeap *self);
/* Those of the log or the sums that could not be read. */
guint64 sonde_heap_n_unreadable (const SondeHeap *self);
/* Whether it has sums in place of events: what is temporary is then what its thread freed before it
 * allocated again, whatever @temporary_ns; moments are those of the last sums before them; the peak
 * and the series are those of all processes, whatever the filter; and no block is told of. Times
 * and threads of allocations are not known: it must not be asked for these. */
gboolean sonde_heap_has_sums (const SondeHeap *self);

/* Whether allocations were to be chosen by time or thread, of sums that tell neither: nothing of it
 * is right then. */
gboolean sonde_heap_cannot_be_cut (const SondeHeap *self);

/* @time_ns: CLOCK_MONOTONIC */
gint64 sonde_heap_since_start (const SondeHeap *self, gint64 time_ns);

/* Events of programs that the ledger says are missing: allocations, frees, or others. */
guint64 sonde_heap_n_lost (const SondeHeap *self);

/* A sum as a whole number; 0 if it is less. */
guint64 sonde_heap_round (double value);

/**
 * sonde_heap_dup_profile:
 * @metric: which amounts
 * @unit: what shares and order are of: SONDE_UNIT_BYTES or _BLOCKS; the other stands beside it
 *
 * Of what was never freed suppressed stacks are left out.
 *
 * Returns: (transfer full): to be freed before the heap, whose functions it shares
 */
SondeProfile *
sonde_heap_dup_profile (const SondeHeap *self, SondeHeapMetric metric, SondeUnit unit);
