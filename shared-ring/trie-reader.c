/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/trie-reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared-ring/ring-atomic.h"

typedef struct
{
  uint64_t function;
  uint64_t calls;
  uint32_t parent;
  uint32_t timing; /* a line; 0: none yet */
} Node;

typedef struct
{
  uint64_t timed;
  uint64_t total_ticks;
  uint64_t self_ticks;
  uint64_t nested;
  uint64_t min_ticks;
  uint64_t max_ticks;
  uint64_t in_buckets; /* of @timed: a call's bucket is written behind it */
  uint32_t owner;      /* a node; 0: none yet */
  uint32_t octaves[SONDE_CALLS_N_OCTAVES];
} Timing;

typedef struct
{
  uint64_t sums[SONDE_CALLS_OCTAVE_BUCKETS];
  uint32_t last[SONDE_CALLS_OCTAVE_BUCKETS];
  uint32_t owner; /* the line of a timing */
} Octave;

/* A slab as it was when its head was last copied. */
typedef struct
{
  uint32_t kind;
  uint32_t slot;
  uint32_t n_used;
  uint32_t n_known; /* nodes that were told of, or slow calls that were looked at */
  void *entries;    /* of the kind; NULL of frames and slow calls */
} Slab;

struct SondeTrieReader
{
  const uint8_t *base;
  SondeTrieGeometry geometry;
  SondeTrieFault fault;
  uint32_t n_slabs; /* of this pass */
  uint32_t slab;    /* where the next turn goes on */
  uint32_t entry;
  bool is_passing;
  uint32_t n_nodes;
  uint64_t counted;
  SondeTrieTimes times; /* that a callback gets */
  uint64_t *slots;      /* counters of each, as they were */
  Slab slabs[];
};

/* Words of a slot that only grow, in a row. */
#define FIRST_COUNTER offsetof (SondeTrieSlot, calls)
#define N_COUNTERS    ((offsetof (SondeTrieSlot, padding) - FIRST_COUNTER) / sizeof (uint64_t))

static const struct
{
  uint32_t capacity;
  size_t size_bytes; /* of an entry here */
  uint32_t n_lines;  /* of one there; 0: it has half a one */
} kinds[SONDE_TRIE_N_KINDS] = {
  [SONDE_TRIE_NODES] = { SONDE_TRIE_SLAB_NODES, sizeof (Node), 0 },
  [SONDE_TRIE_TIMINGS] = { SONDE_TRIE_SLAB_TIMINGS, sizeof (Timing), 3 },
  [SONDE_TRIE_OCTAVES] = { SONDE_TRIE_SLAB_OCTAVES, sizeof (Octave), 1 },
  [SONDE_TRIE_FRAMES] = { UINT32_MAX, 0, 1 },
  [SONDE_TRIE_SLOW_CALLS] = { UINT32_MAX, 0, 0 },
};

const char *
sonde_trie_fault_to_string (SondeTrieFault fault)
{
  static const char *const texts[SONDE_TRIE_N_FAULTS] = {
    [SONDE_TRIE_OK] = "it is whole",
    [SONDE_TRIE_FAULT_KIND] = "there is no such kind of slab, or it was another",
    [SONDE_TRIE_FAULT_SLOT] = "something belongs to another slot, or to none",
    [SONDE_TRIE_FAULT_USED] = "a slab has more entries than fit, or fewer than before",
    [SONDE_TRIE_FAULT_PARENT] = "a node's parent does not come before it",
    [SONDE_TRIE_FAULT_FUNCTION] = "a node's function cannot be",
    [SONDE_TRIE_FAULT_REFERENCE]
    = "a reference leads to nothing of its kind, or elsewhere than before",
    [SONDE_TRIE_FAULT_OWNER] = "two refer to the same times",
    [SONDE_TRIE_FAULT_BACKWARDS] = "a counter went backwards",
  };

  return fault < SONDE_TRIE_N_FAULTS ? texts[fault] : "?";
}

int
sonde_trie_reader_new (const SondeTrieMemory *memory, SondeTrieReader **self)
{
  SondeTrieReader *made
      = calloc (1, sizeof *made + memory->geometry.max_slabs * sizeof *made->slabs);

  if (made == NULL)
    return -ENOMEM;

  made->slots = calloc (memory->geometry.max_slots, N_COUNTERS * sizeof *made->slots);
  if (made->slots == NULL)
    {
      free (made);
      return -ENOMEM;
    }
  made->base = memory->base;
  made->geometry = memory->geometry;
  *self = made;
  return 0;
}

void
sonde_trie_reader_free (SondeTrieReader *self)
{
  if (self == NULL)
    return;

  for (uint32_t i = 0; i < self->geometry.max_slabs; i++)
    free (self->slabs[i].entries);
  free (self->slots);
  free (self);
}

SondeTrieFault
sonde_trie_reader_fault (const SondeTrieReader *self)
{
  return self->fault;
}

/* It is over with this region. */
static int
fail (SondeTrieReader *self, SondeTrieFault fault)
{
  self->fault = fault;
  return -EBADMSG;
}

/* --- slabs --- */

static const SondeTrieSlab *
slab_at (const SondeTrieReader *self, uint32_t i)
{
  size_t line = self->geometry.slabs_at + (size_t) i * SONDE_TRIE_SLAB_LINES;

  return (const void *) (self->base + line * SONDE_TRIE_LINE_BYTES);
}

/* Copies the head of a slab; pairs with the releases of the writer's take_slab() and publish(). */
static int
look_at (SondeTrieReader *self, uint32_t i)
{
  const SondeTrieSlab *shared = slab_at (self, i);
  uint32_t kind = sonde_ring_load_acquire (&shared->kind);
  uint32_t slot = sonde_ring_load_relaxed (&shared->slot);
  uint32_t n_used = sonde_ring_load_acquire (&shared->n_used);
  Slab *slab = &self->slabs[i];

  if (kind >= SONDE_TRIE_N_KINDS || (slab->kind != SONDE_TRIE_NO_SLAB && kind != slab->kind))
    return fail (self, SONDE_TRIE_FAULT_KIND);
  if (kind == SONDE_TRIE_NO_SLAB)
    return 0;
  if (slot >= self->geometry.max_slots || (slab->kind != SONDE_TRIE_NO_SLAB && slot != slab->slot))
    return fail (self, SONDE_TRIE_FAULT_SLOT);
  if (n_used > kinds[kind].capacity || (n_used < slab->n_used && kind != SONDE_TRIE_SLOW_CALLS))
    return fail (self, SONDE_TRIE_FAULT_USED);

  if (slab->entries == NULL && kinds[kind].size_bytes > 0)
    {
      slab->entries = calloc (kinds[kind].capacity, kinds[kind].size_bytes);
      if (slab->entries == NULL)
        return -ENOMEM;
    }
  slab->kind = kind;
  slab->slot = slot;
  slab->n_used = n_used;
  return 0;
}

/* From the last slab to the first: so whatever a node in one of them refers to before it is in
 * these heads. */
static int
begin_pass (SondeTrieReader *self)
{
  const SondeTrieHeader *header = (const void *) self->base;
  uint32_t n_slabs = sonde_ring_load_acquire (&header->n_slabs);
  int r = 0;

  if (n_slabs > self->geometry.max_slabs)
    n_slabs = self->geometry.max_slabs;
  if (n_slabs < self->n_slabs)
    return fail (self, SONDE_TRIE_FAULT_BACKWARDS);
  for (uint32_t i = n_slabs; i > 0 && r == 0; i--)
    r = look_at (self, i - 1);
  if (r < 0)
    return r;

  self->n_slabs = n_slabs;
  self->slab = 0;
  self->entry = 0;
  self->is_passing = true;
  return 0;
}

/* The copy of what is at a line, if it is of this kind and slot. */
static void *
find_entry (SondeTrieReader *self, uint32_t line, SondeTrieSlabKind kind, uint32_t slot, int *r)
{
  uint32_t i = (line - self->geometry.slabs_at) / SONDE_TRIE_SLAB_LINES;
  uint32_t offset = (line - self->geometry.slabs_at) % SONDE_TRIE_SLAB_LINES;
  uint32_t entry = (offset - 1) / kinds[kind].n_lines;
  Slab *slab = &self->slabs[i < self->geometry.max_slabs ? i : 0];

  if (line < self->geometry.slabs_at || i >= self->geometry.max_slabs || offset == 0
      || (offset - 1) % kinds[kind].n_lines != 0 || entry >= kinds[kind].capacity)
    {
      *r = fail (self, SONDE_TRIE_FAULT_REFERENCE);
      return NULL;
    }
  /* It may have come since this pass began. */
  if (slab->kind != kind || entry >= slab->n_used)
    *r = look_at (self, i);
  if (*r < 0)
    return NULL;
  if (slab->kind != kind || entry >= slab->n_used)
    {
      *r = fail (self, SONDE_TRIE_FAULT_REFERENCE);
      return NULL;
    }
  if (slab->slot != slot)
    {
      *r = fail (self, SONDE_TRIE_FAULT_SLOT);
      return NULL;
    }
  return (uint8_t *) slab->entries + entry * kinds[kind].size_bytes;
}

/* A node that is told of already. */
static Node *
find_node (SondeTrieReader *self, uint32_t number, uint32_t slot)
{
  uint32_t line = number / 2;
  uint32_t i = (line - self->geometry.slabs_at) / SONDE_TRIE_SLAB_LINES;
  uint32_t entry = number % (2 * SONDE_TRIE_SLAB_LINES);

  if (line < self->geometry.slabs_at || i >= self->n_slabs || entry < 2
      || self->slabs[i].kind != SONDE_TRIE_NODES || entry - 2 >= self->slabs[i].n_known
      || self->slabs[i].slot != slot)
    return NULL;
  return (Node *) self->slabs[i].entries + (entry - 2);
}

/* --- times --- */

/* Copies a word that only grows. Returns: how much; @r: if it did not */
static uint64_t
take_growth (SondeTrieReader *self, const uint64_t *shared, uint64_t *last, int *r)
{
  uint64_t value = sonde_ring_load_relaxed (shared);
  uint64_t growth = value - *last;

  if (value < *last)
    {
      *r = fail (self, SONDE_TRIE_FAULT_BACKWARDS);
      return 0;
    }
  *last = value;
  return growth;
}

/* Whatever is referred to is of one owner, and remains: else a program had the reader keep more
 * than the region has room for. */
static int
check_owner (SondeTrieReader *self, uint32_t *owner, uint32_t wanted)
{
  if (*owner != 0 && *owner != wanted)
    return fail (self, SONDE_TRIE_FAULT_OWNER);
  *owner = wanted;
  return 0;
}

static int
take_octave (SondeTrieReader *self,
             uint32_t slot,
             Timing *timing,
             uint32_t timing_line,
             uint32_t line,
             uint32_t at)
{
  const SondeTrieOctave *shared
      = (const void *) (self->base + (size_t) line * SONDE_TRIE_LINE_BYTES);
  int r = 0;
  Octave *octave = find_entry (self, line, SONDE_TRIE_OCTAVES, slot, &r);

  if (octave == NULL)
    return r;
  r = check_owner (self, &octave->owner, timing_line);
  for (uint32_t i = 0; i < SONDE_CALLS_OCTAVE_BUCKETS && r == 0; i++)
    {
      uint32_t value = sonde_ring_load_relaxed (&shared->buckets[i]);
      uint32_t growth = value - octave->last[i];

      octave->last[i] = value;
      octave->sums[i] += growth;
      timing->in_buckets += growth;
      self->times.buckets[at * SONDE_CALLS_OCTAVE_BUCKETS + i] = growth;
    }
  return r;
}

static int
take_octaves (SondeTrieReader *self,
              const SondeTrieTiming *shared,
              Timing *timing,
              uint32_t timing_line,
              uint32_t slot)
{
  int r = 0;

  for (uint32_t i = 0; i < SONDE_CALLS_N_OCTAVES && r == 0; i++)
    {
      uint32_t line = sonde_ring_load_acquire (&shared->octaves[i]);

      if (timing->octaves[i] != 0 && line != timing->octaves[i])
        return fail (self, SONDE_TRIE_FAULT_REFERENCE);
      if (line == 0)
        {
          memset (&self->times.buckets[i * SONDE_CALLS_OCTAVE_BUCKETS], 0,
                  SONDE_CALLS_OCTAVE_BUCKETS * sizeof *self->times.buckets);
          continue;
        }
      r = take_octave (self, slot, timing, timing_line, line, i);
      if (r == 0)
        timing->octaves[i] = line;
    }
  return r;
}

/* Returns: 1 if there is something new, which is in @times then; 0 */
static int
take_timing (SondeTrieReader *self, uint32_t number, Node *node, uint32_t slot, uint32_t line)
{
  const SondeTrieTiming *shared
      = (const void *) (self->base + (size_t) line * SONDE_TRIE_LINE_BYTES);
  SondeTrieTimes *times = &self->times;
  Timing *timing;
  uint64_t timed, in_buckets;
  int r = 0;

  if (node->timing != 0 && node->timing != line)
    return fail (self, SONDE_TRIE_FAULT_REFERENCE);
  timing = find_entry (self, line, SONDE_TRIE_TIMINGS, slot, &r);
  if (timing == NULL)
    return r;
  r = check_owner (self, &timing->owner, number);
  if (r < 0)
    return r;
  node->timing = line;

  timed = sonde_ring_load_acquire (&shared->timed);
  in_buckets = timing->in_buckets;
  if (timed == timing->timed && in_buckets == timed)
    return 0;
  if (timed < timing->timed)
    return fail (self, SONDE_TRIE_FAULT_BACKWARDS);
  times->timed = timed - timing->timed;
  timing->timed = timed;
  times->total_ticks = take_growth (self, &shared->total_ticks, &timing->total_ticks, &r);
  times->self_ticks = take_growth (self, &shared->self_ticks, &timing->self_ticks, &r);
  times->nested = take_growth (self, &shared->nested, &timing->nested, &r);
  if (r < 0)
    return r;
  times->min_ticks = timing->min_ticks = sonde_ring_load_relaxed (&shared->min_ticks);
  times->max_ticks = timing->max_ticks = sonde_ring_load_relaxed (&shared->max_ticks);
  r = take_octaves (self, shared, timing, line, slot);
  if (r < 0)
    return r;
  return times->timed > 0 || timing->in_buckets != in_buckets;
}

/* --- nodes --- */

static int
check_node (SondeTrieReader *self, uint32_t number, uint32_t slot, Node *node)
{
  if (node->parent == 0)
    return node->function <= SONDE_TRIE_SIGNAL_ROOT ? 0 : fail (self, SONDE_TRIE_FAULT_FUNCTION);
  if (node->function <= SONDE_TRIE_SIGNAL_ROOT)
    return fail (self, SONDE_TRIE_FAULT_FUNCTION);
  if (node->parent >= number || find_node (self, node->parent, slot) == NULL)
    return fail (self, SONDE_TRIE_FAULT_PARENT);
  return 0;
}

static int
take_node (SondeTrieReader *self, Slab *slab, SondeTrieCallback callback, void *user_data)
{
  size_t line = self->geometry.slabs_at + (size_t) self->slab * SONDE_TRIE_SLAB_LINES + 1;
  uint32_t number = (uint32_t) (line * 2 + self->entry);
  const SondeTrieNode *shared
      = (const void *) (self->base + (size_t) number * SONDE_TRIE_NODE_BYTES);
  Node *node = (Node *) slab->entries + self->entry;
  bool is_new = self->entry == slab->n_known;
  SondeTrieChange change = { .node = number, .slot = slab->slot };
  uint32_t timing;
  int r = 0;

  if (is_new)
    {
      Node copy = { .function = sonde_ring_load_relaxed (&shared->function),
                    .parent = sonde_ring_load_relaxed (&shared->parent) };

      r = check_node (self, number, slab->slot, &copy);
      if (r < 0)
        return r;
      *node = copy;
    }
  change.calls = take_growth (self, &shared->calls, &node->calls, &r);
  if (r < 0)
    return r;
  timing = sonde_ring_load_acquire (&shared->timing) & ~SONDE_TRIE_FLAGS;
  if (timing != 0 || node->timing != 0)
    r = take_timing (self, number, node, slab->slot, timing);
  if (r < 0)
    return r;

  self->counted += change.calls;
  self->n_nodes += is_new;
  slab->n_known += is_new;
  change.is_timed = r == 1;
  if (is_new || change.calls > 0 || change.is_timed)
    {
      change.function = node->function;
      change.parent = node->parent;
      callback (&change, &self->times, user_data);
    }
  return 0;
}

int
sonde_trie_reader_turn (SondeTrieReader *self,
                        uint32_t max_nodes,
                        SondeTrieCallback callback,
                        void *user_data)
{
  int r = 0;

  if (self->fault != SONDE_TRIE_OK)
    return -EBADMSG;
  if (!self->is_passing)
    r = begin_pass (self);

  while (r == 0 && self->slab < self->n_slabs)
    {
      Slab *slab = &self->slabs[self->slab];

      if (slab->kind != SONDE_TRIE_NODES || self->entry >= slab->n_used)
        {
          self->slab++;
          self->entry = 0;
          continue;
        }
      if (max_nodes == 0)
        return 1;
      max_nodes--;
      r = take_node (self, slab, callback, user_data);
      self->entry++;
    }
  self->is_passing = false;
  return r;
}

/* --- what was read --- */

static bool
sum_up (SondeTrieReader *self, uint32_t slot, const Node *node)
{
  SondeTrieTimes *times = &self->times;
  const Timing *timing;
  int r = 0;

  memset (times, 0, sizeof *times);
  if (node->timing == 0 || self->fault != SONDE_TRIE_OK)
    return false;
  timing = find_entry (self, node->timing, SONDE_TRIE_TIMINGS, slot, &r);
  if (timing == NULL || timing->timed == 0)
    return false;

  times->timed = timing->timed;
  times->total_ticks = timing->total_ticks;
  times->self_ticks = timing->self_ticks;
  times->nested = timing->nested;
  times->min_ticks = timing->min_ticks;
  times->max_ticks = timing->max_ticks;
  for (uint32_t i = 0; i < SONDE_CALLS_N_OCTAVES; i++)
    if (timing->octaves[i] != 0)
      {
        const Octave *octave = find_entry (self, timing->octaves[i], SONDE_TRIE_OCTAVES, slot, &r);

        if (octave != NULL)
          memcpy (&times->buckets[i * SONDE_CALLS_OCTAVE_BUCKETS], octave->sums,
                  sizeof octave->sums);
      }
  return true;
}

void
sonde_trie_reader_tell_all (SondeTrieReader *self, SondeTrieCallback callback, void *user_data)
{
  for (uint32_t i = 0; i < self->n_slabs; i++)
    {
      const Slab *slab = &self->slabs[i];
      uint32_t first = 2 * (self->geometry.slabs_at + i * SONDE_TRIE_SLAB_LINES + 1);

      for (uint32_t j = 0; slab->kind == SONDE_TRIE_NODES && j < slab->n_known; j++)
        {
          const Node *node = (const Node *) slab->entries + j;
          SondeTrieChange all = { .node = first + j,
                                  .parent = node->parent,
                                  .slot = slab->slot,
                                  .function = node->function,
                                  .calls = node->calls };

          all.is_timed = sum_up (self, slab->slot, node);
          callback (&all, &self->times, user_data);
        }
    }
}

/* --- slow calls --- */

/* What is copied of a ring while it is written: the entry is right if it was not replaced until
 * then, nor is being replaced. */
static bool
is_still_there (const SondeTrieSlab *shared, uint32_t number)
{
  sonde_ring_full_fence ();
  return sonde_ring_load_relaxed (&shared->n_used) - number < SONDE_TRIE_SLAB_SLOW_CALLS;
}

/* Those of one ring, oldest first. One of a node that was not told of yet remains. Returns: how
 * many were replaced before they were read */
static uint32_t
take_slow_calls (SondeTrieReader *self, uint32_t i, SondeTrieSlowCallback callback, void *user_data)
{
  const SondeTrieSlab *shared = slab_at (self, i);
  const SondeTrieSlowCall *ring = (const void *) (shared + 1);
  Slab *slab = &self->slabs[i];
  uint32_t n_used = sonde_ring_load_acquire (&shared->n_used);
  uint32_t n_lost = 0;

  while (slab->n_known != n_used)
    {
      const SondeTrieSlowCall *call = &ring[slab->n_known % SONDE_TRIE_SLAB_SLOW_CALLS];
      uint32_t behind = n_used - slab->n_known;
      SondeTrieSlowCall copy;

      if (behind >= SONDE_TRIE_SLAB_SLOW_CALLS)
        {
          n_lost += behind - (SONDE_TRIE_SLAB_SLOW_CALLS - 1);
          slab->n_known = n_used - (SONDE_TRIE_SLAB_SLOW_CALLS - 1);
          continue;
        }
      copy = (SondeTrieSlowCall){ .start_ticks = sonde_ring_load_relaxed (&call->start_ticks),
                                  .ticks = sonde_ring_load_relaxed (&call->ticks),
                                  .node = sonde_ring_load_relaxed (&call->node) };
      if (!is_still_there (shared, slab->n_known))
        n_lost++;
      else if (find_node (self, copy.node, slab->slot) != NULL)
        callback (&copy, user_data);
      else
        break;
      slab->n_known++;
    }
  return n_lost;
}

uint64_t
sonde_trie_reader_take_slow_calls (SondeTrieReader *self,
                                   SondeTrieSlowCallback callback,
                                   void *user_data)
{
  uint64_t n_lost = 0;

  for (uint32_t i = 0; i < self->n_slabs && self->fault == SONDE_TRIE_OK; i++)
    if (self->slabs[i].kind == SONDE_TRIE_SLOW_CALLS)
      n_lost += take_slow_calls (self, i, callback, user_data);
  return n_lost;
}

bool
sonde_trie_reader_has_slow_calls (const SondeTrieReader *self)
{
  const SondeTrieHeader *header = (const void *) self->base;
  uint32_t n_slabs = sonde_ring_load_acquire (&header->n_slabs);

  for (uint32_t i = 0; i < n_slabs && i < self->geometry.max_slabs; i++)
    if (sonde_ring_load_acquire (&slab_at (self, i)->kind) == SONDE_TRIE_SLOW_CALLS
        && sonde_ring_load_relaxed (&slab_at (self, i)->n_used) != self->slabs[i].n_known)
      return true;
  return false;
}

/* --- slots --- */

static const SondeTrieSlot *
slot_at (const SondeTrieReader *self, uint32_t slot)
{
  return (const SondeTrieSlot *) (const void *) (self->base + SONDE_TRIE_HEADER_BYTES) + slot;
}

static uint32_t
count_slots (const SondeTrieReader *self)
{
  const SondeTrieHeader *header = (const void *) self->base;
  uint32_t n = sonde_ring_load_acquire (&header->n_slots);

  return n < self->geometry.max_slots ? n : self->geometry.max_slots;
}

int
sonde_trie_reader_count (SondeTrieReader *self, SondeTrieCounts *counts)
{
  const SondeTrieHeader *header = (const void *) self->base;
  uint64_t sums[N_COUNTERS] = { 0 };
  SondeTrieCounts made = { .counted = self->counted,
                           .n_slots = count_slots (self),
                           .n_nodes = self->n_nodes,
                           .n_slabs = self->n_slabs,
                           .lost_threads = sonde_ring_load_relaxed (&header->lost_threads),
                           .n_refused = sonde_ring_load_acquire (&header->n_refused),
                           .n_functions = sonde_ring_load_relaxed (&header->n_functions),
                           .n_patched = sonde_ring_load_relaxed (&header->n_patched),
                           .reason = sonde_ring_load_relaxed (&header->reason) };
  int r = 0;

  for (uint32_t i = 0; i < made.n_slots; i++)
    {
      const SondeTrieSlot *slot = slot_at (self, i);

      for (size_t j = 0; j < N_COUNTERS && r == 0; j++)
        {
          uint64_t *last = &self->slots[i * N_COUNTERS + j];

          take_growth (self, &slot->calls + j, last, &r);
          sums[j] += *last;
        }
      /* A thread has one more for its handlers. */
      if (sonde_ring_load_relaxed (&slot->is_signals) == 0)
        made.n_threads += sonde_ring_load_relaxed (&slot->generation);
    }
  if (r < 0)
    return r;

  made.calls = sums[0];
  made.lost_budget = sums[1];
  made.lost_depth = sums[2];
  made.lost_interrupted = sums[3];
  made.resynced = sums[4];
  made.unmatched = sums[5];
  made.lost_timings = sums[6];
  made.hook_ticks = sums[7];
  made.n_hooks = sums[8];
  made.lost_stacks = sums[9];
  made.lost_slow = sums[10];
  *counts = made;
  return 0;
}

size_t
sonde_trie_reader_last_words (
    SondeTrieReader *self, uint32_t slot, uint32_t *nodes, size_t max_nodes, int32_t *tid)
{
  const SondeTrieSlot *shared;
  uint32_t line;
  size_t n = 0;

  if (slot >= count_slots (self))
    return 0;
  shared = slot_at (self, slot);
  if (sonde_ring_load_relaxed (&shared->state) != SONDE_TRIE_SLOT_LIVE)
    return 0;

  *tid = sonde_ring_load_relaxed (&shared->tid);
  line = sonde_ring_load_acquire (&shared->top);
  for (uint32_t i = 0; i < SONDE_TRIE_MAX_STACK_SLABS && line != 0; i++)
    {
      uint32_t in = (line - self->geometry.slabs_at) / SONDE_TRIE_SLAB_LINES;
      const SondeTrieFrame *frames;

      if (line < self->geometry.slabs_at || in >= self->n_slabs
          || self->slabs[in].kind != SONDE_TRIE_FRAMES || self->slabs[in].slot != slot)
        return n;
      frames = (const void *) slab_at (self, in);
      for (uint32_t at = (line - self->geometry.slabs_at) % SONDE_TRIE_SLAB_LINES; at > 0; at--)
        {
          uint32_t node = sonde_ring_load_relaxed (&frames[at].node);

          if (n == max_nodes)
            return n;
          nodes[n++] = find_node (self, node, slot) != NULL ? node : 0;
        }
      line = sonde_ring_load_relaxed (&slab_at (self, in)->previous);
      /* The slab above is full. */
      line = line != 0 ? line + SONDE_TRIE_SLAB_FRAMES : 0;
    }
  return n;
}

double
sonde_trie_quantile (const SondeTrieTimes *times, double part)
{
  uint64_t n = 0, before = 0;
  double wanted;

  for (uint32_t i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
    n += times->buckets[i];
  wanted = part * (double) n;
  for (uint32_t i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
    {
      uint64_t here = times->buckets[i];

      if (here > 0 && (double) (before + here) >= wanted)
        {
          double begin = (double) sonde_calls_bucket_begin (i);
          double width = (double) (sonde_calls_bucket_begin (i + 1) - sonde_calls_bucket_begin (i));
          double inside = wanted > (double) before ? (wanted - (double) before) / (double) here : 0;
          double ticks = begin + width * inside;

          return ticks > (double) times->max_ticks && times->max_ticks > 0
                     ? (double) times->max_ticks
                     : ticks;
        }
      before += here;
    }
  return 0;
}
