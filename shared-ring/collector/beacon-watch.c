/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/beacon-watch.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared-ring/collector/beacon.h"
#include "shared-ring/collector/quiet-thread.h"

/* Whoever may read the page may wake us as often as he likes, or have the kernel put us where the
 * profiler does not wake us (FUTEX_REQUEUE). So there is a rest behind what was no change, and a
 * look at the word at times. */
#define REST_NS 20000000
#define LOOK_S  30

/* The kernel's, whatever a time_t is here. Source: futex(2), time(7) */
typedef struct
{
  long seconds;
  long ns;
} Time;

/* Of the process. */
static struct
{
  SondeQuietThread thread;
  uint32_t is_over;   /* it is to end */
  uint32_t has_ended; /* but for what libc has still to do */
} watcher;

/* Those of some other processes have the same, and are woken with ours for nothing. */
static uint32_t
get_bit (void)
{
  return UINT32_C (1) << (uint32_t) getpid () % 32;
}

/* A mapping that can only be read will do for the kernel, of whatever user the file is. False: it
 * is a filter's answer, and would be so again. */
static bool
sleep_on (const uint32_t *word, uint32_t value, const Time *time)
{
  struct timespec now;
  Time until;

  clock_gettime (CLOCK_MONOTONIC, &now);
  until = (Time){ now.tv_sec + time->seconds, now.tv_nsec + time->ns };
  if (until.ns >= 1000000000)
    until = (Time){ until.seconds + 1, until.ns - 1000000000 };
  return syscall (SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, get_bit ()) == 0
         || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
}

static bool
is_over (void)
{
  return sonde_ring_load_acquire (&watcher.is_over) != 0;
}

static void *
watch (void *data)
{
  const Time rest = { .ns = REST_NS };
  const Time look = { .seconds = LOOK_S };
  const uint32_t nobody_wakes = 0;
  void (*changed) (bool is_last);
  bool is_asleep = true;

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&changed, &data, sizeof changed);
  while (is_asleep && !is_over ())
    {
      uint32_t seen = sonde_beacon_generation ();

      changed (false);
      if (!is_over ())
        is_asleep = sleep_on (sonde_beacon_word, seen, &look);
      while (is_asleep && !is_over () && sonde_beacon_generation () == seen)
        is_asleep = sleep_on (&nobody_wakes, 0, &rest) && sleep_on (sonde_beacon_word, seen, &look);
    }
  if (!is_over ())
    changed (true);
  sonde_ring_store_release (&watcher.has_ended, 1);
  return NULL;
}

void
sonde_beacon_watch_start (void (*changed) (bool is_last))
{
  void *data;

  memcpy (&data, &changed, sizeof data);
  sonde_ring_store_relaxed (&watcher.is_over, 0);
  sonde_ring_store_release (&watcher.has_ended, 0);
  if (sonde_beacon_is_there ())
    sonde_quiet_thread_start (&watcher.thread, watch, data);
}

/* It may be about to sleep, so that it is woken until it has gone. */
void
sonde_beacon_watch_stop (void)
{
  const Time moment = { .ns = 1000000 };
  int saved_errno = errno;

  if (watcher.thread.pid != getpid ())
    return;
  sonde_ring_store_release (&watcher.is_over, 1);
  while (sonde_ring_load_acquire (&watcher.has_ended) == 0)
    {
      syscall (SYS_futex, sonde_beacon_word, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, get_bit ());
      sleep_on (&watcher.has_ended, 0, &moment);
    }
  sonde_quiet_thread_join (&watcher.thread);
  errno = saved_errno;
}
