/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From options to perf_event_attr, and the only perf_event_open(). */
#pragma once

#include <linux/perf_event.h>

#include "daemon/base/asked.h"
#include "daemon/base/message.h"

/**
 * SECTION: perf-event
 *
 * The attributes come from a small closed set: no config1 or config2, no groups, no aux, no
 * breakpoints, no tracepoint's payload. Samples and side-band records (mappings, names, forks,
 * exits) have events and rings of their own, so that the kernel's lost count of the sampling events
 * speaks of samples alone.
 *
 * Source: perf_event_open(2), linux/perf_event.h
 */
typedef struct
{
  struct perf_event_attr samples;
  struct perf_event_attr sideband;
  /* Dummy events that own the rings and set how often their reader is woken. */
  struct perf_event_attr samples_ring;
  struct perf_event_attr sideband_ring;
  struct perf_event_attr switches; /* when threads run and do not */
  struct perf_event_attr switches_ring;
  struct perf_event_attr walks;  /* by which a walk program writes into the ring of samples */
  struct perf_event_attr probes; /* by which a probe program writes into that ring */
  struct perf_event_attr pulse;  /* a clock that stands still once its CPU was off */
  gboolean has_samples;          /* FALSE for the event "none" */
  gboolean has_switches;         /* waits are wanted */
  gboolean has_walks;            /* interpreters are walked at samples, if the kernel lets us */
  gboolean has_probes;           /* probes of programs' allocators are followed, the same */
  gboolean may_fall_back;        /* "auto": cycles, else cpu-clock */
  gboolean defers;               /* user parts of callchains come later, as Linux 6.19 can */
  gint64 tracepoint_id;          /* 0: another event; a negative errno: this machine has it not */
  const char *event_name;
} SondePerfPlan;

/* What would be best, without asking the kernel. */
void sonde_perf_plan_init (SondePerfPlan *self, const SondeAsked *asked);

/**
 * sonde_perf_plan_probe:
 *
 * Tries the sampling event on ourselves, or on a CPU for the scope `system`, and gives up in turn
 * what this kernel refuses: deferred callchains, cycles for cpu-clock, the lost count, kernel time.
 *
 * Errors: SONDE_ERROR_NOT_AUTHORIZED, NOT_SUPPORTED, LIMIT_EXCEEDED, FAILED
 */
gboolean
sonde_perf_plan_probe (SondePerfPlan *self, const SondeAsked *asked, int first_cpu, GError **error);

/* SONDE_SPEC_*, as the plan stands now. */
guint32 sonde_perf_plan_flags (const SondePerfPlan *self);

/* Returns: a close-on-exec descriptor or a negative errno */
int sonde_perf_event_open (const struct perf_event_attr *attr, pid_t tid, int cpu);
/* The same for all tasks of a control group of version 2, and of those below it. @group_fd: its
 * directory */
int sonde_perf_event_open_group (const struct perf_event_attr *attr, int group_fd, int cpu);

/* The errno of sonde_perf_event_open() in words; EACCES names the sysctl if that is what refuses.
 */
void sonde_perf_event_set_error (GError **error, int error_number, const char *event_name);

/* What the option `event` takes on this machine, in the bits of SondeMessageSheet. */
void sonde_perf_event_look (guint64 *events, guint64 *tracepoints);

/* The kernel's number of @name, which is one of sonde_tracepoint_name(); a negative errno if this
 * machine lacks it or tracefs is not mounted where it belongs.
 * Source: tracefs, Documentation/trace/events.rst */
gint64 sonde_tracepoint_id (const char *name);
