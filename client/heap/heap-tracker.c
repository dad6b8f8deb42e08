/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Follows the heaps of processes through their allocations and frees, stack by stack. */
#include "client/heap/heap-tracker.h"

#include <math.h>

#include "client/base/id-map.h"
#include "client/base/live-map.h"

/* Slots of 32 bytes that forked children have from their parents: of all who live at a time, for
 * the memory; and ever, for the time. */
#define MAX_INHERITED      (12u << 20)
#define MAX_EVER_INHERITED (128u << 20)

typedef struct
{
  gint32 pid;
  SondeLiveMap *live; /* shared with parent and children until one of them changes it */
  gsize n_inherited;  /* slots at the fork */
  gboolean counts;    /* whether its last event was part of the sums */
} Heap;

typedef struct
{
  gint32 pid;
  guint64 newest; /* address of its newest block, 0: none */
} Thread;

typedef struct
{
  SondeHeapAmount amounts[SONDE_HEAP_N_METRICS];
  SondeHeapAmount live;
  guint32 peak; /* the peak that amounts[SONDE_HEAP_PEAK] is of */
  gboolean counts;
} Stack;

struct SondeHeapTracker
{
  SondeHeapTrackerOptions options;
  double interval_bytes;  /* 0: every allocation is there */
  GHashTable *heaps;      /* pid → Heap */
  GArray *threads;        /* Thread */
  SondeIdMap *thread_ids; /* pid << 32 | tid → number of a thread */
  SondeIdMap *pids;       /* tid → pid, of threads; and each pid → itself */
  GArray *stacks;         /* Stack */
  SondeHeapAmount live;
  guint32 peak;           /* raised by each new peak */
  guint n_moments;        /* that are past */
  gsize n_inherited;      /* slots, of the heaps at hand */
  gsize n_ever_inherited; /* and of those that ended */
  SondeHeapTotals totals;
  SondeHeapSeries *series;
};

#define STACK(self, i)  (&g_array_index ((self)->stacks, Stack, (i)))
#define THREAD(self, i) (&g_array_index ((self)->threads, Thread, (i)))

static void
heap_free (gpointer data)
{
  Heap *heap = data;

  sonde_live_map_unref (heap->live);
  g_free (heap);
}

SondeHeapTracker *
sonde_heap_tracker_new (const SondeHeapTrackerOptions *options)
{
  SondeHeapTracker *self = g_new0 (SondeHeapTracker, 1);

  self->options = *options;
  self->heaps = g_hash_table_new_full (NULL, NULL, NULL, heap_free);
  self->threads = g_array_new (FALSE, FALSE, sizeof (Thread));
  self->thread_ids = sonde_id_map_new ();
  self->pids = sonde_id_map_new ();
  self->stacks = g_array_new (FALSE, FALSE, sizeof (Stack));
  self->series = sonde_heap_series_new (options->start_ns);
  return self;
}

void
sonde_heap_tracker_free (SondeHeapTracker *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->heaps);
  g_array_unref (self->threads);
  sonde_id_map_free (self->thread_ids);
  sonde_id_map_free (self->pids);
  g_array_unref (self->stacks);
  sonde_heap_series_free (self->series);
  g_free (self);
}

void
sonde_heap_tracker_set_interval (SondeHeapTracker *self, guint64 bytes)
{
  self->interval_bytes = (double) bytes;
}

guint32
sonde_heap_tracker_ensure_thread (SondeHeapTracker *self, gint32 pid, gint32 tid)
{
  guint64 key = (guint64) (guint32) pid << 32 | (guint32) tid;
  Thread thread = { .pid = pid };
  guint32 number;

  if (sonde_id_map_lookup (self->thread_ids, key, &number))
    return number;
  if (self->options.budget != NULL && pid != -1
      && !sonde_budget_take (self->options.budget, SONDE_LIMIT_THREADS, 1))
    return sonde_heap_tracker_ensure_thread (self, -1, -1);
  number = self->threads->len;
  sonde_id_map_set (self->thread_ids, key, number);
  sonde_id_map_set (self->pids, (guint32) tid, (guint32) pid);
  sonde_id_map_set (self->pids, (guint32) pid, (guint32) pid);
  g_array_append_val (self->threads, thread);
  return number;
}

guint32
sonde_heap_tracker_add_stack (SondeHeapTracker *self, gboolean counts)
{
  Stack stack = { .counts = counts };

  g_array_append_val (self->stacks, stack);
  return self->stacks->len - 1;
}

static void
add (SondeHeapAmount *sum, const SondeHeapAmount *amount)
{
  sum->bytes += amount->bytes;
  sum->blocks += amount->blocks;
}

static void
subtract (SondeHeapAmount *sum, const SondeHeapAmount *amount)
{
  sum->bytes -= amount->bytes;
  sum->blocks -= amount->blocks;
}

/* How much a block of that size stands for. It was sampled with the inverse probability. */
static SondeHeapAmount
weigh (const SondeHeapTracker *self, gint64 size_bytes)
{
  double size = (double) size_bytes;
  double weight = self->interval_bytes > 0 ? -1 / expm1 (-size / self->interval_bytes) : 1;

  return (SondeHeapAmount){ .bytes = size * weight, .blocks = weight };
}

static void
count (SondeHeapTracker *self, Stack *stack, SondeHeapMetric metric, const SondeHeapAmount *amount)
{
  if (!stack->counts)
    return;
  add (&stack->amounts[metric], amount);
  add (&self->totals.amounts[metric], amount);
}

/* The peak is known only later: a stack keeps what it had at the newest one so far when it changes
 * for the first time after it. */
static void
keep_peak (SondeHeapTracker *self, Stack *stack)
{
  if (stack->peak == self->peak)
    return;
  stack->amounts[SONDE_HEAP_PEAK] = stack->live;
  stack->peak = self->peak;
}

static void
begin_block (SondeHeapTracker *self, const SondeLiveBlock *block)
{
  Stack *stack = STACK (self, block->stack);
  SondeHeapAmount amount = weigh (self, block->size_bytes);

  if (!stack->counts)
    return;
  count (self, stack, SONDE_HEAP_ALLOCATED, &amount);
  keep_peak (self, stack);
  add (&stack->live, &amount);
  add (&self->live, &amount);
  if (self->live.bytes > self->totals.amounts[SONDE_HEAP_PEAK].bytes)
    {
      self->totals.amounts[SONDE_HEAP_PEAK] = self->live;
      self->totals.peak_ns = block->time_ns;
      self->peak++;
    }
  sonde_heap_series_add (self->series, block->time_ns, self->live.bytes);
}

/* Returns: what the block stood for */
static SondeHeapAmount
end_block (SondeHeapTracker *self, const SondeLiveBlock *block, gint64 time_ns)
{
  Stack *stack = STACK (self, block->stack);
  SondeHeapAmount amount = weigh (self, block->size_bytes);

  if (!stack->counts)
    return amount;
  keep_peak (self, stack);
  subtract (&stack->live, &amount);
  subtract (&self->live, &amount);
  sonde_heap_series_add (self->series, time_ns, self->live.bytes);
  return amount;
}

void
sonde_heap_tracker_foresee (const SondeHeapTracker *self, gint32 pid, guint64 address)
{
  const Heap *heap = g_hash_table_lookup (self->heaps, GINT_TO_POINTER (pid));

  if (heap != NULL)
    sonde_live_map_prefetch (heap->live, address);
}

static Heap *
ensure_heap (SondeHeapTracker *self, gint32 pid)
{
  Heap *heap = g_hash_table_lookup (self->heaps, GINT_TO_POINTER (pid));

  if (heap == NULL)
    {
      heap = g_new0 (Heap, 1);
      heap->pid = pid;
      heap->live = sonde_live_map_new ();
      g_hash_table_insert (self->heaps, GINT_TO_POINTER (pid), heap);
    }
  return heap;
}

/* Whether the heap's process allocated the block itself. */
static gboolean
is_own (const SondeHeapTracker *self, const Heap *heap, const SondeLiveBlock *block)
{
  return THREAD (self, block->thread)->pid == heap->pid;
}

/* Blocks that a child has from its parent took no room. */
static void
give_back (SondeHeapTracker *self, const Heap *heap, const SondeLiveBlock *block)
{
  if (self->options.budget != NULL && is_own (self, heap, block))
    self->options.budget->left[SONDE_LIMIT_BLOCKS]++;
}

static void
take_allocation (SondeHeapTracker *self, const SondeHeapEvent *event)
{
  Thread *thread = THREAD (self, event->thread);
  Heap *heap = ensure_heap (self, thread->pid);
  SondeLiveBlock old;
  SondeLiveBlock block = { .address = event->address,
                           .size_bytes = event->size_bytes,
                           .time_ns = event->time_ns,
                           .stack = event->stack,
                           .thread = event->thread };

  heap->counts = STACK (self, event->stack)->counts;
  thread->newest = event->address;
  /* The budget has no room for one more live block. */
  if (self->options.budget != NULL && !sonde_live_map_has (heap->live, event->address)
      && !sonde_budget_take (self->options.budget, SONDE_LIMIT_BLOCKS, 1))
    {
      SondeHeapAmount amount = weigh (self, event->size_bytes);

      count (self, STACK (self, event->stack), SONDE_HEAP_ALLOCATED, &amount);
      return;
    }
  sonde_live_map_own (&heap->live);
  if (sonde_live_map_put (heap->live, &block, &old) && is_own (self, heap, &old))
    {
      SondeHeapAmount amount = end_block (self, &old, event->time_ns);

      if (STACK (self, old.stack)->counts)
        {
          add (&self->totals.freed, &amount);
          self->totals.n_frees_missing++;
        }
    }
  begin_block (self, &block);
}

static gboolean
is_temporary (const SondeHeapTracker *self, const SondeLiveBlock *block, const SondeHeapEvent *free)
{
  gint64 lifetime_ns;

  if (self->options.temporary_ns < 0)
    return block->thread == free->thread && THREAD (self, free->thread)->newest == block->address;
  /* times of foreign frames: any */
  return !__builtin_sub_overflow (free->time_ns, block->time_ns, &lifetime_ns)
         && lifetime_ns < self->options.temporary_ns;
}

static void
take_free (SondeHeapTracker *self, const SondeHeapEvent *event)
{
  Thread *thread = THREAD (self, event->thread);
  Heap *heap = ensure_heap (self, thread->pid);
  SondeHeapAmount amount;
  SondeLiveBlock block;
  Stack *stack;

  heap->counts = event->stack != 0;
  if (!sonde_live_map_has (heap->live, event->address))
    {
      self->totals.n_unknown_freed += heap->counts;
      return;
    }
  sonde_live_map_own (&heap->live);
  sonde_live_map_take (heap->live, event->address, &block);
  give_back (self, heap, &block);
  if (!is_own (self, heap, &block))
    {
      self->totals.n_inherited_freed += heap->counts;
      return;
    }

  stack = STACK (self, block.stack);
  amount = end_block (self, &block, event->time_ns);
  if (stack->counts)
    add (&self->totals.freed, &amount);
  if (is_temporary (self, &block, event))
    count (self, stack, SONDE_HEAP_TEMPORARY, &amount);
  if (block.thread != event->thread)
    count (self, stack, SONDE_HEAP_CROSS_THREAD, &amount);
  if (thread->newest == event->address)
    thread->newest = 0;
}

typedef struct
{
  SondeHeapTracker *tracker;
  const Heap *heap;
  gint64 time_ns;
} Ending;

static void
leave_block (const SondeLiveBlock *block, gpointer user_data)
{
  const Ending *ending = user_data;
  SondeHeapTracker *self = ending->tracker;
  SondeHeapAmount amount = weigh (self, block->size_bytes);

  give_back (self, ending->heap, block);
  if (is_own (self, ending->heap, block))
    {
      end_block (self, block, ending->time_ns);
      count (self, STACK (self, block->stack), SONDE_HEAP_LEFT, &amount);
    }
  else if (ending->heap->counts)
    add (&self->totals.inherited, &amount);
}

static void
end_heap (SondeHeapTracker *self, gint32 pid, gint64 time_ns)
{
  Heap *heap = g_hash_table_lookup (self->heaps, GINT_TO_POINTER (pid));

  if (heap == NULL)
    return;
  sonde_live_map_foreach (heap->live, leave_block, &(Ending){ self, heap, time_ns });
  self->n_inherited -= heap->n_inherited;
  g_hash_table_remove (self->heaps, GINT_TO_POINTER (pid));
}

/* The child shares its parent's blocks until either changes them. Of a thread, and of a process
 * that never touches a heap, no event is known. */
static void
take_fork (SondeHeapTracker *self, const SondeHeapEvent *event)
{
  guint32 tid = event->thread;
  guint32 child = (guint32) event->address;
  guint32 pid;
  gsize n_slots;
  Heap *parent;
  Heap *heap;

  if (!sonde_id_map_lookup (self->pids, child, &pid) || pid != child)
    return;
  if (!sonde_id_map_lookup (self->pids, tid, &pid) || pid == child)
    return;
  parent = g_hash_table_lookup (self->heaps, GINT_TO_POINTER ((gint32) pid));
  if (parent == NULL)
    return;
  end_heap (self, (gint32) child, event->time_ns);
  n_slots = sonde_live_map_n_slots (parent->live);
  if (n_slots > MAX_INHERITED - self->n_inherited
      || n_slots > MAX_EVER_INHERITED - self->n_ever_inherited)
    {
      self->totals.n_forks_not_followed++;
      return;
    }

  heap = g_new0 (Heap, 1);
  heap->pid = (gint32) child;
  heap->live = sonde_live_map_ref (parent->live);
  heap->n_inherited = n_slots;
  self->n_inherited += n_slots;
  self->n_ever_inherited += n_slots;
  g_hash_table_insert (self->heaps, GINT_TO_POINTER (heap->pid), heap);
}

static void
take_moment (SondeHeapTracker *self)
{
  SondeHeapMetric metric = SONDE_HEAP_AT_FIRST + self->n_moments++;

  for (guint32 i = 0; i < self->stacks->len; i++)
    STACK (self, i)->amounts[metric] = STACK (self, i)->live;
  self->totals.amounts[metric] = self->live;
}

void
sonde_heap_tracker_take (SondeHeapTracker *self, const SondeHeapEvent *event)
{
  while (self->n_moments < SONDE_HEAP_N_MOMENTS
         && event->time_ns > self->options.moments_ns[self->n_moments])
    take_moment (self);

  if (event->size_bytes > 0)
    take_allocation (self, event);
  else if (event->size_bytes == 0)
    take_free (self, event);
  else if (event->size_bytes == SONDE_HEAP_EVENT_FORKED)
    take_fork (self, event);
  else
    end_heap (self, (gint32) event->thread, event->time_ns);
}

void
sonde_heap_tracker_finish (SondeHeapTracker *self)
{
  g_autofree gpointer *pids = NULL;
  guint n_pids = 0;

  while (self->n_moments < SONDE_HEAP_N_MOMENTS)
    take_moment (self);
  for (guint32 i = 0; i < self->stacks->len; i++)
    keep_peak (self, STACK (self, i));

  /* no time: what is live now stays so, as far as is known */
  pids = g_hash_table_get_keys_as_array (self->heaps, &n_pids);
  for (guint i = 0; i < n_pids; i++)
    end_heap (self, GPOINTER_TO_INT (pids[i]), G_MININT64);
}

const SondeHeapTotals *
sonde_heap_tracker_totals (const SondeHeapTracker *self)
{
  return &self->totals;
}

const SondeHeapAmount *
sonde_heap_tracker_amount (const SondeHeapTracker *self, guint32 stack, SondeHeapMetric metric)
{
  return &STACK (self, stack)->amounts[metric];
}

const SondeHeapSeries *
sonde_heap_tracker_series (const SondeHeapTracker *self)
{
  return self->series;
}
