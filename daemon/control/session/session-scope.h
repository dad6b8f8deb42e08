/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What one session profiles: its targets, their perf events, and what its worker may ask about. */
#pragma once

#include "daemon/control/events/event-set.h"
#include "daemon/control/request/options.h"
#include "daemon/control/worker/worker.h"

/**
 * SECTION: session-scope
 *
 * Life: prepare (the targets are proven, the rings' events are open) → ready (a unit is found) →
 * open (events on, targets told to the worker) → add and answer, as often as wanted → close (events
 * off our hands). Nothing is enabled before every target was confirmed (see target.h). Main loop
 * only.
 */
typedef struct SondeSessionScope SondeSessionScope;

typedef struct
{
  /* Each time that no target is left, or the unit has no process. */
  void (*all_exited) (gpointer user_data);
  /* A processor has come back: what sonde_session_scope_record() tells is something else now. */
  void (*changed) (gpointer user_data);
} SondeSessionScopeHandler;

/* @options: borrowed, outliving it */
SondeSessionScope *sonde_session_scope_new (const SondeOptions *options,
                                            uid_t owner_uid,
                                            pid_t owner_pid,
                                            const SondeSessionScopeHandler *handler,
                                            gpointer user_data);
/* Accepts NULL. */
void sonde_session_scope_free (SondeSessionScope *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSessionScope, sonde_session_scope_free)

/* Errors: as sonde_target_set_prove() and sonde_event_set_new() */
gboolean sonde_session_scope_prepare (SondeSessionScope *self, GError **error);

/* @error: NULL if all is there that opening needs */
typedef void (*SondeSessionScopeReady) (const GError *error, gpointer user_data);

/**
 * sonde_session_scope_when_ready:
 *
 * Once prepared: calls @ready, at once unless systemd is still to tell where the unit is; never
 * after sonde_session_scope_free().
 *
 * Errors: as sonde_unit_find_group_async() and sonde_control_group_open()
 */
void sonde_session_scope_when_ready (SondeSessionScope *self,
                                     SondeSessionScopeReady ready,
                                     gpointer user_data);

/* Once prepared. */
const SondePerfPlan *sonde_session_scope_plan (const SondeSessionScope *self);
gboolean
sonde_session_scope_send_rings (SondeSessionScope *self, SondeWorker *worker, GError **error);

/* Opens, confirms and enables the events, and sends them. */
gboolean sonde_session_scope_open (SondeSessionScope *self, SondeWorker *worker, GError **error);
/* Tells the worker of the targets, once it has heard START. */
gboolean
sonde_session_scope_announce (SondeSessionScope *self, SondeWorker *worker, GError **error);

/* @targets: (element-type SondeTarget): taken one by one when all of them are in. On failure of a
 * target nothing is left of it. Errors: SONDE_ERROR_INVALID_STATE if this scope takes none */
gboolean sonde_session_scope_add (SondeSessionScope *self,
                                  GPtrArray *targets,
                                  SondeWorker *worker,
                                  GError **error);

/* The worker's answer to rings of a processor that came while the session runs.
 * Errors: SONDE_ERROR_FAILED: none was sent */
gboolean sonde_session_scope_rings_mapped (SondeSessionScope *self, int status, GError **error);

/* The answers to a worker's requests. FALSE: the connection is broken. */
gboolean sonde_session_scope_answer_process (SondeSessionScope *self,
                                             const SondeMessageProcessRequest *request,
                                             SondeWorker *worker,
                                             GError **error);
gboolean sonde_session_scope_answer_file (SondeSessionScope *self,
                                          const SondeMessageFileRequest *request,
                                          SondeWorker *worker,
                                          GError **error);

gboolean sonde_session_scope_answer_counters (SondeSessionScope *self,
                                              const SondeMessageCountersRequest *request,
                                              SondeWorker *worker,
                                              GError **error);

/* For a sonded after us: all that it needs of the scope; the events that own its rings, and those
 * that tell of processors that were off (element-type int; borrowed; none once it is closed). */
void sonde_session_scope_record (const SondeSessionScope *self, SondeSessionRecord *record);
GArray *sonde_session_scope_ring_fds (const SondeSessionScope *self);
GArray *sonde_session_scope_pulse_fds (const SondeSessionScope *self);
/* Instead of preparing and opening: as it was left by a sonded before us. @event_fds:
 * (element-type int): taken and replaced by -1 */
void sonde_session_scope_restore (SondeSessionScope *self,
                                  const SondeSessionRecord *record,
                                  GArray *event_fds,
                                  SondeWorker *worker);
/* Whether it had targets, and none is left. */
gboolean sonde_session_scope_is_over (const SondeSessionScope *self);

/* Nothing is added any more and exits are of no interest; requests are still answered. */
void sonde_session_scope_close (SondeSessionScope *self);
