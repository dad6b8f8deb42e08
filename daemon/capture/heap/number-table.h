/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table of numbers by keys of eight bytes: hashes, pairs of two numbers, addresses. */
#pragma once

#include <glib.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/table.h"

typedef struct
{
  uint64_t key;
  uint64_t number; /* + 1 */
} SondeNumberSlot;

static inline uint64_t
sonde_number_slot_hash (const void *slot, uint64_t seed)
{
  return sonde_hash (seed, ((const SondeNumberSlot *) slot)->key);
}

static inline bool
sonde_number_slot_has_key (const void *slot, uint64_t hash, const void *key)
{
  return ((const SondeNumberSlot *) slot)->key == *(const uint64_t *) key;
}

static const SondeTableKind sonde_number_slots = { .slot_bytes = sizeof (SondeNumberSlot),
                                                   .used_at = offsetof (SondeNumberSlot, number),
                                                   .n_first_slots = 256,
                                                   .max_eighths = 6,
                                                   .allocate = g_malloc0_n,
                                                   .hash = sonde_number_slot_hash,
                                                   .has_key = sonde_number_slot_has_key };

/* NULL: it has none. Until something is added. */
static inline SondeNumberSlot *
sonde_number_table_find (const SondeTable *self, uint64_t key)
{
  return sonde_table_find (&sonde_number_slots, self, sonde_hash (self->seed, key), &key);
}
