/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/memory/sample-distance.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define LN_2   0.69314718055994530942
#define SQRT_2 1.41421356237309504880

/* Terms of the series below: enough for 12 digits. */
#define N_TERMS 9

/* More would not fit, and no program lives as long. */
#define MAX_DISTANCE 9.0e18

/* The finalizer of splitmix64. */
static uint64_t
mix (uint64_t word)
{
  word = (word ^ word >> 30) * UINT64_C (0xBF58476D1CE4E5B9);
  word = (word ^ word >> 27) * UINT64_C (0x94D049BB133111EB);
  return word ^ word >> 31;
}

uint64_t
sonde_sample_distance_seed (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return mix ((uint64_t) now.tv_sec << 30 ^ (uint64_t) now.tv_nsec
              ^ mix ((uint64_t) (uint32_t) gettid ()))
         | 1;
}

/* Of a number from 2^-53 to 1. The libm has it, too, but a program that does without shall not get
 * one with us. ln (m) is the series of 2 artanh ((m - 1) / (m + 1)). */
static double
natural_logarithm (double number)
{
  uint64_t bits;
  int exponent;
  double z, square, term, sum = 0.0;

  memcpy (&bits, &number, sizeof bits);
  exponent = (int) (bits >> 52 & 0x7ff) - 1023;
  bits = (bits & UINT64_C (0x000fffffffffffff)) | UINT64_C (0x3ff0000000000000);
  memcpy (&number, &bits, sizeof number);
  if (number > SQRT_2)
    {
      number /= 2;
      exponent++;
    }

  z = (number - 1) / (number + 1);
  square = z * z;
  term = z;
  for (unsigned i = 0; i < N_TERMS; i++)
    {
      sum += term / (2 * i + 1);
      term *= square;
    }
  return 2 * sum + exponent * LN_2;
}

uint64_t
sonde_sample_distance_draw (uint64_t *state, uint64_t mean_bytes)
{
  double uniform, distance;

  /* xorshift64*: of its upper bits each is as good as random here. */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  /* From 2^-53 to 1, in equal steps. */
  uniform = (double) ((*state * UINT64_C (0x2545F4914F6CDD1D) >> 11) + 1) * 0x1p-53;
  distance = -natural_logarithm (uniform) * (double) mean_bytes;
  if (distance > MAX_DISTANCE)
    distance = MAX_DISTANCE;
  return (uint64_t) distance + 1;
}
