/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/ring-reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared-ring/ring-atomic.h"

/* Copied at a time: as much as is given back at a time. */
#define BATCH_BYTES SONDE_RING_RELEASE_BYTES

struct SondeRingReader
{
  SondeRingMemory memory;
  SondeRingRights rights;
  SondeRingState state;
  SondeFrameFault frame_fault;
  SondeHeapFault record_fault;
  uint8_t fault_type;    /* of the frame that closed the ring */
  uint64_t head;         /* bytes taken since the ring was made */
  uint64_t released;     /* of those, given back to the writer */
  uint64_t tail;         /* as last loaded and checked */
  size_t budget_bytes;   /* that are left of this turn's */
  uint64_t wake_at;      /* as last told to the writer */
  uint64_t bad_position; /* of the writer, as loaded */
  uint32_t continued_in; /* by its end frame */
  SondeRingCounts counts;
  SondeCompactReader compact; /* all zero if there are no records */
  SondeShortEvent event;      /* of the last record */
  uint64_t batch_at;          /* the position of its first byte: not above @head */
  size_t batch_bytes;
  union
  {
    uint64_t align;
    uint8_t bytes[BATCH_BYTES];
  } batch;
  union
  {
    SondeFrame frame;
    uint64_t align;
    uint8_t bytes[SONDE_FRAME_MAX_SIZE + SONDE_FRAME_ALIGN];
  } copy; /* of what is no frame in the ring, or a longer one than the batch */
};

int
sonde_ring_reader_new (SondeRingMemory *memory,
                       const SondeRingRights *rights,
                       SondeRingReader **self)
{
  SondeRingReader *made = malloc (sizeof *made);

  if (made == NULL)
    return -ENOMEM;

  memset (made, 0, offsetof (SondeRingReader, batch));
  made->memory = *memory;
  made->rights = *rights;
  made->wake_at = 1; /* as the ring was made */
  if ((memory->features & SONDE_RING_COMPACT_HEAP) != 0
      && (rights->types & SONDE_RING_TYPE (SONDE_FRAME_ALLOCATION)) != 0
      && sonde_compact_reader_init (&made->compact, memory->size_bytes) < 0)
    {
      free (made);
      return -ENOMEM;
    }
  memset (memory, 0, sizeof *memory);

  *self = made;
  return 0;
}

void
sonde_ring_reader_free (SondeRingReader *self)
{
  if (self == NULL)
    return;

  sonde_compact_reader_clear (&self->compact);
  sonde_ring_memory_unmap (&self->memory);
  free (self);
}

static int
end_error (const SondeRingReader *self)
{
  if (self->state == SONDE_RING_IS_OPEN)
    return 0;

  return self->state == SONDE_RING_HAS_ENDED ? -ESHUTDOWN : -EBADMSG;
}

static int
close_ring (SondeRingReader *self, SondeRingState state)
{
  self->state = state;
  return end_error (self);
}

static size_t
body_index (const SondeRingReader *self, uint64_t position)
{
  return (size_t) (position & (self->memory.size_bytes - 1));
}

/* How far the writer says it is, as bytes since the ring was made; false if that is outside. */
static bool
load_position (SondeRingReader *self, uint64_t *position)
{
  size_t size_bytes = self->memory.size_bytes;
  uint32_t index;

  if (self->memory.kind == SONDE_RING_NATIVE)
    {
      /* Pairs with the release in publish_tail() of the writer: frames are written before it. */
      *position = self->bad_position = sonde_ring_load_acquire (&self->memory.header->tail);
      return *position < self->tail || *position - self->head <= size_bytes;
    }

  /* Pairs with mapped_ring_buffer_advance() of libsysprof-capture, sequentially consistent. */
  index = sonde_ring_load_acquire (&self->memory.header->tail_index);
  self->bad_position = index;
  *position = self->head + ((index - body_index (self, self->head)) & (size_bytes - 1));

  return index < size_bytes;
}

static int
load_tail (SondeRingReader *self)
{
  uint64_t tail;

  if (!load_position (self, &tail))
    return close_ring (self, SONDE_RING_FAULT_RANGE);
  if (tail % SONDE_FRAME_ALIGN != 0)
    return close_ring (self, SONDE_RING_FAULT_ALIGN);
  if (tail < self->tail)
    return close_ring (self, SONDE_RING_FAULT_BACKWARDS);

  self->tail = tail;
  return 0;
}

int
sonde_ring_reader_begin (SondeRingReader *self, size_t budget_bytes)
{
  int r = end_error (self);

  if (r == 0)
    r = load_tail (self);
  if (r < 0)
    return r;

  self->budget_bytes = budget_bytes;
  return 0;
}

/* What the batch has from the reader's position on, at least @wanted_bytes if it can and they wait;
 * the fence keeps the compiler from looking at the shared bytes where the copy is meant. What is
 * cut off at its end comes again, in whole, with the next one. */
static inline uint8_t *
look (SondeRingReader *self, size_t wanted_bytes, size_t *n_bytes)
{
  size_t used_bytes = (size_t) (self->head - self->batch_at);
  size_t waiting_bytes = (size_t) (self->tail - self->head);

  if (used_bytes >= self->batch_bytes
      || (self->batch_bytes - used_bytes < wanted_bytes
          && self->batch_bytes - used_bytes < waiting_bytes))
    {
      self->batch_at = self->head;
      self->batch_bytes = waiting_bytes < BATCH_BYTES ? waiting_bytes : BATCH_BYTES;
      memcpy (self->batch.bytes, self->memory.body + body_index (self, self->head),
              self->batch_bytes);
      sonde_ring_signal_fence ();
      used_bytes = 0;
    }
  *n_bytes = self->batch_bytes - used_bytes;
  return self->batch.bytes + used_bytes;
}

/* A copy of the frame that is there, as far as its length makes sense: in the batch, or, if it is
 * longer than that, behind a copy of the header that is already there. */
static SondeFrameFault
copy_frame (SondeRingReader *self, SondeFrame **frame)
{
  size_t waiting_bytes = (size_t) (self->tail - self->head);
  size_t size_bytes = sizeof (SondeFrame);
  size_t n_bytes;
  SondeFrame *found = (void *) look (self, size_bytes, &n_bytes);

  *frame = found;
  if (n_bytes < size_bytes)
    return SONDE_FRAME_FAULT_SHORT_HEADER;

  if (found->len > size_bytes && found->len <= waiting_bytes)
    {
      size_bytes = found->len;
      *frame = found = (void *) look (self, size_bytes, &n_bytes);
    }
  if (n_bytes < size_bytes)
    {
      self->copy.frame = *found;
      memcpy (self->copy.bytes + sizeof *found,
              self->memory.body + body_index (self, self->head) + sizeof *found,
              size_bytes - sizeof *found);
      sonde_ring_signal_fence ();
      *frame = &self->copy.frame;
    }
  if ((*frame)->type == SONDE_RING_END && (*frame)->len == SONDE_RING_END_BYTES)
    return SONDE_FRAME_OK;

  return sonde_frame_check ((const uint8_t *) *frame, size_bytes);
}

static int
refuse_frame (SondeRingReader *self,
              SondeRingState state,
              SondeFrameFault fault,
              const SondeFrame *frame)
{
  self->frame_fault = fault;
  self->fault_type = fault == SONDE_FRAME_FAULT_SHORT_HEADER ? 0 : frame->type;
  return close_ring (self, state);
}

/* Takes room and budget for what was read. */
static void
advance (SondeRingReader *self, size_t taken_bytes, size_t given_bytes)
{
  size_t used_bytes = taken_bytes > given_bytes ? taken_bytes : given_bytes;

  self->head += taken_bytes;
  self->counts.bytes += taken_bytes;
  self->budget_bytes -= used_bytes < self->budget_bytes ? used_bytes : self->budget_bytes;
}

/* Takes the record in the batch. One whose stack is longer than that is read where it lies, once.
 * Returns: 1 it is an event */
static int
take_record (SondeRingReader *self, const uint8_t *from, size_t n_bytes)
{
  const uint64_t first = *(const uint64_t *) (const void *) from;
  size_t taken_bytes = 0;
  size_t size_bytes = sizeof (SondeHeapBlock);

  /* Stacks are longer than others. */
  if (n_bytes < size_bytes || (first & SONDE_HEAP_KIND_MASK) == SONDE_HEAP_STACK)
    size_bytes = sonde_compact_reader_measure (first);
  if (n_bytes < size_bytes)
    from = look (self, size_bytes, &n_bytes);
  if (n_bytes < size_bytes && n_bytes < self->tail - self->head)
    {
      from = self->memory.body + body_index (self, self->head);
      n_bytes = (size_t) (self->tail - self->head);
    }
  self->record_fault
      = sonde_compact_reader_take (&self->compact, from, n_bytes, &taken_bytes, &self->event);
  if (self->record_fault != SONDE_HEAP_OK)
    return close_ring (self, SONDE_RING_FAULT_RECORD);

  if (self->event.address == 0)
    {
      advance (self, taken_bytes, sonde_compact_reader_kept_bytes (&self->compact));
      return 0;
    }
  advance (self, taken_bytes, sizeof (SondeFrameAllocation));
  self->counts.frames++;
  return 1;
}

static int
take_frame (SondeRingReader *self, const SondeFrame **taken)
{
  SondeFrame *frame;
  SondeFrameFault fault = copy_frame (self, &frame);

  if (fault != SONDE_FRAME_OK)
    return refuse_frame (self, SONDE_RING_FAULT_FRAME, fault, frame);
  if (frame->type == SONDE_RING_END)
    {
      self->head += SONDE_RING_END_BYTES;
      self->bad_position = self->tail;
      if (self->memory.kind != SONDE_RING_NATIVE)
        return close_ring (self, SONDE_RING_HAS_ENDED);
      if (self->head != self->tail)
        return close_ring (self, SONDE_RING_FAULT_END);
      self->continued_in = frame->padding2;
      return close_ring (self, SONDE_RING_HAS_ENDED);
    }
  if ((self->rights.types & SONDE_RING_TYPE (frame->type)) == 0)
    return refuse_frame (self, SONDE_RING_FAULT_REFUSED, fault, frame);

  advance (self, frame->len, frame->len);
  self->counts.frames++;
  self->counts.foreign_pids += frame->pid != self->rights.pid;
  frame->pid = self->rights.pid;
  *taken = frame;
  return 1;
}

/* At most once for each 8 bytes of the ring in a turn: frames and records have at least 16. */
int
sonde_ring_reader_next_short (SondeRingReader *self,
                              const SondeFrame **frame,
                              const SondeShortEvent **event)
{
  int r = end_error (self);

  while (r == 0)
    {
      const uint8_t *from;
      size_t n_bytes;

      if (self->head == self->tail || self->budget_bytes == 0)
        return 0;
      from = look (self, sizeof (uint64_t), &n_bytes);
      if (self->compact.words == NULL
          || (*(const uint64_t *) (const void *) from & SONDE_HEAP_KIND_MASK) == 0)
        return take_frame (self, frame);
      r = take_record (self, from, n_bytes);
    }
  if (r == 1)
    {
      *frame = NULL;
      *event = &self->event;
    }
  return r;
}

SondeFrame *
sonde_ring_reader_make_frame (SondeRingReader *self)
{
  SondeFrame *frame = &self->copy.frame;

  sonde_compact_reader_make_frame (&self->compact, &self->event, frame);
  frame->pid = self->rights.pid;
  advance (self, 0, frame->len - sizeof (SondeFrameAllocation));
  return frame;
}

uint32_t *
sonde_ring_reader_note (SondeRingReader *self, uint64_t era)
{
  return sonde_compact_reader_note (&self->compact, self->event.stack, era);
}

int
sonde_ring_reader_next (SondeRingReader *self, const SondeFrame **frame)
{
  const SondeShortEvent *event;
  int r = sonde_ring_reader_next_short (self, frame, &event);

  if (r == 1 && *frame == NULL)
    *frame = sonde_ring_reader_make_frame (self);
  return r;
}

void
sonde_ring_reader_release (SondeRingReader *self)
{
  SondeRingHeader *header = self->memory.header;

  /* Both pair with the acquire in load_head() of the writer: our copies are made before it may
   * write over them. */
  if (self->memory.kind == SONDE_RING_NATIVE)
    sonde_ring_store_release (&header->head, self->head);
  else
    sonde_ring_store_release (&header->head_index, (uint32_t) body_index (self, self->head));
  self->released = self->head;
}

/* One that claims to wait all the time costs a store a frame, and nobody else anything. */
void
sonde_ring_reader_release_piece (SondeRingReader *self)
{
  if (self->head - self->released >= SONDE_RING_RELEASE_BYTES
      || (self->memory.kind == SONDE_RING_NATIVE
          && sonde_ring_load_relaxed (&self->memory.header->is_waiting) != 0))
    sonde_ring_reader_release (self);
}

bool
sonde_ring_reader_has_more (const SondeRingReader *self)
{
  return self->state == SONDE_RING_IS_OPEN && self->head < self->tail;
}

size_t
sonde_ring_reader_fill (const SondeRingReader *self)
{
  return (size_t) (self->tail - self->head);
}

size_t
sonde_ring_reader_size (const SondeRingReader *self)
{
  return self->memory.size_bytes;
}

bool
sonde_ring_reader_has_doorbell (const SondeRingReader *self)
{
  return self->memory.kind == SONDE_RING_NATIVE;
}

bool
sonde_ring_reader_sleep (SondeRingReader *self, size_t fill_bytes)
{
  SondeRingHeader *header = self->memory.header;
  uint64_t wake_at = self->head + fill_bytes;

  if (self->state != SONDE_RING_IS_OPEN)
    return false;
  if (self->memory.kind != SONDE_RING_NATIVE)
    return sonde_ring_reader_fill (self) < fill_bytes;

  /* A wish that stays the same is not written again: see release() of the writer. */
  if (wake_at != self->wake_at)
    sonde_ring_store_relaxed (&header->wake_at, self->wake_at = wake_at);
  sonde_ring_full_fence ();

  return sonde_ring_load_relaxed (&header->tail) < wake_at;
}

void
sonde_ring_reader_pause (SondeRingReader *self, bool is_paused)
{
  if (self->memory.kind == SONDE_RING_NATIVE)
    sonde_ring_store_relaxed (&self->memory.header->is_paused,
                              is_paused ? SONDE_RING_IS_PAUSED : SONDE_RING_RUNS);
}

void
sonde_ring_reader_leave (SondeRingReader *self)
{
  if (sonde_ring_reader_has_doorbell (self))
    sonde_ring_store_relaxed (&self->memory.header->is_paused, SONDE_RING_IS_LEFT);
}

SondeRingState
sonde_ring_reader_state (const SondeRingReader *self)
{
  return self->state;
}

uint32_t
sonde_ring_reader_continued_in (const SondeRingReader *self)
{
  return self->continued_in;
}

SondeFrameFault
sonde_ring_reader_frame_fault (const SondeRingReader *self)
{
  return self->frame_fault;
}

SondeHeapFault
sonde_ring_reader_record_fault (const SondeRingReader *self)
{
  return self->record_fault;
}

const char *
sonde_ring_reader_explain (const SondeRingReader *self, char *text, size_t text_bytes)
{
  static const char *const texts[SONDE_N_RING_STATES] = {
    [SONDE_RING_IS_OPEN] = "the ring is open",
    [SONDE_RING_HAS_ENDED] = "the ring has ended",
    [SONDE_RING_FAULT_RANGE] = "the writer's position is outside of the ring",
    [SONDE_RING_FAULT_ALIGN] = "the writer's position is no multiple of 8",
    [SONDE_RING_FAULT_BACKWARDS] = "the writer's position moved backwards",
    [SONDE_RING_FAULT_FRAME] = "malformed",
    [SONDE_RING_FAULT_REFUSED] = "this producer may not send it",
    [SONDE_RING_FAULT_RECORD] = "impossible",
    [SONDE_RING_FAULT_END] = "the writer went on behind its end frame",
  };
  const char *why = texts[self->state];

  if (self->state == SONDE_RING_FAULT_FRAME)
    why = sonde_frame_fault_to_string (self->frame_fault);

  if (self->state == SONDE_RING_FAULT_FRAME || self->state == SONDE_RING_FAULT_REFUSED)
    snprintf (text, text_bytes, "frame %llu (%s, type %u), byte %llu of the ring: %s",
              (unsigned long long) self->counts.frames,
              sonde_frame_type_to_string (self->fault_type), self->fault_type,
              (unsigned long long) self->head, why);
  else if (self->state == SONDE_RING_FAULT_RECORD)
    snprintf (text, text_bytes, "event %llu (%s in short), byte %llu of the ring: %s",
              (unsigned long long) self->counts.frames,
              sonde_heap_kind_to_string (self->compact.last_kind), (unsigned long long) self->head,
              sonde_heap_fault_to_string (self->record_fault));
  else if (self->state >= SONDE_RING_FAULT_RANGE)
    snprintf (text, text_bytes, "%s: %llu, after %llu", why,
              (unsigned long long) self->bad_position,
              (unsigned long long) (self->state == SONDE_RING_FAULT_END ? self->head : self->tail));
  else
    snprintf (text, text_bytes, "%s", why);

  return text;
}

/* The writer may write anything there; an account that shrinks is not one. */
static void
raise_count (uint64_t *count, const uint64_t *shared)
{
  uint64_t value = sonde_ring_load_relaxed (shared);

  if (value > *count)
    *count = value;
}

void
sonde_ring_reader_count (SondeRingReader *self, SondeRingCounts *counts)
{
  const SondeRingHeader *header = self->memory.header;
  SondeRingLosses *claimed = &self->counts.claimed;
  uint64_t n_committed = self->counts.frames;

  if (self->memory.kind == SONDE_RING_NATIVE)
    {
      raise_count (&claimed->lost_events, &header->losses.lost_events);
      raise_count (&claimed->lost_bytes, &header->losses.lost_bytes);
      raise_count (&claimed->blocked_events, &header->losses.blocked_events);
      raise_count (&claimed->blocked_bytes, &header->losses.blocked_bytes);
      raise_count (&claimed->blocked_ns, &header->losses.blocked_ns);
      raise_count (&n_committed, &header->sequence);
    }

  /* Saturates rather than claim less than was taken. */
  if (n_committed > UINT64_MAX - claimed->lost_events)
    n_committed = UINT64_MAX - claimed->lost_events;
  if (self->counts.produced < n_committed + claimed->lost_events)
    self->counts.produced = n_committed + claimed->lost_events;

  *counts = self->counts;
}
