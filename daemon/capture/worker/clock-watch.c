/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/worker/clock-watch.h"

#include <errno.h>
#include <glib-unix.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

#define SLEEP_NS 10000000 /* less is not worth a word: two clocks are not read at one moment */
#define STEP_NS  100000   /* the same */
#define FAR_S    G_MAXUINT32

struct SondeClockWatch
{
  void (*tell) (const char *text, gpointer user_data);
  gpointer user_data;
  SondeClocks last;
  int fd; /* a timer that never ends, but is cancelled when the clock is set; -1: cannot be had */
  guint source;
};

static gint64
read_clock (clockid_t id)
{
  struct timespec now;

  clock_gettime (id, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

void
sonde_clocks_read (SondeClocks *clocks)
{
  clocks->monotonic_ns = read_clock (CLOCK_MONOTONIC);
  clocks->boottime_ns = read_clock (CLOCK_BOOTTIME);
  clocks->realtime_ns = read_clock (CLOCK_REALTIME);
}

static double
seconds (gint64 ns)
{
  return (double) ns / 1e9;
}

char *
sonde_clocks_describe (const SondeClocks *before, const SondeClocks *now, gboolean was_set)
{
  gint64 slept_ns
      = (now->boottime_ns - now->monotonic_ns) - (before->boottime_ns - before->monotonic_ns);

  gint64 step_ns
      = (now->realtime_ns - now->boottime_ns) - (before->realtime_ns - before->boottime_ns);

  if (was_set && ABS (step_ns) < STEP_NS)
    return NULL;
  if (was_set)
    return g_strdup_printf (
        "The wall clock was set: it was %.6f s ahead of the clock of this capture, and is %.6f s",
        seconds (before->realtime_ns - before->boottime_ns)
            + seconds (now->boottime_ns - now->monotonic_ns),
        seconds (now->realtime_ns - now->monotonic_ns));
  if (slept_ns >= SLEEP_NS)
    return g_strdup_printf (
        "The machine slept for %.3f s between %.3f s and %.3f s, which the clock "
        "of this capture does not count",
        seconds (slept_ns), seconds (before->monotonic_ns), seconds (now->monotonic_ns));
  return NULL;
}

static void
compare (SondeClockWatch *self, gboolean was_set)
{
  SondeClocks now;
  g_autofree char *slept = NULL;
  g_autofree char *set = NULL;

  sonde_clocks_read (&now);
  slept = sonde_clocks_describe (&self->last, &now, FALSE);
  if (slept != NULL)
    self->tell (slept, self->user_data);
  if (was_set && (set = sonde_clocks_describe (&self->last, &now, TRUE)) != NULL)
    self->tell (set, self->user_data);
  self->last = now;
}

static gboolean
on_timer (int fd, GIOCondition condition, gpointer user_data)
{
  SondeClockWatch *self = user_data;
  uint64_t n_expired;

  if (read (fd, &n_expired, sizeof n_expired) < 0 && errno == ECANCELED)
    compare (self, TRUE);
  return G_SOURCE_CONTINUE;
}

SondeClockWatch *
sonde_clock_watch_new (void (*tell) (const char *text, gpointer user_data), gpointer user_data)
{
  struct itimerspec far = { .it_value.tv_sec = FAR_S };
  SondeClockWatch *self = g_new0 (SondeClockWatch, 1);

  self->tell = tell;
  self->user_data = user_data;
  sonde_clocks_read (&self->last);
  self->fd = timerfd_create (CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (self->fd >= 0
      && timerfd_settime (self->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL) == 0)
    self->source = g_unix_fd_add (self->fd, G_IO_IN, on_timer, self);
  return self;
}

void
sonde_clock_watch_free (SondeClockWatch *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->source, g_source_remove);
  sonde_clear_fd (&self->fd);
  g_free (self);
}

void
sonde_clock_watch_look (SondeClockWatch *self)
{
  compare (self, FALSE);
}
