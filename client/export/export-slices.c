/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples of threads as spans of time: what a viewer of traces draws. */
#include "client/export/export-slices.h"

#define MAX_INTERVALS 3 /* without a sample: it was not running */

typedef struct
{
  guint32 function;
  gint64 start_ns;
} Open;

typedef struct
{
  gint32 pid;
  gint32 tid;
  gint64 last_ns;
  GArray *open; /* Open, outermost first */
} Thread;

struct SondeExportSlices
{
  gint64 interval_ns;
  SondeExportSliceFunc func;
  gpointer user_data;
  GHashTable *threads; /* pid << 32 | tid, in their place → Thread */
};

static void
thread_free (gpointer data)
{
  Thread *thread = data;

  g_array_unref (thread->open);
  g_free (thread);
}

static guint
thread_hash (gconstpointer data)
{
  const Thread *thread = data;

  return (guint) thread->pid * 31u + (guint) thread->tid;
}

static gboolean
thread_equal (gconstpointer a, gconstpointer b)
{
  const Thread *x = a;
  const Thread *y = b;

  return x->pid == y->pid && x->tid == y->tid;
}

SondeExportSlices *
sonde_export_slices_new (gint64 interval_ns, SondeExportSliceFunc func, gpointer user_data)
{
  SondeExportSlices *self = g_new0 (SondeExportSlices, 1);

  self->interval_ns = interval_ns;
  self->func = func;
  self->user_data = user_data;
  self->threads = g_hash_table_new_full (thread_hash, thread_equal, thread_free, NULL);
  return self;
}

void
sonde_export_slices_free (SondeExportSlices *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->threads);
  g_free (self);
}

/* Ends all but the outermost @n_stay. */
static void
close_slices (SondeExportSlices *self, Thread *thread, guint n_stay, gint64 time_ns)
{
  for (guint i = thread->open->len; i > n_stay; i--)
    {
      const Open *open = &g_array_index (thread->open, Open, i - 1);
      SondeExportSlice slice = { thread->pid, thread->tid,    open->function,
                                 i - 1,       open->start_ns, MAX (time_ns, open->start_ns) };

      self->func (&slice, self->user_data);
    }
  g_array_set_size (thread->open, n_stay);
}

/* Where the thread stopped after its last sample; times are foreign. */
static gint64
end_of (const SondeExportSlices *self, const Thread *thread)
{
  gint64 end_ns;

  return __builtin_add_overflow (thread->last_ns, self->interval_ns, &end_ns) ? thread->last_ns
                                                                              : end_ns;
}

static gboolean
was_away (const SondeExportSlices *self, const Thread *thread, gint64 time_ns)
{
  gint64 gap_ns;

  return __builtin_sub_overflow (time_ns, thread->last_ns, &gap_ns)
         || gap_ns / MAX_INTERVALS > self->interval_ns;
}

void
sonde_export_slices_add (SondeExportSlices *self, const SondeExportStack *sample)
{
  Thread key = { .pid = sample->pid, .tid = sample->tid };
  Thread *thread = g_hash_table_lookup (self->threads, &key);
  gint64 time_ns = sample->time_ns;
  guint n_same = 0;

  if (thread == NULL)
    {
      thread = g_new0 (Thread, 1);
      *thread = key;
      thread->last_ns = time_ns;
      thread->open = g_array_new (FALSE, FALSE, sizeof (Open));
      g_hash_table_add (self->threads, thread);
    }
  time_ns = MAX (time_ns, thread->last_ns);
  if (was_away (self, thread, time_ns))
    close_slices (self, thread, 0, end_of (self, thread));
  while (n_same < thread->open->len && n_same < sample->n_frames
         && g_array_index (thread->open, Open, n_same).function == sample->functions[n_same])
    n_same++;
  close_slices (self, thread, n_same, time_ns);
  for (gsize i = n_same; i < sample->n_frames; i++)
    {
      Open open = { sample->functions[i], time_ns };

      g_array_append_val (thread->open, open);
    }
  thread->last_ns = time_ns;
}

void
sonde_export_slices_end (SondeExportSlices *self)
{
  GHashTableIter iter;
  gpointer thread;

  g_hash_table_iter_init (&iter, self->threads);
  while (g_hash_table_iter_next (&iter, NULL, &thread))
    close_slices (self, thread, 0, end_of (self, thread));
}
