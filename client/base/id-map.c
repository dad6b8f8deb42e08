/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Open addressing with linear probing: a report looks up every frame of every sample here. */
#include "client/base/id-map.h"

#include "client/base/hash.h"

#define INITIAL_SLOTS 64u /* a power of two */

typedef struct
{
  guint64 key;
  guint32 id;
  gboolean used;
} Slot;

struct SondeIdMap
{
  Slot *slots;
  guint32 n_slots; /* a power of two, at most three quarters used */
  guint32 n_used;
  guint64 seed;
};

SondeIdMap *
sonde_id_map_new (void)
{
  SondeIdMap *self = g_new0 (SondeIdMap, 1);

  self->n_slots = INITIAL_SLOTS;
  self->slots = g_new0 (Slot, self->n_slots);
  self->seed = sonde_hash_seed ();
  return self;
}

SondeIdMap *
sonde_id_map_dup (const SondeIdMap *self)
{
  SondeIdMap *copy = g_memdup2 (self, sizeof *self);

  copy->slots = g_memdup2 (self->slots, self->n_slots * sizeof *self->slots);
  return copy;
}

void
sonde_id_map_free (SondeIdMap *self)
{
  if (self == NULL)
    return;
  g_free (self->slots);
  g_free (self);
}

/* The slot that holds @key, or the empty one where it belongs. */
static Slot *
find (const SondeIdMap *self, guint64 key)
{
  guint32 at = (guint32) sonde_hash (self->seed, key) & (self->n_slots - 1);

  while (self->slots[at].used && self->slots[at].key != key)
    at = (at + 1) & (self->n_slots - 1);
  return &self->slots[at];
}

static void
grow (SondeIdMap *self)
{
  g_autofree Slot *old = self->slots;
  guint32 n_old = self->n_slots;

  g_assert (n_old <= G_MAXUINT32 / 4);
  self->n_slots = n_old * 2;
  self->slots = g_new0 (Slot, self->n_slots);
  for (guint32 i = 0; i < n_old; i++)
    if (old[i].used)
      *find (self, old[i].key) = old[i];
}

gboolean
sonde_id_map_lookup (const SondeIdMap *self, guint64 key, guint32 *id)
{
  const Slot *slot = find (self, key);

  if (!slot->used)
    return FALSE;
  *id = slot->id;
  return TRUE;
}

void
sonde_id_map_set (SondeIdMap *self, guint64 key, guint32 id)
{
  Slot *slot = find (self, key);

  if (!slot->used && self->n_used >= self->n_slots / 4 * 3)
    {
      grow (self);
      slot = find (self, key);
    }
  if (!slot->used)
    self->n_used++;
  *slot = (Slot){ .key = key, .id = id, .used = TRUE };
}

guint32
sonde_id_map_size (const SondeIdMap *self)
{
  return self->n_used;
}
