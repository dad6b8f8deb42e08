/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/chunk.h"

#include <stddef.h>

#define MAX_EMPTY 32 /* chunks kept for the next use: 2 MiB */

struct SondeChunkPool
{
  SondeChunk *empty;
  guint n_empty;
  guint n_refs; /* the owner's, and one for each chunk in use */
  guint64 n_allocated;
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

SondeChunk *
sonde_chunk_ref (SondeChunk *self)
{
  self->n_refs++;
  return self;
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
