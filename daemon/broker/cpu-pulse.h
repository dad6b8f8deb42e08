/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells whether the events of a whole processor still count. */
#pragma once

#include <gio/gio.h>
#include <linux/perf_event.h>

/**
 * SECTION: cpu-pulse
 *
 * A clock among the perf events of a processor: like all of them it stands still for good once the
 * processor was off, however shortly.
 */
typedef struct
{
  int fd;             /* -1: none, where events of whole processors are refused */
  gint64 since_ns;    /* CLOCK_MONOTONIC: when it was opened */
  guint64 enabled_ns; /* as last read */
} SondeCpuPulse;

#define SONDE_CPU_PULSE_NONE ((SondeCpuPulse){ .fd = -1 })

/* @attr: the pulse of a SondePerfPlan */
SondeCpuPulse sonde_cpu_pulse_open (const struct perf_event_attr *attr, int cpu);
void sonde_cpu_pulse_close (SondeCpuPulse *self);

/* Whether it has gone on since it was read last. One that there is not, or that cannot be read,
 * says so too. */
gboolean sonde_cpu_pulse_is_beating (SondeCpuPulse *self);
/* CLOCK_MONOTONIC: until when it has been seen to go; 0: unknown */
gint64 sonde_cpu_pulse_until_ns (SondeCpuPulse *self);
