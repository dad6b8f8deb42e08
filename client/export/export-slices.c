/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/export/export-slices.h"

#include "client/base/id-map.h"

#define MAX_INTERVALS 3 /* without a sample: it was not running */

typedef struct
{
  gint32 pid;
  gint32 tid;
  gint64 last_ns;
  gint64 told_ns; /* no time that is told is earlier */
  GArray *open;   /* guint32: functions, outermost first */
} SliceThread;

struct SondeExportSlices
{
  gint64 interval_ns;
  SondeBudget *budget;
  SondeExportSliceFunc func;
  gpointer user_data;
  GPtrArray *threads;     /* SliceThread */
  SondeIdMap *thread_ids; /* pid << 32 | tid → index of threads */
};

static void
thread_free (gpointer data)
{
  SliceThread *thread = data;

  g_array_unref (thread->open);
  g_free (thread);
}

SondeExportSlices *
sonde_export_slices_new (gint64 interval_ns,
                         SondeBudget *budget,
                         SondeExportSliceFunc func,
                         gpointer user_data)
{
  SondeExportSlices *self = g_new0 (SondeExportSlices, 1);

  self->interval_ns = interval_ns;
  self->budget = budget;
  self->func = func;
  self->user_data = user_data;
  self->threads = g_ptr_array_new_with_free_func (thread_free);
  self->thread_ids = sonde_id_map_new ();
  return self;
}

void
sonde_export_slices_free (SondeExportSlices *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->threads);
  sonde_id_map_free (self->thread_ids);
  g_free (self);
}

/* The slice at a depth of the thread. */
static SondeExportSlice
slice_at (const SliceThread *thread, guint depth)
{
  return (SondeExportSlice){ .pid = thread->pid,
                             .tid = thread->tid,
                             .function = g_array_index (thread->open, guint32, depth),
                             .depth = depth,
                             .time_ns = thread->told_ns };
}

/* Ends all but the outermost @n_stay. */
static void
end_slices (SondeExportSlices *self, SliceThread *thread, guint n_stay, gint64 time_ns)
{
  thread->told_ns = MAX (thread->told_ns, time_ns);
  for (guint i = thread->open->len; i > n_stay; i--)
    {
      SondeExportSlice slice = slice_at (thread, i - 1);

      self->func (&slice, TRUE, self->user_data);
    }
  g_array_set_size (thread->open, n_stay);
}

/* Where the thread stopped after its last sample; times are foreign. */
static gint64
end_of (const SondeExportSlices *self, const SliceThread *thread)
{
  gint64 end_ns;

  return __builtin_add_overflow (thread->last_ns, self->interval_ns, &end_ns) ? thread->last_ns
                                                                              : end_ns;
}

/* NULL if there is no room. */
static SliceThread *
ensure_thread (SondeExportSlices *self, const SondeExportStack *sample)
{
  guint64 key = (guint64) (guint32) sample->pid << 32 | (guint32) sample->tid;
  SliceThread *thread;
  guint32 index;

  if (sonde_id_map_lookup (self->thread_ids, key, &index))
    return g_ptr_array_index (self->threads, index);
  if (self->budget != NULL && !sonde_budget_take (self->budget, SONDE_LIMIT_THREADS, 1))
    return NULL;
  thread = g_new0 (SliceThread, 1);
  thread->pid = sample->pid;
  thread->tid = sample->tid;
  thread->last_ns = sample->time_ns;
  thread->told_ns = sample->time_ns;
  thread->open = g_array_new (FALSE, FALSE, sizeof (guint32));
  sonde_id_map_set (self->thread_ids, key, self->threads->len);
  g_ptr_array_add (self->threads, thread);
  return thread;
}

void
sonde_export_slices_add (SondeExportSlices *self, const SondeExportStack *sample)
{
  SliceThread *thread = ensure_thread (self, sample);
  gint64 time_ns = sample->time_ns;
  gint64 gap_ns;
  guint n_same = 0;

  if (thread == NULL)
    return;
  time_ns = MAX (time_ns, thread->last_ns);
  if (__builtin_sub_overflow (time_ns, thread->last_ns, &gap_ns)
      || gap_ns / MAX_INTERVALS > self->interval_ns)
    end_slices (self, thread, 0, end_of (self, thread));
  while (n_same < thread->open->len && n_same < sample->n_frames
         && g_array_index (thread->open, guint32, n_same) == sample->functions[n_same])
    n_same++;
  end_slices (self, thread, n_same, time_ns);
  for (gsize i = n_same; i < sample->n_frames; i++)
    g_array_append_val (thread->open, sample->functions[i]);
  for (guint i = n_same; i < thread->open->len; i++)
    {
      SondeExportSlice slice = slice_at (thread, i);

      self->func (&slice, FALSE, self->user_data);
    }
  thread->last_ns = time_ns;
}

void
sonde_export_slices_end (SondeExportSlices *self)
{
  for (guint i = 0; i < self->threads->len; i++)
    {
      SliceThread *thread = g_ptr_array_index (self->threads, i);

      end_slices (self, thread, 0, end_of (self, thread));
    }
}
