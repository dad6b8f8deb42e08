/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/ring-schedule.h"

#define MILLION    1000000
#define TARGET_PPM (MILLION / 3)

/* One turn changes the interval by at most these factors, so that a burst is answered at once and a
 * short silence does not undo it. */
#define MAX_SHRINK 8
#define MAX_GROW   2

void
sonde_ring_schedule_init (SondeRingSchedule *self)
{
  *self = (SondeRingSchedule){ .interval_us = SONDE_RING_SHORTEST_US };
}

void
sonde_ring_schedule_observe (SondeRingSchedule *self,
                             size_t fill_bytes,
                             size_t size_bytes,
                             bool has_doorbell)
{
  uint32_t ppm = (uint32_t) ((uint64_t) fill_bytes * MILLION / size_bytes);

  if (fill_bytes > 0 && ppm == 0)
    ppm = 1;
  if (ppm > self->fullest_ppm)
    self->fullest_ppm = ppm;
  if (!has_doorbell)
    self->needs_timer = true;
}

static int64_t
clamp (int64_t value, int64_t min, int64_t max)
{
  return value < min ? min : value > max ? max : value;
}

int64_t
sonde_ring_schedule_next (SondeRingSchedule *self)
{
  int64_t max_us = self->needs_timer ? SONDE_RING_NO_DOORBELL_US : SONDE_RING_IDLE_US;
  int64_t last_us = self->interval_us;
  int64_t wanted_us = max_us;

  if (self->fullest_ppm > 0)
    wanted_us = last_us * TARGET_PPM / self->fullest_ppm;
  self->interval_us = clamp (wanted_us, last_us / MAX_SHRINK, last_us * MAX_GROW);
  self->interval_us = clamp (self->interval_us, SONDE_RING_SHORTEST_US, max_us);
  self->is_settled = self->is_idle && self->fullest_ppm == 0 && !self->needs_timer;
  self->is_idle = self->fullest_ppm == 0 && self->interval_us == SONDE_RING_IDLE_US;

  self->fullest_ppm = 0;
  self->needs_timer = false;

  return self->is_settled ? SONDE_RING_SLEEP : self->interval_us;
}

size_t
sonde_ring_schedule_watermark (const SondeRingSchedule *self, size_t size_bytes)
{
  return self->is_idle ? 1 : size_bytes / 2;
}
