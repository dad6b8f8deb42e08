/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines of /proc/PID/maps. */
#include "config.h"

#include "daemon/base/proc-maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
