/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads words of the copy of a thread's stack that a sample carries. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Farther above the stack pointer than this is not the same stack. */
#define SONDE_STACK_COPY_MAX_BYTES (UINT64_C (1) << 30)

/* Which memory an unwinder may read: nothing else. Inside a profiled program `bytes` is the stack
 * itself. */
typedef struct
{
  const uint8_t *bytes;
  uint64_t address;    /* of the first byte: the sampled stack pointer */
  uint64_t size_bytes; /* valid bytes */
  bool is_32_bit;      /* its words have 4 bytes, not 8 */
  bool ran_out;        /* a read wanted bytes above the copy: the stack goes on there */
} SondeStackCopy;

static inline unsigned
sonde_stack_copy_word_bytes (const SondeStackCopy *self)
{
  return self->is_32_bit ? 4 : 8;
}

/* Addresses of a 32-bit program wrap around where its memory ends. */
static inline uint64_t
sonde_stack_copy_wrap (const SondeStackCopy *self, uint64_t address)
{
  return self->is_32_bit ? (uint32_t) address : address;
}

/* False: not in the copy; then ran_out tells "above" from "below, or far from any stack". */
static inline bool
sonde_stack_copy_read (SondeStackCopy *self, uint64_t address, unsigned size_bytes, uint64_t *value)
{
  uint64_t offset = address - self->address;
  uint64_t word = 0;

  if (address < self->address)
    return false;
  if (offset > self->size_bytes || self->size_bytes - offset < size_bytes)
    {
      self->ran_out = self->ran_out || offset < SONDE_STACK_COPY_MAX_BYTES;
      return false;
    }
  memcpy (&word, self->bytes + offset, size_bytes);
  *value = word;
  return true;
}
