/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps the rings of all CPUs within what the kernel lets us lock. */
#include "daemon/capture/ring-set.h"

#include <errno.h>
#include <unistd.h>

#include "daemon/base/limits.h"

#define ASSUMED_FREQUENCY_HZ  4000 /* of events with a period */
#define SAMPLE_OVERHEAD_BYTES 1024 /* registers, call chain and header */
#define RINGS_A_SECOND        4    /* 0.25 s in a ring */

size_t
sonde_ring_set_wanted (const SondeMessageSetup *setup)
{
  guint64 frequency_hz = setup->frequency_hz != 0 ? setup->frequency_hz : ASSUMED_FREQUENCY_HZ;
  guint64 stack_bytes = setup->flags & SONDE_SPEC_USER_STACK ? setup->stack_size_bytes : 0;
  guint64 wanted
      = MIN (frequency_hz, 1000000) * (stack_bytes + SAMPLE_OVERHEAD_BYTES) / RINGS_A_SECOND;
  size_t size_bytes = SONDE_RING_MIN_SAMPLE_BYTES;

  /* Nobody knows how often a tracepoint will be hit. */
  if (setup->frequency_hz == 0 && setup->period < SONDE_LIMIT_PERIOD_MIN)
    return SONDE_RING_MAX_SAMPLE_BYTES;
  while (size_bytes < wanted && size_bytes < SONDE_RING_MAX_SAMPLE_BYTES)
    size_bytes *= 2;

  return size_bytes;
}

static int
open_all (const SondeMessageEvent *events,
          const int *fds,
          guint n_events,
          SondePerfRing **rings,
          size_t sample_bytes,
          size_t sideband_bytes)
{
  for (guint i = 0; i < n_events; i++)
    {
      size_t size_bytes = events[i].kind == SONDE_EVENT_SAMPLES ? sample_bytes : sideband_bytes;
      int r = sonde_perf_ring_open (fds[i], size_bytes, &rings[i]);

      if (r == 0)
        continue;
      while (i > 0)
        sonde_perf_ring_close (rings[--i]);
      return r;
    }

  return 0;
}

int
sonde_ring_set_open (const SondeMessageEvent *events,
                     const int *fds,
                     guint n_events,
                     SondePerfRing **rings,
                     size_t *sample_bytes,
                     size_t *sideband_bytes)
{
  size_t page_bytes = (size_t) sysconf (_SC_PAGESIZE);
  size_t samples = MAX (*sample_bytes, page_bytes);
  size_t sideband = MAX (*sideband_bytes, page_bytes);

  for (;;)
    {
      int r = open_all (events, fds, n_events, rings, samples, sideband);

      if (r == 0)
        break;
      if ((r != -EPERM && r != -ENOMEM)
          || (samples <= SONDE_RING_MIN_SAMPLE_BYTES && sideband <= SONDE_RING_MIN_SIDEBAND_BYTES))
        return r;
      samples = MAX (samples / 2, SONDE_RING_MIN_SAMPLE_BYTES);
      sideband = MAX (sideband / 2, SONDE_RING_MIN_SIDEBAND_BYTES);
    }
  *sample_bytes = samples;
  *sideband_bytes = sideband;

  return 0;
}
