/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes processes as fast as it can, of which each shows in its name and in its stack what kind it
 * is: fork-storm PROCESSES ALPHA BETA. To be run as root in a pid namespace whose /proc is mounted:
 * the same numbers are given out again and again. One of N_EXEC_EVERY executes ALPHA or BETA
 * (fork-kind), the rest burns in red() or blue(). Begins when it reads a byte, prints how many
 * processes it made in how many seconds, and ends when it reads another one. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_MAKERS     3
#define N_NUMBERS    100 /* of each maker, before they come again */
#define FIRST_NUMBER 1000
#define N_EXEC_EVERY 128
#define BURN_ROUNDS  40000
#define STACK_BYTES  16384

typedef struct
{
  unsigned n_made;
  char **programs;
} Maker;

/* Two that no compiler takes for one. Even the end is theirs. */
static void __attribute__ ((noinline, noreturn)) red (void)
{
  for (volatile unsigned i = 0; i < BURN_ROUNDS; i++)
    __asm__ volatile("# red");
  _exit (0);
}

static void __attribute__ ((noinline, noreturn)) blue (void)
{
  for (volatile unsigned i = 0; i < BURN_ROUNDS; i++)
    __asm__ volatile("# blue");
  _exit (0);
}

static double
now_s (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static int
be_child (void *data)
{
  const Maker *maker = data;
  unsigned which = maker->n_made / N_EXEC_EVERY % 2;

  if (maker->n_made % N_EXEC_EVERY == 0)
    {
      execl (maker->programs[which], maker->programs[which], (char *) NULL);
      _exit (127);
    }
  if (maker->n_made % 2 == 0)
    {
      prctl (PR_SET_NAME, "red");
      red ();
    }
  else
    {
      prctl (PR_SET_NAME, "blue");
      blue ();
    }
}

static void
rewind_numbers (int numbers_fd, unsigned first)
{
  char text[16];
  int length = snprintf (text, sizeof text, "%u", first);

  if (pwrite (numbers_fd, text, (size_t) length, 0) != length)
    _exit (3);
}

/* Its own numbers, in its own time. */
static void
make_children (unsigned index, unsigned n_processes, char **programs)
{
  static char stack[STACK_BYTES] __attribute__ ((aligned (16)));
  Maker maker = { .programs = programs };
  int numbers_fd = open ("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  int status;

  for (; maker.n_made < n_processes; maker.n_made++)
    {
      pid_t child;

      if (maker.n_made % N_NUMBERS == 0)
        rewind_numbers (numbers_fd, FIRST_NUMBER * (index + 1));
      /* As vfork(), which is cheap, but with a stack of its own. */
      child = clone (be_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &maker);
      if (child < 0 || waitpid (child, &status, 0) != child || status != 0)
        _exit (2);
    }
}

static int
wait_for_byte (void)
{
  char byte;

  return read (STDIN_FILENO, &byte, 1) == 1 ? 0 : -1;
}

int
main (int argc, char **argv)
{
  unsigned n_processes = argc == 4 ? (unsigned) atoi (argv[1]) / N_MAKERS : 0;
  double start_s;
  int status;

  if (n_processes == 0 || wait_for_byte () < 0)
    return EXIT_FAILURE;
  start_s = now_s ();
  for (unsigned i = 0; i < N_MAKERS; i++)
    if (fork () == 0)
      {
        make_children (i, n_processes, argv + 2);
        _exit (0);
      }
  for (unsigned i = 0; i < N_MAKERS; i++)
    if (wait (&status) < 0 || status != 0)
      return EXIT_FAILURE;
  /* With those that made them. */
  printf ("made %u processes in %.3f s\n", N_MAKERS * (n_processes + 1), now_s () - start_s);
  fflush (stdout);
  return wait_for_byte () < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
