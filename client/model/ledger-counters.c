/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/ledger-counters.h"

#include <string.h>

#include "client/model/frame-parts.h"

void
sonde_ledger_counters_init (SondeLedgerCounters *self)
{
  *self = (SondeLedgerCounters){ .entries = sonde_id_map_new () };
}

void
sonde_ledger_counters_copy (SondeLedgerCounters *self, const SondeLedgerCounters *source)
{
  *self = *source;
  self->entries = sonde_id_map_dup (source->entries);
}

void
sonde_ledger_counters_clear (SondeLedgerCounters *self)
{
  g_clear_pointer (&self->entries, sonde_id_map_free);
}

void
sonde_ledger_counters_define (SondeLedgerCounters *self, const SondeFrameCounterDefine *frame)
{
  for (guint i = 0; i < frame->n_counters; i++)
    {
      const SondeCounterDefinition *counter = &frame->counters[i];

      if (!g_str_equal (counter->category, SONDE_LEDGER_CATEGORY)
          || sonde_counter_type (counter->id_type) != SONDE_COUNTER_INT64)
        continue;
      for (guint32 entry = 0; entry < SONDE_N_LEDGER; entry++)
        if (g_str_equal (counter->name, sonde_ledger_name (entry)))
          {
            sonde_id_map_set (self->entries, sonde_counter_id (counter->id_type), entry);
            self->defined |= 1u << entry;
          }
    }
}

guint
sonde_ledger_counters_set (SondeLedgerCounters *self, const SondeFrameCounterSet *frame)
{
  SondeFrameValue set = { 0 };
  guint found = 0;
  guint32 entry;

  while (sonde_frame_next_value (frame, &set))
    if (sonde_id_map_lookup (self->entries, set.id, &entry))
      {
        self->values[entry] = set.value.v64;
        found |= 1u << entry;
      }
  self->set |= found;
  return found;
}

void
sonde_ledger_counters_adjust (const SondeLedgerCounters *self,
                              SondeFrameCounterSet *frame,
                              SondeLedger entry,
                              gint64 difference)
{
  SondeFrameValue set = { 0 };
  guint32 found;

  while (sonde_frame_next_value (frame, &set))
    if (sonde_id_map_lookup (self->entries, set.id, &found) && found == entry)
      {
        guint slot = set.n_slots - 1;
        SondeCounterGroup *group = &frame->groups[slot / SONDE_COUNTERS_PER_GROUP];

        /* any value may stand there: wrap */
        group->values[slot % SONDE_COUNTERS_PER_GROUP].v64
            = (gint64) ((guint64) set.value.v64 + (guint64) difference);
      }
}
