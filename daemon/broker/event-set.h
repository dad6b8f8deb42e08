/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of one session: rings, tasks, hand-over to the worker. */
#pragma once

#include "daemon/base/channel.h"
#include "daemon/broker/control-group.h"
#include "daemon/broker/perf-event.h"
#include "daemon/broker/probe-program.h"
#include "daemon/broker/target.h"
#include "daemon/broker/walk-program.h"

/**
 * SECTION: event-set
 *
 * Each online CPU has a ring for samples and one for side-band records, owned by dummy events that
 * live as long as the session, whether their CPU goes off or not. Everything else is redirected to
 * them with PERF_EVENT_IOC_SET_OUTPUT, which the kernel allows once the worker has mapped them.
 * Events are opened disabled, into a draft, and stay ours until sonde_event_set_hand_over(), which
 * enables them (with `start-on-exec` the side-band ones alone), sends them to the worker and keeps
 * no copy.
 *
 * To open an event of a task waits for one that executes a program, so a draft is apart from its
 * set: it may be filled by another thread, which may never come back.
 */
typedef struct SondeEventSet SondeEventSet;
typedef struct SondeEventDraft SondeEventDraft;

/* Makes and probes the plan, and opens the rings' events.
 * Errors: those of sonde_perf_plan_probe() and sonde_quota_check_rings() */
SondeEventSet *sonde_event_set_new (const SondeAsked *asked, uid_t owner_uid, GError **error);
/* Accepts NULL. */
void sonde_event_set_free (SondeEventSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEventSet, sonde_event_set_free)

const SondePerfPlan *sonde_event_set_plan (const SondeEventSet *self);

/* What walks interpreters at the samples. NULL: nothing does. */
SondeWalkProgram *sonde_event_set_walk_program (const SondeEventSet *self);
/* A phrase: why nothing does, NULL if that is not wanted, or if it does. */
const char *sonde_event_set_why_no_walks (const SondeEventSet *self);

/* What writes at hits of probes. NULL: nothing does, or none are asked for. */
SondeProbeProgram *sonde_event_set_probe_program (const SondeEventSet *self);
/* A phrase: why nothing does, NULL if that is not wanted, or if it does. */
const char *sonde_event_set_why_no_probes (const SondeEventSet *self);

/* Sends the RINGS messages, to be handed on to the worker. */
gboolean sonde_event_set_send_rings (SondeEventSet *self, SondeChannel *front, GError **error);

/* (element-type gint): those with rings */
const GArray *sonde_event_set_cpus (const SondeEventSet *self);
gboolean sonde_event_set_has_cpu (const SondeEventSet *self, int cpu);
/* Opens the rings of a CPU that has none and sends them: its events may be opened once the worker
 * has mapped them. One that is off again has none afterwards either. */
gboolean
sonde_event_set_add_cpu (SondeEventSet *self, int cpu, SondeChannel *front, GError **error);
/* What the worker made of them; if it could not map them they are closed. To be called also when
 * the above has failed, or opened none. */
void sonde_event_set_take_cpu (SondeEventSet *self, int cpu, gboolean is_mapped);
/* Whether events of the whole CPU have been counting since this was asked last. They do not once it
 * was off, but its rings take the records of new ones. Always so where no event may be of a whole
 * CPU. */
gboolean sonde_event_set_is_counting (SondeEventSet *self, int cpu);
/* CLOCK_MONOTONIC: until when they did; 0: unknown */
gint64 sonde_event_set_counted_until_ns (SondeEventSet *self, int cpu);
/* Before new events are opened on a CPU that was off: also those of walks. */
void sonde_event_set_revive (SondeEventSet *self, int cpu);
/* @cpu: whose events are to be opened alone; -1: of all whose rings are mapped */
SondeEventDraft *sonde_event_set_draft (const SondeEventSet *self, int cpu);
/* Accepts NULL. */
void sonde_event_draft_free (SondeEventDraft *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEventDraft, sonde_event_draft_free)

/**
 * sonde_event_draft_check_room:
 * @pids: (element-type gint): processes to be opened together
 *
 * Whether the events of all their threads are within the limits; opens none.
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: events, descriptors
 */
gboolean sonde_event_draft_check_room (const SondeEventDraft *self,
                                       uid_t owner_uid,
                                       GArray *pids,
                                       GError **error);

/* Every CPU as a whole. */
gboolean sonde_event_draft_open_system (SondeEventDraft *self, GError **error);
/* The tasks of a control group on every CPU. @group_fd: its directory, of version 2 */
gboolean sonde_event_draft_open_group (SondeEventDraft *self, int group_fd, GError **error);

/**
 * sonde_event_draft_open_process:
 * @process_fd: its directory in /proc
 * @is_late: whether its threads may have inherited events of this session already
 *
 * All threads that it has, until a pass over them finds no new one and nothing says that the kernel
 * left some out. A thread that one of the others made meanwhile has inherited its events and now
 * has its own, too: those are marked SONDE_EVENT_LATE, and the worker takes what two of them tell
 * once. Waits for a thread that executes a program.
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED and those of sonde_perf_event_set_error(). A process
 * that is gone is none.
 */
gboolean sonde_event_draft_open_process (
    SondeEventDraft *self, pid_t pid, int process_fd, gboolean is_late, GError **error);

/* (element-type gint): CPUs with rings that were off when events were to be opened on them: they
 * have none of those, also once they are back. */
const GArray *sonde_event_draft_off_cpus (const SondeEventDraft *self);
/* How many events are open. */
guint sonde_event_draft_size (const SondeEventDraft *self);
/* @more: (transfer full): behind those of @self */
void sonde_event_draft_take (SondeEventDraft *self, SondeEventDraft *more);

/**
 * SondeOpening:
 *
 * The events of one process, opened into a draft. It is all that a thread needs for it, and that
 * thread's alone meanwhile: the kernel keeps whoever opens an event of a process, or reads its
 * mappings, waiting while that executes a program (exec_update_lock), which takes as long as a file
 * system likes that it has mapped.
 */
typedef struct
{
  SondeTracer owner;
  SondeTarget *target;            /* NULL: a member of a unit */
  gboolean is_new;                /* a target to be proven; else one that was confirmed before */
  pid_t pid;                      /* of a member */
  const SondeControlGroup *group; /* in which it has to be, still; outlives this */
  SondeEventDraft *draft;
  GError *error; /* (out): why there is none; a process that is gone has no events */
} SondeOpening;

/* @target, @draft: (transfer full) */
SondeOpening *sonde_opening_new_target (SondeTarget *target,
                                        gboolean is_new,
                                        const SondeTracer *owner,
                                        SondeEventDraft *draft);
SondeOpening *
sonde_opening_new_member (pid_t pid, const SondeControlGroup *group, SondeEventDraft *draft);
/* Accepts NULL. */
void sonde_opening_free (SondeOpening *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeOpening, sonde_opening_free)

/* In whichever thread. A target is proven, or looked at again; its events are opened; and then it
 * is confirmed (see target.h). */
void sonde_opening_run (SondeOpening *self);

/**
 * sonde_group_events_open:
 * @draft: of all processors
 * @owner_uid: whose share of the machine the events are
 * @note: (out) (nullable): a sentence for the capture if members are watched, NULL if the kernel
 * watches the group
 *
 * Of @group in the kernel, else of its members, which may wait.
 *
 * Errors: SONDE_ERROR_NO_SUCH_PROCESS if nobody is in it, LIMIT_EXCEEDED, and those of
 * sonde_event_draft_open_process()
 */
gboolean sonde_group_events_open (SondeEventDraft *draft,
                                  const SondeControlGroup *group,
                                  uid_t owner_uid,
                                  char **note,
                                  GError **error);

/* Has interpreters walked, and hits of probes written, on CPUs where they are not (any more). Of no
 * session that it cannot be done for. Errors: those of the channel */
gboolean sonde_event_set_open_outputs (SondeEventSet *self, SondeChannel *front, GError **error);
/* @draft: (transfer full): those on CPUs that have lost their rings meanwhile are closed.
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED */
gboolean sonde_event_set_hand_over (SondeEventSet *self,
                                    SondeEventDraft *draft,
                                    SondeChannel *front,
                                    GError **error);
