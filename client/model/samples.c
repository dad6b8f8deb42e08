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
sonde_samples_ensure_tree (SondeSamples *self, guint tree)
{
  if (tree >= self->trees->len)
    g_ptr_array_set_size (self->trees, (int) tree + 1);
  if (g_ptr_array_index (self->trees, tree) == NULL)
    g_ptr_array_index (self->trees, tree) = sonde_call_tree_new (self->budget);
  return g_ptr_array_index (self->trees, tree);
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
sonde_samples_add (SondeSamples *self, const SondeModelSample *sample, guint64 weight)
{
  SondeSamplePlace place = {
    .time_ns = sample->time_ns,
    .thread = ensure_thread (self, sample->process, sample->tid),
  };
  guint tree = sonde_samples_tree_of (self, place.thread);

  place.node = sonde_call_tree_add (sonde_samples_ensure_tree (self, tree), sample->locations,
                                    sample->n_locations, weight);
  g_array_index (self->threads, SondeSampleThread, place.thread).n_samples++;
  if (self->places != NULL && sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 1))
    g_array_append_val (self->places, place);
  return place;
}

const SondeCallTree *
sonde_samples_tree (const SondeSamples *self, guint tree)
{
  return tree < self->trees->len ? g_ptr_array_index (self->trees, tree) : NULL;
}

guint
sonde_samples_tree_of (const SondeSamples *self, guint thread)
{
  return self->by_thread ? thread : sonde_samples_thread (self, thread)->process;
}

guint
sonde_samples_process_of (const SondeSamples *self, guint tree, gint32 *tid)
{
  *tid = self->by_thread ? sonde_samples_thread (self, tree)->tid : SONDE_TID_ALL;
  return self->by_thread ? sonde_samples_thread (self, tree)->process : tree;
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

/* --- with times, marks and values --- */

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeSampleLog *self = user_data;

  if (sample->time_ns >= self->from_ns && sample->time_ns < self->to_ns
      && sonde_sample_filter_matches (&self->filter, self->model,
                                      sonde_capture_model_process (self->model, sample->process),
                                      sample->tid))
    sonde_samples_add (&self->samples, sample, 1);
}

static void
take_mark (const SondeModelMark *mark, gpointer user_data)
{
  SondeSampleLog *self = user_data;
  SondeModelMark entry = *mark;

  if (!sonde_budget_take (self->samples.budget, SONDE_LIMIT_MARKS, 1))
    return;
  entry.group = sonde_text_pool_add (self->texts, mark->group, SONDE_MAX_NAME_BYTES);
  entry.name = sonde_text_pool_add (self->texts, mark->name, SONDE_MAX_NAME_BYTES);
  entry.message = sonde_text_pool_add (self->texts, mark->message, SONDE_MAX_NAME_BYTES);
  g_array_append_val (self->marks, entry);
}

static void
take_value (const SondeModelValue *value, gpointer user_data)
{
  SondeSampleLog *self = user_data;

  if (sonde_budget_take (self->samples.budget, SONDE_LIMIT_VALUES, 1))
    g_array_append_vals (self->values, value, 1);
}

SondeSampleLog *
sonde_sample_log_new (void)
{
  const SondeModelFuncs funcs = { .sample = take_sample, .mark = take_mark, .value = take_value };
  SondeSampleLog *self = g_new0 (SondeSampleLog, 1);

  self->filter = (SondeSampleFilter) SONDE_SAMPLE_FILTER_INIT;
  self->from_ns = G_MININT64;
  self->to_ns = G_MAXINT64;
  self->model = sonde_capture_model_new (&funcs, self);
  sonde_samples_init (&self->samples, sonde_capture_model_budget (self->model), TRUE);
  self->marks = g_array_new (FALSE, FALSE, sizeof (SondeModelMark));
  self->values = g_array_new (FALSE, FALSE, sizeof (SondeModelValue));
  self->texts = sonde_text_pool_new (self->samples.budget);
  return self;
}

void
sonde_sample_log_free (SondeSampleLog *self)
{
  if (self == NULL)
    return;
  sonde_samples_clear (&self->samples);
  g_array_unref (self->marks);
  g_array_unref (self->values);
  sonde_text_pool_free (self->texts);
  sonde_capture_model_free (self->model);
  g_free (self);
}

gboolean
sonde_sample_log_range (const SondeSampleLog *self, gint64 *first_ns, gint64 *last_ns)
{
  const GArray *places = self->samples.places;

  if (places->len == 0)
    return FALSE;
  *first_ns = *last_ns = g_array_index (places, SondeSamplePlace, 0).time_ns;
  for (guint i = 1; i < places->len; i++)
    {
      gint64 time_ns = g_array_index (places, SondeSamplePlace, i).time_ns;

      *first_ns = MIN (*first_ns, time_ns);
      *last_ns = MAX (*last_ns, time_ns);
    }
  return TRUE;
}
