/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events of 64 bytes through LTTng-UST: lttng-load EVENTS. Prints the ns of CPU time of each. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/lttng-event.h"

/* On one core, as the writer of the ring benchmark is. */
static void
pin (void)
{
  cpu_set_t set;

  CPU_ZERO (&set);
  CPU_SET (0, &set);
  sched_setaffinity (0, sizeof set, &set);
}

static double
cpu_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
  return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

int
main (int argc, char **argv)
{
  unsigned long n_events = argc == 2 ? strtoul (argv[1], NULL, 10) : 0;
  uint64_t words[8] = { 0 };
  double start_ns;

  if (n_events == 0)
    return EXIT_FAILURE;
  if (!lttng_ust_tracepoint_enabled (sonde_bench, block))
    {
      fputs ("the event is not enabled\n", stderr);
      return EXIT_FAILURE;
    }
  pin ();
  start_ns = cpu_ns ();
  for (unsigned long i = 0; i < n_events; i++)
    {
      words[0] = i;
      lttng_ust_tracepoint (sonde_bench, block, words);
    }
  printf ("event_ns=%.2f\n", (cpu_ns () - start_ns) / (double) n_events);
  return EXIT_SUCCESS;
}
