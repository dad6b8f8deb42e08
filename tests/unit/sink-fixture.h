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
  SondeTally tally;
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeSinkSource source;
  SondeSink *sink;
  int reader;
  GByteArray *stream;
  int closed; /* reason; -1: not yet */
} Fixture;

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

static inline SondeSink *
make_sink (Fixture *fixture, int fd, const SondeMessageSink *options)
{
  fixture->closed = -1;
  return sonde_sink_new (fd, options, &fixture->source);
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
  fixture->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  fixture->processes = sonde_process_table_new (fixture->modules);
  fixture->source.pool = sonde_chunk_pool_new ();
  fixture->source.state = sonde_stream_state_new (fixture->processes);
  sonde_stream_state_describe (fixture->source.state, 0, 0, g_strdup ("x=1"));
  fixture->source.writer = sonde_span_writer_new (fixture->source.pool, push_span, fixture);
  fixture->source.tally = &fixture->tally;
  fixture->source.closed = sink_closed;
  fixture->source.user_data = fixture;
  fixture->sink = make_sink (fixture, fds[0], options);
}

static inline void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_sink_free (fixture->sink);
  sonde_span_writer_free (fixture->source.writer);
  sonde_stream_state_free (fixture->source.state);
  sonde_chunk_pool_unref (fixture->source.pool);
  sonde_process_table_free (fixture->processes);
  sonde_module_store_free (fixture->modules);
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
      g_assert_cmpint (sonde_span_writer_add_sample (fixture->source.writer, &origin, 10, addrs,
                                                     G_N_ELEMENTS (addrs)),
                       ==, 0);
      sonde_tally_sample_read (&fixture->tally);
      sonde_tally_add (&fixture->tally, SONDE_LEDGER_RECORDED, 1);
    }
  sonde_span_writer_publish (fixture->source.writer);
  sonde_sink_pump (fixture->sink);
}

static inline void
record_state (Fixture *fixture)
{
  SondeFrameOrigin origin = { 1, 0, 10 };

  sonde_writer_add_process (sonde_span_writer_state (fixture->source.writer), &origin, "program");
  sonde_span_writer_publish (fixture->source.writer);
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
  g_assert_true (fixture->sink->phase == SONDE_SINK_PHASE_CLOSED);

  return stream_summary_new (fixture->stream);
}
