/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shares buffers of capture frames between all sinks of a session: writes and queues parts of them.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

#include "protocol/writer.h"

/**
 * SECTION: span
 *
 * A chunk is filled by one writer, front to back, while sinks already send what is in it: bytes
 * that were handed on as a span never change. The pool keeps a few empty chunks, so that a session
 * in steady state allocates nothing. Main thread only.
 */
#define SONDE_CHUNK_SIZE 65536 /* bytes; one frame of the largest size fits */

typedef struct SondeChunkPool SondeChunkPool;

typedef struct SondeChunk SondeChunk;
struct SondeChunk
{
  SondeChunkPool *pool;
  SondeChunk *next; /* in the pool's list of empty ones */
  guint n_refs;
  _Alignas(8) uint8_t bytes[SONDE_CHUNK_SIZE];
};

/* A part of a chunk that holds whole frames only. */
typedef struct
{
  SondeChunk *chunk;
  uint32_t start; /* bytes */
  uint32_t end;   /* bytes, first one behind */
  uint32_t n_frames;
  uint32_t n_samples;
  uint32_t n_events;  /* of programs: sonde_ledger_n_events() */
  gboolean has_state; /* a frame in it tells what later frames need to decode */
} SondeSpan;

SondeChunkPool *sonde_chunk_pool_new (void);
/* Chunks that are still referenced keep the pool alive. Accepts NULL. */
void sonde_chunk_pool_unref (SondeChunkPool *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeChunkPool, sonde_chunk_pool_unref)

/* An empty chunk with one reference; a recycled one where there is one. */
SondeChunk *sonde_chunk_pool_get (SondeChunkPool *self);
void sonde_chunk_unref (SondeChunk *self); /* accepts NULL */

/* How many chunks this pool has ever allocated: constant in steady state. */
guint64 sonde_chunk_pool_n_allocated (const SondeChunkPool *self);

/* --- a frame writer over pooled chunks that hands on spans of them --- */

/* Now, by the clock of all frames: CLOCK_MONOTONIC. */
static inline gint64
sonde_stream_now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* @span is borrowed; a queue keeps it. */
typedef void (*SondeSpanHandler) (const SondeSpan *span, gpointer user_data);

typedef struct SondeSpanWriter SondeSpanWriter;

SondeSpanWriter *
sonde_span_writer_new (SondeChunkPool *pool, SondeSpanHandler handler, gpointer user_data);
/* What was not published is dropped. Accepts NULL. */
void sonde_span_writer_free (SondeSpanWriter *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSpanWriter, sonde_span_writer_free)

/* The writer for frames that others do not depend on: LOG, CTRSET, EXIT. */
SondeWriter *sonde_span_writer_plain (SondeSpanWriter *self);
/* The writer for frames that later ones need to decode. Call it again for each frame. */
SondeWriter *sonde_span_writer_state (SondeSpanWriter *self);

/* Adds a SAMPLE frame and counts it. */
int sonde_span_writer_add_sample (SondeSpanWriter *self,
                                  const SondeFrameOrigin *origin,
                                  int32_t tid,
                                  const uint64_t *addrs,
                                  size_t n_addrs);

/* Adds CTRSET frames. Returns how many of them are events. */
guint sonde_span_writer_add_counter_set (SondeSpanWriter *self,
                                         const SondeFrameOrigin *origin,
                                         const uint32_t *ids,
                                         const SondeCounterValue *values,
                                         size_t n_counters);

/* Adds a LOG frame of the session's own, of now. */
void sonde_span_writer_add_log (SondeSpanWriter *self, GLogLevelFlags severity, const char *text);

/* Copies a whole frame that is valid. @is_state: as for sonde_span_writer_state() */
int sonde_span_writer_add_frame (SondeSpanWriter *self, const SondeFrame *frame, gboolean is_state);

/* Hands on what was written since the last time, without ending the chunk. */
void sonde_span_writer_publish (SondeSpanWriter *self);

/* --- a queue of spans that wait for a socket or a file --- */

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

/* --- spans that are kept for long --- */

/* A copy of a span's frames, packed by zstd if that makes it smaller. */
typedef struct
{
  guint n_refs;
  uint32_t size_bytes; /* of the frames */
  uint32_t n_frames;
  uint32_t n_samples;
  uint32_t n_events;
  uint32_t kept_bytes; /* as many as size_bytes: they are as they were */
  uint8_t bytes[];
} SondePackedSpan;

SondePackedSpan *sonde_packed_span_new (const SondeSpan *span);
SondePackedSpan *sonde_packed_span_ref (SondePackedSpan *self);
void sonde_packed_span_unref (SondePackedSpan *self);
/* The frames in a chunk of @pool, with one reference. */
SondeSpan sonde_packed_span_open (const SondePackedSpan *self, SondeChunkPool *pool);
