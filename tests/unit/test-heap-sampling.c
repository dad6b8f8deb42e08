/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distances between heap samples, and the clock of heap events. */
#include <glib.h>
#include <math.h>
#include <time.h>

#include "shared-ring/collector/memory/event-clock.h"
#include "shared-ring/collector/memory/sample-distance.h"

#define N_DRAWS 1000000

/* Mean, deviation and the share beyond three means are those of the exponential distribution; with
 * a fixed seed, so that it is the same each time. */
static void
draws_exponential_distances (void)
{
  const double mean = 524288;
  guint64 state = 12345;
  double sum = 0, squares = 0;
  guint n_far = 0;

  for (guint i = 0; i < N_DRAWS; i++)
    {
      double distance = (double) sonde_sample_distance_draw (&state, 524288);

      sum += distance;
      squares += distance * distance;
      n_far += distance > 3 * mean;
    }
  g_assert_cmpfloat (fabs (sum / N_DRAWS / mean - 1), <, 0.005);
  g_assert_cmpfloat (fabs (sqrt (squares / N_DRAWS - sum / N_DRAWS * sum / N_DRAWS) / mean - 1), <,
                     0.01);
  g_assert_cmpfloat (fabs ((double) n_far / N_DRAWS - exp (-3)), <, 0.001);
}

/* The distance is above n with the probability exp (-n / mean), for small n as well. */
static void
reaches_small_blocks_as_often_as_it_should (void)
{
  guint64 state = 54321;
  guint n_reached[3] = { 0 };
  static const guint64 sizes[] = { 1, 16, 100 };

  for (guint i = 0; i < N_DRAWS; i++)
    {
      guint64 distance = sonde_sample_distance_draw (&state, 64);

      g_assert_cmpuint (distance, >=, 1);
      for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
        n_reached[k] += sizes[k] >= distance;
    }
  for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
    {
      double expected = 1 - exp (-(double) sizes[k] / 64);

      g_assert_cmpfloat (fabs (n_reached[k] / (double) N_DRAWS - expected), <, 0.002);
    }
}

static void
takes_any_mean (void)
{
  guint64 state = 1;

  for (guint i = 0; i < 1000; i++)
    {
      g_assert_cmpuint (sonde_sample_distance_draw (&state, 1), <, 100);
      g_assert_cmpuint (sonde_sample_distance_draw (&state, G_MAXUINT64), >, 0);
    }
}

static gint64
kernel_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* For a tenth of a second: two readings of the kernel's clock with one of ours between them. It is
 * never behind the one before. Returns whether it always lay between them, but for 5 µs that the
 * rate and the reading may be off. */
static gboolean
lies_between (SondeEventClock *clock, gint64 *last_ns)
{
  gint64 start_ns = kernel_ns ();
  gboolean is_right = TRUE;
  gint64 before_ns, now_ns, after_ns;

  do
    {
      before_ns = kernel_ns ();
      now_ns = sonde_event_clock_now (clock);
      after_ns = kernel_ns ();
      is_right &= now_ns >= before_ns - 5000 && now_ns <= after_ns + 5000;
      g_assert_cmpint (now_ns, >=, *last_ns);
      *last_ns = now_ns;
    }
  while (after_ns - start_ns < 100000000);
  return is_right;
}

/* A virtual machine whose clock was just set right tells another time than its counter: not over
 * and over again. */
static void
tells_the_kernels_time (void)
{
  SondeEventClock clock = { 0 };
  gint64 last_ns = 0;
  guint n_tries = 1;

  while (!lies_between (&clock, &last_ns))
    g_assert_cmpuint (++n_tries, <=, 20);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap-sampling/takes-any-mean", takes_any_mean);
  g_test_add_func ("/heap-sampling/draws-exponential-distances", draws_exponential_distances);
  g_test_add_func ("/heap-sampling/reaches-small-blocks-as-often-as-it-should",
                   reaches_small_blocks_as_often_as_it_should);
  g_test_add_func ("/heap-sampling/tells-the-kernels-time", tells_the_kernels_time);
  return g_test_run ();
}
