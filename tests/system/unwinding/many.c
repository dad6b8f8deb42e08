/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short-lived processes, with libraries loaded meanwhile, and one that works before and after:
 * many PROCESSES LOADS SAY HEAR FIRST SECOND WORKER ARGUMENT. After half and at the end it
 * writes a line to the FIFO SAY and waits for one from the FIFO HEAR. */
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/system/unwinding/spin.h"

static FRAME void
run_program (const char *path, char *argument)
{
  char *arguments[] = { (char *) path, argument, NULL };
  int status = 0;
  pid_t pid;

  if (posix_spawn (&pid, path, NULL, NULL, arguments, environ) != 0
      || waitpid (pid, &status, 0) != pid || status != 0)
    exit (1);
}

static FRAME void
load_library (const char *path)
{
  void *library = dlopen (path, RTLD_NOW | RTLD_LOCAL);

  if (library == NULL)
    exit (1);
  dlclose (library);
}

static void
pause_here (FILE *say, FILE *hear, const char *what)
{
  char line[16];

  fprintf (say, "%s\n", what);
  fflush (say);
  if (fgets (line, sizeof line, hear) == NULL)
    exit (1);
}

int
main (int argc, char **argv)
{
  unsigned n_processes, n_loads, n_loaded = 0;
  FILE *say, *hear;

  if (argc != 9 || (say = fopen (argv[3], "w")) == NULL || (hear = fopen (argv[4], "r")) == NULL)
    return 1;
  n_processes = (unsigned) atoi (argv[1]);
  n_loads = (unsigned) atoi (argv[2]);

  run_program (argv[7], argv[8]);
  for (unsigned i = 0; i < n_processes; i++)
    {
      run_program ("/bin/true", NULL);
      for (; n_loaded < n_loads * (i + 1) / n_processes; n_loaded++)
        load_library (argv[5 + n_loaded % 2]);
      if (i == n_processes / 2)
        pause_here (say, hear, "half");
    }
  pause_here (say, hear, "all");
  run_program (argv[7], argv[8]);
  return 0;
}
