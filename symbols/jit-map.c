/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/jit-map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum
{
  MAX_NAME = 4096,     /* bytes; more are cut */
  MAX_OVERLAP = 256,   /* older code that an address is looked for in */
  MAX_MOVES_BACK = 64, /* loads that the origin of a move is looked for in */
  DUMP_MAGIC = 0x4A695444,
  DUMP_CODE_LOAD = 0,
  DUMP_CODE_MOVE = 1,
};

#define MAX_NAMES_BYTES (256u << 20)

typedef struct
{
  uint64_t begin;
  uint64_t end;
  uint32_t order; /* of arrival */
  uint32_t name;  /* offset into the names */
} JitEntry;

struct SondeJitMap
{
  JitEntry *entries;
  size_t n_entries;
  size_t n_allocated;
  char *names;
  size_t names_size;
  size_t names_allocated;
  bool is_sorted;
};

SondeJitMap *
sonde_jit_map_new (void)
{
  return calloc (1, sizeof (SondeJitMap));
}

void
sonde_jit_map_free (SondeJitMap *self)
{
  if (self == NULL)
    return;
  free (self->entries);
  free (self->names);
  free (self);
}

static int
add_entry (SondeJitMap *self, uint64_t begin, uint64_t size, uint32_t name)
{
  if (size == 0 || size > UINT64_MAX - begin)
    return 0;
  if (self->n_entries == SONDE_JIT_MAP_MAX_ENTRIES)
    return -EFBIG;
  if (self->n_entries == self->n_allocated)
    {
      size_t n_allocated = self->n_allocated * 2 + 256;
      JitEntry *entries = reallocarray (self->entries, n_allocated, sizeof *entries);

      if (entries == NULL)
        return -ENOMEM;
      self->entries = entries;
      self->n_allocated = n_allocated;
    }
  self->entries[self->n_entries]
      = (JitEntry){ begin, begin + size, (uint32_t) self->n_entries, name };
  self->n_entries++;
  return 0;
}

static int
add_named (SondeJitMap *self, uint64_t begin, uint64_t size, const char *name, size_t length)
{
  size_t offset = self->names_size;

  if (length == 0 || memchr (name, '\0', length) != NULL)
    return 0;
  if (length > MAX_NAME)
    length = MAX_NAME;
  if (offset + length + 1 > MAX_NAMES_BYTES)
    return -EFBIG;
  if (offset + length + 1 > self->names_allocated)
    {
      size_t n_allocated = self->names_allocated * 2 + 2 * MAX_NAME;
      char *names = realloc (self->names, n_allocated);

      if (names == NULL)
        return -ENOMEM;
      self->names = names;
      self->names_allocated = n_allocated;
    }
  memcpy (self->names + offset, name, length);
  self->names[offset + length] = '\0';
  self->names_size += length + 1;
  return add_entry (self, begin, size, (uint32_t) offset);
}

/* All of the file, with a NUL behind it; free() it. */
static int
read_file (int fd, char **content, size_t *size)
{
  struct stat st;
  size_t n_read = 0;
  char *bytes;

  if (fstat (fd, &st) < 0)
    return -errno;
  if (st.st_size < 0 || st.st_size > (off_t) SONDE_JIT_MAP_MAX_BYTES)
    return -EFBIG;
  bytes = malloc ((size_t) st.st_size + 1);
  if (bytes == NULL)
    return -ENOMEM;
  while (n_read < (size_t) st.st_size)
    {
      ssize_t n = pread (fd, bytes + n_read, (size_t) st.st_size - n_read, (off_t) n_read);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          int r = -errno;

          free (bytes);
          return r;
        }
      if (n == 0)
        break;
      n_read += (size_t) n;
    }
  bytes[n_read] = '\0';
  *content = bytes;
  *size = n_read;
  return 0;
}

/* A number in hexadecimal, with or without "0x", and the space behind it. */
static bool
take_number (const char **at, const char *end, uint64_t *number)
{
  const char *from = *at;
  uint64_t value = 0;
  int n_digits = 0;

  if (end - from > 2 && from[0] == '0' && (from[1] == 'x' || from[1] == 'X'))
    from += 2;
  for (; from < end && *from != ' '; from++, n_digits++)
    {
      char c = *from;
      int digit = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;

      if (digit < 0 || n_digits == 16)
        return false;
      value = value << 4 | (uint64_t) digit;
    }
  if (n_digits == 0 || from == end)
    return false;
  *number = value;
  *at = from + 1;
  return true;
}

int
sonde_jit_map_read_text (SondeJitMap *self, int fd)
{
  char *content;
  size_t size;
  int r = read_file (fd, &content, &size);

  if (r < 0)
    return r;
  for (const char *line = content; line < content + size && r == 0;)
    {
      const char *end = memchr (line, '\n', size - (size_t) (line - content));
      uint64_t begin, n_bytes;

      if (end == NULL) /* still being written */
        break;
      if (take_number (&line, end, &begin) && take_number (&line, end, &n_bytes))
        r = add_named (self, begin, n_bytes, line, (size_t) (end - line));
      line = end + 1;
    }
  free (content);
  return r;
}

typedef struct
{
  uint32_t magic;
  uint32_t version;
  uint32_t size_bytes;
  uint32_t machine;
  uint32_t padding;
  uint32_t pid;
  uint64_t time_ns;
  uint64_t flags;
} DumpHeader;

typedef struct
{
  uint32_t id;
  uint32_t size_bytes; /* this header included */
  uint64_t time_ns;
} DumpRecord;

typedef struct
{
  uint32_t pid;
  uint32_t tid;
  uint64_t vma;
  uint64_t address;
  uint64_t size_bytes;
  uint64_t index;
} DumpLoad; /* then the name and a NUL, then the code */

typedef struct
{
  uint32_t pid;
  uint32_t tid;
  uint64_t vma;
  uint64_t old_address;
  uint64_t new_address;
  uint64_t size_bytes;
  uint64_t index;
} DumpMove;

static int
take_load (SondeJitMap *self, const char *body, size_t size)
{
  DumpLoad load;
  const char *name = body + sizeof load;
  const char *end;

  if (size <= sizeof load)
    return 0;
  memcpy (&load, body, sizeof load);
  end = memchr (name, '\0', size - sizeof load);
  if (end == NULL)
    return 0;
  return add_named (self, load.address, load.size_bytes, name, (size_t) (end - name));
}

static int
take_move (SondeJitMap *self, const char *body, size_t size)
{
  DumpMove move;
  size_t n_back = self->n_entries < MAX_MOVES_BACK ? self->n_entries : MAX_MOVES_BACK;

  if (size < sizeof move)
    return 0;
  memcpy (&move, body, sizeof move);
  for (size_t i = 1; i <= n_back; i++)
    {
      const JitEntry *entry = &self->entries[self->n_entries - i];

      if (entry->begin == move.old_address)
        return add_entry (self, move.new_address, move.size_bytes, entry->name);
    }
  return 0;
}

int
sonde_jit_map_read_dump (SondeJitMap *self, int fd)
{
  DumpHeader header = { 0 };
  DumpRecord record;
  char *content;
  size_t size;
  int r = read_file (fd, &content, &size);

  if (r < 0)
    return r;
  if (size >= sizeof header)
    memcpy (&header, content, sizeof header);
  if (header.magic != DUMP_MAGIC || header.size_bytes < sizeof header || header.size_bytes > size)
    r = -ENOEXEC;
  for (size_t at = header.size_bytes; r == 0 && size - at >= sizeof record; at += record.size_bytes)
    {
      const char *body = content + at + sizeof record;

      memcpy (&record, content + at, sizeof record);
      if (record.size_bytes < sizeof record || record.size_bytes > size - at)
        break; /* broken, or still being written */
      if (record.id == DUMP_CODE_LOAD)
        r = take_load (self, body, record.size_bytes - sizeof record);
      else if (record.id == DUMP_CODE_MOVE)
        r = take_move (self, body, record.size_bytes - sizeof record);
    }
  free (content);
  return r;
}

size_t
sonde_jit_map_n_entries (const SondeJitMap *self)
{
  return self->n_entries;
}

static int
compare_entries (const void *a, const void *b)
{
  const JitEntry *left = a;
  const JitEntry *right = b;

  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  return left->order < right->order ? -1 : left->order > right->order;
}

bool
sonde_jit_map_lookup (SondeJitMap *self, uint64_t address, SondeSymbol *symbol)
{
  const JitEntry *found = NULL;
  size_t low = 0;
  size_t high = self->n_entries;

  if (!self->is_sorted && self->n_entries > 0)
    qsort (self->entries, self->n_entries, sizeof *self->entries, compare_entries);
  self->is_sorted = true;
  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (self->entries[middle].begin <= address)
        low = middle + 1;
      else
        high = middle;
    }
  for (size_t n = 0; low > 0 && n < MAX_OVERLAP; n++)
    {
      const JitEntry *entry = &self->entries[--low];

      if (address < entry->end && (found == NULL || entry->order > found->order))
        found = entry;
    }
  if (found == NULL)
    return false;
  *symbol = (SondeSymbol){ found->begin, found->end, self->names + found->name };
  return true;
}
