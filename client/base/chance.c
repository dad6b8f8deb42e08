/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/chance.h"

#include <math.h>
#include <string.h>

#define N_RESAMPLES     400u /* a variance of that many is right to 7 % */
#define MAX_PART        8u /* of the slices that a block may have: eight are the fewest to compare */
#define N_LENGTHS       8u /* of blocks: 1, 2, 4, ... slices */
#define BLOCK_FACTOR    8.0
#define LENGTH_OF_NOISE 3u /* binary logarithm of the length of its blocks */

/* Wichura's algorithm AS 241 (1988), of which 16 digits are right. */
double
sonde_chance_normal (double part)
{
  static const double a[]
      = { 3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
          1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
          3.3430575583588128105e+4, 2.5090809287301226727e+3 };
  static const double b[] = { 1,
                              4.2313330701600911252e+1,
                              6.8718700749205790830e+2,
                              5.3941960214247511077e+3,
                              2.1213794301586595867e+4,
                              3.9307895800092710610e+4,
                              2.8729085735721942674e+4,
                              5.2264952788528545610e+3 };
  static const double c[]
      = { 1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
          3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
          2.27238449892691845833e-2, 7.74545014278341407640e-4 };
  static const double d[] = { 1,
                              2.05319162663775882187e0,
                              1.67638483018380384940e0,
                              6.89767334985100004550e-1,
                              1.48103976427480074590e-1,
                              1.51986665636164571966e-2,
                              5.47593808499534494600e-4,
                              1.05075007164441684324e-9 };
  static const double e[]
      = { 6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
          2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
          2.71155556874348757815e-5, 2.01033439929228813265e-7 };
  static const double f[] = { 1,
                              5.99832206555887937690e-1,
                              1.36929880922735805310e-1,
                              1.48753612908506148525e-2,
                              7.86869131145613259100e-4,
                              1.84631831751005468180e-5,
                              1.42151175831644588870e-7,
                              2.04426310338993978564e-15 };
  double q = part - 0.5;
  const double *over = a;
  const double *under = b;
  double r = 0.180625 - q * q;
  double numerator, denominator, value;

  g_assert (part > 0 && part < 1);
  if (fabs (q) > 0.425)
    {
      r = sqrt (-log (q < 0 ? part : 1 - part));
      over = r <= 5 ? c : e;
      under = r <= 5 ? d : f;
      r -= r <= 5 ? 1.6 : 5;
    }
  numerator = over[7];
  denominator = under[7];
  for (int i = 6; i >= 0; i--)
    {
      numerator = numerator * r + over[i];
      denominator = denominator * r + under[i];
    }
  value = numerator / denominator;
  if (fabs (q) <= 0.425)
    return q * value;
  return q < 0 ? -value : value;
}

/* Hill's algorithm 396 (1970), by the two tails. */
double
sonde_chance_student (double part, double freedom)
{
  double tails = 2 * MIN (part, 1 - part);
  double a = 1 / (freedom - 0.5);
  double b = 48 / (a * a);
  double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
  double d = ((94.5 / (b + c) - 3) / b + 1) * sqrt (a * G_PI_2) * freedom;
  double y = pow (d * tails, 2 / freedom);
  double value;

  g_assert (freedom >= 3);
  if (tails >= 1)
    return 0;
  if (y > 0.05 + a)
    {
      double x = sonde_chance_normal (tails / 2);

      y = x * x;
      if (freedom < 5)
        c += 0.3 * (freedom - 4.5) * (x + 0.6);
      c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
      y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
      y = expm1 (a * y * y);
    }
  else
    y = ((1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3)
          + 0.5 / (freedom + 4))
             * y
         - 1)
            * (freedom + 1) / (freedom + 2)
        + 1 / y;
  value = sqrt (freedom * y);
  return part < 0.5 ? -value : value;
}

void
sonde_slices_init (SondeSlices *self, guint n_slices, guint n_rows)
{
  g_assert (n_slices <= SONDE_CHANCE_MAX_SLICES && n_rows <= SONDE_CHANCE_MAX_ROWS);
  self->n_slices = n_slices;
  self->n_rows = n_rows;
  self->counts = g_new0 (double, (gsize) n_slices *n_rows);
  self->whole = g_new0 (double, n_slices);
}

void
sonde_slices_clear (SondeSlices *self)
{
  g_clear_pointer (&self->counts, g_free);
  g_clear_pointer (&self->whole, g_free);
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
static guint64
next_random (guint64 *state)
{
  guint64 z = *state += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  z = (z ^ z >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* How far the shares of one recording may be off. */
typedef struct
{
  const SondeSlices *slices;
  double whole;
  double *shares;    /* by row */
  double *variances; /* by row */
  double *freedoms;  /* by row: degrees that the variance is known by */
} Side;

static void
side_clear (Side *self)
{
  g_free (self->shares);
  g_free (self->variances);
  g_free (self->freedoms);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Side, side_clear)

/* What a slice has more of a row than its share of the whole. */
static double
excess (const Side *self, guint row, guint slice)
{
  const SondeSlices *slices = self->slices;

  return slices->counts[(gsize) slice * slices->n_rows + row]
         - self->shares[row] * slices->whole[slice];
}

static double
covariance (const double *values, guint n, guint lag)
{
  double sum = 0;

  for (guint i = lag; i < n; i++)
    sum += values[i] * values[i - lag];
  return sum / n;
}

/* How much more a share varies for what slices have to do with the next ones: about as many slices
 * as that goes on for. Correlations count up to twice the lag from which on they are noise, as in
 * Politis and White's flat window (2004). @values: of mean 0 */
static double
find_inflation (const double *values, guint n)
{
  double decades = log10 (n);
  guint n_small = MAX (5, (guint) ceil (decades)); /* correlations in a row that are about none */
  guint max_lag = n / MAX_PART + n_small;
  double variance = covariance (values, n, 0);
  double bound = 2 * sqrt (decades / n) * variance;
  guint n_in_row = 0;
  guint last = 0; /* lag that has a correlation */
  double sum = variance;
  guint window;

  if (!(variance > 0))
    return 1;
  for (guint lag = 1; lag <= max_lag && n_in_row < n_small; lag++)
    {
      gboolean is_small = fabs (covariance (values, n, lag)) < bound;

      n_in_row = is_small ? n_in_row + 1 : 0;
      if (!is_small)
        last = lag;
    }
  window = MIN (2 * MAX (last, 1), n / 4);
  for (guint lag = 1; lag <= window; lag++)
    {
      double part = (double) lag / window;

      sum += 2 * (part <= 0.5 ? 1 : 2 * (1 - part)) * covariance (values, n, lag);
    }
  return MAX (sum / variance, 1);
}

/* Of one recording some rows look less correlated than they are: what the two say of a row, and all
 * rows on average, says more. */
static void
find_inflations (const Side *before, const Side *after, double *inflations)
{
  guint n_rows = before->slices->n_rows;
  double sum = 0;

  for (guint row = 0; row < n_rows; row++)
    {
      const Side *const sides[] = { before, after };
      double mean = 0;

      inflations[row] = 1;
      for (guint side = 0; side < G_N_ELEMENTS (sides); side++)
        {
          guint n = sides[side]->slices->n_slices;
          g_autofree double *values = g_new (double, n);
          double found;

          for (guint i = 0; i < n; i++)
            values[i] = excess (sides[side], row, i);
          /* in slices of either, which may be of another length */
          found = find_inflation (values, n);
          inflations[row] = MAX (inflations[row], found);
          mean += found / G_N_ELEMENTS (sides);
        }
      sum += mean;
    }
  for (guint row = 0; row < n_rows; row++)
    inflations[row] = MAX (inflations[row], sum / n_rows);
}

/* By row, the variance of shares of resampled recordings, of blocks of @n_in_block slices. Blocks
 * may go over the end, to the beginning. */
static void
resample (const Side *self,
          const guint *rows,
          guint n_rows,
          guint n_in_block,
          guint64 *random,
          double *variances)
{
  const SondeSlices *slices = self->slices;
  guint n = slices->n_slices;
  guint n_blocks = n / n_in_block;
  /* by first slice: excess of each row, then the whole */
  g_autofree double *blocks = g_new0 (double, (gsize) n *(n_rows + 1));
  g_autofree double *sums = g_new (double, n_rows + 1);

  for (guint first = 0; first < n; first++)
    for (guint i = 0; i < n_in_block; i++)
      {
        double *block = blocks + (gsize) first * (n_rows + 1);
        guint slice = (first + i) % n;

        for (guint j = 0; j < n_rows; j++)
          block[j] += excess (self, rows[j], slice);
        block[n_rows] += slices->whole[slice];
      }
  memset (variances, 0, n_rows * sizeof *variances);
  for (guint k = 0; k < N_RESAMPLES; k++)
    {
      memset (sums, 0, (n_rows + 1) * sizeof *sums);
      for (guint i = 0; i < n_blocks; i++)
        {
          const double *block = blocks + (gsize) (next_random (random) % n) * (n_rows + 1);

          for (guint j = 0; j <= n_rows; j++)
            sums[j] += block[j];
        }
      /* a recording of nothing but pauses says nothing */
      for (guint j = 0; j < n_rows && sums[n_rows] > 0; j++)
        variances[j] += sums[j] / sums[n_rows] * (sums[j] / sums[n_rows]) / N_RESAMPLES;
    }
  for (guint j = 0; j < n_rows; j++)
    variances[j] *= n_blocks / (n_blocks - 1.0);
}

/* Of rows that have blocks of 2^@length slices. Where blocks of half that length vary less, those
 * are too short, and so are these by half as much: what they lack goes with one by their length. */
static void
find_variances (Side *self, const guint8 *lengths, guint length, guint64 *random)
{
  guint n = self->slices->n_slices;
  guint n_in_block = 1u << length;
  guint n_rows = 0;
  g_autofree guint *rows = g_new (guint, self->slices->n_rows);
  g_autofree double *variances = g_new (double, self->slices->n_rows);
  g_autofree double *shorter = g_new0 (double, self->slices->n_rows);

  for (guint row = 0; row < self->slices->n_rows; row++)
    if (lengths[row] == length)
      rows[n_rows++] = row;
  if (n_rows == 0)
    return;
  resample (self, rows, n_rows, n_in_block, random, variances);
  if (length > LENGTH_OF_NOISE)
    resample (self, rows, n_rows, n_in_block / 2, random, shorter);
  for (guint j = 0; j < n_rows; j++)
    {
      gboolean is_short = length > LENGTH_OF_NOISE && variances[j] > shorter[j];

      self->variances[rows[j]] = is_short ? 2 * variances[j] - shorter[j] : variances[j];
      self->freedoms[rows[j]] = MAX ((n / n_in_block - 1.0) / (is_short ? 2 : 1), 3);
    }
}

/* Blocks are BLOCK_FACTOR times as long as slices have to do with each other; where the recording
 * is too short for that, shares vary more than it shows. */
static void
find_all_variances (Side *self, const double *inflations, guint64 *random)
{
  guint n = self->slices->n_slices;
  guint n_rows = self->slices->n_rows;
  g_autofree guint8 *lengths = g_new0 (guint8, n_rows);

  for (guint row = 0; row < n_rows; row++)
    while (M_SQRT2 * (1u << lengths[row]) < BLOCK_FACTOR * inflations[row]
           && (2u << lengths[row]) <= n / MAX_PART)
      lengths[row]++;
  for (guint length = 0; length < N_LENGTHS; length++)
    find_variances (self, lengths, length, random);
  for (guint row = 0; row < n_rows; row++)
    {
      double lack = BLOCK_FACTOR * inflations[row] / (1u << lengths[row]);

      if (inflations[row] > M_SQRT2 && lack > M_SQRT2)
        self->variances[row] *= lack;
      /* of what was never seen, or always, one sample more or less is thinkable */
      self->variances[row] = MAX (self->variances[row], 1 / (self->whole * self->whole));
    }
}

/* FALSE: too little is known. Shares are told all the same. */
static gboolean
side_init (Side *self, const SondeSlices *slices)
{
  self->slices = slices;
  self->shares = g_new0 (double, slices->n_rows);
  self->variances = g_new0 (double, slices->n_rows);
  self->freedoms = g_new0 (double, slices->n_rows);
  for (guint i = 0; i < slices->n_slices; i++)
    {
      self->whole += slices->whole[i];
      for (guint row = 0; row < slices->n_rows; row++)
        self->shares[row] += slices->counts[(gsize) i * slices->n_rows + row];
    }
  for (guint row = 0; row < slices->n_rows && self->whole > 0; row++)
    self->shares[row] /= self->whole;
  return slices->n_slices >= SONDE_CHANCE_MIN_SLICES && self->whole > 0;
}

gboolean
sonde_chance_compare (const SondeSlices *before,
                      const SondeSlices *after,
                      guint n_together,
                      double confidence,
                      guint64 seed,
                      SondeChange *changes)
{
  g_auto (Side) old = { 0 };
  g_auto (Side) new = { 0 };
  double part = 1 - (1 - confidence) / 2 / MAX (n_together, 1);
  guint64 random = seed;
  g_autofree double *inflations = g_new (double, before->n_rows);
  gboolean is_known;

  g_assert (before->n_rows == after->n_rows);
  is_known = side_init (&old, before);
  is_known = side_init (&new, after) && is_known;
  if (is_known)
    {
      find_inflations (&old, &new, inflations);
      find_all_variances (&old, inflations, &random);
      find_all_variances (&new, inflations, &random);
    }
  for (guint row = 0; row < before->n_rows; row++)
    {
      double a = old.variances[row];
      double b = new.variances[row];
      double change = new.shares[row] - old.shares[row];
      double width, deviation;

      changes[row] = (SondeChange){ .before = old.shares[row], .after = new.shares[row] };
      if (!is_known)
        continue;
      deviation = sqrt (a + b);
      /* Welch's degrees of freedom */
      width
          = deviation
            * sonde_chance_student (
                part, (a + b) * (a + b) / (a * a / old.freedoms[row] + b * b / new.freedoms[row]));
      changes[row].low = change - width;
      changes[row].high = change + width;
      changes[row].seen = width + deviation * sonde_chance_normal (SONDE_CHANCE_POWER);
      changes[row].is_changed = changes[row].low > 0 || changes[row].high < 0;
    }
  return is_known;
}
