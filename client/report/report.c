/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/report.h"

#include "client/base/json.h"
#include "client/base/text.h"
#include "client/report/profile-json.h"
#include "client/report/profile-view.h"

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeReport *self = user_data;

  if (self->is_raw
      || (sample->time_ns >= self->from_ns && sample->time_ns < self->to_ns
          && sonde_sample_filter_matches (
              &self->options.filter, self->model,
              sonde_capture_model_process (self->model, sample->process), sample->tid)))
    {
      SondeSamplePlace place = sonde_samples_add (&self->samples, sample, 1);

      if (self->live != NULL)
        sonde_live_profile_add (self->live, &place);
    }
}

SondeReport *
sonde_report_new (const SondeReportOptions *options, gint64 start_ns)
{
  SondeReport *self = g_new0 (SondeReport, 1);

  self->is_raw = options == NULL;
  if (options != NULL)
    {
      self->options = *options;
      sonde_sample_filter_range (&options->filter, start_ns, &self->from_ns, &self->to_ns);
    }
  self->model = sonde_capture_model_new (&(SondeModelFuncs){ .sample = take_sample }, self);
  self->start_ns = start_ns;
  sonde_samples_init (&self->samples, sonde_capture_model_budget (self->model),
                      options != NULL && options->keeps_times);
  self->samples.by_thread = !self->is_raw && options->by == SONDE_BY_THREAD;
  return self;
}

void
sonde_report_free (SondeReport *self)
{
  if (self == NULL)
    return;
  sonde_profile_free (self->profile);
  sonde_live_profile_free (self->live);
  sonde_samples_clear (&self->samples);
  sonde_symbol_resolver_free (self->resolver);
  sonde_capture_model_free (self->model);
  g_free (self);
}

void
sonde_report_add_frame (SondeReport *self, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (self->model, frame);
}

/* Of each place the function in the place of the node, which goes. */
static void
name_places (SondeReport *self)
{
  GArray *places = self->samples.places;

  for (guint i = 0; places != NULL && i < places->len; i++)
    {
      SondeSamplePlace *place = &g_array_index (places, SondeSamplePlace, i);
      const SondeCallTree *tree = sonde_samples_tree (
          &self->samples, sonde_samples_tree_of (&self->samples, place->thread));
      const guint32 *functions;
      guint32 n = 0;

      if (place->node != 0)
        functions = sonde_symbol_resolver_get (self->resolver,
                                               sonde_call_tree_node (tree, place->node)->id, &n);
      place->node = n > 0 ? functions[n - 1] : SONDE_REPORT_NOWHERE;
    }
}

void
sonde_report_follow (SondeReport *self)
{
  if (self->live == NULL)
    self->live = sonde_live_profile_new (self->model, &self->samples);
}

void
sonde_report_finish (SondeReport *self, const SondeSymbolOptions *options)
{
  GPtrArray *trees = self->samples.trees;

  g_clear_pointer (&self->live, sonde_live_profile_free);
  self->resolver = sonde_symbol_resolver_new (self->model, options);
  sonde_symbol_resolver_find_all (self->resolver);
  for (guint i = 0; i < trees->len; i++)
    if (g_ptr_array_index (trees, i) != NULL)
      sonde_symbol_resolver_make_room (self->resolver, g_ptr_array_index (trees, i));

  name_places (self);
  self->profile = sonde_profile_new (SONDE_UNIT_SAMPLES, self->resolver);
  if (!self->is_raw)
    sonde_profile_group (self->profile, sonde_grouping_new (self->options.by, self->model));
  for (guint i = 0; i < trees->len; i++)
    {
      g_autoptr (SondeCallTree) locations = g_steal_pointer (&g_ptr_array_index (trees, i));
      gint32 tid;
      guint process;

      if (locations == NULL)
        continue;
      process = sonde_samples_process_of (&self->samples, i, &tid);
      /* as large as what it becomes: it goes at once */
      sonde_profile_add_process (self->profile, sonde_capture_model_process (self->model, process),
                                 tid, sonde_symbol_resolver_expand (self->resolver, locations),
                                 NULL);
    }
  sonde_symbol_resolver_forget_locations (self->resolver);
  if (!self->is_raw)
    sonde_profile_fold (self->profile, &self->options.folding);
  sonde_profile_sort (self->profile);
}

GString *
sonde_report_dup_json (const SondeReport *report,
                       const SondeProfile *shown,
                       gboolean as_rows,
                       double percent_limit)
{
  const SondeCaptureModel *model = report->model;
  GString *out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);
  g_autoptr (GKeyFile) file = NULL;
  g_auto (GStrv) keys = NULL;

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SONDE_REPORT_JSON_VERSION);
  file = sonde_capture_model_dup_settings (model);
  if (file != NULL)
    keys = g_key_file_get_keys (file, SONDE_CAPTURE_SETTINGS, NULL, NULL);

  sonde_json_begin_object (&json, "settings");
  for (guint i = 0; keys != NULL && keys[i] != NULL; i++)
    {
      g_autofree char *value = g_key_file_get_value (file, SONDE_CAPTURE_SETTINGS, keys[i], NULL);
      g_autofree char *key = sonde_text_escape (keys[i], -1);
      g_autofree char *text = sonde_text_escape (value != NULL ? value : "", -1);

      sonde_json_add_text (&json, key, text);
    }
  sonde_json_end_object (&json);
  sonde_json_begin_object (&json, "ledger");
  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    {
      guint64 value;

      if (sonde_capture_model_ledger (model, i, &value))
        sonde_json_add_number (&json, sonde_ledger_name (i), (gint64) value);
    }
  sonde_json_end_object (&json);
  sonde_json_add_number (&json, "duration-ns", sonde_capture_model_duration_ns (model));
  sonde_json_add_number (&json, "samples", (gint64) sonde_capture_model_n_samples (model));
  sonde_profile_json_add_truncated (&json, model);
  sonde_json_add_number (&json, "total", (gint64) sonde_profile_total (shown));
  if (as_rows)
    sonde_profile_json_add_rows (&json, "rows", shown, percent_limit);
  else
    sonde_profile_json_add_tree (&json, shown, percent_limit);
  sonde_json_end_object (&json);

  g_string_append_c (out, '\n');
  return out;
}
