/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counters of the machine and of processes: from texts to frames in a stream. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "daemon/capture/counters/counters.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define PID      77
#define TICK_NS  G_GINT64_CONSTANT (100000000)
#define MAX_PIDS 8

/* What one reader has heard of a counter. */
typedef struct
{
  guint32 id;
  gint32 pid;
  guint8 type;
  guint n_values;
  guint n_definitions;
  SondeCounterValue last;
} Heard;

typedef struct
{
  RecorderFixture base;
  SondeCounters *counters;
  gint64 now_ns;
  gint32 asked[MAX_PIDS];
  guint n_asked;
} Fixture;

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  g_assert_cmpint (reason, ==, 0);
}

static gboolean
ask (gint32 pid, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpuint (fixture->n_asked, <, MAX_PIDS);
  fixture->asked[fixture->n_asked++] = pid;
  return TRUE;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, sink_closed, fixture);
  fixture->counters = sonde_counters_new (fixture->base.recorder, ask, fixture);
  fixture->now_ns = TICK_NS;
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_counters_free (fixture->counters);
  recorder_fixture_clear (&fixture->base);
}

static int
add_sink (Fixture *fixture, guint32 id)
{
  const SondeMessageSink options = { .sink_id = id,
                                     .kind = SONDE_SINK_STREAM,
                                     .buffer_size_bytes = 1 << 20,
                                     .frames = SONDE_SINK_FRAMES_COUNTERS };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &options), ==, 0);

  return fds[1];
}

/* A text whose reader sees what is written into it later, as of /proc. */
static int
make_text (const char *text)
{
  int fd = memfd_create ("text", MFD_CLOEXEC);

  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));

  return fd;
}

static void
rewrite (int fd, const char *text)
{
  g_assert_cmpint (ftruncate (fd, 0), ==, 0);
  g_assert_cmpint (pwrite (fd, text, strlen (text), 0), ==, (gssize) strlen (text));
}

static int
add_machine_text (Fixture *fixture, SondeCounterKind kind, const char *text)
{
  int fd = make_text (text);

  sonde_counters_add (fixture->counters, kind, 0, fd);
  return fd;
}

static void
read_all (Fixture *fixture, gboolean is_shown)
{
  sonde_counters_read (fixture->counters, is_shown, fixture->now_ns);
  fixture->now_ns += TICK_NS;
}

/* --- a reader --- */

static void
hear_definitions (GHashTable *heard, const SondeFrame *frame)
{
  const SondeFrameCounterDefine *define = (const void *) frame;

  for (guint i = 0; i < define->n_counters; i++)
    {
      const SondeCounterDefinition *definition = &define->counters[i];
      g_autofree char *name = g_strdup_printf ("%s/%s", definition->category, definition->name);
      Heard *counter = g_hash_table_lookup (heard, name);

      if (counter == NULL)
        {
          counter = g_new0 (Heard, 1);
          counter->id = sonde_counter_id (definition->id_type);
          counter->type = sonde_counter_type (definition->id_type);
          counter->pid = frame->pid;
          g_hash_table_insert (heard, g_steal_pointer (&name), counter);
        }
      g_assert_cmpuint (counter->id, ==, sonde_counter_id (definition->id_type));
      counter->n_definitions++;
    }
}

static Heard *
find_id (GHashTable *heard, guint32 id)
{
  GHashTableIter iter;
  gpointer counter;

  g_hash_table_iter_init (&iter, heard);
  while (g_hash_table_iter_next (&iter, NULL, &counter))
    if (((Heard *) counter)->id == id)
      return counter;

  return NULL;
}

static void
hear_values (GHashTable *heard, const SondeFrame *frame)
{
  const SondeFrameCounterSet *set = (const void *) frame;

  for (guint i = 0; i < set->n_groups * SONDE_COUNTERS_PER_GROUP; i++)
    {
      const SondeCounterGroup *group = &set->groups[i / SONDE_COUNTERS_PER_GROUP];
      guint32 id = group->ids[i % SONDE_COUNTERS_PER_GROUP];
      Heard *counter = id != 0 ? find_id (heard, id) : NULL;

      if (id == 0)
        continue;
      g_assert_nonnull (counter); /* it was defined before */
      g_assert_true (id <= SONDE_N_LEDGER || counter->pid == frame->pid);
      counter->last = group->values[i % SONDE_COUNTERS_PER_GROUP];
      counter->n_values++;
    }
}

/* "Category/Name" → Heard */
static GHashTable *
hear_all (Fixture *fixture, int fd)
{
  g_autoptr (GByteArray) stream = g_byte_array_new ();
  GHashTable *heard = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  sonde_recorder_finish (fixture->base.recorder, NULL);
  while (!stream_receive (fd, stream))
    g_main_context_iteration (NULL, FALSE);
  close (fd);
  g_assert_cmpint (sonde_reader_new (stream_source, stream, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    {
      if (frame->type == SONDE_FRAME_CTRDEF)
        hear_definitions (heard, frame);
      if (frame->type == SONDE_FRAME_CTRSET)
        hear_values (heard, frame);
    }
  sonde_reader_free (reader);

  return heard;
}

static const Heard *
get (GHashTable *heard, const char *name)
{
  const Heard *counter = g_hash_table_lookup (heard, name);

  g_test_message ("%s", name);
  g_assert_nonnull (counter);
  g_assert_cmpuint (counter->n_definitions, ==, 1);

  return counter;
}

static void
assert_i64 (GHashTable *heard, const char *name, guint n_values, gint64 value)
{
  const Heard *counter = get (heard, name);

  g_assert_cmpuint (counter->type, ==, SONDE_COUNTER_INT64);
  g_assert_cmpuint (counter->n_values, ==, n_values);
  g_assert_cmpint (counter->last.v64, ==, value);
}

static void
assert_double (GHashTable *heard, const char *name, guint n_values, double value)
{
  const Heard *counter = get (heard, name);

  g_assert_cmpuint (counter->type, ==, SONDE_COUNTER_DOUBLE);
  g_assert_cmpuint (counter->n_values, ==, n_values);
  g_assert_cmpfloat_with_epsilon (counter->last.vdbl, value, 1e-9);
}

/* --- the machine --- */

static void
tells_how_busy_processors_were (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  int fd = add_machine_text (fixture, SONDE_COUNTER_KIND_CPU,
                             "cpu  10 0 0 90 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0\nintr 1\n");
  g_autoptr (GHashTable) heard = NULL;

  read_all (fixture, TRUE);
  /* A processor that comes; one reading later it has a percentage, too. */
  rewrite (fd, "cpu  16 0 1 91 2 0 0 0\ncpu0 16 0 1 91 2 0 0 0\ncpu1 5 0 0 5 0 0 0 0\n");
  read_all (fixture, TRUE);
  /* cpu0 has gone, and the clock of idleness backwards. */
  rewrite (fd, "cpu  20 0 1 80 2 0 0 0\ncpu1 6 0 0 8 0 0 0 0\n");
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  assert_double (heard, "CPU Percent/Total CPU 0", 1, 70);
  assert_double (heard, "CPU Percent/Total CPU 1", 1, 25);
  assert_double (heard, "CPU Percent/Combined", 2, 100);
}

static void
says_nothing_of_too_short_a_time (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  int fd = add_machine_text (fixture, SONDE_COUNTER_KIND_CPU, "cpu0 10 0 0 90 0 0 0 0\n");
  g_autoptr (GHashTable) heard = NULL;

  read_all (fixture, TRUE);
  rewrite (fd, "cpu0 11 0 0 90 0 0 0 0\n");
  fixture->now_ns -= TICK_NS - 1000;
  read_all (fixture, TRUE);
  rewrite (fd, "cpu0 14 0 0 96 0 0 0 0\n");
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  assert_double (heard, "CPU Percent/Total CPU 0", 1, 40);
}

static void
counts_bytes_since_the_start (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  int net = add_machine_text (fixture, SONDE_COUNTER_KIND_NETWORK, "eth0: 100 2 3 4 5 6 7 8 200\n");
  int disk = add_machine_text (fixture, SONDE_COUNTER_KIND_DISK,
                               "8 0 sda 1 2 10 4 5 6 20 8\n7 0 loop0 0 0 0 0 0 0 0 0\n");
  g_autoptr (GHashTable) heard = NULL;

  read_all (fixture, TRUE);
  /* An interface that was reset, and one that is new. */
  rewrite (net, "eth0: 40 2 3 4 5 6 7 8 205\nwlan0: 7 2 3 4 5 6 7 8 9\n");
  rewrite (disk, "8 0 sda 1 2 12 4 5 6 20 8\n7 0 loop0 0 0 0 0 0 0 0 0\n");
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  assert_i64 (heard, "Network/RX Bytes (eth0)", 2, 40);
  assert_i64 (heard, "Network/TX Bytes (eth0)", 2, 5);
  assert_i64 (heard, "Network/RX Bytes (wlan0)", 1, 0);
  assert_i64 (heard, "Disk/Read Bytes (sda)", 2, 1024);
  assert_i64 (heard, "Disk/Written Bytes (sda)", 2, 0);
  g_assert_null (g_hash_table_lookup (heard, "Disk/Read Bytes (loop0)"));
}

static void
tells_memory (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  g_autoptr (GHashTable) heard = NULL;

  add_machine_text (fixture, SONDE_COUNTER_KIND_MEMORY,
                    "MemTotal: 10 kB\nMemAvailable: 4 kB\nSwapTotal: 3 kB\nSwapFree: 1 kB\n");
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  assert_i64 (heard, "Memory/Used", 1, 6 * 1024);
  assert_i64 (heard, "Memory/Available", 1, 4 * 1024);
  assert_i64 (heard, "Memory/Swap Used", 1, 2 * 1024);
}

static void
writes_nothing_while_paused (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  int fd = add_machine_text (fixture, SONDE_COUNTER_KIND_CPU, "cpu0 0 0 0 0 0 0 0 0\n");
  g_autoptr (GHashTable) heard = NULL;

  read_all (fixture, TRUE);
  rewrite (fd, "cpu0 1000 0 0 0 0 0 0 0\n");
  read_all (fixture, FALSE);
  rewrite (fd, "cpu0 1005 0 0 5 0 0 0 0\n");
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  assert_double (heard, "CPU Percent/Total CPU 0", 1, 50);
}

static void
survives_texts_of_anything (Fixture *fixture, gconstpointer data)
{
  static const char *const texts[] = { "", "\n", "cpu\n", "MemTotal: x\n", ":::\n", "8 0\n" };
  int reader = add_sink (fixture, 1);
  g_autoptr (GHashTable) heard = NULL;
  int fds[SONDE_COUNTER_KIND_PROCESS];

  for (guint kind = SONDE_COUNTER_KIND_CPU; kind < SONDE_COUNTER_KIND_PROCESS; kind++)
    fds[kind] = add_machine_text (fixture, kind, "");
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      for (guint kind = SONDE_COUNTER_KIND_CPU; kind < SONDE_COUNTER_KIND_PROCESS; kind++)
        rewrite (fds[kind], texts[i]);
      read_all (fixture, TRUE);
    }
  heard = hear_all (fixture, reader);
  g_assert_cmpuint (g_hash_table_size (heard), ==, SONDE_N_LEDGER);
}

static void
says_when_there_are_too_many (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GString) text = g_string_new (NULL);
  int reader = add_sink (fixture, 1);
  int logs = -1;
  g_autoptr (GHashTable) heard = NULL;
  g_autoptr (GByteArray) stream = g_byte_array_new ();
  g_autoptr (StreamSummary) summary = NULL;
  const SondeMessageSink with_logs = { .sink_id = 2,
                                       .kind = SONDE_SINK_STREAM,
                                       .buffer_size_bytes = 1 << 20,
                                       .frames = SONDE_SINK_FRAMES_ALL };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &with_logs), ==, 0);
  logs = fds[1];
  for (guint i = 0; i <= SONDE_COUNTERS_MAX_INTERFACES; i++)
    g_string_append_printf (text, "veth%u: 1 2 3 4 5 6 7 8 9\n", i);
  add_machine_text (fixture, SONDE_COUNTER_KIND_NETWORK, text->str);
  read_all (fixture, TRUE);
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  g_assert_cmpuint (g_hash_table_size (heard), ==,
                    SONDE_N_LEDGER + 2 * SONDE_COUNTERS_MAX_INTERFACES);
  assert_i64 (heard, "Network/RX Bytes (veth255)", 2, 0);

  while (!stream_receive (logs, stream))
    g_main_context_iteration (NULL, FALSE);
  close (logs);
  summary = stream_summary_new (stream);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
  g_assert_cmpstr (summary->log, ==,
                   "There are more network interfaces than are counted, which are 256");
}

static void
tells_late_readers_what_counters_are (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GHashTable) heard = NULL;
  sonde_autofd int early = add_sink (fixture, 1);
  int late;

  g_assert_cmpint (early, >=, 0);
  add_machine_text (fixture, SONDE_COUNTER_KIND_NETWORK, "eth0: 100 2 3 4 5 6 7 8 200\n");
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID,
                      make_text ("77 (a) R 1 2 3 4 -1 5 6 7 8 9 1 1 0 0 20 0 3 0 42 9 25 1\n"));
  read_all (fixture, TRUE);
  late = add_sink (fixture, 2);
  read_all (fixture, TRUE);
  heard = hear_all (fixture, late);
  assert_i64 (heard, "Network/RX Bytes (eth0)", 1, 0);
  g_assert_cmpint (get (heard, "Process/Threads (77 a)")->pid, ==, PID);
}

static void
gives_no_number_twice (Fixture *fixture, gconstpointer data)
{
  SondeRecorder *recorder = fixture->base.recorder;
  SondeCounter counters[3] = { { .category = "a", .name = "b", .description = "c" },
                               { .category = "a", .name = "b", .description = "c" },
                               { .category = "a", .name = "b", .description = "c" } };
  guint32 last = SONDE_N_LEDGER;

  for (guint i = 0; i < SONDE_STREAM_STATE_MAX_COUNTERS / 3; i++)
    {
      g_assert_true (sonde_recorder_define_counters (recorder, -1, counters, 3, 1));
      for (guint j = 0; j < 3; j++)
        g_assert_cmpuint (counters[j].id, ==, ++last);
    }
  g_assert_false (sonde_recorder_define_counters (recorder, -1, counters, 3, 1));
  /* None of them was added: the one that still has room gets the next number. */
  g_assert_true (sonde_recorder_define_counters (recorder, -1, counters, 1, 1));
  g_assert_cmpuint (counters[0].id, ==, ++last);
  g_assert_false (sonde_recorder_define_counters (recorder, -1, counters, 1, 1));
}

/* --- processes --- */

static void
add_process (Fixture *fixture, gint32 pid, const char *text, int *kept)
{
  int fd = make_text (text);

  *kept = fcntl (fd, F_DUPFD_CLOEXEC, 0);
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, pid, fd);
}

static void
tells_of_processes (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  g_autoptr (GHashTable) heard = NULL;
  sonde_autofd int text = -1;

  add_process (fixture, PID, "77 (a (b) R 1 2 3 4 -1 5 6 7 8 9 10 5 0 0 20 0 3 0 42 9 25 1\n",
               &text);
  read_all (fixture, TRUE);
  rewrite (text, "77 (renamed) R 1 2 3 4 -1 5 6 7 8 9 14 10 0 0 20 0 4 0 42 9 26 1\n");
  read_all (fixture, TRUE);
  rewrite (text, "");
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  /* 9 hundredths of a tenth of a second */
  assert_double (heard, "Process/CPU Percent (77 a (b)", 1, 90);
  assert_i64 (heard, "Process/Resident (77 a (b)", 2, 26 * sysconf (_SC_PAGESIZE));
  assert_i64 (heard, "Process/Threads (77 a (b)", 2, 4);
  g_assert_cmpuint (fixture->n_asked, ==, 0);
}

static void
asks_again_after_an_exec (Fixture *fixture, gconstpointer data)
{
  static const char line[] = "77 (a) R 1 2 3 4 -1 5 6 7 8 9 1 1 0 0 20 0 3 0 42 9 25 1\n";
  int reader = add_sink (fixture, 1);
  g_autoptr (GHashTable) heard = NULL;

  /* Before its first program nothing is read. */
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID, -1);
  read_all (fixture, TRUE);
  sonde_counters_exec (fixture->counters, PID + 1);
  g_assert_cmpuint (fixture->n_asked, ==, 0);
  sonde_counters_exec (fixture->counters, PID);
  g_assert_cmpuint (fixture->n_asked, ==, 1);
  g_assert_cmpint (fixture->asked[0], ==, PID);
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID, make_text (line));
  read_all (fixture, TRUE);

  /* An exec while the answer is on its way: the answer may be of the program before. */
  sonde_counters_exec (fixture->counters, PID);
  sonde_counters_exec (fixture->counters, PID);
  g_assert_cmpuint (fixture->n_asked, ==, 2);
  read_all (fixture, TRUE);
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID, make_text (line));
  g_assert_cmpuint (fixture->n_asked, ==, 3);
  read_all (fixture, TRUE);
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID, make_text (line));
  read_all (fixture, TRUE);

  /* It is not for the session any more. */
  sonde_counters_lost_records (fixture->counters);
  g_assert_cmpuint (fixture->n_asked, ==, 4);
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID, -1);
  read_all (fixture, TRUE);
  sonde_counters_lost_records (fixture->counters);
  g_assert_cmpuint (fixture->n_asked, ==, 4);
  heard = hear_all (fixture, reader);
  assert_i64 (heard, "Process/Threads (77 a)", 2, 3);
}

static void
knows_another_process_of_the_same_number (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  g_autoptr (GHashTable) heard = NULL;

  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID,
                      make_text ("77 (a) R 1 2 3 4 -1 5 6 7 8 9 9 9 0 0 20 0 3 0 42 9 25 1\n"));
  read_all (fixture, TRUE);
  sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, PID,
                      make_text ("77 (b) R 1 2 3 4 -1 5 6 7 8 9 50 9 0 0 20 0 5 0 43 9 25 1\n"));
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  assert_i64 (heard, "Process/Threads (77 a)", 1, 3);
  assert_i64 (heard, "Process/Threads (77 b)", 1, 5);
  g_assert_cmpuint (get (heard, "Process/CPU Percent (77 b)")->n_values, ==, 0);
}

static void
counts_a_bounded_number_of_processes (Fixture *fixture, gconstpointer data)
{
  int reader = add_sink (fixture, 1);
  g_autoptr (GHashTable) heard = NULL;

  for (gint32 pid = 1; pid <= SONDE_COUNTERS_MAX_PROCESSES + 1; pid++)
    sonde_counters_add (fixture->counters, SONDE_COUNTER_KIND_PROCESS, pid,
                        make_text ("1 (a) R 1 2 3 4 -1 5 6 7 8 9 9 9 0 0 20 0 3 0 42 9 25 1\n"));
  read_all (fixture, TRUE);
  heard = hear_all (fixture, reader);
  g_assert_cmpuint (g_hash_table_size (heard), ==,
                    SONDE_N_LEDGER + 3 * SONDE_COUNTERS_MAX_PROCESSES);
}

#define ADD(path, function)                                                                        \
  g_test_add ("/counters/" path, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("gives-no-number-twice", gives_no_number_twice);
  ADD ("survives-texts-of-anything", survives_texts_of_anything);
  ADD ("says-when-there-are-too-many", says_when_there_are_too_many);
  ADD ("says-nothing-of-too-short-a-time", says_nothing_of_too_short_a_time);
  ADD ("writes-nothing-while-paused", writes_nothing_while_paused);
  ADD ("tells-how-busy-processors-were", tells_how_busy_processors_were);
  ADD ("counts-bytes-since-the-start", counts_bytes_since_the_start);
  ADD ("tells-memory", tells_memory);
  ADD ("tells-late-readers-what-counters-are", tells_late_readers_what_counters_are);
  ADD ("process/asks-again-after-an-exec", asks_again_after_an_exec);
  ADD ("process/is-bounded", counts_a_bounded_number_of_processes);
  ADD ("process/knows-another-one-of-the-same-number", knows_another_process_of_the_same_number);
  ADD ("process/tells-time-memory-and-threads", tells_of_processes);
  return g_test_run ();
}
