/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* LEB128 with a bound: the numbers of which columns in embedded files are made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that one takes at most. */
#define SONDE_NUMBER_MAX_BYTES 10

/* What is left of a column that is read. */
typedef struct
{
  const uint8_t *at;
  const uint8_t *end;
} SondeNumberColumn;

/* @to: has room for SONDE_NUMBER_MAX_BYTES. Returns: how many it took */
static inline size_t
sonde_number_put (uint8_t *to, uint64_t number)
{
  size_t n = 0;

  for (; number > 0x7F; number >>= 7)
    to[n++] = (uint8_t) (number | 0x80);
  to[n++] = (uint8_t) number;
  return n;
}

/* false: there is none, it does not end in the column, or it does not fit 64 bits. */
static inline bool
sonde_number_get (SondeNumberColumn *column, uint64_t *number)
{
  uint64_t value = 0;

  for (unsigned shift = 0; shift < 64 && column->at < column->end; shift += 7)
    {
      uint8_t byte = *column->at++;

      if (shift == 63 && byte > 1)
        return false;
      value |= (uint64_t) (byte & 0x7F) << shift;
      if ((byte & 0x80) == 0)
        {
          *number = value;
          return true;
        }
    }
  return false;
}

static inline bool
sonde_number_column_is_over (const SondeNumberColumn *column)
{
  return column->at == column->end;
}

/* Of a number with a sign, in two's complement: a small one stays small. The lowest bit is the
 * sign (zigzag). */
static inline uint64_t
sonde_number_fold (uint64_t number)
{
  return number << 1 ^ -(number >> 63);
}

static inline uint64_t
sonde_number_unfold (uint64_t number)
{
  return number >> 1 ^ -(number & 1);
}
