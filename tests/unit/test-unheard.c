/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs that load no libsonde-memory.so: of which the capture tells, and why. */
#include <string.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "daemon/capture/process/unheard.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define PID    10
#define HIGH   UINT64_C (0x7f0000000000)
#define LOW    UINT64_C (0xf7000000)
#define SECOND G_GINT64_CONSTANT (1000000000)

typedef struct
{
  RecorderFixture base;
  SondeUnheard *unheard;
  int reader;
  GByteArray *stream;
} Fixture;

static const SondeMessageSink all_frames = { .sink_id = 1,
                                             .kind = SONDE_SINK_STREAM,
                                             .buffer_size_bytes = 1 << 20,
                                             .frames = SONDE_SINK_FRAMES_ALL };

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  int fds[2];

  recorder_fixture_init (&fixture->base, sink_closed, fixture);
  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &all_frames), ==, 0);
  fixture->reader = fds[1];
  fixture->stream = g_byte_array_new ();
  fixture->unheard = sonde_unheard_new (fixture->base.recorder, &fixture->base.tally);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_unheard_free (fixture->unheard);
  recorder_fixture_clear (&fixture->base);
  g_byte_array_unref (fixture->stream);
  close (fixture->reader);
}

static guint64
count (const Fixture *fixture, SondeStatistic statistic)
{
  return fixture->base.tally.values[statistic];
}

static guint64
count_all (const Fixture *fixture)
{
  return count (fixture, SONDE_STATISTIC_PROGRAMS_32_BIT)
         + count (fixture, SONDE_STATISTIC_PROGRAMS_STATIC)
         + count (fixture, SONDE_STATISTIC_PROGRAMS_WITHOUT_LIBRARY);
}

static gboolean
was_said (Fixture *fixture, const char *words)
{
  sonde_recorder_flush (fixture->base.recorder);
  stream_receive (fixture->reader, fixture->stream);
  return memmem (fixture->stream->data, fixture->stream->len, words, strlen (words)) != NULL;
}

static void
execute (Fixture *fixture, int32_t pid, const char *name)
{
  const SondePerfRecord record = { .type = SONDE_PERF_RECORD_COMM,
                                   .pid = pid,
                                   .tid = pid,
                                   .time_ns = 1,
                                   .comm = { .name = name, .exec = true } };

  sonde_unheard_follow (fixture->unheard, &record, FALSE);
}

static void
map_at (Fixture *fixture,
        int64_t time_ns,
        int32_t pid,
        uint64_t start,
        uint64_t inode,
        const char *path)
{
  const SondePerfRecord record = {
    .type = SONDE_PERF_RECORD_MAP,
    .pid = pid,
    .tid = pid,
    .time_ns = time_ns,
    .map = { .start = start, .end = start + 4096, .inode = inode, .executable = true, .path = path }
  };

  sonde_unheard_follow (fixture->unheard, &record, FALSE);
}

static void
map (Fixture *fixture, int32_t pid, uint64_t start, uint64_t inode, const char *path)
{
  map_at (fixture, 2, pid, start, inode, path);
}

static void
exit_process (Fixture *fixture, int32_t pid)
{
  const SondePerfRecord record
      = { .type = SONDE_PERF_RECORD_EXIT, .pid = pid, .tid = pid, .time_ns = 3 };

  sonde_unheard_follow (fixture->unheard, &record, FALSE);
}

static void
begin_dynamic (Fixture *fixture, int32_t pid, const char *name, uint64_t place)
{
  execute (fixture, pid, name);
  map (fixture, pid, 0x10000, 1, "/bin/program");
  map (fixture, pid, place, 2, "/lib/ld.so");
  map (fixture, pid, place + 8192, 0, "[vdso]");
}

static void
says_nothing_of_programs_with_the_library (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < 2; i++)
    {
      begin_dynamic (fixture, PID, "good", i == 0 ? HIGH : LOW);
      map (fixture, PID, LOW + 65536, 3, "/usr/lib/sonde/libsonde-memory.so");
      map (fixture, PID, LOW + 131072, 4, "/lib/libc.so.6");
      exit_process (fixture, PID);
    }
  sonde_unheard_end (fixture->unheard);
  g_assert_cmpuint (count_all (fixture), ==, 0);
  g_assert_false (was_said (fixture, SONDE_LEDGER_MISSING));
}

static void
tells_kinds_apart (Fixture *fixture, gconstpointer data)
{
  begin_dynamic (fixture, PID, "narrow", LOW);
  map (fixture, PID, LOW + 65536, 4, "/lib/libc.so.6");
  /* A file is one, however often it is mapped. */
  execute (fixture, PID + 1, "static");
  map (fixture, PID + 1, 0x10000, 1, "/bin/program");
  map (fixture, PID + 1, 0x20000, 1, "/bin/program");
  map (fixture, PID + 1, HIGH, 0, "[vdso]");
  begin_dynamic (fixture, PID + 2, "other", HIGH);
  map (fixture, PID + 2, HIGH + 65536, 4, "/lib/libc.so.6");
  for (int32_t pid = PID; pid <= PID + 2; pid++)
    exit_process (fixture, pid);

  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROGRAMS_32_BIT), ==, 1);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROGRAMS_STATIC), ==, 1);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROGRAMS_WITHOUT_LIBRARY), ==, 1);
  g_assert_true (was_said (fixture, "Missing: process 10 (narrow) is a 32-bit program"));
  g_assert_true (was_said (fixture, "Missing: process 11 (static) is statically linked"));
  g_assert_true (was_said (fixture, "Missing: process 12 (other) loaded no libsonde-memory.so"));
}

static void
says_nothing_of_what_had_no_time (Fixture *fixture, gconstpointer data)
{
  /* Killed before its libraries came; forked, and never executed anything. */
  begin_dynamic (fixture, PID, "short", HIGH);
  exit_process (fixture, PID);
  map (fixture, PID + 1, HIGH, 4, "/lib/libc.so.6");
  exit_process (fixture, PID + 1);
  execute (fixture, PID + 2, "nothing");
  sonde_unheard_end (fixture->unheard);
  g_assert_cmpuint (count_all (fixture), ==, 0);
}

static void
tells_once_of_what_runs_on (Fixture *fixture, gconstpointer data)
{
  begin_dynamic (fixture, PID, "service", HIGH);
  sonde_unheard_settle (fixture->unheard, SECOND / 2);
  map (fixture, PID, HIGH + 65536, 4, "/lib/libc.so.6");
  g_assert_cmpuint (count_all (fixture), ==, 0);
  sonde_unheard_settle (fixture->unheard, 2 * SECOND);
  sonde_unheard_settle (fixture->unheard, 3 * SECOND);
  exit_process (fixture, PID);
  g_assert_cmpuint (count_all (fixture), ==, 1);
  /* An exec ends a program, too. */
  begin_dynamic (fixture, PID, "first", HIGH);
  map (fixture, PID, HIGH + 65536, 4, "/lib/libc.so.6");
  execute (fixture, PID, "second");
  g_assert_cmpuint (count_all (fixture), ==, 2);
  g_assert_true (was_said (fixture, "process 10 (first)"));
}

static void
names_nobody_who_is_hidden (Fixture *fixture, gconstpointer data)
{
  const SondePerfRecord record = { .type = SONDE_PERF_RECORD_MAP,
                                   .pid = PID,
                                   .map = { .executable = true, .inode = 1, .path = "/secret" } };

  execute (fixture, PID, "secret");
  sonde_unheard_follow (fixture->unheard, &record, TRUE);
  exit_process (fixture, PID);
  g_assert_cmpuint (count_all (fixture), ==, 1);
  g_assert_true (was_said (fixture, "Missing: process 10 is statically"));
  g_assert_false (was_said (fixture, "secret"));
}

static void
claims_nothing_where_records_were_lost (Fixture *fixture, gconstpointer data)
{
  execute (fixture, PID, "static");
  map (fixture, PID, 0x10000, 1, "/bin/program");
  sonde_unheard_lost_records (fixture->unheard);
  exit_process (fixture, PID);
  sonde_unheard_end (fixture->unheard);
  g_assert_cmpuint (count_all (fixture), ==, 0);
  g_assert_true (was_said (fixture, "Of 1 programs it is not known"));
}

/* A pause, or the end, comes at any time: also between an exec and what is mapped then. */
static void
claims_nothing_where_records_ended (Fixture *fixture, gconstpointer data)
{
  execute (fixture, PID, "fresh");
  map (fixture, PID, 0x10000, 1, "/bin/program");
  begin_dynamic (fixture, PID + 1, "loading", HIGH);
  execute (fixture, PID + 2, "static");
  map (fixture, PID + 2, 0x10000, 1, "/bin/program");
  exit_process (fixture, PID + 2);
  begin_dynamic (fixture, PID + 3, "other", HIGH);
  map (fixture, PID + 3, HIGH + 65536, 4, "/lib/libc.so.6");
  sonde_unheard_stop (fixture->unheard, 1000);
  g_assert_cmpuint (count_all (fixture), ==, 1);
  map_at (fixture, 2000, PID + 1, HIGH + 65536, 5, "/lib/plugin.so");
  sonde_unheard_settle (fixture->unheard, 2 * SECOND);
  g_assert_cmpuint (count_all (fixture), ==, 2);
  sonde_unheard_end (fixture->unheard);
  g_assert_true (was_said (fixture, "process 12 (static)"));
  g_assert_true (was_said (fixture, "process 13 (other)"));
  g_assert_false (was_said (fixture, "fresh"));
  g_assert_false (was_said (fixture, "loading"));
  g_assert_true (was_said (fixture, "Of 2 programs it is not known"));
}

static void
tells_of_what_was_old_when_records_ended (Fixture *fixture, gconstpointer data)
{
  execute (fixture, PID, "static");
  map (fixture, PID, 0x10000, 1, "/bin/program");
  sonde_unheard_stop (fixture->unheard, SECOND / 2);
  sonde_unheard_end (fixture->unheard);
  g_assert_true (was_said (fixture, "process 10 (static)"));
}

static void
stays_small_and_counts_all (Fixture *fixture, gconstpointer data)
{
  const guint n_programs = 10000;

  for (guint i = 1; i <= n_programs; i++)
    {
      execute (fixture, (int32_t) i, "\033[1m\n");
      map (fixture, (int32_t) i, 0x10000, 1, "/bin/program");
    }
  sonde_unheard_end (fixture->unheard);
  g_assert_cmpuint (count_all (fixture), <, n_programs);
  g_assert_cmpuint (count_all (fixture), >, n_programs / 2);
  g_assert_false (was_said (fixture, "\033[1m"));
  g_assert_true (was_said (fixture, "more programs without libsonde-memory.so are not named here"));
  g_assert_true (was_said (fixture, "programs it is not known"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/unheard/says-nothing-of-programs-with-the-library", Fixture, NULL, set_up,
              says_nothing_of_programs_with_the_library, tear_down);
  g_test_add ("/unheard/tells-kinds-apart", Fixture, NULL, set_up, tells_kinds_apart, tear_down);
  g_test_add ("/unheard/says-nothing-of-what-had-no-time", Fixture, NULL, set_up,
              says_nothing_of_what_had_no_time, tear_down);
  g_test_add ("/unheard/tells-once-of-what-runs-on", Fixture, NULL, set_up,
              tells_once_of_what_runs_on, tear_down);
  g_test_add ("/unheard/names-nobody-who-is-hidden", Fixture, NULL, set_up,
              names_nobody_who_is_hidden, tear_down);
  g_test_add ("/unheard/claims-nothing-where-records-were-lost", Fixture, NULL, set_up,
              claims_nothing_where_records_were_lost, tear_down);
  g_test_add ("/unheard/claims-nothing-where-records-ended", Fixture, NULL, set_up,
              claims_nothing_where_records_ended, tear_down);
  g_test_add ("/unheard/tells-of-what-was-old-when-records-ended", Fixture, NULL, set_up,
              tells_of_what_was_old_when_records_ended, tear_down);
  g_test_add ("/unheard/stays-small-and-counts-all", Fixture, NULL, set_up,
              stays_small_and_counts_all, tear_down);
  return g_test_run ();
}
