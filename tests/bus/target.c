/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process to be profiled: target [undumpable] [spin] [name=COMM] [stack=TEXT] [exec=PROGRAM]
 * [threads=N]. It writes a byte when it is ready, and lives until its standard input closes:
 * whoever runs it may be gone by then. TEXT stands backwards on its stack, where the arguments are,
 * too. PROGRAM is executed when a byte comes. The N further threads do nothing. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *
wait_for_ever (void *unused)
{
  pause ();
  return NULL;
}

/* @n_threads more than there are, with stacks as small as can be. */
static int
start_threads (int n_threads)
{
  pthread_attr_t attributes;
  pthread_t thread;
  int result = 0;

  pthread_attr_init (&attributes);
  pthread_attr_setstacksize (&attributes, 16384);
  while (result == 0 && n_threads-- > 0)
    result = pthread_create (&thread, &attributes, wait_for_ever, NULL);
  return result;
}

static void
spin (const char *text)
{
  struct pollfd life = { .fd = STDIN_FILENO };
  size_t length = strlen (text);
  char copy[128] = "";

  for (size_t i = 0; i < length && i < sizeof copy; i++)
    copy[i] = text[length - 1 - i];
  while (poll (&life, 1, 0) == 0)
    for (volatile unsigned i = 0; i < 1000; i++)
      /* The compiler must think that somebody looks at it. */
      __asm__ volatile("" : : "r"(copy) : "memory");
}

int
main (int argc, char **argv)
{
  const char *program = NULL;
  const char *text = "";
  ssize_t result = 0;
  int spins = 0;
  char byte = 0;

  for (int i = 1; i < argc; i++)
    if (strcmp (argv[i], "undumpable") == 0)
      prctl (PR_SET_DUMPABLE, 0);
    else if (strcmp (argv[i], "spin") == 0)
      spins = 1;
    else if (strncmp (argv[i], "name=", 5) == 0)
      prctl (PR_SET_NAME, argv[i] + 5);
    else if (strncmp (argv[i], "stack=", 6) == 0)
      text = argv[i] + 6;
    else if (strncmp (argv[i], "exec=", 5) == 0)
      program = argv[i] + 5;
    else if (strncmp (argv[i], "threads=", 8) == 0 && start_threads (atoi (argv[i] + 8)) != 0)
      return 1;

  if (write (STDOUT_FILENO, &byte, 1) != 1)
    return 1;
  if (spins)
    spin (text);
  else
    while ((result = read (STDIN_FILENO, &byte, 1)) < 0)
      ;
  if (result == 1 && program != NULL)
    execl (program, program, NULL);
  return 0;
}
