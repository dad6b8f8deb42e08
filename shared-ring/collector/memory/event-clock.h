/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the time of an event at less than half the cost of clock_gettime(). */
#pragma once

#include <stdint.h>

/**
 * SECTION: event-clock
 *
 * CLOCK_MONOTONIC, as read by the kernel's clock at most SONDE_EVENT_CLOCK_SPAN_NS before, plus
 * what the processor's counter has gone on since, at a rate that the process measures against that
 * clock. So it is never off by more than the rate's error in that span, some ns, and no two threads
 * disagree by more. Where the counter stops or changes its rate (by CPUID), and until the rate is
 * known, each time is the kernel's.
 *
 * One for each thread; times of a thread never decrease. errno is left alone; signal handlers too.
 */
#define SONDE_EVENT_CLOCK_SPAN_NS INT64_C (1000000)

typedef struct
{
  uint64_t counter; /* at the last reading of the kernel's clock */
  int64_t time_ns;  /* of that reading */
  int64_t last_ns;  /* as told last */
  uint64_t rate;    /* ns for each count, times 2^32; 0: not known */
  uint64_t span;    /* counts that the reading is good for */
} SondeEventClock;

/* Reads the kernel's clock. */
int64_t sonde_event_clock_read (SondeEventClock *self, uint64_t counter);

static inline uint64_t
sonde_event_clock_counter (void)
{
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc ();
#else
  return 0; /* the kernel's clock costs hardly more */
#endif
}

/* @self: all zero at first. In ns of CLOCK_MONOTONIC. */
static inline int64_t
sonde_event_clock_now (SondeEventClock *self)
{
  uint64_t counter = sonde_event_clock_counter ();
  uint64_t count = counter - self->counter;

  if (__builtin_expect (count < self->span, 1))
    {
      int64_t now_ns = self->time_ns + (int64_t) (count * self->rate >> 32);

      if (now_ns > self->last_ns)
        self->last_ns = now_ns;
      return self->last_ns;
    }
  return sonde_event_clock_read (self, counter);
}
