/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/heap-sums.h"

#include "base/hash.h"

typedef struct
{
  uint64_t key;    /* process << 32 | node */
  uint64_t number; /* of the row, + 1 */
} RowSlot;

static uint64_t
hash_row (const void *slot, uint64_t seed)
{
  return sonde_hash (seed, ((const RowSlot *) slot)->key);
}

static bool
is_row (const void *slot, uint64_t hash, const void *key)
{
  return ((const RowSlot *) slot)->key == *(const uint64_t *) key;
}

static const SondeTableKind numbers = { .slot_bytes = sizeof (RowSlot),
                                        .used_at = offsetof (RowSlot, number),
                                        .n_first_slots = 64,
                                        .max_eighths = 6,
                                        .allocate = g_malloc0_n,
                                        .hash = hash_row,
                                        .has_key = is_row };

SondeHeapSums *
sonde_heap_sums_new (guint max_rows)
{
  SondeHeapSums *self = g_new0 (SondeHeapSums, 1);

  self->rows = g_array_new (FALSE, TRUE, sizeof (SondeHeapRow));
  self->changed = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->numbers.seed = sonde_hash_seed ();
  self->max_rows = max_rows;
  return self;
}

void
sonde_heap_sums_free (SondeHeapSums *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->rows);
  g_array_unref (self->changed);
  sonde_table_clear (&self->numbers);
  g_free (self);
}

static SondeHeapRow *
row_at (const SondeHeapSums *self, uint32_t row)
{
  return &g_array_index (self->rows, SondeHeapRow, row);
}

gboolean
sonde_heap_sums_row (SondeHeapSums *self, uint32_t process, uint32_t node, uint32_t *row)
{
  RowSlot slot = { .key = (uint64_t) process << 32 | node };
  const RowSlot *known = sonde_table_find (&numbers, &self->numbers,
                                           sonde_hash (self->numbers.seed, slot.key), &slot.key);

  if (known == NULL && self->rows->len >= self->max_rows)
    return FALSE;
  if (known == NULL)
    {
      SondeHeapRow made = { .process = process, .node = node, .n_peaks = self->n_peaks };

      g_array_append_val (self->rows, made);
      slot.number = self->rows->len;
      sonde_table_add (&numbers, &self->numbers, &slot);
      known = &slot;
    }
  *row = (uint32_t) (known->number - 1);
  return TRUE;
}

/* Before it changes. */
static SondeHeapRow *
touch (SondeHeapSums *self, uint32_t number)
{
  SondeHeapRow *row = row_at (self, number);

  if (row->n_peaks != self->n_peaks)
    {
      row->sums[SONDE_HEAP_SUM_PEAK] = row->sums[SONDE_HEAP_SUM_LIVE];
      row->n_peaks = self->n_peaks;
    }
  if (!row->is_changed)
    {
      row->is_changed = TRUE;
      g_array_append_val (self->changed, number);
    }
  return row;
}

static void
add (SondeHeapSum *sum, uint64_t size_bytes, uint64_t n_blocks)
{
  sum->bytes += size_bytes * n_blocks;
  sum->blocks += n_blocks;
}

/* Sizes are a program's to claim: sums wrap, and what was added is what is taken off. */
static void
subtract (SondeHeapSum *sum, uint64_t size_bytes, uint64_t n_blocks)
{
  sum->bytes -= size_bytes * n_blocks;
  sum->blocks -= n_blocks;
}

void
sonde_heap_sums_begin (
    SondeHeapSums *self, uint32_t row, uint64_t size_bytes, uint64_t n_blocks, int64_t time_ns)
{
  SondeHeapRow *at = touch (self, row);

  add (&at->sums[SONDE_HEAP_SUM_ALLOCATED], size_bytes, n_blocks);
  add (&at->sums[SONDE_HEAP_SUM_LIVE], size_bytes, n_blocks);
  add (&self->live, size_bytes, n_blocks);
  if (self->live.bytes > self->peak.bytes)
    {
      self->peak = self->live;
      self->peak_ns = time_ns;
      self->n_peaks++;
    }
}

void
sonde_heap_sums_count (SondeHeapSums *self, uint32_t row, uint64_t size_bytes, uint64_t n_blocks)
{
  add (&touch (self, row)->sums[SONDE_HEAP_SUM_ALLOCATED], size_bytes, n_blocks);
}

void
sonde_heap_sums_end (
    SondeHeapSums *self, uint32_t row, uint64_t size_bytes, uint64_t n_blocks, unsigned kinds)
{
  SondeHeapRow *at = touch (self, row);

  subtract (&at->sums[SONDE_HEAP_SUM_LIVE], size_bytes, n_blocks);
  subtract (&self->live, size_bytes, n_blocks);
  for (guint kind = SONDE_HEAP_SUM_LEFT; kind < SONDE_HEAP_N_SUMS; kind++)
    if ((kinds & 1u << kind) != 0)
      add (&at->sums[kind], size_bytes, n_blocks);
}

SondeHeapSum
sonde_heap_sums_peak_of (const SondeHeapSums *self, uint32_t row)
{
  const SondeHeapRow *at = row_at (self, row);

  return at->sums[at->n_peaks == self->n_peaks ? SONDE_HEAP_SUM_PEAK : SONDE_HEAP_SUM_LIVE];
}

gboolean
sonde_heap_sums_next_changed (SondeHeapSums *self, uint32_t *row)
{
  guint n = self->changed->len;

  if (n == 0)
    return FALSE;
  *row = g_array_index (self->changed, guint32, n - 1);
  g_array_set_size (self->changed, n - 1);
  row_at (self, *row)->is_changed = FALSE;
  return TRUE;
}
