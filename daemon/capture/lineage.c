/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which event is believed about a task that more than one of them watches. */
#include "daemon/capture/lineage.h"

struct SondeLineage
{
  bool is_active;
  GHashTable *origins; /* uint64_t id, in boxes → the task that the event was opened on */
  GHashTable *lines;   /* task → the origin that is believed */
};

SondeLineage *
sonde_lineage_new (void)
{
  SondeLineage *self = g_new0 (SondeLineage, 1);

  self->origins = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  self->lines = g_hash_table_new (NULL, NULL);
  return self;
}

void
sonde_lineage_free (SondeLineage *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->origins);
  g_hash_table_unref (self->lines);
  g_free (self);
}

void
sonde_lineage_add (SondeLineage *self, uint64_t id, int32_t tid, bool is_late)
{
  if (tid <= 0)
    return;
  g_hash_table_insert (self->origins, g_memdup2 (&id, sizeof id), GINT_TO_POINTER (tid));
  self->is_active = self->is_active || is_late;
}

bool
sonde_lineage_takes (SondeLineage *self, uint64_t id, int32_t tid)
{
  gpointer origin;
  gpointer line;

  if (!self->is_active || tid <= 0)
    return true;
  origin = g_hash_table_lookup (self->origins, &id);
  if (origin == NULL)
    return true;
  line = g_hash_table_lookup (self->lines, GINT_TO_POINTER (tid));
  if (line != NULL)
    return line == origin;
  if (g_hash_table_size (self->lines) >= SONDE_LINEAGE_MAX_TASKS)
    g_hash_table_remove_all (self->lines);
  g_hash_table_insert (self->lines, GINT_TO_POINTER (tid), origin);
  return true;
}

void
sonde_lineage_forget (SondeLineage *self, int32_t tid)
{
  g_hash_table_remove (self->lines, GINT_TO_POINTER (tid));
}
