/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lets foreign bytes be a ring's body and its writer's positions, and checks what the reader gives.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared-ring/ring-reader.h"
#include "tests/fuzz/fuzz.h"

#define RING_BYTES  SONDE_RING_MIN_BYTES
#define FRAME_BYTES 64
#define MAX_TURNS   8
#define PID         4242

/*
 * An input: kind (its low bit; its second one: heap events may be records; its third one: these are
 * taken in short) and number of turns, a byte each; where its frames lie, 4 bytes; for each turn
 * the writer's position, 8 bytes, and the reader's budget, 4 bytes; the rest are the frames.
 * Everywhere else in the body are allocations of 64 bytes, so that the reader gets there.
 */
typedef struct
{
  const uint8_t *data;
  size_t size;
} Input;

static uint64_t
take (Input *input, size_t n_bytes)
{
  uint64_t value = 0;

  if (n_bytes > input->size)
    n_bytes = input->size;
  memcpy (&value, input->data, n_bytes);
  input->data += n_bytes;
  input->size -= n_bytes;

  return value;
}

static void
fill_body (uint8_t *body, const Input *input, size_t at)
{
  SondeFrameAllocation allocation = {
    .frame = { .len = FRAME_BYTES, .cpu = -1, .pid = PID, .type = SONDE_FRAME_ALLOCATION },
    .size_bytes = 8,
    .n_addrs = 2,
  };

  for (size_t i = 0; i < RING_BYTES; i += FRAME_BYTES)
    memcpy (body + i, &allocation, sizeof allocation);
  /* Through the second mapping where it wraps. */
  memcpy (body + at, input->data, input->size < RING_BYTES ? input->size : RING_BYTES);
}

static void
check_frame (const SondeFrame *frame)
{
  if (frame->pid != PID || sonde_frame_check (frame, frame->len) != SONDE_FRAME_OK
      || (SONDE_RING_TYPE (frame->type) & SONDE_RING_COLLECTOR_TYPES) == 0)
    abort ();
}

/* Its stack is known by the note of those before it that had the same number. */
static const SondeFrame *
take_short (SondeRingReader *reader, const SondeShortEvent *event)
{
  const uint64_t era = 1 + (event->address >> 3) % 2;
  const SondeFrame *frame;
  uint32_t *note;

  if (event->address == 0 || event->address >= SONDE_HEAP_ADDRESS_END || event->time_ns < 0
      || event->size_bytes > INT64_MAX)
    abort ();
  if (event->stack == 0)
    return sonde_ring_reader_make_frame (reader);

  note = sonde_ring_reader_note (reader, era);
  frame = sonde_ring_reader_make_frame (reader);
  if (*note != 0 && *note != frame->len)
    abort ();
  *note = frame->len;
  return frame;
}

/* One turn: takes no more than waited, but for records, which grow, and by a frame more than the
 * budget. */
static void
take_turn (SondeRingReader *reader, size_t budget_bytes, bool is_compact, bool is_short)
{
  const SondeShortEvent *event;
  const SondeFrame *frame;
  size_t taken_bytes = 0;
  size_t fill_bytes;
  int r = sonde_ring_reader_begin (reader, budget_bytes);

  fill_bytes = sonde_ring_reader_fill (reader);
  if (r == 0 && fill_bytes > RING_BYTES)
    abort ();
  while (r == 0
         && (r = is_short ? sonde_ring_reader_next_short (reader, &frame, &event)
                          : sonde_ring_reader_next (reader, &frame))
                == 1)
    {
      if (taken_bytes >= budget_bytes)
        abort ();
      if (frame == NULL)
        frame = take_short (reader, event);
      check_frame (frame);
      taken_bytes += frame->len;
      sonde_ring_reader_release_piece (reader);
      r = 0;
    }
  if (!is_compact && taken_bytes > 0 && taken_bytes > fill_bytes)
    abort ();
  if (sonde_ring_reader_has_more (reader) && taken_bytes == 0 && budget_bytes > RING_BYTES)
    abort ();
  sonde_ring_reader_release (reader);
  sonde_ring_reader_sleep (reader, 1);
}

static void
check_end (SondeRingReader *reader, bool is_compact)
{
  const size_t least_bytes = is_compact ? SONDE_HEAP_MIN_BYTES : SONDE_FRAME_MIN_SIZE;
  SondeRingCounts counts;
  char text[256];

  sonde_ring_reader_count (reader, &counts);
  if (counts.produced < counts.frames || counts.bytes < counts.frames * least_bytes)
    abort ();
  if (sonde_ring_reader_explain (reader, text, sizeof text)[0] == '\0')
    abort ();
  if (sonde_ring_reader_continued_in (reader) != 0
      && sonde_ring_reader_state (reader) != SONDE_RING_HAS_ENDED)
    abort ();
  if ((sonde_ring_reader_frame_fault (reader) != SONDE_FRAME_OK)
      != (sonde_ring_reader_state (reader) == SONDE_RING_FAULT_FRAME))
    abort ();
  if ((sonde_ring_reader_record_fault (reader) != SONDE_HEAP_OK)
      != (sonde_ring_reader_state (reader) == SONDE_RING_FAULT_RECORD))
    abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, PID };
  Input input = { data, size };
  SondeRingOptions options = { SONDE_RING_NATIVE, RING_BYTES, 0, 0 };
  SondeRingMemory memory;
  SondeRingHeader *header;
  SondeRingReader *reader;
  Input turns;
  size_t n_turns, at;
  bool is_compact;
  uint8_t *body;
  uint8_t kind;
  int fd;

  kind = (uint8_t) take (&input, 1);
  if ((kind & 1) != 0)
    options.kind = SONDE_RING_SYSPROF;
  if ((kind & 2) != 0)
    options.features = SONDE_RING_COMPACT_HEAP;
  is_compact = kind % 4 == 2;
  n_turns = take (&input, 1) % (MAX_TURNS + 1);
  at = take (&input, 4) % RING_BYTES / SONDE_FRAME_ALIGN * SONDE_FRAME_ALIGN;
  turns = input;
  for (size_t i = 0; i < n_turns; i++)
    {
      take (&input, 8);
      take (&input, 4);
    }

  if (sonde_ring_memory_create (&options, &memory, &fd) < 0)
    abort ();
  close (fd);
  header = memory.header;
  body = memory.body;
  fill_body (body, &input, at);
  if (sonde_ring_reader_new (&memory, &rights, &reader) < 0)
    abort ();

  for (size_t i = 0; i < n_turns; i++)
    {
      header->tail = take (&turns, 8);
      header->tail_index = (uint32_t) header->tail;
      header->is_waiting = header->tail % 16 != 0;
      take_turn (reader, (size_t) take (&turns, 4), is_compact, (kind & 4) != 0);
    }
  check_end (reader, is_compact);
  sonde_ring_reader_free (reader);

  return 0;
}
