/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/text-pool.h"

#include <string.h>

#include "client/base/text.h"

#define ENTRY_BYTES 24 /* that a text costs in the tables */

struct SondeTextPool
{
  SondeBudget *budget;
  GHashTable *known; /* text in chunk → itself */
  GStringChunk *chunk;
};

SondeTextPool *
sonde_text_pool_new (SondeBudget *budget)
{
  SondeTextPool *self = g_new0 (SondeTextPool, 1);

  self->budget = budget;
  self->known = g_hash_table_new (sonde_text_hash, g_str_equal);
  self->chunk = g_string_chunk_new (4096);
  return self;
}

void
sonde_text_pool_free (SondeTextPool *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->known);
  g_string_chunk_free (self->chunk);
  g_free (self);
}

const char *
sonde_text_pool_add (SondeTextPool *self, const char *text, gsize max_bytes)
{
  gsize size = strnlen (text, max_bytes + 1);
  g_autofree char *cut = size > max_bytes ? g_strndup (text, max_bytes) : NULL;
  const char *wanted = cut != NULL ? cut : text;
  char *known = g_hash_table_lookup (self->known, wanted);

  if (known != NULL)
    return known;
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_TEXT, MIN (size, max_bytes) + ENTRY_BYTES))
    return SONDE_TRUNCATED;
  known = g_string_chunk_insert (self->chunk, wanted);
  g_hash_table_add (self->known, known);
  return known;
}
