/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rights of a broker: which capabilities it keeps, and when it uses them; its system calls. */
#pragma once

#include <gio/gio.h>
#include <sys/capability.h>

/**
 * SECTION: rights
 *
 * Between calls that need them no capability is effective: a mistake anywhere else is that of an
 * ordinary process. They are raised for one scope of C, on the thread that runs it:
 *
 *   sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
 *
 * Who has none of them, as the broker of a user's own sonded, raises nothing, and the kernel
 * decides.
 */
typedef enum
{
  SONDE_FOR_EVENTS,       /* perf_event_open() */
  SONDE_FOR_PROCESSES,    /* what /proc tells of a process, and the files behind it */
  SONDE_FOR_TRACEPOINTS,  /* tracefs, which is root's */
  SONDE_FOR_KERNEL_NAMES, /* addresses in kallsyms */
  SONDE_FOR_PROGRAMS,     /* bpf(), to make maps and load */
  SONDE_N_PURPOSES,
} SondePurpose;

/**
 * sonde_capabilities_init:
 *
 * Gives up what is for none of these purposes, for good, and keeps the rest without effect. To be
 * called before there are threads.
 *
 * Source: capabilities(7)
 */
gboolean sonde_capabilities_init (GError **error);

/* Returns: what to go back to: for sonde_raised */
cap_t sonde_capabilities_raise (SondePurpose purpose);
/* Keeps errno. */
void sonde_capabilities_lower (cap_t *before);

#define sonde_raised __attribute__ ((cleanup (sonde_capabilities_lower), unused))

/**
 * sonde_broker_calls_enforce:
 * @front_fd: the connection with the front
 *
 * No new privileges, and from here on the calls of the table in rights.c alone: nothing is
 * executed, nothing is opened to be written to, no socket is made. Of another call the front hears
 * which it was, as BROKEN, and standard error, and the program ends (see daemon/base/call-list.h).
 * Before there are threads.
 *
 * Source: seccomp(2), prctl(2)
 */
gboolean sonde_broker_calls_enforce (int front_fd, GError **error);
