/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/ledger-counters.h"

#include <string.h>

#define ID_MASK 0xffffffu /* bits 0-23 of id_type */

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

static void
define (SondeLedgerCounters *self, const SondeCounterDefinition *counter)
{
  if (strncmp (counter->category, SONDE_LEDGER_CATEGORY, sizeof counter->category) != 0
      || counter->id_type >> 24 != SONDE_COUNTER_INT64)
    return;

  for (guint32 entry = 0; entry < SONDE_N_LEDGER; entry++)
    if (strncmp (counter->name, sonde_ledger_name (entry), sizeof counter->name) == 0)
      {
        sonde_id_map_set (self->entries, counter->id_type & ID_MASK, entry);
        self->defined |= 1u << entry;
      }
}

void
sonde_ledger_counters_define (SondeLedgerCounters *self, const SondeFrameCounterDefine *frame)
{
  for (guint i = 0; i < frame->n_counters; i++)
    {
      SondeCounterDefinition counter;

      memcpy (&counter, &frame->counters[i], sizeof counter);
      define (self, &counter);
    }
}

guint
sonde_ledger_counters_set (SondeLedgerCounters *self, const SondeFrameCounterSet *frame)
{
  guint found = 0;

  for (guint i = 0; i < frame->n_groups; i++)
    for (guint slot = 0; slot < G_N_ELEMENTS (frame->groups[i].ids); slot++)
      {
        guint32 id = frame->groups[i].ids[slot];
        guint32 entry;

        if (id == 0 || !sonde_id_map_lookup (self->entries, id, &entry))
          continue;
        self->values[entry] = frame->groups[i].values[slot].v64;
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
  for (guint i = 0; i < frame->n_groups; i++)
    for (guint slot = 0; slot < G_N_ELEMENTS (frame->groups[i].ids); slot++)
      {
        guint32 id = frame->groups[i].ids[slot];
        guint32 found;

        if (id == 0 || !sonde_id_map_lookup (self->entries, id, &found) || found != entry)
          continue;
        /* any value may stand there: wrap */
        frame->groups[i].values[slot].v64
            = (gint64) ((guint64) frame->groups[i].values[slot].v64 + (guint64) difference);
      }
}
