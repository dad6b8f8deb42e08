/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/go-table.h"

#include <errno.h>
#include <string.h>

/* By what the tables of each version begin with. */
#define MAGIC_1_16 UINT32_C (0xfffffffa)
#define MAGIC_1_18 UINT32_C (0xfffffff0)
#define MAGIC_1_20 UINT32_C (0xfffffff1)

enum
{
  HEADER_BYTES = 8, /* the magic number, two zeros, quantum, size of a pointer; then words */
  WORD_BYTES = 8,
};

/* A number of @n_bytes, 4 or 8, at @place. */
static bool
read_number (const SondeGoTable *self, size_t place, unsigned n_bytes, uint64_t *value)
{
  uint64_t number = 0;

  if (place > self->size_bytes || self->size_bytes - place < n_bytes)
    return false;
  memcpy (&number, self->bytes + place, n_bytes);
  *value = number;
  return true;
}

/* Word @i of the header, which is a place in the table. */
static bool
read_place (const SondeGoTable *self, unsigned i, size_t *place)
{
  uint64_t value;

  if (!read_number (self, HEADER_BYTES + i * WORD_BYTES, WORD_BYTES, &value)
      || value >= self->size_bytes)
    return false;
  *place = (size_t) value;
  return true;
}

static bool
is_go_entry (const SondeGoTable *self, uint64_t entry)
{
  SondeGoFunction function;
  const char *name;

  if (!sonde_go_table_find (self, entry, &function) || function.begin != entry)
    return false;
  name = sonde_go_table_name (self, &function);
  return name != NULL && strncmp (name, "_rt0_", 5) == 0;
}

bool
sonde_go_table_parse (
    SondeGoTable *self, const uint8_t *bytes, size_t size, uint64_t text, uint64_t entry)
{
  uint64_t magic, n_functions;
  bool is_placed = true;
  unsigned n_words = 2; /* that come before the places: numbers of functions and files */

  *self = (SondeGoTable){ .bytes = bytes, .size_bytes = size, .text = text };
  if (!read_number (self, 0, 4, &magic) || size < HEADER_BYTES || bytes[4] != 0 || bytes[5] != 0
      || bytes[7] != WORD_BYTES)
    return false;
  self->quantum = bytes[6];
  if (self->quantum != 1 && self->quantum != 4)
    return false;
  if (magic == MAGIC_1_18 || magic == MAGIC_1_20)
    {
      uint64_t told;

      self->has_offsets = true;
      if (!read_number (self, HEADER_BYTES + n_words++ * WORD_BYTES, WORD_BYTES, &told))
        return false;
      is_placed = told != 0;
      if (is_placed)
        self->text = told;
    }
  else if (magic != MAGIC_1_16)
    return false;
  /* names, units, files, sizes, functions */
  if (!read_place (self, n_words, &self->names) || !read_place (self, n_words + 3, &self->sizes)
      || !read_place (self, n_words + 4, &self->functions)
      || !read_number (self, HEADER_BYTES, WORD_BYTES, &n_functions))
    return false;
  if (n_functions == 0
      || n_functions >= (size - self->functions) / (self->has_offsets ? 8 : 2 * WORD_BYTES))
    return false;
  self->n_functions = (size_t) n_functions;
  return is_placed || is_go_entry (self, entry);
}

/* Where function @i begins; of the last row, where the one before it ends. Its row is there. */
static uint64_t
entry_of (const SondeGoTable *self, size_t i)
{
  const unsigned n_bytes = self->has_offsets ? 4 : WORD_BYTES;
  uint64_t entry = 0;

  read_number (self, self->functions + i * 2 * n_bytes, n_bytes, &entry);
  return self->has_offsets ? self->text + entry : entry;
}

bool
sonde_go_table_get (const SondeGoTable *self, size_t i, SondeGoFunction *function)
{
  const unsigned n_bytes = self->has_offsets ? 4 : WORD_BYTES;
  uint64_t distance, entry, name, sizes;
  size_t place;

  if (i >= self->n_functions)
    return false;
  function->begin = entry_of (self, i);
  function->end = entry_of (self, i + 1);
  if (function->end <= function->begin
      || !read_number (self, self->functions + (2 * i + 1) * n_bytes, n_bytes, &distance)
      || distance >= self->size_bytes - self->functions)
    return false;
  place = self->functions + (size_t) distance;
  /* entry, name, size of arguments, place of deferreturn, sizes: all but the first of 4 bytes */
  if (!read_number (self, place, n_bytes, &entry)
      || (self->has_offsets ? self->text + entry : entry) != function->begin
      || !read_number (self, place + n_bytes, 4, &name)
      || !read_number (self, place + n_bytes + 12, 4, &sizes))
    return false;
  function->name = name < self->size_bytes - self->names ? self->names + (size_t) name : 0;
  function->sizes
      = sizes > 0 && sizes < self->size_bytes - self->sizes ? self->sizes + (size_t) sizes : 0;
  return true;
}

bool
sonde_go_table_find (const SondeGoTable *self, uint64_t vaddr, SondeGoFunction *function)
{
  size_t low = 0;
  size_t high = self->n_functions;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (entry_of (self, middle) <= vaddr)
        low = middle + 1;
      else
        high = middle;
    }
  /* Nobody has said that a hostile table is sorted. */
  return low > 0 && sonde_go_table_get (self, low - 1, function) && vaddr >= function->begin
         && vaddr < function->end;
}

const char *
sonde_go_table_name (const SondeGoTable *self, const SondeGoFunction *function)
{
  size_t left = self->size_bytes - function->name;
  const char *name = (const char *) self->bytes + function->name;

  if (function->name == 0 || name[0] == '\0'
      || memchr (name, '\0', left < SONDE_GO_MAX_NAME ? left : SONDE_GO_MAX_NAME) == NULL)
    return NULL;
  return name;
}

/* Seven bits a byte, the lowest first. Source: src/runtime/symtab.go, readvarint() */
static bool
read_varint (const SondeGoTable *self, size_t *place, uint32_t *value)
{
  uint32_t number = 0;

  for (unsigned shift = 0; shift < 32 && *place < self->size_bytes; shift += 7)
    {
      uint8_t byte = self->bytes[(*place)++];

      number |= (uint32_t) (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0)
        {
          *value = number;
          return true;
        }
    }
  return false;
}

/* Pairs: by how much the size changes, and for how many instructions it then holds. */
int
sonde_go_table_stack_size (const SondeGoTable *self,
                           const SondeGoFunction *function,
                           uint64_t vaddr,
                           uint32_t *work,
                           int32_t *size_bytes,
                           uint64_t *begin,
                           uint64_t *end)
{
  size_t place = function->sizes;
  uint64_t at = function->begin;
  uint32_t size = UINT32_MAX; /* -1, as Go begins */

  if (place == 0)
    return -ENODATA;
  for (;;)
    {
      uint32_t change, distance;
      bool is_first = at == function->begin;

      if (*work == 0)
        return -EDQUOT;
      --*work;
      if (!read_varint (self, &place, &change) || (change == 0 && !is_first))
        return -EBADMSG;
      size += (change & 1) != 0 ? ~(change >> 1) : change >> 1;
      if (!read_varint (self, &place, &distance) || distance == 0)
        return -EBADMSG;
      *begin = at;
      at += (uint64_t) distance * self->quantum;
      if (vaddr < at)
        break;
      if (at >= function->end)
        return -EBADMSG;
    }
  *end = at < function->end ? at : function->end;
  *size_bytes = (int32_t) size;
  return 0;
}
