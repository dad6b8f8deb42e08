/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sink in front of a real socket whose reader is fast, slow, or gone. */
#include "daemon/capture/sink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fd.h"
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

static gpointer
begin_state (gboolean first, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_true (first == (fixture->n_states == 0));
  fixture->n_states++;
  fixture->n_steps = 2;

  return fixture;
}

static gboolean
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

static void
end_state (gpointer cursor)
{
}

static void
sink_closed (SondeSink *sink, int reason, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpint (fixture->closed, ==, -1);
  fixture->closed = reason;
}

static void
push_span (const SondeSpan *span, gpointer user_data)
{
  Fixture *fixture = user_data;

  sonde_sink_push (fixture->sink, span);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  static const SondeSinkHandler handler = { begin_state, write_state, end_state, sink_closed };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  fixture->reader = fds[1];
  fixture->closed = -1;
  fixture->stream = g_byte_array_new ();
  fixture->pool = sonde_chunk_pool_new ();
  fixture->writer = sonde_span_writer_new (fixture->pool, push_span, fixture);
  fixture->sink
      = sonde_sink_new (fds[0], 7, BUFFER_SIZE, fixture->pool, &fixture->tally, &handler, fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_sink_free (fixture->sink);
  sonde_span_writer_free (fixture->writer);
  sonde_chunk_pool_unref (fixture->pool);
  g_byte_array_unref (fixture->stream);
  sonde_clear_fd (&fixture->reader);
}

static void
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

static void
record_state (Fixture *fixture)
{
  SondeFrameOrigin origin = { 1, 0, 10 };

  sonde_writer_add_process (sonde_span_writer_state (fixture->writer), &origin, "program");
  sonde_span_writer_publish (fixture->writer);
  sonde_sink_pump (fixture->sink);
}

static gboolean
read_some (Fixture *fixture)
{
  return stream_receive (fixture->reader, fixture->stream);
}

static void
read_to_the_end (Fixture *fixture)
{
  while (!read_some (fixture))
    g_main_context_iteration (NULL, FALSE);
}

static StreamSummary *
finish (Fixture *fixture, GBytes *symbols)
{
  sonde_sink_finish (fixture->sink, symbols);
  read_to_the_end (fixture);
  g_assert_cmpint (fixture->closed, ==, 0);
  g_assert_true (sonde_sink_is_closed (fixture->sink));

  return stream_summary_new (fixture->stream);
}

/* --- cases --- */

static void
closes_when_its_reader_is_gone (Fixture *fixture, gconstpointer data)
{
  sonde_sink_pump (fixture->sink);
  sonde_clear_fd (&fixture->reader);
  while (fixture->closed < 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpint (fixture->closed, ==, EPIPE);
  /* What comes later is nobody's. */
  record_samples (fixture, 1);
  sonde_sink_finish (fixture->sink, NULL);
}

static void
counts_what_waited_as_lost_when_its_reader_leaves (Fixture *fixture, gconstpointer data)
{
  const guint64 *counters = sonde_sink_counters (fixture->sink);

  record_samples (fixture, 3000);
  sonde_clear_fd (&fixture->reader);
  while (fixture->closed < 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (counters[SONDE_LEDGER_STREAM_SAMPLES_LOST], >, 0);
  g_assert_cmpuint (counters[SONDE_LEDGER_STREAM_RECORDED] + counters[SONDE_LEDGER_STREAM_RESENT],
                    ==,
                    counters[SONDE_LEDGER_STREAM_DELIVERED] + counters[SONDE_LEDGER_STREAM_LOST]);
  g_assert_cmpuint (
      counters[SONDE_LEDGER_STREAM_SAMPLES] + counters[SONDE_LEDGER_STREAM_SAMPLES_LOST], ==, 3000);
}

static void
sends_state_then_frames_then_the_ledger (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  record_samples (fixture, 10);
  sonde_sink_push_counters (fixture->sink);
  record_samples (fixture, 5);
  summary = finish (fixture, NULL);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 15);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_METADATA], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_CTRSET], ==, 2);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_RESENT], ==, 3);
}

static void
embeds_symbols_in_pieces_before_the_ledger (Fixture *fixture, gconstpointer data)
{
  g_autofree guint8 *content = g_malloc0 (300000);
  g_autoptr (GBytes) symbols = g_bytes_new (content, 300000);
  g_autoptr (StreamSummary) summary = NULL;

  record_samples (fixture, 1);
  summary = finish (fixture, symbols);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_FILE_CHUNK], ==, 5);
}

static void
drops_whole_samples_when_full (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  /* 544 bytes each: more than queue and socket take together. */
  record_samples (fixture, 4000);
  g_assert_cmpuint (sonde_sink_counters (fixture->sink)[SONDE_LEDGER_STREAM_SAMPLES_LOST], >, 0);
  /* Nobody waits for it, and memory stays bounded. */
  record_samples (fixture, 20000);
  g_assert_cmpuint (sonde_chunk_pool_n_allocated (fixture->pool), <=,
                    BUFFER_SIZE / SONDE_CHUNK_SIZE + 4);

  summary = finish (fixture, NULL);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], >, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], >, 0);
  g_assert_nonnull (strstr (summary->log, "too slow"));
  /* Samples alone need no new state. */
  g_assert_cmpuint (fixture->n_states, ==, 1);
}

static void
sends_the_state_again_after_some_was_lost (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  guint64 n_before;

  sonde_sink_pump (fixture->sink);
  /* The first fills the socket, the second the queue. */
  record_samples (fixture, 4000);
  record_samples (fixture, 4000);
  record_state (fixture);
  n_before = sonde_sink_counters (fixture->sink)[SONDE_LEDGER_STREAM_SAMPLES];
  /* Stale: even a small span is not for it. */
  record_samples (fixture, 1);
  g_assert_cmpuint (sonde_sink_counters (fixture->sink)[SONDE_LEDGER_STREAM_SAMPLES], ==, n_before);

  while (fixture->n_states < 2)
    {
      read_some (fixture);
      g_main_context_iteration (NULL, FALSE);
    }
  read_some (fixture);
  record_samples (fixture, 3);
  summary = finish (fixture, NULL);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, n_before + 3);
  /* One at the start and two pieces of the second state, all before the last samples. */
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_METADATA], ==, 3);
  g_assert_cmpuint (summary->n_metadata_before_last_sample, ==, 3);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], >, 0);
}

static void
allocates_nothing_in_steady_state (Fixture *fixture, gconstpointer data)
{
  guint64 n_allocated;
  g_autoptr (StreamSummary) summary = NULL;

  for (guint i = 0; i < 20; i++)
    {
      record_samples (fixture, 200);
      read_some (fixture);
    }
  n_allocated = sonde_chunk_pool_n_allocated (fixture->pool);
  for (guint i = 0; i < 200; i++)
    {
      record_samples (fixture, 200);
      read_some (fixture);
    }
  g_assert_cmpuint (sonde_chunk_pool_n_allocated (fixture->pool), ==, n_allocated);
  summary = finish (fixture, NULL);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 220 * 200);
}

#define ADD(name, function) g_test_add ("/sink/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("closes-when-its-reader-is-gone", closes_when_its_reader_is_gone);
  ADD ("counts-what-waited-as-lost-when-its-reader-leaves",
       counts_what_waited_as_lost_when_its_reader_leaves);
  ADD ("drops-whole-samples-when-full", drops_whole_samples_when_full);
  ADD ("sends-the-state-again-after-some-was-lost", sends_the_state_again_after_some_was_lost);
  ADD ("sends-state-then-frames-then-the-ledger", sends_state_then_frames_then_the_ledger);
  ADD ("embeds-symbols-in-pieces-before-the-ledger", embeds_symbols_in_pieces_before_the_ledger);
  ADD ("allocates-nothing-in-steady-state", allocates_nothing_in_steady_state);
  return g_test_run ();
}
