/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocates until it is killed, and counts what is done in a file, which stays: counted FILE
 * THREADS. Two numbers of 8 bytes for each thread: blocks that malloc() gave, and those that free()
 * took. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_BYTES 4321
#define N_IN_A_ROW  20
#define PAUSE_US    300 /* for each thread: all have the same share */

static unsigned n_threads;

static void *
run (void *data)
{
  uint64_t *counts = data;

  for (;;)
    {
      for (unsigned i = 0; i < N_IN_A_ROW; i++)
        {
          void *block = malloc (BLOCK_BYTES);

          __asm__ volatile("" : "+r"(block) : : "memory"); /* it may not be left out */
          __atomic_store_n (&counts[0], counts[0] + 1, __ATOMIC_RELEASE);
          free (block);
          __atomic_store_n (&counts[1], counts[1] + 1, __ATOMIC_RELEASE);
        }
      usleep (n_threads * PAUSE_US);
    }
  return NULL;
}

int
main (int argc, char **argv)
{
  size_t size_bytes;
  uint64_t *counts;
  pthread_t thread;
  int fd;

  if (argc != 3)
    return EXIT_FAILURE;
  n_threads = (unsigned) strtoul (argv[2], NULL, 10);
  size_bytes = n_threads * 2 * sizeof *counts;
  fd = open (argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (n_threads == 0 || fd < 0 || ftruncate (fd, (off_t) size_bytes) < 0)
    return EXIT_FAILURE;
  counts = mmap (NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (counts == MAP_FAILED)
    return EXIT_FAILURE;
  for (unsigned i = 0; i < n_threads; i++)
    if (pthread_create (&thread, NULL, run, &counts[2 * i]) != 0)
      return EXIT_FAILURE;
  pause ();
  return EXIT_SUCCESS;
}
