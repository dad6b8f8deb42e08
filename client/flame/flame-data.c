/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/flame/flame-data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/samples.h"
#include "client/report/report-text.h"
#include "client/base/text.h"

/* A sample as one number to sort by: thread, node, bucket. */
#define BUCKET_BITS 11
#define NODE_BITS   29
G_STATIC_ASSERT (SONDE_FLAME_N_BUCKETS == 1 << BUCKET_BITS);

typedef struct
{
  const SondeSampleLog *log;
  GByteArray *out;
  gint64 first_ns; /* time of the first sample, */
  gint64 last_ns;  /* and of the last one */
  guint64 bucket_ns;
  guint64 *keys; /* of the samples, sorted */
  guint n_keys;
} Packer;

void
sonde_flame_data_append_number (GByteArray *out, guint64 number)
{
  guint8 bytes[10];
  guint n_bytes = 0;

  do
    {
      bytes[n_bytes] = number & 0x7f;
      number >>= 7;
      if (number > 0)
        bytes[n_bytes] |= 0x80;
      n_bytes++;
    }
  while (number > 0);
  g_byte_array_append (out, bytes, n_bytes);
}

void
sonde_flame_data_append_signed (GByteArray *out, gint64 number)
{
  guint64 bits = (guint64) number;

  sonde_flame_data_append_number (out, number < 0 ? ~(bits << 1) : bits << 1);
}

void
sonde_flame_data_append_text (GByteArray *out, const char *text)
{
  gsize len = strlen (text);

  sonde_flame_data_append_number (out, len);
  g_byte_array_append (out, (const guint8 *) text, (guint) len);
}

static guint64
bucket_of (guint64 key)
{
  return key & (SONDE_FLAME_N_BUCKETS - 1);
}

static guint64
node_of (guint64 key)
{
  return key >> BUCKET_BITS & ((1u << NODE_BITS) - 1);
}

static guint64
thread_of (guint64 key)
{
  return key >> (BUCKET_BITS + NODE_BITS);
}

static int
compare_keys (const void *a, const void *b)
{
  guint64 left = *(const guint64 *) a;
  guint64 right = *(const guint64 *) b;

  return left < right ? -1 : left > right;
}

/* Times are foreign: their difference fits only where it has no sign. */
static guint64
since_first (const Packer *self, gint64 time_ns)
{
  return (guint64) time_ns - (guint64) self->first_ns;
}

static void
sort_samples (Packer *self, const SondeFlameGraph *graph)
{
  const GArray *places = self->log->samples.places;

  self->n_keys = places->len;
  self->keys = g_new (guint64, self->n_keys);
  for (guint i = 0; i < self->n_keys; i++)
    {
      const SondeSamplePlace *sample = &g_array_index (places, SondeSamplePlace, i);
      guint tree = sonde_samples_tree_of (&self->log->samples, sample->thread);
      guint64 node = sonde_flame_graph_locate (graph, tree, sample->node);

      self->keys[i] = (guint64) sample->thread << (BUCKET_BITS + NODE_BITS) | node << BUCKET_BITS
                      | since_first (self, sample->time_ns) / self->bucket_ns;
    }
  qsort (self->keys, self->n_keys, sizeof *self->keys, compare_keys);
}

static const SondeModelProcess *
find_heaviest (const SondeSampleLog *log)
{
  const SondeCaptureModel *model = log->model;
  guint heaviest = 0;
  guint64 most = 0;
  gint32 tid;

  for (guint i = 0; i < log->samples.trees->len; i++)
    {
      const SondeCallTree *tree = sonde_samples_tree (&log->samples, i);

      if (tree != NULL && sonde_call_tree_node (tree, 0)->total > most)
        {
          most = sonde_call_tree_node (tree, 0)->total;
          heaviest = sonde_samples_process_of (&log->samples, i, &tid);
        }
    }
  return sonde_capture_model_process (model, heaviest);
}

static const char *const weights[] = {
  [SONDE_FLAME_SAMPLES] = "sample",
  [SONDE_FLAME_CALLS] = "call",
  [SONDE_FLAME_SELF] = "ns",
};

static void
append_head (GByteArray *out,
             const SondeFlameSource *source,
             const SondeFlameGraph *graph,
             guint64 duration_ns)
{
  const SondeCaptureModel *model = source->log != NULL ? source->log->model : source->calls->model;
  const SondeModelProcess process
      = source->log != NULL ? *find_heaviest (source->log) : sonde_calls_process (source->calls, 0);
  g_autofree char *subject = sonde_report_describe_subject (model, &process);
  g_autofree char *event = source->log != NULL                ? sonde_report_describe_event (model)
                           : source->unit == SONDE_FLAME_SELF ? g_strdup ("own time of calls")
                                                              : g_strdup ("calls of functions");
  g_autofree char *lost = sonde_report_describe_losses (model);
  g_autofree char *cut = sonde_budget_describe (sonde_capture_model_budget (model));
  g_autofree char *losses
      = cut != NULL ? g_strdup_printf ("%s; truncated: %s", lost, cut) : g_strdup (lost);
  g_autofree char *start = sonde_text_escape (source->start, -1);
  const char *texts[] = { source->title,        subject, event, start, losses, source->other_title,
                          weights[source->unit] };

  sonde_flame_data_append_number (out, SONDE_FLAME_FORMAT);
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    sonde_flame_data_append_text (out, texts[i] != NULL ? texts[i] : "");
  sonde_flame_data_append_number (out, duration_ns);
  sonde_flame_data_append_number (out, graph->total[0]);
  sonde_flame_data_append_number (out, graph->total[1]);
  sonde_flame_data_append_number (out, graph->threshold);
}

/* All of the model's, so that the numbers of threads' processes are the model's, too. */
static void
append_threads (GByteArray *out, const SondeSampleLog *log)
{
  const SondeCaptureModel *model = log->model;

  sonde_flame_data_append_number (out, sonde_capture_model_n_processes (model));
  for (guint i = 0; i < sonde_capture_model_n_processes (model); i++)
    {
      const SondeModelProcess *process = sonde_capture_model_process (model, i);
      g_autofree char *comm = sonde_text_escape (process->comm, -1);

      sonde_flame_data_append_text (out, comm);
      sonde_flame_data_append_signed (out, process->pid);
    }
  sonde_flame_data_append_number (out, log->samples.threads->len);
  for (guint i = 0; i < log->samples.threads->len; i++)
    {
      const SondeSampleThread *thread = sonde_samples_thread (&log->samples, i);
      const SondeModelProcess *process = sonde_capture_model_process (model, thread->process);
      const char *name = sonde_capture_model_thread_name (model, process, thread->tid);
      g_autofree char *shown = sonde_text_escape (name != process->comm ? name : "", -1);

      sonde_flame_data_append_number (out, thread->process);
      sonde_flame_data_append_signed (out, thread->tid);
      sonde_flame_data_append_text (out, shown);
    }
}

static void
append_lanes (const Packer *self)
{
  GByteArray *out = self->out;
  g_autofree guint32 *counts = g_new (guint32, SONDE_FLAME_N_BUCKETS);
  guint at = 0;

  sonde_flame_data_append_number (out, self->bucket_ns);
  sonde_flame_data_append_number (out, SONDE_FLAME_N_BUCKETS);
  for (guint thread = 0; thread < self->log->samples.threads->len; thread++)
    {
      guint n_points = 0;
      guint previous; /* -1 */

      memset (counts, 0, SONDE_FLAME_N_BUCKETS * sizeof *counts);
      for (; at < self->n_keys && thread_of (self->keys[at]) == thread; at++)
        counts[bucket_of (self->keys[at])]++;
      previous = G_MAXUINT;
      for (guint bucket = 0; bucket < SONDE_FLAME_N_BUCKETS; bucket++)
        n_points += counts[bucket] > 0;
      sonde_flame_data_append_number (out, n_points);
      for (guint bucket = 0; bucket < SONDE_FLAME_N_BUCKETS; bucket++)
        if (counts[bucket] > 0)
          {
            sonde_flame_data_append_number (out, bucket - previous);
            sonde_flame_data_append_number (out, counts[bucket]);
            previous = bucket;
          }
    }
}

/* The number of points, if 1 << @shift buckets are one. */
static guint
count_points (const Packer *self, guint shift)
{
  guint n_points = 0;

  for (guint i = 0; i < self->n_keys; i++)
    n_points += i == 0 || self->keys[i] >> shift != self->keys[i - 1] >> shift;
  return n_points;
}

/* The index behind the keys that are the same as that at @at but for their last @shift bits. */
static guint
skip_equal (const Packer *self, guint at, guint shift)
{
  guint64 key = self->keys[at] >> shift;

  while (at < self->n_keys && self->keys[at] >> shift == key)
    at++;
  return at;
}

static void
append_series (const Packer *self, guint shift)
{
  g_autoptr (GByteArray) threads = g_byte_array_new ();
  g_autoptr (GByteArray) nodes = g_byte_array_new ();
  g_autoptr (GByteArray) sizes = g_byte_array_new ();
  guint64 thread = 0;
  gint64 node = 0;
  guint n_series = 0;

  for (guint at = 0, end; at < self->n_keys; at = end)
    {
      guint64 key = self->keys[at];
      guint n_points = 0;

      end = skip_equal (self, at, BUCKET_BITS);
      for (guint i = at; i < end; i = skip_equal (self, i, shift))
        n_points++;
      sonde_flame_data_append_number (threads, thread_of (key) - thread);
      sonde_flame_data_append_signed (nodes, (gint64) node_of (key) - node);
      sonde_flame_data_append_number (sizes, n_points);
      thread = thread_of (key);
      node = (gint64) node_of (key);
      n_series++;
    }
  sonde_flame_data_append_number (self->out, n_series);
  g_byte_array_append (self->out, threads->data, threads->len);
  g_byte_array_append (self->out, nodes->data, nodes->len);
  g_byte_array_append (self->out, sizes->data, sizes->len);
}

#define SONDE_FLAME_MAX_MARKS         20000 /* the longest are shown: more are not told apart by eye */
#define SONDE_FLAME_MAX_MESSAGE_BYTES 300 /* of a mark; what is longer ends in "…" */

/* The values of a counter within one bucket. */
typedef struct
{
  guint bucket;
  guint64 offset_ns; /* of the last value, after the begin of the bucket */
  double low;
  double high;
} Point;

static void
append_escaped (GByteArray *out, const char *text)
{
  g_autofree char *escaped = sonde_text_escape (text, -1);

  sonde_flame_data_append_text (out, escaped);
}

static void
append_double (GByteArray *out, double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  bits = GUINT64_TO_LE (bits);
  g_byte_array_append (out, (const guint8 *) &bits, sizeof bits);
}

/* Adds @value to the points of its counter; most values come in the order of time. */
static void
add_value (const Packer *self, GPtrArray *counters, const SondeModelValue *value)
{
  const SondeCaptureModel *model = self->log->model;
  GArray *points = g_ptr_array_index (counters, value->counter);
  gboolean is_double = sonde_capture_model_counter (model, value->counter)->is_double;
  double number = is_double ? value->value.vdbl : (double) value->value.v64;
  Point point = { .low = number, .high = number };
  Point *last = points->len > 0 ? &g_array_index (points, Point, points->len - 1) : NULL;

  if (!isfinite (number) || value->time_ns < self->first_ns || value->time_ns > self->last_ns)
    return;
  point.bucket = (guint) (since_first (self, value->time_ns) / self->bucket_ns);
  point.offset_ns = since_first (self, value->time_ns) % self->bucket_ns;
  if (last == NULL || last->bucket < point.bucket)
    g_array_append_val (points, point);
  else if (last->bucket == point.bucket)
    {
      last->offset_ns = MAX (last->offset_ns, point.offset_ns);
      last->low = MIN (last->low, number);
      last->high = MAX (last->high, number);
    }
}

static void
append_counter (GByteArray *out, const SondeModelCounter *counter, const GArray *points)
{
  guint previous = G_MAXUINT; /* -1 */

  append_escaped (out, counter->category);
  append_escaped (out, counter->name);
  append_escaped (out, counter->description);
  sonde_flame_data_append_number (out, points->len);
  for (guint i = 0; i < points->len; i++)
    {
      const Point *point = &g_array_index (points, Point, i);

      sonde_flame_data_append_number (out, point->bucket - previous);
      sonde_flame_data_append_number (out, point->offset_ns);
      append_double (out, point->low);
      append_double (out, point->high);
      previous = point->bucket;
    }
}

static void
points_free (gpointer data)
{
  g_array_unref (data);
}

static int
compare_durations (gconstpointer a, gconstpointer b)
{
  const SondeModelMark *left = *(const SondeModelMark *const *) a;
  const SondeModelMark *right = *(const SondeModelMark *const *) b;

  return left->duration_ns > right->duration_ns ? -1 : left->duration_ns < right->duration_ns;
}

static int
compare_starts (gconstpointer a, gconstpointer b)
{
  const SondeModelMark *left = *(const SondeModelMark *const *) a;
  const SondeModelMark *right = *(const SondeModelMark *const *) b;

  return left->time_ns < right->time_ns ? -1 : left->time_ns > right->time_ns;
}

static void
append_marks (const Packer *self)
{
  GByteArray *out = self->out;
  g_autoptr (GPtrArray) shown = g_ptr_array_new ();
  guint n_left_out;

  for (guint i = 0; i < self->log->marks->len; i++)
    {
      const SondeModelMark *mark = &g_array_index (self->log->marks, SondeModelMark, i);

      if (mark->time_ns >= self->first_ns && mark->time_ns <= self->last_ns)
        g_ptr_array_add (shown, (gpointer) mark);
    }
  n_left_out = shown->len - MIN (shown->len, SONDE_FLAME_MAX_MARKS);
  if (n_left_out > 0)
    {
      g_ptr_array_sort (shown, compare_durations);
      g_ptr_array_set_size (shown, SONDE_FLAME_MAX_MARKS);
    }
  g_ptr_array_sort (shown, compare_starts);

  sonde_flame_data_append_number (out, shown->len);
  sonde_flame_data_append_number (out, n_left_out);
  for (guint i = 0; i < shown->len; i++)
    {
      const SondeModelMark *mark = g_ptr_array_index (shown, i);
      g_autofree char *escaped = NULL;

      sonde_flame_data_append_signed (out, mark->pid);
      append_escaped (out, mark->group);
      append_escaped (out, mark->name);
      escaped = sonde_text_escape (mark->message, -1);
      if (strlen (escaped) > SONDE_FLAME_MAX_MESSAGE_BYTES)
        strcpy (g_utf8_find_prev_char (escaped, escaped + SONDE_FLAME_MAX_MESSAGE_BYTES - 2), "…");
      sonde_flame_data_append_text (out, escaped);
      sonde_flame_data_append_number (out, since_first (self, mark->time_ns));
      sonde_flame_data_append_number (out, (guint64) MAX (mark->duration_ns, 0));
    }
}

/* The counters and marks. What lies before the first sample or after the last one is left out. */
static void
append_tracks (const Packer *self)
{
  const SondeCaptureModel *model = self->log->model;
  const GArray *values = self->log->values;
  g_autoptr (GPtrArray) counters = g_ptr_array_new_with_free_func (points_free);
  guint n_shown = 0;

  for (guint i = 0; i < sonde_capture_model_n_counters (model); i++)
    g_ptr_array_add (counters, g_array_new (FALSE, FALSE, sizeof (Point)));
  for (guint i = 0; i < values->len; i++)
    {
      const SondeModelValue *value = &g_array_index (values, SondeModelValue, i);

      if (!g_str_equal (sonde_capture_model_counter (model, value->counter)->category,
                        SONDE_LEDGER_CATEGORY))
        add_value (self, counters, value);
    }

  for (guint i = 0; i < counters->len; i++)
    n_shown += ((const GArray *) g_ptr_array_index (counters, i))->len > 0;
  sonde_flame_data_append_number (self->out, n_shown);
  for (guint i = 0; i < counters->len; i++)
    if (((const GArray *) g_ptr_array_index (counters, i))->len > 0)
      append_counter (self->out, sonde_capture_model_counter (model, i),
                      g_ptr_array_index (counters, i));
  append_marks (self);
}

static void
append_nodes (GByteArray *out, const SondeFlameGraph *graph, gboolean is_compared)
{
  gint64 depth = 0;

  sonde_flame_data_append_number (out, graph->functions->len);
  for (guint32 i = 0; i < graph->functions->len; i++)
    {
      const SondeFlameFunction *function = sonde_flame_graph_function (graph, i);

      sonde_flame_data_append_number (out, function->kind);
      sonde_flame_data_append_text (out, function->name);
      sonde_flame_data_append_text (
          out, g_str_equal (function->shown, function->name) ? "" : function->shown);
      sonde_flame_data_append_text (out, function->module);
      sonde_flame_data_append_text (out, function->source);
    }
  sonde_flame_data_append_number (out, graph->nodes->len);
  for (guint32 i = 0; i < graph->nodes->len; i++)
    {
      gint64 next = sonde_flame_graph_node (graph, i)->depth;

      sonde_flame_data_append_signed (out, next - depth);
      depth = next;
    }
  for (guint32 i = 0; i < graph->nodes->len; i++)
    sonde_flame_data_append_number (out, sonde_flame_graph_node (graph, i)->function);
  for (guint32 i = 0; is_compared && i < graph->nodes->len; i++)
    sonde_flame_data_append_number (out, sonde_flame_graph_node (graph, i)->self[1]);
}

/* --- of calls --- */

/* Of a path: what ends at its node, or calls in one of its buckets. */
typedef struct
{
  guint32 program;
  guint32 node;
  guint32 bucket;
  guint64 n;
} Piece;

static int
compare_pieces (gconstpointer a, gconstpointer b)
{
  const Piece *left = a;
  const Piece *right = b;

  if (left->program != right->program)
    return left->program < right->program ? -1 : 1;
  if (left->node != right->node)
    return left->node < right->node ? -1 : 1;
  return left->bucket < right->bucket ? -1 : left->bucket > right->bucket;
}

/* Those that are of the same become one. */
static void
merge_pieces (GArray *pieces)
{
  guint n = 0;

  g_array_sort (pieces, compare_pieces);
  for (guint i = 0; i < pieces->len; i++)
    {
      Piece *last = n > 0 ? &g_array_index (pieces, Piece, n - 1) : NULL;
      const Piece piece = g_array_index (pieces, Piece, i);

      if (last != NULL && compare_pieces (last, &piece) == 0)
        last->n += piece.n;
      else
        g_array_index (pieces, Piece, n++) = piece;
    }
  g_array_set_size (pieces, n);
}

/* Buckets of another clock become those of ns that their middle is in. */
static void
take_spread (GArray *spreads, const SondeCallsPath *path, double ns_a_tick, guint32 node)
{
  for (guint i = 0; path->buckets != NULL && i < path->buckets->len; i++)
    {
      const SondeCallsBucket *bucket = &g_array_index (path->buckets, SondeCallsBucket, i);
      double middle = (double) (sonde_calls_bucket_begin (bucket->bucket)
                                + sonde_calls_bucket_begin (bucket->bucket + 1))
                      / 2;
      const Piece piece = { .node = node,
                            .bucket = sonde_calls_bucket ((guint64) (middle * ns_a_tick)),
                            .n = bucket->n };

      g_array_append_val (spreads, piece);
    }
}

static void
take_paths (const SondeFlameSource *source,
            const SondeFlameGraph *graph,
            GArray *weights_of,
            GArray *spreads)
{
  const SondeCalls *calls = source->calls;
  guint at = 0;

  for (guint program = 0; program < sonde_calls_reader_n_programs (calls->reader); program++)
    {
      const SondeCallsProgram *of = sonde_calls_reader_program (calls->reader, program);

      for (guint i = 0; i < of->paths->len; i++, at++)
        {
          const SondeCallsNode *node = &g_array_index (calls->nodes, SondeCallsNode, at);
          const Piece piece = { .program = program,
                                .node = sonde_flame_graph_locate (graph, program, i),
                                .n = source->unit == SONDE_FLAME_SELF ? (guint64) node->sum.self_ns
                                                                      : node->sum.calls };
          guint32 function;

          if (node->parent == 0 || piece.node == SONDE_FLAME_NOWHERE)
            continue;
          function = sonde_flame_graph_node (graph, piece.node)->function;
          if (piece.n > 0)
            g_array_append_val (weights_of, piece);
          /* What is summed up there took anything. */
          if (of->ticks_per_s > 0
              && sonde_flame_graph_function (graph, function)->kind != SONDE_FLAME_LIGHT)
            take_spread (spreads, &g_array_index (of->paths, SondeCallsPath, i),
                         1e9 / (double) of->ticks_per_s, piece.node);
        }
    }
  merge_pieces (weights_of);
  merge_pieces (spreads);
}

static void
append_programs (GByteArray *out, const SondeCalls *calls, const GArray *pieces)
{
  guint n = sonde_calls_reader_n_programs (calls->reader);
  guint at = 0;

  sonde_flame_data_append_number (out, n);
  for (guint i = 0; i < n; i++)
    {
      const SondeModelProcess process = sonde_calls_process (calls, i);

      append_escaped (out, process.comm);
      sonde_flame_data_append_signed (out, process.pid);
    }
  sonde_flame_data_append_number (out, n);
  for (guint i = 0; i < n; i++)
    {
      sonde_flame_data_append_number (out, i);
      sonde_flame_data_append_signed (out, sonde_calls_reader_program (calls->reader, i)->pid);
      sonde_flame_data_append_text (out, ""); /* as its process */
    }
  sonde_flame_data_append_number (out, 1);
  sonde_flame_data_append_number (out, 1);
  for (guint i = 0; i < n; i++)
    {
      guint64 weight = 0;

      for (; at < pieces->len && g_array_index (pieces, Piece, at).program == i; at++)
        weight += g_array_index (pieces, Piece, at).n;
      sonde_flame_data_append_number (out, weight > 0);
      if (weight > 0)
        {
          sonde_flame_data_append_number (out, 1);
          sonde_flame_data_append_number (out, weight);
        }
    }
}

static void
append_weights (GByteArray *out, const GArray *pieces)
{
  gint64 node = 0;
  guint32 program = 0;

  sonde_flame_data_append_number (out, 1);
  sonde_flame_data_append_number (out, 1);
  sonde_flame_data_append_number (out, pieces->len);
  for (guint i = 0; i < pieces->len; i++)
    {
      sonde_flame_data_append_number (out, g_array_index (pieces, Piece, i).program - program);
      program = g_array_index (pieces, Piece, i).program;
    }
  for (guint i = 0; i < pieces->len; i++)
    {
      sonde_flame_data_append_signed (out, (gint64) g_array_index (pieces, Piece, i).node - node);
      node = g_array_index (pieces, Piece, i).node;
    }
  /* One point of each, in the first bucket, whose difference to -1 is 1. */
  for (guint column = 0; column < 2; column++)
    for (guint i = 0; i < pieces->len; i++)
      sonde_flame_data_append_number (out, 1);
  for (guint i = 0; i < pieces->len; i++)
    sonde_flame_data_append_number (out, g_array_index (pieces, Piece, i).n);
}

static void
append_spreads (GByteArray *out, const GArray *pieces)
{
  guint n_nodes = 0;
  guint32 node = G_MAXUINT32; /* -1 */

  for (guint i = 0; i < pieces->len; i++)
    n_nodes
        += i == 0
           || g_array_index (pieces, Piece, i).node != g_array_index (pieces, Piece, i - 1).node;
  sonde_flame_data_append_number (out, n_nodes);
  for (guint at = 0, end; at < pieces->len; at = end)
    {
      const Piece *first = &g_array_index (pieces, Piece, at);
      guint32 bucket = G_MAXUINT32;

      for (end = at; end < pieces->len && g_array_index (pieces, Piece, end).node == first->node;)
        end++;
      sonde_flame_data_append_number (out, first->node - node);
      sonde_flame_data_append_number (out, end - at);
      node = first->node;
      for (guint i = at; i < end; i++)
        {
          const Piece *piece = &g_array_index (pieces, Piece, i);

          sonde_flame_data_append_number (out, piece->bucket - bucket);
          sonde_flame_data_append_number (out, piece->n);
          bucket = piece->bucket;
        }
    }
}

/* Times of programs may be anything. */
static guint64
measure_calls (const SondeCalls *calls)
{
  gint64 first_ns = G_MAXINT64;
  gint64 last_ns = 0;

  for (guint i = 0; i < sonde_calls_reader_n_programs (calls->reader); i++)
    {
      const SondeCallsProgram *of = sonde_calls_reader_program (calls->reader, i);

      first_ns = MIN (first_ns, MAX (of->begin_ns, 0));
      last_ns = MAX (last_ns, of->end_ns);
    }
  return last_ns > first_ns ? (guint64) (last_ns - first_ns) : 0;
}

static GByteArray *
pack_calls (const SondeFlameSource *source, const SondeFlameGraph *graph)
{
  GByteArray *out = g_byte_array_new ();
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  g_autoptr (GArray) spreads = g_array_new (FALSE, FALSE, sizeof (Piece));

  take_paths (source, graph, pieces, spreads);
  append_head (out, source, graph, measure_calls (source->calls));
  append_nodes (out, graph, FALSE);
  append_programs (out, source->calls, pieces);
  append_weights (out, pieces);
  sonde_flame_data_append_number (out, 0); /* counters, */
  sonde_flame_data_append_number (out, 0); /* marks, */
  sonde_flame_data_append_number (out, 0); /* and more of them */
  append_spreads (out, spreads);
  for (guint i = 0; i < 3; i++)
    sonde_flame_data_append_number (out, 0); /* runs */
  return out;
}

/* --- stacks in the order of time --- */

#define MAX_GAPS       4096 /* that are looked at, for how often there are samples */
#define TICKS_A_PERIOD 4
#define GAP_PERIODS    2 /* after that long the thread did not run, or nobody looked */

/* Samples of a thread, one after the other, that end at the same node. */
typedef struct
{
  guint64 start; /* ticks after the first sample of all */
  guint64 end;
  guint64 node;
} Run;

typedef struct
{
  const SondeSampleLog *log;
  const SondeFlameGraph *graph;
  gint64 first_ns;
  guint *firsts;  /* by thread, and one more: its first in @order */
  guint32 *order; /* numbers of places, by thread, then by time */
  guint64 period_ns;
  guint64 tick_ns;
  gboolean is_merged; /* each tick is one run at most, of the node with most samples in it */
  Run run;            /* that may go on */
  guint64 end;        /* of the run before */
  guint64 node;
  guint n_runs;
  GByteArray *gaps;
  GByteArray *lengths;
  GByteArray *nodes;
} RunPacker;

static const SondeSamplePlace *
place_at (const RunPacker *self, guint at)
{
  return &g_array_index (self->log->samples.places, SondeSamplePlace, self->order[at]);
}

static guint64
time_at (const RunPacker *self, guint at)
{
  return (guint64) place_at (self, at)->time_ns - (guint64) self->first_ns;
}

static guint64
node_at (const RunPacker *self, guint at)
{
  const SondeSamplePlace *place = place_at (self, at);

  return sonde_flame_graph_locate (
      self->graph, sonde_samples_tree_of (&self->log->samples, place->thread), place->node);
}

static int
compare_times (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const GArray *places = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  gint64 left_ns = g_array_index (places, SondeSamplePlace, left).time_ns;
  gint64 right_ns = g_array_index (places, SondeSamplePlace, right).time_ns;

  if (left_ns != right_ns)
    return left_ns < right_ns ? -1 : 1;
  return left < right ? -1 : left > right;
}

/* Most threads' samples came in the order of time. */
static void
order_places (RunPacker *self)
{
  GArray *places = self->log->samples.places;
  guint n_threads = self->log->samples.threads->len;
  g_autofree guint *nexts = NULL;

  self->firsts = g_new0 (guint, n_threads + 1);
  self->order = g_new (guint32, places->len);
  for (guint i = 0; i < places->len; i++)
    self->firsts[g_array_index (places, SondeSamplePlace, i).thread + 1]++;
  for (guint thread = 0; thread < n_threads; thread++)
    self->firsts[thread + 1] += self->firsts[thread];
  nexts = g_memdup2 (self->firsts, (n_threads + 1) * sizeof *nexts);
  for (guint i = 0; i < places->len; i++)
    self->order[nexts[g_array_index (places, SondeSamplePlace, i).thread]++] = i;
  for (guint thread = 0; thread < n_threads; thread++)
    {
      guint end = self->firsts[thread + 1];
      guint at = self->firsts[thread];

      while (at + 1 < end && place_at (self, at)->time_ns <= place_at (self, at + 1)->time_ns)
        at++;
      if (at + 1 < end)
        g_qsort_with_data (self->order + self->firsts[thread], (gint) (end - self->firsts[thread]),
                           sizeof *self->order, compare_times, places);
    }
}

/* How long a sample stands for, from those of some that soon had another of their thread behind
 * them: a tenth of all. */
static guint64
estimate_period (const RunPacker *self)
{
  guint n = self->log->samples.places->len;
  guint step = n / MAX_GAPS + 1;
  g_autoptr (GArray) gaps = g_array_new (FALSE, FALSE, sizeof (guint64));

  for (guint at = 0; at + 1 < n; at += step)
    if (place_at (self, at)->thread == place_at (self, at + 1)->thread)
      {
        guint64 gap = time_at (self, at + 1) - time_at (self, at);

        g_array_append_val (gaps, gap);
      }
  if (gaps->len == 0)
    return SONDE_FLAME_LONE_NS;
  g_array_sort (gaps, compare_keys);
  return MAX (g_array_index (gaps, guint64, gaps->len / 10), 1);
}

static void
finish_run (RunPacker *self)
{
  const Run *run = &self->run;

  if (run->end <= run->start)
    return;
  sonde_flame_data_append_number (self->gaps, run->start - self->end);
  sonde_flame_data_append_number (self->lengths, run->end - run->start);
  sonde_flame_data_append_signed (self->nodes, (gint64) run->node - (gint64) self->node);
  self->end = run->end;
  self->node = run->node;
  self->n_runs++;
}

static void
add_run (RunPacker *self, guint64 start, guint64 end, guint64 node)
{
  if (self->run.node == node && self->run.end == start)
    {
      self->run.end = end;
      return;
    }
  finish_run (self);
  self->run = (Run){ .start = start, .end = end, .node = node };
}

/* The node with most samples of those from @at to before @end. */
static guint64
find_most (const RunPacker *self, guint at, guint end)
{
  guint n = end - at;
  g_autofree guint64 *nodes = g_new (guint64, n);
  guint64 most = 0;
  guint n_most = 0;

  for (guint i = 0; i < n; i++)
    nodes[i] = node_at (self, at + i);
  qsort (nodes, n, sizeof *nodes, compare_keys);
  for (guint i = 0, next; i < n; i = next)
    {
      for (next = i + 1; next < n && nodes[next] == nodes[i];)
        next++;
      if (next - i > n_most)
        {
          n_most = next - i;
          most = nodes[i];
        }
    }
  return most;
}

static gboolean
add_thread (RunPacker *self, guint thread, guint max_runs)
{
  guint end = self->firsts[thread + 1];

  self->run = (Run){ 0 };
  self->end = 0;
  for (guint at = self->firsts[thread], next; at < end && self->n_runs <= max_runs; at = next)
    {
      guint64 start_ns = time_at (self, at);
      guint64 start = start_ns / self->tick_ns;
      guint64 stop_ns = start_ns + MIN (self->period_ns, G_MAXUINT64 - start_ns);

      next = at + 1;
      if (self->is_merged)
        {
          while (next < end && time_at (self, next) / self->tick_ns == start)
            next++;
          add_run (self, start, start + 1, find_most (self, at, next));
          continue;
        }
      /* the next one may be a little late */
      if (next < end && (time_at (self, next) - start_ns) / GAP_PERIODS <= self->period_ns)
        stop_ns = time_at (self, next);
      add_run (self, start, stop_ns / self->tick_ns, node_at (self, at));
    }
  finish_run (self);
  return self->n_runs <= max_runs;
}

/* FALSE: there are more than @max_runs, and it went no further. */
static gboolean
pack_runs (RunPacker *self, GArray *counts, guint max_runs)
{
  self->n_runs = 0;
  self->node = 0;
  g_array_set_size (counts, 0);
  g_byte_array_set_size (self->gaps, 0);
  g_byte_array_set_size (self->lengths, 0);
  g_byte_array_set_size (self->nodes, 0);
  for (guint thread = 0; thread < self->log->samples.threads->len; thread++)
    {
      guint before = self->n_runs;
      guint n;

      if (!add_thread (self, thread, max_runs))
        return FALSE;
      n = self->n_runs - before;
      g_array_append_val (counts, n);
    }
  return TRUE;
}

/* So wide that ticks of all threads, from the first to the last sample of each, are not too many.
 */
static guint64
choose_tick (const RunPacker *self, guint max_runs)
{
  guint n_threads = self->log->samples.threads->len;
  double sum_ns = 0;

  for (guint thread = 0; thread < n_threads; thread++)
    if (self->firsts[thread + 1] > self->firsts[thread])
      sum_ns += (double) (time_at (self, self->firsts[thread + 1] - 1)
                          - time_at (self, self->firsts[thread]));
  /* less than half of them: each thread has a tick, or two, that it does not fill */
  return (guint64) (sum_ns / (max_runs - 2 * n_threads)) + 1;
}

static void
append_runs (const Packer *packer, const SondeFlameGraph *graph, guint max_runs)
{
  g_autoptr (GByteArray) gaps = g_byte_array_new ();
  g_autoptr (GByteArray) lengths = g_byte_array_new ();
  g_autoptr (GByteArray) nodes = g_byte_array_new ();
  g_autoptr (GArray) counts = g_array_new (FALSE, FALSE, sizeof (guint));
  RunPacker self = { .log = packer->log,
                     .graph = graph,
                     .first_ns = packer->first_ns,
                     .gaps = gaps,
                     .lengths = lengths,
                     .nodes = nodes };
  gboolean fits;

  order_places (&self);
  self.period_ns = estimate_period (&self);
  self.tick_ns = MAX (self.period_ns / TICKS_A_PERIOD, 1);
  fits = pack_runs (&self, counts, max_runs);
  if (!fits && max_runs / 4 > packer->log->samples.threads->len)
    {
      self.is_merged = TRUE;
      self.tick_ns = choose_tick (&self, max_runs);
      fits = pack_runs (&self, counts, max_runs);
    }
  if (!fits) /* there are too many threads */
    self.n_runs = 0;
  sonde_flame_data_append_number (packer->out, self.n_runs);
  sonde_flame_data_append_number (packer->out, self.tick_ns);
  sonde_flame_data_append_number (packer->out, self.is_merged);
  if (self.n_runs > 0)
    {
      for (guint thread = 0; thread < counts->len; thread++)
        sonde_flame_data_append_number (packer->out, g_array_index (counts, guint, thread));
      g_byte_array_append (packer->out, gaps->data, gaps->len);
      g_byte_array_append (packer->out, lengths->data, lengths->len);
      g_byte_array_append (packer->out, nodes->data, nodes->len);
    }
  g_free (self.firsts);
  g_free (self.order);
}

/* --- of samples --- */

GByteArray *
sonde_flame_data_new (const SondeFlameSource *source,
                      const SondeFlameGraph *graph,
                      guint max_points,
                      guint max_runs)
{
  GByteArray *out;
  Packer self = { .log = source->log };
  g_autoptr (GByteArray) counts = g_byte_array_new ();
  guint shift = 0;
  guint64 previous = 0;
  guint64 series = G_MAXUINT64;

  if (source->calls != NULL)
    return pack_calls (source, graph);
  out = self.out = g_byte_array_new ();
  g_assert (graph->nodes->len < 1u << NODE_BITS);
  sonde_sample_log_range (source->log, &self.first_ns, &self.last_ns);
  self.bucket_ns = since_first (&self, self.last_ns) / SONDE_FLAME_N_BUCKETS + 1;
  sort_samples (&self, graph);
  append_head (out, source, graph, since_first (&self, self.last_ns));
  append_nodes (out, graph, source->other_title != NULL);
  append_threads (out, source->log);
  append_lanes (&self);
  while (shift < BUCKET_BITS && count_points (&self, shift) > max_points)
    shift++;
  sonde_flame_data_append_number (out, self.bucket_ns << shift);
  sonde_flame_data_append_number (out, SONDE_FLAME_N_BUCKETS >> shift);
  append_series (&self, shift);
  for (guint at = 0, end; at < self.n_keys; at = end)
    {
      guint64 key = self.keys[at];
      guint64 bucket = bucket_of (key) >> shift;

      end = skip_equal (&self, at, shift);
      if (key >> BUCKET_BITS != series)
        previous = G_MAXUINT64; /* -1 */
      series = key >> BUCKET_BITS;
      sonde_flame_data_append_number (out, bucket - previous);
      sonde_flame_data_append_number (counts, end - at);
      previous = bucket;
    }
  g_byte_array_append (out, counts->data, counts->len);
  append_tracks (&self);
  sonde_flame_data_append_number (out, 0); /* spreads */
  g_clear_pointer (&self.keys, g_free);
  append_runs (&self, graph, max_runs);
  return out;
}
