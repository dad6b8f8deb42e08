/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of one session: rings, tasks, hand-over to the worker. */
#pragma once

#include "daemon/control/perf-event.h"
#include "daemon/control/worker.h"

/**
 * SECTION: event-set
 *
 * Each online CPU has a ring for samples and one for side-band records, owned by dummy events that
 * live as long as the session. Everything else is redirected to them with
 * PERF_EVENT_IOC_SET_OUTPUT, which the kernel allows once the worker has mapped them. Events are
 * opened disabled and stay ours until sonde_event_set_hand_over(), which enables them, sends them
 * to the worker and keeps no copy.
 */
typedef struct SondeEventSet SondeEventSet;

/* Makes and probes the plan, and opens the rings' events.
 * Errors: those of sonde_perf_plan_probe() and sonde_quota_check_rings() */
SondeEventSet *sonde_event_set_new (const SondeOptions *options, uid_t owner_uid, GError **error);
/* Accepts NULL. */
void sonde_event_set_free (SondeEventSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEventSet, sonde_event_set_free)

const SondePerfPlan *sonde_event_set_plan (const SondeEventSet *self);

/* Sends the RINGS message. */
gboolean sonde_event_set_send_rings (SondeEventSet *self, SondeWorker *worker, GError **error);

/**
 * sonde_event_set_check_room:
 * @pids: (element-type gint): processes to be opened together
 *
 * Whether the events of all their threads are within the limits; opens none.
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: events, descriptors
 */
gboolean sonde_event_set_check_room (const SondeEventSet *self,
                                     uid_t owner_uid,
                                     GArray *pids,
                                     GError **error);

/* Every CPU as a whole. */
gboolean sonde_event_set_open_system (SondeEventSet *self, GError **error);
/* All threads that @pid has, until a pass over them finds no new one. */
gboolean sonde_event_set_open_process (SondeEventSet *self, pid_t pid, GError **error);
/* Closes what was opened and not handed over. */
void sonde_event_set_discard (SondeEventSet *self);
gboolean sonde_event_set_hand_over (SondeEventSet *self, SondeWorker *worker, GError **error);
