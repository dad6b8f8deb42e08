/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls functions that do next to nothing, in three forms of call trees, and says what one costs:
 * trace-load FORM CALLS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT __attribute__ ((noinline))
#ifdef __clang__
#define HIDDEN __attribute__ ((no_instrument_function, xray_never_instrument))
#else
#define HIDDEN __attribute__ ((no_instrument_function))
#endif

static volatile unsigned work;
static uint64_t n_calls;

/* --- flat: one calls two --- */

static KEPT void
leaf (unsigned value)
{
  work = value;
}

static KEPT void
leaf2 (unsigned value)
{
  work = value + 1;
}

static KEPT void
mid (unsigned value)
{
  leaf (value);
  leaf2 (value);
  work = value;
}

static HIDDEN void
run_flat (uint64_t n)
{
  for (n_calls = 0; n_calls < n; n_calls += 3)
    mid ((unsigned) n_calls);
}

/* --- deep: 20 below each other, of eight functions, one in ten calls two --- */

static unsigned random_state = 1;

static HIDDEN unsigned
draw (void)
{
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 16;
}

static void (*const deep[8]) (unsigned depth);

#define DEEP(number)                                                                               \
  static KEPT void deep##number (unsigned depth)                                                   \
  {                                                                                                \
    n_calls++;                                                                                     \
    if (depth > 0)                                                                                 \
      {                                                                                            \
        deep[(number + 1) % 8](depth - 1);                                                         \
        if (depth > 10 && draw () % 10 == 0)                                                       \
          deep[(number + 3) % 8](depth - 1);                                                       \
      }                                                                                            \
    work = depth;                                                                                  \
  }

DEEP (0)
DEEP (1)
DEEP (2) DEEP (3) DEEP (4) DEEP (5) DEEP (6) DEEP (7)

    static void (*const deep[8]) (unsigned depth)
    = { deep0, deep1, deep2, deep3, deep4, deep5, deep6, deep7 };

static HIDDEN void
run_deep (uint64_t n)
{
  for (n_calls = 0; n_calls < n;)
    deep0 (19);
}

/* --- wide: one calls 200 at random --- */

#define WIDE(number)                                                                               \
  static KEPT void wide##number (unsigned value) { work = value + number; }
#define TEN(make, tens)                                                                            \
  make (tens##0) make (tens##1) make (tens##2) make (tens##3) make (tens##4) make (tens##5)        \
      make (tens##6) make (tens##7) make (tens##8) make (tens##9)
#define ALL(make)                                                                                  \
  TEN (make, 1)                                                                                    \
  TEN (make, 2)                                                                                    \
  TEN (make, 3) TEN (make, 4) TEN (make, 5) TEN (make, 6) TEN (make, 7) TEN (make, 8)              \
      TEN (make, 9) TEN (make, 10) TEN (make, 11) TEN (make, 12) TEN (make, 13) TEN (make, 14)     \
          TEN (make, 15) TEN (make, 16) TEN (make, 17) TEN (make, 18) TEN (make, 19)               \
              TEN (make, 20)
#define NAME(number) wide##number,

ALL (WIDE)

static void (*const wide[200]) (unsigned value) = { ALL (NAME) };

static KEPT void
choose (uint64_t n)
{
  for (n_calls = 0; n_calls < n; n_calls++)
    wide[draw () % 200](1);
}

HIDDEN int
main (int argc, char *argv[])
{
  uint64_t n = argc > 2 ? strtoull (argv[2], NULL, 10) : 0;
  struct timespec begin, end;

  if (argc != 3)
    return 1;
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &begin);
  if (strcmp (argv[1], "flat") == 0)
    run_flat (n);
  else if (strcmp (argv[1], "deep") == 0)
    run_deep (n);
  else
    choose (n);
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &end);
  printf ("%.3f\n",
          ((double) (end.tv_sec - begin.tv_sec) * 1e9 + (double) (end.tv_nsec - begin.tv_nsec))
              / (double) n_calls);
  return 0;
}
