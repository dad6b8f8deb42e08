/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The live view's terminal: a pseudo terminal, whose other end types, and takes what it likes. */
#include <fcntl.h>
#include <pty.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/top/top-terminal.h"

#define DEADLINE_US (60 * G_USEC_PER_SEC)

/* Standard input and output are a pseudo terminal for as long as it is open. */
typedef struct
{
  int other_end;
  int saved[2];
} Tty;

/* FALSE, and the case is skipped: no devpts is mounted. */
static gboolean
tty_open (Tty *self)
{
  struct winsize size = { .ws_row = 50, .ws_col = 200 };
  sonde_autofd int ours = -1;

  if (openpty (&self->other_end, &ours, NULL, NULL, &size) < 0)
    {
      g_test_skip ("no pseudo terminal can be had here");
      return FALSE;
    }
  for (int fd = 0; fd < 2; fd++)
    {
      self->saved[fd] = fcntl (fd, F_DUPFD_CLOEXEC, 3);
      g_assert_no_errno (dup2 (ours, fd));
    }
  return TRUE;
}

static void
tty_close (Tty *self)
{
  for (int fd = 0; fd < 2; fd++)
    {
      dup2 (self->saved[fd], fd);
      close (self->saved[fd]);
    }
  close (self->other_end);
}

typedef struct
{
  GString *keys;
  guint n_changed;
} Told;

static void
note_key (guint key, gpointer user_data)
{
  Told *told = user_data;

  g_string_append_unichar (told->keys, key);
}

static void
note_change (gpointer user_data)
{
  Told *told = user_data;

  told->n_changed++;
}

static const SondeTopTerminalHandler handler = { note_key, note_change };

static SondeTopTerminal *
open_terminal (Told *told)
{
  g_autoptr (GError) error = NULL;
  SondeTopTerminal *terminal = sonde_top_terminal_new (FALSE, &handler, told, &error);

  g_assert_no_error (error);
  return terminal;
}

static void
type (const Tty *tty, const char *text)
{
  g_assert_cmpint (write (tty->other_end, text, strlen (text)), ==, (gssize) strlen (text));
}

static void
tell_all (void)
{
  while (g_main_context_pending (NULL))
    g_main_context_iteration (NULL, FALSE);
}

static void
test_keys_are_told_in_order (void)
{
  g_autoptr (GString) keys = g_string_new (NULL);
  g_autoptr (SondeTopTerminal) terminal = NULL;
  Told told = { .keys = keys };
  Tty tty;

  if (!tty_open (&tty))
    return;
  terminal = open_terminal (&told);
  type (&tty, "abc");
  while (keys->len < 3)
    g_main_context_iteration (NULL, TRUE);
  g_clear_pointer (&terminal, sonde_top_terminal_free);
  tty_close (&tty);
  g_assert_cmpstr (keys->str, ==, "abc");
}

/* Who frees the terminal may be gone when the main context looks again. */
static void
test_nobody_is_told_after_the_end (void)
{
  g_autoptr (GString) keys = g_string_new (NULL);
  g_autoptr (SondeTopTerminal) terminal = NULL;
  Told told = { .keys = keys };
  gint64 end_us = g_get_monotonic_time () + DEADLINE_US;
  gboolean was_pending;
  Tty tty;

  if (!tty_open (&tty))
    return;
  terminal = open_terminal (&told);
  tell_all ();
  type (&tty, "abc");
  while (!(was_pending = g_main_context_pending (NULL)) && g_get_monotonic_time () < end_us)
    g_thread_yield ();
  g_clear_pointer (&terminal, sonde_top_terminal_free);
  told.n_changed = 0;
  tell_all ();
  tty_close (&tty);
  g_assert_true (was_pending);
  g_assert_cmpstr (keys->str, ==, "");
  g_assert_cmpuint (told.n_changed, ==, 0);
}

int
main (int argc, char **argv)
{
  g_setenv ("TERM", "linux", TRUE);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/top-terminal/keys-are-told-in-order", test_keys_are_told_in_order);
  g_test_add_func ("/top-terminal/nobody-is-told-after-the-end", test_nobody_is_told_after_the_end);
  return g_test_run ();
}
