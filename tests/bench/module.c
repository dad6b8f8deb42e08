/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures what it takes until a library's functions can be unwound: bench-module LIBRARY. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "unwind/module.h"

#define N_TRIES 9

typedef struct
{
  double cpu_ms;
  double wall_ms;
} Cost;

static double
now_ms (clockid_t clock)
{
  struct timespec now;

  clock_gettime (clock, &now);
  return (double) now.tv_sec * 1e3 + (double) now.tv_nsec / 1e6;
}

/* With a store of its own, so that nothing is there yet. */
static int
measure (const char *path, int is_cold, Cost *cost)
{
  SondeFileId id = { .inode = 1 };
  SondeModuleStore *store = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  int r;

  if (store == NULL || fd < 0)
    return -1;
  if (is_cold)
    posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
  cost->cpu_ms = now_ms (CLOCK_PROCESS_CPUTIME_ID);
  cost->wall_ms = now_ms (CLOCK_MONOTONIC);
  r = sonde_module_store_load (store, &id, fd);
  cost->cpu_ms = now_ms (CLOCK_PROCESS_CPUTIME_ID) - cost->cpu_ms;
  cost->wall_ms = now_ms (CLOCK_MONOTONIC) - cost->wall_ms;
  sonde_module_store_free (store);
  return r;
}

static int
compare (const void *first, const void *second)
{
  double a = ((const Cost *) first)->cpu_ms;
  double b = ((const Cost *) second)->cpu_ms;

  return (a > b) - (a < b);
}

int
main (int argc, char **argv)
{
  Cost costs[N_TRIES];

  if (argc != 2)
    return EXIT_FAILURE;
  for (int is_cold = 1; is_cold >= 0; is_cold--)
    {
      for (int i = 0; i < N_TRIES; i++)
        if (measure (argv[1], is_cold, &costs[i]) < 0)
          return EXIT_FAILURE;
      qsort (costs, N_TRIES, sizeof *costs, compare);
      printf ("%s cpu_ms=%.2f worst_cpu_ms=%.2f wall_ms=%.2f\n", is_cold ? "cold" : "warm",
              costs[N_TRIES / 2].cpu_ms, costs[N_TRIES - 1].cpu_ms, costs[N_TRIES / 2].wall_ms);
    }
  return EXIT_SUCCESS;
}
