/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Turns what happened into frames for all sinks; all flows meet here. */
#pragma once

#include <gio/gio.h>

#include "daemon/capture/stream/sink.h"
#include "daemon/capture/stream/stream-state.h"
#include "daemon/capture/stream/window.h"
#include "unwind/unwinder.h"

/**
 * SECTION: recorder
 *
 * One shared stream of frames is built once and pushed to every sink as spans of chunks. State
 * frames of a process come before its first sample; a made-up name comes before the first sample
 * that uses it. Main thread only.
 */
typedef struct SondeRecorder SondeRecorder;

/* The sink is freed after this call. */
typedef void (*SondeRecorderSinkClosed) (guint32 sink_id, int reason, gpointer user_data);

/* All borrowed, and outliving the recorder. */
SondeRecorder *sonde_recorder_new (SondeStreamState *state,
                                   SondeTally *tally,
                                   SondeRecorderSinkClosed closed,
                                   gpointer user_data);
void sonde_recorder_free (SondeRecorder *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRecorder, sonde_recorder_free)

/* @fd: (transfer full): as @options say. Returns 0 or an errno: EMFILE there are SONDE_LIMIT_SINKS
 * already, ESHUTDOWN all is recorded, EBADF @fd is not of that kind. */
int sonde_recorder_add_sink (SondeRecorder *self, int fd, const SondeMessageSink *options);
/* What is recorded from now on is kept, too, so far back. Sinks that are last get it at the end.
 * Called once at most; the arguments are those of sonde_window_new(). */
void sonde_recorder_keep_window (SondeRecorder *self,
                                 gint64 length_ns,
                                 gsize max_bytes,
                                 const SondeWindowHandler *handler,
                                 gpointer user_data);
void sonde_recorder_drop_window (SondeRecorder *self);
/* NULL: none is kept */
SondeWindow *sonde_recorder_window (const SondeRecorder *self);
/* What its sinks are fed from: for one of another kind. */
const SondeSinkSource *sonde_recorder_source (const SondeRecorder *self);
guint sonde_recorder_n_sinks (const SondeRecorder *self);
/* The numbers of those that are open. */
void sonde_recorder_list_sinks (const SondeRecorder *self, SondeMessageSinks *message);

/* PROCESS and MAP frames, unless they are in the stream already. */
void sonde_recorder_process (SondeRecorder *self, SondeProcess *process, gint64 time_ns);
/* One more mapping of a process; left to sonde_recorder_process() if that comes anyway. */
void sonde_recorder_map (SondeRecorder *self,
                         SondeProcess *process,
                         const SondeProcessMapping *mapping,
                         gint64 time_ns);
/* Tells those again that were told without their build id, if it is known by now; about every
 * 100 ms. */
void sonde_recorder_settle_maps (SondeRecorder *self);
/* The PROCESS frame again: another program has its pid, or its command line is known. */
void sonde_recorder_rename (SondeRecorder *self, SondeProcess *process, gint64 time_ns);
/* The same for a program that calls itself otherwise; and what a thread is called, and the control
 * group of a process: lines of "sonde/tasks". They are told by sonde_recorder_settle_names(), about
 * every 100 ms, so that names cost the stream no more than that; a process's before its next
 * sample. Those of more tasks than SONDE_STREAM_STATE_MAX_TASKS are not, which a LOG says. */
void sonde_recorder_renamed (SondeRecorder *self, SondeProcess *process);
void sonde_recorder_thread (
    SondeRecorder *self, int32_t pid, int32_t tid, const char *name, gint64 time_ns);
void sonde_recorder_cgroup (SondeRecorder *self, int32_t pid, const char *path);
/* @is_urgent: all, at the end */
void sonde_recorder_settle_names (SondeRecorder *self, gboolean is_urgent);
/* Those of one task now: before it forks, which gives them to another, or exits. */
void sonde_recorder_settle_task (SondeRecorder *self, int32_t pid, int32_t tid, gint64 time_ns);
void sonde_recorder_fork (
    SondeRecorder *self, int32_t parent_tid, int32_t child_tid, int cpu, gint64 time_ns);
void sonde_recorder_exit (SondeRecorder *self, int32_t pid, int cpu, gint64 time_ns);

/* @name for an @address that it has already. FALSE: there are too many names. */
gboolean sonde_recorder_name_address (SondeRecorder *self,
                                      uint64_t address,
                                      const char *name,
                                      gint64 time_ns);
/* The address that stands for @name; its JITMAP frame is in the stream when this returns. */
uint64_t sonde_recorder_name (SondeRecorder *self, const char *name, gint64 time_ns);
/* The same for code that a program made. */
uint64_t sonde_recorder_name_code (SondeRecorder *self, const char *name, gint64 time_ns);

typedef struct
{
  gint64 time_ns;
  int cpu;
  int32_t pid;
  int32_t tid;
  const uint64_t *addrs; /* with context markers, leaf first */
  size_t n_addrs;
} SondeStack;

/* Counts it as recorded, or as lost before the recorder if it fits no frame. */
void sonde_recorder_sample (SondeRecorder *self, const SondeStack *stack);

/* A whole, valid frame that is an event (sonde_ledger_is_event()) or a sample of a program; its
 * ids, names and process are the session's already. Counts it as recorded. */
void sonde_recorder_event (SondeRecorder *self, const SondeFrame *frame);

/* A segment of the log or the sums of heap events (protocol/heap-sums.h), of so many. Counts these
 * as recorded.
 */
void sonde_recorder_segment (
    SondeRecorder *self, const char *path, const guint8 *bytes, gsize size_bytes, guint n_events);
/* An embedded file of what a program did, for who is there. Nobody decodes others by it. */
void sonde_recorder_file (SondeRecorder *self, const char *path, GBytes *content);
/* Frames but samples that readers did not get, each for itself: parts of segments among them. One
 * of which the beginning came is no lost event. */
guint64 sonde_recorder_n_missed (const SondeRecorder *self);

/* Whether a reader is no file, and gets what comes: somebody may look on. */
gboolean sonde_recorder_is_watched (const SondeRecorder *self);
/* Whether a reader could take a good deal more at once, or there is none to be thought of. */
gboolean sonde_recorder_has_room (const SondeRecorder *self);

/* An embedded file: part of the state, and in the stream of those who have the state already. @fd:
 * stays the caller's; read to its end, or to @max_bytes, and then a LOG frame says so. */
void sonde_recorder_document (SondeRecorder *self, const char *path, int fd, gsize max_bytes);

/* Gives @counters their ids, and defines them in the stream and in what later readers get first.
 * @pid: whose they are; -1: the machine's. FALSE: the session has too many. */
gboolean sonde_recorder_define_counters (
    SondeRecorder *self, gint32 pid, SondeCounter *counters, guint n_counters, gint64 time_ns);
/* One CTRSET frame, of counters of one process or of the machine. */
void sonde_recorder_set_counters (SondeRecorder *self,
                                  gint32 pid,
                                  const guint32 *ids,
                                  const SondeCounterValue *values,
                                  guint n_counters,
                                  gint64 time_ns);

/* A LOG frame of level warning. */
void sonde_recorder_warn (SondeRecorder *self, const char *text);
/* The same of level info. */
void sonde_recorder_tell (SondeRecorder *self, const char *text);

/* Pushes what was recorded to the sinks; about every 100 ms. */
void sonde_recorder_flush (SondeRecorder *self);
/* Sets the counters in every stream, and warns if losses grew; about once a second. */
void sonde_recorder_report (SondeRecorder *self);

/* Closes readers that are stuck; about every 5 s until the last one is gone. @now_us: monotonic */
void sonde_recorder_close_stuck (SondeRecorder *self, gint64 now_us);

/* The session is over, and waits for readers alone: those that are stuck by then are closed. */
void sonde_recorder_await_readers (SondeRecorder *self);

/* Nothing more is recorded: each sink gets its rest, @symbols (nullable), its closing CTRSET, and
 * is closed, as fast as its reader takes it. */
void sonde_recorder_finish (SondeRecorder *self, GBytes *symbols);

/* Fills in the stream-* entries, summed over all sinks of the session's life, and the bytes. */
void sonde_recorder_sum (const SondeRecorder *self, guint64 values[SONDE_N_STATISTICS]);

/* Chunks that were ever allocated for all sinks: constant in steady state, whatever they do. */
guint64 sonde_recorder_n_chunks (const SondeRecorder *self);
