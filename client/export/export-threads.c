/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/export/export-threads.h"

#include "client/base/id-map.h"

typedef struct
{
  SondeExportThreads *threads;
  SondeBudget *budget;
  SondeIdMap *by_thread;  /* pid << 32 | tid → index */
  SondeIdMap *by_counter; /* pid << 32 | counter → index */
} Collector;

static void
thread_free (gpointer data)
{
  SondeExportThread *self = data;

  sonde_call_tree_free (self->stacks);
  g_array_unref (self->samples);
  g_array_unref (self->allocations);
  g_array_unref (self->marks);
  g_free (self);
}

static void
series_free (gpointer data)
{
  SondeExportSeries *self = data;

  g_array_unref (self->values);
  g_free (self);
}

static guint64
key_of (gint32 pid, guint32 number)
{
  return (guint64) (guint32) pid << 32 | number;
}

static SondeExportThread *
ensure_thread (Collector *self, gint32 pid, gint32 tid)
{
  SondeExportThread *thread;
  guint32 index;

  if (sonde_id_map_lookup (self->by_thread, key_of (pid, (guint32) tid), &index))
    return g_ptr_array_index (self->threads->threads, index);
  if (tid != SONDE_TID_TRUNCATED && !sonde_budget_take (self->budget, SONDE_LIMIT_THREADS, 1))
    return ensure_thread (self, -1, SONDE_TID_TRUNCATED);
  thread = g_new0 (SondeExportThread, 1);
  thread->pid = pid;
  thread->tid = tid;
  thread->process = G_MAXUINT;
  thread->stacks = sonde_call_tree_new (self->budget);
  thread->samples = g_array_new (FALSE, FALSE, sizeof (SondeExportMoment));
  thread->allocations = g_array_new (FALSE, FALSE, sizeof (SondeExportMoment));
  thread->marks = g_array_new (FALSE, FALSE, sizeof (SondeExportMark));
  sonde_id_map_set (self->by_thread, key_of (pid, (guint32) tid), self->threads->threads->len);
  g_ptr_array_add (self->threads->threads, thread);
  return thread;
}

static void
add_moment (Collector *self, const SondeExportStack *stack, gboolean is_sample)
{
  SondeExportThread *thread = ensure_thread (self, stack->pid, stack->tid);
  SondeExportMoment moment = { stack->time_ns, stack->size_bytes, 0 };

  thread->process = stack->process;
  moment.stack = sonde_call_tree_add (thread->stacks, stack->functions, stack->n_frames, 1);
  if (sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 1))
    g_array_append_val (is_sample ? thread->samples : thread->allocations, moment);
}

static void
take_sample (const SondeExportStack *sample, gpointer user_data)
{
  add_moment (user_data, sample, TRUE);
}

static void
take_allocation (const SondeExportStack *allocation, gpointer user_data)
{
  add_moment (user_data, allocation, FALSE);
}

static void
take_mark (const SondeModelMark *mark, gpointer user_data)
{
  Collector *self = user_data;
  gint32 pid = MAX (mark->pid, 0);
  SondeTextPool *texts = self->threads->texts;
  SondeExportMark copy = { .time_ns = mark->time_ns, .duration_ns = MAX (mark->duration_ns, 0) };

  if (!sonde_budget_take (self->budget, SONDE_LIMIT_MARKS, 1))
    return;
  copy.group = sonde_text_pool_add (texts, mark->group, G_MAXUINT16);
  copy.name = sonde_text_pool_add (texts, mark->name, G_MAXUINT16);
  copy.message = sonde_text_pool_add (texts, mark->message, G_MAXUINT16);
  g_array_append_val (ensure_thread (self, pid, pid)->marks, copy);
}

static void
take_value (const SondeModelValue *value, gpointer user_data)
{
  Collector *self = user_data;
  guint64 key = key_of (value->pid, value->counter);
  SondeExportValue copy = { value->time_ns, value->value };
  SondeExportSeries *series;
  guint32 index;

  if (!sonde_budget_take (self->budget, SONDE_LIMIT_VALUES, 1))
    return;
  if (!sonde_id_map_lookup (self->by_counter, key, &index))
    {
      if (!sonde_budget_take (self->budget, SONDE_LIMIT_COUNTERS, 1))
        return;
      series = g_new0 (SondeExportSeries, 1);
      series->counter = value->counter;
      series->pid = value->pid;
      series->values = g_array_new (FALSE, FALSE, sizeof (SondeExportValue));
      index = self->threads->series->len;
      sonde_id_map_set (self->by_counter, key, index);
      g_ptr_array_add (self->threads->series, series);
    }
  series = g_ptr_array_index (self->threads->series, index);
  g_array_append_val (series->values, copy);
}

/* --- order --- */

/* All three begin with their time. */
static int
compare_times (gconstpointer a, gconstpointer b)
{
  gint64 x = *(const gint64 *) a;
  gint64 y = *(const gint64 *) b;

  return (x > y) - (x < y);
}

/* The first thread of a process has its number. */
static int
compare_threads (gconstpointer a, gconstpointer b)
{
  const SondeExportThread *x = *(const SondeExportThread *const *) a;
  const SondeExportThread *y = *(const SondeExportThread *const *) b;

  if (x->pid != y->pid)
    return x->pid < y->pid ? -1 : 1;
  if ((x->tid == x->pid) != (y->tid == y->pid))
    return x->tid == x->pid ? -1 : 1;
  return (x->tid > y->tid) - (x->tid < y->tid);
}

SondeExportThreads *
sonde_export_threads_new (SondeExportSource *source, GError **error)
{
  static const SondeExportFuncs funcs = {
    .sample = take_sample, .allocation = take_allocation, .mark = take_mark, .value = take_value
  };
  g_autoptr (SondeExportThreads) self = g_new0 (SondeExportThreads, 1);
  Collector collector = { self, sonde_capture_model_budget (source->model), sonde_id_map_new (),
                          sonde_id_map_new () };
  gboolean is_read;

  self->texts = sonde_text_pool_new (collector.budget);
  self->threads = g_ptr_array_new_with_free_func (thread_free);
  self->series = g_ptr_array_new_with_free_func (series_free);
  is_read = sonde_export_source_run (source, &funcs, &collector, error);
  /* Counters want a thread to stand at. */
  if (self->series->len > 0 && self->threads->len == 0)
    ensure_thread (&collector, 0, 0);
  sonde_id_map_free (collector.by_thread);
  sonde_id_map_free (collector.by_counter);
  if (!is_read)
    return NULL;
  for (guint i = 0; i < self->threads->len; i++)
    {
      SondeExportThread *thread = g_ptr_array_index (self->threads, i);

      if (thread->tid == SONDE_TID_TRUNCATED)
        thread->comm = SONDE_TRUNCATED;
      else if (thread->process == G_MAXUINT)
        thread->comm = "?";
      else
        thread->comm = sonde_capture_model_process (source->model, thread->process)->comm;
    }
  g_ptr_array_sort (self->threads, compare_threads);
  for (guint i = 0; i < self->threads->len; i++)
    {
      const SondeExportThread *thread = g_ptr_array_index (self->threads, i);

      g_array_sort (thread->samples, compare_times);
      g_array_sort (thread->allocations, compare_times);
      g_array_sort (thread->marks, compare_times);
    }
  for (guint i = 0; i < self->series->len; i++)
    g_array_sort (((SondeExportSeries *) g_ptr_array_index (self->series, i))->values,
                  compare_times);
  return g_steal_pointer (&self);
}

void
sonde_export_threads_free (SondeExportThreads *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->threads);
  g_ptr_array_unref (self->series);
  sonde_text_pool_free (self->texts);
  g_free (self);
}

guint
sonde_export_threads_find (const SondeExportThreads *self, gint32 pid)
{
  guint low = 0;
  guint high = self->threads->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (((SondeExportThread *) g_ptr_array_index (self->threads, middle))->pid < pid)
        low = middle + 1;
      else
        high = middle;
    }
  if (low < self->threads->len
      && ((SondeExportThread *) g_ptr_array_index (self->threads, low))->pid == pid)
    return low;
  return 0;
}
