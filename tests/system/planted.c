/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Wastes what its argument says (time, memory or threads), so that somebody can find out where. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_THREADS 4
#define RUN_S     4

static volatile unsigned long sink;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *volatile kept;

static int
is_over (void)
{
  static _Thread_local time_t end;
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  if (end == 0)
    end = now.tv_sec + RUN_S;
  return now.tv_sec >= end;
}

__attribute__ ((noinline)) static void
add_up (unsigned long n)
{
  for (unsigned long i = 0; i < n; i++)
    sink += i; /* the hot line */
}

__attribute__ ((noinline)) static void
tidy_up (void)
{
  for (int i = 0; i < 500; i++)
    sink ^= (unsigned long) i;
}

__attribute__ ((noinline)) static void
remember (size_t size)
{
  kept = memset (malloc (size), 1, size); /* the leak */
}

__attribute__ ((noinline)) static void
use_for_a_while (size_t size)
{
  kept = memset (malloc (size), 1, size);
  free (kept);
}

__attribute__ ((noinline)) static void
take_turns (void)
{
  pthread_mutex_lock (&mutex);
  for (int i = 0; i < 50; i++)
    sink += (unsigned long) i;
  pthread_mutex_unlock (&mutex);
}

static void *
compete (void *unused)
{
  while (!is_over ())
    for (int i = 0; i < 1000; i++)
      take_turns ();
  return unused;
}

int
main (int argc, char **argv)
{
  pthread_t threads[N_THREADS];
  const char *what = argc > 1 ? argv[1] : "";

  if (strcmp (what, "time") == 0)
    while (!is_over ())
      {
        add_up (1000000);
        tidy_up ();
      }
  for (int i = 0; strcmp (what, "memory") == 0 && i < 2000; i++)
    {
      use_for_a_while (100000);
      remember (1000);
    }
  for (int i = 0; strcmp (what, "threads") == 0 && i < N_THREADS; i++)
    pthread_create (&threads[i], NULL, compete, NULL);
  for (int i = 0; strcmp (what, "threads") == 0 && i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
  return 0;
}
