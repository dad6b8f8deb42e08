/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table of fixed size with decoded rules by module and address. */
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
 * rule was seen to cover; other addresses in the block have entries of their own. An entry may be
 * in either of two places, which share a cache line; the older one gives way.
 *
 * 32 bytes an entry; all of them make up one huge page where the kernel gives one, since each frame
 * looks at another corner of the table.
 */
#define SONDE_RULE_CACHE_BITS 15u
#define SONDE_RULE_CACHE_SETS (1u << SONDE_RULE_CACHE_BITS)
#define SONDE_RULE_CACHE_BLOCK_BITS                                                                \
  8u /* 256 bytes: SondeRule's first and last have a byte each                                     \
      */

typedef struct
{
  uint64_t key; /* 0: empty */
  SondeRule rule;
} SondeRuleCacheEntry;

typedef struct
{
  SondeRuleCacheEntry entries[2]; /* newest first */
} SondeRuleCacheSet;

typedef struct
{
  SondeRuleCacheSet sets[SONDE_RULE_CACHE_SETS];
} SondeRuleCache;

_Static_assert(sizeof (SondeRuleCacheSet) == 64, "a cache line");
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

/* The one set that may have @key. */
static inline SondeRuleCacheSet *
sonde_rule_cache_set (SondeRuleCache *self, uint64_t key)
{
  uint64_t hash
      = key * 0x9E3779B97F4A7C15ull; /* Fibonacci hashing: the upper bits are well mixed */

  return &self->sets[hash >> (64 - SONDE_RULE_CACHE_BITS)];
}

static inline bool
sonde_rule_cache_covers (const SondeRuleCacheEntry *entry, uint64_t key, uint8_t low)
{
  return entry->key == key && low >= entry->rule.first && low <= entry->rule.last;
}

/* The other three places. */
const SondeRule *sonde_rule_cache_find_elsewhere (SondeRuleCache *self, SondeRuleCachePlace place);

/* NULL: not known. */
static inline const SondeRule *
sonde_rule_cache_find (SondeRuleCache *self, SondeRuleCachePlace place)
{
  uint64_t key = sonde_rule_cache_block_key (place);
  const SondeRuleCacheEntry *entry = &sonde_rule_cache_set (self, key)->entries[0];

  if (__builtin_expect (sonde_rule_cache_covers (entry, key, (uint8_t) place.offset), true))
    return &entry->rule;
  return sonde_rule_cache_find_elsewhere (self, place);
}

/* Adds what was not known: @rule holds from @begin up to @end, offsets around the place's. Returns
 * the cached one. */
const SondeRule *sonde_rule_cache_add (SondeRuleCache *self,
                                       SondeRuleCachePlace place,
                                       const SondeRule *rule,
                                       uint64_t begin,
                                       uint64_t end);
