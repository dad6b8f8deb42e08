/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that burn time each: threads MILLISECONDS */
#include <pthread.h>
#include <stdlib.h>

#include "tests/system/unwinding/spin.h"

#define N_THREADS 4

static volatile unsigned sink;
static unsigned milliseconds;

static FRAME void
leaf (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink += i;
}

static FRAME void
middle (unsigned n)
{
  spin (n, leaf);
  sink++;
}

static FRAME void *
thread_main (void *data)
{
  middle (milliseconds);
  sink++;
  return data;
}

int
main (int argc, char **argv)
{
  pthread_t threads[N_THREADS];

  milliseconds = argc > 1 ? (unsigned) atoi (argv[1]) : 100;
  for (unsigned i = 0; i < N_THREADS; i++)
    if (pthread_create (&threads[i], NULL, thread_main, NULL) != 0)
      return 1;
  for (unsigned i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
  return 0;
}
