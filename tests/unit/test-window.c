/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fills the window of a recorder by a clock of its own, and reads what snapshots of it hold. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define SECOND    G_GINT64_CONSTANT (1000000000)
#define LENGTH_NS (8 * SECOND)
#define AMPLE     (64u << 20)
#define FIRST_PID 100

typedef struct
{
  RecorderFixture base;
  SondeWindow *window;
  gint64 now_ns;
  guint n_items; /* that segments have */
  guint n_prepared;
  int closed; /* reason of the last sink; -1: none */
  SondeTally tally;
  SondeSinkSource source;
} Fixture;

static void
prepare (gpointer user_data)
{
  ((Fixture *) user_data)->n_prepared++;
}

static gpointer
begin (gpointer user_data)
{
  Fixture *fixture = user_data;

  return GUINT_TO_POINTER (++fixture->n_items);
}

static gsize
measure (gpointer item, gpointer user_data)
{
  g_assert_nonnull (item);
  return 100;
}

static void
end (gpointer item, gpointer user_data)
{
  ((Fixture *) user_data)->n_items--;
}

static void
reader_closed (guint32 sink_id, int reason, gpointer user_data)
{
  ((Fixture *) user_data)->closed = reason;
}

static void
snapshot_closed (SondeSink *sink, int reason, gpointer user_data)
{
  ((Fixture *) user_data)->closed = reason;
}

static void
keep (Fixture *fixture, gint64 length_ns, gsize max_bytes)
{
  static const SondeWindowHandler handler = { prepare, begin, measure, end };

  sonde_recorder_keep_window (fixture->base.recorder, length_ns, max_bytes, &handler, fixture);
  fixture->window = sonde_recorder_window (fixture->base.recorder);
  fixture->now_ns = sonde_window_begin_ns (fixture->window);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, reader_closed, fixture);
  fixture->closed = -1;
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_clear (&fixture->base);
  g_assert_cmpuint (fixture->n_items, ==, 0);
}

/* --- what is recorded --- */

static SondeProcess *
add_process (Fixture *fixture, int32_t pid, guint n_mappings)
{
  SondeProcess *process = sonde_process_table_ensure (fixture->base.processes, pid, 1);
  g_autofree char *path = g_strdup_printf ("/usr/lib/lib%d.so", pid);

  for (guint i = 0; i < n_mappings; i++)
    {
      const SondeProcessMapping mapping = { .start = 0x400000 + i * 0x2000u,
                                            .end = 0x401000 + i * 0x2000u,
                                            .file.inode = 7,
                                            .path = path };

      sonde_process_add_mapping (fixture->base.processes, process, &mapping, SONDE_MAP_FROM_EVENT);
    }
  return process;
}

/* As the sampler does: its process is told before. @is_odd: no two are alike */
static void
add_sample (Fixture *fixture, int32_t pid, gboolean is_odd)
{
  uint64_t addrs[64] = { SONDE_CONTEXT_USER, 0x400010 };
  const SondeStack stack = { fixture->now_ns, 0, pid, pid, addrs, is_odd ? 64 : 2 };

  for (guint i = 1; is_odd && i < G_N_ELEMENTS (addrs); i++)
    addrs[i] = (uint64_t) g_test_rand_int () << 16 | i;
  sonde_recorder_process (fixture->base.recorder, add_process (fixture, pid, 1), fixture->now_ns);
  sonde_tally_sample_read (&fixture->base.tally);
  sonde_recorder_sample (fixture->base.recorder, &stack);
}

static void
turn (Fixture *fixture, gint64 step_ns)
{
  fixture->now_ns += step_ns;
  /* By its own clock it is too early for the recorder. */
  sonde_recorder_flush (fixture->base.recorder);
  sonde_window_turn (fixture->window, fixture->now_ns);
}

/* --- what a snapshot has --- */

static SondeBacklog *
freeze (Fixture *fixture)
{
  sonde_recorder_flush (fixture->base.recorder);
  fixture->source = *sonde_recorder_source (fixture->base.recorder);
  fixture->tally = fixture->base.tally;
  fixture->source.tally = &fixture->tally;
  fixture->source.closed = snapshot_closed;
  fixture->source.user_data = fixture;
  return sonde_window_freeze (fixture->window, fixture->now_ns);
}

/* @backlog: (transfer full). Returns: the capture, or what there is of it */
static GByteArray *
write_snapshot (Fixture *fixture, SondeBacklog *backlog, guint64 max_bytes)
{
  const SondeMessageSink options = { .sink_id = 1,
                                     .kind = SONDE_SINK_FILE,
                                     .buffer_size_bytes = 2 * SONDE_CHUNK_SIZE,
                                     .frames = SONDE_SINK_FRAMES_ALL,
                                     .max_bytes = max_bytes,
                                     .is_last = TRUE };
  sonde_autofd int fd = memfd_create ("snapshot", MFD_CLOEXEC);
  g_autoptr (SondeSink) sink
      = sonde_sink_new (fcntl (fd, F_DUPFD_CLOEXEC, 0), &options, &fixture->source);
  GByteArray *bytes = g_byte_array_new ();
  off_t size_bytes;

  fixture->closed = -1;
  sonde_sink_give (sink, backlog);
  sonde_sink_finish (sink, NULL);
  while (fixture->closed < 0)
    g_main_context_iteration (NULL, TRUE);
  size_bytes = lseek (fd, 0, SEEK_END);
  g_byte_array_set_size (bytes, (guint) size_bytes);
  g_assert_cmpint (pread (fd, bytes->data, (size_t) size_bytes, 0), ==, size_bytes);
  return bytes;
}

static StreamSummary *
snap (Fixture *fixture)
{
  g_autoptr (GByteArray) bytes = write_snapshot (fixture, freeze (fixture), AMPLE);

  g_assert_cmpint (fixture->closed, ==, 0);
  return stream_summary_new (bytes);
}

/* Whether each sample of @bytes has its process and its mapping before it. Returns: how many */
static guint
count_decoded_samples (GByteArray *bytes)
{
  g_autoptr (GHashTable) named = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) mapped = g_hash_table_new (NULL, NULL);
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  guint n_samples = 0;

  g_assert_cmpint (sonde_reader_new (stream_source, bytes, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    {
      gpointer pid = GINT_TO_POINTER (frame->pid);

      if (frame->type == SONDE_FRAME_PROCESS)
        g_hash_table_add (named, pid);
      if (frame->type == SONDE_FRAME_MAP)
        g_hash_table_add (mapped, pid);
      if (frame->type != SONDE_FRAME_SAMPLE)
        continue;
      g_assert_true (g_hash_table_contains (named, pid));
      g_assert_true (g_hash_table_contains (mapped, pid));
      n_samples++;
    }
  sonde_reader_free (reader);
  return n_samples;
}

/* --- cases --- */

static void
has_all_from_its_begin_on (Fixture *fixture, gconstpointer data)
{
  g_autofree gint64 *times = g_new (gint64, 200);
  g_autoptr (StreamSummary) summary = NULL;
  guint n_within = 0;

  keep (fixture, LENGTH_NS, AMPLE);
  for (guint i = 0; i < 200; i++)
    {
      times[i] = fixture->now_ns;
      add_sample (fixture, FIRST_PID, FALSE);
      turn (fixture, SECOND / 7);
    }
  for (guint i = 0; i < 200; i++)
    n_within += times[i] >= sonde_window_begin_ns (fixture->window);
  summary = snap (fixture);
  g_assert_cmpint (fixture->now_ns - sonde_window_begin_ns (fixture->window), >=, LENGTH_NS);
  g_assert_cmpint (fixture->now_ns - sonde_window_begin_ns (fixture->window), <, 10 * SECOND);
  g_assert_cmpuint (n_within, <, 200);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, n_within);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_BEFORE], ==, 200 - n_within);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 1);
  /* A warning would be that bytes and not the time have decided. */
  g_assert_null (summary->log);
  g_assert_cmpuint (sonde_window_n_gone (fixture->window), >, 200 - n_within);
}

static void
is_as_short_as_its_bytes (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  keep (fixture, 0, 1u << 20);
  for (guint i = 0; i < 100; i++)
    {
      for (guint k = 0; k < 200; k++)
        add_sample (fixture, FIRST_PID, TRUE);
      turn (fixture, SECOND / 5);
      /* What was recorded since the last turn is in no segment yet. */
      g_assert_cmpuint (sonde_window_bytes (fixture->window), <=, (1u << 20) + (256u << 10));
    }
  summary = snap (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], >=, 1200);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], <=, 3200);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_BEFORE], ==,
                   20000 - summary->n_types[SONDE_FRAME_SAMPLE]);
  g_assert_nonnull (strstr (summary->log, "its bytes have no room for more"));
}

static void
has_the_last_when_one_state_is_larger (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  for (int32_t pid = FIRST_PID; pid < FIRST_PID + 20; pid++)
    sonde_recorder_process (fixture->base.recorder, add_process (fixture, pid, 2000), 1);
  keep (fixture, LENGTH_NS, 1u << 20);
  for (guint i = 0; i < 30; i++)
    {
      add_sample (fixture, FIRST_PID, FALSE);
      turn (fixture, SECOND);
    }
  /* The newest segment has just begun. */
  g_assert_cmpint (fixture->now_ns - sonde_window_begin_ns (fixture->window), ==, SECOND);
  summary = snap (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 40000);
  g_assert_nonnull (strstr (summary->log, "The recorder has the last 1.000 s"));
}

static void
knows_processes_that_are_gone (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GByteArray) bytes = NULL;
  gsize most_bytes = 0;

  keep (fixture, LENGTH_NS, AMPLE);
  /* Each has a sample, and one more after others have come; then it goes. */
  for (int32_t pid = FIRST_PID; pid < FIRST_PID + 5000; pid++)
    {
      add_sample (fixture, pid, FALSE);
      if (pid >= FIRST_PID + 20)
        {
          add_sample (fixture, pid - 20, FALSE);
          sonde_process_table_exit (fixture->base.processes, pid - 20, 2);
          sonde_process_table_expire (fixture->base.processes, G_MAXINT64);
        }
      turn (fixture, SECOND / 50);
      most_bytes = MAX (most_bytes, sonde_window_bytes (fixture->window));
    }
  g_assert_cmpuint (sonde_process_table_n_processes (fixture->base.processes), <=, 21);
  /* 450 of them are within the window, all the time. */
  g_assert_cmpuint (most_bytes, <, 2u << 20);
  bytes = write_snapshot (fixture, freeze (fixture), AMPLE);
  g_assert_cmpuint (count_decoded_samples (bytes), >=, 800);
}

static void
gives_what_it_had_at_that_moment (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GByteArray) bytes = NULL;
  SondeBacklog *backlog;

  keep (fixture, LENGTH_NS, AMPLE);
  for (guint i = 0; i < 5; i++)
    add_sample (fixture, FIRST_PID, FALSE);
  backlog = freeze (fixture);
  for (guint i = 0; i < 100; i++)
    {
      add_sample (fixture, FIRST_PID + (int32_t) i, FALSE);
      turn (fixture, SECOND);
    }
  bytes = write_snapshot (fixture, backlog, AMPLE);
  g_assert_cmpint (fixture->closed, ==, 0);
  summary = stream_summary_new (bytes);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 5);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_RECORDED], ==, 5);
}

static void
says_what_a_full_file_has_lost (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GByteArray) bytes = NULL;

  keep (fixture, LENGTH_NS, AMPLE);
  for (guint i = 0; i < 2000; i++)
    add_sample (fixture, FIRST_PID, TRUE);
  bytes = write_snapshot (fixture, freeze (fixture), 256u << 10);
  g_assert_cmpint (fixture->closed, ==, EFBIG);
  g_assert_cmpuint (bytes->len, <=, 256u << 10);
  summary = stream_summary_new (bytes);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_LOST], ==,
                   2000 - summary->n_types[SONDE_FRAME_SAMPLE]);
}

static void
goes_to_the_last_reader_at_the_end (Fixture *fixture, gconstpointer data)
{
  const SondeMessageSink options = { .sink_id = 3,
                                     .kind = SONDE_SINK_STREAM,
                                     .buffer_size_bytes = 4 * SONDE_CHUNK_SIZE,
                                     .frames = SONDE_SINK_FRAMES_ALL,
                                     .is_last = TRUE };
  g_autoptr (GByteArray) stream = g_byte_array_new ();
  g_autoptr (StreamSummary) summary = NULL;
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &options), ==, 0);
  keep (fixture, LENGTH_NS, AMPLE);
  for (guint i = 0; i < 3000; i++)
    {
      add_sample (fixture, FIRST_PID, TRUE);
      turn (fixture, SECOND / 100);
    }
  g_assert_false (stream_receive (fds[1], stream));
  g_assert_cmpuint (stream->len, ==, 0);
  sonde_recorder_finish (fixture->base.recorder, NULL);
  while (!stream_receive (fds[1], stream))
    g_main_context_iteration (NULL, FALSE);
  close (fds[1]);
  g_assert_cmpint (fixture->closed, ==, 0);
  summary = stream_summary_new (stream);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], >=, 800);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], <=, 1000);
}

static void
shares_chunks_with_readers (Fixture *fixture, gconstpointer data)
{
  guint64 n_chunks;

  keep (fixture, LENGTH_NS, AMPLE);
  for (guint i = 0; i < 2000; i++)
    add_sample (fixture, FIRST_PID, TRUE);
  n_chunks = sonde_recorder_n_chunks (fixture->base.recorder);
  for (guint i = 0; i < 20000; i++)
    add_sample (fixture, FIRST_PID, FALSE);
  g_assert_cmpuint (sonde_recorder_n_chunks (fixture->base.recorder), ==, n_chunks);
}

static void
lets_who_is_half_told_finish_first (Fixture *fixture, gconstpointer data)
{
  keep (fixture, LENGTH_NS, AMPLE);
  turn (fixture, SECOND / 100);
  g_assert_cmpuint (fixture->n_prepared, ==, 0);
  turn (fixture, 2 * SECOND);
  g_assert_cmpuint (fixture->n_prepared, ==, 1);
  g_assert_cmpuint (fixture->n_items, ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add ("/window/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("is-as-short-as-its-bytes", is_as_short_as_its_bytes);
  ADD ("has-the-last-when-one-state-is-larger", has_the_last_when_one_state_is_larger);
  ADD ("says-what-a-full-file-has-lost", says_what_a_full_file_has_lost);
  ADD ("has-all-from-its-begin-on", has_all_from_its_begin_on);
  ADD ("knows-processes-that-are-gone", knows_processes_that_are_gone);
  ADD ("gives-what-it-had-at-that-moment", gives_what_it_had_at_that_moment);
  ADD ("goes-to-the-last-reader-at-the-end", goes_to_the_last_reader_at_the_end);
  ADD ("shares-chunks-with-readers", shares_chunks_with_readers);
  ADD ("lets-who-is-half-told-finish-first", lets_who_is_half_told_finish_first);
#undef ADD
  return g_test_run ();
}
