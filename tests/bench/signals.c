/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that work, are interrupted by signals, and ask for the time in the handlers. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define NOINLINE __attribute__ ((noinline))

enum
{
  N_THREADS = 3,
  SIGNAL_US = 1000,
  N_NUMBERS = 2000,
};

static volatile unsigned sink;

static NOINLINE void
work_in_handler (unsigned rounds)
{
  struct timespec now;

  for (unsigned i = 0; i < rounds; i++)
    {
      clock_gettime (CLOCK_MONOTONIC, &now);
      sink += (unsigned) now.tv_nsec;
    }
}

static void
handle_signal (int number)
{
  work_in_handler (5000);
}

static int
compare (const void *a, const void *b)
{
  const unsigned *left = a;
  const unsigned *right = b;

  return (*left > *right) - (*left < *right);
}

static NOINLINE unsigned
sort_numbers (unsigned seed)
{
  unsigned numbers[N_NUMBERS];

  for (unsigned i = 0; i < N_NUMBERS; i++)
    numbers[i] = (seed = seed * 1103515245 + 12345) >> 8;
  qsort (numbers, N_NUMBERS, sizeof *numbers, compare);
  return numbers[N_NUMBERS / 2];
}

static NOINLINE unsigned
descend (unsigned depth, unsigned seed)
{
  return depth == 0 ? sort_numbers (seed) : descend (depth - 1, seed + depth) + 1;
}

static void *
run_thread (void *data)
{
  unsigned n_rounds = *(const unsigned *) data;

  for (unsigned i = 0; i < n_rounds; i++)
    sink += descend (i % 16, i);
  return NULL;
}

int
main (int argc, char **argv)
{
  unsigned n_rounds = argc > 1 ? (unsigned) atoi (argv[1]) : 1000;
  struct sigaction action = { .sa_handler = handle_signal, .sa_flags = SA_RESTART };
  struct itimerval timer = { { 0, SIGNAL_US }, { 0, SIGNAL_US } };
  pthread_t threads[N_THREADS];

  sigaction (SIGPROF, &action, NULL);
  setitimer (ITIMER_PROF, &timer, NULL);
  for (unsigned i = 0; i < N_THREADS; i++)
    if (pthread_create (&threads[i], NULL, run_thread, &n_rounds) != 0)
      return EXIT_FAILURE;
  for (unsigned i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
  printf ("%u\n", sink);
  return EXIT_SUCCESS;
}
