/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The newest samples of a capture that does not end. */
#include "client/top/top-window.h"

#include "client/model/samples.h"
#include "client/names/location-names.h"
#include "client/report/profile-view.h"

#define MIN_SAMPLES 4096u /* that there is room for at the start */
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

struct SondeTopWindow
{
  gatomicrefcount n_refs;
  SondeCaptureModel *model;
  SondeLocationNames names; /* zeros: nothing had to be named yet */
  SondeSamples samples;     /* of locations: all since the last reset */
  gsize n_nodes;
  SondeSamplePlace *places; /* a ring: when they were read, for those of the capture */
  guint n_room;             /* a power of two */
  guint first;
  guint n_samples;
  gint64 start_ns;
  gint64 pushed_out_ns; /* the newest sample that found no room any more; 0: none */
  gint64 now_ns;
};

/* Twice the room, up to the most; then the oldest sample goes. */
static void
make_room (SondeTopWindow *self)
{
  SondeSamplePlace *larger;

  if (self->n_samples < self->n_room)
    return;
  if (self->n_room >= SONDE_TOP_MAX_SAMPLES)
    {
      self->pushed_out_ns = self->places[self->first].time_ns;
      self->first = (self->first + 1) & (self->n_room - 1);
      self->n_samples--;
      return;
    }
  larger = g_new (SondeSamplePlace, self->n_room * 2);
  for (guint i = 0; i < self->n_samples; i++)
    larger[i] = self->places[(self->first + i) & (self->n_room - 1)];
  g_free (self->places);
  self->places = larger;
  self->first = 0;
  self->n_room *= 2;
}

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeTopWindow *self = user_data;
  const SondeCallTree *tree = sonde_samples_ensure_tree (&self->samples, sample->process);
  guint32 n_nodes = sonde_call_tree_n_nodes (tree);
  SondeSamplePlace place = sonde_samples_add (&self->samples, sample);

  place.time_ns = self->now_ns;
  self->n_nodes += sonde_call_tree_n_nodes (tree) - n_nodes;
  make_room (self);
  self->places[(self->first + self->n_samples++) & (self->n_room - 1)] = place;
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
  sonde_samples_init (&self->samples, sonde_capture_model_budget (self->model), FALSE);
  self->n_room = MIN_SAMPLES;
  self->places = g_new (SondeSamplePlace, self->n_room);
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
  sonde_location_names_clear (&self->names);
  sonde_samples_clear (&self->samples);
  sonde_capture_model_free (self->model);
  g_free (self->places);
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
  sonde_samples_reset (&self->samples);
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
         + (gsize) self->samples.threads->len * THREAD_BYTES + self->n_nodes * NODE_BYTES;
}

const SondeCaptureModel *
sonde_top_window_model (const SondeTopWindow *self)
{
  return self->model;
}

/* Samples since @from_ns, or all, by process and node (guint64), and by thread in @threads. */
static GPtrArray *
weigh (SondeTopWindow *self, gint64 from_ns, gboolean is_all, guint64 *threads)
{
  GPtrArray *weights = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);

  for (guint i = 0; i < self->samples.trees->len; i++)
    {
      const SondeCallTree *tree = sonde_samples_tree (&self->samples, i);
      GArray *by_node = g_array_new (FALSE, TRUE, sizeof (guint64));

      if (tree != NULL)
        g_array_set_size (by_node, sonde_call_tree_n_nodes (tree));
      for (guint32 node = 0; is_all && node < by_node->len; node++)
        g_array_index (by_node, guint64, node) = sonde_call_tree_node (tree, node)->self;
      g_ptr_array_add (weights, by_node);
    }
  for (guint i = 0; is_all && i < self->samples.threads->len; i++)
    threads[i] = sonde_samples_thread (&self->samples, i)->n_samples;
  for (guint i = is_all ? 0 : self->n_samples; i > 0; i--)
    {
      const SondeSamplePlace *place = &self->places[(self->first + i - 1) & (self->n_room - 1)];
      guint process = sonde_samples_thread (&self->samples, place->thread)->process;

      if (place->time_ns < from_ns)
        break;
      g_array_index ((GArray *) g_ptr_array_index (weights, process), guint64, place->node)++;
      threads[place->thread]++;
    }
  return weights;
}

/* By location the number of a function; @placeholder where the name is still to be found. */
static guint32 *
dup_numbers (const SondeTopWindow *self, guint32 placeholder)
{
  const GArray *functions = self->names.functions;
  guint32 *numbers = g_memdup2 (functions->data, functions->len * sizeof (guint32));

  for (guint i = 0; i < functions->len; i++)
    if (numbers[i] == SONDE_FUNCTION_UNNAMED)
      numbers[i] = placeholder;
  return numbers;
}

static SondeProfile *
new_profile (SondeTopWindow *self, const GPtrArray *trees, gboolean *is_unnamed_yet)
{
  SondeProfile *profile = sonde_profile_new (SONDE_UNIT_SAMPLES, self->names.resolver);
  guint32 placeholder = sonde_profile_name_function (profile, PLACEHOLDER, "");
  g_autofree guint32 *numbers = dup_numbers (self, placeholder);

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

void
sonde_top_window_select (SondeTopWindow *self, SondeTopSelection *selection)
{
  gint64 end_us = g_get_monotonic_time () + selection->budget_us;
  gint64 from_ns = MAX (selection->from_ns, self->start_ns);
  g_autofree guint64 *threads = g_new0 (guint64, self->samples.threads->len);
  g_autoptr (GPtrArray) weights = weigh (self, from_ns, selection->is_all, threads);
  g_autoptr (GPtrArray) trees = NULL;
  SondeProfile *profile;

  /* not before the capture has said when it began and what runs there */
  if (self->names.resolver == NULL)
    sonde_location_names_init (&self->names, self->model, NULL);
  trees = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_call_tree_free);
  for (guint i = 0; i < weights->len; i++)
    {
      const GArray *by_node = g_ptr_array_index (weights, i);
      SondeCallTree *tree = NULL;

      if (by_node->len > 0)
        tree = sonde_call_tree_reweigh (sonde_samples_tree (&self->samples, i),
                                        (const guint64 *) (void *) by_node->data, by_node->len);
      if (tree != NULL)
        sonde_location_names_find_some (&self->names, tree, end_us);
      g_ptr_array_add (trees, tree);
    }
  selection->covered_from_ns
      = selection->is_all ? self->start_ns : MAX (from_ns, self->pushed_out_ns);
  selection->is_unnamed_yet = FALSE;
  selection->profile = new_profile (self, trees, &selection->is_unnamed_yet);
  profile = sonde_profile_new (SONDE_UNIT_SAMPLES, NULL);
  for (guint i = 0; i < self->samples.threads->len; i++)
    {
      const SondeSampleThread *thread = sonde_samples_thread (&self->samples, i);

      if (threads[i] > 0)
        sonde_profile_add_thread (profile,
                                  sonde_capture_model_process (self->model, thread->process),
                                  thread->tid, threads[i]);
    }
  selection->threads = profile;
}
