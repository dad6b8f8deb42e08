/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process to be profiled, and the proof that its profiler may see it. */
#pragma once

#include <gio/gio.h>
#include <stdbool.h>
#include <sys/types.h>

#include "daemon/base/asked-target.h"
#include "daemon/broker/credentials.h"

/**
 * SECTION: target
 *
 * A caller proves its right with a descriptor of /proc/PID/maps that it opened itself: that open is
 * the kernel's ptrace-read check with the caller's credentials, and the descriptor is tied to the
 * memory image that was checked. The order is: sonde_target_prove(), events opened disabled,
 * sonde_target_confirm(), events enabled. An exec before the events were opened is caught by
 * confirm, a later one by the kernel, which drops a task's events when it executes a program that
 * gives it rights or that it may not read.
 *
 * Proof or not, a process that the kernel would not open for the caller's program is refused, one
 * of another uid, gid or with more capabilities, or that is not dumpable: the descriptor may be
 * from better days, or a gift of somebody with more rights. What such a refusal reads is always the
 * same, so that it does not tell whether a foreign process exists. One thing is told apart, by the
 * caller's descriptor alone: that it is of another procfs than ours.
 */
typedef struct
{
  pid_t pid;
  bool has_proof;
  int maps_fd;    /* that proof, until it is confirmed */
  int process_fd; /* its directory in /proc: -1 before it is proven or reopened, and once confirmed
                   */
  int pidfd;      /* -1 if there was no such process, or is none any more */
  guint64 start_ticks;          /* /proc/PID/stat field 22 */
  SondeCredentials credentials; /* with a proof: what the kernel let the caller look into */
} SondeTarget;

/* @asked: (transfer full) */
SondeTarget *sonde_target_new (SondeAskedTarget *asked);
void sonde_target_free (SondeTarget *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTarget, sonde_target_free)

/**
 * sonde_target_prove:
 * @owner: who asks
 *
 * Errors: with a proof SONDE_ERROR_NOT_AUTHORIZED, or NOT_SUPPORTED if it is of another procfs;
 * without SONDE_ERROR_NO_SUCH_PROCESS
 */
bool sonde_target_prove (SondeTarget *self, const SondeTracer *owner, GError **error);

/* Once the events are open: all of the proof again, so still the same image, whose it was, and
 * alive. Gives the proof back to the kernel. Errors: as sonde_target_prove() */
bool sonde_target_confirm (SondeTarget *self, const SondeTracer *owner, GError **error);

/* Before more events are opened of a target that was confirmed: whether it is alive, and still one
 * that @owner may look into. Then sonde_target_confirm() is to follow again. */
bool sonde_target_reopen (SondeTarget *self, const SondeTracer *owner);

/* Another of a target that was confirmed, for sonde_target_reopen() in another thread; NULL if it
 * is known to be gone. */
SondeTarget *sonde_target_copy (const SondeTarget *self);

/* The targets of one session, and the moment when the last of them exits. Main loop only. */
typedef struct SondeTargetSet SondeTargetSet;

/* @all_exited: each time that no target is left */
SondeTargetSet *sonde_target_set_new (void (*all_exited) (gpointer user_data), gpointer user_data);
void sonde_target_set_free (SondeTargetSet *self);

/* Whether @n_more have room. Errors: SONDE_ERROR_LIMIT_EXCEEDED */
gboolean sonde_target_set_check_room (const SondeTargetSet *self, guint n_more, GError **error);
/* Whether the one at @index is not among those before it, nor in the set. Errors:
 * SONDE_ERROR_INVALID_OPTION */
gboolean sonde_target_set_check_new (const SondeTargetSet *self,
                                     GPtrArray *targets,
                                     guint index,
                                     GError **error);

/* @target: (transfer full): watched from now on, unless it is known to have exited */
void sonde_target_set_take (SondeTargetSet *self, SondeTarget *target);

/* (nullable): the one of this number that was taken last */
const SondeTarget *sonde_target_set_find (const SondeTargetSet *self, pid_t pid);

/* Whether there were targets, and none is left. */
gboolean sonde_target_set_is_over (const SondeTargetSet *self);
/* Those that are not known to be gone. Returns: (transfer full) (element-type SondeTarget): copies
 */
GPtrArray *sonde_target_set_copy (const SondeTargetSet *self);

/* Exits are of no interest any more. */
void sonde_target_set_unwatch (SondeTargetSet *self);
