/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/memory/event-clock.h"

#include <stdbool.h>

#include "shared-ring/ring-atomic.h"
#include "shared-ring/ring-writer.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

/* The rate is measured over at least so long: then an error of some 10 ns at both ends makes it
 * wrong by less than what matters in a span. */
#define MEASURED_NS INT64_C (20000000)

/* A reading that took longer was interrupted, and says nothing of the counter: about 1 µs. */
#define MAX_READING_COUNTS 4000

typedef struct
{
  uint64_t counter;
  int64_t time_ns;
} Reading;

/* Of the process: from which reading on the rate is measured, and what it is. The counter of the
 * first is stored last. */
static Reading first;
static uint64_t first_is_there;
static uint64_t common_rate;

#if defined(__x86_64__) || defined(__i386__)
#define LEAF_POWER    0x80000007u
#define INVARIANT_TSC (1u << 8)

static bool
is_steady (void)
{
  unsigned a, b, c, d;

  return __get_cpuid (LEAF_POWER, &a, &b, &c, &d) != 0 && (d & INVARIANT_TSC) != 0;
}
#else
static bool
is_steady (void)
{
  return false;
}
#endif

/* Any thread may find it; those that do at the same time find nearly the same. */
static uint64_t
measure_rate (const Reading *now)
{
  uint64_t expected = 0;
  uint64_t rate = sonde_ring_load_relaxed (&common_rate);

  if (rate != 0)
    return rate;
  /* Pairs with the release below. */
  if (sonde_ring_load_acquire (&first_is_there) == 2)
    {
      int64_t passed_ns = now->time_ns - first.time_ns;
      uint64_t counts = now->counter - first.counter;

      if (passed_ns < MEASURED_NS || counts == 0 || counts > UINT64_C (1) << 62)
        return 0;
      rate = (uint64_t) ((double) passed_ns / (double) counts * 0x1p32);
      sonde_ring_store_relaxed (&common_rate, rate);
      return rate;
    }
  if (is_steady ()
      && __atomic_compare_exchange_n (&first_is_there, &expected, 1, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
    {
      first = *now;
      sonde_ring_store_release (&first_is_there, 2);
    }
  return 0;
}

int64_t
sonde_event_clock_read (SondeEventClock *self, uint64_t counter)
{
  uint64_t behind, rate;
  Reading now;

  now.time_ns = sonde_ring_now_ns ();
  behind = sonde_event_clock_counter ();
  now.counter = counter + (behind - counter) / 2;
  self->span = 0;
  if (behind != 0 && behind - counter < MAX_READING_COUNTS)
    {
      rate = measure_rate (&now);
      if (rate != 0)
        {
          self->counter = now.counter;
          self->time_ns = now.time_ns;
          self->rate = rate;
          self->span = ((uint64_t) SONDE_EVENT_CLOCK_SPAN_NS << 32) / rate;
        }
    }
  if (now.time_ns > self->last_ns)
    self->last_ns = now.time_ns;
  return self->last_ns;
}
