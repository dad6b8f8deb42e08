/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/heap/heap-tracker.h"

#include <math.h>

#include "base/hash.h"
#include "base/table.h"
#include "client/base/large-table.h"

typedef struct
{
  guint64 address;
  gint64 size_bytes; /* above 0 */
  gint64 time_ns;    /* of the allocation */
  guint32 stack;     /* what these two number is the caller's business */
  guint32 thread;
} LiveBlock;

/* The blocks of a heap that are allocated at a moment, by address. Addresses may come from a
 * hostile capture: the hash is seeded at random. 32 bytes a slot, of which at most three quarters
 * are used. */
typedef struct
{
  guint n_references;
  SondeTable table; /* of LiveBlock */
} LiveMap;

static guint64
hash_block (const void *slot, guint64 seed)
{
  return sonde_hash (seed, ((const LiveBlock *) slot)->address);
}

static bool
has_address (const void *slot, guint64 hash, const void *address)
{
  return ((const LiveBlock *) slot)->address == *(const guint64 *) address;
}

/* Few slots at first, as a capture may have very many processes. */
static const SondeTableKind blocks = { .slot_bytes = sizeof (LiveBlock),
                                       .used_at = offsetof (LiveBlock, size_bytes),
                                       .n_first_slots = 8,
                                       .max_eighths = 6,
                                       .allocate = sonde_large_table_allocate,
                                       .hash = hash_block,
                                       .has_key = has_address };

static void
live_map_unref (LiveMap *self)
{
  if (self == NULL || --self->n_references > 0)
    return;
  sonde_table_clear (&self->table);
  g_free (self);
}

/* Makes *@self the only reference to its map, by a copy if it is not. */
static void
live_map_own (LiveMap **self)
{
  LiveMap *shared = *self;

  if (shared->n_references == 1)
    return;
  *self = g_memdup2 (shared, sizeof *shared);
  (*self)->n_references = 1;
  (*self)->table.slots
      = g_memdup2 (shared->table.slots, shared->table.n_slots * sizeof (LiveBlock));
  live_map_unref (shared);
}

static LiveBlock *
find_block (const LiveMap *self, guint64 address)
{
  return sonde_table_find (&blocks, &self->table, sonde_hash (self->table.seed, address), &address);
}

/* TRUE if a block was there already: it is replaced, and moved to @old. The map has one owner. */
static gboolean
live_map_put (LiveMap *self, const LiveBlock *block, LiveBlock *old)
{
  LiveBlock *slot = find_block (self, block->address);

  g_assert (self->n_references == 1 && block->size_bytes > 0);
  if (slot == NULL)
    {
      sonde_table_add (&blocks, &self->table, block);
      return FALSE;
    }
  *old = *slot;
  *slot = *block;
  return TRUE;
}

SondeHeapSeries *
sonde_heap_series_new (gint64 start_ns)
{
  SondeHeapSeries *self = g_new0 (SondeHeapSeries, 1);

  self->start_ns = start_ns;
  self->interval_ns = 1;
  self->n_used = 1;
  return self;
}

void
sonde_heap_series_free (SondeHeapSeries *self)
{
  g_free (self);
}

/* Times of foreign frames: any. */
static gint64
since_start (const SondeHeapSeries *self, gint64 time_ns)
{
  gint64 since_ns;

  if (__builtin_sub_overflow (time_ns, self->start_ns, &since_ns))
    return time_ns < 0 ? 0 : G_MAXINT64;
  return since_ns;
}

void
sonde_heap_series_add (SondeHeapSeries *self, gint64 time_ns, double value)
{
  guint64 index;

  self->newest_ns = MAX (self->newest_ns, since_start (self, time_ns));
  while ((index = (guint64) self->newest_ns / self->interval_ns) >= SONDE_HEAP_SERIES_SIZE)
    {
      for (guint i = 0; i < SONDE_HEAP_SERIES_SIZE; i++)
        {
          guint first = 2 * i;

          if (first >= self->n_used)
            self->maxima[i] = 0;
          else if (first + 1 >= self->n_used)
            self->maxima[i] = self->maxima[first];
          else
            self->maxima[i] = MAX (self->maxima[first], self->maxima[first + 1]);
        }
      self->n_used = (self->n_used + 1) / 2;
      self->interval_ns *= 2;
    }

  /* it has not changed since the interval before */
  for (; self->n_used <= index; self->n_used++)
    self->maxima[self->n_used] = self->value;
  self->value = value;
  self->maxima[index] = MAX (self->maxima[index], value);
}

void
sonde_heap_series_sample (const SondeHeapSeries *self, double *maxima, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      guint first = (guint) ((guint64) i * self->n_used / n);
      guint last = (guint) (((guint64) (i + 1) * self->n_used - 1) / n);

      maxima[i] = 0;
      for (guint j = first; j <= last && j < self->n_used; j++)
        maxima[i] = MAX (maxima[i], self->maxima[j]);
    }
}

/* Slots of 32 bytes that forked children have from their parents: of all who live at a time, for
 * the memory; and ever, for the time. */
#define MAX_INHERITED      (12u << 20)
#define MAX_EVER_INHERITED (128u << 20)

typedef struct
{
  gint32 pid;
  LiveMap *live;     /* shared with parent and children until one of them changes it */
  gsize n_inherited; /* slots at the fork */
  gboolean counts;   /* whether its last event was part of the sums */
} Heap;

typedef struct
{
  gint32 pid;
  guint64 newest; /* address of its newest block, 0: none */
} TrackedThread;

typedef struct
{
  SondeHeapAmount amounts[SONDE_HEAP_N_METRICS];
  SondeHeapAmount live;
  guint32 peak; /* the peak that amounts[SONDE_HEAP_PEAK] is of */
  gboolean counts;
  gboolean is_cut; /* does not count, though its process does */
} Stack;

#define STACK(self, i)  (&g_array_index ((self)->stacks, Stack, (i)))
#define THREAD(self, i) (&g_array_index ((self)->threads, TrackedThread, (i)))

static void
heap_free (gpointer data)
{
  Heap *heap = data;

  live_map_unref (heap->live);
  g_free (heap);
}

SondeHeapTracker *
sonde_heap_tracker_new (const SondeHeapTrackerOptions *options)
{
  SondeHeapTracker *self = g_new0 (SondeHeapTracker, 1);

  self->options = *options;
  self->heaps = g_hash_table_new_full (NULL, NULL, NULL, heap_free);
  self->threads = g_array_new (FALSE, FALSE, sizeof (TrackedThread));
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
  TrackedThread thread = { .pid = pid };
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

guint32
sonde_heap_tracker_add_cut_stack (SondeHeapTracker *self)
{
  guint32 number = sonde_heap_tracker_add_stack (self, FALSE);

  STACK (self, number)->is_cut = TRUE;
  return number;
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
tell_block (const SondeHeapTracker *self,
            SondeHeapBlockTurn turn,
            guint32 stack,
            const SondeHeapAmount *amount,
            gint64 time_ns)
{
  if (self->options.block != NULL && STACK (self, stack)->counts)
    self->options.block (turn, stack, amount, time_ns, self->options.user_data);
}

static void
begin_block (SondeHeapTracker *self, const LiveBlock *block)
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
  tell_block (self, SONDE_HEAP_BLOCK_BEGUN, block->stack, &amount, block->time_ns);
}

/* Returns: what the block stood for */
static SondeHeapAmount
end_block (SondeHeapTracker *self, const LiveBlock *block, gint64 time_ns)
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
    __builtin_prefetch (sonde_table_slot (&blocks, &heap->live->table,
                                          sonde_hash (heap->live->table.seed, address)));
}

static Heap *
ensure_heap (SondeHeapTracker *self, gint32 pid)
{
  Heap *heap = g_hash_table_lookup (self->heaps, GINT_TO_POINTER (pid));

  if (heap == NULL)
    {
      heap = g_new0 (Heap, 1);
      heap->pid = pid;
      heap->live = g_new0 (LiveMap, 1);
      heap->live->n_references = 1;
      heap->live->table.seed = sonde_hash_seed ();
      sonde_table_resize (&blocks, &heap->live->table, blocks.n_first_slots);
      g_hash_table_insert (self->heaps, GINT_TO_POINTER (pid), heap);
    }
  return heap;
}

/* Whether the heap's process allocated the block itself. */
static gboolean
is_own (const SondeHeapTracker *self, const Heap *heap, const LiveBlock *block)
{
  return THREAD (self, block->thread)->pid == heap->pid;
}

/* Blocks that a child has from its parent took no room. */
static void
give_back (SondeHeapTracker *self, const Heap *heap, const LiveBlock *block)
{
  if (self->options.budget != NULL && is_own (self, heap, block))
    self->options.budget->left[SONDE_LIMIT_BLOCKS]++;
}

static void
take_allocation (SondeHeapTracker *self, const SondeHeapEvent *event)
{
  TrackedThread *thread = THREAD (self, event->thread);
  Heap *heap = ensure_heap (self, thread->pid);
  LiveBlock old;
  LiveBlock block = { .address = event->address,
                      .size_bytes = event->size_bytes,
                      .time_ns = event->time_ns,
                      .stack = event->stack,
                      .thread = event->thread };

  heap->counts = STACK (self, event->stack)->counts || STACK (self, event->stack)->is_cut;
  thread->newest = event->address;
  /* The budget has no room for one more live block. */
  if (self->options.budget != NULL && find_block (heap->live, event->address) == NULL
      && !sonde_budget_take (self->options.budget, SONDE_LIMIT_BLOCKS, 1))
    {
      SondeHeapAmount amount = weigh (self, event->size_bytes);

      count (self, STACK (self, event->stack), SONDE_HEAP_ALLOCATED, &amount);
      tell_block (self, SONDE_HEAP_BLOCK_UNSEEN, event->stack, &amount, event->time_ns);
      return;
    }
  live_map_own (&heap->live);
  if (live_map_put (heap->live, &block, &old) && is_own (self, heap, &old))
    {
      SondeHeapAmount amount = end_block (self, &old, event->time_ns);

      tell_block (self, SONDE_HEAP_BLOCK_FREED, old.stack, &amount, event->time_ns);
      if (STACK (self, old.stack)->counts)
        {
          add (&self->totals.freed, &amount);
          self->totals.n_frees_missing++;
        }
    }
  begin_block (self, &block);
}

static gboolean
is_temporary (const SondeHeapTracker *self, const LiveBlock *block, const SondeHeapEvent *free)
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
  TrackedThread *thread = THREAD (self, event->thread);
  Heap *heap = ensure_heap (self, thread->pid);
  SondeHeapAmount amount;
  LiveBlock *slot;
  LiveBlock block;
  Stack *stack;

  heap->counts = event->stack != 0;
  if (find_block (heap->live, event->address) == NULL)
    {
      self->totals.n_unknown_freed += heap->counts;
      return;
    }
  live_map_own (&heap->live);
  slot = find_block (heap->live, event->address);
  block = *slot;
  sonde_table_remove (&blocks, &heap->live->table, slot);
  give_back (self, heap, &block);
  if (!is_own (self, heap, &block))
    {
      self->totals.n_inherited_freed += heap->counts;
      return;
    }

  stack = STACK (self, block.stack);
  amount = end_block (self, &block, event->time_ns);
  tell_block (self, SONDE_HEAP_BLOCK_FREED, block.stack, &amount, event->time_ns);
  if (stack->counts)
    add (&self->totals.freed, &amount);
  if (is_temporary (self, &block, event))
    count (self, stack, SONDE_HEAP_TEMPORARY, &amount);
  if (block.thread != event->thread)
    count (self, stack, SONDE_HEAP_CROSS_THREAD, &amount);
  if (thread->newest == event->address)
    thread->newest = 0;
}

static void
end_heap (SondeHeapTracker *self, gint32 pid, gint64 time_ns)
{
  Heap *heap = g_hash_table_lookup (self->heaps, GINT_TO_POINTER (pid));
  const LiveBlock *block;
  gsize position = 0;

  if (heap == NULL)
    return;
  while ((block = sonde_table_next (&blocks, &heap->live->table, &position)) != NULL)
    {
      SondeHeapAmount amount = weigh (self, block->size_bytes);

      give_back (self, heap, block);
      if (is_own (self, heap, block))
        {
          end_block (self, block, time_ns);
          count (self, STACK (self, block->stack), SONDE_HEAP_LEFT, &amount);
        }
      else if (heap->counts && !STACK (self, block->stack)->is_cut)
        add (&self->totals.inherited, &amount);
    }
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
  n_slots = parent->live->table.n_slots;
  if (n_slots > MAX_INHERITED - self->n_inherited
      || n_slots > MAX_EVER_INHERITED - self->n_ever_inherited)
    {
      self->totals.n_forks_not_followed++;
      return;
    }

  heap = g_new0 (Heap, 1);
  heap->pid = (gint32) child;
  heap->live = parent->live;
  heap->live->n_references++;
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

void
sonde_heap_tracker_add_sums (SondeHeapTracker *self,
                             guint32 stack,
                             const SondeHeapAmount amounts[SONDE_HEAP_N_METRICS],
                             const SondeHeapAmount *freed)
{
  Stack *at = STACK (self, stack);

  if (!at->counts)
    return;
  for (SondeHeapMetric i = 0; i < SONDE_HEAP_N_METRICS; i++)
    {
      add (&at->amounts[i], &amounts[i]);
      add (&self->totals.amounts[i], &amounts[i]);
    }
  add (&self->totals.freed, freed);
}

const SondeHeapAmount *
sonde_heap_tracker_amount (const SondeHeapTracker *self, guint32 stack, SondeHeapMetric metric)
{
  return &STACK (self, stack)->amounts[metric];
}
