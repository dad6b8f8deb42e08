/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Named functions with known shares of the time, some of them deep in recursion. */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__ ((noinline))

static volatile unsigned sink;

static NOINLINE void
spin_short (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink += i;
}

static NOINLINE void
spin_long (unsigned rounds)
{
  for (unsigned i = 0; i < 2 * rounds; i++)
    sink ^= i;
}

static NOINLINE unsigned
fibonacci (unsigned n)
{
  return n < 2 ? n : fibonacci (n - 1) + fibonacci (n - 2);
}

static NOINLINE int
compare (int a, int b)
{
  return (a > b) - (a < b);
}

static NOINLINE void
sort (int *numbers, unsigned n_numbers)
{
  unsigned seed = 1;

  for (unsigned i = 0; i < n_numbers; i++)
    numbers[i] = (int) ((seed = seed * 1103515245 + 12345) >> 8);
  for (unsigned i = 1; i < n_numbers; i++)
    for (unsigned k = i; k > 0 && compare (numbers[k - 1], numbers[k]) > 0; k--)
      {
        int number = numbers[k];

        numbers[k] = numbers[k - 1];
        numbers[k - 1] = number;
      }
}

/* Each level keeps a little stack of its own, so the deepest samples need a good part of the dump.
 */
static NOINLINE unsigned
descend (unsigned depth)
{
  volatile char room[64];

  room[depth % sizeof room] = (char) depth;
  if (depth == 0)
    spin_short (40000);
  else
    sink += descend (depth - 1);
  return sink + (unsigned) room[depth % sizeof room];
}

int
main (int argc, char **argv)
{
  static int numbers[250];
  unsigned n_rounds = argc > 1 ? (unsigned) atoi (argv[1]) : 1000;

  for (unsigned i = 0; i < n_rounds; i++)
    {
      spin_short (100000);
      spin_long (60000);
      sink += fibonacci (19);
      sort (numbers, sizeof numbers / sizeof *numbers);
      sink += descend (60);
    }
  printf ("%u\n", sink);
  return 0;
}
