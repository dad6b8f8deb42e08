/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Works, loads a library meanwhile, and works on in it: large-library MILLISECONDS LIBRARY BEGIN
 * END, where END takes what BEGIN returns. */
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/system/unwinding/spin.h"

typedef void *(*Begin) (void);
typedef void (*End) (void *made);

static volatile unsigned sink;

static FRAME void
leaf (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink += i;
}

static FRAME void
phase_before (unsigned milliseconds)
{
  spin (milliseconds, leaf);
  sink++;
}

static FRAME void
phase_inside (Begin begin, End end, unsigned milliseconds)
{
  double until = cpu_seconds (CLOCK_THREAD_CPUTIME_ID) + milliseconds / 1e3;

  while (cpu_seconds (CLOCK_THREAD_CPUTIME_ID) < until)
    end (begin ());
  sink++;
}

int
main (int argc, char **argv)
{
  unsigned milliseconds = argc == 5 ? (unsigned) atoi (argv[1]) : 0;
  void *library;
  Begin begin;
  End end;

  if (milliseconds == 0)
    return 1;
  phase_before (milliseconds);
  library = dlopen (argv[2], RTLD_NOW | RTLD_LOCAL);
  begin = library != NULL ? (Begin) dlsym (library, argv[3]) : NULL;
  end = library != NULL ? (End) dlsym (library, argv[4]) : NULL;
  if (begin == NULL || end == NULL)
    return 1;
  phase_inside (begin, end, milliseconds);
  return 0;
}
