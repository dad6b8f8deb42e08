/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chooses when to look at rings again: often enough that they stay near a third full. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: ring-schedule
 *
 * One schedule is for all rings that one loop serves. After each turn tell it how full each ring
 * was when the turn began, then ask when to look again:
 *
 *     for each ring: sonde_ring_schedule_observe (&schedule, fill, size, has_doorbell);
 *     wait_us = sonde_ring_schedule_next (&schedule);
 *
 * The interval follows the fullest ring so that it will be a third full next time. While nothing
 * comes the interval doubles up to SONDE_RING_IDLE_US; when that has passed without a frame, and
 * every ring has a doorbell, there is no timer at all. Rings without one are looked at each
 * SONDE_RING_NO_DOORBELL_US.
 *
 * Before sleeping, ask each ring to wake us by sonde_ring_reader_sleep(): with
 * sonde_ring_schedule_watermark() bytes. That is one byte during the last interval already, so that
 * the wish of a sleep without a timer is never new.
 */

/* µs. The shortest is a budget's worth of work for a worker that has others to serve. */
#define SONDE_RING_SHORTEST_US    500
#define SONDE_RING_IDLE_US        100000
#define SONDE_RING_NO_DOORBELL_US 20000

/* What sonde_ring_schedule_next() says when only a doorbell ends the sleep. */
#define SONDE_RING_SLEEP (-1)

typedef struct
{
  int64_t interval_us;  /* the last one */
  uint32_t fullest_ppm; /* of this turn: millionths of a ring's size */
  bool is_idle;         /* nothing came, and the interval is SONDE_RING_IDLE_US */
  bool is_settled;      /* the same as before: no timer */
  bool needs_timer;     /* this turn saw a ring without a doorbell */
} SondeRingSchedule;

void sonde_ring_schedule_init (SondeRingSchedule *self);
/* @fill_bytes: of sonde_ring_reader_fill() behind sonde_ring_reader_begin(). */
void sonde_ring_schedule_observe (SondeRingSchedule *self,
                                  size_t fill_bytes,
                                  size_t size_bytes,
                                  bool has_doorbell);
/* Ends the turn. Returns: µs until the next one, or SONDE_RING_SLEEP */
int64_t sonde_ring_schedule_next (SondeRingSchedule *self);
/* Bytes that shall wake us from the sleep just announced: the first frame if nothing has come for
 * long, else half of a ring. */
size_t sonde_ring_schedule_watermark (const SondeRingSchedule *self, size_t size_bytes);
