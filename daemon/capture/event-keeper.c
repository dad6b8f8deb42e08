/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of a session, kept open for all of its life. */
#include "daemon/capture/event-keeper.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/fd.h"

#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4) /* Linux 6.0 */
#endif
#define MAX_READ_VALUES 5 /* value, two times, id, lost */

typedef struct
{
  int fd;
  int whole_cpu; /* -1: of a task */
  gboolean samples;
  gboolean waits_for_exec;
  guint64 n_lost; /* as last read */
} Event;

struct SondeEventKeeper
{
  guint64 read_format;
  GArray *events;
  gboolean is_off;      /* sonde_event_keeper_enable() with FALSE */
  gboolean has_waiting; /* and no exec was seen */
  guint next;           /* to be read */
  guint64 n_lost;
};

static void
event_clear (gpointer data)
{
  Event *event = data;

  sonde_clear_fd (&event->fd);
}

SondeEventKeeper *
sonde_event_keeper_new (guint64 read_format)
{
  SondeEventKeeper *self = g_new0 (SondeEventKeeper, 1);

  self->read_format = read_format;
  self->events = g_array_new (FALSE, FALSE, sizeof (Event));
  g_array_set_clear_func (self->events, event_clear);

  return self;
}

void
sonde_event_keeper_free (SondeEventKeeper *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->events);
  g_free (self);
}

void
sonde_event_keeper_enable (SondeEventKeeper *self, gboolean enable)
{
  unsigned long request = enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

  /* Fails for nothing but a descriptor that is no event; its absence shows in the samples. */
  self->is_off = !enable;
  for (guint i = 0; i < self->events->len; i++)
    {
      const Event *event = &g_array_index (self->events, Event, i);

      if (!event->waits_for_exec || !enable)
        (void) ioctl (event->fd, request, 0);
    }
}

void
sonde_event_keeper_exec_seen (SondeEventKeeper *self)
{
  if (!self->has_waiting)
    return;
  self->has_waiting = FALSE;
  for (guint i = 0; i < self->events->len; i++)
    g_array_index (self->events, Event, i).waits_for_exec = FALSE;
  if (self->is_off)
    sonde_event_keeper_enable (self, FALSE);
}

gboolean
sonde_event_keeper_counts_lost (const SondeEventKeeper *self)
{
  return (self->read_format & PERF_FORMAT_LOST) != 0
         && (self->read_format & PERF_FORMAT_GROUP) == 0;
}

static void
read_event (SondeEventKeeper *self, Event *event)
{
  const guint64 before
      = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID;
  gsize at = 1 + (gsize) __builtin_popcountll (self->read_format & before);
  guint64 values[MAX_READ_VALUES];
  gssize size_bytes = read (event->fd, values, sizeof values);

  if (size_bytes < (gssize) ((at + 1) * sizeof values[0]) || values[at] <= event->n_lost)
    return;
  self->n_lost += values[at] - event->n_lost;
  event->n_lost = values[at];
}

static Event *
find_predecessor (SondeEventKeeper *self, const Event *event)
{
  for (guint i = 0; i < self->events->len && event->whole_cpu >= 0; i++)
    {
      Event *other = &g_array_index (self->events, Event, i);

      if (other->whole_cpu == event->whole_cpu && other->samples == event->samples)
        return other;
    }
  return NULL;
}

gboolean
sonde_event_keeper_add (SondeEventKeeper *self, const SondeMessageEvent *message, int fd)
{
  Event event = { .fd = fd,
                  .whole_cpu = message->tid < 0 ? message->cpu : -1,
                  .samples = message->kind == SONDE_EVENT_SAMPLES,
                  .waits_for_exec = (message->flags & SONDE_EVENT_ON_EXEC) != 0 };
  Event *predecessor = find_predecessor (self, &event);

  if (predecessor == NULL && self->events->len >= SONDE_EVENT_KEEPER_MAX)
    {
      close (fd);
      return FALSE;
    }
  /* Control enables what it opens, and may not know yet that all is off. */
  if (self->is_off)
    (void) ioctl (fd, PERF_EVENT_IOC_DISABLE, 0);
  self->has_waiting = self->has_waiting || event.waits_for_exec;
  if (predecessor == NULL)
    g_array_append_val (self->events, event);
  else
    {
      if (event.samples && sonde_event_keeper_counts_lost (self))
        read_event (self, predecessor);
      event_clear (predecessor);
      *predecessor = event;
    }

  return TRUE;
}

guint64
sonde_event_keeper_read_lost (SondeEventKeeper *self, guint budget)
{
  if (!sonde_event_keeper_counts_lost (self))
    return 0;

  for (guint i = MIN (budget, self->events->len); i > 0; i--)
    {
      Event *event = &g_array_index (self->events, Event, self->next);

      self->next = (self->next + 1) % self->events->len;
      if (event->samples)
        read_event (self, event);
    }

  return self->n_lost;
}
