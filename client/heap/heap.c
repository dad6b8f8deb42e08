/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/heap/heap.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include "base/time-order.h"
#include "client/names/symbol-resolver.h"
#include "protocol/frame.h"

#define MAX_SUM              9.0e18 /* fits a guint64 with room for another */
#define LEAST_BLOCKS         0.5    /* sums of estimates may leave a trace behind */

#define ORDER_CAPACITY_BYTES (2 * SONDE_HEAP_WINDOW_BYTES)
#define FORESEEN             8           /* frames: as long as memory takes to answer */
#define MAX_STACK_WORDS      (16u << 20) /* of the log, that may wait with its events */

/* Where a frame is. */
typedef struct
{
  gint64 time_ns;
  guint32 offset;    /* bytes into frames */
  guint16 is_logged; /* behind the frame is the address of its stack in the log, or NULL */
  guint16 is_sum;    /* it is that of a sum, whose number + 1 is the address */
} FramePlace;

/* --- frames --- */

static gboolean
matches (const SondeHeap *self, guint process)
{
  return sonde_sample_filter_matches (&self->filter, self->model,
                                      sonde_capture_model_process (self->model, process),
                                      SONDE_TID_ALL);
}

static gboolean
is_wanted (const SondeHeap *self, const SondeModelAllocation *allocation)
{
  return allocation->time_ns >= self->from_ns && allocation->time_ns < self->to_ns
         && sonde_sample_filter_matches (
             &self->filter, self->model,
             sonde_capture_model_process (self->model, allocation->process), allocation->tid);
}

/* The node of paths where a stack of @process ends. */
static guint32
find_end (SondeHeap *self, guint process, const guint32 *locations, gsize n_locations)
{
  g_array_set_size (self->path, 0);
  g_array_append_val (self->path, process);
  g_array_append_vals (self->path, locations, (guint) n_locations);
  return sonde_call_tree_add (self->paths, (const guint32 *) (void *) self->path->data,
                              self->path->len, 0);
}

/* The number of the stack that ends at @node of paths, + 1; 0: there is none. */
static guint32 *
number_at (SondeHeap *self, guint32 node)
{
  if (node >= self->numbers->len)
    g_array_set_size (self->numbers, node + 1);
  return &g_array_index (self->numbers, guint32, node);
}

/* Whether one more stack, as deep as the allocation's, may be kept. */
static gboolean
has_room (SondeHeap *self, const SondeModelAllocation *allocation)
{
  SondeBudget *budget = sonde_capture_model_budget (self->model);

  if (allocation->n_locations < budget->left[SONDE_LIMIT_NODES])
    return sonde_budget_take (budget, SONDE_LIMIT_STACKS, 1);
  budget->n_cut[SONDE_LIMIT_STACKS]++;
  return FALSE;
}

static guint32
ensure_stack (SondeHeap *self, const SondeModelAllocation *allocation)
{
  if (allocation->is_new_stack)
    {
      guint32 stack;
      static const guint32 truncated[] = { SONDE_LOCATION_TRUNCATED };
      guint32 n_nodes = sonde_call_tree_n_nodes (self->paths);
      guint32 node;

      /* The stack with the allocation's process and locations; without room it is of one frame,
       * which stands for all of the process's that have none. */
      if (has_room (self, allocation))
        {
          node = find_end (self, allocation->process, allocation->locations,
                           allocation->n_locations);
          sonde_capture_model_budget (self->model)->left[SONDE_LIMIT_NODES]
              -= sonde_call_tree_n_nodes (self->paths) - n_nodes;
        }
      else
        node = find_end (self, allocation->process, truncated, G_N_ELEMENTS (truncated));
      if (*number_at (self, node) == 0)
        {
          *number_at (self, node)
              = sonde_heap_tracker_add_stack (self->tracker, matches (self, allocation->process))
                + 1;
          g_array_append_val (self->ends, node);
        }
      stack = *number_at (self, node) - 1;
      if (allocation->stack >= self->known->len)
        g_array_set_size (self->known, allocation->stack + 1);
      g_array_index (self->known, guint32, allocation->stack) = stack;
    }
  return g_array_index (self->known, guint32, allocation->stack);
}

/* The stack of allocations of a process that counts, but for these. */
static guint32
ensure_cut_stack (SondeHeap *self)
{
  const guint32 nowhere = 0;

  if (self->cut == 0)
    {
      self->cut = sonde_heap_tracker_add_cut_stack (self->tracker) + 1;
      g_array_append_val (self->ends, nowhere);
    }
  return self->cut - 1;
}

static void
take_allocation (const SondeModelAllocation *allocation, gpointer user_data)
{
  SondeHeap *self = user_data;
  SondeHeapEvent event;

  if (self->defined > 0)
    {
      g_array_index (self->sum_stacks, guint32, self->defined - 1)
          = ensure_stack (self, allocation) + 1;
      return;
    }
  event = (SondeHeapEvent){
    .time_ns = allocation->time_ns,
    .address = allocation->address,
    .size_bytes = allocation->size_bytes,
    .thread = sonde_heap_tracker_ensure_thread (self->tracker, allocation->pid, allocation->tid),
  };

  if (allocation->size_bytes > 0)
    event.stack = ensure_stack (self, allocation);
  else
    event.stack = matches (self, allocation->process);
  if (self->is_cut && allocation->size_bytes > 0 && matches (self, allocation->process)
      && !is_wanted (self, allocation))
    event.stack = ensure_cut_stack (self);
  sonde_heap_tracker_take (self->tracker, &event);
}

static void
take_life (const SondeModelLife *life, gpointer user_data)
{
  SondeHeap *self = user_data;
  SondeHeapEvent event = { .time_ns = life->time_ns, .thread = (guint32) life->pid };

  if (life->turn == SONDE_MODEL_FORKED)
    {
      event.size_bytes = SONDE_HEAP_EVENT_FORKED;
      event.address = (guint32) life->child;
    }
  else
    event.size_bytes = SONDE_HEAP_EVENT_ENDED;
  sonde_heap_tracker_take (self->tracker, &event);
}

/* --- their order --- */

static void
sort (SondeHeapOrder *self)
{
  GArray *entries = self->entries;

  g_array_set_size (self->scratch, entries->len);
  if (sonde_time_order (entries->data, self->scratch->data, entries->len, sizeof (FramePlace))
      == entries->data)
    return;
  self->entries = self->scratch;
  self->scratch = entries;
}

static const SondeFrame *
frame_at (const SondeHeapOrder *self, const FramePlace *entry)
{
  return (const SondeFrame *) (const void *) (self->frames->data + entry->offset);
}

static SondeHeapLogStack *
stack_of (const SondeHeapOrder *self, const FramePlace *entry)
{
  SondeHeapLogStack *stack;

  memcpy (&stack, self->frames->data + entry->offset + sizeof (SondeFrameAllocation), sizeof stack);
  return stack;
}

static void
hand_on_one (SondeHeap *self, const FramePlace *entry)
{
  const SondeFrame *frame = frame_at (&self->order, entry);

  if (entry->is_logged)
    {
      SondeHeapLogStack *stack = stack_of (&self->order, entry);
      const SondeFrameAllocation *allocation = (const SondeFrameAllocation *) frame;

      if (entry->is_sum)
        {
          self->defined = (guint32) allocation->address;
          self->n_defined++;
        }
      sonde_capture_model_add_logged (self->model, allocation, stack);
      self->defined = 0;
      sonde_heap_log_stack_unref (stack);
    }
  else
    sonde_capture_model_add_frame (self->model, frame);
}

/* Hands on the oldest frames, until no more than @keep_bytes are left. */
static void
hand_on (SondeHeap *heap, gsize keep_bytes)
{
  SondeHeapOrder *self = &heap->order;
  gsize left_bytes = self->frames->len;
  guint n = 0;
  GByteArray *old;

  if (self->entries->len == 0)
    return;
  sort (self); /* a ring that was emptied is an ascending run */
  for (; n < self->entries->len && left_bytes > keep_bytes; n++)
    {
      const FramePlace *entry = &g_array_index (self->entries, FramePlace, n);
      const SondeFrame *frame = frame_at (self, entry);

      if (n + FORESEEN < self->entries->len)
        {
          const SondeFrame *next = frame_at (self, entry + FORESEEN);

          if (next->type == SONDE_FRAME_ALLOCATION)
            sonde_heap_tracker_foresee (heap->tracker, next->pid,
                                        ((const SondeFrameAllocation *) next)->address);
        }
      if (entry->time_ns < self->newest_ns)
        self->n_late++;
      self->newest_ns = MAX (self->newest_ns, entry->time_ns);
      left_bytes -= frame->len;
      hand_on_one (heap, entry);
    }
  /* Keeps what has been sorted and not handed on. */
  old = self->frames;
  for (guint i = n; i < self->entries->len; i++)
    {
      FramePlace *entry = &g_array_index (self->entries, FramePlace, i);
      const SondeFrame *frame = frame_at (self, entry);

      entry->offset = self->spare->len;
      g_byte_array_append (self->spare, (const guint8 *) frame, frame->len);
    }
  g_array_remove_range (self->entries, 0, n);
  self->frames = self->spare;
  self->spare = old;
  g_byte_array_set_size (self->spare, 0);
}

/* Keeps a copy of @frame until its turn, and a reference to @stack. */
static void
add_in_order (SondeHeap *self,
              const SondeFrame *frame,
              gboolean is_logged,
              gboolean is_sum,
              SondeHeapLogStack *stack)
{
  SondeHeapOrder *order = &self->order;
  FramePlace entry = { .time_ns = frame->time_ns,
                       .offset = order->frames->len,
                       .is_logged = is_logged,
                       .is_sum = is_sum };

  g_byte_array_append (order->frames, (const guint8 *) frame,
                       frame->len - (is_logged ? sizeof stack : 0));
  if (is_logged)
    g_byte_array_append (order->frames, (const guint8 *) &stack, sizeof stack);
  if (stack != NULL)
    sonde_heap_log_stack_ref (stack);
  g_array_append_val (order->entries, entry);
  if (order->frames->len >= ORDER_CAPACITY_BYTES)
    hand_on (self, SONDE_HEAP_WINDOW_BYTES);
}

/* METADATA "sonde" comes before what it describes: the first one counts. */
static void
read_interval (SondeHeap *self)
{
  g_autoptr (GKeyFile) settings = NULL;
  g_autofree char *memory = NULL;

  if (sonde_capture_model_n_allocations (self->model) > 0)
    return;
  settings = sonde_capture_model_dup_settings (self->model);
  if (settings == NULL)
    return;
  memory = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "memory", NULL);
  if (g_strcmp0 (memory, "sampled") != 0)
    return;
  self->interval_bytes
      = g_key_file_get_uint64 (settings, SONDE_CAPTURE_SETTINGS, "memory-interval", NULL);
  sonde_heap_tracker_set_interval (self->tracker, self->interval_bytes);
}

/* --- the whole --- */

static void
take_logged (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  SondeHeap *self = user_data;
  SondeFrameAllocation waiting = *event;

  sonde_heap_tracker_ensure_thread (self->tracker, event->frame.pid, event->tid);
  waiting.frame.len = sizeof waiting + sizeof stack;
  if (stack != NULL && stack->n_told == 0)
    self->order.stack_words += sizeof *stack / sizeof (guint64) + stack->n_addrs;
  add_in_order (self, &waiting.frame, TRUE, FALSE, stack);
  /* The reader may have forgotten what waits here. Events of the log are in order already. */
  if (self->order.stack_words > MAX_STACK_WORDS)
    {
      hand_on (self, 0);
      self->order.stack_words = 0;
    }
}

/* A sum's stack waits for its turn, as addresses are those of its time. */
static void
take_sum (guint32 sum, gint32 pid, gint64 time_ns, SondeHeapLogStack *stack, gpointer user_data)
{
  SondeHeap *self = user_data;
  const SondeFrameAllocation waiting = { .frame = { .len = sizeof waiting + sizeof stack,
                                                    .cpu = -1,
                                                    .pid = pid,
                                                    .time_ns = time_ns,
                                                    .type = SONDE_FRAME_ALLOCATION },
                                         .address = (guint64) sum + 1,
                                         .size_bytes = 1,
                                         .tid = pid };

  g_array_set_size (self->sum_stacks, sum + 1);
  self->order.stack_words += sizeof *stack / sizeof (guint64) + stack->n_addrs;
  add_in_order (self, &waiting.frame, TRUE, TRUE, stack);
  if (self->order.stack_words > MAX_STACK_WORDS)
    {
      hand_on (self, 0);
      self->order.stack_words = 0;
    }
}

static double
unscale (guint64 blocks, const SondeHeapSumsSegment *header)
{
  return (double) blocks / (double) header->scale;
}

/* What was live up to the segment at hand is what was live at moments since. */
static void
take_moments (SondeHeap *self, gint64 until_ns)
{
  while (self->n_moments < SONDE_HEAP_N_MOMENTS
         && until_ns > self->tracker->options.moments_ns[self->n_moments])
    {
      guint32 n = sonde_heap_sums_reader_n_sums (self->sums);
      GArray *moment = g_array_sized_new (FALSE, FALSE, sizeof (SondeHeapSumsAmount), n);

      for (guint32 i = 0; i < n; i++)
        {
          const SondeHeapSum *sum = sonde_heap_sums_reader_sum (self->sums, i);
          SondeHeapSumsAmount live = { 0, 0 };

          if (!sum->is_over)
            live = sonde_heap_sum_live (sum);
          g_array_append_val (moment, live);
        }
      self->moments[self->n_moments++] = moment;
    }
}

static void
take_next (const SondeHeapSumsSegment *next, gpointer user_data)
{
  SondeHeap *self = user_data;

  take_moments (self, next->time_ns);
  sonde_heap_series_add (self->tracker->series, next->most_ns, (double) next->most_bytes);
  sonde_heap_series_add (self->tracker->series, next->time_ns, (double) next->live.bytes);
}

/* Where the reader has no room for a stack it has none; where the capture ends before it was told
 * of, neither. */
static void
add_sum (SondeHeap *self, guint32 number)
{
  const SondeHeapSumsSegment *header = &sonde_heap_sums_reader_counts (self->sums)->header;
  const SondeHeapSum *sum = sonde_heap_sums_reader_sum (self->sums, number);
  guint32 stack = g_array_index (self->sum_stacks, guint32, number);
  SondeHeapSumsAmount told[SONDE_HEAP_N_METRICS] = {
    [SONDE_HEAP_ALLOCATED] = sum->amounts[SONDE_HEAP_SUMS_ALLOCATED],
    [SONDE_HEAP_PEAK] = sonde_heap_sums_reader_at_peak (self->sums, sum),
    [SONDE_HEAP_LEFT] = sonde_heap_sum_live (sum),
    [SONDE_HEAP_TEMPORARY] = sum->amounts[SONDE_HEAP_SUMS_TEMPORARY],
    [SONDE_HEAP_CROSS_THREAD] = sum->amounts[SONDE_HEAP_SUMS_CROSS_THREAD],
  };
  SondeHeapSumsAmount freed = sum->amounts[SONDE_HEAP_SUMS_FREED];
  SondeHeapAmount amounts[SONDE_HEAP_N_METRICS];

  if (stack == 0)
    return;
  for (guint i = 0; i < SONDE_HEAP_N_MOMENTS; i++)
    if (self->moments[i] != NULL && number < self->moments[i]->len)
      told[SONDE_HEAP_AT_FIRST + i] = g_array_index (self->moments[i], SondeHeapSumsAmount, number);
  for (SondeHeapMetric i = 0; i < SONDE_HEAP_N_METRICS; i++)
    amounts[i] = (SondeHeapAmount){ (double) told[i].bytes, unscale (told[i].blocks, header) };
  sonde_heap_tracker_add_sums (
      self->tracker, stack - 1, amounts,
      &(SondeHeapAmount){ (double) freed.bytes, unscale (freed.blocks, header) });
}

static void
add_sums (SondeHeap *self)
{
  const SondeHeapSumsCounts *counts = sonde_heap_sums_reader_counts (self->sums);
  const SondeHeapSumsSegment *header = &counts->header;
  SondeHeapTotals *totals = &self->tracker->totals;

  if (!sonde_heap_has_sums (self))
    return;
  take_moments (self, G_MAXINT64);
  for (guint32 i = 0; i < self->sum_stacks->len; i++)
    add_sum (self, i);
  if (header->peak > 0)
    totals->peak_ns = header->peak_ns;
  totals->inherited.bytes += (double) header->inherited.bytes;
  totals->inherited.blocks += unscale (header->inherited.blocks, header);
  totals->n_inherited_freed += header->n_inherited_freed;
  totals->n_unknown_freed += header->n_unknown_freed;
  totals->n_frees_missing += header->n_frees_missing;
}

/* Nobody hands on what waits. */
static void
drop_logged (SondeHeapOrder *self)
{
  for (guint i = 0; i < self->entries->len; i++)
    {
      const FramePlace *entry = &g_array_index (self->entries, FramePlace, i);

      if (entry->is_logged)
        sonde_heap_log_stack_unref (stack_of (self, entry));
    }
}

/* Moments that are not wanted, and those of foreign captures: any. */
static gint64
moment_on_clock (gint64 since_start_ns, gint64 start_ns)
{
  gint64 time_ns;

  if (since_start_ns == G_MAXINT64 || __builtin_add_overflow (since_start_ns, start_ns, &time_ns))
    return G_MAXINT64;
  return time_ns;
}

SondeHeap *
sonde_heap_new (const SondeHeapOptions *options, gint64 start_ns)
{
  const SondeModelFuncs funcs = { .allocation = take_allocation, .life = take_life };
  const SondeHeapSumsFuncs sums_funcs = { take_sum, take_next };
  SondeHeapTrackerOptions tracker_options = { .start_ns = start_ns,
                                              .temporary_ns = options->temporary_ns,
                                              .block = options->block,
                                              .user_data = options->user_data };
  SondeHeap *self = g_new0 (SondeHeap, 1);

  for (guint i = 0; i < SONDE_HEAP_N_MOMENTS; i++)
    tracker_options.moments_ns[i] = moment_on_clock (options->moments_ns[i], start_ns);
  self->filter = options->filter;
  sonde_sample_filter_range (&self->filter, start_ns, &self->from_ns, &self->to_ns);
  self->is_cut = self->from_ns > G_MININT64 || self->to_ns < G_MAXINT64 || self->filter.tid >= 0
                 || self->filter.thread != NULL;
  self->by = options->by;
  self->folding = options->folding;
  self->suppressions = options->suppressions;
  self->start_ns = start_ns;
  self->model = sonde_capture_model_new (&funcs, self);
  self->log = sonde_heap_log_reader_new (take_logged, self);
  self->sums = sonde_heap_sums_reader_new (&sums_funcs, self);
  self->sum_stacks = g_array_new (FALSE, TRUE, sizeof (guint32));
  tracker_options.budget = sonde_capture_model_budget (self->model);
  self->tracker = sonde_heap_tracker_new (&tracker_options);
  self->order.frames = g_byte_array_new ();
  self->order.spare = g_byte_array_new ();
  self->order.entries = g_array_new (FALSE, FALSE, sizeof (FramePlace));
  self->order.scratch = g_array_new (FALSE, FALSE, sizeof (FramePlace));
  self->order.newest_ns = G_MININT64;
  self->paths = sonde_call_tree_new (NULL);
  self->numbers = g_array_new (FALSE, TRUE, sizeof (guint32));
  self->ends = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->known = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->path = g_array_new (FALSE, FALSE, sizeof (guint32));
  return self;
}

void
sonde_heap_free (SondeHeap *self)
{
  if (self == NULL)
    return;
  drop_logged (&self->order);
  g_clear_pointer (&self->order.frames, g_byte_array_unref);
  g_clear_pointer (&self->order.spare, g_byte_array_unref);
  g_array_unref (self->order.entries);
  g_clear_pointer (&self->order.scratch, g_array_unref);
  sonde_heap_log_reader_free (self->log);
  sonde_heap_sums_reader_free (self->sums);
  g_array_unref (self->sum_stacks);
  for (guint i = 0; i < SONDE_HEAP_N_MOMENTS; i++)
    g_clear_pointer (&self->moments[i], g_array_unref);
  sonde_heap_tracker_free (self->tracker);
  sonde_capture_model_free (self->model);
  sonde_call_tree_free (self->paths);
  g_array_unref (self->numbers);
  g_array_unref (self->ends);
  g_array_unref (self->known);
  g_array_unref (self->path);
  g_clear_pointer (&self->suppressed_by, g_array_unref);
  g_free (self->by_rule);
  sonde_symbol_resolver_free (self->resolver);
  g_free (self);
}

/* Names and settings may be known early; the rest is told in order of time. */
void
sonde_heap_add_frame (SondeHeap *self, const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_ALLOCATION:
      sonde_heap_tracker_ensure_thread (self->tracker, frame->pid,
                                        ((const SondeFrameAllocation *) frame)->tid);
      add_in_order (self, frame, FALSE, FALSE, NULL);
      break;
    case SONDE_FRAME_PROCESS:
    case SONDE_FRAME_MAP:
    case SONDE_FRAME_FORK:
    case SONDE_FRAME_EXIT:
      add_in_order (self, frame, FALSE, FALSE, NULL);
      break;
    case SONDE_FRAME_METADATA:
      sonde_capture_model_add_frame (self->model, frame);
      if (g_str_equal (((const SondeFrameMetadata *) frame)->id, SONDE_CAPTURE_SETTINGS))
        read_interval (self);
      break;
    case SONDE_FRAME_FILE_CHUNK:
      /* its events have their turn as frames have */
      if (sonde_heap_log_is_chunk (frame))
        {
          sonde_heap_log_reader_add (self->log, frame);
          break;
        }
      if (sonde_heap_sums_is_chunk (frame))
        {
          sonde_heap_sums_reader_add (self->sums, frame);
          break;
        }
      sonde_capture_model_add_frame (self->model, frame);
      break;
    default:
      sonde_capture_model_add_frame (self->model, frame);
      break;
    }
}

void
sonde_heap_settle (SondeHeap *self)
{
  hand_on (self, 0);
  /* what comes now wants the memory */
  g_clear_pointer (&self->order.frames, g_byte_array_unref);
  g_clear_pointer (&self->order.spare, g_byte_array_unref);
  g_clear_pointer (&self->order.scratch, g_array_unref);
  sonde_heap_tracker_finish (self->tracker);
  add_sums (self);
  sonde_capture_model_settle (self->model);
}

/* Fills @path with functions, leaf first, then turns it. Returns: the number of the process */
static guint
trace_path (const SondeHeap *self, guint32 end, GArray *path)
{
  guint process = 0;

  g_array_set_size (path, 0);
  for (guint32 node = end; node != 0;)
    {
      const SondeCallNode *at = sonde_call_tree_node (self->paths, node);
      const guint32 *functions;
      guint32 n;

      if (at->parent == 0)
        process = at->id;
      else
        for (functions = sonde_symbol_resolver_get (self->resolver, at->id, &n); n > 0; n--)
          g_array_append_val (path, functions[n - 1]);
      node = at->parent;
    }
  for (guint i = 0, j = path->len; i + 1 < j; i++)
    {
      guint32 swapped = g_array_index (path, guint32, i);

      g_array_index (path, guint32, i) = g_array_index (path, guint32, --j);
      g_array_index (path, guint32, j) = swapped;
    }
  return process;
}

/* Sums of what was never freed, by the rule that its stack is suppressed by. */
static void
suppress (SondeHeap *self)
{
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_auto (SondeSuppressor) suppressor = { 0 };

  if (self->suppressions == NULL || sonde_suppressions_n_rules (self->suppressions) == 0)
    return;
  sonde_suppressor_init (&suppressor, self->suppressions,
                         sonde_symbol_resolver_n_functions (self->resolver));
  self->suppressed_by = g_array_sized_new (FALSE, TRUE, sizeof (guint32), self->ends->len);
  g_array_set_size (self->suppressed_by, self->ends->len);
  self->by_rule = g_new0 (SondeHeapAmount, sonde_suppressions_n_rules (self->suppressions));
  for (guint32 i = 0; i < self->ends->len; i++)
    {
      const SondeHeapAmount *left = sonde_heap_tracker_amount (self->tracker, i, SONDE_HEAP_LEFT);
      guint rule;

      if (left->blocks <= LEAST_BLOCKS)
        continue;
      trace_path (self, g_array_index (self->ends, guint32, i), path);
      rule = sonde_suppressor_find (&suppressor, self->resolver,
                                    (const guint32 *) (void *) path->data, path->len);
      g_array_index (self->suppressed_by, guint32, i) = rule;
      if (rule == 0)
        continue;
      self->by_rule[rule - 1].bytes += left->bytes;
      self->by_rule[rule - 1].blocks += left->blocks;
      self->suppressed.bytes += left->bytes;
      self->suppressed.blocks += left->blocks;
    }
}

void
sonde_heap_finish (SondeHeap *self, const SondeSymbolOptions *options)
{
  sonde_heap_settle (self);
  self->resolver = sonde_symbol_resolver_new (self->model, options);
  sonde_symbol_resolver_find_all (self->resolver);
  suppress (self);
}

gint64
sonde_heap_since_start (const SondeHeap *self, gint64 time_ns)
{
  gint64 since_ns;

  /* times of foreign frames: any */
  if (__builtin_sub_overflow (time_ns, self->start_ns, &since_ns))
    return time_ns < 0 ? 0 : G_MAXINT64;
  return MAX (since_ns, 0);
}

guint64
sonde_heap_n_lost (const SondeHeap *self)
{
  static const SondeLedger stages[]
      = { SONDE_LEDGER_EVENTS_LOST_RING, SONDE_LEDGER_STREAM_EVENTS_LOST,
          SONDE_LEDGER_STREAM_EVENTS_FILTERED };
  guint64 lost = 0;

  for (guint i = 0; i < G_N_ELEMENTS (stages); i++)
    {
      guint64 n = 0;

      sonde_capture_model_ledger (self->model, stages[i], &n);
      lost += n;
    }
  return lost;
}

guint64
sonde_heap_n_events (const SondeHeap *self)
{
  return sonde_capture_model_n_allocations (self->model) - self->n_defined
         + sonde_heap_sums_reader_counts (self->sums)->log.n_told;
}

guint64
sonde_heap_n_unreadable (const SondeHeap *self)
{
  const SondeHeapLogCounts *counts = sonde_heap_log_reader_counts (self->log);
  const SondeHeapLogCounts *of_sums = &sonde_heap_sums_reader_counts (self->sums)->log;

  return counts->n_events - counts->n_told + of_sums->n_events - of_sums->n_told;
}

gboolean
sonde_heap_has_sums (const SondeHeap *self)
{
  return sonde_heap_sums_reader_counts (self->sums)->log.n_segments > 0;
}

gboolean
sonde_heap_cannot_be_cut (const SondeHeap *self)
{
  return self->is_cut && sonde_heap_has_sums (self);
}

/* --- profiles --- */

guint64
sonde_heap_round (double value)
{
  return value > 0 ? (guint64) round (MIN (value, MAX_SUM)) : 0;
}

/* The trees of one process: the same nodes in both, for the same paths make them. */
typedef struct
{
  SondeCallTree *tree;
  SondeCallTree *beside;
} Trees;

/* Of what foreign sizes say no sum must overflow, and no stack is without weight: both would make
 * the two trees differ. */
static guint64
round_weight (const SondeHeap *self, double value)
{
  guint64 most = (guint64) G_MAXINT64 / self->ends->len;

  return CLAMP (sonde_heap_round (value), 1, most);
}

static void
add_stack (const SondeHeap *self,
           Trees *trees,
           guint32 stack,
           const SondeHeapAmount *amount,
           SondeUnit unit,
           GArray *path)
{
  guint process = trace_path (self, g_array_index (self->ends, guint32, stack), path);
  const guint32 *functions = (const guint32 *) (void *) path->data;
  guint64 bytes = round_weight (self, amount->bytes);
  guint64 blocks = round_weight (self, amount->blocks);

  if (trees[process].tree == NULL)
    {
      trees[process].tree = sonde_call_tree_new (NULL);
      trees[process].beside = sonde_call_tree_new (NULL);
    }
  sonde_call_tree_add (trees[process].tree, functions, path->len,
                       unit == SONDE_UNIT_BYTES ? bytes : blocks);
  sonde_call_tree_add (trees[process].beside, functions, path->len,
                       unit == SONDE_UNIT_BYTES ? blocks : bytes);
}

SondeProfile *
sonde_heap_dup_profile (const SondeHeap *self, SondeHeapMetric metric, SondeUnit unit)
{
  SondeProfile *profile = sonde_profile_new (unit, self->resolver);
  guint n_processes = sonde_capture_model_n_processes (self->model);
  g_autofree Trees *trees = g_new0 (Trees, n_processes);
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint32));

  sonde_profile_group (profile, sonde_grouping_new (self->by, self->model));
  for (guint32 i = 0; i < self->ends->len; i++)
    {
      const SondeHeapAmount *amount = sonde_heap_tracker_amount (self->tracker, i, metric);

      if (amount->blocks > LEAST_BLOCKS
          && (metric != SONDE_HEAP_LEFT || self->suppressed_by == NULL
              || g_array_index (self->suppressed_by, guint32, i) == 0))
        add_stack (self, trees, i, amount, unit, path);
    }
  for (guint i = 0; i < n_processes; i++)
    if (trees[i].tree != NULL)
      sonde_profile_add_process (profile, sonde_capture_model_process (self->model, i),
                                 SONDE_TID_ALL, trees[i].tree, trees[i].beside);
  sonde_profile_fold (profile, &self->folding);
  sonde_profile_sort (profile);
  return profile;
}
