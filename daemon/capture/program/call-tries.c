/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/call-tries.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/hash.h"
#include "base/table.h"
#include "protocol/number-column.h"
#include "shared-ring/ring-atomic.h"
#include "shared-ring/trie-reader.h"

#define PACKING_EFFORT 1
#define FULL_BYTES     (SONDE_CALLS_MAX_BYTES / 2) /* of a segment, when it is ended */

/* Of a region: what is less is of no use, and of more than that it might have more paths than an
 * epoch. */
#define MIN_REGION_BYTES (256u * 1024)
#define MAX_REGION_BYTES (16u * 1024 * 1024)

/* Nodes that are looked at before it is asked how long that took, and how long it may. */
#define NODES_A_LOOK 4096
#define BUDGET_US    5000

/* Between two segments of a region: soon at first, then as seldom as sums of heap events. */
#define FIRST_WAIT_NS G_GINT64_CONSTANT (1000000000)
#define LAST_WAIT_NS  (8 * FIRST_WAIT_NS)

#define CLOCK_TRIES   5

/* Of a function below a path; @path is never 0. */
typedef struct
{
  uint64_t function;
  guint32 parent;
  guint32 path;
} PathSlot;

G_STATIC_ASSERT (G_STRUCT_OFFSET (PathSlot, path) == G_STRUCT_OFFSET (PathSlot, parent) + 4);

typedef struct
{
  guint32 parent;
  uint64_t function;
} Path;

typedef struct
{
  guint32 number; /* from 1 */
  SondeInferior *inferior;
  SondeTrieMemory memory;
  SondeTrieReader *reader;
  gint64 begin_ns;
  gint64 next_ns; /* when it is read again; or at once, if the last turn had no time for all */
  gint64 wait_ns;
  gboolean is_passing;
  SondeCallsState state;

  SondeTable known; /* PathSlot */
  GArray *paths;    /* Path, of number 1 first */
  GArray *of_nodes; /* guint32, by number: paths; 0: not known yet */

  guint32 epoch;
  guint32 sequence;
  guint32 n_told; /* paths of this epoch */
  GByteArray *columns[SONDE_CALLS_N_COLUMNS];
  uint64_t last_function; /* of the segment that is written, as the next two */
  guint32 last_counted;
  guint32 last_timed;
} Region;

struct SondeCallTries
{
  SondeRecorder *recorder;
  SondeTrieWish wish;
  gsize memory_bytes; /* for all */
  gsize used_bytes;
  GPtrArray *regions; /* Region */
  guint n_made;
  guint first; /* of the next turn */
  gboolean is_paused;
  ZSTD_CCtx *packer;
  guint64 n_missed; /* frames, by readers, when all was told anew for that ... */
  gint64 told_ns;   /* ... and when that was */

  gint64 clock_ns; /* one moment by both clocks */
  uint64_t clock_ticks;
};

/* --- the clock --- */

static uint64_t
read_counter (void)
{
#if defined(__x86_64__)
  return __rdtsc ();
#elif defined(__aarch64__)
  uint64_t ticks;

  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

/* The same moment by both clocks, as of the try that was disturbed least. */
static void
read_clocks (gint64 *ns, uint64_t *ticks)
{
  uint64_t least = G_MAXUINT64;

  for (guint i = 0; i < CLOCK_TRIES; i++)
    {
      uint64_t before = read_counter ();
      gint64 now = sonde_stream_now_ns ();
      uint64_t after = read_counter ();

      if (after - before >= least)
        continue;
      least = after - before;
      *ns = now;
      *ticks = before + (after - before) / 2;
    }
}

/* Of the program's clock: a machine has one counter, which all processes read alike. */
static uint64_t
ticks_per_s (const SondeCallTries *self, const Region *region)
{
  gint64 now_ns = 0;
  uint64_t now_ticks = 0;

  if (sonde_ring_load_relaxed (&region->memory.header->clock) != SONDE_TRIE_COUNTER)
    return 1000000000;
  read_clocks (&now_ns, &now_ticks);
  if (now_ns <= self->clock_ns || now_ticks <= self->clock_ticks)
    return 1000000000;
  return (uint64_t) ((double) (now_ticks - self->clock_ticks) * 1e9
                     / (double) (now_ns - self->clock_ns));
}

/* --- segments --- */

static void
put (Region *region, SondeCallsColumn column, uint64_t number)
{
  guint8 bytes[SONDE_NUMBER_MAX_BYTES];

  g_byte_array_append (region->columns[column], bytes, (guint) sonde_number_put (bytes, number));
}

static void
put_path (Region *region, guint32 number)
{
  const Path *path = &g_array_index (region->paths, Path, number - 1);

  put (region, SONDE_CALLS_PATHS, path->parent);
  put (region, SONDE_CALLS_PATHS, sonde_number_fold (path->function - region->last_function));
  region->last_function = path->function;
}

static void
put_times (Region *region, guint32 path, const SondeTrieTimes *times)
{
  guint n_buckets = 0;
  guint last = 0;

  G_STATIC_ASSERT (SONDE_TRIE_ALL_BUCKETS == SONDE_CALLS_N_BUCKETS);
  put (region, SONDE_CALLS_TIMES,
       sonde_number_fold ((uint64_t) path - (uint64_t) region->last_timed));
  region->last_timed = path;
  put (region, SONDE_CALLS_TIMES, times->timed);
  put (region, SONDE_CALLS_TIMES, times->total_ticks);
  put (region, SONDE_CALLS_TIMES, times->self_ticks);
  put (region, SONDE_CALLS_TIMES, times->nested);
  put (region, SONDE_CALLS_TIMES, times->min_ticks);
  put (region, SONDE_CALLS_TIMES, times->max_ticks);
  for (guint i = 0; i < SONDE_TRIE_ALL_BUCKETS; i++)
    n_buckets += times->buckets[i] > 0;
  put (region, SONDE_CALLS_TIMES, n_buckets);
  for (guint i = 0; i < SONDE_TRIE_ALL_BUCKETS; i++)
    if (times->buckets[i] > 0)
      {
        put (region, SONDE_CALLS_TIMES, i - last);
        put (region, SONDE_CALLS_TIMES, times->buckets[i]);
        last = i;
      }
}

static gsize
n_bytes (const Region *region)
{
  gsize n = 0;

  for (guint i = 0; i < SONDE_CALLS_N_COLUMNS; i++)
    n += region->columns[i]->len;
  return n;
}

/* What cannot be is found with the next turn. */
static void
fill_accounts (Region *region, uint64_t accounts[SONDE_CALLS_N_ACCOUNTS])
{
  SondeTrieCounts counts = { 0 };

  if (sonde_trie_reader_count (region->reader, &counts) < 0)
    return;
  accounts[SONDE_CALLS_ENTERED] = counts.calls;
  accounts[SONDE_CALLS_COUNTED] = counts.counted;
  accounts[SONDE_CALLS_LOST_BUDGET] = counts.lost_budget;
  accounts[SONDE_CALLS_LOST_DEPTH] = counts.lost_depth;
  accounts[SONDE_CALLS_LOST_INTERRUPTED] = counts.lost_interrupted;
  accounts[SONDE_CALLS_LOST_THREADS] = counts.lost_threads;
  accounts[SONDE_CALLS_LOST_TIMINGS] = counts.lost_timings;
  accounts[SONDE_CALLS_RESYNCED] = counts.resynced;
  accounts[SONDE_CALLS_UNMATCHED] = counts.unmatched;
  accounts[SONDE_CALLS_HOOK_TICKS] = counts.hook_ticks;
  accounts[SONDE_CALLS_N_HOOKS] = counts.n_hooks;
  accounts[SONDE_CALLS_N_THREADS] = counts.n_threads;
}

static void
send_segment (SondeCallTries *self, const GByteArray *plain)
{
  const SondeHeapLabel empty = { .magic = GUINT32_TO_LE (SONDE_HEAP_LABEL_MAGIC),
                                 .size_bytes = GUINT32_TO_LE (sizeof empty - 8) };
  const gsize wanted_bytes = (plain->len + SONDE_CALLS_MAX_DENSITY - 1) / SONDE_CALLS_MAX_DENSITY;
  SondeHeapFilling filling = { .magic = GUINT32_TO_LE (SONDE_HEAP_FILLING_MAGIC) };
  SondeHeapLabel label = empty;
  gsize room_bytes = sizeof label + ZSTD_compressBound (plain->len);
  g_autofree guint8 *packed = g_malloc0 (MAX (room_bytes, wanted_bytes) + sizeof filling);
  gsize packed_bytes
      = ZSTD_compressCCtx (self->packer, packed + sizeof label, room_bytes - sizeof label,
                           plain->data, plain->len, PACKING_EFFORT);

  g_assert (!ZSTD_isError (packed_bytes));
  packed_bytes += sizeof label;
  if (packed_bytes < wanted_bytes)
    {
      gsize n = MAX (wanted_bytes - packed_bytes, sizeof filling);

      filling.size_bytes = GUINT32_TO_LE ((guint32) (n - sizeof filling));
      memcpy (packed + packed_bytes, &filling, sizeof filling);
      packed_bytes += n;
    }
  label.packed_bytes = GUINT32_TO_LE ((guint32) (packed_bytes - sizeof label));
  memcpy (packed, &label, sizeof label);
  sonde_recorder_segment (self->recorder, SONDE_CALLS_PATH, packed, packed_bytes, 0);
}

static void
end_segment (SondeCallTries *self, Region *region)
{
  g_autoptr (GByteArray) plain = g_byte_array_new ();
  SondeCallsSegment header = {
    .version = GUINT32_TO_LE (SONDE_CALLS_VERSION),
    .pid = GINT32_TO_LE (region->inferior->pid),
    .region = GUINT32_TO_LE (region->number),
    .epoch = GUINT32_TO_LE (region->epoch),
    .sequence = GUINT32_TO_LE (region->sequence),
    .mode = GUINT32_TO_LE ((guint32) self->wish.mode),
    .sample_every = GUINT32_TO_LE (self->wish.sample_every),
    .state = GUINT32_TO_LE ((guint32) region->state),
    .begin_ns = GINT64_TO_LE (region->begin_ns),
    .time_ns = GINT64_TO_LE (sonde_stream_now_ns ()),
    .ticks_per_s = GUINT64_TO_LE (ticks_per_s (self, region)),
  };

  fill_accounts (region, header.accounts);
  for (guint i = 0; i < SONDE_CALLS_N_ACCOUNTS; i++)
    header.accounts[i] = GUINT64_TO_LE (header.accounts[i]);
  for (guint i = 0; i < SONDE_CALLS_N_COLUMNS; i++)
    header.column_bytes[i] = GUINT32_TO_LE ((guint32) region->columns[i]->len);
  g_byte_array_append (plain, (const guint8 *) &header, sizeof header);
  for (guint i = 0; i < SONDE_CALLS_N_COLUMNS; i++)
    {
      g_byte_array_append (plain, region->columns[i]->data, region->columns[i]->len);
      g_byte_array_set_size (region->columns[i], 0);
    }
  send_segment (self, plain);
  region->sequence++;
  region->last_function = 0;
  region->last_counted = region->last_timed = 0;
}

/* --- regions --- */

static uint64_t
hash_path (const void *slot, uint64_t seed)
{
  const PathSlot *path = slot;

  return sonde_hash (sonde_hash (seed, path->function), path->parent);
}

static bool
has_path (const void *slot, uint64_t hash, const void *key)
{
  const PathSlot *path = slot;
  const PathSlot *wanted = key;

  return path->function == wanted->function && path->parent == wanted->parent;
}

static const SondeTableKind path_slots = { .slot_bytes = sizeof (PathSlot),
                                           .used_at = G_STRUCT_OFFSET (PathSlot, parent),
                                           .n_first_slots = 64,
                                           .max_eighths = 5,
                                           .allocate = (void *(*) (size_t, size_t)) g_malloc0_n,
                                           .hash = hash_path,
                                           .has_key = has_path };

static void
region_free (gpointer data)
{
  Region *region = data;

  sonde_trie_reader_free (region->reader);
  sonde_trie_memory_unmap (&region->memory);
  sonde_table_clear (&region->known);
  g_array_unref (region->paths);
  g_array_unref (region->of_nodes);
  for (guint i = 0; i < SONDE_CALLS_N_COLUMNS; i++)
    g_byte_array_unref (region->columns[i]);
  g_free (region);
}

static void
write_wish (SondeCallTries *self, Region *region, gboolean is_on)
{
  SondeTrieWish wish = self->wish;

  if (!is_on)
    wish.mode = SONDE_TRIE_OFF;
  sonde_trie_memory_wish (&region->memory, &wish);
}

/* What of its memory a process gets: a part of what is left. 0: too little */
static gsize
fit (const SondeCallTries *self)
{
  gsize left_bytes = self->memory_bytes - self->used_bytes;
  gsize size_bytes = MAX_REGION_BYTES;

  while (size_bytes > MIN_REGION_BYTES && size_bytes > left_bytes / SONDE_CALL_TRIES_PART)
    size_bytes /= 2;
  return size_bytes <= left_bytes && self->regions->len < SONDE_CALL_TRIES_MAX ? size_bytes : 0;
}

static Region *
find_region (const SondeCallTries *self, const SondeInferior *inferior, guint *index)
{
  for (guint i = 0; i < self->regions->len; i++)
    {
      Region *region = g_ptr_array_index (self->regions, i);

      if (region->inferior != inferior)
        continue;
      *index = i;
      return region;
    }
  return NULL;
}

int
sonde_call_tries_add (SondeCallTries *self, SondeInferior *inferior)
{
  gsize size_bytes = fit (self);
  SondeTrieMemory memory;
  SondeTrieReader *reader;
  Region *region;
  guint index;
  int fd;
  int r;

  if (find_region (self, inferior, &index) != NULL)
    return -EALREADY;
  if (size_bytes == 0)
    return -EDQUOT;
  r = sonde_trie_memory_create (size_bytes, &self->wish, &memory, &fd);
  if (r < 0)
    return r;
  r = sonde_trie_reader_new (&memory, &reader);
  if (r < 0)
    {
      sonde_trie_memory_unmap (&memory);
      close (fd);
      return r;
    }
  region = g_new0 (Region, 1);
  region->number = ++self->n_made;
  region->inferior = inferior;
  region->memory = memory;
  region->reader = reader;
  region->begin_ns = sonde_stream_now_ns ();
  region->wait_ns = FIRST_WAIT_NS;
  region->next_ns = region->begin_ns + region->wait_ns;
  region->known.seed = sonde_hash_seed ();
  region->paths = g_array_new (FALSE, FALSE, sizeof (Path));
  region->of_nodes = g_array_new (FALSE, TRUE, sizeof (guint32));
  for (guint i = 0; i < SONDE_CALLS_N_COLUMNS; i++)
    region->columns[i] = g_byte_array_new ();
  if (self->is_paused)
    write_wish (self, region, FALSE);
  g_ptr_array_add (self->regions, region);
  self->used_bytes += memory.geometry.size_bytes;
  inferior->n_rings++;
  return fd;
}

static void
close_region (SondeCallTries *self, guint index)
{
  Region *region = g_ptr_array_index (self->regions, index);

  region->inferior->n_rings--;
  self->used_bytes -= region->memory.geometry.size_bytes;
  g_ptr_array_remove_index (self->regions, index);
}

void
sonde_call_tries_withdraw (SondeCallTries *self, const SondeInferior *inferior)
{
  guint index;

  if (find_region (self, inferior, &index) != NULL)
    close_region (self, index);
}

/* --- what is in them --- */

typedef struct
{
  SondeCallTries *self;
  Region *region;
} Reading;

/* That of the node, which is made if it is new. */
static guint32
path_of (Region *region, const SondeTrieChange *change)
{
  PathSlot wanted = { .function = change->function };
  const PathSlot *known;
  uint64_t hash;
  guint32 path;

  if (change->node < region->of_nodes->len)
    {
      path = g_array_index (region->of_nodes, guint32, change->node);
      if (path != 0)
        return path;
    }
  else
    g_array_set_size (region->of_nodes, change->node + 1);
  /* The reader has told of a parent before. */
  if (change->parent != 0)
    wanted.parent = g_array_index (region->of_nodes, guint32, change->parent);
  hash = hash_path (&wanted, region->known.seed);
  known = sonde_table_find (&path_slots, &region->known, hash, &wanted);
  if (known != NULL)
    path = known->path;
  else
    {
      const Path made = { wanted.parent, change->function };

      g_array_append_val (region->paths, made);
      path = wanted.path = region->paths->len;
      sonde_table_add (&path_slots, &region->known, &wanted);
      if (change->parent != 0)
        sonde_inferior_note_address (region->inferior, change->function, FALSE);
    }
  g_array_index (region->of_nodes, guint32, change->node) = path;
  return path;
}

static void
take_change (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  Reading *reading = user_data;
  Region *region = reading->region;
  guint32 path = path_of (region, change);

  while (region->n_told < region->paths->len)
    put_path (region, ++region->n_told);
  if (change->calls > 0)
    {
      put (region, SONDE_CALLS_COUNTS,
           sonde_number_fold ((uint64_t) path - (uint64_t) region->last_counted));
      put (region, SONDE_CALLS_COUNTS, change->calls);
      region->last_counted = path;
    }
  if (change->is_timed)
    put_times (region, path, times);
  if (n_bytes (region) >= FULL_BYTES)
    end_segment (reading->self, region);
}

static void
fail_region (SondeCallTries *self, Region *region)
{
  g_autofree char *text = g_strdup_printf (
      "Calls of process %d are not recorded any more: what it says of them cannot be (%s)",
      region->inferior->pid, sonde_trie_fault_to_string (sonde_trie_reader_fault (region->reader)));

  region->state = SONDE_CALLS_FAULTY;
  write_wish (self, region, FALSE);
  sonde_recorder_warn (self->recorder, text);
}

/* Goes on where it stopped. @until_us: by the monotonic clock. FALSE: there was no time for all */
static gboolean
read_region (SondeCallTries *self, Region *region, gint64 until_us)
{
  Reading reading = { self, region };
  int r = 1;

  while (r == 1 && region->state != SONDE_CALLS_FAULTY)
    {
      r = sonde_trie_reader_turn (region->reader, NODES_A_LOOK, take_change, &reading);
      if (r == 1 && g_get_monotonic_time () >= until_us)
        return FALSE;
    }
  if (r < 0 && region->state != SONDE_CALLS_FAULTY)
    fail_region (self, region);
  return TRUE;
}

void
sonde_call_tries_restart (SondeCallTries *self)
{
  for (guint i = 0; i < self->regions->len; i++)
    {
      Reading reading = { self, g_ptr_array_index (self->regions, i) };
      Region *region = reading.region;

      if (n_bytes (region) > 0)
        end_segment (self, region);
      if (region->sequence == 0)
        continue; /* nobody was told anything */
      region->epoch++;
      region->sequence = 0;
      region->n_told = 0;
      sonde_trie_reader_tell_all (region->reader, take_change, &reading);
      end_segment (self, region);
    }
}

void
sonde_call_tries_turn (SondeCallTries *self)
{
  gint64 now_ns = sonde_stream_now_ns ();
  gint64 until_us = g_get_monotonic_time () + BUDGET_US;
  guint64 n_missed = sonde_recorder_n_missed (self->recorder);
  guint n = self->regions->len;

  if (n_missed != self->n_missed && now_ns - self->told_ns >= LAST_WAIT_NS)
    {
      self->n_missed = n_missed;
      self->told_ns = now_ns;
      sonde_call_tries_restart (self);
    }
  for (guint i = 0; i < n; i++)
    {
      Region *region = g_ptr_array_index (self->regions, (self->first + i) % n);

      if (region->state == SONDE_CALLS_FAULTY || (!region->is_passing && now_ns < region->next_ns))
        continue;
      region->is_passing = !read_region (self, region, until_us);
      if (region->is_passing)
        {
          self->first = (self->first + i) % n;
          return;
        }
      if (n_bytes (region) > 0 || region->state == SONDE_CALLS_FAULTY)
        end_segment (self, region);
      region->wait_ns = MIN (2 * region->wait_ns, LAST_WAIT_NS);
      region->next_ns = now_ns + region->wait_ns;
    }
}

void
sonde_call_tries_pause (SondeCallTries *self, gboolean is_paused)
{
  self->is_paused = is_paused;
  for (guint i = 0; i < self->regions->len; i++)
    write_wish (self, g_ptr_array_index (self->regions, i), !is_paused);
}

/* --- ends --- */

/* Where its threads are, or were when it was killed. */
static void
put_words (Region *region)
{
  g_autofree guint32 *nodes = g_new (guint32, SONDE_TRIE_MAX_DEPTH);
  SondeTrieCounts counts = { 0 };

  if (sonde_trie_reader_count (region->reader, &counts) < 0)
    return;
  for (guint32 slot = 0; slot < counts.n_slots; slot++)
    {
      int32_t tid = 0;
      gsize n
          = sonde_trie_reader_last_words (region->reader, slot, nodes, SONDE_TRIE_MAX_DEPTH, &tid);

      for (gsize i = 0; i < n; i++)
        if (nodes[i] != 0 && nodes[i] < region->of_nodes->len
            && g_array_index (region->of_nodes, guint32, nodes[i]) != 0)
          {
            put (region, SONDE_CALLS_WORDS, (guint32) tid);
            put (region, SONDE_CALLS_WORDS, g_array_index (region->of_nodes, guint32, nodes[i]));
            break;
          }
    }
}

/* Two passes: the first may have begun before the last call. */
static void
end_region (SondeCallTries *self, guint index)
{
  Region *region = g_ptr_array_index (self->regions, index);

  write_wish (self, region, FALSE);
  if (region->state != SONDE_CALLS_FAULTY)
    {
      read_region (self, region, G_MAXINT64);
      read_region (self, region, G_MAXINT64);
    }
  if (region->state != SONDE_CALLS_FAULTY)
    {
      region->state = SONDE_CALLS_OVER;
      put_words (region);
      end_segment (self, region);
    }
  close_region (self, index);
}

void
sonde_call_tries_end_process (SondeCallTries *self, int32_t pid, gint64 time_ns)
{
  for (guint i = self->regions->len; i > 0; i--)
    {
      const Region *region = g_ptr_array_index (self->regions, i - 1);

      if (region->inferior->pid == pid && region->begin_ns < time_ns)
        end_region (self, i - 1);
    }
}

void
sonde_call_tries_end (SondeCallTries *self)
{
  while (self->regions->len > 0)
    end_region (self, self->regions->len - 1);
}

/* --- life --- */

SondeCallTries *
sonde_call_tries_new (SondeRecorder *recorder, const SondeAsked *asked)
{
  SondeCallTries *self = g_new0 (SondeCallTries, 1);

  self->recorder = recorder;
  self->wish = SONDE_TRIE_USUAL_WISH;
  self->wish.mode = (SondeTrieMode) asked->trace;
  self->wish.max_depth = asked->trace_depth;
  self->memory_bytes = asked->trace_memory_bytes;
  self->regions = g_ptr_array_new_with_free_func (region_free);
  self->packer = ZSTD_createCCtx ();
  read_clocks (&self->clock_ns, &self->clock_ticks);
  return self;
}

void
sonde_call_tries_free (SondeCallTries *self)
{
  if (self == NULL)
    return;
  while (self->regions->len > 0)
    close_region (self, self->regions->len - 1);
  g_ptr_array_unref (self->regions);
  ZSTD_freeCCtx (self->packer);
  g_free (self);
}
