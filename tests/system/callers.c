/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls its functions a number of times, which it is built to have counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT __attribute__ ((noinline))
#ifdef __clang__
#define HIDDEN __attribute__ ((no_instrument_function, xray_never_instrument))
#else
#define HIDDEN __attribute__ ((no_instrument_function, patchable_function_entry (0, 0)))
#endif

static volatile unsigned work;

static KEPT void
leaf (unsigned value)
{
  work = work + value;
}

static KEPT void
outer (unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    leaf (i);
}

/* As long as a slow call. */
static KEPT void
nap (void)
{
  usleep (20000);
}

/* As often as each line says. */
static KEPT void
serve (void)
{
  char line[32];

  while (fgets (line, sizeof line, stdin) != NULL)
    {
      outer ((unsigned) strtoul (line, NULL, 10));
      puts ("ok");
      fflush (stdout);
    }
}

/* Until it is killed. */
static KEPT void
stay (void)
{
  puts ("stays");
  fflush (stdout);
  for (;;)
    pause ();
}

/* callers N [fork | exec | nap | serve | serve-closed | stay] */
HIDDEN int
main (int argc, char **argv)
{
  unsigned n = argc > 1 ? (unsigned) strtoul (argv[1], NULL, 10) : 0;
  const char *then = argc > 2 ? argv[2] : "";
  pid_t child;

  outer (n);
  if (strcmp (then, "stay") == 0)
    stay ();
  if (strcmp (then, "serve-closed") == 0)
    closefrom (STDERR_FILENO + 1);
  if (strncmp (then, "serve", strlen ("serve")) == 0)
    serve ();
  for (unsigned i = 0; i < 3 && strcmp (then, "nap") == 0; i++)
    nap ();
  if (strcmp (then, "exec") == 0)
    {
      execl (argv[0], argv[0], "7", NULL);
      return 1;
    }
  if (strcmp (then, "fork") != 0)
    return 0;
  child = fork ();
  if (child == 0)
    {
      outer (5);
      _exit (0);
    }
  return child < 0 || waitpid (child, NULL, 0) != child;
}
