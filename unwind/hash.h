/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A small open-addressing table of pointers, and the hashes for its keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: hash
 *
 * Linear probing, at most three quarters full, removal by shifting back: no tombstones, so a table
 * that lives long does not get slower. Keys belong to the items. Hashes are seeded once per
 * process, since paths and inode numbers are chosen by the profiled programs.
 */
typedef struct
{
  uint64_t hash;
  void *item; /* NULL: free */
} SondeHashSlot;

typedef struct
{
  SondeHashSlot *slots;
  size_t n_slots; /* a power of two, or 0 */
  size_t n_items;
} SondeHash;

typedef bool (*SondeHashEqual) (const void *item, const void *key);

uint64_t sonde_hash_bytes (const void *bytes, size_t size);

/* The first item with @hash that is @equal to @key; NULL if none. */
void *sonde_hash_find (const SondeHash *self, uint64_t hash, SondeHashEqual equal, const void *key);
/* Errors: -ENOMEM. The same item must not be added twice. */
int sonde_hash_add (SondeHash *self, uint64_t hash, void *item);
void sonde_hash_remove (SondeHash *self, uint64_t hash, const void *item);
/* All items in no order: start with *@position 0, NULL at the end. Nothing may be added or removed
 * meanwhile. */
void *sonde_hash_next (const SondeHash *self, size_t *position);
/* Frees the slots, not the items. */
void sonde_hash_clear (SondeHash *self);
