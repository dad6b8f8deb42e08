/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture summed up: one call tree of functions for each process. */
#include "client/report.h"

struct SondeReport
{
  gint64 pid;
  char *comm;
  SondeCaptureModel *model;
  SondeSymbolResolver *resolver;
  GPtrArray *trees; /* SondeCallTree of locations or NULL, by the model's number of the process */
  SondeProfile *profile; /* after the end */
};

static void
tree_free (gpointer data)
{
  sonde_call_tree_free (data);
}

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeReport *self = user_data;
  const SondeModelProcess *process = sonde_capture_model_process (self->model, sample->process);

  if ((self->pid >= 0 && process->pid != self->pid)
      || (self->comm != NULL && !g_str_equal (process->comm, self->comm)))
    return;

  if (sample->process >= self->trees->len)
    g_ptr_array_set_size (self->trees, (int) sample->process + 1);
  if (g_ptr_array_index (self->trees, sample->process) == NULL)
    g_ptr_array_index (self->trees, sample->process) = sonde_call_tree_new ();
  sonde_call_tree_add (g_ptr_array_index (self->trees, sample->process), sample->locations,
                       sample->n_locations, 1);
}

SondeReport *
sonde_report_new (const SondeReportFilter *filter)
{
  SondeReport *self = g_new0 (SondeReport, 1);

  self->pid = filter != NULL ? filter->pid : -1;
  self->comm = filter != NULL ? g_strdup (filter->comm) : NULL;
  self->model = sonde_capture_model_new (&(SondeModelFuncs){ .sample = take_sample }, self);
  self->trees = g_ptr_array_new_with_free_func (tree_free);
  return self;
}

void
sonde_report_free (SondeReport *self)
{
  if (self == NULL)
    return;
  sonde_profile_free (self->profile);
  g_ptr_array_unref (self->trees);
  sonde_symbol_resolver_free (self->resolver);
  sonde_capture_model_free (self->model);
  g_free (self->comm);
  g_free (self);
}

void
sonde_report_add_frame (SondeReport *self, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (self->model, frame);
}

void
sonde_report_finish (SondeReport *self)
{
  guint32 n_locations = sonde_capture_model_n_locations (self->model);
  g_autofree guint32 *functions = g_new (guint32, n_locations);

  self->resolver = sonde_symbol_resolver_new (self->model);
  for (guint32 i = 0; i < n_locations; i++)
    functions[i] = sonde_symbol_resolver_resolve (self->resolver, i);

  self->profile = sonde_profile_new (SONDE_UNIT_SAMPLES);
  for (guint32 i = 0; i < sonde_symbol_resolver_n_functions (self->resolver); i++)
    sonde_profile_add_function (self->profile, sonde_symbol_resolver_function (self->resolver, i));

  for (guint i = 0; i < self->trees->len; i++)
    {
      SondeCallTree *locations = g_ptr_array_index (self->trees, i);

      if (locations != NULL)
        sonde_profile_add_process (self->profile, sonde_capture_model_process (self->model, i),
                                   sonde_call_tree_remap (locations, functions), NULL);
    }
  g_ptr_array_set_size (self->trees, 0);
  sonde_profile_sort (self->profile);
}

const SondeProfile *
sonde_report_profile (const SondeReport *self)
{
  return self->profile;
}

const SondeCaptureModel *
sonde_report_model (const SondeReport *self)
{
  return self->model;
}
