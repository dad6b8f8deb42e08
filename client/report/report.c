/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture summed up: one call tree of functions for each process. */
#include "client/report/report.h"

#include "client/base/id-map.h"
#include "client/report/profile-view.h"

typedef struct
{
  guint process; /* number of the model */
  gint32 tid;
  guint64 n_samples;
} Thread;

struct SondeReport
{
  SondeReportFilter filter; /* its comm is ours */
  SondeCaptureModel *model;
  SondeSymbolResolver *resolver;
  GPtrArray *trees; /* SondeCallTree of locations or NULL, by the model's number of the process */
  GArray *threads;  /* Thread */
  SondeIdMap *thread_ids; /* process << 32 | tid → index of threads */
  SondeProfile *profile;  /* after the end */
};

static void
tree_free (gpointer data)
{
  sonde_call_tree_free (data);
}

static gboolean
is_wanted (const SondeReportFilter *filter,
           const SondeModelSample *sample,
           const SondeModelProcess *process)
{
  return (filter->pid < 0 || process->pid == filter->pid)
         && (filter->tid < 0 || sample->tid == filter->tid)
         && (filter->comm == NULL || g_str_equal (process->comm, filter->comm))
         && sample->time_ns >= filter->from_ns && sample->time_ns < filter->to_ns;
}

static void
count_thread (SondeReport *self, const SondeModelSample *sample)
{
  guint64 key = (guint64) sample->process << 32 | (guint32) sample->tid;
  guint32 index;

  if (!sonde_id_map_lookup (self->thread_ids, key, &index))
    {
      Thread thread = { sample->process, sample->tid, 0 };

      index = self->threads->len;
      sonde_id_map_set (self->thread_ids, key, index);
      g_array_append_val (self->threads, thread);
    }
  g_array_index (self->threads, Thread, index).n_samples++;
}

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeReport *self = user_data;

  if (!is_wanted (&self->filter, sample,
                  sonde_capture_model_process (self->model, sample->process)))
    return;

  count_thread (self, sample);

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

  self->filter = filter != NULL ? *filter : (SondeReportFilter) SONDE_REPORT_FILTER_INIT;
  self->filter.comm = g_strdup (self->filter.comm);
  self->threads = g_array_new (FALSE, FALSE, sizeof (Thread));
  self->thread_ids = sonde_id_map_new ();
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
  g_array_unref (self->threads);
  sonde_id_map_free (self->thread_ids);
  g_free ((char *) self->filter.comm);
  g_free (self);
}

void
sonde_report_add_frame (SondeReport *self, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (self->model, frame);
}

void
sonde_report_finish (SondeReport *self, const SondeSymbolOptions *options)
{
  guint32 n_locations = sonde_capture_model_n_locations (self->model);
  g_autofree guint32 *starts = g_new (guint32, n_locations + 1);
  g_autoptr (GArray) functions = g_array_new (FALSE, FALSE, sizeof (guint32));

  self->resolver = sonde_symbol_resolver_new (self->model, options);
  for (guint32 i = 0; i < n_locations; i++)
    {
      starts[i] = functions->len;
      sonde_symbol_resolver_resolve_all (self->resolver, i, functions);
    }
  starts[n_locations] = functions->len;

  self->profile = sonde_profile_new (SONDE_UNIT_SAMPLES);
  for (guint32 i = 0; i < sonde_symbol_resolver_n_functions (self->resolver); i++)
    sonde_profile_add_function (self->profile, sonde_symbol_resolver_function (self->resolver, i));

  for (guint i = 0; i < self->trees->len; i++)
    {
      SondeCallTree *locations = g_ptr_array_index (self->trees, i);

      if (locations != NULL)
        sonde_profile_add_process (
            self->profile, sonde_capture_model_process (self->model, i),
            sonde_call_tree_expand (locations, starts, (const guint32 *) (void *) functions->data),
            NULL);
    }
  g_ptr_array_set_size (self->trees, 0);
  sonde_profile_sort (self->profile);
}

const SondeProfile *
sonde_report_profile (const SondeReport *self)
{
  return self->profile;
}

SondeProfile *
sonde_report_by_thread (const SondeReport *self)
{
  SondeProfile *view = sonde_profile_new (SONDE_UNIT_SAMPLES);

  for (guint i = 0; i < self->threads->len; i++)
    {
      const Thread *thread = &g_array_index (self->threads, Thread, i);

      sonde_profile_add_thread (view, sonde_capture_model_process (self->model, thread->process),
                                thread->tid, thread->n_samples);
    }
  return view;
}

const SondeSymbolResolver *
sonde_report_resolver (const SondeReport *self)
{
  return self->resolver;
}

const SondeCaptureModel *
sonde_report_model (const SondeReport *self)
{
  return self->model;
}
