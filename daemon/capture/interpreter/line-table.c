/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/line-table.h"

#define UNIT_BYTES     2    /* of code */
#define NO_LINE        -128 /* of a range */
#define MAX_LINE       INT32_MAX
#define NO_LOCATION    15
#define LONG_LOCATION  14
#define LINE_ALONE     13
#define FIRST_ONE_LINE 10 /* here to 12: so many lines further */

typedef struct
{
  const uint8_t *at;
  size_t left; /* bytes */
} TableCursor;

/* Sums of what is hostile stay within lines. */
static int64_t
add_line (int64_t line, int64_t delta)
{
  line += delta;
  return line < 0 ? 0 : line > MAX_LINE ? MAX_LINE : line;
}

static uint32_t
find_in_pairs (TableCursor table, int64_t line, int64_t at)
{
  int64_t address = 0;

  for (; table.left >= 2; table.at += 2, table.left -= 2)
    {
      address += table.at[0];
      if (address > at)
        break;
      line = add_line (line, (int8_t) table.at[1]);
    }
  return (uint32_t) line;
}

static uint32_t
find_in_ranges (TableCursor table, int64_t first_line, int64_t at)
{
  int64_t line = first_line;
  int64_t end = 0;

  for (; table.left >= 2; table.at += 2, table.left -= 2)
    {
      int8_t delta = (int8_t) table.at[1];

      end += table.at[0];
      if (delta != NO_LINE)
        line = add_line (line, delta);
      if (at < end)
        return delta != NO_LINE ? (uint32_t) line : 0;
    }
  return (uint32_t) first_line;
}

static int
take_byte (TableCursor *self, uint8_t *byte)
{
  if (self->left == 0)
    return 0;
  *byte = *self->at++;
  self->left--;
  return 1;
}

/* Six bits a byte, the lowest first. */
static int
take_number (TableCursor *self, uint64_t *number)
{
  uint8_t byte = 0x40;

  *number = 0;
  for (unsigned shift = 0; (byte & 0x40) != 0; shift += 6)
    {
      if (!take_byte (self, &byte) || shift > 30)
        return 0;
      *number |= (uint64_t) (byte & 0x3f) << shift;
    }
  return 1;
}

static int
take_signed (TableCursor *self, int64_t *number)
{
  uint64_t bits;

  if (!take_number (self, &bits))
    return 0;
  *number = (bits & 1) != 0 ? -(int64_t) (bits >> 1) : (int64_t) (bits >> 1);
  return 1;
}

/* What an entry says of its line; columns are skipped. */
static int
take_delta (TableCursor *self, unsigned code, int64_t *delta)
{
  unsigned n_columns = code == LONG_LOCATION ? 3 : 0; /* numbers */
  unsigned n_skipped = code < FIRST_ONE_LINE ? 1 : code < LINE_ALONE ? 2 : 0;
  uint64_t ignored;
  uint8_t byte;

  *delta = code >= FIRST_ONE_LINE && code < LINE_ALONE ? (int64_t) code - FIRST_ONE_LINE : 0;
  if ((code == LONG_LOCATION || code == LINE_ALONE) && !take_signed (self, delta))
    return 0;
  for (unsigned i = 0; i < n_columns; i++)
    if (!take_number (self, &ignored))
      return 0;
  for (unsigned i = 0; i < n_skipped; i++)
    if (!take_byte (self, &byte))
      return 0;
  return 1;
}

static uint32_t
find_in_locations (TableCursor table, int64_t first_line, int64_t at)
{
  int64_t line = first_line;
  int64_t end = 0;
  uint8_t head;

  while (take_byte (&table, &head) && (head & 0x80) != 0)
    {
      unsigned code = head >> 3 & 15;
      int64_t delta;

      if (!take_delta (&table, code, &delta))
        break;
      end += ((head & 7) + 1) * UNIT_BYTES;
      line = add_line (line, delta);
      if (at < end)
        return code != NO_LOCATION ? (uint32_t) line : 0;
    }
  return (uint32_t) first_line;
}

uint32_t
sonde_line_table_find (SondeLineTableKind kind,
                       const uint8_t *bytes,
                       size_t size_bytes,
                       uint32_t first_line,
                       int64_t at)
{
  TableCursor table = { bytes, size_bytes };
  int64_t line = first_line > MAX_LINE ? MAX_LINE : first_line;

  if (kind == SONDE_LINE_TABLE_NONE)
    return at > 0 && at <= MAX_LINE ? (uint32_t) at : 0;
  if (at < 0 || size_bytes == 0)
    return (uint32_t) line;
  switch (kind)
    {
    case SONDE_LINE_TABLE_PAIRS:
      return find_in_pairs (table, line, at);
    case SONDE_LINE_TABLE_RANGES:
      return find_in_ranges (table, line, at);
    case SONDE_LINE_TABLE_LOCATIONS:
    case SONDE_LINE_TABLE_NONE:
    default:
      return find_in_locations (table, line, at);
    }
}
