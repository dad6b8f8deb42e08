/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes events of the records of a heap, and believes nothing that these say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared-ring/heap-record.h"

/**
 * SECTION: compact-reader
 *
 * The state of one ring: which stacks are defined, and what time it is. Its memory is there from
 * the beginning, as much as the ring's size allows to be defined, and is used as stacks come;
 * nothing is allocated later. A record is copied, then judged, then used; the addresses of a stack,
 * of which there are at most SONDE_HEAP_MAX_DEPTH, are copied to where they are kept. An event
 * names its stack by its number alone: who knows that one already needs none of its addresses.
 */
typedef struct
{
  int64_t time_ns;
  uint64_t address;    /* 0: it is none, but what others need */
  uint64_t size_bytes; /* 0: a free */
  int32_t tid;
  uint32_t stack; /* its number, or 0 */
} SondeShortEvent;

typedef struct
{
  uint64_t *words;  /* of each stack its depth, then its addresses */
  uint32_t *begins; /* of stack N: [N - 1], in words */
  uint32_t *notes;  /* of stack N: [N - 1] */
  uint64_t era;     /* of the notes */
  size_t mapped_bytes;
  uint32_t max_stacks;
  uint32_t max_words;
  uint32_t n_stacks; /* defined: 1 to that */
  uint32_t n_words;
  int32_t tid;
  uint32_t last_kind; /* of the record taken last, be it right or not */
  int64_t now_ns;     /* of the last record; negative: none had a time yet */
} SondeCompactReader;

typedef enum
{
  SONDE_HEAP_OK = 0,
  SONDE_HEAP_FAULT_SHORT,     /* it reaches past the end */
  SONDE_HEAP_FAULT_KIND,      /* there is no such record */
  SONDE_HEAP_FAULT_ZERO,      /* bytes that are to be zero are not */
  SONDE_HEAP_FAULT_ADDRESS,   /* no block can be there */
  SONDE_HEAP_FAULT_SIZE,      /* 0, or more than INT64_MAX */
  SONDE_HEAP_FAULT_NO_CLOCK,  /* nothing said what time it is, and whose events these are */
  SONDE_HEAP_FAULT_TIME,      /* it goes back, or past INT64_MAX */
  SONDE_HEAP_FAULT_DEPTH,     /* a stack of no addresses, or of too many */
  SONDE_HEAP_FAULT_NUMBER,    /* a stack's number is not the next one, nor 1 */
  SONDE_HEAP_FAULT_SHARED,    /* a stack shares more than it has, or than the one before it has */
  SONDE_HEAP_FAULT_ROOM,      /* more stacks than such a ring may have */
  SONDE_HEAP_FAULT_UNDEFINED, /* a stack that is not defined */
  SONDE_N_HEAP_FAULTS,
} SondeHeapFault;

/**
 * sonde_compact_reader_init:
 * @ring_bytes: of the ring's body
 *
 * Errors: -ENOMEM
 */
int sonde_compact_reader_init (SondeCompactReader *self, size_t ring_bytes);
/* Accepts one that is all zero, and leaves it so. */
void sonde_compact_reader_clear (SondeCompactReader *self);

/* How long a record is that begins with @first, a stack's addresses included; 0: there is none
 * such.
 */
size_t sonde_compact_reader_measure (uint64_t first);

/**
 * sonde_compact_reader_take:
 * @from: of shared memory, @n_waiting bytes, at least 8
 * @n_taken: (out): bytes of this record; a fault's are not told
 * @event: (out): if the record is one
 *
 * Returns: SONDE_HEAP_OK, or why the ring is to be closed
 */
SondeHeapFault sonde_compact_reader_take (SondeCompactReader *self,
                                          const uint8_t *from,
                                          size_t n_waiting,
                                          size_t *n_taken,
                                          SondeShortEvent *event);

/* What was copied of the record taken last, if it is a stack, with what it shares: much more than
 * it has in the ring, maybe. */
static inline size_t
sonde_compact_reader_kept_bytes (const SondeCompactReader *self)
{
  return self->last_kind == SONDE_HEAP_STACK
             ? (self->words[self->begins[self->n_stacks - 1]] + 1) * sizeof (uint64_t)
             : 0;
}

/**
 * sonde_compact_reader_make_frame:
 * @event: taken last
 * @frame: (out): room for the largest frame. An ALLOCATION frame of process 0, with its stack
 */
void sonde_compact_reader_make_frame (const SondeCompactReader *self,
                                      const SondeShortEvent *event,
                                      SondeFrame *frame);

/* What its user keeps of @stack, the number of an event that was taken last: 0 when it is defined,
 * and when @era is another one than the last time. */
uint32_t *sonde_compact_reader_note (SondeCompactReader *self, uint32_t stack, uint64_t era);

/* A clause without its full stop, such as "its stack is not defined". */
const char *sonde_heap_fault_to_string (SondeHeapFault fault);
/* Of the kind in a record's first word, such as "block", or "?". */
const char *sonde_heap_kind_to_string (uint32_t kind);
