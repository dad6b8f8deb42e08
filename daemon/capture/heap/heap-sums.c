/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/heap-sums.h"

#include <math.h>
#include <string.h>
#include <zstd.h>

#include "daemon/capture/heap/number-table.h"
#include "protocol/number-column.h"

#define FULL_BYTES     (SONDE_HEAP_SUMS_MAX_BYTES / 2) /* a stack adds less than the rest */
#define PACKING_EFFORT 3
#define SAMPLED_SCALE  1024u
#define MAX_ESTIMATE   9.0e18

#define MAX_OVER       (SONDE_HEAP_SUMS_MAX_SUMS / 4) /* that wait for their turn */

/* Sums and blocks are in pieces, so that none moves when there are more. */
#define PIECE_BITS 12u
#define PIECE_SIZE (1u << PIECE_BITS)

typedef struct
{
  uint64_t id;
  uint64_t peak; /* that of which the amount is */
  gint64 first_ns;
  SondeHeapSumsAmount amounts[SONDE_HEAP_SUMS_N_KINDS];
  SondeHeapSumsOwner *owner; /* until it is over */
  uint32_t node;
  int32_t pid;
  uint32_t serial;
  uint32_t number; /* in the epoch, + 1; 0: not told yet */
  uint32_t next;   /* of its owner, or of those that are free; + 1 */
  gboolean is_used : 1;
  gboolean is_changed : 1;
  gboolean is_over : 1;
} Sum;

typedef struct
{
  uint64_t size_bytes;
  uint32_t sum; /* where it is free: the next of these, + 1 */
  int32_t tid;
} Block;

struct SondeHeapSums
{
  const SondeStackTree *tree;
  guint64 interval_bytes;
  SondeHeapLogFunc func;
  gpointer user_data;

  GPtrArray *sums; /* pieces of Sum */
  guint32 n_sums;
  guint32 free_sums;   /* + 1 */
  guint32 n_used;      /* of these */
  guint32 n_over;      /* of these, that are to be told once more */
  SondeTable by_stack; /* serial, node → index of the sum, + 1 */
  uint32_t n_serials;
  uint64_t n_ids;
  guint64 n_cut;
  guint64 n_gone;
  GPtrArray *blocks; /* pieces of Block */
  guint32 n_blocks;
  guint32 free_blocks; /* + 1 */
  SondeHeapSumsOwner nobody;

  SondeHeapSumsSegment header; /* of the next segment, as it is by now */
  guint32 n_events;            /* in it */
  gint64 since_ns;             /* the first of these; G_MAXINT64: there are none */
  gint64 new_ns;               /* the first block of a sum whose stack was not told */
  gint64 round_ns;             /* when sums began to be told last */
  GArray *news;                /* guint32: sums that are new in the epoch, or are free by now */
  GArray *changed;             /* guint32: sums */
  guint n_told;                /* of these, in this round */
  guint n_in_round;

  GByteArray *columns[SONDE_HEAP_SUMS_N_COLUMNS];
  GArray *node_numbers; /* guint32: in the epoch, + 1; by node, as the next by pc */
  GArray *pc_numbers;
  guint32 n_nodes;
  guint32 n_pcs;
  guint32 n_stacks;
  uint64_t last_pc;
  uint64_t last_id;
  uint64_t last_stack;
  guint64 n_frames; /* of the segment's stacks */
  ZSTD_CCtx *packer;
};

SondeHeapSums *
sonde_heap_sums_new (const SondeStackTree *tree,
                     guint64 interval_bytes,
                     SondeHeapLogFunc func,
                     gpointer user_data)
{
  SondeHeapSums *self = g_new0 (SondeHeapSums, 1);

  self->tree = tree;
  self->interval_bytes = interval_bytes;
  self->func = func;
  self->user_data = user_data;
  self->sums = g_ptr_array_new_with_free_func (g_free);
  self->blocks = g_ptr_array_new_with_free_func (g_free);
  self->by_stack.seed = sonde_hash_seed ();
  self->header.version = SONDE_HEAP_SUMS_VERSION;
  self->header.scale = interval_bytes > 0 ? SAMPLED_SCALE : 1;
  self->since_ns = self->new_ns = G_MAXINT64;
  self->news = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->changed = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    self->columns[i] = g_byte_array_new ();
  self->node_numbers = g_array_new (FALSE, TRUE, sizeof (guint32));
  self->pc_numbers = g_array_new (FALSE, TRUE, sizeof (guint32));
  self->packer = ZSTD_createCCtx ();
  return self;
}

void
sonde_heap_sums_free (SondeHeapSums *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->sums);
  g_ptr_array_unref (self->blocks);
  sonde_table_clear (&self->by_stack);
  g_array_unref (self->news);
  g_array_unref (self->changed);
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    g_byte_array_unref (self->columns[i]);
  g_array_unref (self->node_numbers);
  g_array_unref (self->pc_numbers);
  ZSTD_freeCCtx (self->packer);
  g_free (self);
}

/* --- sums --- */

static Sum *
sum_at (const SondeHeapSums *self, guint32 index)
{
  return (Sum *) g_ptr_array_index (self->sums, index >> PIECE_BITS) + index % PIECE_SIZE;
}

static Block *
block_at (const SondeHeapSums *self, guint32 number)
{
  return (Block *) g_ptr_array_index (self->blocks, (number - 1) >> PIECE_BITS)
         + (number - 1) % PIECE_SIZE;
}

static void
add (SondeHeapSumsAmount *sum, const SondeHeapSumsAmount *amount)
{
  sum->bytes += amount->bytes;
  sum->blocks += amount->blocks;
}

static void
subtract (SondeHeapSumsAmount *sum, const SondeHeapSumsAmount *amount)
{
  sum->bytes -= amount->bytes;
  sum->blocks -= amount->blocks;
}

static SondeHeapSumsAmount
live_of (const Sum *sum)
{
  SondeHeapSumsAmount live = sum->amounts[SONDE_HEAP_SUMS_ALLOCATED];

  subtract (&live, &sum->amounts[SONDE_HEAP_SUMS_FREED]);
  subtract (&live, &sum->amounts[SONDE_HEAP_SUMS_UNFOLLOWED]);
  return live;
}

static uint64_t
key_of (uint32_t serial, uint32_t node)
{
  return (uint64_t) serial << 32 | node;
}

static guint32
make_sum (SondeHeapSums *self, SondeHeapSumsOwner *owner, const SondeHeapSumsBlock *block)
{
  guint32 index = self->free_sums;
  SondeNumberSlot slot = { .key = key_of (owner->serial, block->node) };
  Sum *sum;

  if (index > 0)
    self->free_sums = sum_at (self, --index)->next;
  else
    {
      index = self->n_sums++;
      if (index >> PIECE_BITS == self->sums->len)
        g_ptr_array_add (self->sums, g_new0 (Sum, PIECE_SIZE));
    }
  sum = sum_at (self, index);
  *sum = (Sum){ .id = ++self->n_ids,
                .first_ns = block->time_ns,
                .owner = owner,
                .node = block->node,
                .pid = block->pid,
                .serial = owner->serial,
                .next = owner->first,
                .is_used = TRUE };
  owner->first = index + 1;
  self->n_used++;
  slot.number = (uint64_t) index + 1;
  sonde_table_add (&sonde_number_slots, &self->by_stack, &slot);
  g_array_append_val (self->news, index);
  self->new_ns = MIN (self->new_ns, block->time_ns);
  return index;
}

static const SondeNumberSlot *
find_sum (const SondeHeapSums *self, uint32_t serial, uint32_t node)
{
  return sonde_number_table_find (&self->by_stack, key_of (serial, node));
}

/* Where there is no room for a stack it is its caller's that is there; a process without any gets
 * one that has no stack, and those beyond share one. */
static guint32
ensure_sum (SondeHeapSums *self, SondeHeapSumsOwner *owner, const SondeHeapSumsBlock *block)
{
  SondeHeapSumsBlock other = *block;
  const SondeNumberSlot *known;

  if (owner->serial == 0)
    owner->serial = ++self->n_serials;
  known = find_sum (self, owner->serial, block->node);
  if (known == NULL && self->n_used < SONDE_HEAP_SUMS_MAX_SUMS)
    return make_sum (self, owner, block);
  self->n_cut += known == NULL;
  while (known == NULL && other.node != 0)
    {
      other.node = sonde_stack_tree_node (self->tree, other.node)->caller;
      known = find_sum (self, owner->serial, other.node);
    }
  if (known != NULL)
    return (guint32) (known->number - 1);
  if (self->n_used < SONDE_HEAP_SUMS_MAX_SUMS + SONDE_HEAP_SUMS_MAX_OTHERS)
    return make_sum (self, owner, &other);
  other.pid = 0;
  if (self->nobody.first == 0)
    {
      self->nobody.serial = ++self->n_serials;
      return make_sum (self, &self->nobody, &other);
    }
  return self->nobody.first - 1;
}

/* Before it changes. */
static Sum *
touch (SondeHeapSums *self, guint32 index)
{
  Sum *sum = sum_at (self, index);

  if (sum->peak != self->header.peak)
    {
      sum->amounts[SONDE_HEAP_SUMS_PEAK] = live_of (sum);
      sum->peak = self->header.peak;
    }
  if (!sum->is_changed)
    {
      sum->is_changed = TRUE;
      g_array_append_val (self->changed, index);
    }
  return sum;
}

/* What a block stands for: it was sampled with the inverse probability. */
static SondeHeapSumsAmount
weigh (const SondeHeapSums *self, uint64_t size_bytes)
{
  double size = (double) size_bytes;
  double weight;

  if (self->interval_bytes == 0)
    return (SondeHeapSumsAmount){ size_bytes, 1 };
  weight = -1 / expm1 (-size / (double) self->interval_bytes);
  return (SondeHeapSumsAmount){ (uint64_t) MIN (round (size * weight), MAX_ESTIMATE),
                                (uint64_t) MIN (round (weight * SAMPLED_SCALE), MAX_ESTIMATE) };
}

/* --- events --- */

static void
take_event (SondeHeapSums *self, gint64 time_ns)
{
  if (self->n_events == G_MAXUINT32)
    sonde_heap_sums_flush (self, G_MAXINT64);
  self->n_events++;
  self->since_ns = MIN (self->since_ns, time_ns);
  self->header.time_ns = MAX (self->header.time_ns, time_ns);
}

uint32_t
sonde_heap_sums_reserve_block (SondeHeapSums *self)
{
  guint32 number = self->free_blocks;

  if (number > 0)
    {
      self->free_blocks = block_at (self, number)->sum;
      return number;
    }
  if (self->n_blocks == SONDE_HEAP_SUMS_MAX_BLOCKS)
    return 0;
  if (self->n_blocks >> PIECE_BITS == self->blocks->len)
    g_ptr_array_add (self->blocks, g_new0 (Block, PIECE_SIZE));
  return ++self->n_blocks;
}

void
sonde_heap_sums_forget_block (SondeHeapSums *self, uint32_t number)
{
  block_at (self, number)->sum = self->free_blocks;
  self->free_blocks = number;
}

void
sonde_heap_sums_begin_block (SondeHeapSums *self,
                             SondeHeapSumsOwner *owner,
                             uint32_t number,
                             const SondeHeapSumsBlock *block)
{
  SondeHeapSumsSegment *header = &self->header;
  SondeHeapSumsAmount amount = weigh (self, block->size_bytes);
  guint32 index;
  Sum *sum;

  take_event (self, block->time_ns);
  index = ensure_sum (self, owner, block);
  sum = touch (self, index);
  add (&sum->amounts[SONDE_HEAP_SUMS_ALLOCATED], &amount);
  add (&sum->owner->live, &amount);
  add (&header->live, &amount);
  header->n_allocated++;
  if (header->live.bytes > header->at_peak.bytes)
    {
      header->at_peak = header->live;
      header->peak_ns = block->time_ns;
      header->peak++;
    }
  if (header->live.bytes > header->most_bytes)
    {
      header->most_bytes = header->live.bytes;
      header->most_ns = block->time_ns;
    }
  *block_at (self, number) = (Block){ block->size_bytes, index, block->tid };
}

void
sonde_heap_sums_skip_block (SondeHeapSums *self,
                            SondeHeapSumsOwner *owner,
                            uint32_t number,
                            const SondeHeapSumsBlock *block)
{
  SondeHeapSumsAmount amount = weigh (self, block->size_bytes);
  Sum *sum;

  if (number != 0)
    sonde_heap_sums_forget_block (self, number);
  take_event (self, block->time_ns);
  sum = touch (self, ensure_sum (self, owner, block));
  add (&sum->amounts[SONDE_HEAP_SUMS_ALLOCATED], &amount);
  add (&sum->amounts[SONDE_HEAP_SUMS_UNFOLLOWED], &amount);
  self->header.n_allocated++;
}

static Sum *
end_block (SondeHeapSums *self, const Block *block, const SondeHeapSumsAmount *amount)
{
  Sum *sum = touch (self, block->sum);

  add (&sum->amounts[SONDE_HEAP_SUMS_FREED], amount);
  subtract (&sum->owner->live, amount);
  subtract (&self->header.live, amount);
  return sum;
}

void
sonde_heap_sums_free_block (
    SondeHeapSums *self, uint32_t number, gint64 time_ns, int32_t tid, gboolean is_newest)
{
  const Block block = *block_at (self, number);
  SondeHeapSumsAmount amount = weigh (self, block.size_bytes);
  Sum *sum;

  take_event (self, time_ns);
  sum = end_block (self, &block, &amount);
  if (block.tid != tid)
    add (&sum->amounts[SONDE_HEAP_SUMS_CROSS_THREAD], &amount);
  else if (is_newest)
    add (&sum->amounts[SONDE_HEAP_SUMS_TEMPORARY], &amount);
  self->header.n_freed++;
  sonde_heap_sums_forget_block (self, number);
}

void
sonde_heap_sums_replace_block (SondeHeapSums *self, uint32_t number, gint64 time_ns)
{
  const Block block = *block_at (self, number);
  SondeHeapSumsAmount amount = weigh (self, block.size_bytes);

  end_block (self, &block, &amount);
  self->header.n_frees_missing++;
  sonde_heap_sums_forget_block (self, number);
}

void
sonde_heap_sums_free_inherited (SondeHeapSums *self,
                                uint32_t number,
                                gint64 time_ns,
                                SondeHeapSumsAmount *inherited)
{
  SondeHeapSumsAmount amount = weigh (self, block_at (self, number)->size_bytes);

  take_event (self, time_ns);
  self->header.n_inherited_freed++;
  inherited->bytes -= MIN (inherited->bytes, amount.bytes);
  inherited->blocks -= MIN (inherited->blocks, amount.blocks);
}

void
sonde_heap_sums_free_unknown (SondeHeapSums *self, gint64 time_ns)
{
  take_event (self, time_ns);
  self->header.n_unknown_freed++;
}

/* --- owners --- */

/* Only what can change is looked for. */
static void
forget_sum (SondeHeapSums *self, const Sum *sum)
{
  SondeNumberSlot *slot
      = sonde_number_table_find (&self->by_stack, key_of (sum->serial, sum->node));

  if (slot != NULL)
    sonde_table_remove (&sonde_number_slots, &self->by_stack, slot);
}

void
sonde_heap_sums_end_owner (SondeHeapSums *self,
                           SondeHeapSumsOwner *owner,
                           const SondeHeapSumsAmount *inherited)
{
  guint32 at = owner->first;

  while (at > 0)
    {
      Sum *sum = touch (self, at - 1);
      SondeHeapSumsAmount live = live_of (sum);

      at = sum->next;
      sum->is_over = TRUE;
      sum->owner = NULL;
      self->n_over++;
      subtract (&self->header.live, &live);
      add (&self->header.left, &live);
      forget_sum (self, sum);
    }
  add (&self->header.inherited, inherited);
  *owner = (SondeHeapSumsOwner){ 0 };
}

/* Who has no sum of the last number keeps that: programs may map as often as they like, and numbers
 * do not come twice. */
void
sonde_heap_sums_renew_owner (SondeHeapSums *self, SondeHeapSumsOwner *owner)
{
  if (owner->first > 0 && sum_at (self, owner->first - 1)->serial == owner->serial)
    owner->serial = ++self->n_serials;
}

/* --- columns --- */

static void
put (SondeHeapSums *self, SondeHeapSumsColumn which, uint64_t number)
{
  guint8 bytes[SONDE_NUMBER_MAX_BYTES];

  g_byte_array_append (self->columns[which], bytes, (guint) sonde_number_put (bytes, number));
}

static guint32 *
number_at (GArray *numbers, guint32 index)
{
  if (index >= numbers->len)
    g_array_set_size (numbers, index + 1);
  return &g_array_index (numbers, guint32, index);
}

static guint32
tell_pc (SondeHeapSums *self, guint32 index)
{
  guint32 *number = number_at (self->pc_numbers, index);

  if (*number == 0)
    {
      uint64_t pc = g_array_index (self->tree->pcs, uint64_t, index);

      put (self, SONDE_HEAP_SUMS_PCS, sonde_number_fold (pc - self->last_pc));
      self->last_pc = pc;
      *number = ++self->n_pcs;
    }
  return *number - 1;
}

/* Callers first. Returns: the node's number in the epoch; 0: none */
static guint32
tell_node (SondeHeapSums *self, guint32 node)
{
  guint32 path[SONDE_STACK_TREE_MAX_DEPTH];
  guint32 known = 0;
  guint n = 0;

  for (guint32 at = node; at != 0; at = sonde_stack_tree_node (self->tree, at)->caller)
    {
      self->n_frames++;
      if (known == 0 && *number_at (self->node_numbers, at) == 0)
        {
          g_assert (n < G_N_ELEMENTS (path));
          path[n++] = at;
        }
      else if (known == 0)
        known = *number_at (self->node_numbers, at);
    }
  for (; n > 0; n--)
    {
      guint32 pc = tell_pc (self, sonde_stack_tree_node (self->tree, path[n - 1])->pc);

      put (self, SONDE_HEAP_SUMS_NODES, known);
      put (self, SONDE_HEAP_SUMS_NODES, pc);
      known = *number_at (self->node_numbers, path[n - 1]) = ++self->n_nodes;
    }
  return known;
}

static void
tell_stack (SondeHeapSums *self, Sum *sum)
{
  guint32 node = tell_node (self, sum->node);

  put (self, SONDE_HEAP_SUMS_STACKS, sonde_number_fold (sum->id - self->last_id));
  put (self, SONDE_HEAP_SUMS_STACKS, (uint32_t) sum->pid);
  put (self, SONDE_HEAP_SUMS_STACKS, node);
  put (self, SONDE_HEAP_SUMS_STACKS,
       sonde_number_fold ((uint64_t) (sum->first_ns - self->header.time_ns)));
  self->last_id = sum->id;
  sum->number = ++self->n_stacks;
}

static void
tell_values (SondeHeapSums *self, const Sum *sum)
{
  put (self, SONDE_HEAP_SUMS_VALUES,
       sonde_number_fold ((uint64_t) sum->number - 1 - self->last_stack));
  put (self, SONDE_HEAP_SUMS_VALUES, sum->is_over ? SONDE_HEAP_SUMS_IS_OVER : 0);
  put (self, SONDE_HEAP_SUMS_VALUES, sum->peak);
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_KINDS; i++)
    {
      put (self, SONDE_HEAP_SUMS_VALUES, sum->amounts[i].bytes);
      put (self, SONDE_HEAP_SUMS_VALUES, sum->amounts[i].blocks);
    }
  self->last_stack = sum->number - 1;
}

/* --- segments --- */

static gsize
n_bytes (const SondeHeapSums *self)
{
  gsize n = 0;

  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    n += self->columns[i]->len;
  return n;
}

static void
store_amount (SondeHeapSumsAmount *amount)
{
  amount->bytes = GUINT64_TO_LE (amount->bytes);
  amount->blocks = GUINT64_TO_LE (amount->blocks);
}

/* The header as it is in the segment. */
static SondeHeapSumsSegment
make_header (const SondeHeapSums *self)
{
  SondeHeapSumsSegment header = self->header;

  header.version = GUINT32_TO_LE (header.version);
  header.epoch = GUINT32_TO_LE (header.epoch);
  header.sequence = GUINT32_TO_LE (header.sequence);
  header.is_whole = GUINT32_TO_LE (self->changed->len == self->n_told ? 1u : 0u);
  header.scale = GUINT32_TO_LE (header.scale);
  header.time_ns = GINT64_TO_LE (header.time_ns);
  header.n_allocated = GUINT64_TO_LE (header.n_allocated);
  header.n_freed = GUINT64_TO_LE (header.n_freed);
  header.n_inherited_freed = GUINT64_TO_LE (header.n_inherited_freed);
  header.n_unknown_freed = GUINT64_TO_LE (header.n_unknown_freed);
  header.n_frees_missing = GUINT64_TO_LE (header.n_frees_missing);
  header.peak = GUINT64_TO_LE (header.peak);
  header.peak_ns = GINT64_TO_LE (header.peak_ns);
  header.most_ns = GINT64_TO_LE (header.most_ns);
  header.most_bytes = GUINT64_TO_LE (header.most_bytes);
  store_amount (&header.live);
  store_amount (&header.at_peak);
  store_amount (&header.left);
  store_amount (&header.inherited);
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    header.column_bytes[i] = GUINT32_TO_LE ((guint32) self->columns[i]->len);
  return header;
}

/* Label, zstd frame, and what a reader wants beside it for so many bytes and frames of stacks. */
static void
pack (SondeHeapSums *self, const GByteArray *plain)
{
  const gsize wanted_bytes
      = MAX ((plain->len + SONDE_HEAP_SUMS_MAX_DENSITY - 1) / SONDE_HEAP_SUMS_MAX_DENSITY,
             (self->n_frames + SONDE_HEAP_LOG_MAX_MADE - 1) / SONDE_HEAP_LOG_MAX_MADE);
  SondeHeapLabel label = { .magic = GUINT32_TO_LE (SONDE_HEAP_LABEL_MAGIC),
                           .size_bytes = GUINT32_TO_LE (sizeof label - 8),
                           .n_events = GUINT32_TO_LE (self->n_events) };
  SondeHeapFilling filling = { .magic = GUINT32_TO_LE (SONDE_HEAP_FILLING_MAGIC) };
  gsize room_bytes = sizeof label + ZSTD_compressBound (plain->len);
  g_autofree guint8 *packed = g_malloc0 (MAX (room_bytes, wanted_bytes) + sizeof filling);
  gsize packed_bytes = ZSTD_compressCCtx (self->packer, packed + sizeof label, room_bytes,
                                          plain->data, plain->len, PACKING_EFFORT);

  g_assert (!ZSTD_isError (packed_bytes));
  packed_bytes += sizeof label;
  if (packed_bytes < wanted_bytes)
    {
      gsize n = MAX (wanted_bytes - packed_bytes, sizeof filling);

      filling.size_bytes = GUINT32_TO_LE ((guint32) (n - sizeof filling));
      memset (packed + packed_bytes, 0, n);
      memcpy (packed + packed_bytes, &filling, sizeof filling);
      packed_bytes += n;
    }
  label.packed_bytes = GUINT32_TO_LE ((guint32) (packed_bytes - sizeof label));
  memcpy (packed, &label, sizeof label);
  self->func (packed, packed_bytes, self->n_events, self->user_data);
}

static void
end_segment (SondeHeapSums *self)
{
  g_autoptr (GByteArray) plain = g_byte_array_new ();
  const SondeHeapSumsSegment header = make_header (self);

  g_byte_array_append (plain, (const guint8 *) &header, sizeof header);
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    {
      g_byte_array_append (plain, self->columns[i]->data, self->columns[i]->len);
      g_byte_array_set_size (self->columns[i], 0);
    }
  pack (self, plain);
  self->header.sequence++;
  self->header.most_bytes = self->header.live.bytes;
  self->header.most_ns = self->header.time_ns;
  self->n_events = 0;
  self->since_ns = G_MAXINT64;
  self->last_pc = self->last_id = self->last_stack = 0;
  self->n_frames = 0;
}

static void
end_full_segment (SondeHeapSums *self)
{
  if (n_bytes (self) >= FULL_BYTES)
    end_segment (self);
}

static void
tell_news (SondeHeapSums *self)
{
  for (guint i = 0; i < self->news->len; i++)
    {
      Sum *sum = sum_at (self, g_array_index (self->news, guint32, i));

      if (!sum->is_used || sum->number != 0)
        continue;
      tell_stack (self, sum);
      end_full_segment (self);
    }
  g_array_set_size (self->news, 0);
  self->new_ns = G_MAXINT64;
}

static void
free_sum (SondeHeapSums *self, guint32 index)
{
  Sum *sum = sum_at (self, index);

  self->n_used--;
  self->n_over--;
  self->n_gone++;
  *sum = (Sum){ .next = self->free_sums };
  self->free_sums = index + 1;
}

/* Tells @n of those that had changed when the round began, at most. */
static void
tell_changed (SondeHeapSums *self, guint n)
{
  for (; n > 0 && self->n_told < self->n_in_round; n--)
    {
      guint32 index = g_array_index (self->changed, guint32, self->n_told);
      Sum *sum = sum_at (self, index);

      if (sum->number == 0)
        tell_stack (self, sum);
      tell_values (self, sum);
      self->n_told++;
      sum->is_changed = FALSE;
      if (sum->is_over)
        free_sum (self, index);
      end_full_segment (self);
    }
  if (self->n_told < self->n_in_round)
    return;
  g_array_remove_range (self->changed, 0, self->n_told);
  self->n_told = self->n_in_round = 0;
}

void
sonde_heap_sums_define (SondeHeapSums *self)
{
  if (self->news->len == 0)
    return;
  tell_news (self);
  end_segment (self);
}

void
sonde_heap_sums_flush (SondeHeapSums *self, gint64 before_ns)
{
  const gboolean is_all = before_ns == G_MAXINT64;
  gboolean is_due = self->new_ns < before_ns;

  if (self->n_in_round == 0 && self->changed->len > 0
      && (is_all || before_ns - self->round_ns >= SONDE_HEAP_SUMS_INTERVAL_NS
          || self->n_over >= MAX_OVER))
    {
      self->n_in_round = self->changed->len;
      self->round_ns = is_all ? self->header.time_ns : before_ns;
    }
  is_due
      = is_due || self->n_in_round > 0
        || (is_all ? self->n_events > 0 : self->since_ns < before_ns - SONDE_HEAP_SUMS_INTERVAL_NS);
  if (!is_due)
    return;
  if (self->n_stacks > SONDE_HEAP_SUMS_MAX_STACKS / 2)
    sonde_heap_sums_restart (self, 0);
  tell_news (self);
  tell_changed (self, is_all ? G_MAXUINT : SONDE_HEAP_SUMS_N_AT_A_TIME);
  /* What has changed during a round. */
  if (is_all && self->changed->len > 0)
    {
      self->n_in_round = self->changed->len;
      tell_changed (self, G_MAXUINT);
    }
  end_segment (self);
}

void
sonde_heap_sums_restart (SondeHeapSums *self, gint64 now_ns)
{
  if (self->n_events > 0 || self->news->len > 0)
    {
      tell_news (self);
      end_segment (self);
    }
  if (self->header.sequence == 0)
    return;
  self->header.epoch++;
  self->header.sequence = 0;
  g_array_set_size (self->node_numbers, 0);
  g_array_set_size (self->pc_numbers, 0);
  self->n_nodes = self->n_pcs = self->n_stacks = 0;
  for (guint32 i = 0; i < self->n_sums; i++)
    {
      Sum *sum = sum_at (self, i);

      sum->number = 0;
      sum->first_ns = MAX (sum->first_ns, now_ns);
      if (sum->is_used && !sum->is_changed)
        {
          sum->is_changed = TRUE;
          g_array_append_val (self->changed, i);
        }
    }
}

void
sonde_heap_sums_foreach_node (SondeHeapSums *self,
                              uint32_t (*func) (uint32_t node, gpointer user_data),
                              gpointer user_data)
{
  sonde_table_clear (&self->by_stack);
  for (guint32 i = 0; i < self->n_sums; i++)
    {
      Sum *sum = sum_at (self, i);
      SondeNumberSlot slot = { .number = (uint64_t) i + 1 };

      if (!sum->is_used)
        continue;
      sum->node = func (sum->node, user_data);
      slot.key = key_of (sum->serial, sum->node);
      if (!sum->is_over)
        sonde_table_add (&sonde_number_slots, &self->by_stack, &slot);
    }
}

void
sonde_heap_sums_set_tree (SondeHeapSums *self, const SondeStackTree *tree)
{
  self->tree = tree;
}

guint32
sonde_heap_sums_n_untold (const SondeHeapSums *self)
{
  return self->n_events;
}

guint32
sonde_heap_sums_n_used (const SondeHeapSums *self)
{
  return self->n_used;
}

guint64
sonde_heap_sums_n_gone (const SondeHeapSums *self)
{
  return self->n_gone;
}

guint64
sonde_heap_sums_n_cut (const SondeHeapSums *self)
{
  return self->n_cut;
}
