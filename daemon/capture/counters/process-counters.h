/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counters of the processes that a session was given: their time, memory and threads. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/stream/recorder.h"

/**
 * SECTION: process-counters
 *
 * The broker hands over /proc/PID/stat of each target. Whoever has it open sees the numbers of that
 * process for as long as it lives, whatever it executes. So it is closed when the process executes
 * another program, or may have done so unseen, and the broker is asked whether the session may see
 * that one, too. Read as often as the machine's, one CTRSET frame each. Main thread only.
 */
#define SONDE_PROCESS_COUNTERS_MAX 256 /* SONDE_LIMIT_SESSION_TARGETS */

/* Asks the broker for the text of @pid again; FALSE: the broker is gone. */
typedef gboolean (*SondeProcessCountersAsk) (gint32 pid, gpointer user_data);

typedef struct SondeProcessCounters SondeProcessCounters;

/* @recorder: borrowed, and outliving it */
SondeProcessCounters *sonde_process_counters_new (SondeRecorder *recorder,
                                                  SondeProcessCountersAsk ask,
                                                  gpointer user_data);
void sonde_process_counters_free (SondeProcessCounters *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProcessCounters, sonde_process_counters_free)

/* A process that is to be counted. @fd: (transfer full): its text; -1: not for the session, or not
 * before it executes a program */
void sonde_process_counters_add (SondeProcessCounters *self, gint32 pid, int fd);
/* The process executes a program. */
void sonde_process_counters_exec (SondeProcessCounters *self, gint32 pid);
/* Records are lost: any may have executed a program. */
void sonde_process_counters_lost_records (SondeProcessCounters *self);

/* @is_shown: as for sonde_machine_counters_read() */
void sonde_process_counters_read (SondeProcessCounters *self, gboolean is_shown, gint64 now_ns);
