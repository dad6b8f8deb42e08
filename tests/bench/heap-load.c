/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pairs of malloc() and free(), so many calls deep: heap-load PAIRS DEPTH THREADS. Prints the ns of
 * CPU time of each pair, of all threads together; of a pair in the cheapest stretch of
 * STRETCH_PAIRS, which what else runs on the machine disturbs least; and how many events it made.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS   16
#define BLOCK_BYTES   64
#define STRETCH_PAIRS 100000

typedef struct
{
  int64_t used_ns;
  double best_ns; /* of a pair */
} Cost;

static unsigned long n_pairs;
static unsigned long depth;

static int64_t
cpu_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t) now.tv_sec * INT64_C (1000000000) + now.tv_nsec;
}

static void
allocate (unsigned long n)
{
  for (unsigned long i = 0; i < n; i++)
    {
      void *block = malloc (BLOCK_BYTES);

      __asm__ volatile("" : "+r"(block) : : "memory"); /* it may not be left out */
      free (block);
    }
}

static void
measure (Cost *cost)
{
  unsigned long n;

  for (unsigned long left = n_pairs; left > 0; left -= n)
    {
      int64_t start_ns = cpu_ns ();
      int64_t used_ns;

      n = left < STRETCH_PAIRS ? left : STRETCH_PAIRS;
      allocate (n);
      used_ns = cpu_ns () - start_ns;
      cost->used_ns += used_ns;
      if (left == n_pairs || (double) used_ns < cost->best_ns * (double) n)
        cost->best_ns = (double) used_ns / (double) n;
    }
}

static unsigned long
descend (unsigned long left, Cost *cost)
{
  volatile unsigned long here = left;

  if (left == 0)
    measure (cost);
  else
    descend (left - 1, cost);
  return here;
}

static void *
run (void *data)
{
  descend (depth, data);
  return NULL;
}

int
main (int argc, char **argv)
{
  pthread_t threads[MAX_THREADS];
  Cost costs[MAX_THREADS] = { { 0 } };
  unsigned long n_threads;
  double sum_ns = 0, best_ns;

  if (argc != 4)
    return EXIT_FAILURE;
  n_pairs = strtoul (argv[1], NULL, 10);
  depth = strtoul (argv[2], NULL, 10);
  n_threads = strtoul (argv[3], NULL, 10);
  if (n_pairs == 0 || n_threads == 0 || n_threads > MAX_THREADS)
    return EXIT_FAILURE;

  /* One thread is the program's own: others would be a new kind of stack, and their own blocks. */
  for (unsigned long i = 1; i < n_threads; i++)
    if (pthread_create (&threads[i], NULL, run, &costs[i]) != 0)
      return EXIT_FAILURE;
  run (&costs[0]);
  for (unsigned long i = 1; i < n_threads; i++)
    pthread_join (threads[i], NULL);

  best_ns = costs[0].best_ns;
  for (unsigned long i = 0; i < n_threads; i++)
    {
      sum_ns += (double) costs[i].used_ns;
      if (costs[i].best_ns < best_ns)
        best_ns = costs[i].best_ns;
    }
  printf ("pair_ns=%.2f best_ns=%.2f events=%lu\n",
          sum_ns / ((double) n_pairs * (double) n_threads), best_ns, 2 * n_pairs * n_threads);
  return EXIT_SUCCESS;
}
