/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The short form of heap events in a ring: a record of 16 or 24 bytes, and each stack but once. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/frame.h"

/**
 * SECTION: heap-record
 *
 * In a ring whose maker set SONDE_RING_COMPACT_HEAP a writer may put records between the frames. A
 * record begins at a multiple of 8, as a frame does, and the low three bits of its first word are
 * its kind: 1 to 4. There a frame has its length, whose low bits are 0 (and so there are records on
 * little-endian machines alone). A writer says in short what it can, and the rest by ALLOCATION
 * frames: blocks at odd multiples of 4, or with a tag in their address.
 *
 * - CLOCK: from here on it is this time, and events are this thread's. The first of a ring's
 *   records is one. Time never goes back.
 * - STACK: gives a stack its number. These count up from 1, without a gap; 1 itself forgets all
 *   that were given before. So both sides know at any time what is defined. Its outermost addresses
 *   may be those of the stack defined before it: then their number is told in their place; and the
 *   others may be told by their distances.
 * - BLOCK: an allocation, @dt_ns behind the last record with a time. Its stack is defined in this
 *   ring before; 0: it has none.
 * - FREE: the end of a block, with a time of the same kind.
 *
 * A ring's stacks have a bound that follows from its size, see SONDE_HEAP_MAX_STACKS(): a writer
 * that comes to it begins anew with 1. Numbers are of one ring: what one thread defines in its own,
 * no other ring knows of, so that no order of reading rings matters.
 *
 * Source: docs/protocol.md, "Heap events in short"
 */
typedef enum
{
  SONDE_HEAP_FREE = 1,
  SONDE_HEAP_BLOCK = 2,
  SONDE_HEAP_STACK = 3,
  SONDE_HEAP_CLOCK = 4,
} SondeHeapKind;

#define SONDE_HEAP_KIND_BITS 3u
#define SONDE_HEAP_KIND_MASK UINT64_C (7)

/* Above these are tags, which only a frame can tell. */
#define SONDE_HEAP_ADDRESS_END (UINT64_C (1) << 56)

typedef struct
{
  uint64_t address; /* with the kind: addresses are multiples of 8 */
  uint32_t dt_ns;
  uint32_t zero;
} SondeHeapFree;

typedef struct
{
  uint64_t address; /* with the kind */
  uint32_t dt_ns;
  uint32_t stack;      /* its number, or 0 */
  uint64_t size_bytes; /* 1 to INT64_MAX */
} SondeHeapBlock;

/* Its @depth return addresses follow, as in an ALLOCATION frame, but for the shared ones. If it is
 * narrow each of these is an int32_t: how far it is behind the next one outwards, which may be a
 * shared one, or behind 0; and four bytes of 0 fill it up. */
typedef struct
{
  uint16_t kind;  /* bit 3: it is narrow; from bit 4 on: how many outermost addresses it shares with
                     the stack before */
  uint16_t depth; /* 1 to SONDE_HEAP_MAX_DEPTH, with the shared ones */
  uint32_t id;
} SondeHeapStack;

typedef struct
{
  uint64_t time; /* ns of CLOCK_MONOTONIC, times 8, with the kind */
  int32_t tid;
  uint32_t zero;
} SondeHeapClock;

#define SONDE_HEAP_MAX_DEPTH 1024

/* Of what the first word of a STACK says; it may be somebody else's, and impossible. */
#define SONDE_HEAP_STACK_NARROW (1u << SONDE_HEAP_KIND_BITS)
#define SONDE_HEAP_SHARED_SHIFT (SONDE_HEAP_KIND_BITS + 1)

static inline size_t
sonde_heap_stack_n_own (const SondeHeapStack *stack)
{
  size_t n_shared = stack->kind >> SONDE_HEAP_SHARED_SHIFT;

  return stack->depth > n_shared ? stack->depth - n_shared : 0;
}

/* What follows it. */
static inline size_t
sonde_heap_stack_own_bytes (const SondeHeapStack *stack)
{
  size_t n_own = sonde_heap_stack_n_own (stack);

  return (stack->kind & SONDE_HEAP_STACK_NARROW) != 0 ? (n_own + 1) / 2 * sizeof (uint64_t)
                                                      : n_own * sizeof (uint64_t);
}

/* The stacks that a ring may have at a time: words, one for each address and one for each stack. A
 * reader keeps that much memory for it, twice that of the ring's body, an eighth of it for where
 * they begin, and as much for what its user notes of each. */
#define SONDE_HEAP_MAX_STACK_WORDS(ring_bytes) ((ring_bytes) / 4)
#define SONDE_HEAP_MAX_STACKS(ring_bytes)      ((ring_bytes) / 32)

/* That memory. */
#define SONDE_HEAP_READER_BYTES(ring_bytes)                                                        \
  (SONDE_HEAP_MAX_STACK_WORDS (ring_bytes) * sizeof (uint64_t)                                     \
   + SONDE_HEAP_MAX_STACKS (ring_bytes) * 2 * sizeof (uint32_t))

/* The shortest event of a ring. */
#define SONDE_HEAP_MIN_BYTES 16

/* How much room an event may need. */
#define SONDE_HEAP_FREE_ROOM (sizeof (SondeHeapClock) + sizeof (SondeHeapFree))
#define SONDE_HEAP_BLOCK_ROOM(depth)                                                               \
  (sizeof (SondeHeapClock) + sizeof (SondeHeapStack) + (depth) * sizeof (uint64_t)                 \
   + sizeof (SondeHeapBlock))

static_assert (sizeof (SondeHeapFree) == SONDE_HEAP_MIN_BYTES, "a free is 16 bytes");
static_assert (sizeof (SondeHeapBlock) == 24, "a block is 24 bytes");
static_assert (sizeof (SondeHeapStack) == 8, "a stack is 8 bytes and its addresses");
static_assert (sizeof (SondeHeapClock) == 16, "a clock is 16 bytes");
static_assert (offsetof (SondeHeapFree, dt_ns) == 8, "SondeHeapFree.dt_ns is misplaced");
static_assert (offsetof (SondeHeapBlock, dt_ns) == 8, "SondeHeapBlock.dt_ns is misplaced");
static_assert (offsetof (SondeHeapBlock, stack) == 12, "SondeHeapBlock.stack is misplaced");
static_assert (offsetof (SondeHeapBlock, size_bytes) == 16, "SondeHeapBlock.size is misplaced");
static_assert (offsetof (SondeHeapStack, depth) == 2, "SondeHeapStack.depth is misplaced");
static_assert (offsetof (SondeHeapStack, id) == 4, "SondeHeapStack.id is misplaced");
static_assert (offsetof (SondeHeapClock, tid) == 8, "SondeHeapClock.tid is misplaced");
static_assert (sizeof (SondeFrameAllocation) + SONDE_HEAP_MAX_DEPTH * sizeof (uint64_t)
                   <= SONDE_FRAME_MAX_SIZE,
               "what is short becomes one frame");
