/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests what is said of percentiles of calls that were timed now and then. */
#include "client/calls/calls.h"

/* @n calls that took each number of ticks from @first on, up to 64 more. */
static void
row_fill (SondeCallsRow *row, guint first, guint n)
{
  *row = (SondeCallsRow){ .buckets = g_new0 (guint64, SONDE_CALLS_N_BUCKETS), .ns_a_tick = 1 };
  for (guint i = first; i < first + 64; i++)
    row->buckets[sonde_calls_bucket (i)] += n;
  row->sum.calls = row->sum.timed = 64 * n;
  row->sum.n_timed = (double) row->sum.timed;
  row->sum.min_ns = first;
  row->sum.max_ns = first + 63;
}

static void
row_clear (SondeCallsRow *row)
{
  g_free (row->buckets);
}

static void
few_calls_say_less (void)
{
  SondeCallsEstimate few, many;
  SondeCallsRow row;

  row_fill (&row, 1000, 10000);
  g_assert_true (sonde_calls_estimate (&row, 0.5, &many));
  g_assert_cmpfloat (many.low_ns, <=, many.ns);
  g_assert_cmpfloat (many.ns, <=, many.high_ns);
  g_assert_cmpfloat (many.high_ns - many.low_ns, <, 1);
  /* as many, of which one in 10,000 was timed and stands for the others */
  row.sum.n_timed = 64;
  g_assert_true (sonde_calls_estimate (&row, 0.5, &few));
  g_assert_cmpfloat_with_epsilon (few.ns, many.ns, 0.001);
  g_assert_cmpfloat (few.high_ns - few.low_ns, >, 15);
  /* and of the tail nothing but the last */
  g_assert_true (sonde_calls_estimate (&row, 0.99, &few));
  g_assert_cmpfloat_with_epsilon (few.high_ns, row.sum.max_ns, 0.001);
  row.sum.n_timed = 0;
  g_assert_false (sonde_calls_estimate (&row, 0.5, &few));
  row_clear (&row);
}

static void
assert_shift (guint first, guint n, gboolean is_shifted)
{
  SondeCallsRow before, after;

  row_fill (&before, 1000, 100);
  row_fill (&after, first, n);
  g_assert_true (sonde_calls_is_shifted (&before, &after, 0.5, 1) == is_shifted);
  g_assert_true (sonde_calls_is_shifted (&after, &before, 0.5, 1) == is_shifted);
  g_assert_false (sonde_calls_is_shifted (&before, NULL, 0.5, 1));
  row_clear (&before);
  row_clear (&after);
}

static void
chance_is_no_shift (void)
{
  assert_shift (1000, 100, FALSE);
  assert_shift (2000, 100, TRUE);
  assert_shift (2000, 1, TRUE);
  /* less than a bucket is wide */
  assert_shift (1020, 100000, FALSE);
}

static void
few_calls_are_no_shift (void)
{
  SondeCallsRow before, after;

  row_fill (&before, 1000, 100);
  row_fill (&after, 2000, 1);
  after.sum.n_timed = 1;
  g_assert_false (sonde_calls_is_shifted (&before, &after, 0.5, 1));
  after.sum.n_timed = 64;
  g_assert_false (sonde_calls_is_shifted (&before, &after, 0.99, 1));
  row_clear (&before);
  row_clear (&after);
}

/* What of one pair is hardly chance is among many. */
static void
many_comparisons_are_less_sure (void)
{
  SondeCallsRow before, after;

  row_fill (&before, 1000, 4);
  row_fill (&after, 2000, 4);
  before.sum.n_timed = after.sum.n_timed = 20;
  g_assert_true (sonde_calls_is_shifted (&before, &after, 0.5, 1));
  g_assert_false (sonde_calls_is_shifted (&before, &after, 0.5, 100000));
  before.sum.n_timed = after.sum.n_timed = 256;
  g_assert_true (sonde_calls_is_shifted (&before, &after, 0.5, G_MAXUINT));
  row_clear (&before);
  row_clear (&after);
}

/* Of 320 calls the 99th percentile may be beyond all. */
static void
what_may_be_beyond_all_is_no_shift (void)
{
  SondeCallsRow before, after;

  row_fill (&before, 1000, 5);
  row_fill (&after, 2000, 10000);
  g_assert_false (sonde_calls_is_shifted (&before, &after, 0.99, 1));
  g_assert_false (sonde_calls_is_shifted (&after, &before, 0.99, 1));
  g_assert_false (sonde_calls_is_shifted (&before, &before, 0.99, 1));
  row_clear (&before);
  row_fill (&before, 1000, 50);
  g_assert_true (sonde_calls_is_shifted (&before, &after, 0.99, 1));
  row_clear (&before);
  row_clear (&after);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/call-estimates/say-less-of-few-calls", few_calls_say_less);
  g_test_add_func ("/call-estimates/take-chance-for-no-shift", chance_is_no_shift);
  g_test_add_func ("/call-estimates/take-few-calls-for-no-shift", few_calls_are_no_shift);
  g_test_add_func ("/call-estimates/are-less-sure-of-many-comparisons",
                   many_comparisons_are_less_sure);
  g_test_add_func ("/call-estimates/take-what-may-be-beyond-all-for-no-shift",
                   what_may_be_beyond_all_is_no_shift);
  return g_test_run ();
}
