/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has the kernel write a record at each hit of a probe, of one process. */
#pragma once

#include <glib.h>
#include <sys/types.h>

#include "daemon/broker/proc-broker.h"

/**
 * SECTION: probe-program
 *
 * A BPF program of some instructions, for one session, which runs where uprobes of a file and a
 * process are hit. To load and to link it takes CAP_BPF and CAP_PERFMON. Perf's own uprobes would
 * take CAP_SYS_ADMIN, fail the forks of what they are inherited by, and be closed one by one for
 * each thread and processor; one of these is of all threads of a process, of those to come, too,
 * and of nobody whom it makes.
 *
 * What the process executes later is hit as well, where it maps the same file. The program tells of
 * a hit if it is at the address where the probe was to begin with: another image has it elsewhere,
 * as one that gains rights always has.
 *
 * A link stands until its last descriptor is closed. That takes some 30 ms, and a SIGKILL that
 * comes meanwhile leaves the probe in the program (without effect, but for its cost): so those of
 * processes that run are closed by the end of ours, which nothing interrupts.
 *
 * Source: bpf(2); BPF_TRACE_UPROBE_MULTI of linux/bpf.h since 6.6; kernel/events/uprobes.c
 */
typedef struct SondeProbeProgram SondeProbeProgram;

/* @why: (out) (transfer full): a phrase: why there is none. Returns: NULL if so */
SondeProbeProgram *sonde_probe_program_new (char **why);
SondeProbeProgram *sonde_probe_program_ref (SondeProbeProgram *self);
/* Accepts NULL. */
void sonde_probe_program_unref (SondeProbeProgram *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProbeProgram, sonde_probe_program_unref)

/* What it writes at hits on @cpu goes where @output_fd does. Returns: 0 or a negative errno */
int sonde_probe_program_set_output (SondeProbeProgram *self, int cpu, int output_fd);

/* @fd: of the file. From any thread. Returns: the link's descriptor, or a negative errno */
int sonde_probe_program_link (
    SondeProbeProgram *self, int fd, pid_t pid, const SondeProbePlace *places, guint n_places);
