/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every counter of a session but the ledger's: who has which number. */
#include "daemon/capture/counter-registry.h"

#include "protocol/ledger.h"

#define COUNTERS_A_FRAME 64

typedef struct
{
  gint32 pid;
  SondeCounterDefinition definition;
} Entry;

struct SondeCounterRegistry
{
  GArray *entries; /* Entry; ids in order, from SONDE_N_LEDGER + 1 */
};

SondeCounterRegistry *
sonde_counter_registry_new (void)
{
  SondeCounterRegistry *self = g_new0 (SondeCounterRegistry, 1);

  self->entries = g_array_new (FALSE, FALSE, sizeof (Entry));

  return self;
}

void
sonde_counter_registry_free (SondeCounterRegistry *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->entries);
  g_free (self);
}

gboolean
sonde_counter_registry_add (SondeCounterRegistry *self,
                            gint32 pid,
                            SondeCounter *counters,
                            guint n_counters)
{
  if (n_counters > SONDE_COUNTER_REGISTRY_MAX - self->entries->len)
    return FALSE;

  for (guint i = 0; i < n_counters; i++)
    {
      Entry entry = { .pid = pid };
      SondeCounterDefinition *definition = &entry.definition;

      counters[i].id = SONDE_N_LEDGER + 1 + self->entries->len;
      g_strlcpy (definition->category, counters[i].category, sizeof definition->category);
      g_strlcpy (definition->name, counters[i].name, sizeof definition->name);
      g_strlcpy (definition->description, counters[i].description, sizeof definition->description);
      definition->id_type = counters[i].id << SONDE_COUNTER_ID_SHIFT
                            | (guint32) counters[i].type << SONDE_COUNTER_TYPE_SHIFT;
      definition->value = counters[i].value;
      g_array_append_val (self->entries, entry);
    }

  return TRUE;
}

guint
sonde_counter_registry_count (const SondeCounterRegistry *self)
{
  return self->entries->len;
}

guint
sonde_counter_registry_define (
    const SondeCounterRegistry *self, guint first, guint end, gint64 time_ns, SondeWriter *writer)
{
  SondeFrameOrigin origin = { time_ns, -1, -1 };
  SondeCounter counters[COUNTERS_A_FRAME];
  guint n = 0;

  for (; first < end && n < COUNTERS_A_FRAME; first++, n++)
    {
      const Entry *entry = &g_array_index (self->entries, Entry, first);

      if (n == 0)
        origin.pid = entry->pid;
      else if (origin.pid != entry->pid)
        break;
      counters[n] = (SondeCounter){ .category = entry->definition.category,
                                    .name = entry->definition.name,
                                    .description = entry->definition.description,
                                    .id = sonde_counter_id (entry->definition.id_type),
                                    .type = sonde_counter_type (entry->definition.id_type),
                                    .value = entry->definition.value };
    }
  sonde_writer_add_counter_define (writer, &origin, counters, n);

  return first;
}
