/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chains of threads, each of which burns a little and makes the next, until SIGTERM comes. Prints
 * now and then the time of CLOCK_MONOTONIC and how much CPU time it has used by then, both in
 * seconds, and how many threads have burned. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_CHAINS 16
#define BURN_S   0.002 /* of each thread */
#define LOOK_S   0.001 /* a look that takes longer was interrupted, and tells nothing */

static atomic_bool is_over;
static atomic_uint n_burned;
static pthread_barrier_t all_ended;

static double
read_clock (clockid_t clock)
{
  struct timespec time;

  clock_gettime (clock, &time);
  return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void
on_terminate (int signum)
{
  (void) signum;
  is_over = true;
}

static void *
link_of_chain (void *data)
{
  pthread_t next;

  while (read_clock (CLOCK_THREAD_CPUTIME_ID) < BURN_S)
    ;
  n_burned++;
  if (is_over || pthread_create (&next, NULL, link_of_chain, data) != 0)
    pthread_barrier_wait (&all_ended);
  else
    pthread_detach (next);
  return data;
}

static void
tell (void)
{
  double now_s, used_s;
  unsigned n;

  do
    {
      now_s = read_clock (CLOCK_MONOTONIC);
      used_s = read_clock (CLOCK_PROCESS_CPUTIME_ID);
      n = n_burned;
    }
  while (read_clock (CLOCK_MONOTONIC) - now_s > LOOK_S);
  printf ("%.6f %.6f %u\n", now_s, used_s, n);
}

int
main (void)
{
  const struct timespec interval = { .tv_nsec = 5000000 };

  signal (SIGTERM, on_terminate);
  pthread_barrier_init (&all_ended, NULL, N_CHAINS + 1);
  for (int i = 0; i < N_CHAINS; i++)
    {
      pthread_t first;

      if (pthread_create (&first, NULL, link_of_chain, NULL) != 0)
        return EXIT_FAILURE;
      pthread_detach (first);
    }
  while (!is_over)
    {
      tell ();
      nanosleep (&interval, NULL);
    }
  pthread_barrier_wait (&all_ended);
  return EXIT_SUCCESS;
}
