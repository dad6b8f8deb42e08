/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/progress.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/base/text.h"

#define PATIENCE_US     G_USEC_PER_SEC
#define INTERVAL_US     (G_USEC_PER_SEC / 5)
#define DEFAULT_COLUMNS 80

struct SondeProgress
{
  GThread *thread;
  GMutex lock; /* of what follows */
  GCond over;
  gboolean is_over;
  char *what;
  guint64 total;
  atomic_ullong done; /* alone: a number that is late does no harm */
};

/* One write, so that it does not mix with what others print. */
static void
print_line (const char *text)
{
  g_autofree char *line = g_strconcat ("\r\033[K", text, NULL);

  (void) !write (STDERR_FILENO, line, strlen (line));
}

static gpointer
run (gpointer user_data)
{
  SondeProgress *self = user_data;
  gint64 next_us = g_get_monotonic_time () + PATIENCE_US;
  gboolean is_drawn = FALSE;

  g_mutex_lock (&self->lock);
  while (!self->is_over)
    {
      struct winsize size = { 0 };
      guint64 done;
      g_autofree char *text = NULL;
      g_autofree char *shown = NULL;

      if (g_cond_wait_until (&self->over, &self->lock, next_us))
        continue;
      /* A line that wraps could not be cleared. */
      done = atomic_load_explicit (&self->done, memory_order_relaxed);
      if (self->what != NULL)
        {
          if (self->total > 0)
            text = g_strdup_printf ("%3.0f%%  %s",
                                    sonde_text_percent (MIN (done, self->total), self->total),
                                    self->what);
          else
            text = g_strdup_printf ("%s ...", self->what);
          if (ioctl (STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
            size.ws_col = DEFAULT_COLUMNS;
          shown
              = g_utf8_substring (text, 0, MIN (g_utf8_strlen (text, -1), (glong) size.ws_col - 1));
          print_line (shown);
        }
      is_drawn = TRUE;
      next_us = g_get_monotonic_time () + INTERVAL_US;
    }
  g_mutex_unlock (&self->lock);
  if (is_drawn)
    print_line ("");
  return NULL;
}

SondeProgress *
sonde_progress_new (void)
{
  SondeProgress *self;

  if (!isatty (STDERR_FILENO) || g_strcmp0 (g_getenv ("TERM"), "dumb") == 0)
    return NULL;
  self = g_new0 (SondeProgress, 1);
  g_mutex_init (&self->lock);
  g_cond_init (&self->over);
  self->thread = g_thread_new ("progress", run, self);
  return self;
}

void
sonde_progress_free (SondeProgress *self)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->is_over = TRUE;
  g_cond_signal (&self->over);
  g_mutex_unlock (&self->lock);
  g_thread_join (self->thread);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->over);
  g_free (self->what);
  g_free (self);
}

void
sonde_progress_begin (SondeProgress *self, const char *what, guint64 total)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  g_free (self->what);
  self->what = g_strdup (what);
  self->total = total;
  atomic_store_explicit (&self->done, 0, memory_order_relaxed);
  g_mutex_unlock (&self->lock);
}

void
sonde_progress_set (SondeProgress *self, guint64 done)
{
  if (self != NULL)
    atomic_store_explicit (&self->done, done, memory_order_relaxed);
}
