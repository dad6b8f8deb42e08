/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters that a capture defines, by numbers of our own. */
#include "client/model/model-counters.h"

#include <string.h>

#include "client/base/id-map.h"

struct SondeModelCounters
{
  SondeBudget *budget;
  GPtrArray *counters; /* SondeModelCounter */
  SondeIdMap *numbers; /* id in the capture → number */
};

static void
counter_free (gpointer data)
{
  SondeModelCounter *counter = data;

  g_free (counter->category);
  g_free (counter->name);
  g_free (counter->description);
  g_free (counter);
}

SondeModelCounters *
sonde_model_counters_new (SondeBudget *budget)
{
  SondeModelCounters *self = g_new0 (SondeModelCounters, 1);

  self->budget = budget;
  self->counters = g_ptr_array_new_with_free_func (counter_free);
  self->numbers = sonde_id_map_new ();
  return self;
}

void
sonde_model_counters_free (SondeModelCounters *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->counters);
  sonde_id_map_free (self->numbers);
  g_free (self);
}

static gboolean
is_same (const SondeModelCounter *counter, const SondeCounterDefinition *definition)
{
  gboolean is_double = sonde_counter_type (definition->id_type) == SONDE_COUNTER_DOUBLE;

  return counter->is_double == is_double
         && strncmp (counter->category, definition->category, sizeof definition->category) == 0
         && strncmp (counter->name, definition->name, sizeof definition->name) == 0;
}

void
sonde_model_counters_define (SondeModelCounters *self, const SondeFrameCounterDefine *frame)
{
  for (guint i = 0; i < frame->n_counters; i++)
    {
      SondeCounterDefinition definition;
      SondeModelCounter *counter;
      guint32 id, number;

      memcpy (&definition, &frame->counters[i], sizeof definition);
      id = sonde_counter_id (definition.id_type);
      if (sonde_id_map_lookup (self->numbers, id, &number)
          && is_same (g_ptr_array_index (self->counters, number), &definition))
        continue;
      if (!sonde_budget_take (self->budget, SONDE_LIMIT_COUNTERS, 1))
        continue;

      counter = g_new0 (SondeModelCounter, 1);
      counter->category = g_strndup (definition.category, sizeof definition.category);
      counter->name = g_strndup (definition.name, sizeof definition.name);
      counter->description = g_strndup (definition.description, sizeof definition.description);
      counter->is_double = sonde_counter_type (definition.id_type) == SONDE_COUNTER_DOUBLE;
      sonde_id_map_set (self->numbers, id, self->counters->len);
      g_ptr_array_add (self->counters, counter);
    }
}

void
sonde_model_counters_set (const SondeModelCounters *self,
                          const SondeFrameCounterSet *frame,
                          void (*func) (const SondeModelValue *value, gpointer user_data),
                          gpointer user_data)
{
  for (guint i = 0; i < frame->n_groups; i++)
    for (guint slot = 0; slot < SONDE_COUNTERS_PER_GROUP; slot++)
      {
        guint32 id = frame->groups[i].ids[slot];
        SondeModelValue value = { .pid = frame->frame.pid, .time_ns = frame->frame.time_ns };
        guint32 number;

        if (id == 0 || !sonde_id_map_lookup (self->numbers, id, &number))
          continue;
        value.counter = number;
        memcpy (&value.value, &frame->groups[i].values[slot], sizeof value.value);
        func (&value, user_data);
      }
}

guint
sonde_model_counters_size (const SondeModelCounters *self)
{
  return self->counters->len;
}

const SondeModelCounter *
sonde_model_counters_get (const SondeModelCounters *self, guint counter)
{
  return g_ptr_array_index (self->counters, counter);
}
