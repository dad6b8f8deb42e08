/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protocol/reader.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_SIZE (1024 * 1024) /* bytes; a multiple of 8, and far above SONDE_FRAME_MAX_SIZE */

struct SondeReader
{
  SondeReaderSource source;
  void *user_data;
  int fd; /* of sonde_reader_new_fd() */
  SondeFileHeader header;
  uint8_t *buffer;
  size_t begin;          /* bytes; where the next frame starts, always a multiple of 8 */
  size_t end;            /* bytes; behind the last one read */
  uint64_t next_offset;  /* bytes; of the next frame in the capture */
  uint64_t frame_offset; /* bytes; of the last one returned, or of the broken one */
  SondeFrameFault fault;
  bool at_end; /* the source has no more */
};

static int64_t
read_fd (void *user_data, void *buffer, size_t size_bytes)
{
  const SondeReader *self = user_data;
  ssize_t n;

  do
    n = read (self->fd, buffer, size_bytes);
  while (n < 0 && errno == EINTR);

  return n < 0 ? -errno : n;
}

/* Reads until @want_bytes are buffered. 0, or the source's error; fewer are there only at its end.
 */
static int
fill (SondeReader *self, size_t want_bytes)
{
  if (self->end - self->begin >= want_bytes)
    return 0;

  if (BUFFER_SIZE - self->begin < want_bytes)
    {
      memmove (self->buffer, self->buffer + self->begin, self->end - self->begin);
      self->end -= self->begin;
      self->begin = 0;
    }

  while (self->end - self->begin < want_bytes && !self->at_end)
    {
      size_t room = BUFFER_SIZE - self->end;
      int64_t n = self->source (self->user_data, self->buffer + self->end, room);

      if (n < 0)
        return (int) n;
      if ((uint64_t) n > room)
        return -EIO;

      self->end += (size_t) n;
      self->at_end = n == 0;
    }

  return 0;
}

static void
skip (SondeReader *self, size_t size_bytes)
{
  self->begin += size_bytes;
  self->next_offset += size_bytes;
}

static int
read_header (SondeReader *self)
{
  int r = fill (self, sizeof self->header);

  if (r < 0)
    return r;
  if (self->end < sizeof self->header)
    return -ENODATA;

  memcpy (&self->header, self->buffer, sizeof self->header);
  r = sonde_file_header_check (&self->header);
  if (r < 0)
    return r;

  /* What is printed must end, whoever wrote it. */
  self->header.capture_time[sizeof self->header.capture_time - 1] = '\0';
  skip (self, sizeof self->header);
  self->frame_offset = self->next_offset;

  return 0;
}

static int
new_reader (SondeReaderSource source, void *user_data, int fd, SondeReader **ret)
{
  SondeReader *self = calloc (1, sizeof *self);
  int r = -ENOMEM;

  if (self == NULL)
    return r;

  self->source = source;
  self->user_data = source == read_fd ? self : user_data;
  self->fd = fd;
  self->buffer = malloc (BUFFER_SIZE);
  if (self->buffer != NULL)
    r = read_header (self);

  if (r < 0)
    {
      sonde_reader_free (self);
      return r;
    }

  *ret = self;
  return 0;
}

int
sonde_reader_new (SondeReaderSource source, void *user_data, SondeReader **self)
{
  return new_reader (source, user_data, -1, self);
}

int
sonde_reader_new_fd (int fd, SondeReader **self)
{
  return new_reader (read_fd, NULL, fd, self);
}

void
sonde_reader_free (SondeReader *self)
{
  if (self == NULL)
    return;

  free (self->buffer);
  free (self);
}

const SondeFileHeader *
sonde_reader_header (const SondeReader *self)
{
  return &self->header;
}

int
sonde_reader_next (SondeReader *self, const SondeFrame **frame)
{
  SondeFrameFault fault;
  int r;

  if (self->fault != SONDE_FRAME_OK)
    return -EBADMSG;

  r = fill (self, sizeof (SondeFrame));
  if (r < 0)
    return r;
  if (self->begin == self->end)
    return 0;

  /* Judged with as few bytes as that takes, so that a live stream is never waited for longer than
   * needed. */
  fault = sonde_frame_check (self->buffer + self->begin, self->end - self->begin);
  if (fault == SONDE_FRAME_FAULT_LENGTH_PAST_END)
    {
      r = fill (self, ((const SondeFrame *) (self->buffer + self->begin))->len);
      if (r < 0)
        return r;
      fault = sonde_frame_check (self->buffer + self->begin, self->end - self->begin);
    }

  self->frame_offset = self->next_offset;
  if (fault != SONDE_FRAME_OK)
    {
      self->fault = fault;
      return -EBADMSG;
    }

  *frame = (const SondeFrame *) (self->buffer + self->begin);
  skip (self, (*frame)->len);

  return 1;
}

uint64_t
sonde_reader_offset (const SondeReader *self)
{
  return self->frame_offset;
}

SondeFrameFault
sonde_reader_fault (const SondeReader *self)
{
  return self->fault;
}

const char *
sonde_reader_strerror (int error)
{
  switch (error)
    {
    case -EBADMSG:
      return "not a Sonde capture: it does not begin with the magic number";
    case -EPROTONOSUPPORT:
      return "not a Sonde capture of this version: only format version 1 is known";
    case -ENOTSUP:
#if __BYTE_ORDER == __LITTLE_ENDIAN
      return "a Sonde capture of foreign byte order: written on a big-endian machine";
#else
      return "a Sonde capture of foreign byte order: written on a little-endian machine";
#endif
    case -ENODATA:
      return "not a Sonde capture: shorter than the 256 bytes of its header";
    default:
      return strerror (error < 0 ? -error : error);
    }
}
