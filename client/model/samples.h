/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples summed up: a call tree for each process, its threads, and each one's time where wanted.
 */
#pragma once

#include "client/base/id-map.h"
#include "client/base/text-pool.h"
#include "client/model/call-tree.h"
#include "client/model/capture-model.h"
#include "client/model/sample-filter.h"

typedef struct
{
  guint process; /* number in the model */
  gint32 tid;
  guint64 n_samples;
} SondeSampleThread;

typedef struct
{
  gint64 time_ns; /* CLOCK_MONOTONIC; of foreign origin: any value */
  guint32 thread; /* number of the thread */
  guint32 node;   /* of the tree of the thread's process, where the stack ends */
} SondeSamplePlace;

/* Open to be read. It grows with distinct stacks, and with places where they are kept. */
typedef struct
{
  SondeBudget *budget;
  gboolean by_thread;  /* set before the first sample: a tree for each thread, */
  GPtrArray *trees;    /* SondeCallTree or NULL, by the number of the thread; else of the process */
  GArray *threads;     /* SondeSampleThread; those without room are one of their process */
  SondeIdMap *numbers; /* process << 32 | tid → number of the thread */
  GArray *places;      /* SondeSamplePlace, as they came; NULL: not kept */
} SondeSamples;

/* @budget: kept by the caller as long as the samples */
void sonde_samples_init (SondeSamples *self, SondeBudget *budget, gboolean keeps_places);
void sonde_samples_clear (SondeSamples *self); /* accepts zeros */

/* @sample: locations or what else the ids of the trees shall be; @weight: of it in its tree */
SondeSamplePlace
sonde_samples_add (SondeSamples *self, const SondeModelSample *sample, guint64 weight);

/* The tree @tree alone, for who weighs and has no threads. */
SondeCallTree *sonde_samples_ensure_tree (SondeSamples *self, guint tree);

/* NULL if it has no samples. */
const SondeCallTree *sonde_samples_tree (const SondeSamples *self, guint tree);

/* Number of the tree of @thread; of the process that the tree @tree is of, and its thread, or
 * SONDE_TID_ALL. */
guint sonde_samples_tree_of (const SondeSamples *self, guint thread);
guint sonde_samples_process_of (const SondeSamples *self, guint tree, gint32 *tid);
const SondeSampleThread *sonde_samples_thread (const SondeSamples *self, guint thread);

/* Stacks and threads stay known; none of them has a sample. */
void sonde_samples_reset (SondeSamples *self);

/* A capture with the time and thread of each sample kept, for pictures along a time line. Open to
 * be read. Unlike a report it grows with the samples: 16 bytes each, their stacks being
 * shared. */
typedef struct
{
  SondeSampleFilter filter; /* texts are the caller's; set before the first frame, as are */
  gint64 from_ns;           /* CLOCK_MONOTONIC */
  gint64 to_ns;
  SondeCaptureModel *model;
  SondeSamples samples; /* of locations, with places; */
  GArray *marks;        /* SondeModelMark, and */
  GArray *values;       /* SondeModelValue: each in the order of the capture, which need not be
                           that of time */
  SondeTextPool *texts; /* of marks */
} SondeSampleLog;

SondeSampleLog *sonde_sample_log_new (void);
void sonde_sample_log_free (SondeSampleLog *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSampleLog, sonde_sample_log_free)

/* Times of the first and of the last sample; FALSE if there is none. */
gboolean sonde_sample_log_range (const SondeSampleLog *self, gint64 *first_ns, gint64 *last_ns);
