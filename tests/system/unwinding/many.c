/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short-lived processes, with libraries loaded meanwhile, and one that works before and after:
 * many PARTS PROCESSES LOADS SAY HEAR FIRST SECOND WORKER ARGUMENT. After each part of so many
 * processes and loads it writes its number to the FIFO SAY and waits for a line from the FIFO HEAR.
 */
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
pause_here (FILE *say, FILE *hear, unsigned part)
{
  char line[16];

  fprintf (say, "%u\n", part);
  fflush (say);
  if (fgets (line, sizeof line, hear) == NULL)
    exit (1);
}

static FRAME void
run_part (unsigned n_processes, unsigned n_loads, char **libraries)
{
  unsigned n_loaded = 0;

  for (unsigned i = 0; i < n_processes; i++)
    {
      run_program ("/bin/true", NULL);
      for (; n_loaded < n_loads * (i + 1) / n_processes; n_loaded++)
        load_library (libraries[n_loaded % 2]);
    }
}

int
main (int argc, char **argv)
{
  FILE *say, *hear;

  if (argc != 10 || (say = fopen (argv[4], "w")) == NULL || (hear = fopen (argv[5], "r")) == NULL)
    return 1;

  run_program (argv[8], argv[9]);
  for (unsigned part = 1; part <= (unsigned) atoi (argv[1]); part++)
    {
      run_part ((unsigned) atoi (argv[2]), (unsigned) atoi (argv[3]), argv + 6);
      pause_here (say, hear, part);
    }
  run_program (argv[8], argv[9]);
  return 0;
}
