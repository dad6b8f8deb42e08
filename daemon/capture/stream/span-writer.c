/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/span-writer.h"

#include "protocol/ledger.h"

struct SondeSpanWriter
{
  SondeChunkPool *pool;
  SondeSpanHandler handler;
  gpointer user_data;
  SondeWriter *writer;
  SondeChunk *chunk;
  uint32_t published;  /* bytes of the chunk that were handed on */
  guint64 n_published; /* frames that were handed on */
  uint32_t n_samples;  /* not handed on yet */
  uint32_t n_events;
  gboolean has_state;
  gboolean adding_state; /* the frame being added may begin a new chunk: that one has it as well */
};

static void
hand_on (SondeSpanWriter *self, size_t used_bytes)
{
  guint64 n_frames = sonde_writer_n_frames (self->writer);
  SondeSpan span = {
    .chunk = self->chunk,
    .start = self->published,
    .end = (uint32_t) used_bytes,
    .n_frames = (uint32_t) (n_frames - self->n_published),
    .n_samples = self->n_samples,
    .n_events = self->n_events,
    .has_state = self->has_state,
  };

  if (span.start == span.end)
    return;

  self->published = span.end;
  self->n_published = n_frames;
  self->n_samples = 0;
  self->n_events = 0;
  self->has_state = self->adding_state;
  self->handler (&span, self->user_data);
}

static void *
chunk_full (void *user_data, void *buffer, size_t used_bytes)
{
  SondeSpanWriter *self = user_data;

  g_assert (buffer == self->chunk->bytes);
  hand_on (self, used_bytes);
  sonde_chunk_unref (self->chunk);
  self->chunk = sonde_chunk_pool_get (self->pool);
  self->published = 0;

  return self->chunk->bytes;
}

SondeSpanWriter *
sonde_span_writer_new (SondeChunkPool *pool, SondeSpanHandler handler, gpointer user_data)
{
  SondeSpanWriter *self = g_new0 (SondeSpanWriter, 1);

  self->pool = pool;
  self->handler = handler;
  self->user_data = user_data;
  self->chunk = sonde_chunk_pool_get (pool);
  self->writer = sonde_writer_new (self->chunk->bytes, SONDE_CHUNK_SIZE, chunk_full, self);
  g_assert (self->writer != NULL);

  return self;
}

void
sonde_span_writer_free (SondeSpanWriter *self)
{
  if (self == NULL)
    return;

  sonde_writer_free (self->writer);
  sonde_chunk_unref (self->chunk);
  g_free (self);
}

SondeWriter *
sonde_span_writer_plain (SondeSpanWriter *self)
{
  self->adding_state = FALSE;
  return self->writer;
}

SondeWriter *
sonde_span_writer_state (SondeSpanWriter *self)
{
  self->has_state = TRUE;
  self->adding_state = TRUE;
  return self->writer;
}

int
sonde_span_writer_add_sample (SondeSpanWriter *self,
                              const SondeFrameOrigin *origin,
                              int32_t tid,
                              const uint64_t *addrs,
                              size_t n_addrs)
{
  int r;

  self->adding_state = FALSE;
  r = sonde_writer_add_sample (self->writer, origin, tid, addrs, n_addrs);
  if (r == 0)
    self->n_samples++;

  return r;
}

guint
sonde_span_writer_add_counter_set (SondeSpanWriter *self,
                                   const SondeFrameOrigin *origin,
                                   const uint32_t *ids,
                                   const SondeCounterValue *values,
                                   size_t n_counters)
{
  const SondeFrame frame = { .type = SONDE_FRAME_CTRSET, .pid = origin->pid };
  guint64 n_before = sonde_writer_n_frames (self->writer);
  guint n_events;

  sonde_writer_add_counter_set (sonde_span_writer_plain (self), origin, ids, values, n_counters);
  n_events = sonde_ledger_is_event (&frame)
                 ? (guint) (sonde_writer_n_frames (self->writer) - n_before)
                 : 0;
  self->n_events += n_events;

  return n_events;
}

void
sonde_span_writer_add_log (SondeSpanWriter *self, GLogLevelFlags severity, const char *text)
{
  SondeFrameOrigin origin = { sonde_stream_now_ns (), -1, -1 };

  sonde_writer_add_log (sonde_span_writer_plain (self), &origin, (uint16_t) severity, "sonde",
                        text);
}

int
sonde_span_writer_add_frame (SondeSpanWriter *self, const SondeFrame *frame, gboolean is_state)
{
  SondeWriter *writer = is_state ? sonde_span_writer_state (self) : sonde_span_writer_plain (self);
  int r = sonde_writer_add_frame (writer, frame);

  if (r == 0)
    {
      self->n_samples += frame->type == SONDE_FRAME_SAMPLE;
      self->n_events += sonde_ledger_is_event (frame);
    }

  return r;
}

void
sonde_span_writer_publish (SondeSpanWriter *self)
{
  self->adding_state = FALSE;
  hand_on (self, sonde_writer_pending (self->writer));
}
