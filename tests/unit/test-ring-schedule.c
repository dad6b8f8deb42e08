/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ring-schedule: rings stay near a third full, and nothing wakes an idle session. */
#include <glib.h>

#include "shared-ring/ring-schedule.h"

#define SIZE 262144

/* Turns against a writer of so many bytes a ms; the fill at the last of them, in per cent. */
static guint
run (SondeRingSchedule *self, guint bytes_per_ms, guint n_turns)
{
  gint64 wait_us = SONDE_RING_SHORTEST_US;
  gsize fill = 0;

  for (guint i = 0; i < n_turns; i++)
    {
      fill = (gsize) (wait_us * bytes_per_ms / 1000);
      if (fill > SIZE)
        fill = SIZE;
      sonde_ring_schedule_observe (self, fill, SIZE, true);
      wait_us = sonde_ring_schedule_next (self);
      g_assert_cmpint (wait_us, >, 0);
    }

  return (guint) (fill * 100 / SIZE);
}

static void
keeps_rings_a_third_full (void)
{
  static const guint rates[] = { 2000, 5000, 20000, 100000 };
  SondeRingSchedule schedule;

  sonde_ring_schedule_init (&schedule);
  for (guint i = 0; i < G_N_ELEMENTS (rates); i++)
    {
      guint per_cent = run (&schedule, rates[i], 20);

      g_test_message ("%u bytes a ms: %u per cent", rates[i], per_cent);
      g_assert_cmpuint (per_cent, >=, 30);
      g_assert_cmpuint (per_cent, <=, 36);
    }
}

/* One that is full at once was too late; the next turn is much sooner. */
static void
answers_a_burst_at_once (void)
{
  SondeRingSchedule schedule;
  gint64 before, after;

  sonde_ring_schedule_init (&schedule);
  run (&schedule, 1, 20);
  before = schedule.interval_us;
  g_assert_cmpint (before, ==, SONDE_RING_IDLE_US);
  sonde_ring_schedule_observe (&schedule, SIZE, SIZE, true);
  sonde_ring_schedule_observe (&schedule, 0, SIZE, true);
  after = sonde_ring_schedule_next (&schedule);
  g_assert_cmpint (after, <=, before / 2);
}

static void
sleeps_when_nothing_comes (void)
{
  SondeRingSchedule schedule;
  gint64 wait_us = 0, before;
  guint n = 0;

  sonde_ring_schedule_init (&schedule);
  do
    {
      before = wait_us;
      sonde_ring_schedule_observe (&schedule, 0, SIZE, true);
      wait_us = sonde_ring_schedule_next (&schedule);
      n++;
    }
  while (wait_us != SONDE_RING_SLEEP && n < 100);
  g_assert_cmpuint (n, <, 20);
  g_assert_cmpint (before, ==, SONDE_RING_IDLE_US);
  g_assert_cmpuint (sonde_ring_schedule_watermark (&schedule, SIZE), ==, 1);

  /* A frame rang: back to a timer, and to the watermark. */
  sonde_ring_schedule_observe (&schedule, 72, SIZE, true);
  g_assert_cmpint (sonde_ring_schedule_next (&schedule), ==, SONDE_RING_IDLE_US);
  g_assert_cmpuint (sonde_ring_schedule_watermark (&schedule, SIZE), ==, SIZE / 2);
}

/* The sleep without a timer has the wish of the one with a timer before it. */
static void
never_sleeps_on_a_new_wish (void)
{
  SondeRingSchedule schedule;
  gsize watermark = 0, before;
  gint64 wait_us;

  sonde_ring_schedule_init (&schedule);
  do
    {
      before = watermark;
      sonde_ring_schedule_observe (&schedule, 0, SIZE, true);
      wait_us = sonde_ring_schedule_next (&schedule);
      watermark = sonde_ring_schedule_watermark (&schedule, SIZE);
    }
  while (wait_us != SONDE_RING_SLEEP);
  g_assert_cmpuint (before, ==, 1);
  g_assert_cmpuint (watermark, ==, 1);
}

static void
looks_after_rings_without_a_doorbell (void)
{
  SondeRingSchedule schedule;

  sonde_ring_schedule_init (&schedule);
  for (guint i = 0; i < 100; i++)
    {
      sonde_ring_schedule_observe (&schedule, 0, SIZE, true);
      sonde_ring_schedule_observe (&schedule, 0, SIZE, false);
      g_assert_cmpint (sonde_ring_schedule_next (&schedule), <=, SONDE_RING_NO_DOORBELL_US);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/ring-schedule/keeps-rings-a-third-full", keeps_rings_a_third_full);
  g_test_add_func ("/ring-schedule/answers-a-burst-at-once", answers_a_burst_at_once);
  g_test_add_func ("/ring-schedule/sleeps-when-nothing-comes", sleeps_when_nothing_comes);
  g_test_add_func ("/ring-schedule/never-sleeps-on-a-new-wish", never_sleeps_on_a_new_wish);
  g_test_add_func ("/ring-schedule/looks-after-rings-without-a-doorbell",
                   looks_after_rings_without_a_doorbell);

  return g_test_run ();
}
