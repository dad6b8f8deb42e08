/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/line-table.h"

#include <string.h>

#include "daemon/base/walk.h"

#define UNIT_BYTES     2  /* of code */
#define COUNTED_WORDS  54 /* IMMEDIATE_TABLE_SIZE of Ruby */
#define COUNTS_A_WORD  9
#define BLOCK_WORDS    512
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

/* How many entries begin up to a word: the first 54 words have a count each, of 7 bits; then come
 * blocks of 512, with the count before the block, those before each 64 words, of 9 bits, and a bit
 * for each word. */
static uint64_t
find_entry (const uint8_t *index, size_t index_bytes, uint64_t word)
{
  uint64_t block[SONDE_WALK_INDEX_STEP_BYTES / sizeof (uint64_t)];
  uint64_t counts[SONDE_WALK_INDEX_BYTES / sizeof (uint64_t)];
  uint64_t at;
  uint64_t small;

  if (index_bytes < sizeof counts)
    return 0;
  if (word < COUNTED_WORDS)
    {
      memcpy (counts, index, sizeof counts);
      return counts[word / COUNTS_A_WORD] >> (word % COUNTS_A_WORD * 7) & 0x7f;
    }
  word -= COUNTED_WORDS;
  if (word / BLOCK_WORDS >= (index_bytes - sizeof counts) / sizeof block)
    return 0;
  memcpy (block, index + sizeof counts + word / BLOCK_WORDS * sizeof block, sizeof block);
  at = word % BLOCK_WORDS;
  small = at / 64;
  return (block[0] & UINT32_MAX) + (small > 0 ? block[1] >> (small - 1) * 9 & 0x1ff : 0)
         + (uint64_t) __builtin_popcountll (block[2 + small] << (63 - at % 64));
}

/* @at: bytes of code before the next instruction */
static uint32_t
find_in_index (TableCursor table, int64_t first_line, int64_t at)
{
  SondeWalkLines lines;
  uint64_t word = (uint64_t) at / sizeof (uint64_t);
  uint64_t entry = 1;
  int32_t line;

  if (table.left < sizeof lines)
    return (uint32_t) first_line;
  memcpy (&lines, table.at, sizeof lines);
  table.at += sizeof lines;
  table.left -= sizeof lines;
  if (lines.index_bytes > table.left)
    return (uint32_t) first_line;
  if (lines.index_bytes > 0)
    entry = find_entry (table.at, lines.index_bytes, word > 0 ? word - 1 : 0);
  table.at += lines.index_bytes;
  table.left -= lines.index_bytes;
  if (entry == 0 || entry > table.left / SONDE_WALK_ENTRY_BYTES)
    return (uint32_t) first_line;
  memcpy (&line, table.at + (entry - 1) * SONDE_WALK_ENTRY_BYTES, sizeof line);
  return line > 0 ? (uint32_t) line : 0;
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
    case SONDE_LINE_TABLE_INDEXED:
      return find_in_index (table, line, at);
    case SONDE_LINE_TABLE_LOCATIONS:
    case SONDE_LINE_TABLE_NONE:
    default:
      return find_in_locations (table, line, at);
    }
}
