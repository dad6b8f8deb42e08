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
  GPtrArray *processes; /* SondeReportProcess, after the end */
  guint64 n_samples;
};

static void
tree_free (gpointer data)
{
  sonde_call_tree_free (data);
}

static void
report_process_free (gpointer data)
{
  SondeReportProcess *process = data;

  sonde_call_tree_free (process->tree);
  g_free (process);
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
  self->n_samples++;
}

SondeReport *
sonde_report_new (const SondeReportFilter *filter)
{
  SondeReport *self = g_new0 (SondeReport, 1);

  self->pid = filter != NULL ? filter->pid : -1;
  self->comm = filter != NULL ? g_strdup (filter->comm) : NULL;
  self->model = sonde_capture_model_new (&(SondeModelFuncs){ .sample = take_sample }, self);
  self->trees = g_ptr_array_new_with_free_func (tree_free);
  self->processes = g_ptr_array_new_with_free_func (report_process_free);
  return self;
}

void
sonde_report_free (SondeReport *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->processes);
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

static int
compare_processes (gconstpointer a, gconstpointer b)
{
  const SondeReportProcess *left = *(const SondeReportProcess *const *) a;
  const SondeReportProcess *right = *(const SondeReportProcess *const *) b;
  guint64 left_total = sonde_call_tree_node (left->tree, 0)->total;
  guint64 right_total = sonde_call_tree_node (right->tree, 0)->total;

  if (left_total != right_total)
    return left_total > right_total ? -1 : 1;
  if (left->process->pid != right->process->pid)
    return left->process->pid < right->process->pid ? -1 : 1;
  return g_strcmp0 (left->process->comm, right->process->comm);
}

void
sonde_report_finish (SondeReport *self)
{
  guint32 n_locations = sonde_capture_model_n_locations (self->model);
  g_autofree guint32 *functions = g_new (guint32, n_locations);

  self->resolver = sonde_symbol_resolver_new (self->model);
  for (guint32 i = 0; i < n_locations; i++)
    functions[i] = sonde_symbol_resolver_resolve (self->resolver, i);

  for (guint i = 0; i < self->trees->len; i++)
    {
      SondeCallTree *locations = g_ptr_array_index (self->trees, i);
      SondeReportProcess *process;

      if (locations == NULL)
        continue;
      process = g_new0 (SondeReportProcess, 1);
      process->process = sonde_capture_model_process (self->model, i);
      process->tree = sonde_call_tree_remap (locations, functions);
      g_ptr_array_add (self->processes, process);
    }
  g_ptr_array_set_size (self->trees, 0);
  g_ptr_array_sort (self->processes, compare_processes);
}

guint
sonde_report_n_processes (const SondeReport *self)
{
  return self->processes->len;
}

const SondeReportProcess *
sonde_report_process (const SondeReport *self, guint process)
{
  return g_ptr_array_index (self->processes, process);
}

guint32
sonde_report_n_functions (const SondeReport *self)
{
  return sonde_symbol_resolver_n_functions (self->resolver);
}

const SondeFunction *
sonde_report_function (const SondeReport *self, guint32 function)
{
  return sonde_symbol_resolver_function (self->resolver, function);
}

const SondeCaptureModel *
sonde_report_model (const SondeReport *self)
{
  return self->model;
}

guint64
sonde_report_n_samples (const SondeReport *self)
{
  return self->n_samples;
}

guint64
sonde_report_n_outermost (const SondeReport *self, const char *name)
{
  guint64 n = 0;

  for (guint i = 0; i < self->processes->len; i++)
    {
      const SondeCallTree *tree = sonde_report_process (self, i)->tree;
      guint32 node = sonde_call_tree_node (tree, 0)->first_child;

      for (; node != 0; node = sonde_call_tree_node (tree, node)->next_sibling)
        {
          const SondeCallNode *child = sonde_call_tree_node (tree, node);

          if (g_str_equal (sonde_report_function (self, child->id)->name, name))
            n += child->total;
        }
    }
  return n;
}
