/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* main, outer, middle, leaf: stacks MILLISECONDS [unlink | replace FILE | exec PROGRAM ARGUMENT…]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/system/unwinding/spin.h"

#define JOIN(first, second)   first##_##second
#define EXPAND(first, second) JOIN (first, second)
#define NAME(name)            EXPAND (PREFIX, name)

static volatile unsigned sink;

#ifdef PADDING
/* Moves what follows, so that the same address is another function in another program. */
static FRAME __attribute__ ((used)) void
NAME (padding) (void)
{
  __asm__ volatile(".skip " PADDING);
}
#endif

static FRAME void
NAME (leaf) (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink += i;
}

static FRAME void
NAME (middle) (unsigned milliseconds)
{
  spin (milliseconds, NAME (leaf));
  sink++;
}

static FRAME void
NAME (outer) (unsigned milliseconds)
{
  NAME (middle) (milliseconds);
  sink++;
}

int
main (int argc, char **argv)
{
  unsigned milliseconds = argc > 1 ? (unsigned) atoi (argv[1]) : 100;

  if (argc > 2 && strcmp (argv[2], "unlink") == 0 && unlink (argv[0]) < 0)
    return 1;
  if (argc > 3 && strcmp (argv[2], "replace") == 0 && rename (argv[3], argv[0]) < 0)
    return 1;
  NAME (outer) (milliseconds);
  if (argc > 3 && strcmp (argv[2], "exec") == 0)
    execv (argv[3], argv + 3);
  return 0;
}
