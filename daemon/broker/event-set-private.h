/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A set of perf events from inside: shared by event-set.c and event-set-record.c alone. */
#pragma once

#include "daemon/broker/cpu-pulse.h"
#include "daemon/broker/event-set.h"

typedef struct
{
  int fd;
  SondeMessageEvent entry;
} SondeOpenEvent;

struct SondeEventSet
{
  SondePerfPlan plan;
  GArray *cpus;   /* int: those with rings, which stay when their CPU goes off */
  GArray *rings;  /* SondeOpenEvent: for each CPU samples (if there are any), then side-band */
  GArray *pulses; /* SondeCpuPulse: for each CPU; where no event of whole CPUs is wanted, none */
  gboolean has_pulses;
  int unmapped_cpu;    /* whose rings the worker has not mapped yet; -1: none */
  int only_cpu;        /* whose events are opened; -1: of all */
  GArray *fresh;       /* SondeOpenEvent: opened, disabled, not handed over */
  guint n_handed_over; /* events */
  gboolean start_on_exec;
};

/* Without any event yet, and with the best plan. */
SondeEventSet *sonde_event_set_alloc (const SondeAsked *asked);
guint sonde_event_set_n_kinds (const SondeEventSet *self);
/* Its rings are there: nothing counts on it yet. */
void sonde_event_set_append_cpu (SondeEventSet *self, int cpu);
