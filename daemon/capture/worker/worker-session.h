/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One session in a worker: its state, and its parts from the rings to the sinks. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/channel.h"
#include "daemon/capture/counters/counters.h"
#include "daemon/capture/interpreter/interpreters.h"
#include "daemon/capture/names/symbolizer.h"
#include "daemon/capture/perf/perf-decoder.h"
#include "daemon/capture/perf/rings.h"
#include "daemon/capture/process/sampler.h"
#include "daemon/capture/process/tracker.h"
#include "daemon/capture/process/unheard.h"
#include "daemon/capture/program/heap-probes.h"
#include "daemon/capture/program/inferiors.h"
#include "daemon/capture/stream/recorder.h"
#include "daemon/capture/waits/wait-book.h"
#include "daemon/capture/worker/flight-recorder.h"

/**
 * SECTION: worker-session
 *
 * perf/rings → dispatch → tracker (processes) and sampler (stacks) → recorder → sinks. The order of
 * messages is in daemon/base/message.h; which of them a state takes is one table in
 * worker-session.c. The last word, FINISHED or FAILED, is kept until it was heard: it can be told
 * again to a sonded that has taken the place of the one which read it. The struct is open to this
 * folder alone. Main thread only; runs on the thread-default main context.
 */
typedef enum
{
  SONDE_WORKER_STATE_NEW = 1 << 0,    /* nothing is known */
  SONDE_WORKER_STATE_LINKED = 1 << 1, /* the broker can be asked */
  SONDE_WORKER_STATE_SET_UP = 1 << 2, /* the request is known */
  SONDE_WORKER_STATE_READY = 1 << 3,  /* rings are mapped */
  SONDE_WORKER_STATE_RUNNING = 1 << 4,
  SONDE_WORKER_STATE_PAUSED = 1 << 5,
  SONDE_WORKER_STATE_DRAINING = 1 << 6,  /* events are off, rings are being emptied */
  SONDE_WORKER_STATE_FINISHING = 1 << 7, /* symbols, and what sinks have not taken yet */
  SONDE_WORKER_STATE_DONE = 1 << 8,
} SondeWorkerState;

/* ns, read as close to each other as can be */
typedef struct
{
  gint64 monotonic_ns;
  gint64 boottime_ns; /* the same, and goes on while the machine sleeps */
  gint64 realtime_ns;
} SondeClocks;

/* @status: exit status of the worker. Called once, from the main loop; the session may be freed. */
typedef void (*SondeWorkerSessionDone) (int status, gpointer user_data);

typedef struct
{
  SondeWorkerState state;
  SondeChannel *front; /* NULL once it is gone */
  SondeChannel *link;  /* to the broker; NULL before LINK, and once it is gone */
  SondeWorkerSessionDone done;
  gpointer user_data;
  int status;
  union
  {
    SondeMessageHeader header; /* type 0: not said yet */
    SondeMessageStatistics finished;
    SondeMessageFailed failed;
  } last_word;
  gboolean is_heard; /* by the front, which does not listen any more */
  guint linger_source;
  guint n_lingers;

  /* from SETUP on */
  SondeMessageSetup setup;
  SondePerfDecoder decoder;
  GArray *walk_ids;  /* uint64_t: of the decoder */
  GArray *probe_ids; /* the same */
  SondeTally tally;
  SondeRings *rings;
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeStreamState *stream_state;
  SondeRecorder *recorder;
  SondeJitNames *jit_names;
  SondeTracker *tracker;
  SondeKallsyms *kallsyms;          /* until the start; NULL: not asked for, or not to be had */
  SondeSampledAddresses *addresses; /* NULL: they are not to be named, or the recorder has them */
  SondeInterpreters *interpreters;  /* NULL: not asked for */
  SondeCounters *counters;
  SondeWaitBook *waits; /* NULL: not asked for */

  /* from START on */
  SondeUnwinder *unwinder;
  SondeSampler *sampler;
  SondeInferiors *inferiors;
  SondeHeapProbes *heap_probes;         /* NULL: the session is not a sampled one */
  SondeFlightRecorder *flight_recorder; /* NULL: not asked for */
  SondeUnheard *unheard;                /* NULL: nothing of the command is to tell of its heap */
  SondeClocks clocks;                   /* as they were compared last */
  int clock_fd;                         /* tells that the wall clock was set; -1: cannot be had */
  guint clock_source;
  SondeSymbolizer *symbolizer; /* while addresses are being named */

  guint64 n_lost_records; /* samples, as LOST records tell, where events do not */
  guint64 n_lost_hardware;
  guint64 n_probes_lost; /* as counted so far */
  guint64 n_early_walks; /* by events that nobody had told of */
  guint64 n_incomplete;  /* samples recorded before all of their process was known */
  gint64 taken_ns;       /* all records of the kernel from before were taken */
  gint64 wait_until_ns;  /* no record waits for an answer any longer */
  gint64 answer_ns;      /* Stop is answered, whether readers have taken all or not */
  gint64 urgent_ns;      /* rings of programs are drained whether readers take it or not */
  gboolean is_answered;

  GSource *drain; /* its ready time is the next drain */
  gint64 drain_interval_us;
  guint64 n_records; /* at the last drain */
  guint tick_source;
  guint n_ticks;
} SondeWorkerSession;

/* @front_fd: (transfer full): a connected SOCK_SEQPACKET socket. Says HELLO. */
SondeWorkerSession *
sonde_worker_session_new (int front_fd, SondeWorkerSessionDone done, gpointer user_data);
void sonde_worker_session_free (SondeWorkerSession *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWorkerSession, sonde_worker_session_free)

/* All times of a capture are CLOCK_MONOTONIC, which neither a wall clock that is set touches nor
 * sleep; but who compares them with times of elsewhere has to know. The wall clock is compared with
 * CLOCK_BOOTTIME whenever the kernel says that it was set, so that sleep is not taken for a jump.
 * Whether the machine has slept is to be asked about once a second. */
void sonde_worker_session_look_at_clocks (SondeWorkerSession *self);
/* What differs, as a sentence, or NULL. @was_set: the kernel says so of the wall clock */
char *sonde_clocks_describe (const SondeClocks *before, const SondeClocks *now, gboolean was_set);
