/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-history.h"

#include <errno.h>
#include <signal.h>

#include "client/model/samples.h"
#include "client/model/task-list.h"
#include "client/names/symbol-resolver.h"
#include "client/report/profile-view.h"
#include "client/report/report-text.h"
#include "client/top/top-calls.h"

/* How much what is alive may grow before it is copied again: else a machine with more processes
 * than the bound has room for would be copied all the time. */
#define MIN_GROWTH 2

/* Which samples, and what comes out. */
typedef struct
{
  gint64 from_ns;          /* read since then, */
  gboolean is_all;         /* or all since the last reset */
  gint64 budget_us;        /* how long names may be looked up; the rest is "[looking for names]" */
  gint64 covered_from_ns;  /* (out): from_ns, or the later moment from which on samples are there */
  SondeProfile *profile;   /* (out) (transfer full): its functions live as long as the window */
  SondeProfile *threads;   /* (out) (transfer full): the same whose functions are the threads */
  gboolean is_unnamed_yet; /* (out): names are missing for want of time */
} Selection;

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

/* Each sample is kept with the moment at which it was read, so that old ones can be left out again:
 * 16 bytes, their stacks being shared. Samples that find no room any more push out the oldest ones.
 * What stacks consist of is never forgotten; for that a window that has become large is followed by
 * another one. One thread at a time. */
struct SondeTopWindow
{
  gatomicrefcount n_refs;
  SondeCaptureModel *model;
  SondeSymbolResolver *resolver; /* NULL: nothing had to be named yet */
  GPtrArray *functions;          /* GArray of guint32: locations of the paths of each program */
  guint32 location;              /* of the path that is told */
  SondeSamples samples;          /* of locations: all since the last reset */
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
  SondeSamplePlace place = sonde_samples_add (&self->samples, sample, 1);

  place.time_ns = self->now_ns;
  self->n_nodes += sonde_call_tree_n_nodes (tree) - n_nodes;
  make_room (self);
  self->places[(self->first + self->n_samples++) & (self->n_room - 1)] = place;
}

static void
take_location (const SondeModelAllocation *allocation, gpointer user_data)
{
  SondeTopWindow *self = user_data;

  self->location = allocation->n_locations > 0 ? allocation->locations[allocation->n_locations - 1]
                                               : SONDE_LOCATION_TRUNCATED;
}

/**
 * window_new:
 * @before: (nullable) (transfer none): of the same capture: what it knows of processes that are
 *   alive is known here, too, but none of its samples
 * @now_ns: CLOCK_MONOTONIC, here and below
 */
static SondeTopWindow *
window_new (const SondeTopWindow *before, SondeModelIsAlive is_alive, gint64 now_ns)
{
  const SondeModelFuncs funcs = { .sample = take_sample, .allocation = take_location };
  SondeTopWindow *self = g_new0 (SondeTopWindow, 1);

  g_atomic_ref_count_init (&self->n_refs);
  self->model = before != NULL
                    ? sonde_capture_model_new_present (before->model, is_alive, &funcs, self)
                    : sonde_capture_model_new (&funcs, self);
  sonde_samples_init (&self->samples, sonde_capture_model_budget (self->model), FALSE);
  self->functions = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  self->n_room = MIN_SAMPLES;
  self->places = g_new (SondeSamplePlace, self->n_room);
  self->start_ns = self->now_ns = now_ns;
  return self;
}

static void
window_unref (SondeTopWindow *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->n_refs))
    return;
  sonde_symbol_resolver_free (self->resolver);
  sonde_samples_clear (&self->samples);
  g_ptr_array_unref (self->functions);
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
      return FALSE;
    case SONDE_FRAME_FILE_CHUNK:
      return sonde_task_list_is_chunk ((const SondeFrameFileChunk *) frame);
    case SONDE_FRAME_CTRDEF:
    case SONDE_FRAME_CTRSET:
      return frame->pid <= 0;
    default:
      return TRUE;
    }
}

/* @frame: accepted by sonde_frame_check(); @now_ns: never less than before */
static void
window_add_frame (SondeTopWindow *self, const SondeFrame *frame, gint64 now_ns)
{
  self->now_ns = MAX (self->now_ns, now_ns);
  if (is_of_use (frame))
    sonde_capture_model_add_frame (self->model, frame);
}

/* The memory that only a new window gives back, in bytes, as an estimate. */
static gsize
window_size_bytes (const SondeTopWindow *self)
{
  return (gsize) sonde_capture_model_n_locations (self->model) * LOCATION_BYTES
         + (gsize) sonde_capture_model_n_mappings (self->model) * MAPPING_BYTES
         + (gsize) sonde_capture_model_n_processes (self->model) * PROCESS_BYTES
         + (gsize) self->samples.threads->len * THREAD_BYTES + self->n_nodes * NODE_BYTES;
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

static SondeProfile *
new_profile (SondeTopWindow *self, const GPtrArray *trees, gboolean *is_unnamed_yet)
{
  SondeProfile *profile = sonde_profile_new (SONDE_UNIT_SAMPLES, self->resolver);
  const SondeFolding folding = { 0 };
  guint32 placeholder = sonde_profile_name_function (profile, PLACEHOLDER, "");
  g_autofree guint32 *numbers = sonde_symbol_resolver_dup_functions (self->resolver, placeholder);

  for (guint i = 0; i < trees->len; i++)
    {
      const SondeCallTree *locations = g_ptr_array_index (trees, i);
      SondeCallTree *tree;

      if (locations == NULL || sonde_call_tree_node (locations, 0)->total == 0)
        continue;
      tree = sonde_call_tree_remap (locations, numbers);
      for (guint32 k = 1; k < sonde_call_tree_n_nodes (tree) && !*is_unnamed_yet; k++)
        *is_unnamed_yet = sonde_call_tree_node (tree, k)->id == placeholder;
      sonde_profile_add_process (profile, sonde_capture_model_process (self->model, i),
                                 SONDE_TID_ALL, tree, NULL);
    }
  sonde_profile_fold (profile, &folding);
  sonde_profile_sort (profile);
  return profile;
}

static void
window_select (SondeTopWindow *self, Selection *selection)
{
  gint64 end_us = g_get_monotonic_time () + selection->budget_us;
  gint64 from_ns = MAX (selection->from_ns, self->start_ns);
  g_autofree guint64 *threads = g_new0 (guint64, self->samples.threads->len);
  g_autoptr (GPtrArray) weights = weigh (self, from_ns, selection->is_all, threads);
  g_autoptr (GPtrArray) trees = NULL;
  SondeProfile *profile;

  /* not before the capture has said when it began and what runs there */
  if (self->resolver == NULL)
    self->resolver = sonde_symbol_resolver_new (self->model, NULL);
  trees = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_call_tree_free);
  for (guint i = 0; i < weights->len; i++)
    {
      const GArray *by_node = g_ptr_array_index (weights, i);
      SondeCallTree *tree = NULL;

      if (by_node->len > 0)
        tree = sonde_call_tree_reweigh (sonde_samples_tree (&self->samples, i),
                                        (const guint64 *) (void *) by_node->data, by_node->len);
      if (tree != NULL)
        sonde_symbol_resolver_find_some (self->resolver, tree, end_us);
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
        sonde_profile_add_thread (
            profile, sonde_capture_model_process (self->model, thread->process), thread->tid,
            sonde_capture_model_thread_name (
                self->model, sonde_capture_model_process (self->model, thread->process),
                thread->tid),
            threads[i]);
    }
  selection->threads = profile;
}

/* --- calls --- */

/* Whether a mapping may still be told that has the path, or names that are in it. */
static gboolean
is_nowhere (const SondeTopWindow *self, guint32 location)
{
  const SondeLocation *at = sonde_capture_model_location (self->model, location);

  return location != SONDE_LOCATION_TRUNCATED && at->pid >= 0 && at->mapping == NULL;
}

/* A tree whose only level is all that is called. A worker tells of the mappings of a process when
 * that is sampled, which may be after it called something: so what was nowhere is tried again. */
static SondeCallTree *
locate (SondeTopWindow *self, const SondeCallsReader *reader)
{
  SondeCallTree *tree = sonde_call_tree_new (NULL);

  for (guint i = 0; i < sonde_calls_reader_n_programs (reader); i++)
    {
      const SondeCallsProgram *program = sonde_calls_reader_program (reader, i);
      GArray *locations;

      if (i == self->functions->len)
        g_ptr_array_add (self->functions, g_array_new (FALSE, FALSE, sizeof (guint32)));
      locations = g_ptr_array_index (self->functions, i);
      for (guint j = 0; j < program->paths->len; j++)
        {
          if (j < locations->len && !is_nowhere (self, g_array_index (locations, guint32, j)))
            continue;
          self->location = SONDE_LOCATION_TRUNCATED;
          sonde_calls_locate (self->model, program,
                              &g_array_index (program->paths, SondeCallsPath, j));
          if (j == locations->len)
            g_array_append_val (locations, self->location);
          else
            g_array_index (locations, guint32, j) = self->location;
        }
      for (guint j = 0; j < locations->len; j++)
        sonde_call_tree_ensure_child (tree, 0, g_array_index (locations, guint32, j));
    }
  return tree;
}

/* Returns: (transfer full): the sums of @reader, with the names that were found until @end_us */
static SondeCalls *
window_name_calls (SondeTopWindow *self, SondeCallsReader *reader, gint64 end_us)
{
  g_autoptr (SondeCallTree) tree = locate (self, reader);

  sonde_symbol_resolver_find_some (self->resolver, tree, end_us);
  return sonde_calls_new_of (reader, self->functions, self->resolver);
}

struct SondeTopHistory
{
  SondeTopHistoryOptions options;
  SondeTopWindow *window;
  SondeTopWindow *next; /* NULL: there is no need for one */
  gsize first_bytes;    /* what @window was made with */
  gsize next_bytes;     /* what @next was made with */
  SondeTopCalls *calls;
  guint64 n_seen;
};

void
sonde_top_snapshot_free (SondeTopSnapshot *self)
{
  if (self == NULL)
    return;
  sonde_profile_free (self->profile);
  sonde_profile_free (self->threads);
  sonde_calls_free (self->calls);
  window_unref (self->window);
  g_free (self->subject);
  g_free (self->event);
  g_free (self->losses);
  g_free (self);
}

/* One that may not be told of is there. */
static gboolean
is_process_alive (gint32 pid)
{
  return pid <= 0 || kill (pid, 0) == 0 || errno != ESRCH;
}

SondeTopHistory *
sonde_top_history_new (const SondeTopHistoryOptions *options, gint64 now_ns)
{
  SondeTopHistory *self = g_new0 (SondeTopHistory, 1);

  self->options = *options;
  if (self->options.is_alive == NULL)
    self->options.is_alive = is_process_alive;
  self->window = window_new (NULL, NULL, now_ns);
  self->calls = sonde_top_calls_new (now_ns);
  return self;
}

void
sonde_top_history_free (SondeTopHistory *self)
{
  if (self == NULL)
    return;
  window_unref (self->window);
  window_unref (self->next);
  sonde_top_calls_free (self->calls);
  g_free (self);
}

static void
take_over (SondeTopHistory *self)
{
  window_unref (self->window);
  self->window = g_steal_pointer (&self->next);
  self->first_bytes = self->next_bytes;
}

void
sonde_top_history_add_frame (SondeTopHistory *self, const SondeFrame *frame, gint64 now_ns)
{
  gsize size_bytes;
  gsize soft_bytes;
  gsize hard_bytes;

  if (sonde_calls_is_chunk (frame))
    {
      sonde_top_calls_add_frame (self->calls, frame, now_ns);
      return;
    }
  self->n_seen += frame->type == SONDE_FRAME_SAMPLE;
  window_add_frame (self->window, frame, now_ns);
  if (self->next != NULL)
    window_add_frame (self->next, frame, now_ns);
  /* The next window begins at half of the memory, so that both together stay within it. */
  size_bytes = window_size_bytes (self->window);
  soft_bytes = MAX (self->options.max_bytes / 2, MIN_GROWTH * self->first_bytes);
  hard_bytes = MAX (self->options.max_bytes * 3 / 4, 2 * MIN_GROWTH * self->first_bytes);
  if (self->next == NULL && size_bytes > soft_bytes)
    {
      self->next = window_new (self->window, self->options.is_alive, now_ns);
      self->next_bytes = window_size_bytes (self->next);
    }
  else if (self->next != NULL
           && (size_bytes > hard_bytes || now_ns - self->next->start_ns >= self->options.span_ns))
    take_over (self);
}

void
sonde_top_history_reset (SondeTopHistory *self, gint64 now_ns)
{
  if (self->next != NULL)
    take_over (self);
  /* Samples so far count neither as kept nor as seen. */
  self->window->n_samples = 0;
  self->window->pushed_out_ns = 0;
  self->window->start_ns = now_ns;
  sonde_samples_reset (&self->window->samples);
  sonde_top_calls_reset (self->calls, now_ns);
}

guint64
sonde_top_history_n_seen (const SondeTopHistory *self)
{
  return self->n_seen;
}

gsize
sonde_top_history_size_bytes (const SondeTopHistory *self)
{
  return window_size_bytes (self->window)
         + (self->next != NULL ? window_size_bytes (self->next) : 0);
}

/* Only events that come with time say how busy a CPU was. */
static guint64
read_frequency (const SondeCaptureModel *model)
{
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (model);
  g_autofree char *event
      = settings != NULL ? g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "event", NULL)
                         : NULL;

  if (g_strcmp0 (event, "cpu-clock") != 0 && g_strcmp0 (event, "cycles") != 0)
    return 0;
  return g_key_file_get_uint64 (settings, SONDE_CAPTURE_SETTINGS, "frequency", NULL);
}

SondeTopSnapshot *
sonde_top_history_snapshot (SondeTopHistory *self, gint64 now_ns, gboolean is_all, gint64 budget_us)
{
  const SondeCaptureModel *model = self->window->model;
  Selection selection
      = { .from_ns = now_ns - self->options.span_ns, .is_all = is_all, .budget_us = budget_us };
  gint64 end_us = g_get_monotonic_time () + budget_us;
  SondeTopSnapshot *snapshot = g_new0 (SondeTopSnapshot, 1);
  SondeCallsReader *reader;
  g_autofree char *cut = NULL;
  guint64 produced;
  static const SondeModelProcess none = { .cmdline = (char *) "nothing yet" };

  window_select (self->window, &selection);
  reader = sonde_top_calls_select (self->calls, selection.from_ns, is_all, now_ns,
                                   &snapshot->calls_ns);
  if (reader != NULL)
    snapshot->calls = window_name_calls (self->window, reader, end_us);
  g_atomic_ref_count_inc (&self->window->n_refs);
  snapshot->window = self->window;
  snapshot->profile = selection.profile;
  snapshot->threads = selection.threads;
  snapshot->covered_ns = MAX (now_ns - selection.covered_from_ns, 0);
  snapshot->is_all = is_all;
  snapshot->is_unnamed_yet
      = selection.is_unnamed_yet || (snapshot->calls != NULL && snapshot->calls->is_unnamed_yet);
  snapshot->n_seen = self->n_seen;
  snapshot->frequency_hz = read_frequency (model);
  snapshot->subject = sonde_report_describe_subject (
      model, sonde_profile_n_processes (snapshot->profile) > 0
                 ? &sonde_profile_process (snapshot->profile, 0)->process
                 : &none);
  snapshot->event = sonde_report_describe_event (model);
  snapshot->losses = sonde_capture_model_ledger (model, SONDE_LEDGER_PRODUCED, &produced)
                         ? sonde_report_describe_losses (model)
                         : g_strdup ("not known yet");
  cut = sonde_budget_describe (sonde_capture_model_budget (model));
  if (cut != NULL)
    {
      g_autofree char *lost = snapshot->losses;

      snapshot->losses = g_strdup_printf ("%s; truncated: %s", lost, cut);
    }
  return snapshot;
}
