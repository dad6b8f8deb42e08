/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/compact-reader.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "shared-ring/ring-atomic.h"

/* A record but its stack, as it was copied. */
typedef union
{
  uint64_t first;
  SondeHeapFree free;
  SondeHeapBlock block;
  SondeHeapStack stack;
  SondeHeapClock clock;
} Record;

static const uint8_t record_sizes[SONDE_HEAP_KIND_MASK + 1] = {
  [SONDE_HEAP_FREE] = sizeof (SondeHeapFree),
  [SONDE_HEAP_BLOCK] = sizeof (SondeHeapBlock),
  [SONDE_HEAP_STACK] = sizeof (SondeHeapStack),
  [SONDE_HEAP_CLOCK] = sizeof (SondeHeapClock),
};

const char *
sonde_heap_fault_to_string (SondeHeapFault fault)
{
  static const char *const texts[SONDE_N_HEAP_FAULTS] = {
    [SONDE_HEAP_OK] = "it is whole",
    [SONDE_HEAP_FAULT_SHORT] = "it reaches past the end",
    [SONDE_HEAP_FAULT_KIND] = "there is no such record",
    [SONDE_HEAP_FAULT_ZERO] = "bytes that must be zero are not",
    [SONDE_HEAP_FAULT_ADDRESS] = "no block can be at its address",
    [SONDE_HEAP_FAULT_SIZE] = "no block can have its size",
    [SONDE_HEAP_FAULT_NO_CLOCK] = "it has no time, as no clock came before",
    [SONDE_HEAP_FAULT_TIME] = "its time is before the last one, or out of range",
    [SONDE_HEAP_FAULT_DEPTH] = "it has no addresses, or too many",
    [SONDE_HEAP_FAULT_NUMBER] = "its number is not the next one",
    [SONDE_HEAP_FAULT_SHARED] = "it shares addresses that it or the stack before it does not have",
    [SONDE_HEAP_FAULT_ROOM] = "the ring may not have so many stacks",
    [SONDE_HEAP_FAULT_UNDEFINED] = "its stack is not defined",
  };

  return fault < SONDE_N_HEAP_FAULTS ? texts[fault] : "?";
}

const char *
sonde_heap_kind_to_string (uint32_t kind)
{
  static const char *const names[SONDE_HEAP_KIND_MASK + 1] = {
    [SONDE_HEAP_FREE] = "free",
    [SONDE_HEAP_BLOCK] = "block",
    [SONDE_HEAP_STACK] = "stack",
    [SONDE_HEAP_CLOCK] = "clock",
  };

  return kind <= SONDE_HEAP_KIND_MASK && names[kind] != NULL ? names[kind] : "?";
}

int
sonde_compact_reader_init (SondeCompactReader *self, size_t ring_bytes)
{
  SondeCompactReader made = { .max_stacks = (uint32_t) SONDE_HEAP_MAX_STACKS (ring_bytes),
                              .max_words = (uint32_t) SONDE_HEAP_MAX_STACK_WORDS (ring_bytes),
                              .mapped_bytes = SONDE_HEAP_READER_BYTES (ring_bytes),
                              .now_ns = -1 };
  uint8_t *memory;

  memory
      = mmap (NULL, made.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return -ENOMEM;

  made.words = (uint64_t *) (void *) memory;
  made.begins = (uint32_t *) (void *) (made.words + made.max_words);
  made.notes = made.begins + made.max_stacks;
  *self = made;
  return 0;
}

void
sonde_compact_reader_clear (SondeCompactReader *self)
{
  if (self->words != NULL)
    munmap (self->words, self->mapped_bytes);
  memset (self, 0, sizeof *self);
}

size_t
sonde_compact_reader_measure (uint64_t first)
{
  const Record record = { .first = first };
  size_t kind = first & SONDE_HEAP_KIND_MASK;

  return record_sizes[kind]
         + (kind == SONDE_HEAP_STACK ? sonde_heap_stack_own_bytes (&record.stack) : 0);
}

/* Copies all but a stack's addresses: the first word says what it is, and so how much there is. */
static inline SondeHeapFault
copy_record (const uint8_t *from, size_t n_waiting, Record *record, size_t *size_bytes)
{
  const size_t first_bytes = sizeof record->first;

  if (n_waiting < first_bytes)
    return SONDE_HEAP_FAULT_SHORT;
  memcpy (&record->first, from, first_bytes);
  sonde_ring_signal_fence ();
  *size_bytes = record_sizes[record->first & SONDE_HEAP_KIND_MASK];
  if (*size_bytes == 0)
    return SONDE_HEAP_FAULT_KIND;
  if (n_waiting < *size_bytes)
    return SONDE_HEAP_FAULT_SHORT;
  if (*size_bytes == sizeof record->block)
    memcpy ((uint8_t *) record + first_bytes, from + first_bytes,
            sizeof record->block - first_bytes);
  else if (*size_bytes == sizeof record->free)
    memcpy ((uint8_t *) record + first_bytes, from + first_bytes,
            sizeof record->free - first_bytes);
  sonde_ring_signal_fence ();
  return SONDE_HEAP_OK;
}

static SondeHeapFault
take_clock (SondeCompactReader *self, const SondeHeapClock *clock)
{
  int64_t time_ns = (int64_t) (clock->time >> SONDE_HEAP_KIND_BITS);

  if (clock->zero != 0)
    return SONDE_HEAP_FAULT_ZERO;
  if (time_ns < self->now_ns)
    return SONDE_HEAP_FAULT_TIME;

  self->now_ns = time_ns;
  self->tid = clock->tid;
  return SONDE_HEAP_OK;
}

/* Of a narrow stack. @outer: the address outwards of its own. FALSE: it is filled up with
 * something. */
static bool
copy_distances (uint64_t *own, size_t n_own, uint64_t outer, const uint8_t *from)
{
  int32_t distance;

  if (n_own % 2 != 0)
    {
      memcpy (&distance, from + n_own * sizeof distance, sizeof distance);
      if (distance != 0)
        return false;
    }
  for (size_t i = n_own; i > 0; i--)
    {
      memcpy (&distance, from + (i - 1) * sizeof distance, sizeof distance);
      outer += (uint64_t) (int64_t) distance;
      own[i - 1] = outer;
    }
  return true;
}

/* @addrs: of shared memory: they are looked at in the copy alone, and mean nothing here. */
static SondeHeapFault
take_stack (SondeCompactReader *self,
            const SondeHeapStack *stack,
            const uint8_t *addrs,
            size_t n_waiting,
            size_t *n_taken)
{
  size_t n_shared = stack->kind >> SONDE_HEAP_SHARED_SHIFT;
  size_t n_own = sonde_heap_stack_n_own (stack);
  size_t addrs_bytes = sonde_heap_stack_own_bytes (stack);
  const uint64_t *before = NULL;
  uint64_t *kept;

  if (stack->depth == 0 || stack->depth > SONDE_HEAP_MAX_DEPTH)
    return SONDE_HEAP_FAULT_DEPTH;
  if (n_waiting < addrs_bytes)
    return SONDE_HEAP_FAULT_SHORT;
  if (stack->id == 1)
    self->n_stacks = self->n_words = 0;
  if (stack->id != self->n_stacks + 1)
    return SONDE_HEAP_FAULT_NUMBER;
  if (self->n_stacks > 0)
    before = self->words + self->begins[self->n_stacks - 1];
  if (n_shared > stack->depth || (n_shared > 0 && (before == NULL || n_shared > before[0])))
    return SONDE_HEAP_FAULT_SHARED;
  if (self->n_stacks == self->max_stacks || self->max_words - self->n_words < stack->depth + 1u)
    return SONDE_HEAP_FAULT_ROOM;

  kept = self->words + self->n_words;
  kept[0] = stack->depth;
  if (n_shared > 0)
    memcpy (kept + 1 + n_own, before + 1 + before[0] - n_shared, n_shared * sizeof *kept);
  if ((stack->kind & SONDE_HEAP_STACK_NARROW) == 0)
    memcpy (kept + 1, addrs, addrs_bytes);
  else if (!copy_distances (kept + 1, n_own, n_shared > 0 ? kept[1 + n_own] : 0, addrs))
    return SONDE_HEAP_FAULT_ZERO;
  self->notes[self->n_stacks] = 0;
  self->begins[self->n_stacks++] = self->n_words;
  self->n_words += stack->depth + 1u;
  *n_taken += addrs_bytes;
  return SONDE_HEAP_OK;
}

/* What is the same in both kinds of events. */
static SondeHeapFault
take_event (SondeCompactReader *self, uint64_t word, uint32_t dt_ns, SondeShortEvent *event)
{
  uint64_t address = word & ~SONDE_HEAP_KIND_MASK;

  if (address == 0 || address >= SONDE_HEAP_ADDRESS_END)
    return SONDE_HEAP_FAULT_ADDRESS;
  if (self->now_ns < 0)
    return SONDE_HEAP_FAULT_NO_CLOCK;
  if (self->now_ns > INT64_MAX - (int64_t) dt_ns)
    return SONDE_HEAP_FAULT_TIME;

  self->now_ns += dt_ns;
  *event = (SondeShortEvent){ .time_ns = self->now_ns, .address = address, .tid = self->tid };
  return SONDE_HEAP_OK;
}

static SondeHeapFault
take_block (SondeCompactReader *self, const SondeHeapBlock *block, SondeShortEvent *event)
{
  SondeHeapFault fault;

  if (block->size_bytes == 0 || block->size_bytes > INT64_MAX)
    return SONDE_HEAP_FAULT_SIZE;
  if (block->stack > self->n_stacks)
    return SONDE_HEAP_FAULT_UNDEFINED;
  fault = take_event (self, block->address, block->dt_ns, event);
  if (fault != SONDE_HEAP_OK)
    return fault;

  event->size_bytes = block->size_bytes;
  event->stack = block->stack;
  return SONDE_HEAP_OK;
}

SondeHeapFault
sonde_compact_reader_take (SondeCompactReader *self,
                           const uint8_t *from,
                           size_t n_waiting,
                           size_t *n_taken,
                           SondeShortEvent *event)
{
  Record record = { 0 };
  SondeHeapFault fault = copy_record (from, n_waiting, &record, n_taken);

  event->address = 0;
  self->last_kind = (uint32_t) (record.first & SONDE_HEAP_KIND_MASK);
  if (fault != SONDE_HEAP_OK)
    return fault;

  switch ((SondeHeapKind) self->last_kind)
    {
    case SONDE_HEAP_FREE:
      if (record.free.zero != 0)
        return SONDE_HEAP_FAULT_ZERO;
      return take_event (self, record.free.address, record.free.dt_ns, event);
    case SONDE_HEAP_BLOCK:
      return take_block (self, &record.block, event);
    case SONDE_HEAP_STACK:
      return take_stack (self, &record.stack, from + *n_taken, n_waiting - *n_taken, n_taken);
    case SONDE_HEAP_CLOCK:
      return take_clock (self, &record.clock);
    default:
      return SONDE_HEAP_FAULT_KIND;
    }
}

void
sonde_compact_reader_make_frame (const SondeCompactReader *self,
                                 const SondeShortEvent *event,
                                 SondeFrame *frame)
{
  SondeFrameAllocation *allocation = (SondeFrameAllocation *) frame;

  *allocation = (SondeFrameAllocation){
    .frame = { .len = sizeof *allocation,
               .cpu = -1,
               .time_ns = event->time_ns,
               .type = SONDE_FRAME_ALLOCATION },
    .address = event->address,
    .size_bytes = (int64_t) event->size_bytes,
    .tid = event->tid,
  };
  if (event->stack > 0)
    {
      const uint64_t *stack = self->words + self->begins[event->stack - 1];

      allocation->n_addrs = (uint16_t) stack[0];
      allocation->frame.len = (uint16_t) (sizeof *allocation + stack[0] * sizeof *stack);
      memcpy (allocation + 1, stack + 1, stack[0] * sizeof *stack);
    }
}

uint32_t *
sonde_compact_reader_note (SondeCompactReader *self, uint32_t stack, uint64_t era)
{
  if (self->era != era)
    memset (self->notes, 0, self->n_stacks * sizeof *self->notes);
  self->era = era;
  return &self->notes[stack - 1];
}
