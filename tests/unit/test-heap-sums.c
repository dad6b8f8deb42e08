/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sums by stack, and their peak against one that copies everything. */
#include "daemon/capture/heap/heap-sums.h"

#define N_ROWS 12

static void
assert_sum (SondeHeapSum sum, uint64_t bytes, uint64_t blocks)
{
  g_assert_cmpuint (sum.bytes, ==, bytes);
  g_assert_cmpuint (sum.blocks, ==, blocks);
}

static const SondeHeapRow *
row_of (const SondeHeapSums *sums, uint32_t number)
{
  return &g_array_index (sums->rows, SondeHeapRow, number);
}

static void
test_gives_each_stack_a_row (void)
{
  g_autoptr (SondeHeapSums) sums = sonde_heap_sums_new (3);
  uint32_t rows[3];
  uint32_t again;

  g_assert_true (sonde_heap_sums_row (sums, 1, 5, &rows[0]));
  g_assert_true (sonde_heap_sums_row (sums, 5, 1, &rows[1]));
  g_assert_true (sonde_heap_sums_row (sums, 0, 0, &rows[2]));
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpuint (rows[i], ==, i);
  g_assert_true (sonde_heap_sums_row (sums, 5, 1, &again));
  g_assert_cmpuint (again, ==, rows[1]);
  g_assert_false (sonde_heap_sums_row (sums, 9, 9, &again));
}

static void
test_sums_up (void)
{
  g_autoptr (SondeHeapSums) sums = sonde_heap_sums_new (8);
  const SondeHeapRow *row;
  uint32_t number;

  sonde_heap_sums_row (sums, 1, 1, &number);
  sonde_heap_sums_begin (sums, number, 100, 1, 10);
  sonde_heap_sums_begin (sums, number, 50, 4, 20);
  sonde_heap_sums_count (sums, number, 1000, 1);
  sonde_heap_sums_end (sums, number, 100, 1, 1u << SONDE_HEAP_SUM_TEMPORARY);
  sonde_heap_sums_end (sums, number, 50, 4,
                       1u << SONDE_HEAP_SUM_LEFT | 1u << SONDE_HEAP_SUM_CROSS_THREAD);
  row = row_of (sums, number);
  assert_sum (row->sums[SONDE_HEAP_SUM_ALLOCATED], 1300, 6);
  assert_sum (row->sums[SONDE_HEAP_SUM_LIVE], 0, 0);
  assert_sum (row->sums[SONDE_HEAP_SUM_TEMPORARY], 100, 1);
  assert_sum (row->sums[SONDE_HEAP_SUM_LEFT], 200, 4);
  assert_sum (row->sums[SONDE_HEAP_SUM_CROSS_THREAD], 200, 4);
  assert_sum (sums->peak, 300, 5);
  assert_sum (sonde_heap_sums_peak_of (sums, number), 300, 5);
  g_assert_cmpint (sums->peak_ns, ==, 20);
}

static void
test_tells_changes_once (void)
{
  g_autoptr (SondeHeapSums) sums = sonde_heap_sums_new (8);
  uint32_t a, b, row;

  sonde_heap_sums_row (sums, 1, 1, &a);
  sonde_heap_sums_row (sums, 1, 2, &b);
  g_assert_false (sonde_heap_sums_next_changed (sums, &row));
  sonde_heap_sums_begin (sums, b, 1, 1, 0);
  sonde_heap_sums_end (sums, b, 1, 1, 0);
  g_assert_true (sonde_heap_sums_next_changed (sums, &row));
  g_assert_cmpuint (row, ==, b);
  g_assert_false (sonde_heap_sums_next_changed (sums, &row));
  sonde_heap_sums_begin (sums, a, 1, 1, 0);
  g_assert_true (sonde_heap_sums_next_changed (sums, &row));
  g_assert_cmpuint (row, ==, a);
}

/* What every row has is copied at each new peak. */
static void
test_peak_is_that_of_brute_force (void)
{
  for (guint round = 0; round < 200; round++)
    {
      g_autoptr (SondeHeapSums) sums = sonde_heap_sums_new (N_ROWS);
      uint64_t live[N_ROWS] = { 0 };
      uint64_t at_peak[N_ROWS] = { 0 };
      uint64_t n_live[N_ROWS] = { 0 };
      uint64_t total = 0, peak = 0;
      int64_t peak_ns = 0;
      guint drift = (guint) g_test_rand_int_range (1, 10); /* sinks, or grows */
      uint32_t row;

      for (int64_t step = 1; step < 600; step++)
        {
          guint i = (guint) g_test_rand_int_range (0, N_ROWS);
          uint64_t bytes = i + 1;

          sonde_heap_sums_row (sums, i % 3, i, &row);
          if ((guint) g_test_rand_int_range (0, 10) < drift)
            {
              sonde_heap_sums_begin (sums, row, bytes, 1, step);
              live[i] += bytes;
              n_live[i]++;
              total += bytes;
              if (total > peak)
                {
                  peak = total;
                  peak_ns = step;
                  memcpy (at_peak, live, sizeof live);
                }
            }
          else if (n_live[i] > 0)
            {
              sonde_heap_sums_end (sums, row, bytes, 1, 0);
              live[i] -= bytes;
              n_live[i]--;
              total -= bytes;
            }
          if (g_test_rand_int_range (0, 50) == 0)
            while (sonde_heap_sums_next_changed (sums, &row))
              ;
          if (step % 37 == 0)
            for (guint j = 0; j < N_ROWS; j++)
              {
                sonde_heap_sums_row (sums, j % 3, j, &row);
                assert_sum (sonde_heap_sums_peak_of (sums, row), at_peak[j], at_peak[j] / (j + 1));
                g_assert_cmpuint (row_of (sums, row)->sums[SONDE_HEAP_SUM_LIVE].bytes, ==, live[j]);
              }
        }
      g_assert_cmpuint (sums->peak.bytes, ==, peak);
      g_assert_cmpint (sums->peak_ns, ==, peak_ns);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap-sums/gives-each-stack-a-row", test_gives_each_stack_a_row);
  g_test_add_func ("/heap-sums/sums-up", test_sums_up);
  g_test_add_func ("/heap-sums/tells-changes-once", test_tells_changes_once);
  g_test_add_func ("/heap-sums/peak-is-that-of-brute-force", test_peak_is_that_of_brute_force);
  return g_test_run ();
}
