/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture with the time and thread of each sample kept, for pictures along a time line. */
#include "client/model/sample-log.h"

#include "client/base/id-map.h"

struct SondeSampleLog
{
  SondeCaptureModel *model;
  GPtrArray *trees;    /* SondeCallTree or NULL, by the number of the process */
  GArray *threads;     /* SondeLogThread */
  SondeIdMap *numbers; /* process << 32 | tid → number of the thread */
  GArray *samples;     /* SondeLogSample */
  GArray *marks;       /* SondeModelMark, texts in chunk */
  GArray *values;      /* SondeModelValue */
  GStringChunk *chunk;
};

static void
tree_free (gpointer data)
{
  sonde_call_tree_free (data);
}

static SondeCallTree *
ensure_tree (SondeSampleLog *self, guint process)
{
  if (process >= self->trees->len)
    g_ptr_array_set_size (self->trees, (int) process + 1);
  if (g_ptr_array_index (self->trees, process) == NULL)
    g_ptr_array_index (self->trees, process) = sonde_call_tree_new ();
  return g_ptr_array_index (self->trees, process);
}

static guint32
ensure_thread (SondeSampleLog *self, guint process, gint32 tid)
{
  guint64 key = (guint64) process << 32 | (guint32) tid;
  SondeLogThread thread = { process, tid };
  guint32 number;

  if (sonde_id_map_lookup (self->numbers, key, &number))
    return number;
  sonde_id_map_set (self->numbers, key, self->threads->len);
  g_array_append_val (self->threads, thread);
  return self->threads->len - 1;
}

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeSampleLog *self = user_data;
  SondeLogSample entry = {
    .time_ns = sample->time_ns,
    .thread = ensure_thread (self, sample->process, sample->tid),
    .node = sonde_call_tree_add (ensure_tree (self, sample->process), sample->locations,
                                 sample->n_locations, 1),
  };

  g_array_append_val (self->samples, entry);
}

static void
take_mark (const SondeModelMark *mark, gpointer user_data)
{
  SondeSampleLog *self = user_data;
  SondeModelMark entry = *mark;

  entry.group = g_string_chunk_insert_const (self->chunk, mark->group);
  entry.name = g_string_chunk_insert_const (self->chunk, mark->name);
  entry.message = g_string_chunk_insert_const (self->chunk, mark->message);
  g_array_append_val (self->marks, entry);
}

static void
take_value (const SondeModelValue *value, gpointer user_data)
{
  SondeSampleLog *self = user_data;

  g_array_append_vals (self->values, value, 1);
}

SondeSampleLog *
sonde_sample_log_new (void)
{
  const SondeModelFuncs funcs = { .sample = take_sample, .mark = take_mark, .value = take_value };
  SondeSampleLog *self = g_new0 (SondeSampleLog, 1);

  self->model = sonde_capture_model_new (&funcs, self);
  self->trees = g_ptr_array_new_with_free_func (tree_free);
  self->threads = g_array_new (FALSE, FALSE, sizeof (SondeLogThread));
  self->numbers = sonde_id_map_new ();
  self->samples = g_array_new (FALSE, FALSE, sizeof (SondeLogSample));
  self->marks = g_array_new (FALSE, FALSE, sizeof (SondeModelMark));
  self->values = g_array_new (FALSE, FALSE, sizeof (SondeModelValue));
  self->chunk = g_string_chunk_new (4096);
  return self;
}

void
sonde_sample_log_free (SondeSampleLog *self)
{
  if (self == NULL)
    return;
  sonde_capture_model_free (self->model);
  g_ptr_array_unref (self->trees);
  g_array_unref (self->threads);
  sonde_id_map_free (self->numbers);
  g_array_unref (self->samples);
  g_array_unref (self->marks);
  g_array_unref (self->values);
  g_string_chunk_free (self->chunk);
  g_free (self);
}

void
sonde_sample_log_add_frame (SondeSampleLog *self, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (self->model, frame);
}

const SondeCaptureModel *
sonde_sample_log_model (const SondeSampleLog *self)
{
  return self->model;
}

const SondeCallTree *
sonde_sample_log_tree (const SondeSampleLog *self, guint process)
{
  return process < self->trees->len ? g_ptr_array_index (self->trees, process) : NULL;
}

guint
sonde_sample_log_n_threads (const SondeSampleLog *self)
{
  return self->threads->len;
}

const SondeLogThread *
sonde_sample_log_thread (const SondeSampleLog *self, guint thread)
{
  return &g_array_index (self->threads, SondeLogThread, thread);
}

const SondeLogSample *
sonde_sample_log_samples (const SondeSampleLog *self, guint *n_samples)
{
  *n_samples = self->samples->len;
  return (const SondeLogSample *) (const void *) self->samples->data;
}

const SondeModelMark *
sonde_sample_log_marks (const SondeSampleLog *self, guint *n_marks)
{
  *n_marks = self->marks->len;
  return (const SondeModelMark *) (const void *) self->marks->data;
}

const SondeModelValue *
sonde_sample_log_values (const SondeSampleLog *self, guint *n_values)
{
  *n_values = self->values->len;
  return (const SondeModelValue *) (const void *) self->values->data;
}

gboolean
sonde_sample_log_range (const SondeSampleLog *self, gint64 *first_ns, gint64 *last_ns)
{
  const SondeLogSample *samples = (const SondeLogSample *) (const void *) self->samples->data;

  if (self->samples->len == 0)
    return FALSE;
  *first_ns = *last_ns = samples[0].time_ns;
  for (guint i = 1; i < self->samples->len; i++)
    {
      *first_ns = MIN (*first_ns, samples[i].time_ns);
      *last_ns = MAX (*last_ns, samples[i].time_ns);
    }
  return TRUE;
}
