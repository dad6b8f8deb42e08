/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A queue of spans that wait for a socket or a file. */
#pragma once

#include "daemon/capture/stream/chunk.h"

/* Its cost is memory held on to, not bytes waiting: each entry counts as a whole chunk, and
 * neighbouring spans of one chunk are one entry. */
typedef struct
{
  SondeSpan *spans; /* a ring of max_chunks */
  guint max_chunks;
  guint first;
  guint n_chunks;
} SondeSpanQueue;

SondeSpanQueue *sonde_span_queue_new (guint max_chunks);
void sonde_span_queue_free (SondeSpanQueue *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSpanQueue, sonde_span_queue_free)

/* Returns FALSE if it is full. Takes a reference to the chunk. */
gboolean sonde_span_queue_push (SondeSpanQueue *self, const SondeSpan *span);
/* The @index-th of its chunks, of those that it has. */
SondeSpan *sonde_span_queue_at (const SondeSpanQueue *self, guint index);

/* Sends from the front without waiting. Returns bytes taken, 0 if there is nothing to send, or a
 * negative errno (-EAGAIN: the socket is full). */
gssize sonde_span_queue_send (SondeSpanQueue *self, int fd);

/* Removes @size_bytes from the front of the first entry: so many whole frames, samples and events.
 */
void sonde_span_queue_remove (SondeSpanQueue *self,
                              uint32_t size_bytes,
                              uint32_t n_frames,
                              uint32_t n_samples,
                              uint32_t n_events);

/* Frames, samples and events in entries that were not sent whole. */
void sonde_span_queue_count (const SondeSpanQueue *self,
                             guint64 *n_frames,
                             guint64 *n_samples,
                             guint64 *n_events);
