/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A library with one way in, run(), and functions of its own below that. */
#include "tests/system/unwinding/spin.h"

#define JOIN(first, second)   first##_##second
#define EXPAND(first, second) JOIN (first, second)
#define NAME(name)            EXPAND (PREFIX, name)

void run (unsigned milliseconds);

static volatile unsigned sink;

#ifdef PADDING
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
NAME (outer) (unsigned milliseconds)
{
  spin (milliseconds, NAME (leaf));
  sink++;
}

void
run (unsigned milliseconds)
{
  NAME (outer) (milliseconds);
  sink++;
}
