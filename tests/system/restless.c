/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Does all that a profiler has to keep up with, until SIGTERM: it forks children that rename
 * themselves, run another program or just exit, and loads and unloads libraries, with some work in
 * each. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t is_over;

static void
on_terminate (int signum)
{
  (void) signum;
  is_over = 1;
}

static double
used_seconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void
work (double seconds)
{
  double end = used_seconds () + seconds;

  while (used_seconds () < end)
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
  if (argc == 2 && strcmp (argv[1], "--work") == 0)
    {
      work (0.02);
      return 0;
    }

  signal (SIGTERM, on_terminate);
  for (unsigned round = 0; !is_over; round++)
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
