/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/span.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <zstd.h>

#include "protocol/ledger.h"

#define MAX_EMPTY    32 /* chunks kept for the next use: 2 MiB */
#define SPANS_A_SEND 8
#define PACK_LEVEL   1 /* stacks that come again are what it takes out; more effort gains little */

/* --- chunks --- */

struct SondeChunkPool
{
  SondeChunk *empty;
  guint n_empty;
  guint n_refs; /* the owner's, and one for each chunk in use */
  guint64 n_allocated;

  /* For spans that are packed; NULL: none was yet, or there is no memory. */
  ZSTD_CCtx *packer;
  ZSTD_DCtx *opener;
  SondeChunk *packed; /* the last one, before its size is known */
};

SondeChunkPool *
sonde_chunk_pool_new (void)
{
  SondeChunkPool *self = g_new0 (SondeChunkPool, 1);

  self->n_refs = 1;
  return self;
}

void
sonde_chunk_pool_unref (SondeChunkPool *self)
{
  if (self == NULL || --self->n_refs > 0)
    return;

  while (self->empty != NULL)
    {
      SondeChunk *chunk = self->empty;

      self->empty = chunk->next;
      g_free (chunk);
    }
  ZSTD_freeCCtx (self->packer);
  ZSTD_freeDCtx (self->opener);
  g_free (self->packed);
  g_free (self);
}

SondeChunk *
sonde_chunk_pool_get (SondeChunkPool *self)
{
  SondeChunk *chunk = self->empty;

  if (chunk != NULL)
    {
      self->empty = chunk->next;
      self->n_empty--;
    }
  else
    {
      chunk = g_malloc (sizeof *chunk);
      self->n_allocated++;
    }
  chunk->pool = self;
  chunk->next = NULL;
  chunk->n_refs = 1;
  self->n_refs++;

  return chunk;
}

void
sonde_chunk_unref (SondeChunk *self)
{
  SondeChunkPool *pool;

  if (self == NULL || --self->n_refs > 0)
    return;

  pool = self->pool;
  if (pool->n_empty < MAX_EMPTY)
    {
      self->next = pool->empty;
      pool->empty = self;
      pool->n_empty++;
    }
  else
    {
      g_free (self);
    }
  sonde_chunk_pool_unref (pool);
}

guint64
sonde_chunk_pool_n_allocated (const SondeChunkPool *self)
{
  return self->n_allocated;
}

/* --- the writer --- */

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
      self->n_events += sonde_ledger_n_events (frame);
    }

  return r;
}

void
sonde_span_writer_publish (SondeSpanWriter *self)
{
  self->adding_state = FALSE;
  hand_on (self, sonde_writer_pending (self->writer));
}

/* --- the queue --- */

SondeSpanQueue *
sonde_span_queue_new (guint max_chunks)
{
  SondeSpanQueue *self = g_new0 (SondeSpanQueue, 1);

  self->max_chunks = max_chunks;
  self->spans = g_new0 (SondeSpan, max_chunks);

  return self;
}

SondeSpan *
sonde_span_queue_at (const SondeSpanQueue *self, guint index)
{
  return &self->spans[(self->first + index) % self->max_chunks];
}

static void
drop_first (SondeSpanQueue *self)
{
  sonde_chunk_unref (sonde_span_queue_at (self, 0)->chunk);
  self->first = (self->first + 1) % self->max_chunks;
  self->n_chunks--;
}

void
sonde_span_queue_free (SondeSpanQueue *self)
{
  if (self == NULL)
    return;

  while (self->n_chunks > 0)
    drop_first (self);
  g_free (self->spans);
  g_free (self);
}

gboolean
sonde_span_queue_push (SondeSpanQueue *self, const SondeSpan *span)
{
  SondeSpan *last = self->n_chunks > 0 ? sonde_span_queue_at (self, self->n_chunks - 1) : NULL;

  if (last != NULL && last->chunk == span->chunk && last->end == span->start)
    {
      last->end = span->end;
      last->n_frames += span->n_frames;
      last->n_samples += span->n_samples;
      last->n_events += span->n_events;
      return TRUE;
    }
  if (self->n_chunks == self->max_chunks)
    return FALSE;

  *sonde_span_queue_at (self, self->n_chunks++) = *span;
  span->chunk->n_refs++;

  return TRUE;
}

gssize
sonde_span_queue_send (SondeSpanQueue *self, int fd)
{
  struct iovec parts[SPANS_A_SEND];
  struct msghdr message = { .msg_iov = parts };
  gssize sent, left;

  for (guint i = 0; i < MIN (self->n_chunks, SPANS_A_SEND); i++)
    {
      const SondeSpan *span = sonde_span_queue_at (self, i);

      parts[i].iov_base = span->chunk->bytes + span->start;
      parts[i].iov_len = span->end - span->start;
      message.msg_iovlen++;
    }
  if (message.msg_iovlen == 0)
    return 0;

  do
    sent = sendmsg (fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0)
    return -errno;

  for (left = sent; left > 0;)
    {
      SondeSpan *span = sonde_span_queue_at (self, 0);
      gssize size_bytes = span->end - span->start;

      if (left < size_bytes)
        {
          span->start += (uint32_t) left;
          break;
        }
      left -= size_bytes;
      drop_first (self);
    }

  return sent;
}

void
sonde_span_queue_remove (SondeSpanQueue *self,
                         uint32_t size_bytes,
                         uint32_t n_frames,
                         uint32_t n_samples,
                         uint32_t n_events)
{
  SondeSpan *span = sonde_span_queue_at (self, 0);

  g_assert (self->n_chunks > 0 && size_bytes <= span->end - span->start);
  span->start += size_bytes;
  span->n_frames -= n_frames;
  span->n_samples -= n_samples;
  span->n_events -= n_events;
  if (span->start == span->end)
    drop_first (self);
}

void
sonde_span_queue_count (const SondeSpanQueue *self,
                        guint64 *n_frames,
                        guint64 *n_samples,
                        guint64 *n_events)
{
  *n_frames = *n_samples = *n_events = 0;
  for (guint i = 0; i < self->n_chunks; i++)
    {
      *n_frames += sonde_span_queue_at (self, i)->n_frames;
      *n_samples += sonde_span_queue_at (self, i)->n_samples;
      *n_events += sonde_span_queue_at (self, i)->n_events;
    }
}

/* --- packed --- */

SondePackedSpan *
sonde_packed_span_new (const SondeSpan *span)
{
  SondeChunkPool *pool = span->chunk->pool;
  const uint8_t *bytes = span->chunk->bytes + span->start;
  gsize size_bytes = span->end - span->start;
  gsize kept_bytes = size_bytes;
  SondePackedSpan *self;
  size_t packed_bytes;

  if (pool->packer == NULL)
    pool->packer = ZSTD_createCCtx ();
  /* What is packed can be opened. */
  if (pool->opener == NULL)
    pool->opener = ZSTD_createDCtx ();
  if (pool->packed == NULL)
    pool->packed = g_malloc (sizeof *pool->packed);
  /* An error is that there is no memory, or that it would become larger. */
  packed_bytes = pool->packer != NULL && pool->opener != NULL ? ZSTD_compressCCtx (
                     pool->packer, pool->packed->bytes, size_bytes, bytes, size_bytes, PACK_LEVEL)
                                                              : size_bytes;
  if (!ZSTD_isError (packed_bytes) && packed_bytes < size_bytes)
    {
      bytes = pool->packed->bytes;
      kept_bytes = packed_bytes;
    }
  self = g_malloc (sizeof *self + kept_bytes);
  *self = (SondePackedSpan){ .n_refs = 1,
                             .size_bytes = (uint32_t) size_bytes,
                             .n_frames = span->n_frames,
                             .n_samples = span->n_samples,
                             .n_events = span->n_events,
                             .kept_bytes = (uint32_t) kept_bytes };
  memcpy (self->bytes, bytes, kept_bytes);
  return self;
}

SondePackedSpan *
sonde_packed_span_ref (SondePackedSpan *self)
{
  self->n_refs++;
  return self;
}

void
sonde_packed_span_unref (SondePackedSpan *self)
{
  if (--self->n_refs == 0)
    g_free (self);
}

SondeSpan
sonde_packed_span_open (const SondePackedSpan *self, SondeChunkPool *pool)
{
  SondeSpan span = { .chunk = sonde_chunk_pool_get (pool),
                     .end = self->size_bytes,
                     .n_frames = self->n_frames,
                     .n_samples = self->n_samples,
                     .n_events = self->n_events };
  size_t size_bytes = self->size_bytes;

  if (self->kept_bytes == self->size_bytes)
    memcpy (span.chunk->bytes, self->bytes, size_bytes);
  else
    size_bytes = ZSTD_decompressDCtx (pool->opener, span.chunk->bytes, SONDE_CHUNK_SIZE,
                                      self->bytes, self->kept_bytes);
  g_assert (size_bytes == self->size_bytes);
  return span;
}
