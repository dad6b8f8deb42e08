/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has an allocator of its own, which samples, and tells of samples by probes:
 * probed INTERVAL [THREADS]
 *
 * Until its standard input ends; of a byte there it forks, and its child does the same. Then it
 * prints, for each process, what it allocated while its probes were traced: pid, blocks, bytes,
 * samples, ends of samples; and whether they are, still. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/static-probe.h"

#define N_SLOTS     64
#define SLOT_BYTES  8192
#define MAX_THREADS 8
#define A_TURN      20
#define TURN_US     2000

#ifdef LONG
#define INSTRUCTION STATIC_PROBE_LONG
#else
#define INSTRUCTION STATIC_PROBE_SHORT
#endif

STATIC_PROBE_SEMAPHORE semaphore_alloc;
STATIC_PROBE_SEMAPHORE semaphore_free;

typedef struct
{
  unsigned long blocks, bytes, samples, ends;
} Count;

typedef struct
{
  Count count;
  uint64_t random;
  double distance;
  bool is_sampled[N_SLOTS];
  char memory[N_SLOTS][SLOT_BYTES];
} Heap;

static Heap heaps[MAX_THREADS];
static double mean;
static volatile bool is_over;

static bool
is_traced (const uint16_t *semaphore)
{
  return *(const volatile uint16_t *) semaphore != 0;
}

/* One argument is on the stack, as compilers have it that run out of registers. */
static __attribute__ ((noinline)) void
fire_alloc (const void *block, size_t size, const size_t *weight)
{
  STATIC_PROBE (INSTRUCTION, "otel_memory", "alloc", "semaphore_alloc", "8@%0 8@%1 8@%2",
                "r"(block), "r"(size), "m"(*weight));
}

static __attribute__ ((noinline)) void
fire_free (const void *block)
{
  STATIC_PROBE (INSTRUCTION, "otel_memory", "free", "semaphore_free", "8@%0", "r"(block));
}

static double
draw (Heap *heap)
{
  heap->random ^= heap->random << 13;
  heap->random ^= heap->random >> 7;
  heap->random ^= heap->random << 17;
  return -mean * log (((double) (heap->random >> 11) + 1) / 9007199254740993.0);
}

static __attribute__ ((noinline)) void
allocate (Heap *heap, unsigned slot, size_t size)
{
  size_t weight;
  unsigned n = 0;

  if (heap->is_sampled[slot] && is_traced (&semaphore_free))
    {
      heap->count.ends++;
      fire_free (heap->memory[slot]);
    }
  heap->is_sampled[slot] = false;
  for (heap->distance -= (double) size; heap->distance <= 0; heap->distance += draw (heap))
    n++;
  if (!is_traced (&semaphore_alloc))
    return;
  heap->count.blocks++;
  heap->count.bytes += size;
  if (n == 0)
    return;
  heap->count.samples++;
  heap->is_sampled[slot] = true;
  weight = (size_t) (n * mean);
  fire_alloc (heap->memory[slot], size, &weight);
}

static void *
run (void *data)
{
  Heap *heap = data;

  heap->random = (uint64_t) (heap - heaps + 1) * 0x9E3779B97F4A7C15 + (uint64_t) getpid ();
  heap->distance = draw (heap);
  for (unsigned n = 0; !is_over; n++)
    {
      allocate (heap, n % N_SLOTS, 16 + n * 997 % (SLOT_BYTES - 16));
      if (n % A_TURN == 0)
        usleep (TURN_US);
    }
  return NULL;
}

static void run_all (unsigned n_threads);

static void
make_child (unsigned n_threads)
{
  pid_t pid = fork ();

  if (pid < 0)
    abort ();
  if (pid > 0)
    return;
  for (unsigned i = 0; i < n_threads; i++)
    heaps[i].count = (Count){ 0 };
  run_all (n_threads);
  _exit (0);
}

static void
run_all (unsigned n_threads)
{
  struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
  pthread_t threads[MAX_THREADS];
  Count sum = { 0 };
  char byte;

  for (unsigned i = 0; i < n_threads; i++)
    if (pthread_create (&threads[i], NULL, run, &heaps[i]) != 0)
      abort ();
  while (poll (&input, 1, -1) >= 0 && read (STDIN_FILENO, &byte, 1) > 0)
    make_child (n_threads);
  is_over = true;
  for (unsigned i = 0; i < n_threads; i++)
    {
      pthread_join (threads[i], NULL);
      sum.blocks += heaps[i].count.blocks;
      sum.bytes += heaps[i].count.bytes;
      sum.samples += heaps[i].count.samples;
      sum.ends += heaps[i].count.ends;
    }
  printf ("%d %lu %lu %lu %lu %u\n", (int) getpid (), sum.blocks, sum.bytes, sum.samples, sum.ends,
          (unsigned) *(volatile uint16_t *) &semaphore_alloc);
  fflush (stdout);
}

int
main (int argc, char **argv)
{
  unsigned n_threads = argc > 2 ? (unsigned) atoi (argv[2]) : 1;
  int status = 0;

  if (argc < 2 || n_threads < 1 || n_threads > MAX_THREADS)
    return 2;
  mean = atof (argv[1]);
  run_all (n_threads);
  while (wait (&status) > 0)
    if (status != 0)
      return 1;
  return 0;
}
