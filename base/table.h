/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Open addressing with linear probing, for slots of any kind. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/**
 * SECTION: table
 *
 * Slots are in one array and move when it grows. Removal shifts back: no tombstones, so a table
 * that lives long does not get slower. A kind is a constant that the compiler sees at each call,
 * so that it makes of these functions loops over that kind of slot, without calls.
 */
typedef struct
{
  size_t slot_bytes;
  size_t used_at; /* offset of eight bytes, all of which are 0 in a free slot and in no other */
  size_t n_first_slots;                       /* a power of two */
  unsigned max_eighths;                       /* of the slots may be used, 1 ... 7 */
  void *(*allocate) (size_t n, size_t bytes); /* zeroed, for free(); may return NULL, or abort */
  uint64_t (*hash) (const void *slot, uint64_t seed);
  bool (*has_key) (const void *slot, uint64_t hash, const void *key);
} SondeTableKind;

/* All zero but for the seed is empty. */
typedef struct
{
  void *slots;    /* owned */
  size_t n_slots; /* a power of two, or 0 */
  size_t n_used;
  uint64_t seed; /* see sonde_hash_seed(); for slots that do not keep their hash */
} SondeTable;

#define SONDE_TABLE_INLINE static inline __attribute__ ((always_inline))

SONDE_TABLE_INLINE void *
sonde_table_slot (const SondeTableKind *kind, const SondeTable *self, uint64_t number)
{
  return (uint8_t *) self->slots + (number & (self->n_slots - 1)) * kind->slot_bytes;
}

SONDE_TABLE_INLINE bool
sonde_table_is_used (const SondeTableKind *kind, const void *slot)
{
  uint64_t word;

  memcpy (&word, (const uint8_t *) slot + kind->used_at, sizeof word);
  return word != 0;
}

/* The slot that @key, of @hash, has; NULL if it has none. */
SONDE_TABLE_INLINE void *
sonde_table_find (const SondeTableKind *kind,
                  const SondeTable *self,
                  uint64_t hash,
                  const void *key)
{
  if (self->n_slots == 0)
    return NULL;
  for (uint64_t at = hash;; at++)
    {
      void *slot = sonde_table_slot (kind, self, at);

      if (!sonde_table_is_used (kind, slot))
        return NULL;
      if (kind->has_key (slot, hash, key))
        return slot;
    }
}

SONDE_TABLE_INLINE void
sonde_table_place (const SondeTableKind *kind, SondeTable *self, const void *slot)
{
  uint64_t at = kind->hash (slot, self->seed);

  while (sonde_table_is_used (kind, sonde_table_slot (kind, self, at)))
    at++;
  memcpy (sonde_table_slot (kind, self, at), slot, kind->slot_bytes);
}

/* Gives the table @n_slots, a power of two that is enough for all that are used. Returns 0, or
 * -ENOMEM. */
SONDE_TABLE_INLINE int
sonde_table_resize (const SondeTableKind *kind, SondeTable *self, size_t n_slots)
{
  SondeTable new = *self;

  new.n_slots = n_slots;
  new.slots = kind->allocate (n_slots, kind->slot_bytes);
  if (new.slots == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < self->n_slots; i++)
    if (sonde_table_is_used (kind, sonde_table_slot (kind, self, i)))
      sonde_table_place (kind, &new, sonde_table_slot (kind, self, i));
  free (self->slots);
  *self = new;
  return 0;
}

SONDE_TABLE_INLINE bool
sonde_table_is_full (const SondeTableKind *kind, const SondeTable *self)
{
  return self->n_used >= self->n_slots / 8 * kind->max_eighths;
}

/* A copy of @slot, whose key is not there. Returns 0, or -ENOMEM. */
SONDE_TABLE_INLINE int
sonde_table_add (const SondeTableKind *kind, SondeTable *self, const void *slot)
{
  size_t n_slots = self->n_slots > 0 ? self->n_slots * 2 : kind->n_first_slots;

  if (sonde_table_is_full (kind, self) && sonde_table_resize (kind, self, n_slots) < 0)
    return -ENOMEM;
  sonde_table_place (kind, self, slot);
  self->n_used++;
  return 0;
}

/* @slot: as found. What is behind it and would be looked for there or before moves up. */
SONDE_TABLE_INLINE void
sonde_table_remove (const SondeTableKind *kind, SondeTable *self, void *slot)
{
  size_t hole = (size_t) ((uint8_t *) slot - (uint8_t *) self->slots) / kind->slot_bytes;
  size_t mask = self->n_slots - 1;

  for (size_t at = (hole + 1) & mask;; at = (at + 1) & mask)
    {
      const void *other = sonde_table_slot (kind, self, at);
      size_t home;

      if (!sonde_table_is_used (kind, other))
        break;
      home = kind->hash (other, self->seed) & mask;
      if (((at - home) & mask) >= ((at - hole) & mask))
        {
          memcpy (sonde_table_slot (kind, self, hole), other, kind->slot_bytes);
          hole = at;
        }
    }
  memset (sonde_table_slot (kind, self, hole), 0, kind->slot_bytes);
  self->n_used--;
}

/* All slots that are used, in no order: start with *@position 0, NULL at the end. Nothing may be
 * added or removed meanwhile. */
SONDE_TABLE_INLINE void *
sonde_table_next (const SondeTableKind *kind, const SondeTable *self, size_t *position)
{
  while (*position < self->n_slots)
    {
      void *slot = sonde_table_slot (kind, self, (*position)++);

      if (sonde_table_is_used (kind, slot))
        return slot;
    }
  return NULL;
}

/* Frees the slots; the seed stays. */
static inline void
sonde_table_clear (SondeTable *self)
{
  free (self->slots);
  *self = (SondeTable){ .seed = self->seed };
}
