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
