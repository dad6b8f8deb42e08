/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/heap-sums-reader.h"

#include <string.h>
#include <zstd.h>

#include "client/base/id-map.h"
#include "protocol/number-column.h"

#define MAX_DEPTH 1024
#define MAX_SUMS  (1u << 19)  /* that are kept, of all epochs: 71 MiB */
#define CUT       G_MAXUINT32 /* in place of a sum that has no room */

typedef struct
{
  guint32 caller; /* 0: nobody */
  guint32 pc;
} Node;

struct SondeHeapSumsReader
{
  SondeHeapSumsFuncs funcs;
  gpointer user_data;
  SondeHeapSumsCounts counts;

  SondeHeapLabel label; /* of the segment that comes */
  GByteArray *packed;   /* of it, so far */
  gboolean is_open;     /* more of it is to come */
  guint64 at_bytes;     /* where it begins */
  guint64 n_bytes;      /* so far */
  guint8 *plain;        /* room for the largest; NULL: none came yet */

  gboolean is_synced; /* all of the epoch was read */
  guint32 next;       /* segment of it */
  GArray *pcs;        /* guint64 */
  GArray *nodes;      /* Node */
  GArray *stacks;     /* guint32: sums, or CUT */
  GArray *sums;       /* SondeHeapSum */
  SondeIdMap *ids;    /* → index in sums */
  guint64 n_made;     /* frames of stacks */
  guint64 n_may_be_made;
};

SondeHeapSumsReader *
sonde_heap_sums_reader_new (const SondeHeapSumsFuncs *funcs, gpointer user_data)
{
  SondeHeapSumsReader *self = g_new0 (SondeHeapSumsReader, 1);

  self->funcs = *funcs;
  self->user_data = user_data;
  self->packed = g_byte_array_new ();
  self->pcs = g_array_new (FALSE, FALSE, sizeof (guint64));
  self->nodes = g_array_new (FALSE, FALSE, sizeof (Node));
  self->stacks = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->sums = g_array_new (FALSE, FALSE, sizeof (SondeHeapSum));
  self->ids = sonde_id_map_new ();
  self->n_may_be_made = SONDE_HEAP_LOG_FREE_MADE;
  self->counts.is_complete = TRUE;
  return self;
}

void
sonde_heap_sums_reader_free (SondeHeapSumsReader *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->packed);
  g_free (self->plain);
  g_array_unref (self->pcs);
  g_array_unref (self->nodes);
  g_array_unref (self->stacks);
  g_array_unref (self->sums);
  sonde_id_map_free (self->ids);
  g_free (self);
}

const SondeHeapSumsCounts *
sonde_heap_sums_reader_counts (const SondeHeapSumsReader *self)
{
  return &self->counts;
}

guint32
sonde_heap_sums_reader_n_sums (const SondeHeapSumsReader *self)
{
  return self->sums->len;
}

const SondeHeapSum *
sonde_heap_sums_reader_sum (const SondeHeapSumsReader *self, guint32 sum)
{
  return &g_array_index (self->sums, SondeHeapSum, sum);
}

SondeHeapSumsAmount
sonde_heap_sum_live (const SondeHeapSum *self)
{
  const SondeHeapSumsAmount *freed = &self->amounts[SONDE_HEAP_SUMS_FREED];
  const SondeHeapSumsAmount *unfollowed = &self->amounts[SONDE_HEAP_SUMS_UNFOLLOWED];
  SondeHeapSumsAmount live = self->amounts[SONDE_HEAP_SUMS_ALLOCATED];

  live.bytes -= freed->bytes + unfollowed->bytes;
  live.blocks -= freed->blocks + unfollowed->blocks;
  return live;
}

SondeHeapSumsAmount
sonde_heap_sums_reader_at_peak (const SondeHeapSumsReader *self, const SondeHeapSum *sum)
{
  if (sum->peak == self->counts.header.peak)
    return sum->amounts[SONDE_HEAP_SUMS_PEAK];
  return sum->is_over ? (SondeHeapSumsAmount){ 0, 0 } : sonde_heap_sum_live (sum);
}

static gboolean
is_same (const SondeHeapSumsAmount *one, const SondeHeapSumsAmount *other)
{
  return one->bytes == other->bytes && one->blocks == other->blocks;
}

static void
add (SondeHeapSumsAmount *sum, SondeHeapSumsAmount amount)
{
  sum->bytes += amount.bytes;
  sum->blocks += amount.blocks;
}

const char *
sonde_heap_sums_reader_check (const SondeHeapSumsReader *self)
{
  const SondeHeapSumsSegment *header = &self->counts.header;
  SondeHeapSumsAmount allocated = { 0, 0 }, freed = { 0, 0 }, live = { 0, 0 }, left = { 0, 0 },
                      peak = { 0, 0 };

  if (!self->counts.is_whole)
    return "some changes were never told";
  if (!self->counts.is_complete || self->counts.n_cut > 0)
    return NULL;
  for (guint32 i = 0; i < self->sums->len; i++)
    {
      const SondeHeapSum *sum = sonde_heap_sums_reader_sum (self, i);

      add (&allocated, sum->amounts[SONDE_HEAP_SUMS_ALLOCATED]);
      add (&freed, sum->amounts[SONDE_HEAP_SUMS_FREED]);
      add (sum->is_over ? &left : &live, sonde_heap_sum_live (sum));
      add (&peak, sonde_heap_sums_reader_at_peak (self, sum));
    }
  if (header->scale == 1 && allocated.blocks != header->n_allocated)
    return "stacks have more or fewer blocks than were counted";
  if (header->scale == 1 && freed.blocks != header->n_freed + header->n_frees_missing)
    return "stacks have more or fewer frees than were counted";
  if (!is_same (&live, &header->live))
    return "what stacks have live is not what is live";
  if (!is_same (&left, &header->left))
    return "what stacks of ended processes have left is not what was left";
  if (!is_same (&peak, &header->at_peak))
    return "what stacks had at the peak is not the peak";
  return NULL;
}

/* The rest of the segment, which begins at @at_bytes, and what builds on it. */
static void
give_up (SondeHeapSumsReader *self, guint64 at_bytes, guint64 n_left, const char *fault)
{
  SondeHeapLogCounts *counts = &self->counts.log;

  counts->n_unreadable += n_left;
  if (counts->fault == NULL)
    {
      counts->fault = fault;
      counts->fault_at_bytes = at_bytes;
    }
  self->is_synced = self->counts.is_complete = FALSE;
}

/* --- definitions --- */

static gboolean
read_pcs (SondeHeapSumsReader *self, SondeNumberColumn *column)
{
  guint64 last = 0;
  guint64 number;

  while (!sonde_number_column_is_over (column))
    {
      if (!sonde_number_get (column, &number) || self->pcs->len >= SONDE_HEAP_SUMS_MAX_NODES)
        return FALSE;
      last += sonde_number_unfold (number);
      g_array_append_val (self->pcs, last);
    }
  return TRUE;
}

static gboolean
read_nodes (SondeHeapSumsReader *self, SondeNumberColumn *column)
{
  guint64 caller, pc;

  while (!sonde_number_column_is_over (column))
    {
      Node node;

      if (!sonde_number_get (column, &caller) || !sonde_number_get (column, &pc)
          || caller > self->nodes->len || pc >= self->pcs->len
          || self->nodes->len >= SONDE_HEAP_SUMS_MAX_NODES)
        return FALSE;
      node = (Node){ (guint32) caller, (guint32) pc };
      g_array_append_val (self->nodes, node);
    }
  return TRUE;
}

/* NULL: that would be more than sums may want. */
static SondeHeapLogStack *
make_stack (SondeHeapSumsReader *self, guint32 node)
{
  guint64 addrs[MAX_DEPTH];
  SondeHeapLogStack *stack;
  guint n = 0;

  for (; node != 0 && n < MAX_DEPTH; n++)
    {
      const Node *at = &g_array_index (self->nodes, Node, node - 1);

      addrs[n] = g_array_index (self->pcs, guint64, at->pc);
      node = at->caller;
    }
  if (n > self->n_may_be_made - self->n_made)
    return NULL;
  self->n_made += n;
  stack = g_malloc (sizeof *stack + n * sizeof *addrs);
  *stack = (SondeHeapLogStack){ .n_references = 1, .n_addrs = n };
  memcpy (stack->addrs, addrs, n * sizeof *addrs);
  return stack;
}

/* FALSE: as make_stack(). */
static gboolean
tell_stack (SondeHeapSumsReader *self, guint32 sum, gint32 pid, gint64 time_ns, guint32 node)
{
  SondeHeapLogStack *stack;

  if (self->funcs.stack == NULL)
    return TRUE;
  stack = make_stack (self, node);
  if (stack == NULL)
    return FALSE;
  self->funcs.stack (sum, pid, time_ns, stack, self->user_data);
  sonde_heap_log_stack_unref (stack);
  return TRUE;
}

/* Those of an epoch before keep what they have. */
static gboolean
read_stacks (SondeHeapSumsReader *self, SondeNumberColumn *column, gint64 time_ns)
{
  guint64 id = 0;
  guint64 step, pid, node, since;

  while (!sonde_number_column_is_over (column))
    {
      SondeHeapSum sum = { 0 };
      guint32 index;

      if (!sonde_number_get (column, &step) || !sonde_number_get (column, &pid)
          || !sonde_number_get (column, &node) || !sonde_number_get (column, &since)
          || pid > G_MAXINT32 || node > self->nodes->len
          || self->stacks->len >= SONDE_HEAP_SUMS_MAX_STACKS)
        return FALSE;
      id += sonde_number_unfold (step);
      if (!sonde_id_map_lookup (self->ids, id, &index))
        {
          index = self->sums->len;
          sum.id = id;
          if (index >= MAX_SUMS)
            {
              index = CUT;
              self->counts.n_cut++;
            }
          else
            {
              sonde_id_map_set (self->ids, id, index);
              g_array_append_val (self->sums, sum);
              /* times of foreign captures: any */
              if (!tell_stack (self, index, (gint32) pid,
                               (gint64) ((guint64) time_ns + sonde_number_unfold (since)),
                               (guint32) node))
                return FALSE;
            }
        }
      g_array_append_val (self->stacks, index);
    }
  return TRUE;
}

static gboolean
read_values (SondeHeapSumsReader *self, SondeNumberColumn *column)
{
  guint64 stack = 0;
  guint64 step, flags;

  while (!sonde_number_column_is_over (column))
    {
      SondeHeapSum sum = { 0 };
      guint32 index;

      if (!sonde_number_get (column, &step) || !sonde_number_get (column, &flags)
          || !sonde_number_get (column, &sum.peak))
        return FALSE;
      stack += sonde_number_unfold (step);
      if (stack >= self->stacks->len || (flags & ~(guint64) SONDE_HEAP_SUMS_IS_OVER) != 0)
        return FALSE;
      for (guint i = 0; i < SONDE_HEAP_SUMS_N_KINDS; i++)
        if (!sonde_number_get (column, &sum.amounts[i].bytes)
            || !sonde_number_get (column, &sum.amounts[i].blocks))
          return FALSE;
      index = g_array_index (self->stacks, guint32, stack);
      if (index == CUT)
        continue;
      sum.is_over = (flags & SONDE_HEAP_SUMS_IS_OVER) != 0;
      sum.id = g_array_index (self->sums, SondeHeapSum, index).id;
      g_array_index (self->sums, SondeHeapSum, index) = sum;
    }
  return TRUE;
}

/* --- segments --- */

static void
load_amount (SondeHeapSumsAmount *amount)
{
  amount->bytes = GUINT64_FROM_LE (amount->bytes);
  amount->blocks = GUINT64_FROM_LE (amount->blocks);
}

static void
load_header (SondeHeapSumsSegment *header)
{
  header->version = GUINT32_FROM_LE (header->version);
  header->epoch = GUINT32_FROM_LE (header->epoch);
  header->sequence = GUINT32_FROM_LE (header->sequence);
  header->is_whole = GUINT32_FROM_LE (header->is_whole);
  header->scale = GUINT32_FROM_LE (header->scale);
  header->padding = GUINT32_FROM_LE (header->padding);
  header->time_ns = GINT64_FROM_LE (header->time_ns);
  header->n_allocated = GUINT64_FROM_LE (header->n_allocated);
  header->n_freed = GUINT64_FROM_LE (header->n_freed);
  header->n_inherited_freed = GUINT64_FROM_LE (header->n_inherited_freed);
  header->n_unknown_freed = GUINT64_FROM_LE (header->n_unknown_freed);
  header->n_frees_missing = GUINT64_FROM_LE (header->n_frees_missing);
  header->peak = GUINT64_FROM_LE (header->peak);
  header->peak_ns = GINT64_FROM_LE (header->peak_ns);
  header->most_ns = GINT64_FROM_LE (header->most_ns);
  header->most_bytes = GUINT64_FROM_LE (header->most_bytes);
  load_amount (&header->live);
  load_amount (&header->at_peak);
  load_amount (&header->left);
  load_amount (&header->inherited);
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    header->column_bytes[i] = GUINT32_FROM_LE (header->column_bytes[i]);
}

static guint64
n_events (const SondeHeapSumsSegment *header)
{
  return header->n_allocated + header->n_freed + header->n_inherited_freed
         + header->n_unknown_freed;
}

/* Whether the epoch goes on with it, or begins. */
static gboolean
follows (SondeHeapSumsReader *self, const SondeHeapSumsSegment *header)
{
  if (header->sequence == 0)
    {
      g_array_set_size (self->pcs, 0);
      g_array_set_size (self->nodes, 0);
      g_array_set_size (self->stacks, 0);
      self->next = 0;
      self->is_synced = TRUE;
    }
  else if (!self->is_synced || header->epoch != self->counts.header.epoch
           || header->sequence != self->next)
    return FALSE;
  self->next++;
  return TRUE;
}

/* Before anything is taken of it. Returns: NULL, or what is wrong */
static const char *
count_events (SondeHeapSumsReader *self, const SondeHeapSumsSegment *header)
{
  SondeHeapSumsCounts *counts = &self->counts;
  guint64 n_new = self->label.n_events;
  guint64 n_all = n_events (header);

  if (n_all < n_new)
    return "it counts fewer events than it says";
  if (counts->log.n_segments == 0)
    {
      counts->n_before = n_all - n_new;
      counts->is_complete = counts->n_before == 0 && header->epoch == 0;
    }
  else if (counts->is_complete && n_all - n_new != n_events (&counts->header))
    return "it counts more or fewer events than it says";
  return NULL;
}

/* Returns: NULL, or what is wrong */
static const char *
read_segment (SondeHeapSumsReader *self, const guint8 *bytes, gsize size_bytes)
{
  SondeNumberColumn columns[SONDE_HEAP_SUMS_N_COLUMNS];
  SondeHeapSumsSegment header;
  const guint8 *at = bytes + sizeof header;
  gsize left = size_bytes - sizeof header;
  const char *fault;

  if (size_bytes < sizeof header)
    return "it is too short";
  memcpy (&header, bytes, sizeof header);
  load_header (&header);
  if (header.version != SONDE_HEAP_SUMS_VERSION)
    return "it has another version";
  if (header.is_whole > 1 || header.padding != 0 || header.scale == 0
      || header.scale > SONDE_HEAP_SUMS_MAX_SCALE)
    return "its header is wrong";
  for (guint i = 0; i < SONDE_HEAP_SUMS_N_COLUMNS; i++)
    {
      if (header.column_bytes[i] > left)
        return "a column reaches past its end";
      columns[i] = (SondeNumberColumn){ at, at + header.column_bytes[i] };
      at += header.column_bytes[i];
      left -= header.column_bytes[i];
    }
  if (left > 0)
    return "something is behind its columns";
  if (!follows (self, &header))
    return "one before it is missing";
  fault = count_events (self, &header);
  if (fault != NULL)
    return fault;
  if (self->funcs.next != NULL)
    self->funcs.next (&header, self->user_data);
  self->counts.header = header;
  if (!read_pcs (self, &columns[SONDE_HEAP_SUMS_PCS])
      || !read_nodes (self, &columns[SONDE_HEAP_SUMS_NODES]))
    return "an address or a node is wrong";
  if (!read_stacks (self, &columns[SONDE_HEAP_SUMS_STACKS], header.time_ns))
    return "a stack is wrong, or its frames are more than it has bytes for";
  if (!read_values (self, &columns[SONDE_HEAP_SUMS_VALUES]))
    return "a stack's sums are wrong";
  self->counts.is_whole = header.is_whole != 0;
  return NULL;
}

static void
unpack (SondeHeapSumsReader *self)
{
  unsigned long long plain_bytes = ZSTD_getFrameContentSize (self->packed->data, self->packed->len);
  guint64 n = sizeof self->label + self->packed->len;
  const char *fault = "it cannot be unpacked";

  self->n_may_be_made += n * SONDE_HEAP_LOG_MAX_MADE;
  /* An error is more than the largest. */
  if (plain_bytes <= SONDE_HEAP_SUMS_MAX_BYTES && plain_bytes > n * SONDE_HEAP_SUMS_MAX_DENSITY)
    fault = "it is more than it has bytes for";
  else if (plain_bytes <= SONDE_HEAP_SUMS_MAX_BYTES)
    {
      if (self->plain == NULL)
        self->plain = g_malloc (SONDE_HEAP_SUMS_MAX_BYTES);
      if (ZSTD_decompress (self->plain, plain_bytes, self->packed->data, self->packed->len)
          == plain_bytes)
        fault = read_segment (self, self->plain, plain_bytes);
    }
  self->counts.log.n_segments++;
  if (fault != NULL)
    give_up (self, self->at_bytes, self->label.n_events, fault);
  else
    self->counts.log.n_told += self->label.n_events;
  g_byte_array_set_size (self->packed, 0);
  self->is_open = FALSE;
}

/* FALSE: none begins there. */
static gboolean
begin_segment (SondeHeapSumsReader *self, const guint8 *bytes, gsize size_bytes)
{
  SondeHeapLabel label;

  if (size_bytes < sizeof label)
    return FALSE;
  memcpy (&label, bytes, sizeof label);
  label.n_events = GUINT32_FROM_LE (label.n_events);
  label.packed_bytes = GUINT32_FROM_LE (label.packed_bytes);
  if (GUINT32_FROM_LE (label.magic) != SONDE_HEAP_LABEL_MAGIC
      || GUINT32_FROM_LE (label.size_bytes) != sizeof label - 8
      || label.packed_bytes > SONDE_HEAP_SUMS_MAX_PACKED)
    return FALSE;
  if (self->is_open)
    give_up (self, self->at_bytes, self->label.n_events, "a part of it is missing");
  g_byte_array_set_size (self->packed, 0);
  self->counts.log.n_events += label.n_events;
  self->label = label;
  self->at_bytes = self->n_bytes;
  self->is_open = TRUE;
  return TRUE;
}

void
sonde_heap_sums_reader_add (SondeHeapSumsReader *self, const SondeFrame *frame)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;
  const guint8 *bytes = chunk->data;
  guint64 at_bytes = self->n_bytes;
  gsize size_bytes;

  if (!sonde_heap_sums_is_chunk (frame))
    return;
  size_bytes = chunk->data_len;
  if (begin_segment (self, bytes, size_bytes))
    {
      bytes += sizeof self->label;
      size_bytes -= sizeof self->label;
    }
  self->n_bytes += chunk->data_len;
  if (!self->is_open)
    {
      give_up (self, at_bytes, 0, "its beginning is missing");
      return;
    }
  if (size_bytes > self->label.packed_bytes - self->packed->len)
    {
      give_up (self, self->at_bytes, self->label.n_events, "it is longer than it says");
      self->is_open = FALSE;
      return;
    }
  g_byte_array_append (self->packed, bytes, (guint) size_bytes);
  if (self->packed->len == self->label.packed_bytes)
    unpack (self);
}
