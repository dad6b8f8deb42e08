/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counters of the whole machine: processors, memory, network interfaces and disks. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/stream/recorder.h"

/**
 * SECTION: machine-counters
 *
 * The broker hands over texts of /proc that it has opened once; they are read here, again and
 * again, ten times a second: /proc counts time in hundredths of a second, so that a tenth has a
 * resolution of 10 %, and what is shorter is in the samples. Each reading is one CTRSET frame; the
 * counters are in docs/protocol.md, "Counters".
 *
 * A processor, interface or disk that comes later gets counters of its own when it is first seen,
 * up to the maxima below; one that goes is silent. Nothing is allocated by a reading that sees
 * nothing new. Main thread only.
 */
#define SONDE_MACHINE_COUNTERS_MAX_CPUS       1024
#define SONDE_MACHINE_COUNTERS_MAX_INTERFACES 256
#define SONDE_MACHINE_COUNTERS_MAX_DISKS      256

typedef struct SondeMachineCounters SondeMachineCounters;

/* @recorder: borrowed, and outliving it */
SondeMachineCounters *sonde_machine_counters_new (SondeRecorder *recorder);
void sonde_machine_counters_free (SondeMachineCounters *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMachineCounters, sonde_machine_counters_free)

/* @kind: not SONDE_COUNTER_KIND_PROCESS; @fd: (transfer full): a text that pread() gives from its
 * start */
void sonde_machine_counters_add (SondeMachineCounters *self, SondeCounterKind kind, int fd);

/* @is_shown: else it is but what the next reading is compared with, as while the session is
 * paused */
void sonde_machine_counters_read (SondeMachineCounters *self, gboolean is_shown, gint64 now_ns);
