/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sink, what feeds it, and its reader. */
#pragma once

#include "daemon/capture/stream/sink.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "tests/lib/stream-summary.h"

#define BUFFER_SIZE (256u << 10)

typedef struct
{
  SondeChunkPool *pool;
  SondeTally tally;
  SondeSpanWriter *writer; /* the session's */
  SondeSink *sink;
  int reader;
  GByteArray *stream;
  guint n_states; /* snapshots begun */
  guint n_steps;  /* pieces left of the one that is being written */
  int closed;     /* reason; -1: not yet */
} Fixture;

/* --- a state of two pieces --- */

static inline gpointer
begin_state (gboolean first, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_true (first == (fixture->n_states == 0));
  fixture->n_states++;
  fixture->n_steps = 2;

  return fixture;
}

static inline gboolean
write_state (gpointer cursor, SondeSpanWriter *out)
{
  Fixture *fixture = cursor;
  SondeFrameOrigin origin = { 0, -1, -1 };

  if (fixture->n_steps == 2 && fixture->n_states == 1)
    sonde_writer_add_file_header (sonde_span_writer_state (out), 0, 0);
  else
    sonde_writer_add_metadata (sonde_span_writer_state (out), &origin, "sonde", "x=1", 3);

  return --fixture->n_steps > 0;
}

static inline void
end_state (gpointer cursor)
{
}

static inline void
sink_closed (SondeSink *sink, int reason, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpint (fixture->closed, ==, -1);
  fixture->closed = reason;
}

static inline void
push_span (const SondeSpan *span, gpointer user_data)
{
  Fixture *fixture = user_data;

  sonde_sink_push (fixture->sink, span);
}

static inline void
settle (gpointer user_data)
{
  Fixture *fixture = user_data;

  sonde_span_writer_publish (fixture->writer);
}

static inline SondeSink *
make_sink (Fixture *fixture, int fd, const SondeMessageSink *options)
{
  static const SondeSinkHandler handler
      = { settle, begin_state, write_state, end_state, sink_closed };

  fixture->n_states = 0;
  fixture->closed = -1;
  return sonde_sink_new (fd, options, fixture->pool, &fixture->tally, &handler, fixture);
}

/* As sonded makes it. */
static inline void
make_stream (int fds[2])
{
  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (shutdown (fds[0], SHUT_RD), ==, 0);
}

static inline void
set_up (Fixture *fixture, gconstpointer data)
{
  static const SondeMessageSink all = { .sink_id = 7,
                                        .kind = SONDE_SINK_STREAM,
                                        .buffer_size_bytes = BUFFER_SIZE,
                                        .frames = SONDE_SINK_FRAMES_ALL };
  const SondeMessageSink *options = data != NULL ? data : &all;
  int fds[2];

  make_stream (fds);
  fixture->reader = fds[1];
  fixture->stream = g_byte_array_new ();
  fixture->pool = sonde_chunk_pool_new ();
  fixture->writer = sonde_span_writer_new (fixture->pool, push_span, fixture);
  fixture->sink = make_sink (fixture, fds[0], options);
}

static inline void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_sink_free (fixture->sink);
  sonde_span_writer_free (fixture->writer);
  sonde_chunk_pool_unref (fixture->pool);
  g_byte_array_unref (fixture->stream);
  sonde_clear_fd (&fixture->reader);
}

static inline void
record_samples (Fixture *fixture, guint n_samples)
{
  static const uint64_t addrs[64] = { SONDE_CONTEXT_USER, 0x1000 };
  SondeFrameOrigin origin = { 1, 0, 10 };

  for (guint i = 0; i < n_samples; i++)
    {
      g_assert_cmpint (
          sonde_span_writer_add_sample (fixture->writer, &origin, 10, addrs, G_N_ELEMENTS (addrs)),
          ==, 0);
      sonde_tally_sample_read (&fixture->tally);
      sonde_tally_add (&fixture->tally, SONDE_LEDGER_RECORDED, 1);
    }
  sonde_span_writer_publish (fixture->writer);
  sonde_sink_pump (fixture->sink);
}

static inline void
record_state (Fixture *fixture)
{
  SondeFrameOrigin origin = { 1, 0, 10 };

  sonde_writer_add_process (sonde_span_writer_state (fixture->writer), &origin, "program");
  sonde_span_writer_publish (fixture->writer);
  sonde_sink_pump (fixture->sink);
}

static inline gboolean
read_some (Fixture *fixture)
{
  return stream_receive (fixture->reader, fixture->stream);
}

static inline void
read_to_the_end (Fixture *fixture)
{
  while (!read_some (fixture))
    g_main_context_iteration (NULL, FALSE);
}

static inline StreamSummary *
finish (Fixture *fixture, GBytes *symbols)
{
  sonde_sink_finish (fixture->sink, symbols);
  read_to_the_end (fixture);
  g_assert_cmpint (fixture->closed, ==, 0);
  g_assert_true (sonde_sink_is_closed (fixture->sink));

  return stream_summary_new (fixture->stream);
}
