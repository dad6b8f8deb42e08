/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Does all that a profiler has to keep up with, for so many seconds: restless SECONDS. It forks
 * children that rename themselves, run another program or just exit, and loads and unloads
 * libraries, with some work in each. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double
seconds_of (clockid_t clock)
{
  struct timespec now;

  clock_gettime (clock, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void
work (double seconds)
{
  double end = seconds_of (CLOCK_PROCESS_CPUTIME_ID) + seconds;

  while (seconds_of (CLOCK_PROCESS_CPUTIME_ID) < end)
    for (volatile unsigned i = 0; i < 20000; i++)
      ;
}

static void
start_child (char *program, unsigned round)
{
  char name[16];
  pid_t child = fork ();

  if (child != 0)
    return;
  work (0.01);
  snprintf (name, sizeof name, "renamed-%u", round);
  prctl (PR_SET_NAME, name);
  work (0.01);
  if (round % 2 == 0)
    execl (program, "restless", "--work", (char *) NULL);
  _exit (0);
}

/* Other libraries at other times, often at the same place. */
static void
load_and_work (unsigned round)
{
  static const char *const libraries[]
      = { "libz.so.1", "liblzma.so.5", "libresolv.so.2", "libutil.so.1" };
  void *library = dlopen (libraries[round % 4], RTLD_NOW);

  work (0.01);
  if (library != NULL)
    dlclose (library);
}

int
main (int argc, char **argv)
{
  double end;

  if (argc == 2 && strcmp (argv[1], "--work") == 0)
    {
      work (0.02);
      return 0;
    }
  if (argc != 2)
    {
      fprintf (stderr, "usage: restless SECONDS\n");
      return 2;
    }

  end = seconds_of (CLOCK_MONOTONIC) + atof (argv[1]);
  for (unsigned round = 0; seconds_of (CLOCK_MONOTONIC) < end; round++)
    {
      start_child (argv[0], round);
      load_and_work (round);
      while (waitpid (-1, NULL, round % 4 == 0 ? 0 : WNOHANG) > 0)
        ;
    }
  while (wait (NULL) > 0)
    ;
  return 0;
}
