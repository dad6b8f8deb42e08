/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory of a ring, as its two sides share it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/frame.h"

/**
 * SECTION: ring-layout
 *
 * A ring is a memfd: one page of header, then the body. It carries capture frames from one thread
 * of a profiled program (the writer) to a profiler (the reader). Frames carry their own length, so
 * there is no other framing; each lies at a multiple of 8. Each side maps the body twice in a row:
 * a frame that wraps is contiguous for both. Between the frames there may be records, which are
 * told apart by their first bits (heap-record.h), if the ring's @features say so.
 *
 * Two kinds of writers share this memory:
 *
 * - SONDE_RING_SYSPROF, programs built with libsysprof-capture, know the first 16 bytes. head_index
 *   and tail_index are offsets into the body, equal when the ring is empty; a full ring keeps at
 *   least one byte free.
 * - SONDE_RING_NATIVE, our own, use @head and @tail. These count bytes since the ring was made and
 *   never wrap, so that the ring can be full, a position that moves backwards is seen, and
 *   @wake_at can name a moment. The two indexes stay 0.
 *
 * A writer that may wait for room (@wait_us) and finds none says so in @is_waiting while it does: a
 * hint for the reader, who gives room back at once then, and otherwise in pieces of
 * SONDE_RING_RELEASE_BYTES. A wait of SONDE_RING_FAIR_WAIT_US or less is an offer to be fair: then
 * a writer waits for a fifth of its time at most, and drops what comes beyond that. Who may wait
 * longer waits as often as it takes.
 *
 * Every word has one owner, who alone writes it, but for @magic to @wait_us, which are the maker's
 * and do not change. The words of one owner that change together share 128 bytes, two cache lines,
 * because processors fetch them in pairs. Neither side believes the other: the reader keeps the
 * geometry and its own position in private memory, and reads back nothing that it wrote.
 *
 * The end of a ring is a frame of type SONDE_RING_END, 24 bytes long. Writers keep that much room.
 * Its @padding2 is 0, or the number of the ring that its writer goes on in, by the request that got
 * it (control-message.h): nothing moves, and the reader takes the first one to its end before the
 * next.
 *
 * Source: docs/protocol.md, "Shared ring"
 */

#define SONDE_RING_MAGIC   0x676E5253u /* "SRng" in memory of a little-endian machine */
#define SONDE_RING_VERSION 1

/* Bits of @features, of native rings: what the reader understands. A writer that does not know a
 * bit, or does not want to, does without. */
#define SONDE_RING_COMPACT_HEAP 1u /* heap events may be records: heap-record.h */
#define SONDE_RING_MAY_GROW                                                                        \
  2u /* who finds it full may ask for a larger one: SONDE_CONTROL_GROW                             \
      */

/* Frame types of rings only. Source: SYSPROF_CAPTURE_FRAME_* of libsysprof-capture */
#define SONDE_RING_END       255
#define SONDE_RING_END_BYTES 24

/* Bytes of the body: a power of two. The smallest holds the largest frame and an end frame;
 * SONDE_RING_DEFAULT_BYTES holds 1,000 to 4,000 events. */
#define SONDE_RING_MIN_BYTES     (128 * 1024)
#define SONDE_RING_MAX_BYTES     (16 * 1024 * 1024)
#define SONDE_RING_DEFAULT_BYTES (256 * 1024)

#define SONDE_RING_OWNER_BYTES   128

#define SONDE_RING_RELEASE_BYTES 4096
#define SONDE_RING_FAIR_WAIT_US  100000

/* What a reader wishes. Writers that know the first two alone take any other for a pause. */
typedef enum
{
  SONDE_RING_RUNS = 0,
  SONDE_RING_IS_PAUSED = 1,
  SONDE_RING_IS_LEFT = 2, /* nobody has its link any more: who still writes gets another ring */
} SondeRingPause;

typedef enum
{
  SONDE_RING_SYSPROF = 1,
  SONDE_RING_NATIVE = 2,
} SondeRingKind;

/* What a writer did, by its own account. Each only grows. */
typedef struct
{
  uint64_t lost_events;    /* had no room, or interrupted another event of the same thread */
  uint64_t lost_bytes;     /* of those, as asked for */
  uint64_t blocked_events; /* waited for room, whether or not they got it */
  uint64_t blocked_bytes;  /* of those, as asked for */
  uint64_t blocked_ns;     /* that they waited, together */
} SondeRingLosses;

typedef struct
{
  uint32_t head_index;   /* reader's, SONDE_RING_SYSPROF: bytes into the body */
  uint32_t tail_index;   /* writer's, SONDE_RING_SYSPROF: bytes into the body */
  uint32_t offset_bytes; /* from the start of the file to the body: the size of a page */
  uint32_t size_bytes;   /* of the body */
  uint32_t magic;        /* SONDE_RING_MAGIC in a native ring, else zero */
  uint16_t version;      /* SONDE_RING_VERSION */
  uint16_t padding;
  uint32_t features; /* SONDE_RING_COMPACT_HEAP, SONDE_RING_MAY_GROW */
  uint32_t wait_us;  /* how long the writer may wait for room, each time; 0: it drops */

  /* Reader's: bytes taken since the ring was made. Written a piece at a time, and at each turn's
   * end. */
  _Alignas(SONDE_RING_OWNER_BYTES) uint64_t head;

  /* Reader's: wishes. The commit that makes @tail reach or pass @wake_at rings the doorbell; 1 at
   * first, so that the first frame does. */
  _Alignas(SONDE_RING_OWNER_BYTES) uint64_t wake_at;
  uint32_t is_paused; /* SondeRingPause; not 0: the session wants no events; they are no losses */
  uint32_t padding2;

  /* Writer's: bytes written since the ring was made, and frames. */
  _Alignas(SONDE_RING_OWNER_BYTES) uint64_t tail;
  uint64_t sequence; /* stored before the @tail that covers its last frame */

  /* Writer's: rarely written. */
  _Alignas(SONDE_RING_OWNER_BYTES) SondeRingLosses losses;
  uint32_t is_waiting; /* not 0: for room, now */
  uint32_t padding3;
} SondeRingHeader;

#define SONDE_RING_ASSERT_OFFSET(field, at)                                                        \
  _Static_assert(offsetof (SondeRingHeader, field) == (at),                                        \
                 "SondeRingHeader." #field " is misplaced")

SONDE_RING_ASSERT_OFFSET (head_index, 0);
SONDE_RING_ASSERT_OFFSET (tail_index, 4);
SONDE_RING_ASSERT_OFFSET (offset_bytes, 8);
SONDE_RING_ASSERT_OFFSET (size_bytes, 12);
SONDE_RING_ASSERT_OFFSET (magic, 16);
SONDE_RING_ASSERT_OFFSET (version, 20);
SONDE_RING_ASSERT_OFFSET (features, 24);
SONDE_RING_ASSERT_OFFSET (wait_us, 28);
SONDE_RING_ASSERT_OFFSET (head, 128);
SONDE_RING_ASSERT_OFFSET (wake_at, 256);
SONDE_RING_ASSERT_OFFSET (is_paused, 264);
SONDE_RING_ASSERT_OFFSET (tail, 384);
SONDE_RING_ASSERT_OFFSET (sequence, 392);
SONDE_RING_ASSERT_OFFSET (losses, 512);
SONDE_RING_ASSERT_OFFSET (is_waiting, 552);
_Static_assert(sizeof (SondeRingLosses) == 40, "SondeRingLosses has a wrong size");
_Static_assert(sizeof (SondeRingHeader) == 640, "SondeRingHeader has a wrong size");
_Static_assert(sizeof (SondeFrame) == SONDE_RING_END_BYTES, "an end frame is a header alone");
