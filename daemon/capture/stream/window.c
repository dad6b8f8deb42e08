/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/window.h"

#define NS_PER_SECOND 1e9

typedef struct
{
  SondeStateBase *base;
  guint64 n_samples_before; /* recorded before it began */
  guint64 n_events_before;
  GPtrArray *spans;  /* SondePackedSpan */
  gsize kept_bytes;  /* of these */
  gsize frame_bytes; /* the same when they are opened */
  guint64 n_frames;
  gpointer item; /* the owner's */
} Segment;

struct SondeWindow
{
  const SondeSinkSource *source;
  gint64 length_ns;
  gsize max_bytes;
  const SondeWindowHandler *handler;
  gpointer user_data;

  GQueue segments;   /* Segment, oldest first; never empty */
  SondeSpan open;    /* the newest segment's end, not packed; no chunk: there is none */
  guint64 n_gone;    /* frames */
  gsize size_bytes;  /* at the last turn */
  gboolean is_short; /* bytes, not its length, decided what went last */
};

static gint64
begin_of (const Segment *segment)
{
  return sonde_state_base_start_ns (segment->base);
}

static void
pack_open (SondeWindow *self)
{
  Segment *newest = self->segments.tail->data;
  SondePackedSpan *packed;

  if (self->open.chunk == NULL)
    return;
  packed = sonde_packed_span_new (&self->open);
  g_ptr_array_add (newest->spans, packed);
  newest->kept_bytes += sizeof *packed + packed->kept_bytes;
  newest->frame_bytes += packed->size_bytes;
  newest->n_frames += packed->n_frames;
  g_clear_pointer (&self->open.chunk, sonde_chunk_unref);
}

static void
begin_segment (SondeWindow *self, gint64 now_ns)
{
  const SondeTally *tally = self->source->tally;
  Segment *segment = g_new0 (Segment, 1);

  segment->base = sonde_state_base_new (self->source->state, g_get_real_time () * 1000, now_ns);
  segment->n_samples_before = tally->values[SONDE_LEDGER_RECORDED];
  segment->n_events_before = tally->values[SONDE_LEDGER_EVENTS_RECORDED];
  segment->spans = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_packed_span_unref);
  segment->item = self->handler->begin (self->user_data);
  g_queue_push_tail (&self->segments, segment);
}

static void
drop_oldest (SondeWindow *self)
{
  Segment *segment = g_queue_pop_head (&self->segments);

  self->n_gone += segment->n_frames;
  self->handler->end (segment->item, self->user_data);
  sonde_state_base_unref (segment->base);
  g_ptr_array_unref (segment->spans);
  g_free (segment);
}

static gsize
measure (const SondeWindow *self, const Segment *segment)
{
  return sizeof *segment + segment->kept_bytes + segment->spans->len * sizeof (gpointer)
         + sonde_state_base_bytes (segment->base)
         + self->handler->measure (segment->item, self->user_data);
}

SondeWindow *
sonde_window_new (const SondeSinkSource *source,
                  gint64 length_ns,
                  gsize max_bytes,
                  const SondeWindowHandler *handler,
                  gpointer user_data)
{
  SondeWindow *self = g_new0 (SondeWindow, 1);

  self->source = source;
  self->length_ns = length_ns;
  self->max_bytes = max_bytes;
  self->handler = handler;
  self->user_data = user_data;
  g_queue_init (&self->segments);
  begin_segment (self, sonde_stream_now_ns ());
  return self;
}

void
sonde_window_free (SondeWindow *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->open.chunk, sonde_chunk_unref);
  while (!g_queue_is_empty (&self->segments))
    drop_oldest (self);
  g_free (self);
}

void
sonde_window_push (SondeWindow *self, const SondeSpan *span)
{
  SondeSpan *open = &self->open;

  if (open->chunk == span->chunk && open->end == span->start)
    {
      open->end = span->end;
      open->n_frames += span->n_frames;
      open->n_samples += span->n_samples;
      open->n_events += span->n_events;
      return;
    }
  pack_open (self);
  *open = *span;
  open->chunk->n_refs++;
}

/* What the window does not reach any more, or has no room for. */
static void
drop_old (SondeWindow *self, gint64 now_ns)
{
  const GQueue *segments = &self->segments;

  while (self->length_ns > 0 && segments->length > 1
         && begin_of (segments->head->next->data) <= now_ns - self->length_ns)
    {
      drop_oldest (self);
      self->is_short = FALSE;
    }
  do
    {
      gsize frame_bytes = 0;

      self->size_bytes = self->open.chunk != NULL ? sizeof *self->open.chunk : 0;
      for (const GList *at = segments->head; at != NULL; at = at->next)
        {
          self->size_bytes += measure (self, at->data);
          frame_bytes += ((const Segment *) at->data)->frame_bytes;
        }
      if ((self->size_bytes <= self->max_bytes && frame_bytes <= SONDE_WINDOW_MAX_FRAME_BYTES)
          || segments->length <= 2)
        return;
      drop_oldest (self);
      self->is_short = TRUE;
    }
  while (TRUE);
}

void
sonde_window_turn (SondeWindow *self, gint64 now_ns)
{
  const Segment *newest = self->segments.tail->data;
  gint64 age_ns = now_ns - begin_of (newest);
  gboolean is_full = newest->kept_bytes >= self->max_bytes / SONDE_WINDOW_SEGMENTS
                     || newest->frame_bytes >= SONDE_WINDOW_MAX_FRAME_BYTES / SONDE_WINDOW_SEGMENTS;
  gboolean is_old = self->length_ns > 0 && age_ns >= self->length_ns / SONDE_WINDOW_SEGMENTS;

  if (age_ns < SONDE_WINDOW_MIN_TURN_NS || !(is_full || is_old))
    return;
  self->handler->prepare (self->user_data);
  sonde_span_writer_publish (self->source->writer);
  pack_open (self);
  begin_segment (self, now_ns);
  drop_old (self, now_ns);
}

SondeBacklog *
sonde_window_freeze (SondeWindow *self, gint64 now_ns)
{
  SondeBacklog *backlog = g_new0 (SondeBacklog, 1);
  const Segment *oldest;
  gint64 begin_ns;

  pack_open (self);
  drop_old (self, now_ns);
  oldest = self->segments.head->data;
  begin_ns = begin_of (oldest);
  backlog->base = sonde_state_base_ref (oldest->base);
  backlog->n_samples_before = oldest->n_samples_before;
  backlog->n_events_before = oldest->n_events_before;
  backlog->metadata = g_strdup_printf (
      "window-start=%" G_GINT64_FORMAT "\nwindow-end=%" G_GINT64_FORMAT "\n", begin_ns, now_ns);
  if (self->is_short && (self->length_ns == 0 || now_ns - begin_ns < self->length_ns))
    backlog->warning = g_strdup_printf (
        "The recorder has the last %.3f s: its bytes have no room for more, and %" G_GUINT64_FORMAT
        " frames from before that are gone",
        (double) (now_ns - begin_ns) / NS_PER_SECOND, self->n_gone);
  backlog->spans = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_packed_span_unref);
  for (const GList *at = self->segments.head; at != NULL; at = at->next)
    {
      const Segment *segment = at->data;

      for (guint i = 0; i < segment->spans->len; i++)
        g_ptr_array_add (backlog->spans,
                         sonde_packed_span_ref (g_ptr_array_index (segment->spans, i)));
    }
  return backlog;
}

void
sonde_window_foreach (const SondeWindow *self, GFunc func, gpointer user_data)
{
  for (const GList *at = self->segments.head; at != NULL; at = at->next)
    func (((const Segment *) at->data)->item, user_data);
}

gint64
sonde_window_begin_ns (const SondeWindow *self)
{
  return begin_of (self->segments.head->data);
}

gsize
sonde_window_bytes (const SondeWindow *self)
{
  return self->size_bytes;
}

guint64
sonde_window_n_gone (const SondeWindow *self)
{
  return self->n_gone;
}
