/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture with the time and thread of each sample kept, for pictures along a time line. */
#pragma once

#include "client/model/call-tree.h"
#include "client/model/capture-model.h"

/**
 * SECTION: sample-log
 *
 * Unlike a report it grows with the samples: 16 bytes each, their stacks being shared.
 */
typedef struct SondeSampleLog SondeSampleLog;

typedef struct
{
  guint process; /* number in the model */
  gint32 tid;
} SondeLogThread;

typedef struct
{
  gint64 time_ns; /* CLOCK_MONOTONIC; of foreign origin: any value */
  guint32 thread; /* number of the thread */
  guint32 node;   /* of the tree of the thread's process, where the stack ends */
} SondeLogSample;

SondeSampleLog *sonde_sample_log_new (void);
void sonde_sample_log_free (SondeSampleLog *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSampleLog, sonde_sample_log_free)

/* @frame: accepted by sonde_frame_check() */
void sonde_sample_log_add_frame (SondeSampleLog *self, const SondeFrame *frame);

const SondeCaptureModel *sonde_sample_log_model (const SondeSampleLog *self);

/* The call tree of locations of @process, or NULL if it has no samples. */
const SondeCallTree *sonde_sample_log_tree (const SondeSampleLog *self, guint process);

guint sonde_sample_log_n_threads (const SondeSampleLog *self);
const SondeLogThread *sonde_sample_log_thread (const SondeSampleLog *self, guint thread);

/* Each in the order of the capture, which need not be that of time; valid until the next frame. */
const SondeLogSample *sonde_sample_log_samples (const SondeSampleLog *self, guint *n_samples);
const SondeModelMark *sonde_sample_log_marks (const SondeSampleLog *self, guint *n_marks);
const SondeModelValue *sonde_sample_log_values (const SondeSampleLog *self, guint *n_values);

/* Times of the first and of the last sample; FALSE if there is none. */
gboolean sonde_sample_log_range (const SondeSampleLog *self, gint64 *first_ns, gint64 *last_ns);
