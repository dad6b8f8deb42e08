/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/span-queue.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SPANS_A_SEND 8

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
  sonde_chunk_ref (span->chunk);

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
