/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Decoded rules by module and address, in a table of fixed size. */
#include "unwind/rule-cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

SondeRuleCache *
sonde_rule_cache_new (void)
{
  SondeRuleCache *self = aligned_alloc (sizeof *self, sizeof *self);

  if (self == NULL)
    return NULL;
  madvise (self, sizeof *self, MADV_HUGEPAGE); /* without it, it is slower */
  memset (self, 0, sizeof *self);
  return self;
}

void
sonde_rule_cache_free (SondeRuleCache *self)
{
  free (self);
}

const SondeRule *
sonde_rule_cache_add (SondeRuleCache *self,
                      SondeRuleCachePlace place,
                      const SondeRule *rule,
                      uint64_t begin,
                      uint64_t end)
{
  const uint32_t block_bytes = 1u << SONDE_RULE_CACHE_BLOCK_BITS;
  uint64_t key = sonde_rule_cache_block_key (place);
  SondeRuleCacheEntry *entry = sonde_rule_cache_entry (self, key);
  uint64_t block = place.offset & ~(uint64_t) (block_bytes - 1);
  uint8_t first = begin > block ? (uint8_t) (begin - block) : 0;
  uint8_t last = end < block + block_bytes ? (uint8_t) (end - 1 - block) : UINT8_MAX;

  if (entry->key == key && entry->rule.last - entry->rule.first >= last - first)
    {
      key = sonde_rule_cache_address_key (place);
      entry = sonde_rule_cache_entry (self, key);
    }
  entry->key = key;
  entry->rule = *rule;
  entry->rule.first = first;
  entry->rule.last = last;
  return &entry->rule;
}
