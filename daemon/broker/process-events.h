/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens the perf events of processes: of targets, and of the members of a unit. */
#pragma once

#include "daemon/broker/control-group.h"
#include "daemon/broker/event-set.h"
#include "daemon/broker/target.h"

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
 * sonde_unit_events_open:
 * @draft: of all processors
 * @unit: its name, for errors
 * @owner_uid: whose share of the machine the events are
 * @note: (out) (nullable): a sentence for the capture if members are watched, NULL if the kernel
 * watches the group
 *
 * Of its control group in the kernel, else of its members, which may wait.
 *
 * Errors: SONDE_ERROR_NO_SUCH_PROCESS if nobody is in it, LIMIT_EXCEEDED, and those of
 * sonde_event_draft_open_process()
 */
gboolean sonde_unit_events_open (SondeEventDraft *draft,
                                 const SondeControlGroup *group,
                                 const char *unit,
                                 uid_t owner_uid,
                                 char **note,
                                 GError **error);
