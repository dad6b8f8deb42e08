/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes frames out of a ring, and believes nothing that its writer wrote. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/frame-check.h"
#include "shared-ring/compact-reader.h"
#include "shared-ring/ring-layout.h"
#include "shared-ring/ring-memory.h"

/**
 * SECTION: ring-reader
 *
 * Takes frames out of a ring as copies that nobody can change any more. Geometry and position are
 * private. The writer's position is loaded once a turn and checked against the last one; a frame's
 * header is copied, then its body by the length in the copy, then the copy is judged. What is
 * impossible closes this ring for good, with a reason. One thread per reader.
 *
 *     r = sonde_ring_reader_begin (reader, BUDGET);
 *     while (r == 0 && (r = sonde_ring_reader_next (reader, &frame)) == 1)
 *       r = take (frame);
 *     sonde_ring_reader_release (reader);
 *
 * Where the ring allows it, heap events may also come in short (heap-record.h). They are given out
 * as the ALLOCATION frames that they stand for: who takes frames does not see the difference. Who
 * has use for them as they are saves what it costs to make frames:
 *
 *     while (r == 0 && (r = sonde_ring_reader_next_short (reader, &frame, &event)) == 1)
 *       r = frame != NULL ? take (frame) : take_event (event);
 *
 * A writer that died, in whatever state, is drained in the same way: what it committed are whole
 * frames, and what it had not is not seen.
 */
typedef struct SondeRingReader SondeRingReader;

/* Frame types that a collector may send: each is about its own process alone. */
#define SONDE_RING_TYPE(type) (1u << (type))
#define SONDE_RING_COLLECTOR_TYPES                                                                 \
  (SONDE_RING_TYPE (SONDE_FRAME_SAMPLE) | SONDE_RING_TYPE (SONDE_FRAME_JITMAP)                     \
   | SONDE_RING_TYPE (SONDE_FRAME_CTRDEF) | SONDE_RING_TYPE (SONDE_FRAME_CTRSET)                   \
   | SONDE_RING_TYPE (SONDE_FRAME_MARK) | SONDE_RING_TYPE (SONDE_FRAME_LOG)                        \
   | SONDE_RING_TYPE (SONDE_FRAME_ALLOCATION))

/* What a writer may say. */
typedef struct
{
  uint32_t types; /* SONDE_RING_TYPE() of each frame type allowed */
  int32_t pid;    /* whom the kernel vouches for: every frame gets it, whatever it claims */
} SondeRingRights;

/* Whether and why a ring has ended. */
typedef enum
{
  SONDE_RING_IS_OPEN = 0,
  SONDE_RING_HAS_ENDED,       /* by its end frame */
  SONDE_RING_FAULT_RANGE,     /* the writer's position is outside of the ring */
  SONDE_RING_FAULT_ALIGN,     /* it is no multiple of 8 */
  SONDE_RING_FAULT_BACKWARDS, /* it is behind what it was */
  SONDE_RING_FAULT_FRAME,     /* a frame is malformed: sonde_ring_reader_frame_fault() */
  SONDE_RING_FAULT_REFUSED,   /* a frame of a type that this writer may not send */
  SONDE_RING_FAULT_RECORD,    /* a record is impossible: sonde_ring_reader_record_fault() */
  SONDE_RING_FAULT_END,       /* there is something behind its end frame */
  SONDE_N_RING_STATES,
} SondeRingState;

typedef struct
{
  uint64_t frames;       /* taken, by our own count; an event in short is one */
  uint64_t bytes;        /* of those, as they lay in the ring, with what they needed beside them */
  uint64_t foreign_pids; /* of those, how many claimed another pid */
  uint64_t produced;     /* committed or lost, by the writer's own account; not below @frames */
  SondeRingLosses
      claimed; /* the writer's account; all 0 of SONDE_RING_SYSPROF, which counts none */
} SondeRingCounts;

/**
 * sonde_ring_reader_new:
 * @memory: (transfer full): of sonde_ring_memory_create(); all zero afterwards
 * @self: (out): to be freed with sonde_ring_reader_free()
 *
 * A ring whose heap events may be records costs what compact-reader.h says beside its own memory.
 *
 * Errors: -ENOMEM (@memory is then still the caller's)
 */
int sonde_ring_reader_new (SondeRingMemory *memory,
                           const SondeRingRights *rights,
                           SondeRingReader **self);

/* Unmaps the ring; the writer's mapping stays. Accepts NULL. */
void sonde_ring_reader_free (SondeRingReader *self);

/**
 * sonde_ring_reader_begin:
 * @budget_bytes: of frames to be taken in this turn, as they are given out; the frame that passes
 *   it is the last one
 *
 * Begins a turn: looks how far the writer is. What it writes later is of the next turn.
 *
 * Returns: 0
 * Errors: -ESHUTDOWN the ring has ended; -EBADMSG it is, or was before, closed for a fault
 */
int sonde_ring_reader_begin (SondeRingReader *self, size_t budget_bytes);

/**
 * sonde_ring_reader_next:
 * @frame: (out) (transfer none): the oldest frame, a copy that passed sonde_frame_check() and
 *   sonde_ring_rights; valid until the next call
 *
 * Returns: 1 a frame; 0 nothing more in this turn
 * Errors: as of sonde_ring_reader_begin()
 */
int sonde_ring_reader_next (SondeRingReader *self, const SondeFrame **frame);

/**
 * sonde_ring_reader_next_short:
 * @frame: (out): as of sonde_ring_reader_next(); NULL: it is an event in short
 * @event: (out) (transfer none): that one, valid until the next call
 *
 * As sonde_ring_reader_next(), but for these: they take the least frame's part of the budget.
 */
int sonde_ring_reader_next_short (SondeRingReader *self,
                                  const SondeFrame **frame,
                                  const SondeShortEvent **event);
/* The frame that the event in short stands for which was given out last, once; valid until the next
 * call. Its stack, too, is taken from the budget. */
SondeFrame *sonde_ring_reader_make_frame (SondeRingReader *self);
/* What its user keeps of the stack that this event has: 0 when the program defines it, and when
 * @era is another one than the last time. Valid until the next call. */
uint32_t *sonde_ring_reader_note (SondeRingReader *self, uint64_t era);

/* Gives the room of all frames taken so far back to the writer: at the end of a turn. */
void sonde_ring_reader_release (SondeRingReader *self);

/* The same, to be called after each frame where the writer may wait for room: when it says that it
 * does, or when a piece of SONDE_RING_RELEASE_BYTES is there. Each release takes the line with the
 * reader's position from the writer. */
void sonde_ring_reader_release_piece (SondeRingReader *self);

/* Whether the turn's budget ended it before all was taken that was seen at its beginning. */
bool sonde_ring_reader_has_more (const SondeRingReader *self);
/* Bytes that wait, as seen at the beginning of the turn. */
size_t sonde_ring_reader_fill (const SondeRingReader *self);
/* Bytes of the ring's body. */
size_t sonde_ring_reader_size (const SondeRingReader *self);
/* Whether its writer can wake a reader: see sonde_ring_reader_sleep(). */
bool sonde_ring_reader_has_doorbell (const SondeRingReader *self);

/**
 * sonde_ring_reader_sleep:
 * @fill_bytes: how much shall wait until the writer rings, from 1 to the ring's size
 *
 * Asks for the doorbell, which rings once: when so much waits, even if the reader is awake by then.
 * A writer that commits at the very time of a new wish may miss it, so the sleep behind it needs a
 * timer; if the wish is still the same afterwards, the next sleep may go without (ring-schedule.h).
 *
 * Returns: whether to sleep; false: that much waits already, or the ring has ended
 */
bool sonde_ring_reader_sleep (SondeRingReader *self, size_t fill_bytes);

/* Tells a native writer to make no events, or to make them again. Nothing for SONDE_RING_SYSPROF.
 */
void sonde_ring_reader_pause (SondeRingReader *self, bool is_paused);
/* Tells a native writer, if there still is one, that this ring takes no more events and that it may
 * have another. Nothing for SONDE_RING_SYSPROF. */
void sonde_ring_reader_leave (SondeRingReader *self);

SondeRingState sonde_ring_reader_state (const SondeRingReader *self);
/* What number its end frame says that its writer goes on in; 0: none, or it has not ended. */
uint32_t sonde_ring_reader_continued_in (const SondeRingReader *self);
/* The fault behind SONDE_RING_FAULT_FRAME, else SONDE_FRAME_OK. */
SondeFrameFault sonde_ring_reader_frame_fault (const SondeRingReader *self);
/* The fault behind SONDE_RING_FAULT_RECORD, else SONDE_HEAP_OK. */
SondeHeapFault sonde_ring_reader_record_fault (const SondeRingReader *self);

/**
 * sonde_ring_reader_explain:
 * @text: (out): a sentence without its full stop, such as "frame 17 (LOG), byte 1064 of the ring:
 *   its length is not a multiple of 8"
 *
 * Returns: @text
 */
const char *sonde_ring_reader_explain (const SondeRingReader *self, char *text, size_t text_bytes);

/* What was taken, and what the writer says that it made and lost, read now. Its account never
 * decreases here, and is complete when it has ended or died and all is taken. */
void sonde_ring_reader_count (SondeRingReader *self, SondeRingCounts *counts);
