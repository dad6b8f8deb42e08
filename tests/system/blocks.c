/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocates 1,000 blocks of 1 to 1,000 bytes, ten calls deep, and frees all but those of 777 bytes:
 * blocks [TIMES] */
#include <stdlib.h>

#define N_BLOCKS 1000
#define KEPT     777
#define DEPTH    10

static void *volatile last;

static __attribute__ ((noinline)) void *
allocate_block (size_t size)
{
  last = malloc (size);
  return last;
}

static __attribute__ ((noinline)) void
go_deeper (int depth, size_t size)
{
  void *block;

  if (depth > 0)
    go_deeper (depth - 1, size);
  else
    {
      block = allocate_block (size);
      if (size != KEPT)
        free (block);
    }
  __asm__ volatile("");
}

int
main (int argc, char **argv)
{
  for (int n = argc > 1 ? atoi (argv[1]) : 1; n > 0; n--)
    for (size_t size = 1; size <= N_BLOCKS; size++)
      go_deeper (DEPTH, size);
  return 0;
}
