/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of calls as programs' would be, record by record. */
#pragma once

#include <string.h>

#include "protocol/calls.h"
#include "protocol/frame.h"
#include "protocol/number-column.h"

static inline void
put (GByteArray *bytes, guint64 number)
{
  guint8 coded[SONDE_NUMBER_MAX_BYTES];

  g_byte_array_append (bytes, coded, (guint) sonde_number_put (coded, number));
}

/* @numbers: of the body */
static inline void
put_record (GByteArray *bytes, guint64 kind, const guint64 *numbers, gsize n)
{
  g_autoptr (GByteArray) body = g_byte_array_new ();

  for (gsize i = 0; i < n; i++)
    put (body, numbers[i]);
  put (bytes, kind);
  put (bytes, body->len);
  g_byte_array_append (bytes, body->data, body->len);
}

#define RECORD(bytes, kind, ...)                                                                   \
  put_record (bytes, kind, (const guint64[]){ __VA_ARGS__ },                                       \
              sizeof ((const guint64[]){ __VA_ARGS__ }) / sizeof (guint64))

static inline GByteArray *
new_file (guint64 begin_ns, guint64 end_ns)
{
  GByteArray *bytes = g_byte_array_new ();

  g_byte_array_append (bytes, (const guint8 *) SONDE_CALLS_MAGIC, SONDE_CALLS_MAGIC_BYTES);
  put (bytes, SONDE_CALLS_VERSION);
  put (bytes, 1000000000); /* ticks a second */
  put (bytes, 2);
  put (bytes, 64);
  put (bytes, begin_ns);
  put (bytes, end_ns);
  return bytes;
}

static inline void
end_file (GByteArray *bytes)
{
  RECORD (bytes, SONDE_CALLS_END, bytes->len);
}

/* In frames of @piece bytes. */
static inline void
tell_file (const char *path,
           const GByteArray *bytes,
           guint piece,
           void (*tell) (gpointer receiver, const SondeFrame *frame),
           gpointer receiver)
{
  for (guint at = 0; at < bytes->len; at += piece)
    {
      union
      {
        SondeFrameFileChunk chunk;
        guint64 words[(sizeof (SondeFrameFileChunk) + 4096) / 8 + 1];
      } made = { .words = { 0 } };
      guint n = MIN (piece, bytes->len - at);

      made.chunk.frame.type = SONDE_FRAME_FILE_CHUNK;
      made.chunk.frame.len = (guint16) (sizeof made.chunk + n);
      made.chunk.data_len = (guint16) n;
      made.chunk.is_last = at + n == bytes->len;
      g_strlcpy (made.chunk.path, path, sizeof made.chunk.path);
      memcpy (made.chunk.data, bytes->data + at, n);
      tell (receiver, &made.chunk.frame);
    }
}
