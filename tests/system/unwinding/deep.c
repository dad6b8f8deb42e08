/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A stack of 60 frames of a KiB each, which a sample's copy has room for a part of: deep
 * MILLISECONDS */
#include <stdlib.h>
#include <string.h>

#include "tests/system/unwinding/spin.h"

#define DEPTH 60

static volatile unsigned sink;

static FRAME void
leaf (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink += i;
}

static FRAME void
shallow_leaf (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink -= i;
}

static FRAME void
descend (unsigned depth, unsigned milliseconds)
{
  char room[1024];

  memset (room, (int) depth, sizeof room);
  if (depth > 0)
    descend (depth - 1, milliseconds);
  else
    spin (milliseconds, leaf);
  for (unsigned i = 0; i < sizeof room; i++)
    sink += (unsigned) room[i];
}

int
main (int argc, char **argv)
{
  unsigned milliseconds = argc > 1 ? (unsigned) atoi (argv[1]) : 100;

  /* The copy has room for all of it, so that it is known what lies above main(). */
  spin (50, shallow_leaf);
  descend (DEPTH, milliseconds);
  return 0;
}
