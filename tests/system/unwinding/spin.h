/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Burning a known CPU time in a function that has a name. */
#pragma once

#include <time.h>

/* Never inlined, cloned or turned into a jump: each is one frame. */
#if __has_attribute(noipa)
#define FRAME __attribute__ ((noipa))
#else
#define FRAME __attribute__ ((noinline, optnone))
#endif

static inline double
cpu_seconds (clockid_t clock)
{
  struct timespec now;

  clock_gettime (clock, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* Calls @leaf until the thread has used @milliseconds more. */
static inline void
spin (unsigned milliseconds, void (*leaf) (unsigned rounds))
{
  double end = cpu_seconds (CLOCK_THREAD_CPUTIME_ID) + milliseconds / 1e3;

  while (cpu_seconds (CLOCK_THREAD_CPUTIME_ID) < end)
    leaf (100000);
}
