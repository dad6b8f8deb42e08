/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the process table in step with the records, and asks for what they do not tell. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/message.h"
#include "daemon/capture/names/jit-names.h"
#include "daemon/capture/perf/perf-decoder.h"
#include "daemon/capture/stream/recorder.h"
#include "unwind/process-table.h"

/* Text of one /proc/PID/maps that is looked at. */
#define SONDE_TRACKER_MAX_MAPS (4u << 20)

/* What the broker is asked. */
typedef struct
{
  guint64 id;
  gint64 sent_ns; /* CLOCK_MONOTONIC */
  int32_t pid;
  guint n_tries;
  gboolean is_file;
  SondeMessageFileRequest file; /* if so */
} SondeRequest;

/* Sends a request; FALSE: the peer is gone. */
typedef gboolean (*SondeRequestSend) (const SondeRequest *request, gpointer user_data);

typedef struct SondeTracker SondeTracker;

/* All borrowed, and outliving the tracker. @hides_others: the broker may say that a process is not
 * for this session: one that was never known is hidden (SONDE_PROCESS_FLAG_HIDDEN), one that has
 * closed itself since keeps what is known, and its later mappings and names are dropped. */
SondeTracker *sonde_tracker_new (SondeProcessTable *processes,
                                 SondeModuleStore *modules,
                                 SondeStreamState *state,
                                 SondeRecorder *recorder,
                                 SondeJitNames *jit_names,
                                 gboolean hides_others,
                                 SondeRequestSend send,
                                 gpointer user_data);
void sonde_tracker_free (SondeTracker *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTracker, sonde_tracker_free)

/* A MAP, COMM, FORK or EXIT record, in the order of time. */
void sonde_tracker_follow (SondeTracker *self, const SondePerfRecord *record);
/* Side-band records were lost: every process is to be asked for again. */
void sonde_tracker_lost_records (SondeTracker *self);

/* A MAP record that is to be taken later: asks for its file at once if nobody did. */
void sonde_tracker_foresee_map (SondeTracker *self, const SondePerfRecord *record);

/* Whether a MAP record, the oldest there is, has to wait until the broker has looked at its
 * process.
 */
gboolean
sonde_tracker_awaits_map (SondeTracker *self, const SondePerfRecord *record, gint64 now_ns);

/* Now and then: files that could not be had are asked for again, as often as their store allows,
 * and processes of which the kernel did not tell in time. */
void sonde_tracker_retry (SondeTracker *self);

/* Files in which processes name the code that they make: those that samples need and that were not
 * there yet are asked for again. @at_last: all of them, however often they were. */
void sonde_tracker_ask_for_names (SondeTracker *self, gboolean at_last);
/* Whether the answer to one of these is awaited. */
gboolean sonde_tracker_awaits_names (const SondeTracker *self);

/* The process of a sample; NULL for the idle task and for tasks that the kernel no longer names. */
SondeProcess *sonde_tracker_process (SondeTracker *self, int32_t pid, gint64 time_ns);

/* Whether the mappings of @process are known, or are not worth waiting for any longer. Asks for
 * them if nobody did. */
gboolean sonde_tracker_is_known (SondeTracker *self, SondeProcess *process, gint64 now_ns);
/* Whether everything needed to unwind @process is known, or is not worth waiting for any longer.
 * Asks for what is missing. If nothing is, it has SONDE_PROCESS_FLAG_COMPLETE. */
gboolean sonde_tracker_is_ready (SondeTracker *self, SondeProcess *process, gint64 now_ns);

/* Answers of the broker. @maps_fd and @cmdline_fd may be -1 and stay the caller's; @fd is taken. */
void sonde_tracker_answer_process (SondeTracker *self,
                                   const SondeMessageProcess *answer,
                                   int maps_fd,
                                   int cmdline_fd,
                                   int cgroup_fd);
void sonde_tracker_answer_file (SondeTracker *self, const SondeMessageFile *answer, int fd);
/* Nobody answers any more: no record and no sample waits. */
void sonde_tracker_give_up (SondeTracker *self);
