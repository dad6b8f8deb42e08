/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/heap-log.h"

#include <string.h>
#include <zstd.h>

#include "base/hash.h"
#include "protocol/number-column.h"

/* A segment ends when it has so much; an event may add stacks, of less than twice that. */
#define FULL_BYTES     (SONDE_HEAP_LOG_MAX_BYTES / 2)
#define PACKING_EFFORT 3

/* What the deepest stacks of a full segment need, which is more than its events do. */
#define MAX_FILLING_BYTES                                                                          \
  (SONDE_HEAP_LOG_MAX_EVENTS / SONDE_HEAP_LOG_MAX_MADE * SONDE_STACK_TREE_MAX_DEPTH)

/* Blocks that are freed soon are so at the same age again and again; others in the order, or
 * against the order, of their numbers. */
#define SHORT_AGE  31

#define MANY_SIZES 32768 /* slots: fewer are in the cache as it is */

typedef struct
{
  uint8_t *bytes;
  gsize n;
  gsize room;
} Column;

/* A size that a stack asked for. */
typedef struct
{
  uint64_t size_bytes;
  uint32_t node;
  uint32_t number : 21; /* + 1 */
  uint32_t depth : 11;  /* of the stack */
} SizeSlot;

static_assert (SONDE_HEAP_LOG_MAX_SIZES < 1u << 21 && SONDE_STACK_TREE_MAX_DEPTH < 1u << 11,
               "a slot has room for each");

/* What a stack asked for last, as most ask for the same again and again. */
typedef struct
{
  uint64_t size_bytes;
  uint32_t number; /* + 1; 0: nothing */
  uint32_t depth;
} LastSize;

struct SondeHeapLog
{
  const SondeStackTree *tree;
  const GArray *threads;
  SondeHeapLogFunc func;
  gpointer user_data;
  ZSTD_CCtx *packer;
  GByteArray *packed;

  /* of the epoch: numbers in it + 1, 0: none yet */
  GArray *node_numbers;
  GArray *pc_numbers;
  GArray *thread_numbers;
  guint n_nodes;
  guint n_pcs;
  guint n_threads;
  SondeTable sizes;
  GArray *last_sizes; /* LastSize, of nodes */
  uint64_t last_pc;
  guint last_node; /* of the last size */

  SondeHeapSegment segment;
  Column columns[SONDE_HEAP_N_COLUMNS];
  gsize n_bytes; /* in all of these */
  guint n_events;
  guint64 n_frames; /* that these have, if a reader makes each one's stack anew */
  guint n_timed;    /* of these, before the last step */
  gint64 ticks;     /* since the segment's first event */
  gint64 tick_ns;   /* when that tick began */
  uint64_t n_blocks;
  uint64_t last_freed; /* by its number, of those that are not told by age */
  guint32 thread;      /* of the last event, + 1 */
};

static uint64_t
hash_size (const void *slot, uint64_t seed)
{
  const SizeSlot *size = slot;

  return sonde_hash (sonde_hash (seed, size->node), size->size_bytes);
}

static bool
is_size (const void *slot, uint64_t hash, const void *key)
{
  const SizeSlot *size = slot;
  const SizeSlot *wanted = key;

  return size->size_bytes == wanted->size_bytes && size->node == wanted->node;
}

static const SondeTableKind size_slots = { .slot_bytes = sizeof (SizeSlot),
                                           .used_at = offsetof (SizeSlot, node),
                                           .n_first_slots = 256,
                                           .max_eighths = 6,
                                           .allocate = g_malloc0_n,
                                           .hash = hash_size,
                                           .has_key = is_size };

SondeHeapLog *
sonde_heap_log_new (const SondeStackTree *tree,
                    const GArray *threads,
                    guint tick_ns,
                    SondeHeapLogFunc func,
                    gpointer user_data)
{
  SondeHeapLog *self = g_new0 (SondeHeapLog, 1);

  self->tree = tree;
  self->threads = threads;
  self->func = func;
  self->user_data = user_data;
  self->packer = ZSTD_createCCtx ();
  self->packed = g_byte_array_new ();
  self->node_numbers = g_array_new (FALSE, TRUE, sizeof (guint32));
  self->pc_numbers = g_array_new (FALSE, TRUE, sizeof (guint32));
  self->thread_numbers = g_array_new (FALSE, TRUE, sizeof (guint32));
  self->sizes.seed = sonde_hash_seed ();
  self->last_sizes = g_array_new (FALSE, TRUE, sizeof (LastSize));
  self->segment.version = SONDE_HEAP_LOG_VERSION;
  self->segment.tick_ns = tick_ns;
  return self;
}

void
sonde_heap_log_free (SondeHeapLog *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    g_free (self->columns[i].bytes);
  ZSTD_freeCCtx (self->packer);
  g_byte_array_unref (self->packed);
  g_array_unref (self->node_numbers);
  g_array_unref (self->pc_numbers);
  g_array_unref (self->thread_numbers);
  sonde_table_clear (&self->sizes);
  g_array_unref (self->last_sizes);
  g_free (self);
}

/* --- columns --- */

static void
put (SondeHeapLog *self, SondeHeapColumn which, uint64_t number)
{
  Column *column = &self->columns[which];

  if (column->room - column->n < SONDE_NUMBER_MAX_BYTES)
    {
      column->room = MAX (column->room * 2, 4096);
      column->bytes = g_realloc (column->bytes, column->room);
    }
  self->n_bytes -= column->n;
  column->n += sonde_number_put (column->bytes + column->n, number);
  self->n_bytes += column->n;
}

static void
put_other (SondeHeapLog *self, SondeHeapLogOther which, uint64_t operand)
{
  put (self, SONDE_HEAP_COLUMN_EVENTS,
       (operand << SONDE_HEAP_LOG_KIND_BITS | which) << SONDE_HEAP_LOG_KIND_BITS
           | SONDE_HEAP_LOG_OTHER);
}

static guint32 *
number_at (GArray *numbers, guint32 index)
{
  if (index >= numbers->len)
    g_array_set_size (numbers, index + 1);
  return &g_array_index (numbers, guint32, index);
}

static guint
tell_pc (SondeHeapLog *self, guint32 index)
{
  guint32 *number = number_at (self->pc_numbers, index);

  if (*number == 0)
    {
      uint64_t pc = g_array_index (self->tree->pcs, uint64_t, index);

      put (self, SONDE_HEAP_COLUMN_PCS, sonde_number_fold (pc - self->last_pc));
      self->last_pc = pc;
      *number = ++self->n_pcs;
    }
  return *number - 1;
}

/* Callers first. Returns: the node's number in the epoch; 0: none */
static guint
tell_node (SondeHeapLog *self, guint32 node)
{
  guint32 path[SONDE_STACK_TREE_MAX_DEPTH];
  guint n = 0;
  guint known;

  while (node != 0 && *number_at (self->node_numbers, node) == 0)
    {
      const SondeStackNode *at = sonde_stack_tree_node (self->tree, node);

      g_assert (n < G_N_ELEMENTS (path));
      path[n++] = node;
      node = at->caller;
    }
  known = node != 0 ? *number_at (self->node_numbers, node) : 0;
  for (; n > 0; n--)
    {
      guint pc = tell_pc (self, sonde_stack_tree_node (self->tree, path[n - 1])->pc);

      put (self, SONDE_HEAP_COLUMN_NODES, self->n_nodes - known);
      put (self, SONDE_HEAP_COLUMN_NODES, pc);
      known = *number_at (self->node_numbers, path[n - 1]) = ++self->n_nodes;
    }
  return known;
}

static guint
depth_of (const SondeHeapLog *self, uint32_t node)
{
  guint depth = 0;

  for (; node != 0; node = sonde_stack_tree_node (self->tree, node)->caller)
    depth++;
  return depth;
}

static guint
tell_size (SondeHeapLog *self, uint32_t node, uint64_t size_bytes)
{
  SizeSlot slot = { size_bytes, node, 0, 0 };
  const SizeSlot *known;
  LastSize *last;

  if (node >= self->last_sizes->len)
    g_array_set_size (self->last_sizes, node + 1);
  last = &g_array_index (self->last_sizes, LastSize, node);
  if (last->size_bytes == size_bytes && last->number != 0)
    {
      self->n_frames += last->depth;
      return last->number - 1;
    }
  known = sonde_table_find (&size_slots, &self->sizes, hash_size (&slot, self->sizes.seed), &slot);
  if (known == NULL)
    {
      guint number = tell_node (self, node);

      put (self, SONDE_HEAP_COLUMN_SIZES, sonde_number_fold ((gint64) number - self->last_node));
      put (self, SONDE_HEAP_COLUMN_SIZES, size_bytes);
      self->last_node = number;
      slot.number = (uint32_t) self->sizes.n_used + 1;
      slot.depth = depth_of (self, node);
      sonde_table_add (&size_slots, &self->sizes, &slot);
      known = &slot;
    }
  *last = (LastSize){ size_bytes, known->number, known->depth };
  self->n_frames += known->depth;
  return known->number - 1;
}

static void
switch_thread (SondeHeapLog *self, guint32 thread)
{
  guint32 *number = number_at (self->thread_numbers, thread);

  if (*number == 0)
    {
      const SondeHeapLogThread *at = &g_array_index (self->threads, SondeHeapLogThread, thread);

      put (self, SONDE_HEAP_COLUMN_THREADS, (uint32_t) at->pid);
      put (self, SONDE_HEAP_COLUMN_THREADS, (uint32_t) at->tid);
      *number = ++self->n_threads;
    }
  put_other (self, SONDE_HEAP_LOG_THREAD, *number - 1);
  self->thread = thread + 1;
}

void
sonde_heap_log_forget_thread (SondeHeapLog *self, guint32 thread)
{
  if (thread < self->thread_numbers->len)
    *number_at (self->thread_numbers, thread) = 0;
  if (self->thread == thread + 1)
    self->thread = 0;
}

/* --- segments --- */

/* With another skippable frame, up to what so many events and their stacks need. Returns: the size
 * with it */
static gsize
fill_up (SondeHeapLog *self, gsize packed_bytes)
{
  gsize wanted_bytes
      = MAX ((self->n_events + SONDE_HEAP_LOG_MAX_DENSITY - 1) / SONDE_HEAP_LOG_MAX_DENSITY,
             (self->n_frames + SONDE_HEAP_LOG_MAX_MADE - 1) / SONDE_HEAP_LOG_MAX_MADE);
  SondeHeapFilling filling = { .magic = GUINT32_TO_LE (SONDE_HEAP_FILLING_MAGIC) };
  guint8 *at = self->packed->data + sizeof (SondeHeapLabel) + packed_bytes;
  gsize n;

  if (sizeof (SondeHeapLabel) + packed_bytes >= wanted_bytes)
    return packed_bytes;
  n = MAX (wanted_bytes - sizeof (SondeHeapLabel) - packed_bytes, sizeof filling);
  filling.size_bytes = GUINT32_TO_LE ((guint32) (n - sizeof filling));
  memset (at, 0, n);
  memcpy (at, &filling, sizeof filling);
  return packed_bytes + n;
}

static void
pack (SondeHeapLog *self, const GByteArray *plain)
{
  SondeHeapLabel label = { .magic = GUINT32_TO_LE (SONDE_HEAP_LABEL_MAGIC),
                           .size_bytes = GUINT32_TO_LE (sizeof label - 8),
                           .n_events = GUINT32_TO_LE (self->n_events) };
  gsize packed_bytes;

  g_byte_array_set_size (
      self->packed, (guint) (sizeof label + ZSTD_compressBound (plain->len) + MAX_FILLING_BYTES));
  packed_bytes = ZSTD_compressCCtx (self->packer, self->packed->data + sizeof label,
                                    self->packed->len - sizeof label - MAX_FILLING_BYTES,
                                    plain->data, plain->len, PACKING_EFFORT);
  g_assert (!ZSTD_isError (packed_bytes));
  packed_bytes = fill_up (self, packed_bytes);
  label.packed_bytes = GUINT32_TO_LE ((guint32) packed_bytes);
  memcpy (self->packed->data, &label, sizeof label);
  self->func (self->packed->data, sizeof label + packed_bytes, self->n_events, self->user_data);
}

void
sonde_heap_log_flush (SondeHeapLog *self)
{
  g_autoptr (GByteArray) plain = NULL;
  SondeHeapSegment header = self->segment;

  if (self->n_events == 0)
    return;
  header.version = GUINT32_TO_LE (header.version);
  header.epoch = GUINT32_TO_LE (header.epoch);
  header.sequence = GUINT32_TO_LE (header.sequence);
  header.tick_ns = GUINT32_TO_LE (header.tick_ns);
  header.time_ns = GINT64_TO_LE (header.time_ns);
  header.n_before = GUINT64_TO_LE (header.n_before);
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    header.column_bytes[i] = GUINT32_TO_LE ((guint32) self->columns[i].n);
  plain = g_byte_array_sized_new ((guint) (sizeof header + self->n_bytes));
  g_byte_array_append (plain, (const guint8 *) &header, sizeof header);
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    g_byte_array_append (plain, self->columns[i].bytes, (guint) self->columns[i].n);
  pack (self, plain);

  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    self->columns[i].n = 0;
  self->n_bytes = 0;
  self->n_events = self->n_timed = 0;
  self->n_frames = 0;
  self->ticks = 0;
  self->thread = 0;
  self->last_pc = 0;
  self->last_node = 0;
  self->segment.sequence++;
}

void
sonde_heap_log_restart (SondeHeapLog *self)
{
  sonde_heap_log_flush (self);
  if (self->segment.sequence == 0)
    return;
  self->segment.epoch++;
  self->segment.sequence = 0;
  g_array_set_size (self->node_numbers, 0);
  g_array_set_size (self->pc_numbers, 0);
  g_array_set_size (self->thread_numbers, 0);
  self->n_nodes = self->n_pcs = self->n_threads = 0;
  sonde_table_clear (&self->sizes);
  g_array_set_size (self->last_sizes, 0);
}

gint64
sonde_heap_log_since_ns (const SondeHeapLog *self)
{
  return self->n_events > 0 ? self->segment.time_ns : G_MAXINT64;
}

/* Both times are between the start of the session and now. */
static void
switch_tick (SondeHeapLog *self, gint64 time_ns)
{
  gint64 tick_ns = self->segment.tick_ns;
  gint64 ticks = time_ns - self->segment.time_ns;

  ticks = (ticks >= 0 ? ticks : ticks - tick_ns + 1) / tick_ns;
  self->tick_ns = self->segment.time_ns + ticks * tick_ns;
  if (ticks == self->ticks)
    return;
  put (self, SONDE_HEAP_COLUMN_TIMES, self->n_events - self->n_timed);
  put (self, SONDE_HEAP_COLUMN_TIMES, sonde_number_fold (ticks - self->ticks));
  self->n_timed = self->n_events;
  self->ticks = ticks;
}

/* What each event has: room in a segment, a time, a thread. */
static void
begin_event (SondeHeapLog *self, guint32 thread, gint64 time_ns)
{
  if (self->sizes.n_used >= SONDE_HEAP_LOG_MAX_SIZES
      || self->n_threads >= SONDE_HEAP_LOG_MAX_THREADS)
    sonde_heap_log_restart (self);
  else if (self->n_events >= SONDE_HEAP_LOG_MAX_EVENTS || self->n_bytes >= FULL_BYTES)
    sonde_heap_log_flush (self);
  if (self->n_events == 0)
    {
      self->segment.time_ns = self->tick_ns = time_ns;
      self->segment.n_before = self->last_freed = self->n_blocks;
    }
  if (time_ns < self->tick_ns || time_ns - self->tick_ns >= self->segment.tick_ns)
    switch_tick (self, time_ns);
  if (self->thread != thread + 1)
    switch_thread (self, thread);
  self->n_events++;
}

static uint64_t
age_of (const SondeHeapLog *self, uint64_t number)
{
  g_assert (number >= 1 && number <= self->n_blocks);
  return self->n_blocks - number + 1;
}

void
sonde_heap_log_expect_block (const SondeHeapLog *self, uint32_t node, uint64_t size_bytes)
{
  const SizeSlot key = { size_bytes, node, 0, 0 };
  const LastSize *last = NULL;

  if (node < self->last_sizes->len)
    last = &g_array_index (self->last_sizes, LastSize, node);
  if (self->sizes.n_slots > MANY_SIZES && (last == NULL || last->size_bytes != size_bytes))
    __builtin_prefetch (
        sonde_table_slot (&size_slots, &self->sizes, hash_size (&key, self->sizes.seed)));
}

uint64_t
sonde_heap_log_next_number (const SondeHeapLog *self)
{
  return self->n_blocks + 1;
}

uint64_t
sonde_heap_log_add_block (SondeHeapLog *self,
                          guint32 thread,
                          gint64 time_ns,
                          uint32_t node,
                          uint64_t size_bytes,
                          uint64_t replaced)
{
  uint64_t size;

  begin_event (self, thread, time_ns);
  size = tell_size (self, node, size_bytes);
  if (replaced != 0)
    put_other (self, SONDE_HEAP_LOG_REPLACE, age_of (self, replaced));
  put (self, SONDE_HEAP_COLUMN_EVENTS, size << SONDE_HEAP_LOG_KIND_BITS | SONDE_HEAP_LOG_BLOCK);
  return replaced != 0 ? replaced : ++self->n_blocks;
}

void
sonde_heap_log_add_free (SondeHeapLog *self, guint32 thread, gint64 time_ns, uint64_t number)
{
  uint64_t age = age_of (self, number);

  begin_event (self, thread, time_ns);
  if (age <= SHORT_AGE)
    put (self, SONDE_HEAP_COLUMN_EVENTS, age << SONDE_HEAP_LOG_KIND_BITS | SONDE_HEAP_LOG_FREE);
  else
    {
      put (self, SONDE_HEAP_COLUMN_EVENTS,
           sonde_number_fold (number - self->last_freed) << SONDE_HEAP_LOG_KIND_BITS
               | SONDE_HEAP_LOG_NEAR);
      self->last_freed = number;
    }
}

void
sonde_heap_log_add_other (SondeHeapLog *self, guint32 thread, gint64 time_ns, uint64_t address)
{
  begin_event (self, thread, time_ns);
  put_other (self, SONDE_HEAP_LOG_UNKNOWN, address);
}
