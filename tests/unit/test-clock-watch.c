/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clocks that jump, and what a capture says of them. */
#include "tests/unit/worker-fixture.h"

#define S G_GINT64_CONSTANT (1000000000)

/* A machine that was started 100 s before its wall clock's 1,000,000 s. */
static const SondeClocks begin = { 100 * S, 100 * S, 1000000 * S };

static SondeClocks
after (gint64 awake_ns, gint64 asleep_ns, gint64 step_ns)
{
  return (SondeClocks){ begin.monotonic_ns + awake_ns, begin.boottime_ns + awake_ns + asleep_ns,
                        begin.realtime_ns + awake_ns + asleep_ns + step_ns };
}

static void
assert_describes (SondeClocks now, gboolean was_set, const char *expected)
{
  g_autofree char *text = sonde_clocks_describe (&begin, &now, was_set);

  g_assert_cmpstr (text, ==, expected);
}

static void
says_nothing_of_time_that_passes (void)
{
  assert_describes (after (0, 0, 0), FALSE, NULL);
  assert_describes (after (5 * S, 0, 0), FALSE, NULL);
  assert_describes (after (5 * S, 0, 0), TRUE, NULL);
  assert_describes (after (5 * S, 0, 20000), TRUE, NULL);
}

static void
tells_both_offsets_of_a_jump (void)
{
  assert_describes (after (5 * S, 0, 7200 * S), TRUE,
                    "The wall clock was set: it was 999900.000000 s ahead of the clock of this "
                    "capture, and is 1007100.000000 s");
  assert_describes (after (5 * S, 0, -7200 * S), TRUE,
                    "The wall clock was set: it was 999900.000000 s ahead of the clock of this "
                    "capture, and is 992700.000000 s");
}

static void
tells_how_long_the_machine_slept (void)
{
  assert_describes (after (2 * S, 60 * S, 0), FALSE,
                    "The machine slept for 60.000 s between 100.000 s and 102.000 s, which the "
                    "clock of this capture does not count");
}

/* The kernel says "set" after sleep, too. */
static void
does_not_take_sleep_for_a_jump (void)
{
  assert_describes (after (2 * S, 60 * S, 0), TRUE, NULL);
  assert_describes (after (2 * S, 60 * S, 3 * S), TRUE,
                    "The wall clock was set: it was 999960.000000 s ahead of the clock of this "
                    "capture, and is 999963.000000 s");
}

static void
is_silent_while_nothing_happens (void)
{
  g_autoptr (StreamSummary) summary = NULL;
  Worker worker = { 0 };

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  for (guint i = 0; i < 100; i++)
    {
      sonde_worker_session_look_at_clocks (worker.session);
      worker_run (&worker);
    }
  sonde_channel_send_simple (worker.control, SONDE_MESSAGE_STOP, NULL);
  worker_wait_end (&worker);
  summary = stream_summary_new (worker.stream);
  g_assert_null (summary->log);
  worker_clear (&worker);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/clock-watch/" path, function)
  ADD ("says-nothing-of-time-that-passes", says_nothing_of_time_that_passes);
  ADD ("tells-both-offsets-of-a-jump", tells_both_offsets_of_a_jump);
  ADD ("tells-how-long-the-machine-slept", tells_how_long_the_machine_slept);
  ADD ("does-not-take-sleep-for-a-jump", does_not_take_sleep_for_a_jump);
  ADD ("is-silent-while-nothing-happens", is_silent_while_nothing_happens);
#undef ADD
  return g_test_run ();
}
