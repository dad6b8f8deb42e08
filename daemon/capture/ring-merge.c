/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Brings the records of all rings into the order of time. */
#include "daemon/capture/ring-merge.h"

#include <errno.h>

typedef struct
{
  SondePerfRing *ring;
  unsigned kind;
  gboolean queued; /* its front record is in the heap */
  const struct perf_event_header *front;
  int64_t time_ns;   /* of the front */
  uint64_t foreseen; /* the end of what was looked at */
} Source;

struct SondeRingMerge
{
  SondeRingMergeHandler handler;
  gpointer user_data;
  GPtrArray *sources;
  Source **heap; /* room for all sources; the oldest front at 0 */
  guint n_heap;
  int64_t last_ns; /* of the youngest record handed on */
  guint64 n_late;
  guint64 n_handed_on;
};

static void
source_free (gpointer data)
{
  Source *source = data;

  sonde_perf_ring_close (source->ring);
  g_free (source);
}

SondeRingMerge *
sonde_ring_merge_new (const SondeRingMergeHandler *handler, gpointer user_data)
{
  SondeRingMerge *self = g_new0 (SondeRingMerge, 1);

  self->handler = *handler;
  self->user_data = user_data;
  self->sources = g_ptr_array_new_with_free_func (source_free);

  return self;
}

void
sonde_ring_merge_free (SondeRingMerge *self)
{
  if (self == NULL)
    return;

  g_ptr_array_unref (self->sources);
  g_free (self->heap);
  g_free (self);
}

void
sonde_ring_merge_add (SondeRingMerge *self, SondePerfRing *ring, unsigned kind)
{
  Source *source = g_new0 (Source, 1);

  source->ring = ring;
  source->kind = kind;
  g_ptr_array_add (self->sources, source);
  self->heap = g_renew (Source *, self->heap, self->sources->len);
}

static void
sift_down (SondeRingMerge *self)
{
  Source *moved = self->heap[0];
  guint at = 0;

  for (guint child = 1; child < self->n_heap; child = 2 * at + 1)
    {
      if (child + 1 < self->n_heap && self->heap[child + 1]->time_ns < self->heap[child]->time_ns)
        child++;
      if (moved->time_ns <= self->heap[child]->time_ns)
        break;
      self->heap[at] = self->heap[child];
      at = child;
    }
  self->heap[at] = moved;
}

static void
sift_up (SondeRingMerge *self, guint at)
{
  Source *moved = self->heap[at];

  while (at > 0 && moved->time_ns < self->heap[(at - 1) / 2]->time_ns)
    {
      self->heap[at] = self->heap[(at - 1) / 2];
      at = (at - 1) / 2;
    }
  self->heap[at] = moved;
}

/* Looks at the ring's front. A damaged ring was emptied, so this ends after one more look. */
static gboolean
load_front (SondeRingMerge *self, Source *source)
{
  int r = sonde_perf_ring_front (source->ring, &source->front);

  if (r == -EBADMSG)
    {
      self->handler.damaged (source->kind, self->user_data);
      r = sonde_perf_ring_front (source->ring, &source->front);
    }
  source->queued = r == 1;
  if (source->queued)
    source->time_ns = self->handler.time (source->front, self->user_data);

  return source->queued;
}

/* Returns whether some ring is more than half full. */
static gboolean
load_all (SondeRingMerge *self)
{
  gboolean pressed = FALSE;

  for (guint i = 0; i < self->sources->len; i++)
    {
      Source *source = g_ptr_array_index (self->sources, i);

      if (!source->queued && load_front (self, source))
        {
          self->heap[self->n_heap++] = source;
          sift_up (self, self->n_heap - 1);
        }
      if (sonde_perf_ring_fill (source->ring) > sonde_perf_ring_size (source->ring) / 2)
        pressed = TRUE;
    }

  return pressed;
}

static void
pop_oldest (SondeRingMerge *self)
{
  Source *source = self->heap[0];

  if (source->time_ns < self->last_ns)
    self->n_late++;
  else
    self->last_ns = source->time_ns;
  self->n_handed_on++;

  sonde_perf_ring_pop (source->ring);
  if (!load_front (self, source))
    self->heap[0] = self->heap[--self->n_heap];
  if (self->n_heap > 0)
    sift_down (self);
}

void
sonde_ring_merge_foresee (SondeRingMerge *self, unsigned kind, guint budget)
{
  const struct perf_event_header *record;

  for (guint i = 0; i < self->sources->len; i++)
    {
      Source *source = g_ptr_array_index (self->sources, i);

      while (source->kind == kind && budget > 0
             && sonde_perf_ring_peek (source->ring, &source->foreseen, &record))
        {
          budget--;
          self->handler.foreseen (record, self->user_data);
        }
    }
}

SondeRingMergeState
sonde_ring_merge_run (SondeRingMerge *self, int64_t now_ns, gboolean draining, guint budget)
{
  gboolean pressed = load_all (self);

  while (self->n_heap > 0)
    {
      const Source *oldest = self->heap[0];

      if (!draining && !pressed && oldest->time_ns > now_ns - SONDE_RING_MERGE_WINDOW_NS)
        return SONDE_RING_MERGE_YOUNG;
      if (budget-- == 0)
        return SONDE_RING_MERGE_BUDGET;
      if (self->handler.record (oldest->front, oldest->kind, pressed, self->user_data)
          == SONDE_RING_MERGE_WAIT)
        return SONDE_RING_MERGE_WAITING;
      pop_oldest (self);
    }

  return SONDE_RING_MERGE_EMPTY;
}

guint64
sonde_ring_merge_n_late (const SondeRingMerge *self)
{
  return self->n_late;
}

guint64
sonde_ring_merge_n_handed_on (const SondeRingMerge *self)
{
  return self->n_handed_on;
}

guint64
sonde_ring_merge_size (const SondeRingMerge *self)
{
  guint64 size_bytes = 0;

  for (guint i = 0; i < self->sources->len; i++)
    size_bytes
        += sonde_perf_ring_size (((const Source *) g_ptr_array_index (self->sources, i))->ring);

  return size_bytes;
}
