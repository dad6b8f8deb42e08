/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/samples.h"

void
sonde_samples_init (SondeSamples *self, SondeBudget *budget, gboolean keeps_places)
{
  self->budget = budget;
  self->trees = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_call_tree_free);
  self->threads = g_array_new (FALSE, FALSE, sizeof (SondeSampleThread));
  self->numbers = sonde_id_map_new ();
  self->places = keeps_places ? g_array_new (FALSE, FALSE, sizeof (SondeSamplePlace)) : NULL;
}

void
sonde_samples_clear (SondeSamples *self)
{
  g_clear_pointer (&self->trees, g_ptr_array_unref);
  g_clear_pointer (&self->threads, g_array_unref);
  g_clear_pointer (&self->numbers, sonde_id_map_free);
  g_clear_pointer (&self->places, g_array_unref);
}

SondeCallTree *
sonde_samples_ensure_tree (SondeSamples *self, guint process)
{
  if (process >= self->trees->len)
    g_ptr_array_set_size (self->trees, (int) process + 1);
  if (g_ptr_array_index (self->trees, process) == NULL)
    g_ptr_array_index (self->trees, process) = sonde_call_tree_new (self->budget);
  return g_ptr_array_index (self->trees, process);
}

static guint32
ensure_thread (SondeSamples *self, guint process, gint32 tid)
{
  guint64 key = (guint64) process << 32 | (guint32) tid;
  SondeSampleThread thread = { .process = process, .tid = tid };
  guint32 number;

  if (sonde_id_map_lookup (self->numbers, key, &number))
    return number;
  if (tid != SONDE_TID_TRUNCATED && !sonde_budget_take (self->budget, SONDE_LIMIT_THREADS, 1))
    return ensure_thread (self, process, SONDE_TID_TRUNCATED);
  sonde_id_map_set (self->numbers, key, self->threads->len);
  g_array_append_val (self->threads, thread);
  return self->threads->len - 1;
}

SondeSamplePlace
sonde_samples_add (SondeSamples *self, const SondeModelSample *sample)
{
  SondeSamplePlace place = {
    .time_ns = sample->time_ns,
    .thread = ensure_thread (self, sample->process, sample->tid),
    .node = sonde_call_tree_add (sonde_samples_ensure_tree (self, sample->process),
                                 sample->locations, sample->n_locations, 1),
  };

  g_array_index (self->threads, SondeSampleThread, place.thread).n_samples++;
  if (self->places != NULL && sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 1))
    g_array_append_val (self->places, place);
  return place;
}

const SondeCallTree *
sonde_samples_tree (const SondeSamples *self, guint process)
{
  return process < self->trees->len ? g_ptr_array_index (self->trees, process) : NULL;
}

const SondeSampleThread *
sonde_samples_thread (const SondeSamples *self, guint thread)
{
  return &g_array_index (self->threads, SondeSampleThread, thread);
}

void
sonde_samples_reset (SondeSamples *self)
{
  for (guint i = 0; i < self->threads->len; i++)
    g_array_index (self->threads, SondeSampleThread, i).n_samples = 0;
  for (guint i = 0; i < self->trees->len; i++)
    if (g_ptr_array_index (self->trees, i) != NULL)
      sonde_call_tree_reset (g_ptr_array_index (self->trees, i));
}
