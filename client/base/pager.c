/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/pager.h"

#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/base/cli.h"

enum
{
  EXIT_CANNOT_RUN = 126, /* of sh: what it was to run is no program, */
  EXIT_NOT_FOUND = 127,  /* or is not there */
};

gboolean
sonde_pager_wants_colours (void)
{
  const char *no_color = g_getenv ("NO_COLOR");

  return isatty (STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0')
         && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0;
}

guint
sonde_pager_n_columns (void)
{
  struct winsize size;

  return isatty (STDOUT_FILENO) && ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* NULL: none. */
static const char *
find_pager (void)
{
  const char *pager = g_getenv ("PAGER");

  if (!isatty (STDOUT_FILENO) || g_strcmp0 (g_getenv ("TERM"), "dumb") == 0)
    return NULL;
  if (pager == NULL)
    pager = "less";
  return pager[0] == '\0' || g_str_equal (pager, "cat") ? NULL : pager;
}

/* Whether there was a pager. One that is left before it has read all of it is no failure. */
static gboolean
show (const char *pager, const GString *text)
{
  struct sigaction ignore = { .sa_handler = SIG_IGN };
  struct sigaction old_pipe, old_interrupt;
  FILE *pipe = popen (pager, "we");
  int status;

  if (pipe == NULL)
    return FALSE;
  /* ^C is the pager's */
  sigaction (SIGPIPE, &ignore, &old_pipe);
  sigaction (SIGINT, &ignore, &old_interrupt);
  fwrite (text->str, 1, text->len, pipe);
  status = pclose (pipe);
  sigaction (SIGPIPE, &old_pipe, NULL);
  sigaction (SIGINT, &old_interrupt, NULL);
  return !(WIFEXITED (status)
           && (WEXITSTATUS (status) == EXIT_NOT_FOUND || WEXITSTATUS (status) == EXIT_CANNOT_RUN));
}

gboolean
sonde_pager_print (const GString *text)
{
  const char *pager = find_pager ();

  if (pager == NULL)
    return sonde_cli_print (text);
  g_setenv ("LESS", "FRX", FALSE); /* end at once if it fits, show colours, leave the text there */
  return show (pager, text) || sonde_cli_print (text);
}
