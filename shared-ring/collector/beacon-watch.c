/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/beacon-watch.h"

#include <errno.h>
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

/* A mapping that can only be read will do for the kernel, of whatever user the file is. False: it
 * is a filter's answer, and would be so again. */
static bool
sleep_on (const uint32_t *word, uint32_t value, const Time *time)
{
  return syscall (SYS_futex, word, FUTEX_WAIT, value, time, NULL, 0) == 0 || errno == EAGAIN
         || errno == EINTR || errno == ETIMEDOUT;
}

static void *
watch (void *data)
{
  const Time rest = { .ns = REST_NS };
  const Time look = { .seconds = LOOK_S };
  const uint32_t nobody_wakes = 0;
  void (*changed) (void);
  bool is_over = false;

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&changed, &data, sizeof changed);
  while (!is_over)
    {
      uint32_t seen = sonde_beacon_generation ();

      changed ();
      is_over = !sleep_on (sonde_beacon_word, seen, &look);
      while (!is_over && sonde_beacon_generation () == seen)
        is_over = !sleep_on (&nobody_wakes, 0, &rest) || !sleep_on (sonde_beacon_word, seen, &look);
    }
  return NULL;
}

void
sonde_beacon_watch_start (void (*changed) (void))
{
  void *data;

  memcpy (&data, &changed, sizeof data);
  if (sonde_beacon_is_there ())
    sonde_quiet_thread_start (watch, data);
}
