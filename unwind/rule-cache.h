/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Decoded rules by module and address, in a table of fixed size. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/cfi-rule.h"

/**
 * SECTION: rule-cache
 *
 * One table for all processes. A module's id is never used again, so an entry of a module that is
 * gone can never answer; it is overwritten some day. "No rule" is cached as well. One thread.
 *
 * Most functions have one rule from end to end but for a few instructions, and sampled addresses
 * are spread over them. So each block of code has an entry for the longest piece of it that one
 * rule was seen to cover; other addresses in the block have entries of their own. Each entry has
 * one place, where the last one wins.
 *
 * 32 bytes an entry; all of them make up one huge page where the kernel gives one, since each frame
 * looks at another corner of the table.
 */
#define SONDE_RULE_CACHE_BITS       16u
#define SONDE_RULE_CACHE_ENTRIES    (1u << SONDE_RULE_CACHE_BITS)
#define SONDE_RULE_CACHE_BLOCK_BITS 8u /* 256 bytes: SondeRule's first and last have a byte each   \
                                        */

typedef struct
{
  uint64_t key; /* 0: empty */
  SondeRule rule;
} SondeRuleCacheEntry;

_Static_assert(sizeof (SondeRuleCacheEntry) == 32, "two entries a cache line");

typedef struct
{
  SondeRuleCacheEntry entries[SONDE_RULE_CACHE_ENTRIES];
} SondeRuleCache;

_Static_assert(sizeof (SondeRuleCache) == 2u << 20, "a huge page");

/* Empty. NULL on ENOMEM. */
SondeRuleCache *sonde_rule_cache_new (void);
void sonde_rule_cache_free (SondeRuleCache *self); /* accepts NULL */

/* Where a rule is, or would be. */
typedef struct
{
  uint64_t module; /* sonde_rule_cache_module() */
  uint32_t offset; /* of the pc from the module's lowest address; farther ones are not cached */
} SondeRuleCachePlace;

/* Ids are counted one by one, so the uppermost bit is never reached: it tells addresses from
 * blocks. */
static inline uint64_t
sonde_rule_cache_module (uint32_t module_id)
{
  return ((uint64_t) module_id + 1) << 32;
}

static inline uint64_t
sonde_rule_cache_block_key (SondeRuleCachePlace place)
{
  return place.module | place.offset >> SONDE_RULE_CACHE_BLOCK_BITS;
}

static inline uint64_t
sonde_rule_cache_address_key (SondeRuleCachePlace place)
{
  return place.module | place.offset | (uint64_t) 1 << 63;
}

/* The one entry that may have @key. */
static inline SondeRuleCacheEntry *
sonde_rule_cache_entry (SondeRuleCache *self, uint64_t key)
{
  uint64_t hash
      = key * 0x9E3779B97F4A7C15ull; /* Fibonacci hashing: the upper bits are well mixed */

  return &self->entries[hash >> (64 - SONDE_RULE_CACHE_BITS)];
}

/* NULL: not known. */
static inline const SondeRule *
sonde_rule_cache_find (SondeRuleCache *self, SondeRuleCachePlace place)
{
  uint64_t key = sonde_rule_cache_block_key (place);
  const SondeRuleCacheEntry *entry = sonde_rule_cache_entry (self, key);
  uint8_t low = (uint8_t) place.offset;

  if (entry->key == key && low >= entry->rule.first && low <= entry->rule.last)
    return &entry->rule;
  key = sonde_rule_cache_address_key (place);
  entry = sonde_rule_cache_entry (self, key);
  return entry->key == key ? &entry->rule : NULL;
}

/* Adds what was not known: @rule holds from @begin up to @end, offsets around the place's. Returns
 * the cached one. */
const SondeRule *sonde_rule_cache_add (SondeRuleCache *self,
                                       SondeRuleCachePlace place,
                                       const SondeRule *rule,
                                       uint64_t begin,
                                       uint64_t end);
