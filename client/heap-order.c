/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts the heap events of a capture in order of time. */
#include "client/heap-order.h"

#include <string.h>

#define CAPACITY (2 * SONDE_HEAP_ORDER_WINDOW)

struct SondeHeapOrder
{
  SondeHeapEventFunc func;
  gpointer user_data;
  GArray *events;   /* SondeHeapEvent, at most CAPACITY */
  GArray *scratch;  /* as long as events when they are sorted */
  GArray *runs;     /* guint32: where each ascending run begins, and the end */
  gint64 newest_ns; /* of what was handed on */
  guint64 n_late;
};

SondeHeapOrder *
sonde_heap_order_new (SondeHeapEventFunc func, gpointer user_data)
{
  SondeHeapOrder *self = g_new0 (SondeHeapOrder, 1);

  self->func = func;
  self->user_data = user_data;
  self->events = g_array_new (FALSE, FALSE, sizeof (SondeHeapEvent));
  self->scratch = g_array_new (FALSE, FALSE, sizeof (SondeHeapEvent));
  self->runs = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->newest_ns = G_MININT64;
  return self;
}

void
sonde_heap_order_free (SondeHeapOrder *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->events);
  g_array_unref (self->scratch);
  g_array_unref (self->runs);
  g_free (self);
}

/* A ring that was emptied is an ascending run. */
static void
find_runs (SondeHeapOrder *self)
{
  const SondeHeapEvent *events = (const SondeHeapEvent *) (void *) self->events->data;
  guint32 end = self->events->len;
  guint32 start = 0;

  g_array_set_size (self->runs, 0);
  g_array_append_val (self->runs, start);
  for (guint32 i = 1; i < end; i++)
    if (events[i].time_ns < events[i - 1].time_ns)
      g_array_append_val (self->runs, i);
  g_array_append_val (self->runs, end);
}

/* The second run's events stay behind equal ones of the first. */
static void
merge (const SondeHeapEvent *from, SondeHeapEvent *to, guint32 start, guint32 middle, guint32 end)
{
  guint32 left = start;
  guint32 right = middle;

  for (guint32 at = start; at < end; at++)
    if (left < middle && (right >= end || from[left].time_ns <= from[right].time_ns))
      to[at] = from[left++];
    else
      to[at] = from[right++];
}

/* One pass of a natural merge sort: each two neighbours become one run. */
static void
merge_runs (SondeHeapOrder *self)
{
  const SondeHeapEvent *from = (const SondeHeapEvent *) (void *) self->events->data;
  SondeHeapEvent *to;
  guint32 *runs = (guint32 *) (void *) self->runs->data;
  guint n_runs = self->runs->len - 1;
  guint n_merged = 0;
  GArray *swapped;

  g_array_set_size (self->scratch, self->events->len);
  to = (SondeHeapEvent *) (void *) self->scratch->data;
  for (guint i = 0; i < n_runs; i += 2)
    {
      guint32 end = runs[MIN (i + 2, n_runs)];

      merge (from, to, runs[i], runs[i + 1], end);
      runs[n_merged++] = runs[i];
    }
  runs[n_merged] = self->events->len;
  g_array_set_size (self->runs, n_merged + 1);

  swapped = self->events;
  self->events = self->scratch;
  self->scratch = swapped;
}

static void
hand_on (SondeHeapOrder *self, guint n)
{
  if (n == 0)
    return;
  find_runs (self);
  while (self->runs->len > 2)
    merge_runs (self);

  for (guint i = 0; i < n; i++)
    {
      const SondeHeapEvent *event = &g_array_index (self->events, SondeHeapEvent, i);

      if (event->time_ns < self->newest_ns)
        self->n_late++;
      self->newest_ns = MAX (self->newest_ns, event->time_ns);
      self->func (event, self->user_data);
    }
  g_array_remove_range (self->events, 0, n);
}

void
sonde_heap_order_add (SondeHeapOrder *self, const SondeHeapEvent *event)
{
  g_array_append_vals (self->events, event, 1);
  if (self->events->len == CAPACITY)
    hand_on (self, CAPACITY - SONDE_HEAP_ORDER_WINDOW);
}

void
sonde_heap_order_flush (SondeHeapOrder *self)
{
  hand_on (self, self->events->len);
}

guint64
sonde_heap_order_n_late (const SondeHeapOrder *self)
{
  return self->n_late;
}
