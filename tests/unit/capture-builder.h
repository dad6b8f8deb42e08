/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures made in memory for the tests of what reads them. */
#pragma once

#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/ledger.h"
#include "protocol/writer.h"

/* Made-up addresses. */
#define JIT(n) (SONDE_JIT_ADDRESS_BASE + (n))

typedef struct
{
  SondeWriter *writer;
  GByteArray *bytes; /* what was flushed */
  void *buffer;
} CaptureBuilder;

static void *
capture_builder_take (void *user_data, void *buffer, size_t used_bytes)
{
  CaptureBuilder *self = user_data;

  g_byte_array_append (self->bytes, buffer, (guint) used_bytes);
  return buffer;
}

static inline CaptureBuilder *
capture_builder_new (void)
{
  CaptureBuilder *self = g_new0 (CaptureBuilder, 1);

  self->bytes = g_byte_array_new ();
  self->buffer = aligned_alloc (8, SONDE_WRITER_MIN_BUFFER_SIZE);
  self->writer
      = sonde_writer_new (self->buffer, SONDE_WRITER_MIN_BUFFER_SIZE, capture_builder_take, self);
  g_assert_nonnull (self->writer);
  g_assert_cmpint (sonde_writer_add_file_header (self->writer, 0, 1000), ==, 0);
  return self;
}

static inline void
capture_builder_free (CaptureBuilder *self)
{
  sonde_writer_free (self->writer);
  g_byte_array_unref (self->bytes);
  free (self->buffer);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CaptureBuilder, capture_builder_free)

static inline SondeFrameOrigin
at (int32_t pid, int64_t time_ns)
{
  return (SondeFrameOrigin){ .time_ns = time_ns, .cpu = 0, .pid = pid };
}

#define ADD(call) g_assert_cmpint ((call), ==, 0)

static inline void
add_process (CaptureBuilder *self, int32_t pid, const char *cmdline)
{
  SondeFrameOrigin origin = at (pid, 1000);

  ADD (sonde_writer_add_process (self->writer, &origin, cmdline));
}

static inline void
add_map (CaptureBuilder *self, int32_t pid, guint64 start, guint64 end, const char *path)
{
  SondeFrameOrigin origin = at (pid, 1000);

  ADD (sonde_writer_add_map (self->writer, &origin, start, end, 0, 0, path, NULL));
}

static inline void
add_jit_name (CaptureBuilder *self, guint64 address, const char *name)
{
  SondeFrameOrigin origin = at (-1, 1000);
  SondeJitName jit = { address, name };

  ADD (sonde_writer_add_jitmap (self->writer, &origin, &jit, 1));
}

/* Addresses leaf first, as in the capture. */
#define add_sample(self, pid, ...)                                                                 \
  add_sample_array ((self), (pid), (const uint64_t[]){ __VA_ARGS__ },                              \
                    sizeof ((const uint64_t[]){ __VA_ARGS__ }) / sizeof (uint64_t))

static inline void
add_sample_array (CaptureBuilder *self, int32_t pid, const uint64_t *addrs, size_t n_addrs)
{
  SondeFrameOrigin origin = at (pid, 2000);

  ADD (sonde_writer_add_sample (self->writer, &origin, pid, addrs, n_addrs));
}

static inline void
define_ledger (CaptureBuilder *self)
{
  SondeFrameOrigin origin = at (-1, 1000);
  SondeCounter counters[SONDE_N_LEDGER];

  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    counters[i] = (SondeCounter){ .category = SONDE_LEDGER_CATEGORY,
                                  .name = sonde_ledger_name (i),
                                  .description = "",
                                  .id = i + 1,
                                  .type = SONDE_COUNTER_INT64 };
  ADD (sonde_writer_add_counter_define (self->writer, &origin, counters, SONDE_N_LEDGER));
}

static inline void
set_ledger (CaptureBuilder *self, const gint64 *values, guint n_values)
{
  SondeFrameOrigin origin = at (-1, 3000);
  SondeCounterValue set[SONDE_N_LEDGER];
  uint32_t ids[SONDE_N_LEDGER];

  for (guint i = 0; i < n_values; i++)
    {
      ids[i] = i + 1;
      set[i].v64 = values[i];
    }
  ADD (sonde_writer_add_counter_set (self->writer, &origin, ids, set, n_values));
}

/* Everything so far, header included. */
static inline const GByteArray *
capture_bytes (CaptureBuilder *self)
{
  ADD (sonde_writer_flush (self->writer));
  return self->bytes;
}

typedef void (*CaptureFrameFunc) (gpointer receiver, const SondeFrame *frame);

static inline void
capture_foreach (CaptureBuilder *self, CaptureFrameFunc func, gpointer receiver)
{
  const GByteArray *bytes = capture_bytes (self);
  gsize offset = sizeof (SondeFileHeader);

  while (offset < bytes->len)
    {
      const SondeFrame *frame = (const SondeFrame *) (const void *) (bytes->data + offset);

      func (receiver, frame);
      offset += frame->len;
    }
}

/* The first @size bytes (-1: all) as a file; free and unlink with remove_file(). */
static inline char *
write_file (CaptureBuilder *self, gssize size)
{
  const GByteArray *bytes = capture_bytes (self);
  char *path = NULL;
  int fd = g_file_open_tmp ("sonde-test-XXXXXX.syscap", &path, NULL);
  gsize length = size < 0 ? bytes->len : (gsize) size;

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes->data, length), ==, (gssize) length);
  close (fd);
  return path;
}

static inline void
remove_file (char *path)
{
  g_unlink (path);
  g_free (path);
}

static inline void
assert_has (const char *text, const char *part)
{
  if (strstr (text, part) == NULL)
    g_error ("\"%s\" is not in:\n%s", part, text);
}
