/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loads two libraries by turns: libraries ROUNDS MILLISECONDS FIRST SECOND. Prints how often the
 * second came where the first had been. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/system/unwinding/spin.h"

typedef void (*Run) (unsigned milliseconds);

static volatile unsigned sink;

static FRAME void
phase_first (Run run, unsigned milliseconds)
{
  run (milliseconds);
  sink++;
}

static FRAME void
phase_second (Run run, unsigned milliseconds)
{
  run (milliseconds);
  sink++;
}

/* Returns where it was. */
static FRAME
ElfW (Addr) use_library (const char *path,
                         void (*phase) (Run run, unsigned milliseconds),
                         unsigned milliseconds)
{
  void *library = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  struct link_map *map;
  ElfW (Addr) address;

  if (library == NULL || dlinfo (library, RTLD_DI_LINKMAP, &map) < 0)
    exit (1);
  address = map->l_addr;
  if (milliseconds > 0)
    phase ((Run) dlsym (library, "run"), milliseconds);
  dlclose (library);
  return address;
}

int
main (int argc, char **argv)
{
  unsigned n_rounds = argc > 4 ? (unsigned) atoi (argv[1]) : 0;
  unsigned milliseconds = argc > 4 ? (unsigned) atoi (argv[2]) : 0;
  unsigned n_same = 0;

  for (unsigned i = 0; i < n_rounds; i++)
    {
      ElfW (Addr) first = use_library (argv[3], phase_first, milliseconds);

      n_same += use_library (argv[4], phase_second, milliseconds) == first;
    }
  printf ("%u\n", n_same);
  return 0;
}
