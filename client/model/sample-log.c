/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/sample-log.h"

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeSampleLog *self = user_data;

  sonde_samples_add (&self->samples, sample);
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
