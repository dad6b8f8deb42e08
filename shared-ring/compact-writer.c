/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/compact-writer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MIN_SLOTS 512u
#define GROWTH    4u

void
sonde_compact_writer_init (SondeCompactWriter *self, size_t ring_bytes)
{
  *self = (SondeCompactWriter){ .max_stacks = (uint32_t) SONDE_HEAP_MAX_STACKS (ring_bytes),
                                .max_words = (uint32_t) SONDE_HEAP_MAX_STACK_WORDS (ring_bytes),
                                .era = 1,
                                .last_ns = -1 };
}

/* The table, and the addresses of the last stack behind it. */
static size_t
mapped_bytes (uint32_t n_slots)
{
  return n_slots * sizeof (SondeStackSlot) + SONDE_HEAP_MAX_DEPTH * sizeof (uint64_t);
}

void
sonde_compact_writer_clear (SondeCompactWriter *self)
{
  int saved_errno = errno;

  if (self->slots != NULL)
    munmap (self->slots, mapped_bytes (self->n_slots));
  self->slots = NULL;
  self->n_slots = 0;
  errno = saved_errno;
}

/* --- stacks --- */

/* The slot that has the stack, or the free one where it belongs; some are always free. */
static SondeStackSlot *
find_slot (SondeStackSlot *slots, uint32_t n_slots, uint32_t era, uint64_t hash)
{
  uint32_t i = (uint32_t) hash & (n_slots - 1);

  while (slots[i].era == era && slots[i].hash != hash)
    i = (i + 1) & (n_slots - 1);
  return &slots[i];
}

/* What stands in slots of another era is as good as nothing. */
static void
begin_era (SondeCompactWriter *self)
{
  self->n_stacks = 0;
  self->n_words = 0;
  self->n_last = 0;
  self->era++;
  if (self->era == 0)
    {
      self->era = 1;
      for (uint32_t i = 0; i < self->n_slots; i++)
        self->slots[i].era = 0;
    }
}

static bool
grow (SondeCompactWriter *self)
{
  uint32_t n_slots = self->slots != NULL ? self->n_slots * GROWTH : MIN_SLOTS;
  int saved_errno = errno;
  SondeStackSlot *slots = mmap (NULL, mapped_bytes (n_slots), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  errno = saved_errno;
  if (slots == MAP_FAILED)
    return false;

  for (uint32_t i = 0; i < self->n_slots; i++)
    if (self->slots[i].era == self->era)
      *find_slot (slots, n_slots, self->era, self->slots[i].hash) = self->slots[i];
  if (self->n_last > 0)
    memcpy (slots + n_slots, self->slots + self->n_slots, SONDE_HEAP_MAX_DEPTH * sizeof (uint64_t));
  sonde_compact_writer_clear (self);
  self->slots = slots;
  self->n_slots = n_slots;
  return true;
}

/* A new number for a stack that has none. Without memory it is remembered no longer than by the
 * reader: until the next one is 1, too. */
static uint32_t
define (SondeCompactWriter *self, uint64_t hash, size_t depth)
{
  if (self->n_stacks == self->max_stacks || self->max_words - self->n_words < depth + 1)
    begin_era (self);
  if ((uint64_t) self->n_stacks * 10 >= (uint64_t) self->n_slots * 6 && !grow (self))
    begin_era (self);

  self->n_stacks++;
  self->n_words += (uint32_t) depth + 1;
  if (self->slots == NULL)
    begin_era (self);
  else
    *find_slot (self->slots, self->n_slots, self->era, hash)
        = (SondeStackSlot){ hash, self->n_stacks, self->era };
  return self->slots != NULL ? self->n_stacks : 1;
}

/* --- records ---
 *
 * Written in place, word by word: a copy of a whole record would wait for the words of which it was
 * just made. */

/* Tells the time, and the thread, if the next record cannot. Returns: where that goes */
static inline uint8_t *
put_clock (SondeCompactWriter *self, uint8_t *at, const SondeCompactEvent *event, uint32_t *dt_ns)
{
  int64_t time_ns = event->time_ns > self->last_ns ? event->time_ns : self->last_ns;
  SondeHeapClock *clock = (SondeHeapClock *) (void *) at;

  *dt_ns = (uint32_t) (time_ns - self->last_ns);
  if (__builtin_expect (self->last_ns < 0 || time_ns - self->last_ns > UINT32_MAX
                            || event->tid != self->tid,
                        false))
    {
      clock->time = (uint64_t) time_ns << SONDE_HEAP_KIND_BITS | SONDE_HEAP_CLOCK;
      clock->tid = event->tid;
      clock->zero = 0;
      at += sizeof *clock;
      self->tid = event->tid;
      *dt_ns = 0;
    }
  self->last_ns = time_ns;
  return at;
}

size_t
sonde_compact_writer_free (SondeCompactWriter *self, void *place, const SondeCompactEvent *event)
{
  uint32_t dt_ns;
  uint8_t *at = put_clock (self, place, event, &dt_ns);
  SondeHeapFree *record = (SondeHeapFree *) (void *) at;

  record->address = event->address | SONDE_HEAP_FREE;
  record->dt_ns = dt_ns;
  record->zero = 0;
  return (size_t) (at + sizeof *record - (uint8_t *) place);
}

/* Where the addresses of the stack that was defined last end, as the outermost is in its place. */
static uint64_t *
last_end (const SondeCompactWriter *self)
{
  return (uint64_t *) (void *) (self->slots + self->n_slots) + SONDE_HEAP_MAX_DEPTH;
}

/* How many outermost addresses are those of the stack before, in place of which the new one is
 * remembered. */
static size_t
share (SondeCompactWriter *self, const uint64_t *addrs, size_t depth)
{
  uint64_t *end = last_end (self);
  size_t most = self->n_last < depth ? self->n_last : depth;
  size_t n = 0;

  while (n < most && end[-1 - (ptrdiff_t) n] == addrs[depth - 1 - n])
    n++;
  memcpy (end - depth, addrs, (depth - n) * sizeof *addrs);
  self->n_last = (uint32_t) depth;
  return n;
}

/* Distances in place of addresses, if all of them have room. @own: not in the ring, with the next
 * one outwards behind them, if there is one. FALSE: nothing is right there. */
static bool
put_distances (uint8_t *at, const uint64_t *own, size_t n_own, bool has_outer)
{
  const int32_t zero = 0;

  for (size_t i = 0; i < n_own; i++)
    {
      uint64_t outer = i + 1 < n_own || has_outer ? own[i + 1] : 0;
      int32_t distance = (int32_t) (own[i] - outer);

      if ((uint64_t) (int64_t) distance != own[i] - outer)
        return false;
      memcpy (at + i * sizeof distance, &distance, sizeof distance);
    }
  if (n_own % 2 != 0)
    memcpy (at + n_own * sizeof zero, &zero, sizeof zero);
  return true;
}

/* The addresses lie where they do if clock and stack stand before them; else they are moved. */
static uint8_t *
put_stack (SondeCompactWriter *self, uint8_t *at, uint32_t id, const uint8_t *addrs, size_t depth)
{
  SondeHeapStack stack = { .kind = SONDE_HEAP_STACK, .depth = (uint16_t) depth, .id = id };
  uint8_t *own_at = at + sizeof stack;
  size_t n_shared = 0;

  if (self->slots != NULL)
    {
      const uint64_t *last = last_end (self) - depth;

      n_shared = share (self, (const uint64_t *) (const void *) addrs, depth);
      stack.kind |= (uint16_t) (n_shared << SONDE_HEAP_SHARED_SHIFT);
      if (put_distances (own_at, last, depth - n_shared, n_shared > 0))
        stack.kind |= SONDE_HEAP_STACK_NARROW;
      else
        memcpy (own_at, last, (depth - n_shared) * sizeof *last);
    }
  else
    memmove (own_at, addrs, depth * sizeof (uint64_t));
  memcpy (at, &stack, sizeof stack);
  return own_at + sonde_heap_stack_own_bytes (&stack);
}

size_t
sonde_compact_writer_block (SondeCompactWriter *self,
                            void *place,
                            const SondeCompactEvent *event,
                            size_t depth)
{
  const uint8_t *addrs = (const uint8_t *) place + SONDE_COMPACT_ADDRS_AT;
  const SondeStackSlot *slot = NULL;
  SondeHeapBlock *record;
  bool is_known = true;
  uint32_t stack = 0;
  uint32_t dt_ns;
  uint8_t *at;

  if (depth > 0)
    {
      if (self->slots != NULL)
        slot = find_slot (self->slots, self->n_slots, self->era, event->stack_hash);
      is_known = slot != NULL && slot->era == self->era;
      stack = is_known ? slot->id : define (self, event->stack_hash, depth);
    }
  /* A clock may stand where the addresses do not: in front of them. */
  at = put_clock (self, place, event, &dt_ns);
  if (!is_known)
    at = put_stack (self, at, stack, addrs, depth);
  record = (SondeHeapBlock *) (void *) at;
  record->address = event->address | SONDE_HEAP_BLOCK;
  record->dt_ns = dt_ns;
  record->stack = stack;
  record->size_bytes = event->size_bytes;
  return (size_t) (at + sizeof *record - (uint8_t *) place);
}
