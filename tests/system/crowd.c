/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many at a time, each of which makes events: crowd KIND NUMBER EVENTS. KIND is threads or
 * processes, whose events are blocks, a malloc() and a free() each; or marks, of threads. None
 * begins before all have made one, and none ends before all have. Prints how many of these events
 * there were. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/collector/sonde-collector.h"

#define BLOCK_BYTES 64
#define STACK_BYTES (128 * 1024)

typedef struct
{
  pthread_barrier_t barrier;
  unsigned long n_events; /* that each makes */
  unsigned long n_missed; /* marks that were refused */
} Crowd;

static Crowd *crowd; /* of all processes */

static void
make_block (void)
{
  void *block = malloc (BLOCK_BYTES);

  __asm__ volatile("" : "+r"(block) : : "memory"); /* it may not be left out */
  free (block);
}

static void *
make_blocks (void *data)
{
  make_block ();
  pthread_barrier_wait (&crowd->barrier);
  for (unsigned long i = 2; i < crowd->n_events; i += 2)
    make_block ();
  pthread_barrier_wait (&crowd->barrier);
  return NULL;
}

static void
make_mark (void)
{
  if (sonde_collector_mark (sonde_collector_now (), 1, "group", "mark", "a message") != 0)
    __atomic_fetch_add (&crowd->n_missed, 1, __ATOMIC_RELAXED);
}

static void *
make_marks (void *data)
{
  make_mark ();
  pthread_barrier_wait (&crowd->barrier);
  for (unsigned long i = 1; i < crowd->n_events; i++)
    make_mark ();
  pthread_barrier_wait (&crowd->barrier);
  return NULL;
}

static void
run_threads (unsigned n, void *(*make) (void *) )
{
  pthread_t *threads = calloc (n, sizeof *threads);
  pthread_attr_t attributes;

  pthread_attr_init (&attributes);
  pthread_attr_setstacksize (&attributes, STACK_BYTES);
  for (unsigned i = 0; i < n; i++)
    if (threads == NULL || pthread_create (&threads[i], &attributes, make, NULL) != 0)
      _exit (EXIT_FAILURE);
  for (unsigned i = 0; i < n; i++)
    pthread_join (threads[i], NULL);
}

static void
run_processes (unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    switch (fork ())
      {
      case -1:
        _exit (EXIT_FAILURE);
      case 0:
        make_blocks (NULL);
        _exit (EXIT_SUCCESS);
      }
  while (wait (NULL) > 0)
    continue;
}

int
main (int argc, char **argv)
{
  unsigned n = argc == 4 ? (unsigned) strtoul (argv[2], NULL, 10) : 0;
  pthread_barrierattr_t shared;

  crowd = mmap (NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (n == 0 || crowd == MAP_FAILED)
    return EXIT_FAILURE;

  crowd->n_events = strtoul (argv[3], NULL, 10);
  pthread_barrierattr_init (&shared);
  pthread_barrierattr_setpshared (&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init (&crowd->barrier, &shared, n);
  if (strcmp (argv[1], "processes") == 0)
    run_processes (n);
  else
    run_threads (n, strcmp (argv[1], "marks") == 0 ? make_marks : make_blocks);
  printf ("%lu made, %lu missed\n", n * crowd->n_events, crowd->n_missed);
  return EXIT_SUCCESS;
}
