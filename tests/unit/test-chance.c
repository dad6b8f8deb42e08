/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Intervals of changes, of simulated programs whose truth is known. */
#include "client/base/chance.h"

#include <math.h>
#include <string.h>

#define HZ     1000u
#define N_ROWS 12u
#define TARGET 0u /* the function that becomes slower; it has a tenth of the time */

/* What a program is like beside its functions' weights. */
typedef struct
{
  double stays;   /* probability that a sample is of the function of the one before */
  double drift;   /* how far weights go up and down, as natural logarithm, ... */
  double drift_s; /* ... and for how long they stay there */
  double phase_s; /* mean length of the phases of two kinds of work; 0: there is one kind */
} Program;

static const double weights[N_ROWS] = { 100, 200, 150, 120, 100, 90, 70, 60, 50, 30, 20, 10 };

static double
random_normal (GRand *random)
{
  double sum = 0;

  for (guint i = 0; i < 12; i++)
    sum += g_rand_double (random);
  return sum - 6;
}

static guint
choose (GRand *random, const double *of)
{
  double sum = 0;
  double at;

  for (guint i = 0; i < N_ROWS; i++)
    sum += of[i];
  at = g_rand_double (random) * sum;
  for (guint i = 0; i + 1 < N_ROWS; i++)
    if ((at -= of[i]) < 0)
      return i;
  return N_ROWS - 1;
}

/* @slower: how much more time the target takes */
static void
simulate (SondeSlices *slices, const Program *program, guint seconds, double slower, GRand *random)
{
  guint n = seconds * HZ;
  double levels[N_ROWS] = { 0 };
  double now[N_ROWS];
  gboolean is_second = FALSE;
  guint function = 0;
  double keep = program->drift_s > 0 ? exp (-0.05 / program->drift_s) : 0;

  sonde_slices_init (slices, SONDE_CHANCE_MAX_SLICES, N_ROWS);
  for (guint i = 0; i < n; i++)
    {
      guint slice = (guint) ((guint64) i * slices->n_slices / n);

      if (i % 50 == 0)
        {
          if (program->phase_s > 0 && g_rand_double (random) < 0.05 / program->phase_s)
            is_second = !is_second;
          for (guint row = 0; row < N_ROWS; row++)
            {
              levels[row] = keep * levels[row] + sqrt (1 - keep * keep) * random_normal (random);
              now[row] = weights[row] * exp (program->drift * levels[row])
                         * (row == TARGET ? 1 + slower : 1) * (is_second && row % 2 > 0 ? 3 : 1);
            }
        }
      if (i == 0 || g_rand_double (random) >= program->stays)
        function = choose (random, now);
      slices->counts[slice * N_ROWS + function]++;
      slices->whole[slice]++;
    }
}

/* How many of @n_pairs have a change of any row, or of the target. */
static guint
count_found (
    const Program *program, guint n_pairs, guint seconds, double slower, gboolean is_of_target)
{
  guint n_found = 0;

  for (guint i = 0; i < n_pairs; i++)
    {
      g_autoptr (GRand) random = g_rand_new_with_seed (1000 * i + seconds);
      g_auto (SondeSlices) before = { 0 };
      g_auto (SondeSlices) after = { 0 };
      SondeChange changes[N_ROWS];
      gboolean is_any = FALSE;

      simulate (&before, program, seconds, 0, random);
      simulate (&after, program, seconds, slower, random);
      g_assert_true (sonde_chance_compare (&before, &after, N_ROWS, SONDE_CHANCE_CONFIDENCE,
                                           SONDE_CHANCE_SEED, changes));
      for (guint row = 0; row < N_ROWS; row++)
        is_any = is_any || changes[row].is_changed;
      n_found += is_of_target ? changes[TARGET].low > 0 : is_any;
    }
  return n_found;
}

/* --- what cannot be told --- */

static void
refuses_few_slices (void)
{
  g_auto (SondeSlices) few = { 0 };
  g_auto (SondeSlices) many = { 0 };
  SondeChange change;

  sonde_slices_init (&few, SONDE_CHANCE_MIN_SLICES - 1, 1);
  sonde_slices_init (&many, SONDE_CHANCE_MIN_SLICES, 1);
  for (guint i = 0; i < many.n_slices; i++)
    many.counts[i] = many.whole[i] = 10;
  for (guint i = 0; i < few.n_slices; i++)
    few.whole[i] = 10;
  g_assert_false (sonde_chance_compare (&few, &many, 1, 0.995, 1, &change));
  g_assert_false (change.is_changed);
  g_assert_cmpfloat (change.after, >=, 1);
  g_assert_false (sonde_chance_compare (&many, &few, 1, 0.995, 1, &change));
  g_assert_true (sonde_chance_compare (&many, &many, 1, 0.995, 1, &change));
  g_assert_false (change.is_changed);
}

static void
refuses_nothing (void)
{
  g_auto (SondeSlices) empty = { 0 };
  SondeChange changes[2];

  sonde_slices_init (&empty, 64, 2);
  g_assert_false (sonde_chance_compare (&empty, &empty, 2, 0.995, 1, changes));
  for (guint i = 0; i < 2; i++)
    g_assert_true (changes[i].before <= 0 && changes[i].after <= 0 && !changes[i].is_changed);
}

/* --- quantiles --- */

static void
assert_near (double value, double wanted, double most)
{
  if (!(fabs (value - wanted) <= most))
    g_error ("%g is not %g", value, wanted);
}

/* Of tables. */
static void
quantiles_are_right (void)
{
  static const struct
  {
    double part;
    double freedom;
    double value;
  } rows[] = { { 0.975, 3, 3.18245 },    { 0.995, 7, 3.49948 },    { 0.9995, 7, 5.40788 },
               { 0.9995, 15, 4.07277 },  { 0.99995, 30, 4.48206 }, { 0.975, 120, 1.97993 },
               { 0.99995, 500, 3.92249 } };

  assert_near (sonde_chance_normal (0.5), 0, 1e-12);
  assert_near (sonde_chance_normal (0.975), 1.959963984540054, 1e-12);
  assert_near (sonde_chance_normal (0.005), -2.575829303548901, 1e-12);
  assert_near (sonde_chance_normal (1e-6), -4.753424308822899, 1e-9);
  assert_near (sonde_chance_normal (1e-15), -7.941345326170997, 1e-6);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      assert_near (sonde_chance_student (rows[i].part, rows[i].freedom), rows[i].value, 2e-3);
      assert_near (sonde_chance_student (1 - rows[i].part, rows[i].freedom), -rows[i].value, 2e-3);
    }
}

/* --- what is found --- */

static void
the_same_counts_give_the_same_intervals (void)
{
  const Program program = { .stays = 0.3 };
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  g_auto (SondeSlices) before = { 0 };
  g_auto (SondeSlices) after = { 0 };
  SondeChange first[N_ROWS], second[N_ROWS];

  simulate (&before, &program, 5, 0, random);
  simulate (&after, &program, 5, 0.5, random);
  sonde_chance_compare (&before, &after, N_ROWS, 0.995, 7, first);
  sonde_chance_compare (&before, &after, N_ROWS, 0.995, 7, second);
  g_assert_cmpmem (first, sizeof first, second, sizeof second);
}

/* 200 pairs of the same program; at most 5 in which anything is found. */
static void
what_is_the_same_raises_no_alarm (void)
{
  static const Program programs[] = {
    { .stays = 0 },
    { .stays = 0.7 },
    { .stays = 0.2, .drift = 0.3, .drift_s = 0.5 },
    { .stays = 0.2, .phase_s = 0.3 },
  };
  guint n_all = 0;

  for (guint i = 0; i < G_N_ELEMENTS (programs); i++)
    {
      guint n = count_found (&programs[i], 50, 30, 0, FALSE);

      g_test_message ("program %u: %u of 50", i, n);
      n_all += n;
    }
  g_assert_cmpuint (n_all, <=, 5);
}

static void
a_fifth_of_a_tenth_is_found_in_half_a_minute (void)
{
  const Program program = { .stays = 0.1, .drift = 0.05, .drift_s = 0.2 };
  guint n = count_found (&program, 100, 30, 0.2, TRUE);

  g_test_message ("%u of 100", n);
  g_assert_cmpuint (n, >=, 95);
}

static void
a_twentieth_of_a_tenth_is_found_in_six_minutes (void)
{
  const Program program = { .stays = 0.1 };
  guint n = count_found (&program, 100, 360, 0.05, TRUE);

  g_test_message ("%u of 100", n);
  g_assert_cmpuint (n, >=, 95);
}

/* What it says would be seen in 95 of 100 pairs is. */
static void
what_would_be_seen_is_seen (void)
{
  const Program program = { .stays = 0.5 };
  g_autoptr (GRand) random = g_rand_new_with_seed (3);
  double seen = 0;
  double slower;
  guint n;

  for (guint i = 0; i < 20; i++) /* each pair knows it to a tenth */
    {
      g_auto (SondeSlices) before = { 0 };
      g_auto (SondeSlices) after = { 0 };
      SondeChange changes[N_ROWS];

      simulate (&before, &program, 30, 0, random);
      simulate (&after, &program, 30, 0, random);
      g_assert_true (sonde_chance_compare (&before, &after, N_ROWS, SONDE_CHANCE_CONFIDENCE,
                                           SONDE_CHANCE_SEED, changes));
      seen += changes[TARGET].seen / 20;
    }
  /* of a share s that of what is slower by p is s (1 + p) / (1 + s p) */
  slower = seen / (0.1 * (1 - 0.1 - seen));
  n = count_found (&program, 100, 30, slower, TRUE);
  g_test_message ("%.4f, slower by %.2f: %u of 100", seen, slower, n);
  g_assert_cmpuint (n, >=, 88); /* what is slower varies more, too */
  g_assert_cmpuint (count_found (&program, 100, 30, slower / 3, TRUE), <, 50);
}

/* Of functions that always or never run every slice says the same; a few samples prove nothing. */
static void
a_few_samples_prove_nothing (void)
{
  g_auto (SondeSlices) before = { 0 };
  g_auto (SondeSlices) after = { 0 };
  SondeChange changes[2];

  sonde_slices_init (&before, 16, 2);
  sonde_slices_init (&after, 16, 2);
  for (guint i = 0; i < 16; i++)
    {
      before.counts[2 * i] = before.whole[i] = 1;
      after.counts[2 * i + (i == 7)] = after.whole[i] = 1;
    }
  g_assert_true (sonde_chance_compare (&before, &after, 2, 0.995, 1, changes));
  g_assert_false (changes[0].is_changed);
  g_assert_false (changes[1].is_changed);
  for (guint i = 0; i < 16; i++)
    {
      after.counts[2 * i] = 0;
      after.counts[2 * i + 1] = 1;
    }
  g_assert_true (sonde_chance_compare (&before, &after, 2, 0.995, 1, changes));
  g_assert_true (changes[0].high < 0 && changes[1].low > 0);
}

static void
pauses_and_the_largest_are_taken (void)
{
  g_auto (SondeSlices) before = { 0 };
  g_auto (SondeSlices) after = { 0 };
  g_autofree SondeChange *changes = g_new (SondeChange, SONDE_CHANCE_MAX_ROWS);
  g_autoptr (GRand) random = g_rand_new_with_seed (5);

  sonde_slices_init (&before, SONDE_CHANCE_MAX_SLICES, SONDE_CHANCE_MAX_ROWS);
  sonde_slices_init (&after, SONDE_CHANCE_MAX_SLICES, SONDE_CHANCE_MAX_ROWS);
  for (guint i = 0; i < 20000; i++)
    {
      guint slice = (guint) g_rand_int_range (random, 0, 30) * 17;

      before.counts[slice * before.n_rows + (guint) g_rand_int_range (random, 0, 1024)]++;
      before.whole[slice]++;
      after.counts[slice * before.n_rows + (guint) g_rand_int_range (random, 0, 1024)]++;
      after.whole[slice]++;
    }
  g_assert_true (sonde_chance_compare (&before, &after, SONDE_CHANCE_MAX_ROWS, 0.995, 1, changes));
  for (guint i = 0; i < SONDE_CHANCE_MAX_ROWS; i++)
    g_assert_true (isfinite (changes[i].low) && isfinite (changes[i].high)
                   && changes[i].low <= changes[i].high);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/chance/refuses-few-slices", refuses_few_slices);
  g_test_add_func ("/chance/refuses-nothing", refuses_nothing);
  g_test_add_func ("/chance/quantiles-are-right", quantiles_are_right);
  g_test_add_func ("/chance/the-same-counts-give-the-same-intervals",
                   the_same_counts_give_the_same_intervals);
  g_test_add_func ("/chance/what-is-the-same-raises-no-alarm", what_is_the_same_raises_no_alarm);
  g_test_add_func ("/chance/a-fifth-of-a-tenth-is-found-in-half-a-minute",
                   a_fifth_of_a_tenth_is_found_in_half_a_minute);
  g_test_add_func ("/chance/a-twentieth-of-a-tenth-is-found-in-six-minutes",
                   a_twentieth_of_a_tenth_is_found_in_six_minutes);
  g_test_add_func ("/chance/what-would-be-seen-is-seen", what_would_be_seen_is_seen);
  g_test_add_func ("/chance/a-few-samples-prove-nothing", a_few_samples_prove_nothing);
  g_test_add_func ("/chance/pauses-and-the-largest-are-taken", pauses_and_the_largest_are_taken);
  return g_test_run ();
}
