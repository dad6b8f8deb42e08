/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loads the BPF program that walks interpreters, and tells it of processes and of rings. */
#pragma once

#include <glib.h>
#include <sys/types.h>

#include "daemon/base/walk.h"

/**
 * SECTION: walk-program
 *
 * A program and its maps, for one session. The events that it is given to hold it, so it goes on
 * without us; its maps are the session's, and go with it. To load it takes CAP_BPF and CAP_PERFMON,
 * to tell it anything takes none.
 *
 * Source: bpf(2); "BPF_PROG_TYPE_PERF_EVENT" in the kernel's documentation of BPF
 */
typedef struct SondeWalkProgram SondeWalkProgram;

/* @shows_closed: processes that have closed themselves are walked, too; @why: (out) (transfer
 * full): a phrase: why there is none. Returns: NULL if so */
SondeWalkProgram *sonde_walk_program_new (gboolean shows_closed, char **why);
/* Accepts NULL. */
void sonde_walk_program_free (SondeWalkProgram *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWalkProgram, sonde_walk_program_free)

/* What it writes at samples on @cpu goes where @output_fd does: an event of that kind, which may be
 * closed afterwards. Returns: 0 or a negative errno */
int sonde_walk_program_set_output (SondeWalkProgram *self, int cpu, int output_fd);
/* It runs at each sample of @event_fd. Returns: 0 or a negative errno */
int sonde_walk_program_attach (SondeWalkProgram *self, int event_fd);
/* @place: (nullable): a checked one; NULL: the process is no interpreter. Returns: 0 or a negative
 * errno */
int sonde_walk_program_set_place (SondeWalkProgram *self, pid_t pid, const SondeWalkPlace *place);
