/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The newest samples of a capture that does not end. */
#include "client/top/top-window.h"

#include "client/base/id-map.h"
#include "client/report/profile-view.h"

#define MIN_SAMPLES 4096u /* that there is room for at the start */
#define UNNAMED     G_MAXUINT32
#define PLACEHOLDER "[looking for names]"

/* Bytes that each costs, with its share of tables that are not full. */
enum
{
  LOCATION_BYTES = 112,
  MAPPING_BYTES = 128,
  NODE_BYTES = 80,
  PROCESS_BYTES = 4096,
  THREAD_BYTES = 64,
};

typedef struct
{
  gint64 time_ns; /* when it was read */
  guint32 thread;
  guint32 node; /* of its process's tree, where its stack ends */
} Sample;

typedef struct
{
  guint process;
  gint32 tid;
  guint64 n_all; /* samples since the last reset */
} Thread;

typedef struct
{
  SondeCallTree *tree; /* ids are locations; its weights mean nothing */
  GArray *all;         /* guint64, by node: samples since the last reset that end there */
} Process;

struct SondeTopWindow
{
  gatomicrefcount n_refs;
  SondeCaptureModel *model;
  SondeSymbolResolver *resolver; /* NULL: nothing had to be named yet */
  GArray *functions;             /* guint32, by location: its number, or UNNAMED */
  GPtrArray *processes;          /* Process or NULL, by the model's number */
  GArray *threads;               /* Thread */
  SondeIdMap *thread_ids;        /* process << 32 | tid → index of threads */
  gsize n_nodes;
  Sample *samples; /* a ring */
  guint n_room;    /* a power of two */
  guint first;
  guint n_samples;
  gint64 start_ns;
  gint64 pushed_out_ns; /* the newest sample that found no room any more; 0: none */
  gint64 now_ns;
};

static void
process_free (gpointer data)
{
  Process *process = data;

  if (process == NULL)
    return;
  sonde_call_tree_free (process->tree);
  g_array_unref (process->all);
  g_free (process);
}

static Process *
ensure_process (SondeTopWindow *self, guint number)
{
  Process *process;

  if (number >= self->processes->len)
    g_ptr_array_set_size (self->processes, (int) number + 1);
  process = g_ptr_array_index (self->processes, number);
  if (process == NULL)
    {
      process = g_new0 (Process, 1);
      process->tree = sonde_call_tree_new ();
      process->all = g_array_new (FALSE, TRUE, sizeof (guint64));
      g_ptr_array_index (self->processes, number) = process;
    }
  return process;
}

static guint32
ensure_thread (SondeTopWindow *self, guint process, gint32 tid)
{
  guint64 key = (guint64) process << 32 | (guint32) tid;
  Thread thread = { .process = process, .tid = tid };
  guint32 index;

  if (sonde_id_map_lookup (self->thread_ids, key, &index))
    return index;
  sonde_id_map_set (self->thread_ids, key, self->threads->len);
  g_array_append_val (self->threads, thread);
  return self->threads->len - 1;
}

/* Twice the room, up to the most; then the oldest sample goes. */
static void
make_room (SondeTopWindow *self)
{
  Sample *larger;

  if (self->n_samples < self->n_room)
    return;
  if (self->n_room >= SONDE_TOP_MAX_SAMPLES)
    {
      self->pushed_out_ns = self->samples[self->first].time_ns;
      self->first = (self->first + 1) & (self->n_room - 1);
      self->n_samples--;
      return;
    }
  larger = g_new (Sample, self->n_room * 2);
  for (guint i = 0; i < self->n_samples; i++)
    larger[i] = self->samples[(self->first + i) & (self->n_room - 1)];
  g_free (self->samples);
  self->samples = larger;
  self->first = 0;
  self->n_room *= 2;
}

static void
take_sample (const SondeModelSample *taken, gpointer user_data)
{
  SondeTopWindow *self = user_data;
  Process *process = ensure_process (self, taken->process);
  guint32 n_nodes = sonde_call_tree_n_nodes (process->tree);
  Sample sample = {
    .time_ns = self->now_ns,
    .thread = ensure_thread (self, taken->process, taken->tid),
    .node = sonde_call_tree_add (process->tree, taken->locations, taken->n_locations, 1),
  };

  self->n_nodes += sonde_call_tree_n_nodes (process->tree) - n_nodes;
  if (process->all->len < sonde_call_tree_n_nodes (process->tree))
    g_array_set_size (process->all, sonde_call_tree_n_nodes (process->tree));
  g_array_index (process->all, guint64, sample.node)++;
  g_array_index (self->threads, Thread, sample.thread).n_all++;
  make_room (self);
  self->samples[(self->first + self->n_samples++) & (self->n_room - 1)] = sample;
}

SondeTopWindow *
sonde_top_window_new (const SondeTopWindow *before, SondeModelIsAlive is_alive, gint64 now_ns)
{
  const SondeModelFuncs funcs = { .sample = take_sample };
  SondeTopWindow *self = g_new0 (SondeTopWindow, 1);

  g_atomic_ref_count_init (&self->n_refs);
  self->model = before != NULL
                    ? sonde_capture_model_new_present (before->model, is_alive, &funcs, self)
                    : sonde_capture_model_new (&funcs, self);
  self->functions = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->processes = g_ptr_array_new_with_free_func (process_free);
  self->threads = g_array_new (FALSE, FALSE, sizeof (Thread));
  self->thread_ids = sonde_id_map_new ();
  self->n_room = MIN_SAMPLES;
  self->samples = g_new (Sample, self->n_room);
  self->start_ns = self->now_ns = now_ns;
  return self;
}

SondeTopWindow *
sonde_top_window_ref (SondeTopWindow *self)
{
  g_atomic_ref_count_inc (&self->n_refs);
  return self;
}

void
sonde_top_window_unref (SondeTopWindow *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->n_refs))
    return;
  sonde_symbol_resolver_free (self->resolver);
  sonde_capture_model_free (self->model);
  g_array_unref (self->functions);
  g_ptr_array_unref (self->processes);
  g_array_unref (self->threads);
  sonde_id_map_free (self->thread_ids);
  g_free (self->samples);
  g_free (self);
}

/* What programs tell of themselves is not shown, and the names that come at the end of a capture
 * are too late. */
static gboolean
is_of_use (const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_ALLOCATION:
    case SONDE_FRAME_MARK:
    case SONDE_FRAME_LOG:
    case SONDE_FRAME_FILE_CHUNK:
      return FALSE;
    case SONDE_FRAME_CTRDEF:
    case SONDE_FRAME_CTRSET:
      return frame->pid <= 0;
    default:
      return TRUE;
    }
}

void
sonde_top_window_add_frame (SondeTopWindow *self, const SondeFrame *frame, gint64 now_ns)
{
  self->now_ns = MAX (self->now_ns, now_ns);
  if (is_of_use (frame))
    sonde_capture_model_add_frame (self->model, frame);
}

void
sonde_top_window_reset (SondeTopWindow *self, gint64 now_ns)
{
  self->n_samples = 0;
  self->pushed_out_ns = 0;
  self->start_ns = now_ns;
  for (guint i = 0; i < self->threads->len; i++)
    g_array_index (self->threads, Thread, i).n_all = 0;
  for (guint i = 0; i < self->processes->len; i++)
    {
      Process *process = g_ptr_array_index (self->processes, i);

      if (process != NULL)
        memset (process->all->data, 0, process->all->len * sizeof (guint64));
    }
}

gint64
sonde_top_window_start_ns (const SondeTopWindow *self)
{
  return self->start_ns;
}

gsize
sonde_top_window_size_bytes (const SondeTopWindow *self)
{
  return (gsize) sonde_capture_model_n_locations (self->model) * LOCATION_BYTES
         + (gsize) sonde_capture_model_n_mappings (self->model) * MAPPING_BYTES
         + (gsize) sonde_capture_model_n_processes (self->model) * PROCESS_BYTES
         + (gsize) self->threads->len * THREAD_BYTES + self->n_nodes * NODE_BYTES;
}

const SondeCaptureModel *
sonde_top_window_model (const SondeTopWindow *self)
{
  return self->model;
}

static void
free_weights (gpointer data)
{
  g_array_unref (data);
}

/* Samples since @from_ns by process and node (guint64), and by thread in @threads. */
static GPtrArray *
weigh (SondeTopWindow *self, gint64 from_ns, guint64 *threads)
{
  GPtrArray *weights = g_ptr_array_new_with_free_func (free_weights);

  for (guint i = 0; i < self->processes->len; i++)
    {
      const Process *process = g_ptr_array_index (self->processes, i);
      GArray *by_node = g_array_new (FALSE, TRUE, sizeof (guint64));

      if (process != NULL)
        g_array_set_size (by_node, process->all->len);
      g_ptr_array_add (weights, by_node);
    }
  for (guint i = self->n_samples; i > 0; i--)
    {
      const Sample *sample = &self->samples[(self->first + i - 1) & (self->n_room - 1)];
      guint process = g_array_index (self->threads, Thread, sample->thread).process;

      if (sample->time_ns < from_ns)
        break;
      g_array_index ((GArray *) g_ptr_array_index (weights, process), guint64, sample->node)++;
      threads[sample->thread]++;
    }
  return weights;
}

/* All since the last reset. */
static GPtrArray *
weigh_all (SondeTopWindow *self, guint64 *threads)
{
  GPtrArray *weights = g_ptr_array_new_with_free_func (free_weights);

  for (guint i = 0; i < self->processes->len; i++)
    {
      const Process *process = g_ptr_array_index (self->processes, i);

      g_ptr_array_add (weights, process != NULL ? g_array_ref (process->all)
                                                : g_array_new (FALSE, FALSE, sizeof (guint64)));
    }
  for (guint i = 0; i < self->threads->len; i++)
    threads[i] = g_array_index (self->threads, Thread, i).n_all;
  return weights;
}

/* Names the locations of @tree until the time is over. */
static void
name_locations (SondeTopWindow *self, const SondeCallTree *tree, gint64 end_us)
{
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      guint32 location = sonde_call_tree_node (tree, i)->id;
      guint32 *function = &g_array_index (self->functions, guint32, location);

      if (*function != UNNAMED)
        continue;
      if (g_get_monotonic_time () >= end_us)
        return;
      *function = sonde_symbol_resolver_resolve (self->resolver, location);
    }
}

/* By location the number of a function; @placeholder where the name is still to be found. */
static guint32 *
dup_numbers (const SondeTopWindow *self, guint32 placeholder)
{
  guint32 *numbers = g_new (guint32, self->functions->len);

  for (guint i = 0; i < self->functions->len; i++)
    {
      numbers[i] = g_array_index (self->functions, guint32, i);
      if (numbers[i] == UNNAMED)
        numbers[i] = placeholder;
    }
  return numbers;
}

static GPtrArray *
select_trees (SondeTopWindow *self, const GPtrArray *weights, gint64 end_us)
{
  GPtrArray *trees = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_call_tree_free);
  guint n_named = self->functions->len;

  g_array_set_size (self->functions, sonde_capture_model_n_locations (self->model));
  for (guint i = n_named; i < self->functions->len; i++)
    g_array_index (self->functions, guint32, i) = UNNAMED;
  for (guint i = 0; i < weights->len; i++)
    {
      const GArray *by_node = g_ptr_array_index (weights, i);
      SondeCallTree *tree = NULL;

      if (by_node->len > 0)
        tree = sonde_call_tree_reweigh (((Process *) g_ptr_array_index (self->processes, i))->tree,
                                        (const guint64 *) (void *) by_node->data, by_node->len);
      if (tree != NULL)
        name_locations (self, tree, end_us);
      g_ptr_array_add (trees, tree);
    }
  return trees;
}

static SondeProfile *
new_profile (SondeTopWindow *self, const GPtrArray *trees, gboolean *is_unnamed_yet)
{
  SondeProfile *profile = sonde_profile_new (SONDE_UNIT_SAMPLES);
  guint32 n_functions = sonde_symbol_resolver_n_functions (self->resolver);
  guint32 placeholder;
  g_autofree guint32 *numbers = NULL;

  for (guint32 i = 0; i < n_functions; i++)
    sonde_profile_add_function (profile, sonde_symbol_resolver_function (self->resolver, i));
  placeholder = sonde_profile_name_function (profile, PLACEHOLDER, "");
  numbers = dup_numbers (self, placeholder);
  for (guint i = 0; i < trees->len; i++)
    {
      const SondeCallTree *locations = g_ptr_array_index (trees, i);
      SondeCallTree *tree;

      if (locations == NULL || sonde_call_tree_node (locations, 0)->total == 0)
        continue;
      tree = sonde_call_tree_remap (locations, numbers);
      for (guint32 k = 1; k < sonde_call_tree_n_nodes (tree) && !*is_unnamed_yet; k++)
        *is_unnamed_yet = sonde_call_tree_node (tree, k)->id == placeholder;
      sonde_profile_add_process (profile, sonde_capture_model_process (self->model, i), tree, NULL);
    }
  sonde_profile_sort (profile);
  return profile;
}

static SondeProfile *
new_thread_profile (const SondeTopWindow *self, const guint64 *weights)
{
  SondeProfile *profile = sonde_profile_new (SONDE_UNIT_SAMPLES);

  for (guint i = 0; i < self->threads->len; i++)
    {
      const Thread *thread = &g_array_index (self->threads, Thread, i);

      if (weights[i] > 0)
        sonde_profile_add_thread (profile,
                                  sonde_capture_model_process (self->model, thread->process),
                                  thread->tid, weights[i]);
    }
  return profile;
}

void
sonde_top_window_select (SondeTopWindow *self, SondeTopSelection *selection)
{
  gint64 end_us = g_get_monotonic_time () + selection->budget_us;
  gint64 from_ns = MAX (selection->from_ns, self->start_ns);
  g_autofree guint64 *threads = g_new0 (guint64, self->threads->len);
  g_autoptr (GPtrArray) weights
      = selection->is_all ? weigh_all (self, threads) : weigh (self, from_ns, threads);
  g_autoptr (GPtrArray) trees = NULL;

  /* not before the capture has said when it began and what runs there */
  if (self->resolver == NULL)
    self->resolver = sonde_symbol_resolver_new (self->model, NULL);
  trees = select_trees (self, weights, end_us);
  selection->covered_from_ns
      = selection->is_all ? self->start_ns : MAX (from_ns, self->pushed_out_ns);
  selection->is_unnamed_yet = FALSE;
  selection->profile = new_profile (self, trees, &selection->is_unnamed_yet);
  selection->threads = new_thread_profile (self, threads);
}
