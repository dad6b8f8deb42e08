/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts frames of a capture in order of time. */
#include "client/heap/heap-order.h"

#define CAPACITY_BYTES (2 * SONDE_HEAP_ORDER_WINDOW_BYTES)
#define FORESEEN       8 /* frames: as long as memory takes to answer */

/* Where a frame is. */
typedef struct
{
  gint64 time_ns;
  guint32 offset; /* bytes into frames */
} Entry;

struct SondeHeapOrder
{
  SondeHeapFrameFunc func;
  SondeHeapFrameFunc foresee;
  gpointer user_data;
  GByteArray *frames; /* at most CAPACITY_BYTES, and a frame */
  GByteArray *spare;  /* empty */
  GArray *entries;    /* Entry */
  GArray *scratch;    /* as long as entries when they are sorted */
  GArray *runs;       /* guint32: where each ascending run begins, and the end */
  gint64 newest_ns;   /* of what was handed on */
  guint64 n_late;
};

SondeHeapOrder *
sonde_heap_order_new (SondeHeapFrameFunc func, SondeHeapFrameFunc foresee, gpointer user_data)
{
  SondeHeapOrder *self = g_new0 (SondeHeapOrder, 1);

  self->func = func;
  self->foresee = foresee;
  self->user_data = user_data;
  self->frames = g_byte_array_new ();
  self->spare = g_byte_array_new ();
  self->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  self->scratch = g_array_new (FALSE, FALSE, sizeof (Entry));
  self->runs = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->newest_ns = G_MININT64;
  return self;
}

void
sonde_heap_order_free (SondeHeapOrder *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->frames);
  g_byte_array_unref (self->spare);
  g_array_unref (self->entries);
  g_array_unref (self->scratch);
  g_array_unref (self->runs);
  g_free (self);
}

/* The second run's events stay behind equal ones of the first. */
static void
merge (const Entry *from, Entry *to, guint32 start, guint32 middle, guint32 end)
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
  const Entry *from = (const Entry *) (void *) self->entries->data;
  Entry *to;
  guint32 *runs = (guint32 *) (void *) self->runs->data;
  guint n_runs = self->runs->len - 1;
  guint n_merged = 0;
  GArray *swapped;

  g_array_set_size (self->scratch, self->entries->len);
  to = (Entry *) (void *) self->scratch->data;
  for (guint i = 0; i < n_runs; i += 2)
    {
      guint32 end = runs[MIN (i + 2, n_runs)];

      merge (from, to, runs[i], runs[i + 1], end);
      runs[n_merged++] = runs[i];
    }
  runs[n_merged] = self->entries->len;
  g_array_set_size (self->runs, n_merged + 1);

  swapped = self->entries;
  self->entries = self->scratch;
  self->scratch = swapped;
}

static const SondeFrame *
frame_at (const SondeHeapOrder *self, const Entry *entry)
{
  return (const SondeFrame *) (const void *) (self->frames->data + entry->offset);
}

/* Hands on the oldest frames, until no more than @keep_bytes are left. */
static void
hand_on (SondeHeapOrder *self, gsize keep_bytes)
{
  gsize left_bytes = self->frames->len;
  guint n = 0;
  const Entry *entries;
  guint32 end;
  guint32 start = 0;
  GByteArray *old;

  if (self->entries->len == 0)
    return;
  /* A ring that was emptied is an ascending run. */
  entries = (const Entry *) (void *) self->entries->data;
  end = self->entries->len;
  g_array_set_size (self->runs, 0);
  g_array_append_val (self->runs, start);
  for (guint32 i = 1; i < end; i++)
    if (entries[i].time_ns < entries[i - 1].time_ns)
      g_array_append_val (self->runs, i);
  g_array_append_val (self->runs, end);
  while (self->runs->len > 2)
    merge_runs (self);

  for (; n < self->entries->len && left_bytes > keep_bytes; n++)
    {
      const Entry *entry = &g_array_index (self->entries, Entry, n);
      const SondeFrame *frame = frame_at (self, entry);

      if (n + FORESEEN < self->entries->len)
        self->foresee (frame_at (self, entry + FORESEEN), self->user_data);
      if (entry->time_ns < self->newest_ns)
        self->n_late++;
      self->newest_ns = MAX (self->newest_ns, entry->time_ns);
      left_bytes -= frame->len;
      self->func (frame, self->user_data);
    }
  /* Keeps what has been sorted and not handed on. */
  old = self->frames;
  for (guint i = n; i < self->entries->len; i++)
    {
      Entry *entry = &g_array_index (self->entries, Entry, i);
      const SondeFrame *frame = frame_at (self, entry);

      entry->offset = self->spare->len;
      g_byte_array_append (self->spare, (const guint8 *) frame, frame->len);
    }
  g_array_remove_range (self->entries, 0, n);
  self->frames = self->spare;
  self->spare = old;
  g_byte_array_set_size (self->spare, 0);
}

void
sonde_heap_order_add (SondeHeapOrder *self, const SondeFrame *frame)
{
  Entry entry = { .time_ns = frame->time_ns, .offset = self->frames->len };

  g_byte_array_append (self->frames, (const guint8 *) frame, frame->len);
  g_array_append_val (self->entries, entry);
  if (self->frames->len >= CAPACITY_BYTES)
    hand_on (self, SONDE_HEAP_ORDER_WINDOW_BYTES);
}

void
sonde_heap_order_flush (SondeHeapOrder *self)
{
  hand_on (self, 0);
  /* what comes now wants the memory */
  g_byte_array_unref (self->frames);
  g_byte_array_unref (self->spare);
  g_array_set_size (self->entries, 0);
  g_array_unref (self->scratch);
  self->frames = g_byte_array_new ();
  self->spare = g_byte_array_new ();
  self->scratch = g_array_new (FALSE, FALSE, sizeof (Entry));
}

guint64
sonde_heap_order_n_late (const SondeHeapOrder *self)
{
  return self->n_late;
}
