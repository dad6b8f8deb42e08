/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/jit-file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum
{
  PIECE_BYTES = 65536, /* a line that is longer is passed over */
  GUARD_BYTES = 32, /* before where it was read to: they stay as long as it is only appended to */
  DUMP_MAGIC = 0x4A695444,
  DUMP_CODE_LOAD = 0,
  DUMP_CODE_MOVE = 1,
  DUMP_FOREIGN_TIMES = 1 << 0,
};

struct SondeJitFile
{
  int fd;
  SondeJitFileKind kind;
  uint64_t left_bytes; /* that may still be read */
  uint64_t offset;     /* what is before was read */
  uint64_t size_bytes; /* when it was looked at last */
  int64_t seen_ns;     /* what is new now is there since then */
  uint64_t flags;      /* of a dump */
  bool is_in_long_line;
  bool has_more;
  bool is_removed;
  size_t n_guard;
  char guard[GUARD_BYTES]; /* the bytes before the offset */
};

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

SondeJitFile *
sonde_jit_file_new (int fd, SondeJitFileKind kind, uint64_t max_bytes)
{
  SondeJitFile *self = calloc (1, sizeof *self);

  if (self == NULL)
    {
      close (fd);
      return NULL;
    }
  *self = (SondeJitFile){ .fd = fd, .kind = kind, .left_bytes = max_bytes, .seen_ns = INT64_MIN };
  return self;
}

void
sonde_jit_file_free (SondeJitFile *self)
{
  if (self == NULL)
    return;
  sonde_clear_fd (&self->fd);
  free (self);
}

/* Returns: how many bytes there were, or a negative errno */
static ssize_t
read_at (SondeJitFile *self, uint64_t offset, void *bytes, size_t size)
{
  ssize_t n;

  if (size > self->left_bytes)
    return -EFBIG;
  do
    n = pread (self->fd, bytes, size, (off_t) offset);
  while (n < 0 && errno == EINTR);
  if (n < 0)
    return -errno;
  self->left_bytes -= (uint64_t) n;
  return n;
}

/* --- map files --- */

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

/* Takes the whole lines. Returns: as sonde_jit_file_read(); *@n_taken: (out): bytes */
static int
take_lines (SondeJitFile *self, SondeJitMap *map, const char *bytes, size_t size, size_t *n_taken)
{
  const char *line = bytes;
  const char *end;
  int r = 0;

  while (r != -ENOSPC && r != -ENOMEM
         && (end = memchr (line, '\n', size - (size_t) (line - bytes))) != NULL)
    {
      uint64_t begin, n_bytes;

      if (!self->is_in_long_line && take_number (&line, end, &begin)
          && take_number (&line, end, &n_bytes))
        r = sonde_jit_map_add (map, begin, n_bytes, line, (size_t) (end - line), self->seen_ns);
      self->is_in_long_line = false;
      line = end + 1;
    }
  *n_taken = (size_t) (line - bytes);
  if (*n_taken == 0 && size == PIECE_BYTES)
    {
      self->is_in_long_line = true;
      *n_taken = size;
    }
  return r == -ENOSPC || r == -ENOMEM ? r : 0;
}

/* --- jitdump --- */

/* @size: of @body, which may be only the beginning of the record's */
static int
take_load (SondeJitMap *map, const char *body, size_t size, int64_t since_ns)
{
  DumpLoad load;
  const char *name = body + sizeof load;
  const char *end;

  if (size <= sizeof load)
    return 0;
  memcpy (&load, body, sizeof load);
  size -= sizeof load;
  end = memchr (name, '\0', size);
  if (end == NULL && size <= SONDE_JIT_MAP_MAX_NAME)
    return 0;
  return sonde_jit_map_add (map, load.address, load.size_bytes, name,
                            end != NULL ? (size_t) (end - name) : size, since_ns);
}

static int
take_move (SondeJitMap *map, const char *body, size_t size, int64_t since_ns)
{
  DumpMove move;

  if (size < sizeof move)
    return 0;
  memcpy (&move, body, sizeof move);
  return sonde_jit_map_move (map, move.old_address, move.new_address, move.size_bytes, since_ns);
}

/* What of a record has to be looked at: not the code. */
#define RECORD_BYTES (sizeof (DumpRecord) + sizeof (DumpLoad) + SONDE_JIT_MAP_MAX_NAME + 1)

/* Takes the records that begin in the bytes and are whole in the file. The same. */
static int
take_records (SondeJitFile *self,
              SondeJitMap *map,
              const char *bytes,
              size_t size,
              int64_t now_ns,
              uint64_t *n_taken)
{
  DumpRecord record;
  uint64_t at = 0;
  int r = 0;

  while (r != -ENOSPC && r != -ENOMEM && at <= size && size - at >= sizeof record)
    {
      const char *body = bytes + at + sizeof record;
      int64_t since_ns = self->seen_ns;
      size_t n_body;

      memcpy (&record, bytes + at, sizeof record);
      if (record.size_bytes < sizeof record)
        return -EBADMSG;
      if (record.size_bytes > self->size_bytes - self->offset - at)
        break; /* still being written */
      n_body = record.size_bytes - sizeof record;
      if (n_body > size - at - sizeof record)
        {
          if (at > 0 && size - at < RECORD_BYTES)
            break; /* the next piece has it */
          n_body = size - at - sizeof record;
        }
      if ((self->flags & DUMP_FOREIGN_TIMES) == 0)
        since_ns = record.time_ns < (uint64_t) now_ns ? (int64_t) record.time_ns : now_ns;
      if (record.id == DUMP_CODE_LOAD)
        r = take_load (map, body, n_body, since_ns);
      else if (record.id == DUMP_CODE_MOVE)
        r = take_move (map, body, n_body, since_ns);
      at += record.size_bytes;
    }
  *n_taken = at;
  return r == -ENOSPC || r == -ENOMEM ? r : 0;
}

static int
take_header (SondeJitFile *self, const char *bytes, size_t size, uint64_t *n_taken)
{
  DumpHeader header;

  *n_taken = 0;
  if (size < sizeof header)
    return 0;
  memcpy (&header, bytes, sizeof header);
  if (header.magic != DUMP_MAGIC || header.size_bytes < sizeof header)
    return -ENOEXEC;
  if (header.size_bytes > self->size_bytes)
    return 0;
  self->flags = header.flags;
  *n_taken = header.size_bytes;
  return 0;
}

/* --- both --- */

static void
begin_anew (SondeJitFile *self)
{
  self->offset = 0;
  self->n_guard = 0;
  self->is_in_long_line = false;
}

/* Returns: 1 or 0, whether what was read stands there still; or a negative errno */
static int
is_appended (SondeJitFile *self)
{
  char bytes[GUARD_BYTES];
  ssize_t n;

  if (self->n_guard == 0)
    return 1;
  n = read_at (self, self->offset - self->n_guard, bytes, self->n_guard);
  if (n < 0)
    return (int) n;
  return (size_t) n == self->n_guard && memcmp (bytes, self->guard, self->n_guard) == 0;
}

static int
keep_guard (SondeJitFile *self)
{
  size_t n_guard = self->offset < GUARD_BYTES ? (size_t) self->offset : GUARD_BYTES;
  ssize_t n = read_at (self, self->offset - n_guard, self->guard, n_guard);

  self->n_guard = n > 0 ? (size_t) n : 0;
  return n < 0 ? (int) n : 0;
}

/* Returns: as sonde_jit_file_read(), for a piece */
static int
read_piece (SondeJitFile *self, SondeJitMap *map, char *bytes, int64_t now_ns)
{
  uint64_t n_taken = 0;
  size_t n_lines = 0;
  ssize_t n = read_at (self, self->offset, bytes, PIECE_BYTES);
  int r;

  if (n <= 0)
    return (int) n;
  if (self->size_bytes < self->offset + (uint64_t) n)
    self->size_bytes = self->offset + (uint64_t) n;
  if (self->kind == SONDE_JIT_FILE_MAP)
    {
      r = take_lines (self, map, bytes, (size_t) n, &n_lines);
      n_taken = n_lines;
    }
  else if (self->offset == 0)
    r = take_header (self, bytes, (size_t) n, &n_taken);
  else
    r = take_records (self, map, bytes, (size_t) n, now_ns, &n_taken);
  self->offset += n_taken;
  if (r == 0 && n_taken > 0)
    r = keep_guard (self);
  return r < 0 ? r : n_taken > 0 && self->offset < self->size_bytes;
}

/* Whether there is something to read: 1 or 0, or a negative errno. */
static int
look (SondeJitFile *self)
{
  struct stat st;
  int r;

  if (fstat (self->fd, &st) < 0)
    return -errno;
  self->is_removed = st.st_nlink == 0;
  if (st.st_size < 0 || (uint64_t) st.st_size == self->size_bytes)
    return self->has_more;
  self->size_bytes = (uint64_t) st.st_size;
  r = self->size_bytes >= self->offset ? is_appended (self) : 0;
  if (r == 0)
    begin_anew (self);
  return r < 0 ? r : 1;
}

int
sonde_jit_file_read (SondeJitFile *self, SondeJitMap *map, size_t max_bytes, int64_t now_ns)
{
  char *bytes;
  int r = look (self);

  if (r > 0)
    {
      bytes = malloc (PIECE_BYTES);
      r = bytes != NULL ? 1 : -ENOMEM;
      for (size_t n = 0; r > 0 && n < max_bytes; n += PIECE_BYTES)
        r = read_piece (self, map, bytes, now_ns);
      free (bytes);
    }
  self->has_more = r > 0;
  if (r == 0)
    self->seen_ns = now_ns;
  return r;
}

bool
sonde_jit_file_is_removed (const SondeJitFile *self)
{
  return self->is_removed;
}
