/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A recording fed to one unwinder: its own module store, process table and clock. */
#pragma once

#include "tests/bench/recording.h"
#include "unwind/unwinder.h"

#define REPLAY_MAX_FRAMES 512

/**
 * SECTION: replay
 *
 * A pid means another program after exec, and another process after its reuse. Each of these lives
 * gets a number of its own instead, so that after the recording was fed once all of them are in the
 * table together, and samples can be unwound again and again without feeding anything: that is
 * what "warm" means here, also for libdwfl, which keeps state for each process.
 */
typedef struct
{
  gsize at;      /* of the record in the recording's bytes */
  gint32 pid;    /* the number of its life */
  gint32 parent; /* FORK: that of the parent */
} ReplayEvent;

/* of ReplayEvent, in time order */
GArray *replay_events_new (const Recording *recording);

typedef struct Replay Replay;
typedef SondeUnwinder *(*ReplayUnwinderNew) (SondeProcessTable *processes);

Replay *
replay_new (const Recording *recording, const GArray *events, ReplayUnwinderNew unwinder_new);
void replay_free (Replay *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Replay, replay_free)

typedef struct
{
  SondeUnwindEnd end;
  size_t n_addrs;
  uint64_t addrs[REPLAY_MAX_FRAMES];
  gint64 duration_ns;
} ReplayStack;

/* The @i-th event: a sample is unwound as the table stands now (TRUE and *@stack), anything else
 * changes the table. */
gboolean replay_feed (Replay *self, size_t i, ReplayStack *stack);

/* Where @address of the @i-th event's process lies, as "file+0xvaddr". */
char *replay_describe (Replay *self, size_t i, uint64_t address);

/* All samples once more, some at a time. */
typedef struct
{
  GArray *durations_ns; /* of gint64, for each batch of samples */
  guint64 n_samples;
  guint64 n_frames;
  guint64 n_allocations;
} ReplayPass;

void replay_pass_clear (ReplayPass *pass);

/* After everything was fed: parsing, lookups and unwinding. */
ReplayPass replay_run (Replay *self);
