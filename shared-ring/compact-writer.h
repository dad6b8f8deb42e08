/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Remembers the stacks that a ring has, and writes heap events as records that name them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared-ring/heap-record.h"

/**
 * SECTION: compact-writer
 *
 * The state of one ring. It belongs to whoever has the ring's open reservation, be he of this
 * thread or of another that shares the ring: between sonde_ring_writer_reserve() and
 * sonde_ring_writer_commit_records(), and at no other time. So there is no lock, and a signal
 * handler that comes between the two finds the ring busy.
 *
 * Stacks are told apart by a hash of 64 bits, in a table that grows: 8 KiB at first, then four
 * times as much whenever it is 60 % full, by mmap() and never malloc(). Where there is no memory
 * for it each event brings its stack along. Behind the table are the addresses of the stack that
 * was defined last: what the next one shares with it is not written again. errno is left alone.
 */
typedef struct
{
  uint64_t hash;
  uint32_t id;
  uint32_t era; /* when the stack was defined; 0: never */
} SondeStackSlot;

typedef struct
{
  SondeStackSlot *slots; /* NULL: none yet */
  uint32_t n_slots;      /* a power of two */
  uint32_t n_stacks;     /* defined in this era: 1 to that */
  uint32_t n_words;      /* of those, as the reader keeps them */
  uint32_t n_last;       /* addresses of the one defined last; 0: there is none in this era */
  uint32_t max_stacks;
  uint32_t max_words;
  uint32_t era;    /* begins with each stack of number 1 */
  int32_t tid;     /* of the last CLOCK */
  int64_t last_ns; /* of the last record; negative: none yet */
} SondeCompactWriter;

/* @ring_bytes: of the ring's body */
void sonde_compact_writer_init (SondeCompactWriter *self, size_t ring_bytes);
/* Gives its memory back, also in a child of fork(), which has a copy. */
void sonde_compact_writer_clear (SondeCompactWriter *self);

/* Whether a block can be told of in short. */
static inline bool
sonde_compact_writer_takes (uint64_t address)
{
  return address != 0 && (address & SONDE_HEAP_KIND_MASK) == 0 && address < SONDE_HEAP_ADDRESS_END;
}

/* Who allocates or frees, and when. */
typedef struct
{
  uint64_t address;    /* one that sonde_compact_writer_takes() */
  uint64_t size_bytes; /* 1 to INT64_MAX; of a free it means nothing */
  int64_t time_ns;     /* one before that of the ring's last event becomes that */
  uint64_t stack_hash; /* tells its stack from all others; without one it means nothing */
  int32_t tid;
} SondeCompactEvent;

/* Where in the room for a block its stack is to be put, before sonde_compact_writer_block(). */
#define SONDE_COMPACT_ADDRS_AT (sizeof (SondeHeapClock) + sizeof (SondeHeapStack))

/**
 * sonde_compact_writer_free:
 * @place: SONDE_HEAP_FREE_ROOM bytes, 8-aligned
 *
 * Returns: how many bytes the records have
 */
size_t
sonde_compact_writer_free (SondeCompactWriter *self, void *place, const SondeCompactEvent *event);

/**
 * sonde_compact_writer_block:
 * @place: SONDE_HEAP_BLOCK_ROOM (@depth) bytes, 8-aligned
 * @depth: addresses that lie SONDE_COMPACT_ADDRS_AT, at most SONDE_HEAP_MAX_DEPTH; 0: no stack
 *
 * Returns: how many bytes the records have
 */
size_t sonde_compact_writer_block (SondeCompactWriter *self,
                                   void *place,
                                   const SondeCompactEvent *event,
                                   size_t depth);
