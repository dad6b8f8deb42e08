/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/heap-summary.h"

#include <string.h>

typedef struct
{
  gint64 time_ns;
  guint64 address;
  gint64 size_bytes;
  guint64 number; /* in which order they came: a ring's frames are in order */
  gint32 pid;
  guint32 n_addrs;
} Event;

struct HeapEvents
{
  GArray *events; /* of Event */
};

HeapEvents *
heap_events_new (void)
{
  HeapEvents *self = g_new0 (HeapEvents, 1);

  self->events = g_array_new (FALSE, FALSE, sizeof (Event));
  return self;
}

void
heap_events_free (HeapEvents *self)
{
  g_array_unref (self->events);
  g_free (self);
}

void
heap_events_take (HeapEvents *self, const SondeFrame *frame)
{
  SondeFrameAllocation allocation;
  Event event;

  if (frame->type != SONDE_FRAME_ALLOCATION)
    return;
  memcpy (&allocation, frame, sizeof allocation);
  event = (Event){ allocation.frame.time_ns, allocation.address,   allocation.size_bytes,
                   self->events->len,        allocation.frame.pid, allocation.n_addrs };
  g_array_append_val (self->events, event);
}

static gint
compare (gconstpointer a, gconstpointer b)
{
  const Event *first = a;
  const Event *second = b;

  if (first->pid != second->pid)
    return first->pid < second->pid ? -1 : 1;
  if (first->time_ns != second->time_ns)
    return first->time_ns < second->time_ns ? -1 : 1;
  return first->number < second->number ? -1 : 1;
}

static void
add (HeapSummary *summary, GHashTable *sizes, const Event *event)
{
  gpointer key = GSIZE_TO_POINTER (event->address);
  gpointer old = NULL;

  summary->n_addrs += event->n_addrs;
  if (event->size_bytes > 0)
    {
      summary->n_twice += g_hash_table_contains (sizes, key);
      g_hash_table_insert (sizes, key, GSIZE_TO_POINTER (event->size_bytes));
      summary->n_allocations++;
      summary->n_live++;
      summary->allocated_bytes += (guint64) event->size_bytes;
      summary->live_bytes += (guint64) event->size_bytes;
      summary->peak_bytes = MAX (summary->peak_bytes, summary->live_bytes);
    }
  else if (g_hash_table_steal_extended (sizes, key, NULL, &old))
    {
      summary->n_frees++;
      summary->n_live--;
      summary->live_bytes -= GPOINTER_TO_SIZE (old);
    }
  else
    summary->n_unknown++;
}

void
heap_events_sum (HeapEvents *self, gint32 pid, HeapSummary *summary)
{
  g_autoptr (GHashTable) sizes = g_hash_table_new (NULL, NULL);
  gint32 last_pid = 0;

  *summary = (HeapSummary){ 0 };
  g_array_sort (self->events, compare);
  for (guint i = 0; i < self->events->len; i++)
    {
      const Event *event = &g_array_index (self->events, Event, i);

      if (pid != 0 && event->pid != pid)
        continue;
      if (event->pid != last_pid)
        g_hash_table_remove_all (sizes);
      last_pid = event->pid;
      add (summary, sizes, event);
    }
}
