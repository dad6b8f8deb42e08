/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture written into memory, and one that has a frame of every type. */
#pragma once

#include <glib.h>

#include "protocol/ledger.h"
#include "protocol/writer.h"

typedef struct
{
  GByteArray *bytes; /* what was handed on */
  guint8 *buffer;
  SondeWriter *writer;
  guint n_full; /* calls of the callback */
} MemoryCapture;

static inline void *
memory_capture_full (void *user_data, void *buffer, size_t used_bytes)
{
  MemoryCapture *self = user_data;

  g_byte_array_append (self->bytes, buffer, (guint) used_bytes);
  self->n_full++;

  return buffer;
}

/* @fill: what the buffer holds before; must never show in the capture. */
static inline MemoryCapture *
memory_capture_new (guint8 fill)
{
  MemoryCapture *self = g_new0 (MemoryCapture, 1);

  self->bytes = g_byte_array_new ();
  self->buffer = g_malloc (SONDE_WRITER_MIN_BUFFER_SIZE);
  memset (self->buffer, fill, SONDE_WRITER_MIN_BUFFER_SIZE);
  self->writer
      = sonde_writer_new (self->buffer, SONDE_WRITER_MIN_BUFFER_SIZE, memory_capture_full, self);
  g_assert_nonnull (self->writer);
  g_assert_cmpint (sonde_writer_add_file_header (self->writer, 0, 1000), ==, 0);

  return self;
}

static inline void
memory_capture_free (MemoryCapture *self)
{
  sonde_writer_free (self->writer);
  g_byte_array_unref (self->bytes);
  g_free (self->buffer);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (MemoryCapture, memory_capture_free)

/* One frame of each type, in the order of their numbers, at times 1001, 1002, ... */
static inline void
memory_capture_add_all (MemoryCapture *self)
{
  static const guint64 addrs[] = { SONDE_CONTEXT_USER, 0x401000, 0x402000 };
  static const SondeJitName names[]
      = { { SONDE_JIT_ADDRESS_BASE, "[kernel]" }, { SONDE_JIT_ADDRESS_BASE + 1, "a\nb\xff" } };
  static const SondeCounter counters[]
      = { { SONDE_LEDGER_CATEGORY, "produced", "samples", 1, SONDE_COUNTER_INT64, { .v64 = 7 } },
          { "CPU", "load", "share", 2, SONDE_COUNTER_DOUBLE, { .vdbl = 0.5 } } };
  static const uint32_t ids[] = { 1, 2 };
  static const SondeCounterValue values[] = { { .v64 = 8 }, { .vdbl = 0.25 } };
  SondeFrameOrigin at = { 1000, 1, 42 };
  SondeWriter *w = self->writer;

#define ADD(call)                                                                                  \
  G_STMT_START                                                                                     \
  {                                                                                                \
    at.time_ns++;                                                                                  \
    g_assert_cmpint (call, ==, 0);                                                                 \
  }                                                                                                \
  G_STMT_END
  ADD (sonde_writer_add_timestamp (w, &at));
  ADD (sonde_writer_add_sample (w, &at, 43, addrs, G_N_ELEMENTS (addrs)));
  ADD (sonde_writer_add_map (w, &at, 0x400000, 0x403000, 0x1000, 99, "/bin/x", "0badc0de"));
  ADD (sonde_writer_add_process (w, &at, "x --fast\nline\xc3"));
  ADD (sonde_writer_add_fork (w, &at, 44));
  ADD (sonde_writer_add_exit (w, &at));
  ADD (sonde_writer_add_jitmap (w, &at, names, G_N_ELEMENTS (names)));
  ADD (sonde_writer_add_counter_define (w, &at, counters, G_N_ELEMENTS (counters)));
  ADD (sonde_writer_add_counter_set (w, &at, ids, values, G_N_ELEMENTS (ids)));
  ADD (sonde_writer_add_mark (w, &at, 5, "group", "name", "message"));
  ADD (sonde_writer_add_metadata (w, &at, "sonde", "[sonde]\nversion=1\n", 18));
  ADD (sonde_writer_add_log (w, &at, 16, "sonde", "Lost 3 samples"));
  ADD (sonde_writer_add_file_chunk (w, &at, "/proc/cpuinfo", "Processor\t: 0\n", 14, TRUE));
  ADD (sonde_writer_add_allocation (w, &at, 43, 0x5000, 64, addrs + 1, 2));
  ADD (sonde_writer_add_overlay (w, &at, 3, "/lower", "/"));
#undef ADD
}

/* Hands on what the buffer still holds; the bytes stay the capture's. */
static inline GByteArray *
memory_capture_finish (MemoryCapture *self)
{
  g_assert_cmpint (sonde_writer_flush (self->writer), ==, 0);

  return self->bytes;
}
