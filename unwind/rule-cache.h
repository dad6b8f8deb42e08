/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Decoded rules by module and address, in a table of fixed size. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/cfi-rule.h"

/**
 * SECTION: rule-cache
 *
 * One direct-mapped table for all processes. A module's id is never used again, so an entry of a
 * module that is gone can never answer; it is overwritten some day. "No rule" is cached as well.
 * 32 bytes an entry; all of them make up one huge page where the kernel gives one, since each frame
 * looks at another corner of the table. One thread.
 */
#define SONDE_RULE_CACHE_BITS    16u
#define SONDE_RULE_CACHE_ENTRIES (1u << SONDE_RULE_CACHE_BITS)

typedef struct
{
  uint64_t key; /* module id + 1 in the upper, offset in the lower 32 bits; 0: empty */
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

/* @offset: of the pc from the module's lowest address; below 4 GiB (else the caller does not cache)
 */
static inline uint64_t
sonde_rule_cache_key (uint32_t module_id, uint32_t offset)
{
  return ((uint64_t) module_id + 1) << 32 | offset;
}

/* The place for @key; it holds the rule if its key is equal. */
static inline SondeRuleCacheEntry *
sonde_rule_cache_slot (SondeRuleCache *self, uint64_t key)
{
  uint64_t hash
      = key * 0x9E3779B97F4A7C15ull; /* Fibonacci hashing: the upper bits are well mixed */

  return &self->entries[hash >> (64 - SONDE_RULE_CACHE_BITS)];
}
