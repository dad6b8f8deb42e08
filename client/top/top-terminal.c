/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-terminal.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/fd.h"
#include "client/top/top-view.h"

#define ESCAPE_MS   25 /* until an ESC is the key and not the beginning of another one */
#define LEAVE_US    G_USEC_PER_SEC
#define FLUSH_US    (G_USEC_PER_SEC / 20)
#define N_FLUSHES   20
#define CONTROL(c)  ((c) &0x1f)
#define KEY_DELETED 0x7f

/* Letters of the pipe that wakes the thread; also done to let it leave. */
enum
{
  WAKE_PAGE = 'p',
  WAKE_RESIZED = 'w',
  WAKE_STOP = 't',
  WAKE_CONTINUED = 'c',
};

struct SondeTopTerminal
{
  const SondeTopTerminalHandler *handler;
  gpointer user_data;
  SCREEN *screen;
  struct termios saved;
  gboolean with_colours;
  struct sigaction old_stop, old_continue, old_resize;
  GThread *thread;
  int wake_fds[2];
  int told_fds[2];   /* guint: a key, or 0: changed; for the main context */
  guint told_source; /* gone once freed: then nobody is told any more */
  int is_leaving;    /* atomic: what else there is to do is left undone */

  GMutex lock; /* of what follows */
  GCond left;
  gboolean has_left;
  SondeTopPage *page; /* to be drawn next; NULL: none */
  guint n_lines;
  guint n_columns;
};

/* A handler of signals gets no argument: the one terminal's pipe, or -1. */
static volatile int signal_fd = -1;

static void
wake (int fd, char letter)
{
  gssize n;

  /* full: then it wakes up anyway */
  do
    n = write (fd, &letter, 1);
  while (n < 0 && errno == EINTR);
}

static void
on_signal (int signal_number)
{
  int saved_errno = errno;

  if (signal_number == SIGTSTP)
    wake (signal_fd, WAKE_STOP);
  else
    wake (signal_fd, signal_number == SIGCONT ? WAKE_CONTINUED : WAKE_RESIZED);
  errno = saved_errno;
}

static gboolean
deliver (gint fd, GIOCondition condition, gpointer user_data)
{
  const SondeTopTerminal *self = user_data;
  guint key;

  /* one at a time: the handler may free us */
  if (read (fd, &key, sizeof key) != (gssize) sizeof key)
    return G_SOURCE_CONTINUE;
  if (key != 0)
    self->handler->pressed (key, self->user_data);
  else
    self->handler->changed (self->user_data);
  return G_SOURCE_CONTINUE;
}

/* Who types 16,000 keys ahead loses the next ones. */
static void
tell (const SondeTopTerminal *self, guint key)
{
  gssize n;

  do
    n = write (self->told_fds[1], &key, sizeof key);
  while (n < 0 && errno == EINTR);
}

/* Attributes of a style; colours are none without them. */
static attr_t
attributes_of (const SondeTopTerminal *self, SondeTopStyle style)
{
  switch (style)
    {
    case SONDE_TOP_TITLE:
      return A_BOLD;
    case SONDE_TOP_BAR:
    case SONDE_TOP_CURSOR:
      return A_REVERSE;
    case SONDE_TOP_ALERT:
      return self->with_colours ? A_BOLD | (attr_t) COLOR_PAIR (1) : A_BOLD;
    case SONDE_TOP_HOT:
      return self->with_colours ? (attr_t) COLOR_PAIR (1) : A_BOLD;
    case SONDE_TOP_WARM:
      return self->with_colours ? (attr_t) COLOR_PAIR (2) : A_NORMAL;
    case SONDE_TOP_FAINT:
      return self->with_colours ? (attr_t) COLOR_PAIR (3) : A_NORMAL;
    case SONDE_TOP_PLAIN:
    case SONDE_TOP_N_STYLES:
    default:
      return A_NORMAL;
    }
}

static void
draw (SondeTopTerminal *self, const SondeTopPage *page)
{
  erase ();
  for (guint i = 0; i < page->n_lines; i++)
    {
      const GArray *spans = page->lines[i].spans;

      move ((int) i, 0);
      for (guint k = 0; k < spans->len; k++)
        {
          const SondeTopSpan *span = &g_array_index (spans, SondeTopSpan, k);

          attrset ((int) attributes_of (self, span->style));
          addstr (span->text);
        }
    }
  attrset (A_NORMAL);
  if (page->caret_line >= 0)
    move (page->caret_line, page->caret_column);
  curs_set (page->caret_line >= 0);
  refresh ();
}

static void
measure (SondeTopTerminal *self)
{
  struct winsize size;

  if (ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    resizeterm (size.ws_row, size.ws_col);
  g_mutex_lock (&self->lock);
  self->n_lines = (guint) LINES;
  self->n_columns = (guint) COLS;
  g_mutex_unlock (&self->lock);
}

/* Somebody else may have drawn meanwhile, and changed the terminal's modes and size. */
static void
begin_again (SondeTopTerminal *self)
{
  reset_prog_mode ();
  measure (self);
  clearok (curscr, TRUE);
  refresh ();
  tell (self, 0);
}

/* As the terminal's own ^Z would, but the terminal is restored first. */
static void
stop (SondeTopTerminal *self)
{
  endwin ();
  raise (SIGSTOP);
  begin_again (self);
}

static guint
translate (int result, wint_t key)
{
  if (result != KEY_CODE_YES)
    switch (key)
      {
      case '\r':
      case '\n':
        return SONDE_TOP_KEY_ENTER;
      case CONTROL ('h'):
      case KEY_DELETED:
        return SONDE_TOP_KEY_BACKSPACE;
      case CONTROL ('['):
        return SONDE_TOP_KEY_ESCAPE;
      case CONTROL ('c'):
        return 'q';
      default:
        return key;
      }
  switch (key)
    {
    case KEY_UP:
      return SONDE_TOP_KEY_UP;
    case KEY_DOWN:
      return SONDE_TOP_KEY_DOWN;
    case KEY_LEFT:
      return SONDE_TOP_KEY_LEFT;
    case KEY_RIGHT:
      return SONDE_TOP_KEY_RIGHT;
    case KEY_PPAGE:
      return SONDE_TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
      return SONDE_TOP_KEY_PAGE_DOWN;
    case KEY_HOME:
      return SONDE_TOP_KEY_HOME;
    case KEY_END:
      return SONDE_TOP_KEY_END;
    case KEY_ENTER:
      return SONDE_TOP_KEY_ENTER;
    case KEY_BACKSPACE:
      return SONDE_TOP_KEY_BACKSPACE;
    default:
      return 0;
    }
}

static void
take_keys (SondeTopTerminal *self)
{
  wint_t key;
  int result;

  while (!g_atomic_int_get (&self->is_leaving) && (result = get_wch (&key)) != ERR)
    {
      guint translated = translate (result, key);
      gboolean is_key = result == KEY_CODE_YES; /* which ^Z is, for some terminals */

      if (key == (is_key ? KEY_SUSPEND : CONTROL ('z')))
        stop (self);
      else if (key == (is_key ? KEY_REFRESH : CONTROL ('l')))
        begin_again (self);
      else if (translated != 0)
        tell (self, translated);
    }
}

static gpointer
run (gpointer user_data)
{
  SondeTopTerminal *self = user_data;
  struct pollfd fds[]
      = { { .fd = self->wake_fds[0], .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };

  while (!g_atomic_int_get (&self->is_leaving))
    {
      if (poll (fds, G_N_ELEMENTS (fds), -1) < 0)
        continue;
      if (fds[1].revents & POLLIN)
        take_keys (self);
      else if (fds[1].revents != 0)
        {
          tell (self, 'q'); /* nobody is there any more */
          fds[1].fd = -1;
        }
      if (fds[0].revents != 0)
        {
          char letters[64];
          gssize n = read (self->wake_fds[0], letters, sizeof letters);

          for (gssize i = 0; i < n && !g_atomic_int_get (&self->is_leaving); i++)
            switch (letters[i])
              {
              case WAKE_STOP:
                stop (self);
                break;
              case WAKE_CONTINUED:
                begin_again (self);
                break;
              case WAKE_RESIZED:
                measure (self);
                tell (self, 0);
                break;
              default:
                {
                  g_autoptr (SondeTopPage) page = NULL;

                  g_mutex_lock (&self->lock);
                  page = g_steal_pointer (&self->page);
                  g_mutex_unlock (&self->lock);
                  if (page != NULL)
                    draw (self, page);
                }
                break;
              }
        }
    }
  curs_set (1);
  endwin ();
  g_mutex_lock (&self->lock);
  self->has_left = TRUE;
  g_cond_signal (&self->left);
  g_mutex_unlock (&self->lock);
  return NULL;
}

static void
watch_signals (SondeTopTerminal *self)
{
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

  signal_fd = self->wake_fds[1];
  sigaction (SIGTSTP, &action, &self->old_stop);
  sigaction (SIGCONT, &action, &self->old_continue);
  sigaction (SIGWINCH, &action, &self->old_resize);
}

static gboolean
open_pipe (int fds[2], GError **error)
{
  return g_unix_open_pipe (fds, FD_CLOEXEC, error)
         && g_unix_set_fd_nonblocking (fds[0], TRUE, error)
         && g_unix_set_fd_nonblocking (fds[1], TRUE, error);
}

SondeTopTerminal *
sonde_top_terminal_new (gboolean with_colours,
                        const SondeTopTerminalHandler *handler,
                        gpointer user_data,
                        GError **error)
{
  SondeTopTerminal *self = g_new0 (SondeTopTerminal, 1);

  self->handler = handler;
  self->user_data = user_data;
  self->with_colours = with_colours;
  g_mutex_init (&self->lock);
  g_cond_init (&self->left);
  self->wake_fds[0] = self->wake_fds[1] = -1;
  self->told_fds[0] = self->told_fds[1] = -1;
  if (open_pipe (self->wake_fds, error) && open_pipe (self->told_fds, error))
    {
      self->told_source = g_unix_fd_add (self->told_fds[0], G_IO_IN, deliver, self);
      tcgetattr (STDIN_FILENO, &self->saved);
      /* before it: then it leaves these signals to us */
      watch_signals (self);
      self->screen = newterm (NULL, stdout, stdin);
      if (self->screen == NULL)
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                     "The terminal %s is not known or cannot do what is needed; with --count N "
                     "there is plain text",
                     g_getenv ("TERM") != NULL ? g_getenv ("TERM") : "(TERM is not set)");
    }
  if (self->screen == NULL)
    {
      sonde_top_terminal_free (self);
      return NULL;
    }
  raw ();
  noecho ();
  nonl ();
  keypad (stdscr, TRUE);
  nodelay (stdscr, TRUE);
  intrflush (stdscr, FALSE);
  set_escdelay (ESCAPE_MS);
  self->with_colours
      = self->with_colours && has_colors () && start_color () == OK && use_default_colors () == OK;
  if (self->with_colours)
    {
      init_pair (1, COLOR_RED, -1);
      init_pair (2, COLOR_GREEN, -1);
      init_pair (3, COLOR_CYAN, -1);
    }
  curs_set (0);
  measure (self);
  self->thread = g_thread_new ("terminal", run, self);
  return self;
}

/* Whether the thread has restored the terminal in time. */
static gboolean
wait_left (SondeTopTerminal *self, gint64 patience_us)
{
  gint64 end_us = g_get_monotonic_time () + patience_us;
  gboolean has_left;

  g_mutex_lock (&self->lock);
  while (!self->has_left && g_cond_wait_until (&self->left, &self->lock, end_us))
    ;
  has_left = self->has_left;
  g_mutex_unlock (&self->lock);
  return has_left;
}

void
sonde_top_terminal_free (SondeTopTerminal *self)
{
  gboolean has_left;

  if (self == NULL)
    return;
  g_clear_handle_id (&self->told_source, g_source_remove);
  if (self->thread != NULL)
    {
      g_atomic_int_set (&self->is_leaving, TRUE);
      wake (self->wake_fds[1], WAKE_PAGE);
      /* A terminal that takes nothing keeps the thread: what it waits for is thrown away, and so is
       * what it writes next. */
      has_left = wait_left (self, LEAVE_US);
      for (guint i = 0; i < N_FLUSHES && !has_left; i++)
        {
          tcflush (STDOUT_FILENO, TCOFLUSH);
          has_left = wait_left (self, FLUSH_US);
        }
      if (!has_left)
        {
          sonde_autofd int null = open ("/dev/null", O_RDWR | O_CLOEXEC);

          /* The thread may get on at any moment, and must not touch the terminal any more. Nor must
           * a last message of ours wait for it. */
          for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && null >= 0; fd++)
            if (isatty (fd))
              dup2 (null, fd);
          tcsetattr (STDIN_FILENO, TCSANOW, &self->saved);
          return; /* it still has everything; the process ends with it */
        }
      g_thread_join (self->thread);
    }
  if (signal_fd >= 0)
    {
      sigaction (SIGTSTP, &self->old_stop, NULL);
      sigaction (SIGCONT, &self->old_continue, NULL);
      sigaction (SIGWINCH, &self->old_resize, NULL);
      signal_fd = -1;
    }
  if (self->screen != NULL)
    delscreen (self->screen);
  sonde_clear_fd (&self->wake_fds[0]);
  sonde_clear_fd (&self->wake_fds[1]);
  sonde_clear_fd (&self->told_fds[0]);
  sonde_clear_fd (&self->told_fds[1]);
  g_clear_pointer (&self->page, sonde_top_page_free);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->left);
  g_free (self);
}

guint
sonde_top_terminal_n_lines (SondeTopTerminal *self)
{
  guint n;

  g_mutex_lock (&self->lock);
  n = self->n_lines;
  g_mutex_unlock (&self->lock);
  return n;
}

guint
sonde_top_terminal_n_columns (SondeTopTerminal *self)
{
  guint n;

  g_mutex_lock (&self->lock);
  n = self->n_columns;
  g_mutex_unlock (&self->lock);
  return n;
}

void
sonde_top_terminal_show (SondeTopTerminal *self, SondeTopPage *page)
{
  g_mutex_lock (&self->lock);
  g_clear_pointer (&self->page, sonde_top_page_free);
  self->page = page;
  g_mutex_unlock (&self->lock);
  wake (self->wake_fds[1], WAKE_PAGE);
}
