/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/base/proc-maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/limits.h"

/* As in linux/fs.h since 6.11. */
#define QUERY_EXECUTABLE 0x04

typedef struct
{
  uint64_t size; /* bytes, of this */
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size; /* bytes with the NUL; 0: none */
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
} Query;
_Static_assert(_IOWR ('f', 17, Query) == SONDE_PROC_MAPS_QUERY, "it is the kernel's");

struct SondeProcMapTable
{
  SondeProcMap *maps; /* by address, apart from each other; their paths are in @paths */
  size_t n_maps;
  size_t capacity;
  char *paths;
  size_t path_bytes;
};

/* What is left of one line. */
typedef struct
{
  const char *at;
  const char *end;
} Cursor;

static bool
take_number (Cursor *cursor, unsigned base, uint64_t *number)
{
  const char *first = cursor->at;
  uint64_t value = 0;

  for (; cursor->at < cursor->end; cursor->at++)
    {
      char c = *cursor->at;
      unsigned digit;

      if (c >= '0' && c <= '9')
        digit = c - '0';
      else if (base == 16 && c >= 'a' && c <= 'f')
        digit = c - 'a' + 10;
      else
        break;
      if (value > (UINT64_MAX - digit) / base)
        return false;
      value = value * base + digit;
    }
  *number = value;
  return cursor->at > first;
}

static bool
take_char (Cursor *cursor, char c)
{
  if (cursor->at == cursor->end || *cursor->at != c)
    return false;
  cursor->at++;
  return true;
}

static bool
take_permissions (Cursor *cursor, bool *executable)
{
  if (cursor->end - cursor->at < 4)
    return false;
  *executable = cursor->at[2] == 'x';
  cursor->at += 4;
  return true;
}

/* "start-end rwxp offset major:minor inode   path" */
static int
parse_line (const char *line, const char *end, SondeProcMap *map)
{
  Cursor cursor = { line, end };
  SondeProcMap parsed = { 0 };
  uint64_t major, minor;

  if (!take_number (&cursor, 16, &parsed.start) || !take_char (&cursor, '-')
      || !take_number (&cursor, 16, &parsed.end) || !take_char (&cursor, ' ')
      || !take_permissions (&cursor, &parsed.executable) || !take_char (&cursor, ' ')
      || !take_number (&cursor, 16, &parsed.offset) || !take_char (&cursor, ' ')
      || !take_number (&cursor, 16, &major) || !take_char (&cursor, ':')
      || !take_number (&cursor, 16, &minor) || !take_char (&cursor, ' ')
      || !take_number (&cursor, 10, &parsed.inode))
    return -EBADMSG;
  if (parsed.start >= parsed.end || major > UINT32_MAX || minor > UINT32_MAX)
    return -EBADMSG;
  while (take_char (&cursor, ' '))
    continue;
  parsed.dev_major = (uint32_t) major;
  parsed.dev_minor = (uint32_t) minor;
  parsed.path = cursor.at;
  parsed.path_len = cursor.end - cursor.at;
  *map = parsed;
  return 1;
}

int
sonde_proc_maps_next (const char **text, size_t *size_bytes, SondeProcMap *map)
{
  const char *line = *text;
  const char *newline;
  const char *end;

  if (*size_bytes == 0)
    return 0;
  newline = memchr (line, '\n', *size_bytes);
  end = newline != NULL ? newline : line + *size_bytes;
  *text = newline != NULL ? newline + 1 : end;
  *size_bytes -= *text - line;
  return parse_line (line, end, map);
}

int64_t
sonde_proc_maps_read (int fd, size_t max_bytes, char **text)
{
  size_t capacity = 16384;
  size_t used = 0;
  char *buffer = NULL;
  ssize_t got;

  do
    {
      char *grown;

      if (used == capacity)
        capacity *= 2;
      if (capacity > max_bytes)
        capacity = max_bytes;
      grown = realloc (buffer, capacity + 1);
      if (grown == NULL)
        {
          free (buffer);
          return -ENOMEM;
        }
      buffer = grown;
      got = pread (fd, buffer + used, capacity - used, (off_t) used);
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        {
          int error = errno;

          free (buffer);
          return -error;
        }
      used += (size_t) got;
    }
  while (got != 0 && used < max_bytes);

  /* A text cut by the bound ends with half a line. */
  if (used == max_bytes)
    while (used > 0 && buffer[used - 1] != '\n')
      used--;
  buffer[used] = '\0';
  *text = buffer;
  return (int64_t) used;
}

bool
sonde_proc_maps_are_alive (int fd)
{
  char byte;

  return pread (fd, &byte, 1, 0) == 1;
}

int
sonde_proc_maps_query (int fd, uint64_t address, char *name, size_t name_bytes, SondeProcMap *map)
{
  Query query = { .size = sizeof query, .query_addr = address };
  int result;

  if (name != NULL)
    {
      name[0] = '\0';
      query.vma_name_addr = (uint64_t) (uintptr_t) name;
      query.vma_name_size = (uint32_t) name_bytes;
    }
  do
    result = ioctl (fd, SONDE_PROC_MAPS_QUERY, &query);
  while (result < 0 && errno == EINTR);
  if (result < 0 && errno == ENOENT)
    return 0;
  if (result < 0)
    return errno == ENOTTY || errno == EINVAL || errno == ENOSYS ? -EOPNOTSUPP : -errno;
  *map = (SondeProcMap){
    .start = query.vma_start,
    .end = query.vma_end,
    .offset = query.vma_offset,
    .inode = query.inode,
    .dev_major = query.dev_major,
    .dev_minor = query.dev_minor,
    .executable = (query.vma_flags & QUERY_EXECUTABLE) != 0,
    .path = name != NULL ? name : "",
    .path_len = name != NULL ? strlen (name) : 0,
  };
  return 1;
}

/* The one escape in these names. Source: proc_pid_maps(5). Returns the bytes written, without a NUL
 * behind them. */
static size_t
unescape (const char *path, size_t path_len, char *to)
{
  static const char newline[] = "\\012";
  size_t used = 0;

  for (size_t i = 0; i < path_len; used++)
    {
      bool is_newline = path_len - i >= 4 && memcmp (path + i, newline, 4) == 0;

      to[used] = is_newline ? '\n' : path[i];
      i += is_newline ? 4 : 1;
    }
  return used;
}

static int
add_map (SondeProcMapTable *self, const SondeProcMap *line)
{
  SondeProcMap *map;

  if (self->n_maps == self->capacity)
    {
      size_t capacity = self->capacity == 0 ? 64 : self->capacity * 2;
      SondeProcMap *grown = reallocarray (self->maps, capacity, sizeof *grown);

      if (grown == NULL)
        return -ENOMEM;
      self->maps = grown;
      self->capacity = capacity;
    }
  map = &self->maps[self->n_maps++];
  *map = *line;
  map->path = "";
  map->path_len = 0;
  if (line->path_len < SONDE_LIMIT_TABLE_PATH_BYTES - self->path_bytes)
    {
      char *path = self->paths + self->path_bytes;

      map->path = path;
      map->path_len = unescape (line->path, line->path_len, path);
      path[map->path_len] = '\0';
      self->path_bytes += map->path_len + 1;
    }
  return 0;
}

/* A text that is read piece by piece, so that of a long one little is held at a time. */
typedef struct
{
  int fd;
  size_t offset;    /* bytes that were read */
  size_t max_bytes; /* of them */
  size_t first;     /* in buffer: the first byte that was not taken */
  size_t end;
  bool is_at_end;  /* nothing more is read */
  bool is_in_line; /* one that is longer than the buffer, and was taken */
  char buffer[SONDE_LIMIT_MAPS_PIECE_BYTES];
} Pieces;

/* Returns: 0, or a negative errno */
static int
read_piece (Pieces *self)
{
  size_t room;
  ssize_t got;

  memmove (self->buffer, self->buffer + self->first, self->end - self->first);
  self->end -= self->first;
  self->first = 0;
  room = sizeof self->buffer - self->end;
  if (room > self->max_bytes - self->offset)
    room = self->max_bytes - self->offset;
  do
    got = pread (self->fd, self->buffer + self->end, room, (off_t) self->offset);
  while (got < 0 && errno == EINTR);
  self->is_at_end = got <= 0;
  if (got < 0)
    return -errno;
  self->offset += (size_t) got;
  self->end += (size_t) got;
  /* A text cut by the bound ends with half a line. */
  if (room == 0)
    self->end = 0;
  return 0;
}

/* As sonde_proc_maps_next(), or what read_piece() says. Of a line that is longer than a piece there
 * is no path. */
static int
next_line (Pieces *self, SondeProcMap *map)
{
  for (;;)
    {
      const char *line = self->buffer + self->first;
      size_t n_bytes = self->end - self->first;
      const char *newline = memchr (line, '\n', n_bytes);
      bool is_whole = newline != NULL || (self->is_at_end && n_bytes > 0);
      bool is_too_long = !is_whole && n_bytes == sizeof self->buffer;
      bool was_taken = self->is_in_line;
      int result;

      if (is_whole || is_too_long)
        {
          self->first = newline != NULL ? self->first + (size_t) (newline + 1 - line) : self->end;
          self->is_in_line = is_too_long;
          if (was_taken)
            continue;
          result = sonde_proc_maps_next (&line, &n_bytes, map);
          if (is_too_long)
            map->path_len = 0;
          return result;
        }
      if (self->is_at_end)
        return 0;
      result = read_piece (self);
      if (result < 0)
        return result;
    }
}

int
sonde_proc_map_table_read (int fd, size_t max_bytes, SondeProcMapTable **table)
{
  Pieces *pieces = calloc (1, sizeof *pieces);
  SondeProcMapTable *self = calloc (1, sizeof *self);
  uint64_t end = 0;
  SondeProcMap map;
  int result = -ENOMEM;
  int r;

  if (pieces == NULL || self == NULL
      || (self->paths = malloc (SONDE_LIMIT_TABLE_PATH_BYTES)) == NULL)
    goto out;
  pieces->fd = fd;
  pieces->max_bytes = max_bytes;
  result = 0;
  while (result == 0 && self->n_maps < SONDE_LIMIT_TABLE_MAPPINGS
         && (r = next_line (pieces, &map)) != 0)
    {
      if (r < 0 && r != -EBADMSG)
        result = r;
      /* What was mapped anew while the text was read may be told of twice. */
      if (r < 0 || !map.executable || map.inode == 0 || map.start < end)
        continue;
      end = map.end;
      result = add_map (self, &map);
    }
out:
  free (pieces);
  if (result == 0)
    *table = self;
  else
    sonde_proc_map_table_free (self);
  return result;
}

void
sonde_proc_map_table_free (SondeProcMapTable *self)
{
  if (self == NULL)
    return;
  free (self->maps);
  free (self->paths);
  free (self);
}

size_t
sonde_proc_map_table_size (const SondeProcMapTable *self)
{
  return self->n_maps;
}

bool
sonde_proc_map_table_find (const SondeProcMapTable *self, uint64_t address, SondeProcMap *map)
{
  size_t first = 0;
  size_t n = self->n_maps;

  while (n > 0)
    {
      const SondeProcMap *middle = &self->maps[first + n / 2];

      if (address >= middle->start && address < middle->end)
        {
          *map = *middle;
          return true;
        }
      if (address < middle->start)
        n /= 2;
      else
        {
          first += n / 2 + 1;
          n -= n / 2 + 1;
        }
    }
  return false;
}
