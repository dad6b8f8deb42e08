/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short-lived processes, with libraries loaded meanwhile, and one that works before and after:
 * many PROCESSES LOADS SAY HEAR FIRST SECOND WORKER ARGUMENT. After each quarter it
 * writes its number to the FIFO SAY and waits for a line from the FIFO HEAR. */
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
pause_here (FILE *say, FILE *hear, unsigned quarter)
{
  char line[16];

  fprintf (say, "%u\n", quarter);
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
      if ((i + 1) * 4 / n_processes > i * 4 / n_processes)
        pause_here (say, hear, (i + 1) * 4 / n_processes);
    }
  run_program (argv[7], argv[8]);
  return 0;
}
