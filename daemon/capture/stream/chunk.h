/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers of capture frames, shared by all sinks of a session. */
#pragma once

#include <glib.h>
#include <stdint.h>

/**
 * SECTION: chunk
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
  uint32_t n_events;  /* of programs: sonde_ledger_is_event() */
  gboolean has_state; /* a frame in it tells what later frames need to decode */
} SondeSpan;

SondeChunkPool *sonde_chunk_pool_new (void);
/* Chunks that are still referenced keep the pool alive. Accepts NULL. */
void sonde_chunk_pool_unref (SondeChunkPool *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeChunkPool, sonde_chunk_pool_unref)

/* An empty chunk with one reference; a recycled one where there is one. */
SondeChunk *sonde_chunk_pool_get (SondeChunkPool *self);
SondeChunk *sonde_chunk_ref (SondeChunk *self);
void sonde_chunk_unref (SondeChunk *self); /* accepts NULL */

/* How many chunks this pool has ever allocated: constant in steady state. */
guint64 sonde_chunk_pool_n_allocated (const SondeChunkPool *self);
