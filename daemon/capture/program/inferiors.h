/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Leads the events of profiled programs from control sockets and rings to the recorder. */
#pragma once

#include "daemon/capture/process/sampler.h"
#include "daemon/capture/process/tracker.h"

/**
 * SECTION: inferiors
 *
 * control-server (who asks) → rings (bytes) → frame-adopter (may it say this, and what
 * does it mean here) → recorder. A process that asks for a ring is an inferior.h for as long as it
 * may use one, and until its addresses are looked up. Whether the session's owner may see its
 * mappings is decided by the broker, as of any other process. Main thread only.
 *
 * One loop drains all rings (shared-ring/ring-schedule.h): in a turn each gives up to a budget, so
 * that a noisy program starves nobody. What readers cannot take stays in the rings for a while,
 * where a program that may wait does so. A ring ends by its end frame, by the death of its program,
 * which is drained to its last whole frame, or by a fault of the program, and no other ring with
 * it: a LOG frame says why. Rings belong to a *peer*: the socket whose other end only their program
 * has.
 */
typedef struct SondeInferiors SondeInferiors;

/* What stacks of programs may take in the worker (shared-ring/heap-record.h): a quarter of
 * SONDE_LIMIT_WORKER_BYTES. Rings that come when it is given away have frames alone. */
#define SONDE_INFERIORS_STACK_BYTES (128u * 1024 * 1024)

/* All borrowed, and outliving it. */
typedef struct
{
  const SondeMessageSetup *setup;
  SondeRecorder *recorder;
  SondeTracker *tracker;
  SondeSampler *sampler;
  SondeTally *tally;
} SondeInferiorsParts;

/* A control socket has closed. */
typedef void (*SondeInferiorsChanged) (gpointer user_data);

SondeInferiors *sonde_inferiors_new (const SondeInferiorsParts *parts,
                                     SondeInferiorsChanged changed,
                                     gpointer user_data);
void sonde_inferiors_free (SondeInferiors *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeInferiors, sonde_inferiors_free)

/* @fd: (transfer full): our end of a control socket */
void sonde_inferiors_add_control (SondeInferiors *self, int fd);
/* @fd: (transfer full): the link of a program that came to the rendezvous */
void sonde_inferiors_add_program (SondeInferiors *self, int fd);
/* Control sockets: how many there ever were, and how many are open. */
guint sonde_inferiors_n_taken (const SondeInferiors *self);
guint sonde_inferiors_n_open (const SondeInferiors *self);

void sonde_inferiors_pause (SondeInferiors *self, gboolean is_paused);

/* The kernel's records say that a process ended, or executed another program, at @time_ns: takes
 * what it left in its rings. Returns FALSE if readers cannot take it now: the record should wait.
 * @is_urgent: it cannot */
gboolean
sonde_inferiors_take_rest (SondeInferiors *self, int32_t pid, gint64 time_ns, gboolean is_urgent);
/* Behind that. Returns whether the record should wait until more is known of the process. */
gboolean sonde_inferiors_foresee_end (SondeInferiors *self, int32_t pid, gint64 time_ns);
/* Behind that, before its mappings are forgotten. */
void sonde_inferiors_process_ends (SondeInferiors *self, int32_t pid, gint64 time_ns);

/* A process has forked another, by the kernel's records. */
void sonde_inferiors_forked (SondeInferiors *self, int32_t parent, int32_t child, gint64 time_ns);
/* By these, it has mapped another file where one was: addresses mean something else. */
void sonde_inferiors_remapped (SondeInferiors *self, int32_t pid, gint64 time_ns);
/* All records of the kernel from before @until_ns were told of. */
void sonde_inferiors_records_taken (SondeInferiors *self, gint64 until_ns);
/* Before a reader is added: what it gets of the log of heap events it can read. */
void sonde_inferiors_reader_comes (SondeInferiors *self);

/* @frame: an ALLOCATION frame of a process, which a record of the kernel told, in the order of
 * these. */
void sonde_inferiors_take_allocation (SondeInferiors *self, const SondeFrame *frame);

/* About every 100 ms: processes are told of, addresses looked up. */
void sonde_inferiors_settle (SondeInferiors *self);
/* About once a second: what programs say that they lost. */
void sonde_inferiors_count (SondeInferiors *self);
/* Events that were taken, and are in frames of some seconds from now. */
guint32 sonde_inferiors_n_untold (const SondeInferiors *self);

/* The end of the session: programs make no more events. Then turns until nothing is left, or what
 * is left is of programs that go on all the same, or @is_urgent, whatever readers can take; then it
 * is closed. Returns FALSE if readers have not taken all by now. */
gboolean sonde_inferiors_drain (SondeInferiors *self, gboolean is_urgent);
/* While that lasts: programs give their rings back, and may come to another session. */
void sonde_inferiors_let_go (SondeInferiors *self);
void sonde_inferiors_end (SondeInferiors *self);
