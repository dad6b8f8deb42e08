/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hands on what comes out of the rings to who makes something of it: tracker, sampler, counts. */
#pragma once

#include "daemon/capture/worker/worker-session.h"

/* FALSE and a sentence if the setup asks for samples that cannot be read. */
gboolean sonde_dispatch_supports (const SondeMessageSetup *setup, const char **why);

/* Makes the decoder and the rings, of which all records come here. */
void sonde_dispatch_set_up (SondeWorkerSession *self);

/* @id: of an event by which walks of interpreters come. FALSE: there are too many */
gboolean sonde_dispatch_add_walks (SondeWorkerSession *self, uint64_t id);

/* The same of one by which hits of probes come. */
gboolean sonde_dispatch_add_probes (SondeWorkerSession *self, uint64_t id);

/* There may be more to know of that process, and of probes in it. */
void sonde_dispatch_meet (SondeWorkerSession *self, int32_t pid);

/* Reads a slice of new files and hands a bounded number of records on; while the session drains
 * whatever their age, and waits for answers end at its wait_until_ns. */
SondeRingsState sonde_dispatch_run (SondeWorkerSession *self);

/* Ten times a second: what became known since, counters and a flush. @reads_lost: the kernel's
 * count of lost samples, too; @reports: once a second, what is done seldom */
void sonde_dispatch_tick (SondeWorkerSession *self, gboolean reads_lost, gboolean reports);
/* Has the recorder write what has happened until now. */
void sonde_dispatch_snap (SondeWorkerSession *self);
/* Counters of the machine and of processes. */
void sonde_dispatch_count (SondeWorkerSession *self);

/* The rings are empty: says what was odd. */
void sonde_dispatch_end (SondeWorkerSession *self);
/* All that was counted. */
void sonde_dispatch_sum (const SondeWorkerSession *self, guint64 values[SONDE_N_STATISTICS]);
