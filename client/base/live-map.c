/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocks of a heap that are allocated at a moment, by address. */
#include "client/base/live-map.h"

#include "client/base/hash.h"

#define INITIAL_SLOTS 8u /* a power of two; a capture may have very many processes */

/* Open addressing with linear probing; a size of 0 marks an empty slot. */
struct SondeLiveMap
{
  guint n_references;
  SondeLiveBlock *slots;
  gsize n_slots; /* a power of two */
  gsize n_used;
  guint64 seed;
};

SondeLiveMap *
sonde_live_map_new (void)
{
  SondeLiveMap *self = g_new0 (SondeLiveMap, 1);

  self->n_references = 1;
  self->n_slots = INITIAL_SLOTS;
  self->slots = g_new0 (SondeLiveBlock, self->n_slots);
  self->seed = sonde_hash_seed ();
  return self;
}

SondeLiveMap *
sonde_live_map_ref (SondeLiveMap *self)
{
  self->n_references++;
  return self;
}

void
sonde_live_map_unref (SondeLiveMap *self)
{
  if (self == NULL || --self->n_references > 0)
    return;
  g_free (self->slots);
  g_free (self);
}

void
sonde_live_map_own (SondeLiveMap **self)
{
  SondeLiveMap *shared = *self;

  if (shared->n_references == 1)
    return;
  *self = g_memdup2 (shared, sizeof *shared);
  (*self)->n_references = 1;
  (*self)->slots = g_memdup2 (shared->slots, shared->n_slots * sizeof *shared->slots);
  sonde_live_map_unref (shared);
}

static gsize
home (const SondeLiveMap *self, guint64 address)
{
  return (gsize) sonde_hash (self->seed, address) & (self->n_slots - 1);
}

void
sonde_live_map_prefetch (const SondeLiveMap *self, guint64 address)
{
  __builtin_prefetch (&self->slots[home (self, address)]);
}

/* The slot that holds @address, or the empty one where it belongs. */
static gsize
find (const SondeLiveMap *self, guint64 address)
{
  gsize at = home (self, address);

  while (self->slots[at].size_bytes != 0 && self->slots[at].address != address)
    at = (at + 1) & (self->n_slots - 1);
  return at;
}

static void
grow (SondeLiveMap *self)
{
  g_autofree SondeLiveBlock *old = self->slots;
  gsize n_old = self->n_slots;

  self->n_slots = n_old * 2;
  self->slots = g_new0 (SondeLiveBlock, self->n_slots);
  for (gsize i = 0; i < n_old; i++)
    if (old[i].size_bytes != 0)
      self->slots[find (self, old[i].address)] = old[i];
}

gboolean
sonde_live_map_put (SondeLiveMap *self, const SondeLiveBlock *block, SondeLiveBlock *old)
{
  gsize at = find (self, block->address);

  g_assert (self->n_references == 1 && block->size_bytes > 0);
  if (self->slots[at].size_bytes != 0)
    {
      *old = self->slots[at];
      self->slots[at] = *block;
      return TRUE;
    }
  if (self->n_used >= self->n_slots / 4 * 3)
    {
      grow (self);
      at = find (self, block->address);
    }
  self->slots[at] = *block;
  self->n_used++;
  return FALSE;
}

gboolean
sonde_live_map_take (SondeLiveMap *self, guint64 address, SondeLiveBlock *block)
{
  gsize mask = self->n_slots - 1;
  gsize hole = find (self, address);

  g_assert (self->n_references == 1);
  if (self->slots[hole].size_bytes == 0)
    return FALSE;
  *block = self->slots[hole];
  self->n_used--;

  /* blocks behind the hole whose way there leads over it move up, so that nothing is out of reach
   */
  for (gsize at = (hole + 1) & mask; self->slots[at].size_bytes != 0; at = (at + 1) & mask)
    if (((at - home (self, self->slots[at].address)) & mask) >= ((at - hole) & mask))
      {
        self->slots[hole] = self->slots[at];
        hole = at;
      }
  self->slots[hole].size_bytes = 0;
  return TRUE;
}

gboolean
sonde_live_map_has (const SondeLiveMap *self, guint64 address)
{
  return self->slots[find (self, address)].size_bytes != 0;
}

gsize
sonde_live_map_size (const SondeLiveMap *self)
{
  return self->n_used;
}

gsize
sonde_live_map_n_slots (const SondeLiveMap *self)
{
  return self->n_slots;
}

void
sonde_live_map_foreach (const SondeLiveMap *self, SondeLiveBlockFunc func, gpointer user_data)
{
  for (gsize i = 0; i < self->n_slots; i++)
    if (self->slots[i].size_bytes != 0)
      func (&self->slots[i], user_data);
}
