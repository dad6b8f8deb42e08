/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/export/export.h"

#include <string.h>

#include "client/base/text.h"
#include "client/model/capture-file.h"
#include "client/model/samples.h"
#include "protocol/heap-log.h"

#define FULL_BYTES          65536
#define NS_PER_S            G_GUINT64_CONSTANT (1000000000)
#define DEFAULT_INTERVAL_NS 1000000

/* --- the first reading --- */

/* Asked for, so that stacks are located. */
static void
ignore_sample (const SondeModelSample *sample, gpointer user_data)
{
}

static void
count_allocation (const SondeModelAllocation *allocation, gpointer user_data)
{
  SondeExportSource *self = user_data;

  self->n_allocated += allocation->size_bytes > 0;
}

/* Whether the stack of one more allocation may be told. A frame has all of its own; the log names
 * one again and again: no more of that, for the bytes so far, than who reads the log makes. */
static gboolean
may_tell (SondeExportSource *self, gsize n_frames)
{
  self->has_more = self->has_more || n_frames > self->n_may_be_told;
  if (!self->has_more)
    self->n_may_be_told -= n_frames;
  return !self->has_more;
}

/* FALSE if it cannot be opened; a capture that breaks off is read up to there. */
static gboolean
read_into (SondeExportSource *self, SondeCaptureModel *model, GError **error)
{
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (self->path, error);
  g_autoptr (GError) fault = NULL;
  const SondeFrame *frame;

  if (file == NULL)
    return FALSE;
  self->start_ns = sonde_capture_file_header (file)->time_ns;
  sonde_sample_filter_range (&self->options.filter, self->start_ns, &self->from_ns, &self->to_ns);
  sonde_capture_file_show (file, self->progress);
  self->n_may_be_told = SONDE_HEAP_LOG_FREE_MADE;
  self->has_more = FALSE;
  while (!self->has_more && sonde_capture_file_next (file, &frame, &fault))
    {
      self->has_sums = self->has_sums || sonde_heap_sums_is_chunk (frame);
      self->has_calls = self->has_calls || sonde_calls_is_chunk (frame);
      self->n_may_be_told += (guint64) frame->len * SONDE_HEAP_LOG_MAX_MADE;
      sonde_capture_model_add_frame (model, frame);
    }
  if (self->has_more)
    {
      g_autofree char *name = sonde_text_escape (self->path, -1);

      g_set_error (&fault, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
                   "%s has a heap log at offset %" G_GUINT64_FORMAT
                   " whose stacks are more than an export takes of its bytes",
                   name, sonde_capture_file_offset (file));
    }
  if (self->fault == NULL)
    self->fault = g_steal_pointer (&fault);
  return TRUE;
}

static SondeExportSource *
new_source (const char *path,
            const SondeReportOptions *options,
            SondeProgress *progress,
            GError **error)
{
  static const SondeReportOptions all
      = { .filter = SONDE_SAMPLE_FILTER_INIT,
          .by = SONDE_BY_PROCESS,
          .folding = { .recursion = SONDE_RECURSION_NONE, .shows_internals = TRUE } };
  SondeExportSource *self;

  if (!g_file_test (path, G_FILE_TEST_IS_REGULAR) && g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE,
                           "an export reads its capture twice: save it to a file first");
      return NULL;
    }
  self = g_new0 (SondeExportSource, 1);
  self->path = g_strdup (path);
  self->options = options != NULL ? *options : all;
  self->progress = progress;
  self->stack = g_array_new (FALSE, FALSE, sizeof (guint32));
  return self;
}

static SondeExportSource *
new_source_named (const char *path,
                  const SondeReportOptions *options,
                  const SondeSymbolOptions *symbols,
                  SondeProgress *progress,
                  GError **error)
{
  static const SondeModelFuncs funcs = { .sample = ignore_sample, .allocation = count_allocation };
  g_autoptr (SondeExportSource) self = new_source (path, options, progress, error);

  if (self == NULL)
    return NULL;
  self->model = sonde_capture_model_new (&funcs, self);
  if (!read_into (self, self->model, error))
    return NULL;
  sonde_progress_begin (progress, "Looking up names", 0);
  self->resolver = sonde_symbol_resolver_new (self->model, symbols);
  sonde_symbol_resolver_find_all (self->resolver);
  self->n_functions = sonde_symbol_resolver_n_functions (self->resolver);
  return g_steal_pointer (&self);
}

SondeExportSource *
sonde_export_source_new (const char *path,
                         const SondeReportOptions *options,
                         SondeProgress *progress,
                         GError **error)
{
  return new_source_named (path, options, NULL, progress, error);
}

/* Lines of files are kept for the next time in @folder, which lives longer. */
static SondeSymbolOptions
want_lines (char **folder)
{
  *folder = g_build_filename (g_get_user_cache_dir (), "sonde", "lines", NULL);
  return (SondeSymbolOptions){ .inlines = TRUE, .lines = TRUE, .cache_folder = *folder };
}

SondeExportSource *
sonde_export_source_new_frames (const char *path,
                                const SondeReportOptions *options,
                                SondeProgress *progress,
                                GError **error)
{
  g_autofree char *folder = NULL;
  const SondeSymbolOptions symbols = want_lines (&folder);
  SondeExportSource *self = new_source_named (path, options, &symbols, progress, error);

  if (self != NULL)
    {
      self->frames = sonde_export_frames_new (self->model, self->resolver);
      self->n_functions = sonde_export_frames_n_frames (self->frames);
    }
  return self;
}

void
sonde_export_source_free (SondeExportSource *self)
{
  if (self == NULL)
    return;
  sonde_export_frames_free (self->frames);
  if (self->heap == NULL && self->calls == NULL)
    {
      sonde_symbol_resolver_free (self->resolver);
      sonde_capture_model_free (self->model);
    }
  sonde_heap_free (self->heap);
  sonde_calls_free (self->calls);
  g_array_unref (self->stack);
  g_clear_error (&self->fault);
  g_free (self->path);
  g_free (self);
}

const SondeFunction *
sonde_export_source_function (const SondeExportSource *self, guint32 function)
{
  return sonde_symbol_resolver_function (
      self->resolver, self->frames != NULL
                          ? sonde_export_frames_frame (self->frames, function)->function
                          : function);
}

char *
sonde_export_source_describe (const SondeExportSource *self, const char *key, const char *fallback)
{
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (self->model);
  char *value = settings != NULL
                    ? g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, key, NULL)
                    : NULL;

  return value != NULL ? value : g_strdup (fallback);
}

gint64
sonde_export_source_interval_ns (const SondeExportSource *self)
{
  g_autofree char *event = sonde_export_source_describe (self, "event", "");
  g_autofree char *frequency = sonde_export_source_describe (self, "frequency", "0");
  g_autofree char *period = sonde_export_source_describe (self, "period", "0");
  guint64 rate_hz = g_ascii_strtoull (frequency, NULL, 10);
  guint64 period_ns = g_ascii_strtoull (period, NULL, 10);

  if (rate_hz > 0)
    return (gint64) MAX (NS_PER_S / rate_hz, 1);
  if (g_str_equal (event, "cpu-clock") && period_ns > 0 && period_ns < NS_PER_S)
    return (gint64) period_ns;
  return DEFAULT_INTERVAL_NS;
}

guint64
sonde_export_source_sample_ns (const SondeExportSource *self)
{
  g_autofree char *event = sonde_export_source_describe (self, "event", "");

  return g_str_equal (event, "cpu-clock") ? (guint64) sonde_export_source_interval_ns (self) : 0;
}

guint64
sonde_export_source_count (const SondeExportSource *self, SondeUnit unit)
{
  switch (unit)
    {
    case SONDE_UNIT_CALLS:
      return self->calls != NULL ? self->calls->account[SONDE_CALLS_ACCOUNT_COUNTED] : 0;
    case SONDE_UNIT_SELF:
      return self->calls != NULL && self->calls->has_times
                 ? self->calls->account[SONDE_CALLS_ACCOUNT_COUNTED]
                 : 0;
    case SONDE_UNIT_BYTES:
    case SONDE_UNIT_BLOCKS:
      return self->n_allocated;
    case SONDE_UNIT_SAMPLES:
    default:
      return self->calls == NULL ? sonde_capture_model_n_samples (self->model) : 0;
    }
}

/* --- readings of events --- */

/* A file that grew since has more locations than were named; they are left out with their stack. */
static gboolean
name_stack (SondeExportSource *self, SondeExportStack *stack)
{
  guint32 n_locations = sonde_capture_model_n_locations (self->model);
  gsize n = stack->n_frames;

  g_array_set_size (self->stack, 0);
  for (gsize i = 0; i < n; i++)
    {
      const SondeExportPlace *place;
      guint32 n_here; /* 1: none is inlined */

      if (stack->locations[i] >= n_locations)
        return FALSE;
      if (self->frames == NULL)
        {
          g_array_append_vals (
              self->stack, sonde_symbol_resolver_get (self->resolver, stack->locations[i], &n_here),
              1);
          continue;
        }
      place = sonde_export_frames_find (self->frames, stack->locations[i]);
      for (guint32 k = 0; k < place->n_frames; k++)
        {
          guint32 frame = place->first + k;

          g_array_append_val (self->stack, frame);
        }
    }
  stack->functions = (const guint32 *) (void *) self->stack->data;
  stack->n_frames = self->stack->len;
  return stack->process < sonde_capture_model_n_processes (self->model);
}

static gboolean
is_wanted (const SondeExportSource *self, guint process, gint32 tid, gint64 time_ns)
{
  return time_ns >= self->from_ns && time_ns < self->to_ns
         && sonde_sample_filter_matches (&self->options.filter, self->model,
                                         sonde_capture_model_process (self->reading, process), tid);
}

static void
take_sample (const SondeModelSample *sample, gpointer user_data)
{
  SondeExportSource *self = user_data;
  SondeExportStack stack = {
    .process = sample->process,
    .pid = sonde_capture_model_process (self->reading, sample->process)->pid,
    .tid = sample->tid,
    .time_ns = sample->time_ns,
    .locations = sample->locations,
    .n_frames = sample->n_locations,
  };

  if (self->funcs.sample != NULL && is_wanted (self, sample->process, sample->tid, sample->time_ns)
      && name_stack (self, &stack))
    self->funcs.sample (&stack, self->user_data);
}

static void
take_allocation (const SondeModelAllocation *allocation, gpointer user_data)
{
  SondeExportSource *self = user_data;
  SondeExportStack stack = {
    .process = allocation->process,
    .pid = allocation->pid,
    .tid = allocation->tid,
    .time_ns = allocation->time_ns,
    .locations = allocation->locations,
    .n_frames = allocation->n_locations,
    .size_bytes = allocation->size_bytes,
    .address = allocation->address,
  };

  if (self->funcs.freed != NULL && allocation->size_bytes == 0
      && allocation->process < sonde_capture_model_n_processes (self->model)
      && is_wanted (self, allocation->process, allocation->tid, allocation->time_ns))
    self->funcs.freed (&stack, self->user_data);
  if (self->funcs.allocation != NULL && allocation->size_bytes > 0
      && is_wanted (self, allocation->process, allocation->tid, allocation->time_ns)
      && may_tell (self, stack.n_frames) && name_stack (self, &stack))
    self->funcs.allocation (&stack, self->user_data);
}

static void
take_mark (const SondeModelMark *mark, gpointer user_data)
{
  SondeExportSource *self = user_data;

  if (self->funcs.mark != NULL)
    self->funcs.mark (mark, self->user_data);
}

static void
take_value (const SondeModelValue *value, gpointer user_data)
{
  SondeExportSource *self = user_data;

  if (self->funcs.value != NULL && value->counter < sonde_capture_model_n_counters (self->model)
      && !g_str_equal (sonde_capture_model_counter (self->model, value->counter)->category,
                       SONDE_LEDGER_CATEGORY))
    self->funcs.value (value, self->user_data);
}

gboolean
sonde_export_source_run (SondeExportSource *self,
                         const SondeExportFuncs *funcs,
                         gpointer user_data,
                         GError **error)
{
  static const SondeModelFuncs model_funcs = {
    .sample = take_sample, .allocation = take_allocation, .mark = take_mark, .value = take_value
  };
  g_autoptr (SondeCaptureModel) model = sonde_capture_model_new (&model_funcs, self);

  self->funcs = *funcs;
  self->user_data = user_data;
  self->reading = model;
  return read_into (self, model, error);
}

/* --- a heap --- */

/* NULL if it cannot be opened; as read_into(), but no more than @max_frames. */
static SondeHeap *
read_heap (SondeExportSource *self,
           SondeHeapBlockFunc block,
           gpointer user_data,
           guint64 max_frames,
           GError **error)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (self->path, error);
  g_autoptr (GError) fault = NULL;
  const SondeFrame *frame;
  SondeHeap *heap;

  if (file == NULL)
    return NULL;
  self->start_ns = sonde_capture_file_header (file)->time_ns;
  options.filter = self->options.filter;
  options.by = self->options.by;
  options.folding = self->options.folding;
  options.block = block;
  options.user_data = user_data;
  heap = sonde_heap_new (&options, self->start_ns);
  sonde_capture_file_show (file, self->progress);
  for (self->n_frames = 0;
       self->n_frames < max_frames && sonde_capture_file_next (file, &frame, &fault);
       self->n_frames++)
    sonde_heap_add_frame (heap, frame);
  if (self->fault == NULL)
    self->fault = g_steal_pointer (&fault);
  return heap;
}

static SondeExportSource *
new_heap_source (const char *path,
                 const SondeReportOptions *options,
                 const SondeSymbolOptions *symbols,
                 SondeProgress *progress,
                 GError **error)
{
  g_autoptr (SondeExportSource) self = new_source (path, options, progress, error);

  if (self == NULL)
    return NULL;
  self->heap = read_heap (self, NULL, NULL, G_MAXUINT64, error);
  if (self->heap == NULL)
    return NULL;
  sonde_progress_begin (progress, "Looking up names", 0);
  sonde_heap_finish (self->heap, symbols);
  self->has_sums = sonde_heap_has_sums (self->heap);
  if (sonde_heap_cannot_be_cut (self->heap))
    {
      g_autofree char *shown = sonde_text_escape (path, -1);

      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                   "%s has sums of its heap, which tell no times and no threads of allocations",
                   shown);
      return NULL;
    }
  self->model = self->heap->model;
  self->resolver = self->heap->resolver;
  self->n_functions = sonde_symbol_resolver_n_functions (self->resolver);
  self->n_allocated
      = sonde_heap_round (self->heap->tracker->totals.amounts[SONDE_HEAP_ALLOCATED].blocks);
  return g_steal_pointer (&self);
}

SondeExportSource *
sonde_export_source_new_heap (const char *path,
                              const SondeReportOptions *options,
                              SondeProgress *progress,
                              GError **error)
{
  g_autofree char *folder = NULL;
  const SondeSymbolOptions symbols = want_lines (&folder);

  return new_heap_source (path, options, &symbols, progress, error);
}

SondeExportSource *
sonde_export_source_new_sums (const char *path,
                              const SondeReportOptions *options,
                              SondeProgress *progress,
                              GError **error)
{
  return new_heap_source (path, options, NULL, progress, error);
}

/* Of a file that has grown since, what was there: stacks are numbered in the order of time. */
gboolean
sonde_export_source_run_heap (SondeExportSource *self,
                              SondeHeapBlockFunc block,
                              gpointer user_data,
                              GError **error)
{
  g_autoptr (SondeHeap) heap = read_heap (self, block, user_data, self->n_frames, error);

  if (heap == NULL)
    return FALSE;
  sonde_heap_settle (heap);
  return TRUE;
}

/* --- calls --- */

SondeExportSource *
sonde_export_source_new_calls (const char *path,
                               const SondeReportOptions *options,
                               SondeProgress *progress,
                               GError **error)
{
  g_autoptr (SondeExportSource) self = new_source (path, options, progress, error);
  g_autoptr (SondeCaptureFile) file = self != NULL ? sonde_capture_file_open (path, error) : NULL;
  const SondeFrame *frame;

  if (file == NULL)
    return NULL;
  self->start_ns = sonde_capture_file_header (file)->time_ns;
  self->calls = sonde_calls_new (-1);
  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &self->fault))
    sonde_calls_add_frame (self->calls, frame);
  sonde_progress_begin (progress, "Looking up names", 0);
  sonde_calls_finish (self->calls);
  self->has_calls = TRUE;
  self->model = self->calls->model;
  self->resolver = self->calls->resolver;
  self->n_functions = sonde_symbol_resolver_n_functions (self->resolver);
  return g_steal_pointer (&self);
}

static SondeProfile *
new_profile (const SondeExportSource *self, SondeUnit unit)
{
  SondeProfile *profile = sonde_profile_new (unit, self->frames == NULL ? self->resolver : NULL);

  for (guint32 i = 0; self->frames != NULL && i < self->n_functions; i++)
    sonde_profile_add_function (profile, sonde_export_source_function (self, i));
  sonde_profile_group (profile, sonde_grouping_new (self->options.by, self->model));
  return profile;
}

/* A path's frames are those above it, so a tree is made of each program's. */
static SondeProfile *
dup_calls (const SondeExportSource *self, SondeUnit unit)
{
  const GArray *nodes = self->calls->nodes;
  SondeProfile *profile = new_profile (self, unit);
  g_autofree guint32 *places = g_new0 (guint32, nodes->len); /* in the tree at hand */
  guint end;

  for (guint first = 0; first < nodes->len; first = end)
    {
      guint program = g_array_index (nodes, SondeCallsNode, first).program;
      const SondeModelProcess process = sonde_calls_process (self->calls, program);
      g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);
      g_autoptr (GArray) weights = g_array_new (FALSE, TRUE, sizeof (guint64)); /* by node */

      for (end = first; end < nodes->len; end++)
        {
          const SondeCallsNode *node = &g_array_index (nodes, SondeCallsNode, end);
          guint64 weight = unit == SONDE_UNIT_SELF ? (guint64) node->sum.self_ns : node->sum.calls;

          if (node->program != program)
            break;
          /* Roots are no functions. */
          if (node->parent == 0)
            continue;
          places[end] = sonde_call_tree_ensure_child (
              tree, places[node->parent - 1],
              sonde_calls_resolved_function (self->calls, node->function));
          g_array_set_size (weights, sonde_call_tree_n_nodes (tree));
          g_array_index (weights, guint64, places[end]) += weight;
        }
      sonde_profile_add_process (
          profile, &process, SONDE_TID_ALL,
          sonde_call_tree_reweigh (tree, (const guint64 *) (void *) weights->data, weights->len),
          NULL);
    }
  sonde_profile_sort (profile);
  return profile;
}

/* --- call trees --- */

typedef struct
{
  SondeSamples samples; /* of functions */
  SondeSamples blocks;  /* the same; of bytes alone */
  SondeBudget budget;   /* of blocks: what has no room there has none in either */
  SondeUnit unit;
} Sums;

static void
add_stack (const SondeExportStack *stack, gpointer user_data)
{
  Sums *self = user_data;
  const SondeModelSample sample = { .process = stack->process,
                                    .tid = stack->tid,
                                    .locations = stack->functions,
                                    .n_locations = stack->n_frames };

  sonde_samples_add (&self->samples, &sample,
                     self->unit == SONDE_UNIT_BYTES ? (guint64) stack->size_bytes : 1);
  if (self->unit == SONDE_UNIT_BYTES)
    sonde_samples_add (&self->blocks, &sample, 1);
}

SondeProfile *
sonde_export_source_dup_profile (SondeExportSource *self, SondeUnit unit, GError **error)
{
  gboolean is_time = unit == SONDE_UNIT_SAMPLES;
  const SondeExportFuncs funcs
      = { .sample = is_time ? add_stack : NULL, .allocation = is_time ? NULL : add_stack };
  SondeBudget *budget = sonde_capture_model_budget (self->model);
  guint64 n_nodes = budget->left[SONDE_LIMIT_NODES];
  Sums sums = { .unit = unit };
  SondeProfile *profile = NULL;

  if (self->calls != NULL)
    return dup_calls (self, unit);
  if (self->heap != NULL)
    return sonde_heap_dup_profile (self->heap, SONDE_HEAP_ALLOCATED, unit);
  sonde_samples_init (&sums.samples, budget, FALSE);
  sums.budget = *budget;
  sonde_samples_init (&sums.blocks, &sums.budget, FALSE);
  sums.samples.by_thread = sums.blocks.by_thread = self->options.by == SONDE_BY_THREAD;
  if (sonde_export_source_run (self, &funcs, &sums, error))
    {
      budget->left[SONDE_LIMIT_NODES] = n_nodes; /* the next one comes when this one is gone */
      profile = new_profile (self, unit);
      for (guint i = 0; i < sums.samples.trees->len; i++)
        if (g_ptr_array_index (sums.samples.trees, i) != NULL)
          {
            gint32 tid;
            guint process = sonde_samples_process_of (&sums.samples, i, &tid);

            sonde_profile_add_process (
                profile, sonde_capture_model_process (self->model, process), tid,
                g_steal_pointer (&g_ptr_array_index (sums.samples.trees, i)),
                unit == SONDE_UNIT_BYTES
                    ? g_steal_pointer (&g_ptr_array_index (sums.blocks.trees, i))
                    : NULL);
          }
      sonde_profile_fold (profile, &self->options.folding);
      sonde_profile_sort (profile);
    }
  sonde_samples_clear (&sums.samples);
  sonde_samples_clear (&sums.blocks);
  return profile;
}

void
sonde_export_foreach_stack (const SondeCallTree *tree,
                            SondeExportStackFunc func,
                            gpointer user_data)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 node = 0;

  do
    {
      const SondeCallNode *at = sonde_call_tree_node (tree, node);

      if (node != 0)
        g_array_append_val (ids, at->id);
      if (at->self > 0)
        func ((const guint32 *) (void *) ids->data, ids->len, node, at->self, user_data);
      if (at->first_child != 0)
        {
          node = at->first_child;
          continue;
        }
      /* to the next one of those above that has one */
      for (; node != 0; node = at->parent)
        {
          at = sonde_call_tree_node (tree, node);
          g_array_set_size (ids, ids->len - 1);
          if (at->next_sibling != 0)
            break;
        }
      node = node != 0 ? at->next_sibling : 0;
    }
  while (node != 0);
}

/* --- what is written --- */

SondeExportOutput *
sonde_export_output_new (const char *path, gboolean is_compressed, GError **error)
{
  SondeOutput *output = sonde_output_open (path != NULL ? path : "-", SONDE_OUTPUT_WHOLE, error);
  SondeExportOutput *self;

  if (output == NULL)
    return NULL;
  self = g_new0 (SondeExportOutput, 1);
  self->output = output;
  if (is_compressed)
    self->gzip = (GConverter *) g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1);
  self->text = g_string_sized_new (2 * FULL_BYTES);
  return self;
}

void
sonde_export_output_free (SondeExportOutput *self)
{
  if (self == NULL)
    return;
  sonde_output_free (self->output);
  g_clear_object (&self->gzip);
  g_string_free (self->text, TRUE);
  g_clear_error (&self->error);
  g_free (self);
}

static void
flush (SondeExportOutput *self, gboolean is_end)
{
  if (self->gzip != NULL)
    {
      g_autofree char *packed = g_malloc (FULL_BYTES);
      GConverterResult result = G_CONVERTER_CONVERTED;
      gsize n_done = 0;

      while (self->error == NULL && result != G_CONVERTER_FINISHED
             && (is_end || n_done < self->text->len))
        {
          gsize n_read = 0;
          gsize n_packed = 0;

          result = g_converter_convert (self->gzip, self->text->str + n_done,
                                        self->text->len - n_done, packed, FULL_BYTES,
                                        is_end ? G_CONVERTER_INPUT_AT_END : G_CONVERTER_NO_FLAGS,
                                        &n_read, &n_packed, &self->error);
          n_done += n_read;
          if (self->error == NULL)
            sonde_output_write (self->output, packed, n_packed, &self->error);
        }
    }
  else if (self->error == NULL)
    sonde_output_write (self->output, self->text->str, self->text->len, &self->error);
  g_string_truncate (self->text, 0);
}

void
sonde_export_output_pass (SondeExportOutput *self)
{
  if (self->text->len >= FULL_BYTES)
    flush (self, FALSE);
}

void
sonde_export_output_printf (SondeExportOutput *self, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_string_append_vprintf (self->text, format, arguments);
  va_end (arguments);
  sonde_export_output_pass (self);
}

void
sonde_export_output_bytes (SondeExportOutput *self, const void *bytes, gsize size_bytes)
{
  g_string_append_len (self->text, bytes, (gssize) size_bytes);
  sonde_export_output_pass (self);
}

gboolean
sonde_export_output_close (SondeExportOutput *self, GError **error)
{
  flush (self, TRUE);
  if (self->error == NULL)
    sonde_output_close (self->output, &self->error);
  if (self->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&self->error));
  return FALSE;
}

void
sonde_export_append_replaced (GString *out, const char *text, const char *chars, char with)
{
  for (gsize n; *text != '\0'; text += n)
    {
      n = strcspn (text, chars);
      g_string_append_len (out, text, (gssize) n);
      if (text[n] == '\0')
        return;
      g_string_append_c (out, with);
      n++;
    }
}
