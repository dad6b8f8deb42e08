/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The targets of one session, and the moment when the last of them exits. */
#pragma once

#include "daemon/broker/event-set.h"
#include "daemon/broker/target.h"

typedef struct SondeTargetSet SondeTargetSet;

/* @all_exited: each time that no target is left */
SondeTargetSet *sonde_target_set_new (void (*all_exited) (gpointer user_data), gpointer user_data);
/* Accepts NULL. */
void sonde_target_set_free (SondeTargetSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTargetSet, sonde_target_set_free)

/**
 * sonde_target_set_prove:
 * @targets: (element-type SondeTarget): to be proven, and then not in the set nor in @targets twice
 *
 * Errors: as sonde_target_prove(); SONDE_ERROR_INVALID_OPTION, LIMIT_EXCEEDED
 */
gboolean sonde_target_set_prove (const SondeTargetSet *self,
                                 GPtrArray *targets,
                                 const SondeTracer *owner,
                                 GError **error);

/* @target: (transfer full): watched from now on, unless it is known to have exited */
void sonde_target_set_take (SondeTargetSet *self, SondeTarget *target);

/* (nullable): the one of this number that was taken last */
const SondeTarget *sonde_target_set_find (const SondeTargetSet *self, pid_t pid);

/* Whether there were targets, and none is left. */
gboolean sonde_target_set_is_over (const SondeTargetSet *self);
/* Opens events of all of them that live and that @owner may still look into; some may have been
 * inherited.
 * Errors: those of sonde_event_set_open_process() */
gboolean sonde_target_set_open (const SondeTargetSet *self,
                                SondeEventSet *events,
                                const SondeTracer *owner,
                                GError **error);

/* Exits are of no interest any more. */
void sonde_target_set_unwatch (SondeTargetSet *self);
