/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/id-map.h"

#include "base/hash.h"
#include "base/table.h"
#include "client/base/large-table.h"

typedef struct
{
  guint64 key;
  guint32 id;
  guint32 used; /* 1 */
} IdSlot;

struct SondeIdMap
{
  SondeTable table;
};

static guint64
hash_slot (const void *slot, guint64 seed)
{
  return sonde_hash (seed, ((const IdSlot *) slot)->key);
}

static bool
has_key (const void *slot, guint64 hash, const void *key)
{
  return ((const IdSlot *) slot)->key == *(const guint64 *) key;
}

static const SondeTableKind ids
    = { .slot_bytes = sizeof (IdSlot),
        .used_at = offsetof (IdSlot, id),
        .n_first_slots = 8, /* there may be very many processes, with one each */
        .max_eighths = 6,
        .allocate = sonde_large_table_allocate,
        .hash = hash_slot,
        .has_key = has_key };

SondeIdMap *
sonde_id_map_new (void)
{
  SondeIdMap *self = g_new0 (SondeIdMap, 1);

  self->table.seed = sonde_hash_seed ();
  return self;
}

SondeIdMap *
sonde_id_map_new_sized (guint32 n)
{
  SondeIdMap *self = sonde_id_map_new ();
  gsize n_slots = ids.n_first_slots;

  while (n_slots / 8 * ids.max_eighths < n)
    n_slots *= 2;
  sonde_table_resize (&ids, &self->table, n_slots); /* allocation does not fail */
  return self;
}

SondeIdMap *
sonde_id_map_dup (const SondeIdMap *self)
{
  SondeIdMap *copy = g_memdup2 (self, sizeof *self);

  copy->table.slots = g_memdup2 (self->table.slots, self->table.n_slots * sizeof (IdSlot));
  return copy;
}

void
sonde_id_map_free (SondeIdMap *self)
{
  if (self == NULL)
    return;
  sonde_table_clear (&self->table);
  g_free (self);
}

/* A report looks up every frame of every sample here. */
static IdSlot *
find (const SondeIdMap *self, guint64 key)
{
  return sonde_table_find (&ids, &self->table, sonde_hash (self->table.seed, key), &key);
}

gboolean
sonde_id_map_lookup (const SondeIdMap *self, guint64 key, guint32 *id)
{
  const IdSlot *slot = find (self, key);

  if (slot == NULL)
    return FALSE;
  *id = slot->id;
  return TRUE;
}

void
sonde_id_map_set (SondeIdMap *self, guint64 key, guint32 id)
{
  IdSlot *slot = find (self, key);

  if (slot != NULL)
    slot->id = id;
  else
    sonde_table_add (&ids, &self->table, &(IdSlot){ .key = key, .id = id, .used = 1 });
}

void
sonde_id_map_add (SondeIdMap *self, guint64 key, guint32 id)
{
  sonde_table_add (&ids, &self->table, &(IdSlot){ .key = key, .id = id, .used = 1 });
}

guint32
sonde_id_map_size (const SondeIdMap *self)
{
  return (guint32) self->table.n_used;
}
