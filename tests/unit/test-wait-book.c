/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times of threads, from records and answers of the broker to what a reader of the capture gets. */
#include "client/model/waits-reader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/socket.h"
#include "daemon/capture/waits/wait-book.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define PID       77
#define MAX_ASKED 64

typedef struct
{
  RecorderFixture base;
  SondeWaitBook *book;
  gboolean is_deaf; /* nobody answers */
  SondeMessageThreadsRequest *asked[MAX_ASKED];
  guint n_asked;
  int reader;
  gint64 start_ns;
  guint n_values; /* of counters of ours, that a reader got */
} Fixture;

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  g_assert_cmpint (reason, ==, 0);
}

static gboolean
ask (SondeMessageThreadsRequest *request, gsize size_bytes, gpointer user_data)
{
  Fixture *self = user_data;

  if (self->is_deaf)
    return FALSE;
  g_assert_cmpuint (self->n_asked, <, MAX_ASKED);
  g_assert_cmpuint (size_bytes, ==, sizeof *request + request->n_threads * sizeof (gint32));
  self->asked[self->n_asked++] = g_memdup2 (request, size_bytes);
  return TRUE;
}

static void
set_up (Fixture *self, gconstpointer hides_others)
{
  const SondeMessageSink options = { .sink_id = 1,
                                     .kind = SONDE_SINK_STREAM,
                                     .buffer_size_bytes = 1 << 20,
                                     .frames = SONDE_SINK_FRAMES_ALL };
  int fds[2];

  recorder_fixture_init (&self->base, sink_closed, self);
  self->book = sonde_wait_book_new (self->base.recorder, self->base.processes, &self->base.tally,
                                    hides_others != NULL, ask, self);
  self->start_ns = sonde_stream_now_ns ();
  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (self->base.recorder, fds[0], &options), ==, 0);
  self->reader = fds[1];
}

static void
tear_down (Fixture *self, gconstpointer hides_others)
{
  sonde_wait_book_free (self->book);
  recorder_fixture_clear (&self->base);
  for (guint i = 0; i < self->n_asked; i++)
    g_free (self->asked[i]);
}

static void
take (Fixture *self, SondePerfRecord record, gint64 after_ns)
{
  record.time_ns = self->start_ns + after_ns;
  sonde_wait_book_take (self->book, &record);
}

static void
fork_thread (Fixture *self, gint32 pid, gint32 tid, gint64 after_ns)
{
  take (self, (SondePerfRecord){ .type = SONDE_PERF_RECORD_FORK, .pid = pid, .tid = tid },
        after_ns);
}

static void
end_thread (Fixture *self, gint32 pid, gint32 tid, gint64 after_ns)
{
  take (self, (SondePerfRecord){ .type = SONDE_PERF_RECORD_EXIT, .pid = pid, .tid = tid },
        after_ns);
}

static void
switch_thread (
    Fixture *self, gint32 pid, gint32 tid, gboolean is_out, gboolean of_cpu, gint64 after_ns)
{
  take (self,
        (SondePerfRecord){ .type = SONDE_PERF_RECORD_SWITCH,
                           .pid = pid,
                           .tid = tid,
                           .switched = { .is_out = is_out, .is_of_cpu = of_cpu } },
        after_ns);
}

/* @thread: NULL: it is gone */
static void
answer (Fixture *self, gint32 pid, int status, const SondeMessageThread *thread)
{
  guint n = thread != NULL ? 1 : 0;
  g_autofree SondeMessageThreads *message
      = g_malloc0 (sizeof (SondeMessageThreads) + sizeof (SondeMessageThread));

  message->pid = pid;
  message->status = status;
  message->n_threads = n;
  if (thread != NULL)
    {
      message->threads[0] = *thread;
      message->threads[0].time_ns += self->start_ns;
    }
  sonde_wait_book_answer (self->book, message);
}

/* All that the capture has of it: (transfer full) */
static SondeWaitsReader *
read_all (Fixture *self, gint64 after_ns)
{
  g_autoptr (GByteArray) stream = g_byte_array_new ();
  SondeWaitsReader *waits = sonde_waits_reader_new ();
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  sonde_wait_book_stop (self->book, self->start_ns + after_ns);
  sonde_wait_book_end (self->book, 0);
  sonde_recorder_finish (self->base.recorder, NULL);
  while (!stream_receive (self->reader, stream))
    g_main_context_iteration (NULL, FALSE);
  close (self->reader);
  g_assert_cmpint (sonde_reader_new (stream_source, stream, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    {
      sonde_waits_reader_add (waits, frame);
      self->n_values += frame->type == SONDE_FRAME_CTRSET && frame->pid == PID;
    }
  sonde_reader_free (reader);
  g_assert_cmpstr (sonde_waits_reader_fault (waits), ==, NULL);
  return waits;
}

static const SondeWaitsRow *
find_row (const SondeWaitsReader *waits, gint32 tid)
{
  for (guint i = 0; i < sonde_waits_reader_n_rows (waits); i++)
    if (sonde_waits_reader_row (waits, i)->tid == tid)
      return sonde_waits_reader_row (waits, i);
  return NULL;
}

/* --- cases --- */

static void
tells_rows (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeWaitsReader) waits = NULL;

  fork_thread (self, PID, PID, 1000);
  switch_thread (self, PID, PID, FALSE, FALSE, 1100);
  fork_thread (self, PID, 78, 1200);
  switch_thread (self, PID, PID, TRUE, FALSE, 1300);
  switch_thread (self, PID, 78, FALSE, FALSE, 1400);
  end_thread (self, PID, 78, 1500);
  waits = read_all (self, 2000);
  g_assert_cmpuint (sonde_waits_reader_n_rows (waits), ==, 2);
  g_assert_cmpuint (find_row (waits, PID)->times[SONDE_TIME_LIFE], ==, 1000);
  g_assert_cmpuint (find_row (waits, PID)->times[SONDE_TIME_BLOCKED], ==, 700);
  g_assert_false (find_row (waits, PID)->has_ended);
  g_assert_true (find_row (waits, 78)->has_ended);
  g_assert_cmpuint (find_row (waits, 78)->times[SONDE_TIME_LIFE], ==, 300);
  g_assert_cmpuint (self->base.tally.values[SONDE_STATISTIC_SWITCHES], ==, 3);
}

static void
looks_in_turn (Fixture *self, gconstpointer data)
{
  for (gint32 i = 0; i < 30; i++)
    fork_thread (self, PID, PID + i, 1000);
  fork_thread (self, 500, 500, 1000);
  sonde_wait_book_tick (self->book, self->start_ns);
  g_assert_cmpuint (self->n_asked, ==, 1);
  g_assert_cmpint (self->asked[0]->pid, ==, PID);
  g_assert_cmpuint (self->asked[0]->n_threads, ==, SONDE_WAIT_BOOK_LOOKS);
  /* Not before all has been answered. */
  sonde_wait_book_tick (self->book, self->start_ns);
  g_assert_cmpuint (self->n_asked, ==, 1);
  answer (self, PID, EAGAIN, NULL);
  sonde_wait_book_tick (self->book, self->start_ns);
  g_assert_cmpuint (self->n_asked, ==, 3);
  g_assert_cmpuint (self->asked[1]->n_threads, ==, 25);
  g_assert_cmpint (self->asked[1]->tids[0], ==, PID + SONDE_WAIT_BOOK_LOOKS);
  g_assert_cmpint (self->asked[2]->pid, ==, 500);
  sonde_wait_book_give_up (self->book);
  g_assert_false (sonde_wait_book_are_awaited (self->book));
}

static void
looks_at_its_time (Fixture *self, gconstpointer data)
{
  const SondeMessageThread thread
      = { .tid = PID, .on_ns = 100, .delay_ns = 100 + 50, .slices = 1, .time_ns = 1500 };
  g_autoptr (SondeWaitsReader) waits = NULL;

  fork_thread (self, PID, PID, 1000);
  sonde_wait_book_tick (self->book, self->start_ns);
  switch_thread (self, PID, PID, FALSE, FALSE, 1100);
  switch_thread (self, PID, PID, TRUE, FALSE, 1200);
  switch_thread (self, PID, PID, FALSE, FALSE, 1400);
  answer (self, PID, 0, &thread);
  switch_thread (self, PID, PID, TRUE, FALSE, 1600);
  waits = read_all (self, 2000);
  g_assert_cmpuint (find_row (waits, PID)->times[SONDE_TIME_RUNNABLE], ==, 150);
  g_assert_cmpuint (find_row (waits, PID)->times[SONDE_TIME_BLOCKED], ==, 550);
  g_assert_cmpuint (self->n_values, >=, 1);
}

static void
ends_what_is_gone (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeWaitsReader) waits = NULL;

  fork_thread (self, PID, PID, 1000);
  fork_thread (self, PID, 78, 1000);
  sonde_wait_book_tick (self->book, self->start_ns);
  answer (self, PID, 0, &(SondeMessageThread){ .tid = PID, .time_ns = 1500 });
  waits = read_all (self, G_GINT64_CONSTANT (1000000000));
  g_assert_false (find_row (waits, PID)->has_ended);
  g_assert_true (find_row (waits, 78)->has_ended);
}

/* Nobody says that it is gone. */
static void
keeps_what_cannot_be_looked_at (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeWaitsReader) waits = NULL;

  fork_thread (self, PID, PID, 1000);
  sonde_wait_book_tick (self->book, self->start_ns);
  answer (self, PID, EPERM, NULL);
  answer (self, PID, 0, NULL); /* to no question */
  waits = read_all (self, G_GINT64_CONSTANT (1000000000));
  g_assert_false (find_row (waits, PID)->has_ended);
}

static void
meets_threads (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeWaitsReader) waits = NULL;

  sonde_wait_book_meet (self->book, PID);
  g_assert_cmpuint (self->asked[0]->n_threads, ==, 0);
  answer (self, PID, 0, &(SondeMessageThread){ .tid = 78, .state = 'S', .time_ns = 1000 });
  self->is_deaf = TRUE;
  waits = read_all (self, 5000);
  g_assert_cmpuint (find_row (waits, 78)->times[SONDE_TIME_BLOCKED], ==, 4000);
}

static void
is_paused (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeWaitsReader) waits = NULL;

  fork_thread (self, PID, PID, 1000);
  sonde_wait_book_pause (self->book, self->start_ns + 1500);
  waits = read_all (self, 5000);
  g_assert_cmpuint (find_row (waits, PID)->times[SONDE_TIME_UNKNOWN], ==, 3500);
  g_assert_cmpuint (find_row (waits, PID)->times[SONDE_TIME_RUNNABLE], ==, 500);
  g_assert_cmpuint (self->base.tally.values[SONDE_STATISTIC_WAITS_UNKNOWN_US], ==, 3);
}

static void
show_process (Fixture *self, gint32 pid, unsigned flag)
{
  sonde_process_set_flag (sonde_process_table_ensure (self->base.processes, pid, self->start_ns),
                          flag, true);
}

/* Those of processes that are not known to be the owner's have no row, also once they have ended
 * and their process is forgotten. */
static void
hides_threads_of_others (Fixture *self, gconstpointer hides_others)
{
  g_autoptr (SondeWaitsReader) waits = NULL;

  show_process (self, PID, SONDE_PROCESS_FLAG_COMPLETE);
  show_process (self, 200, SONDE_PROCESS_FLAG_COMPLETE);
  show_process (self, 200, SONDE_PROCESS_FLAG_HIDDEN);
  for (gint32 pid = PID; pid <= 400; pid += 400 - PID)
    {
      switch_thread (self, pid, pid, FALSE, TRUE, 1000);
      switch_thread (self, pid, pid + 1, FALSE, TRUE, 1000);
      end_thread (self, pid, pid + 1, 1500);
    }
  switch_thread (self, 200, 200, FALSE, TRUE, 1000);
  switch_thread (self, 200, 201, FALSE, TRUE, 1000);
  end_thread (self, 200, 201, 1500);
  sonde_wait_book_tick (self->book, self->start_ns + SONDE_WAIT_BOOK_PERIOD_NS);
  waits = read_all (self, SONDE_WAIT_BOOK_PERIOD_NS + 1000);
  g_assert_cmpuint (sonde_waits_reader_n_files (waits), ==, 2);
  g_assert_nonnull (find_row (waits, PID));
  g_assert_nonnull (find_row (waits, PID + 1));
  g_assert_cmpuint (sonde_waits_reader_n_rows (waits), ==, hides_others != NULL ? 2 : 6);
  g_assert_cmpuint (sonde_waits_reader_n_others (waits), ==, hides_others != NULL ? 4 : 0);
  if (hides_others != NULL)
    g_assert_cmpuint (sonde_waits_reader_others (waits)[SONDE_TIME_LIFE], ==,
                      2 * (guint64) SONDE_WAIT_BOOK_PERIOD_NS + 2 * 500);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) ADD_WITH (name, function, NULL)
#define ADD_WITH(name, function, hides)                                                            \
  g_test_add ("/wait-book/" name, Fixture, hides, set_up, function, tear_down)
  ADD ("tells-rows", tells_rows);
  ADD ("looks-in-turn", looks_in_turn);
  ADD ("looks-at-its-time", looks_at_its_time);
  ADD ("ends-what-is-gone", ends_what_is_gone);
  ADD ("keeps-what-cannot-be-looked-at", keeps_what_cannot_be_looked_at);
  ADD ("meets-threads", meets_threads);
  ADD ("is-paused", is_paused);
  ADD_WITH ("hides-threads-of-others", hides_threads_of_others, GINT_TO_POINTER (TRUE));
  ADD ("shows-threads-of-others-to-whom-may-know", hides_threads_of_others);
  return g_test_run ();
}
