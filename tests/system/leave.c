/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ends while the rings of its threads are full: leave WAY THREADS PAIRS. Each thread makes pairs of
 * malloc() and free(); when all have made theirs, the process ends by WAY: exit, exec or kill. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 128
#define DEPTH       12
#define BLOCK_BYTES 32

static pthread_barrier_t barrier;
static unsigned long n_pairs;

static void
allocate (void)
{
  for (unsigned long i = 0; i < n_pairs; i++)
    {
      void *block = malloc (BLOCK_BYTES);

      __asm__ volatile("" : "+r"(block) : : "memory"); /* it may not be left out */
      free (block);
    }
}

static unsigned
descend (unsigned left)
{
  volatile unsigned here = left;

  if (left == 0)
    allocate ();
  else
    descend (left - 1);
  return here;
}

/* The rings stay open: no thread ends. */
static void *
run (void *data)
{
  pthread_barrier_wait (&barrier);
  descend (DEPTH);
  pthread_barrier_wait (&barrier);
  pause ();
  return data;
}

int
main (int argc, char **argv)
{
  pthread_t threads[MAX_THREADS];
  unsigned long n_threads;

  if (argc != 4)
    return EXIT_FAILURE;
  n_threads = strtoul (argv[2], NULL, 10);
  n_pairs = strtoul (argv[3], NULL, 10);
  if (n_threads == 0 || n_threads > MAX_THREADS)
    return EXIT_FAILURE;
  pthread_barrier_init (&barrier, NULL, (unsigned) n_threads + 1);
  for (unsigned long i = 0; i < n_threads; i++)
    if (pthread_create (&threads[i], NULL, run, NULL) != 0)
      return EXIT_FAILURE;
  pthread_barrier_wait (&barrier);
  pthread_barrier_wait (&barrier);

  if (strcmp (argv[1], "exec") == 0)
    execl ("/bin/true", "true", (char *) NULL);
  else if (strcmp (argv[1], "kill") == 0)
    kill (getpid (), SIGKILL);
  _exit (strcmp (argv[1], "exit") == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}
