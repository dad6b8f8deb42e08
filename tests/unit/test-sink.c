/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sink in front of a real socket whose reader is fast, slow, or gone, or of a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/sink-fixture.h"

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
  const guint64 *counters = fixture->sink->counters;

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
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_RESENT], ==, 4);
}

static void
embeds_symbols_in_pieces_before_the_ledger (Fixture *fixture, gconstpointer data)
{
  g_autofree guint8 *content = g_malloc0 (300000);
  g_autoptr (GBytes) symbols = g_bytes_new (content, 300000);
  g_autoptr (StreamSummary) summary = NULL;

  record_samples (fixture, 1);
  summary = finish (fixture, symbols);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_FILE_CHUNK], ==,
                    (300000 + SONDE_WRITER_MAX_CHUNK - 1) / SONDE_WRITER_MAX_CHUNK);
}

static void
drops_whole_samples_when_full (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  /* 544 bytes each: more than queue and socket take together. */
  record_samples (fixture, 4000);
  g_assert_cmpuint (fixture->sink->counters[SONDE_LEDGER_STREAM_SAMPLES_LOST], >, 0);
  /* Nobody waits for it, and memory stays bounded. */
  record_samples (fixture, 20000);
  g_assert_cmpuint (sonde_chunk_pool_n_allocated (fixture->source.pool), <=,
                    BUFFER_SIZE / SONDE_CHUNK_SIZE + 4);

  summary = finish (fixture, NULL);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], >, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], >, 0);
  g_assert_nonnull (strstr (summary->log, "too slow"));
  /* Samples alone need no new state. */
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_METADATA], ==, 1);
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
  n_before = fixture->sink->counters[SONDE_LEDGER_STREAM_SAMPLES];
  /* Stale: even a small span is not for it. */
  record_samples (fixture, 1);
  g_assert_cmpuint (fixture->sink->counters[SONDE_LEDGER_STREAM_SAMPLES], ==, n_before);

  while (fixture->sink->lost_state)
    {
      read_some (fixture);
      g_main_context_iteration (NULL, FALSE);
    }
  read_some (fixture);
  record_samples (fixture, 3);
  summary = finish (fixture, NULL);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, n_before + 3);
  /* One of each state, both before the last samples. */
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_METADATA], ==, 2);
  g_assert_cmpuint (summary->n_metadata_before_last_sample, ==, 2);
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
  n_allocated = sonde_chunk_pool_n_allocated (fixture->source.pool);
  for (guint i = 0; i < 200; i++)
    {
      record_samples (fixture, 200);
      read_some (fixture);
    }
  g_assert_cmpuint (sonde_chunk_pool_n_allocated (fixture->source.pool), ==, n_allocated);
  summary = finish (fixture, NULL);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 220 * 200);
}

/* --- what it did not ask for --- */

static const SondeMessageSink only_logs = { .sink_id = 7,
                                            .kind = SONDE_SINK_STREAM,
                                            .buffer_size_bytes = BUFFER_SIZE,
                                            .frames = SONDE_SINK_FRAMES_LOGS };

static void
counts_what_it_did_not_ask_for (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  /* However much: none of it waits for this reader. */
  record_samples (fixture, 20000);
  record_state (fixture);
  sonde_sink_push_counters (fixture->sink);
  summary = finish (fixture, NULL);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 1);
  /* Its own ledger is no counter that it could do without. */
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_CTRSET], ==, 2);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_FILTERED], ==, 20000);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_FILTERED], ==, 20000);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_LOST], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
}

static void
knows_what_was_recorded_before_it_came (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeMessageSink options = only_logs;
  int fds[2];

  record_samples (fixture, 5);
  sonde_sink_free (fixture->sink);
  sonde_clear_fd (&fixture->reader);
  options.frames = SONDE_SINK_FRAMES_ALL;
  make_stream (fds);
  fixture->reader = fds[1];
  fixture->sink = make_sink (fixture, fds[0], &options);
  record_samples (fixture, 3);
  summary = finish (fixture, NULL);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_BEFORE], ==, 5);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES], ==, 3);
}

/* --- files --- */

static void
set_up_file (Fixture *fixture, gconstpointer data)
{
  SondeMessageSink options = only_logs;
  char name[] = "/tmp/sonde-sink-XXXXXX";
  int fd = mkostemp (name, O_CLOEXEC);

  set_up (fixture, NULL);
  sonde_sink_free (fixture->sink);
  sonde_clear_fd (&fixture->reader);
  fixture->reader = open (name, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (unlink (name), ==, 0);
  options.kind = SONDE_SINK_FILE;
  options.frames = SONDE_SINK_FRAMES_ALL;
  options.max_bytes = GPOINTER_TO_SIZE (data);
  fixture->sink = make_sink (fixture, fd, &options);
  g_assert_nonnull (fixture->sink);
}

static StreamSummary *
read_file (Fixture *fixture)
{
  guint8 bytes[65536];
  gssize size_bytes;

  while ((size_bytes = read (fixture->reader, bytes, sizeof bytes)) > 0)
    g_byte_array_append (fixture->stream, bytes, (guint) size_bytes);
  return stream_summary_new (fixture->stream);
}

static void
run_until_closed (Fixture *fixture)
{
  while (fixture->closed < 0)
    g_main_context_iteration (NULL, TRUE);
}

static void
writes_a_file_to_its_end (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  /* More than its queue holds, in turns. */
  for (guint i = 0; i < 100; i++)
    record_samples (fixture, 200);
  sonde_sink_finish (fixture->sink, NULL);
  run_until_closed (fixture);
  g_assert_cmpint (fixture->closed, ==, 0);
  summary = read_file (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 20000);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
}

static void
ends_a_full_file_with_a_word_and_the_ledger (Fixture *fixture, gconstpointer data)
{
  const guint64 *counters = fixture->sink->counters;
  g_autoptr (StreamSummary) summary = NULL;
  guint n_recorded = 0;

  while (fixture->closed < 0)
    {
      record_samples (fixture, 50);
      n_recorded += 50;
      g_main_context_iteration (NULL, FALSE);
    }
  g_assert_cmpint (fixture->closed, ==, EFBIG);
  summary = read_file (fixture);
  g_assert_cmpuint (fixture->stream->len, ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], >, 1000);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
  g_assert_nonnull (strstr (summary->log, "ends before the session"));
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], >, 0);
  g_assert_cmpuint (counters[SONDE_LEDGER_STREAM_SAMPLES]
                        + counters[SONDE_LEDGER_STREAM_SAMPLES_LOST],
                    ==, n_recorded);
  g_assert_cmpuint (fixture->sink->n_bytes, <=, GPOINTER_TO_SIZE (data));
  record_samples (fixture, 50);
}

static void
refuses_a_file_that_is_none (Fixture *fixture, gconstpointer data)
{
  SondeMessageSink options = only_logs;
  int fds[2];

  options.kind = SONDE_SINK_FILE;
  options.max_bytes = 1 << 20;
  make_stream (fds);
  g_assert_null (make_sink (fixture, fds[0], &options));
  close (fds[1]);
}

#define ADD_FILE(name, max_bytes, function)                                                        \
  g_test_add ("/sink/" name, Fixture, (gconstpointer) (max_bytes), set_up_file, function, tear_down)

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
  g_test_add ("/sink/counts-what-it-did-not-ask-for", Fixture, &only_logs, set_up,
              counts_what_it_did_not_ask_for, tear_down);
  ADD ("knows-what-was-recorded-before-it-came", knows_what_was_recorded_before_it_came);
  ADD ("refuses-a-file-that-is-none", refuses_a_file_that_is_none);
  ADD_FILE ("writes-a-file-to-its-end", 1 << 30, writes_a_file_to_its_end);
  ADD_FILE ("ends-a-full-file-with-a-word-and-the-ledger", 1 << 20,
            ends_a_full_file_with_a_word_and_the_ledger);
  return g_test_run ();
}
