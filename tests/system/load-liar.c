/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loads a library of liar.c and has it lie: load-liar LIBRARY MILLISECONDS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int
main (int argc, char **argv)
{
  void *library = argc == 3 ? dlopen (argv[1], RTLD_NOW) : NULL;
  void (*lie) (unsigned ms);

  if (library == NULL)
    {
      fprintf (stderr, "load-liar: %s\n",
               argc == 3 ? dlerror () : "usage: load-liar LIBRARY MILLISECONDS");
      return 2;
    }
  *(void **) &lie = dlsym (library, "lie");
  lie ((unsigned) strtoul (argv[2], NULL, 10));
  return 0;
}
