/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocks of a heap that are allocated at a moment, by address. */
#include "client/base/live-map.h"

#include "base/hash.h"
#include "base/table.h"

struct SondeLiveMap
{
  guint n_references;
  SondeTable table; /* of SondeLiveBlock */
};

static guint64
hash_block (const void *slot, guint64 seed)
{
  return sonde_hash (seed, ((const SondeLiveBlock *) slot)->address);
}

static bool
has_address (const void *slot, guint64 hash, const void *address)
{
  return ((const SondeLiveBlock *) slot)->address == *(const guint64 *) address;
}

/* Few slots at first, as a capture may have very many processes. */
static const SondeTableKind blocks = { .slot_bytes = sizeof (SondeLiveBlock),
                                       .used_at = offsetof (SondeLiveBlock, size_bytes),
                                       .n_first_slots = 8,
                                       .max_eighths = 6,
                                       .allocate = g_malloc0_n,
                                       .hash = hash_block,
                                       .has_key = has_address };

SondeLiveMap *
sonde_live_map_new (void)
{
  SondeLiveMap *self = g_new0 (SondeLiveMap, 1);

  self->n_references = 1;
  self->table.seed = sonde_hash_seed ();
  sonde_table_resize (&blocks, &self->table, blocks.n_first_slots);
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
  sonde_table_clear (&self->table);
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
  (*self)->table.slots
      = g_memdup2 (shared->table.slots, shared->table.n_slots * sizeof (SondeLiveBlock));
  sonde_live_map_unref (shared);
}

void
sonde_live_map_prefetch (const SondeLiveMap *self, guint64 address)
{
  guint64 hash = sonde_hash (self->table.seed, address);

  __builtin_prefetch (sonde_table_slot (&blocks, &self->table, hash));
}

static SondeLiveBlock *
find (const SondeLiveMap *self, guint64 address)
{
  return sonde_table_find (&blocks, &self->table, sonde_hash (self->table.seed, address), &address);
}

gboolean
sonde_live_map_put (SondeLiveMap *self, const SondeLiveBlock *block, SondeLiveBlock *old)
{
  SondeLiveBlock *slot = find (self, block->address);

  g_assert (self->n_references == 1 && block->size_bytes > 0);
  if (slot == NULL)
    {
      sonde_table_add (&blocks, &self->table, block);
      return FALSE;
    }
  *old = *slot;
  *slot = *block;
  return TRUE;
}

gboolean
sonde_live_map_take (SondeLiveMap *self, guint64 address, SondeLiveBlock *block)
{
  SondeLiveBlock *slot = find (self, address);

  g_assert (self->n_references == 1);
  if (slot == NULL)
    return FALSE;
  *block = *slot;
  sonde_table_remove (&blocks, &self->table, slot);
  return TRUE;
}

gboolean
sonde_live_map_has (const SondeLiveMap *self, guint64 address)
{
  return find (self, address) != NULL;
}

gsize
sonde_live_map_n_slots (const SondeLiveMap *self)
{
  return self->table.n_slots;
}

void
sonde_live_map_foreach (const SondeLiveMap *self, SondeLiveBlockFunc func, gpointer user_data)
{
  const SondeLiveBlock *block;
  gsize position = 0;

  while ((block = sonde_table_next (&blocks, &self->table, &position)) != NULL)
    func (block, user_data);
}
