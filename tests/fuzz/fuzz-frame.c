/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to frame-check and, as a stream in small pieces, to the reader. */
#include <stdlib.h>
#include <string.h>

#include "protocol/frame-check.h"
#include "protocol/reader.h"
#include "tests/fuzz/fuzz.h"

typedef struct
{
  const uint8_t *data;
  size_t size;
  size_t at;
} Memory;

/* Short reads whose lengths the bytes themselves choose, so that the fuzzer reaches every split. */
static int64_t
read_memory (void *user_data, void *buffer, size_t size_bytes)
{
  Memory *memory = user_data;
  size_t left = memory->size - memory->at;
  size_t n = left == 0 ? 0 : 1 + memory->data[memory->at] * 17u;

  if (n > left)
    n = left;
  if (n > size_bytes)
    n = size_bytes;
  if (n > 0)
    memcpy (buffer, memory->data + memory->at, n);
  memory->at += n;

  return (int64_t) n;
}

/* What the reader gave must be what lies there, whole, and pass the check again on its own. */
static void
check_frame (const SondeReader *reader, const SondeFrame *frame, const Memory *memory)
{
  uint64_t offset = sonde_reader_offset (reader);

  if (offset > memory->size || frame->len > memory->size - offset
      || memcmp (frame, memory->data + offset, frame->len) != 0
      || sonde_frame_check (frame, frame->len) != SONDE_FRAME_OK)
    abort ();
}

static void
fuzz_reader (const uint8_t *data, size_t size)
{
  Memory memory = { data, size, 0 };
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  int r = sonde_reader_new (read_memory, &memory, &reader);

  if (r < 0)
    {
      if (sonde_reader_strerror (r)[0] == '\0')
        abort ();
      return;
    }

  while ((r = sonde_reader_next (reader, &frame)) == 1)
    check_frame (reader, frame, &memory);
  if ((r == 0) != (sonde_reader_fault (reader) == SONDE_FRAME_OK))
    abort ();

  sonde_reader_free (reader);
}

/* The bytes as one frame, in memory of exactly their size, as a ring's reader would hold it. */
static void
fuzz_check (const uint8_t *data, size_t size)
{
  void *copy = malloc (size);

  if (copy != NULL && size > 0)
    {
      memcpy (copy, data, size);
      if (sonde_frame_fault_to_string (sonde_frame_check (copy, size))[0] == '?')
        abort ();
    }
  free (copy);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_check (data, size);
  fuzz_reader (data, size);

  return 0;
}
