/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Readers that come late, read slowly, ask for less, get stuck or die, in a session where processes
 * fork, exec, map, rename themselves and exit all the time: each sample they get means to them what
 * it means to a reader that was there from the start. */
#include <errno.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/capture/process/tracker.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-model.h"
#include "tests/lib/stream-summary.h"

#define FIRST_PID   100
#define N_PIDS      200
#define N_SLOTS     12 /* places where a process maps files */
#define SLOT_BYTES  0x10000u
#define N_PATHS     400
#define N_EVENTS    40000
#define MAX_READERS SONDE_LIMIT_SINKS
#define SLOW        300 /* bytes a turn */

typedef struct
{
  int fd;
  guint32 id;
  guint bytes_a_turn; /* 0: stuck */
  guint dies_at;      /* event; 0: never */
  gint32 pid;         /* asked for; 0: all */
  guint64 n_before;   /* samples recorded when it came */
  GByteArray *stream;
  gboolean has_ended;
} Reader;

typedef struct
{
  RecorderFixture base;
  SondeTracker *tracker;
  gint64 time_ns;
  gboolean is_alive[N_PIDS];
  Reader readers[MAX_READERS];
  guint n_readers;
  int closed[MAX_READERS + 1]; /* reason, by id; -1 open */
} Fixture;

static gboolean
send_nothing (const SondeRequest *request, gpointer user_data)
{
  return TRUE;
}

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpint (fixture->closed[sink_id], ==, -1);
  fixture->closed[sink_id] = reason;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, sink_closed, fixture);
  fixture->tracker = sonde_tracker_new (fixture->base.processes, fixture->base.modules,
                                        fixture->base.state, fixture->base.recorder,
                                        fixture->base.jit_names, 0, send_nothing, fixture);
  fixture->is_alive[0] = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (fixture->closed); i++)
    fixture->closed[i] = -1;
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < fixture->n_readers; i++)
    {
      sonde_clear_fd (&fixture->readers[i].fd);
      g_byte_array_unref (fixture->readers[i].stream);
    }
  sonde_tracker_free (fixture->tracker);
  recorder_fixture_clear (&fixture->base);
}

/* --- the machine --- */

static guint
random_below (guint n)
{
  return (guint) g_test_rand_int_range (0, (gint32) n);
}

static void
take (Fixture *fixture, SondePerfRecord *record, guint pid)
{
  record->cpu = 0;
  record->pid = record->tid = (gint32) (FIRST_PID + pid);
  record->time_ns = fixture->time_ns;
  sonde_tracker_follow (fixture->tracker, record);
}

static guint
random_process (const Fixture *fixture)
{
  guint pid = random_below (N_PIDS);

  while (!fixture->is_alive[pid])
    pid = (pid + 1) % N_PIDS;
  return pid;
}

/* A file of another length and offset than what was there before, as dlopen() would. */
static void
map_file (Fixture *fixture, guint pid, guint slot)
{
  g_autofree char *path = g_strdup_printf (
      "/usr/lib/a/rather/long/directory/so/that/state/is/big/lib%u.so", random_below (N_PATHS));
  guint64 start = 0x400000u + slot * SLOT_BYTES;
  SondePerfRecord record = { .type = SONDE_PERF_RECORD_MAP,
                             .map = { .start = start,
                                      .end = start + SLOT_BYTES - 0x1000 * random_below (8),
                                      .offset = 0x1000 * random_below (16),
                                      .executable = true,
                                      .path = path } };

  take (fixture, &record, pid);
}

static void
rename_process (Fixture *fixture, guint pid, gboolean is_exec)
{
  char name[16];
  SondePerfRecord record
      = { .type = SONDE_PERF_RECORD_COMM, .comm = { .name = name, .exec = is_exec } };

  g_snprintf (name, sizeof name, "%s%u", is_exec ? "program" : "thread", random_below (1000));
  take (fixture, &record, pid);
  for (guint i = 0; is_exec && i < 5; i++)
    map_file (fixture, pid, i);
}

static void
fork_process (Fixture *fixture, guint parent)
{
  guint child = random_below (N_PIDS);
  SondePerfRecord record
      = { .type = SONDE_PERF_RECORD_FORK,
          .task = { (gint32) (FIRST_PID + parent), (gint32) (FIRST_PID + parent) } };

  if (fixture->is_alive[child])
    return;
  fixture->is_alive[child] = TRUE;
  take (fixture, &record, child);
}

static void
exit_process (Fixture *fixture, guint pid)
{
  SondePerfRecord record = { .type = SONDE_PERF_RECORD_EXIT };

  if (pid == 0)
    return;
  fixture->is_alive[pid] = FALSE;
  take (fixture, &record, pid);
}

static void
sample_process (Fixture *fixture, guint pid)
{
  SondeProcess *process
      = sonde_tracker_process (fixture->tracker, (gint32) (FIRST_PID + pid), fixture->time_ns);
  char name[32];
  guint64 addrs[12] = { SONDE_CONTEXT_USER };
  SondeStack stack = { .time_ns = fixture->time_ns,
                       .pid = (gint32) (FIRST_PID + pid),
                       .tid = (gint32) (FIRST_PID + pid),
                       .addrs = addrs,
                       .n_addrs = 1 };

  sonde_tally_sample_read (&fixture->base.tally);
  sonde_recorder_process (fixture->base.recorder, process, fixture->time_ns);
  for (guint i = 0; i < 10; i++)
    {
      guint64 address = 0x400000u + random_below (N_SLOTS * SLOT_BYTES);

      if (sonde_process_find_mapping (fixture->base.processes, process, address) != NULL)
        addrs[stack.n_addrs++] = address;
    }
  g_snprintf (name, sizeof name, "[name %u]", random_below (3000));
  addrs[stack.n_addrs++] = sonde_recorder_name (fixture->base.recorder, name, fixture->time_ns);
  sonde_recorder_sample (fixture->base.recorder, &stack);
}

static void
step (Fixture *fixture)
{
  guint pid = random_process (fixture);
  guint what = random_below (100);

  fixture->time_ns++;
  if (what < 60)
    sample_process (fixture, pid);
  else if (what < 80)
    map_file (fixture, pid, random_below (N_SLOTS));
  else if (what < 88)
    fork_process (fixture, pid);
  else if (what < 92)
    rename_process (fixture, pid, TRUE);
  else if (what < 95)
    rename_process (fixture, pid, FALSE);
  else if (what < 97)
    exit_process (fixture, pid);
  else if (what < 99)
    sonde_recorder_flush (fixture->base.recorder);
  else
    sonde_recorder_report (fixture->base.recorder);
}

/* --- its readers --- */

static Reader *
add_reader (Fixture *fixture, guint buffer_size_bytes, guint bytes_a_turn, gint32 pid)
{
  Reader *reader = &fixture->readers[fixture->n_readers++];
  SondeMessageSink options = { .sink_id = fixture->n_readers,
                               .kind = SONDE_SINK_STREAM,
                               .buffer_size_bytes = buffer_size_bytes,
                               .frames = SONDE_SINK_FRAMES_ALL,
                               .n_pids = pid != 0,
                               .pids = { pid } };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (shutdown (fds[0], SHUT_RD), ==, 0);
  *reader = (Reader){ .fd = fds[1],
                      .id = options.sink_id,
                      .bytes_a_turn = bytes_a_turn,
                      .pid = pid,
                      .n_before = fixture->base.tally.values[SONDE_LEDGER_RECORDED],
                      .stream = g_byte_array_new () };
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &options), ==, 0);
  return reader;
}

static void
read_some (Reader *reader, guint max_bytes)
{
  guint8 bytes[65536];
  gssize size_bytes = 1;

  while (reader->fd >= 0 && !reader->has_ended && max_bytes > 0 && size_bytes > 0)
    {
      size_bytes = recv (reader->fd, bytes, MIN (max_bytes, sizeof bytes), MSG_DONTWAIT);
      reader->has_ended = size_bytes == 0;
      if (size_bytes > 0)
        {
          g_byte_array_append (reader->stream, bytes, (guint) size_bytes);
          max_bytes -= (guint) size_bytes;
        }
    }
}

static void
turn_readers (Fixture *fixture, guint event)
{
  for (guint i = 0; i < fixture->n_readers; i++)
    {
      Reader *reader = &fixture->readers[i];

      if (reader->dies_at != 0 && event >= reader->dies_at)
        sonde_clear_fd (&reader->fd);
      /* A slow one wakes up now and then. */
      read_some (reader, reader->bytes_a_turn == SLOW && random_below (500) == 0
                             ? G_MAXUINT
                             : reader->bytes_a_turn);
    }
  g_main_context_iteration (NULL, FALSE);
}

/* Everybody alive reads to the end. */
static void
finish (Fixture *fixture)
{
  gboolean waits = TRUE;

  sonde_recorder_finish (fixture->base.recorder, NULL);
  while (waits)
    {
      waits = FALSE;
      for (guint i = 0; i < fixture->n_readers; i++)
        {
          read_some (&fixture->readers[i], G_MAXUINT);
          waits = waits || (fixture->readers[i].fd >= 0 && !fixture->readers[i].has_ended);
        }
      g_main_context_iteration (NULL, FALSE);
    }
}

/* --- what they must have got --- */

/* The next of @all that @reader asked for; NULL: there is none. */
static const StreamSample *
next_sample (const Reader *reader, const StreamModel *all, guint *next)
{
  while (*next < all->samples->len)
    {
      const StreamSample *sample = g_ptr_array_index (all->samples, (*next)++);

      if (reader->pid == 0 || sample->pid == reader->pid)
        return sample;
    }
  return NULL;
}

/* The samples of @model are those of @all since its reader came, in the same order and of the same
 * meaning; only with @has_lost may some be missing. */
static void
compare_samples (const Reader *reader,
                 const StreamModel *all,
                 const StreamModel *model,
                 gboolean has_lost)
{
  guint next = (guint) reader->n_before;

  for (guint i = 0; i < model->samples->len; i++)
    {
      const StreamSample *sample = g_ptr_array_index (model->samples, i);
      const StreamSample *same;

      do
        {
          same = next_sample (reader, all, &next);
          g_assert_nonnull (same);
        }
      while (has_lost && same->time_ns != sample->time_ns);
      g_assert_cmpint (sample->time_ns, ==, same->time_ns);
      g_assert_cmpstr (sample->meaning, ==, same->meaning);
      g_assert_null (strchr (sample->meaning, '?'));
    }
  if (!has_lost)
    g_assert_null (next_sample (reader, all, &next));
}

/* Who is there at the end, and is not over. */
static void
compare_processes (const Fixture *fixture, const StreamModel *all, const StreamModel *model)
{
  for (guint i = 0; i < N_PIDS; i++)
    {
      gpointer pid = GUINT_TO_POINTER (FIRST_PID + i);
      const StreamProcess *process = g_hash_table_lookup (model->processes, pid);

      g_assert_true ((process != NULL && !process->has_exited) == fixture->is_alive[i]);
      process = g_hash_table_lookup (all->processes, pid);
      g_assert_true ((process != NULL && !process->has_exited) == fixture->is_alive[i]);
    }
}

static StreamSummary *
summarize (const Reader *reader)
{
  g_autoptr (GByteArray) copy = g_byte_array_new ();

  g_byte_array_append (copy, reader->stream->data, reader->stream->len);
  return stream_summary_new (copy);
}

/* Returns what the reader lost. */
static guint64
check_reader (const Fixture *fixture, const Reader *reader, const StreamModel *all)
{
  g_autoptr (StreamSummary) summary = summarize (reader);
  g_autoptr (StreamModel) model = stream_model_new (reader->stream);
  guint64 n_lost = (guint64) summary->ledger[SONDE_LEDGER_STREAM_LOST];

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_SAMPLES_BEFORE], ==, reader->n_before);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_CTRDEF], >=, 1);
  compare_samples (reader, all, model, n_lost > 0);
  if (n_lost == 0)
    compare_processes (fixture, all, model);
  return n_lost;
}

/* --- cases --- */

/* Fast and slow ones, who come at any time. */
static void
decodes_alone (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamModel) all = NULL;
  guint64 n_lost_by_slow = 0;
  guint n_states_of_slow = 0;
  guint64 n_filtered = 0;

  add_reader (fixture, SONDE_LIMIT_SINK_BUFFER_MAX, G_MAXUINT, 0);
  for (guint event = 1; event <= N_EVENTS; event++)
    {
      step (fixture);
      if (event % 3000 == 0 && fixture->n_readers < MAX_READERS)
        {
          guint kind = fixture->n_readers % 3;
          gint32 pid = kind == 2 ? (gint32) (FIRST_PID + random_process (fixture)) : 0;

          add_reader (fixture, kind == 1 ? 65536 : SONDE_LIMIT_SINK_BUFFER_MAX,
                      kind == 1 ? SLOW : G_MAXUINT, pid);
        }
      /* Those that came now get their snapshot over some of the next events. */
      if (event % 8 == 0)
        turn_readers (fixture, event);
    }
  finish (fixture);

  all = stream_model_new (fixture->readers[0].stream);
  g_assert_cmpuint (check_reader (fixture, &fixture->readers[0], all), ==, 0);
  g_assert_cmpuint (all->samples->len, >, N_EVENTS / 2);
  for (guint i = 1; i < fixture->n_readers; i++)
    {
      const Reader *reader = &fixture->readers[i];
      guint64 n_lost = check_reader (fixture, reader, all);
      g_autoptr (StreamSummary) summary = summarize (reader);

      if (reader->bytes_a_turn == SLOW)
        {
          n_lost_by_slow += n_lost;
          n_states_of_slow += summary->n_types[SONDE_FRAME_METADATA];
        }
      else
        g_assert_cmpuint (n_lost, ==, 0);
      n_filtered += (guint64) summary->ledger[SONDE_LEDGER_STREAM_FILTERED];
    }
  /* Slow ones lost state, and got it anew. */
  g_assert_cmpuint (n_lost_by_slow, >, 1000);
  g_assert_cmpuint (n_states_of_slow, >, 10);
  g_assert_cmpuint (n_filtered, >, 1000);
}

/* Sixteen at once: four are stuck, four take 10 kB/s (at 1,000 turns a second), four die. */
static void
costs_only_itself (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamModel) all = NULL;
  gint64 begin_us = g_get_monotonic_time ();
  gint64 now_us;
  gboolean is_slow_machine;

  for (guint i = 0; i < MAX_READERS; i++)
    {
      static const guint speeds[] = { G_MAXUINT, 0, 10, G_MAXUINT };
      Reader *reader = add_reader (fixture, SONDE_LIMIT_SINK_BUFFER_MIN, speeds[i % 4], 0);

      if (i % 4 == 3)
        reader->dies_at = 1 + random_below (N_EVENTS);
    }
  for (guint event = 1; event <= N_EVENTS; event++)
    {
      step (fixture);
      if (event % 8 == 0)
        turn_readers (fixture, event);
      /* As often as the worker does it, so that the smallest buffer is enough for who reads. */
      if (event % 64 == 0)
        sonde_recorder_flush (fixture->base.recorder);
    }
  now_us = g_get_monotonic_time ();
  /* Which needs half a minute for all this may have closed the stuck ones by itself. */
  is_slow_machine = now_us - begin_us > SONDE_SINK_STUCK_US;
  for (guint i = 0; i < MAX_READERS; i++)
    if (i % 4 == 3)
      g_assert_cmpint (fixture->closed[i + 1], ==, EPIPE);
    else if (i % 4 != 1 || !is_slow_machine)
      g_assert_cmpint (fixture->closed[i + 1], ==, -1);

  /* Half a minute after the first, and after the last that they can have taken. Those who take a
   * little are left alone as long as they do. */
  sonde_recorder_close_stuck (fixture->base.recorder, begin_us + SONDE_SINK_STUCK_US);
  for (guint i = 0; i < MAX_READERS && !is_slow_machine; i += 4)
    g_assert_cmpint (fixture->closed[i + 2], ==, -1);
  for (guint i = 0; i < MAX_READERS; i += 4)
    read_some (&fixture->readers[i + 2], G_MAXUINT);
  sonde_recorder_flush (fixture->base.recorder);
  sonde_recorder_close_stuck (fixture->base.recorder, now_us + SONDE_SINK_STUCK_US);
  for (guint i = 0; i < MAX_READERS; i += 4)
    {
      g_assert_cmpint (fixture->closed[i + 1], ==, -1);
      g_assert_cmpint (fixture->closed[i + 2], ==, ETIMEDOUT);
      g_assert_cmpint (fixture->closed[i + 3], ==, -1);
      sonde_clear_fd (&fixture->readers[i + 1].fd);
    }
  finish (fixture);
  /* What they share, the two chunks of each queue, and what is made for each alone. */
  g_assert_cmpuint (sonde_recorder_n_chunks (fixture->base.recorder), <=, MAX_READERS * 5);

  all = stream_model_new (fixture->readers[0].stream);
  for (guint i = 0; i < MAX_READERS; i += 4)
    {
      g_assert_cmpuint (check_reader (fixture, &fixture->readers[i], all), ==, 0);
      g_assert_cmpuint (check_reader (fixture, &fixture->readers[i + 2], all), >, 0);
    }
}

#define ADD(name, function)                                                                        \
  g_test_add ("/late-reader/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("decodes-alone", decodes_alone);
  ADD ("costs-only-itself", costs_only_itself);
  return g_test_run ();
}
