/* SPDX-License-Identifier: LGPL-2.1-or-later */
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

static SondeRuleCacheEntry *
find_entry (SondeRuleCache *self, uint64_t key)
{
  SondeRuleCacheSet *set = sonde_rule_cache_set (self, key);

  for (unsigned i = 0; i < 2; i++)
    if (set->entries[i].key == key)
      return &set->entries[i];
  return NULL;
}

const SondeRule *
sonde_rule_cache_find_elsewhere (SondeRuleCache *self, SondeRuleCachePlace place)
{
  uint64_t key = sonde_rule_cache_block_key (place);
  const SondeRuleCacheEntry *entry = &sonde_rule_cache_set (self, key)->entries[1];

  if (sonde_rule_cache_covers (entry, key, (uint8_t) place.offset))
    return &entry->rule;
  entry = find_entry (self, sonde_rule_cache_address_key (place));
  return entry != NULL ? &entry->rule : NULL;
}

const SondeRule *
sonde_rule_cache_add (SondeRuleCache *self,
                      SondeRuleCachePlace place,
                      const SondeRule *rule,
                      uint64_t begin,
                      uint64_t end)
{
  const uint64_t block_bytes = 1u << SONDE_RULE_CACHE_BLOCK_BITS;
  uint64_t block = place.offset & ~(block_bytes - 1);
  uint8_t first = begin > block ? (uint8_t) (begin - block) : 0;
  uint8_t last = end < block + block_bytes ? (uint8_t) (end - 1 - block) : UINT8_MAX;
  uint64_t key = sonde_rule_cache_block_key (place);
  SondeRuleCacheEntry *entry = find_entry (self, key);

  if (entry != NULL && entry->rule.last - entry->rule.first >= last - first)
    {
      key = sonde_rule_cache_address_key (place);
      entry = NULL; /* it was looked for, so it is not there */
    }
  if (entry == NULL)
    {
      SondeRuleCacheSet *set = sonde_rule_cache_set (self, key);

      /* The newest one takes the place of the older one. */
      set->entries[1] = set->entries[0];
      entry = &set->entries[0];
    }
  entry->key = key;
  entry->rule = *rule;
  entry->rule.first = first;
  entry->rule.last = last;
  return &entry->rule;
}
