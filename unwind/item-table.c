/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/item-table.h"

typedef struct
{
  uint64_t hash;
  uint64_t item; /* a pointer; 0: free */
} ItemSlot;

typedef struct
{
  SondeItemEqual equal;
  const void *key;
} WantedItem;

static uint64_t
hash_slot (const void *slot, uint64_t seed)
{
  return ((const ItemSlot *) slot)->hash;
}

static bool
has_key (const void *slot, uint64_t hash, const void *key)
{
  const WantedItem *wanted = key;

  return ((const ItemSlot *) slot)->hash == hash
         && wanted->equal ((void *) (uintptr_t) ((const ItemSlot *) slot)->item, wanted->key);
}

static const SondeTableKind items = { .slot_bytes = sizeof (ItemSlot),
                                      .used_at = offsetof (ItemSlot, item),
                                      .n_first_slots = 16,
                                      .max_eighths = 6,
                                      .allocate = calloc,
                                      .hash = hash_slot,
                                      .has_key = has_key };

void *
sonde_item_table_find (const SondeItemTable *self,
                       uint64_t hash,
                       SondeItemEqual equal,
                       const void *key)
{
  const ItemSlot *slot = sonde_table_find (&items, self, hash, &(WantedItem){ equal, key });

  return slot != NULL ? (void *) (uintptr_t) slot->item : NULL;
}

int
sonde_item_table_add (SondeItemTable *self, uint64_t hash, void *item)
{
  return sonde_table_add (&items, self, &(ItemSlot){ hash, (uintptr_t) item });
}

static bool
is_item (const void *item, const void *key)
{
  return item == key;
}

void
sonde_item_table_remove (SondeItemTable *self, uint64_t hash, const void *item)
{
  ItemSlot *slot = sonde_table_find (&items, self, hash, &(WantedItem){ is_item, item });

  if (slot != NULL)
    sonde_table_remove (&items, self, slot);
}

void *
sonde_item_table_next (const SondeItemTable *self, size_t *position)
{
  const ItemSlot *slot = sonde_table_next (&items, self, position);

  return slot != NULL ? (void *) (uintptr_t) slot->item : NULL;
}
