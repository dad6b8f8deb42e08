/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams of sessions that may not tell all: not one byte of the rest is in them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "daemon/capture/process/sampler.h"
#include "daemon/capture/process/tracker.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define PID  10
#define MARK "f3a9c41e77d05b2c"

typedef struct
{
  RecorderFixture base;
  SondeTracker *tracker;
  SondeUnwinder *unwinder;
  SondeMessageSetup setup;
  SondeSampler *sampler;
  GArray *requests; /* SondeRequest, as sent */
  int reader;
  gint64 time_ns;
} Fixture;

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
}

static gboolean
send_request (const SondeRequest *request, gpointer user_data)
{
  g_array_append_val (((Fixture *) user_data)->requests, *request);
  return TRUE;
}

static SondeKallsyms *
make_kallsyms (void)
{
  static const char text[] = "ffffffff81000000 T first_one\nffffffff81001000 T second_one\n"
                             "ffffffff81002000 T third_one\n";
  sonde_autofd int fd = memfd_create ("kallsyms", MFD_CLOEXEC);
  SondeKallsyms *kallsyms = NULL;

  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  g_assert_cmpint (lseek (fd, 0, SEEK_SET), ==, 0);
  g_assert_cmpint (sonde_kallsyms_new (fd, &kallsyms), ==, 0);
  return kallsyms;
}

/* What the session may tell. */
typedef struct
{
  gboolean hides_others;
  gboolean kernel;
  gboolean raw;
} Scope;

static const Scope own = { TRUE, FALSE, FALSE };
static const Scope own_with_kernel = { TRUE, TRUE, FALSE };
static const Scope whole_system = { FALSE, TRUE, FALSE };
static const Scope raw = { FALSE, TRUE, TRUE };

static void
set_up (Fixture *fixture, gconstpointer data)
{
  const Scope *scope = data;
  const SondeMessageSink sink = { .sink_id = 1,
                                  .kind = SONDE_SINK_STREAM,
                                  .buffer_size_bytes = 1 << 20,
                                  .frames = SONDE_SINK_FRAMES_ALL };
  int fds[2];

  fixture->time_ns = g_get_monotonic_time () * 1000;
  recorder_fixture_init (&fixture->base, sink_closed, fixture);
  fixture->requests = g_array_new (FALSE, TRUE, sizeof (SondeRequest));
  fixture->tracker = sonde_tracker_new (
      fixture->base.processes, fixture->base.modules, fixture->base.state, fixture->base.recorder,
      fixture->base.jit_names, scope->hides_others, send_request, fixture);
  fixture->unwinder = sonde_unwinder_new_cfi (fixture->base.processes);
  fixture->setup.asked.unwind = SONDE_UNWIND_NONE;
  fixture->setup.asked.max_depth = 8;
  fixture->setup.asked.raw = scope->raw;
  fixture->sampler
      = sonde_sampler_new (&fixture->setup, fixture->base.processes, fixture->unwinder,
                           scope->kernel ? make_kallsyms () : NULL, NULL, NULL,
                           fixture->base.jit_names, fixture->base.recorder, &fixture->base.tally);
  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &sink), ==, 0);
  fixture->reader = fds[1];
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_sampler_free (fixture->sampler);
  sonde_unwinder_free (fixture->unwinder);
  sonde_tracker_free (fixture->tracker);
  recorder_fixture_clear (&fixture->base);
  g_array_unref (fixture->requests);
  sonde_clear_fd (&fixture->reader);
}

/* --- what happens --- */

static SondePerfRecord
record_of (Fixture *fixture, SondePerfRecordType type)
{
  return (SondePerfRecord){
    .type = type, .cpu = 0, .pid = PID, .tid = PID, .time_ns = ++fixture->time_ns
  };
}

static void
exec_program (Fixture *fixture, const char *name)
{
  SondePerfRecord record = record_of (fixture, SONDE_PERF_RECORD_COMM);

  record.comm = (SondePerfRecordComm){ .name = name, .exec = TRUE };
  sonde_tracker_follow (fixture->tracker, &record);
}

static SondePerfRecord
map_of (Fixture *fixture, uint64_t start, uint64_t inode, const char *path)
{
  SondePerfRecord record = record_of (fixture, SONDE_PERF_RECORD_MAP);

  record.map = (SondePerfRecordMap){ .start = start,
                                     .end = start + 0x1000,
                                     .inode = inode,
                                     .dev_major = 8,
                                     .executable = TRUE,
                                     .path = path };
  return record;
}

static void
sample (Fixture *fixture)
{
  static const uint64_t chain[]
      = { (uint64_t) PERF_CONTEXT_KERNEL, 0xffffffff81001010, 0xffffffff81000020 };
  SondePerfRecord record = record_of (fixture, SONDE_PERF_RECORD_SAMPLE);
  SondeProcess *process = sonde_tracker_process (fixture->tracker, PID, record.time_ns);

  record.sample = (SondePerfRecordSample){ .mode = SONDE_PERF_RECORD_MODE_KERNEL,
                                           .ip = 0xffffffff81001010,
                                           .chain = chain,
                                           .n_chain = G_N_ELEMENTS (chain) };
  sonde_tally_sample_read (&fixture->base.tally);
  sonde_sampler_record (fixture->sampler, process, &record);
}

/* The last request is answered with that errno. */
static void
refuse_last (Fixture *fixture, int status)
{
  const SondeRequest *request
      = &g_array_index (fixture->requests, SondeRequest, fixture->requests->len - 1);

  if (request->is_file)
    {
      SondeMessageFile answer = { .request_id = request->id, .status = status };

      sonde_tracker_answer_file (fixture->tracker, &answer, -1);
    }
  else
    {
      SondeMessageProcess answer
          = { .request_id = request->id, .pid = request->pid, .status = status };

      sonde_tracker_answer_process (fixture->tracker, &answer, -1, -1, -1);
    }
}

static GByteArray *
finish (Fixture *fixture)
{
  g_autoptr (GByteArray) stream = g_byte_array_new ();

  sonde_recorder_settle_names (fixture->base.recorder, TRUE);
  sonde_recorder_finish (fixture->base.recorder, NULL);
  while (!stream_receive (fixture->reader, stream))
    g_main_context_iteration (NULL, FALSE);
  return g_steal_pointer (&stream);
}

static gboolean
holds (const GByteArray *stream, gconstpointer bytes, gsize size_bytes)
{
  return memmem (stream->data, stream->len, bytes, size_bytes) != NULL;
}

static gboolean
holds_text (const GByteArray *stream, const char *text)
{
  return holds (stream, text, strlen (text));
}

static gboolean
holds_kernel_address (const GByteArray *stream)
{
  const uint64_t addresses[] = { 0xffffffff81001010, 0xffffffff81000020, 0xffffffff8100001f,
                                 0xffffffff81001000, 0xffffffff81000000 };

  for (gsize i = 0; i < G_N_ELEMENTS (addresses); i++)
    if (holds (stream, &addresses[i], sizeof addresses[i]))
      return TRUE;
  return FALSE;
}

/* --- cases --- */

static void
kernel_is_one_leaf (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds_text (stream, "[kernel]"));
  g_assert_false (holds_text (stream, "first_one") || holds_text (stream, "second_one"));
  g_assert_false (holds_kernel_address (stream));
}

static void
kernel_has_names_alone (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds_text (stream, "first_one") && holds_text (stream, "second_one"));
  g_assert_false (holds_kernel_address (stream));
}

static void
kernel_has_addresses (Fixture *fixture, gconstpointer data)
{
  const uint64_t expected[] = { SONDE_CONTEXT_KERNEL, 0xffffffff81001010, 0xffffffff81000020 };
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  sample (fixture);
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds (stream, expected, sizeof expected));
  g_assert_true (holds_text (stream, "first_one") && holds_text (stream, "second_one"));
}

/* Nobody said whose it is before control did. */
static void
hides_foreign_processes (Fixture *fixture, gconstpointer data)
{
  const SondeProcess *process = sonde_tracker_process (fixture->tracker, PID, ++fixture->time_ns);
  SondePerfRecord fork = record_of (fixture, SONDE_PERF_RECORD_FORK);
  SondePerfRecord comm = record_of (fixture, SONDE_PERF_RECORD_COMM);
  SondePerfRecord thread = comm;
  SondePerfRecord map = map_of (fixture, 0x1000, 5, "/srv/" MARK);
  SondePerfRecord exit = record_of (fixture, SONDE_PERF_RECORD_EXIT);
  g_autoptr (GByteArray) stream = NULL;
  g_autoptr (StreamSummary) summary = NULL;

  thread.tid = PID + 5;
  thread.comm = (SondePerfRecordComm){ .name = MARK };
  sonde_tracker_follow (fixture->tracker, &thread);
  g_assert_false (
      sonde_tracker_is_ready (fixture->tracker, (SondeProcess *) process, fixture->time_ns));
  refuse_last (fixture, EPERM);
  sample (fixture);
  comm.comm = (SondePerfRecordComm){ .name = MARK };
  sonde_tracker_follow (fixture->tracker, &comm);
  sonde_tracker_follow (fixture->tracker, &thread);
  sonde_tracker_follow (fixture->tracker, &map);
  fork.pid = fork.tid = PID + 1;
  fork.task = (SondePerfRecordTask){ PID, PID };
  sonde_tracker_follow (fixture->tracker, &fork);
  sample (fixture);
  sonde_tracker_follow (fixture->tracker, &exit);

  stream = finish (fixture);
  g_assert_false (holds_text (stream, MARK));
  g_assert_true (holds_text (stream, "[other]"));
  summary = stream_summary_new (stream);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 2);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_FORK], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_EXIT], ==, 0);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_LEDGER_RECORDED], ==, 2);
}

/* A process that has closed itself: what is known stays, what comes is not told. */
static void
hides_what_comes_after_a_process_closes (Fixture *fixture, gconstpointer data)
{
  SondePerfRecord before = map_of (fixture, 0x1000, 5, "/usr/bin/known");
  SondePerfRecord after = map_of (fixture, 0x3000, 6, "/srv/" MARK);
  SondePerfRecord later = map_of (fixture, 0x5000, 0, "//" MARK);
  SondePerfRecord comm = record_of (fixture, SONDE_PERF_RECORD_COMM);
  SondePerfRecord thread = comm;
  g_autoptr (GByteArray) stream = NULL;

  thread.tid = PID + 5;
  thread.comm = (SondePerfRecordComm){ .name = "helper" };
  exec_program (fixture, "program");
  sonde_tracker_follow (fixture->tracker, &thread);
  sonde_tracker_follow (fixture->tracker, &before);
  sample (fixture);
  g_assert_true (sonde_tracker_awaits_map (fixture->tracker, &after, fixture->time_ns));
  refuse_last (fixture, EPERM);
  g_assert_false (sonde_tracker_awaits_map (fixture->tracker, &after, fixture->time_ns));
  sonde_tracker_follow (fixture->tracker, &after);
  sonde_tracker_follow (fixture->tracker, &later);
  comm.comm = (SondePerfRecordComm){ .name = MARK };
  sonde_tracker_follow (fixture->tracker, &comm);
  thread.comm = comm.comm;
  sonde_tracker_follow (fixture->tracker, &thread);
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds_text (stream, "/usr/bin/known"));
  g_assert_true (holds_text (stream, "helper"));
  g_assert_false (holds_text (stream, MARK));
}

/* What is called like a file with names of made code waits like any other. */
static void
hides_a_jitdump_of_a_closed_process (Fixture *fixture, gconstpointer data)
{
  SondePerfRecord dump = map_of (fixture, 0x3000, 6, "/srv/" MARK "/jit-1.dump");
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  sample (fixture);
  g_assert_true (sonde_tracker_awaits_map (fixture->tracker, &dump, fixture->time_ns));
  refuse_last (fixture, EPERM);
  sonde_tracker_follow (fixture->tracker, &dump);
  sample (fixture);
  stream = finish (fixture);
  g_assert_false (holds_text (stream, MARK));
}

/* The kernel would have taken the events away had the new program not been the owner's to see. */
static void
shows_the_next_program (Fixture *fixture, gconstpointer data)
{
  SondePerfRecord closed = map_of (fixture, 0x3000, 6, "/srv/secret");
  SondePerfRecord next = map_of (fixture, 0x1000, 7, "/usr/bin/" MARK);
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  g_assert_true (sonde_tracker_awaits_map (fixture->tracker, &closed, fixture->time_ns));
  refuse_last (fixture, EPERM);
  sonde_tracker_follow (fixture->tracker, &closed);
  exec_program (fixture, "next");
  sonde_tracker_follow (fixture->tracker, &next);
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds_text (stream, MARK));
  g_assert_false (holds_text (stream, "secret"));
}

/* Gone, or on a file system that is not local: that says nothing of whose it is. */
static void
shows_mappings_whose_file_cannot_be_had (Fixture *fixture, gconstpointer data)
{
  SondePerfRecord gone = map_of (fixture, 0x1000, 5, "/usr/lib/gone");
  SondePerfRecord remote = map_of (fixture, 0x3000, 6, "/net/remote");
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  g_assert_true (sonde_tracker_awaits_map (fixture->tracker, &gone, fixture->time_ns));
  refuse_last (fixture, ESRCH);
  g_assert_false (sonde_tracker_awaits_map (fixture->tracker, &gone, fixture->time_ns));
  sonde_tracker_follow (fixture->tracker, &gone);
  g_assert_true (sonde_tracker_awaits_map (fixture->tracker, &remote, fixture->time_ns));
  refuse_last (fixture, EACCES);
  sonde_tracker_follow (fixture->tracker, &remote);
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds_text (stream, "/usr/lib/gone") && holds_text (stream, "/net/remote"));
}

static void
waits_for_nobody_where_all_is_open (Fixture *fixture, gconstpointer data)
{
  SondePerfRecord map = map_of (fixture, 0x1000, 5, "/srv/" MARK);
  g_autoptr (GByteArray) stream = NULL;

  exec_program (fixture, "program");
  g_assert_false (sonde_tracker_awaits_map (fixture->tracker, &map, fixture->time_ns));
  sonde_tracker_follow (fixture->tracker, &map);
  sample (fixture);
  stream = finish (fixture);
  g_assert_true (holds_text (stream, MARK));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, scope, function)                                                                 \
  g_test_add ("/redaction/" name, Fixture, &(scope), set_up, function, tear_down)
  ADD ("own/kernel-is-one-leaf", own, kernel_is_one_leaf);
  ADD ("own/hides-foreign-processes", own, hides_foreign_processes);
  ADD ("own/hides-what-comes-after-a-process-closes", own, hides_what_comes_after_a_process_closes);
  ADD ("own/hides-a-jitdump-of-a-closed-process", own, hides_a_jitdump_of_a_closed_process);
  ADD ("own/shows-the-next-program", own, shows_the_next_program);
  ADD ("own/shows-mappings-whose-file-cannot-be-had", own, shows_mappings_whose_file_cannot_be_had);
  ADD ("own-with-kernel/kernel-has-names-alone", own_with_kernel, kernel_has_names_alone);
  ADD ("own-with-kernel/hides-foreign-processes", own_with_kernel, hides_foreign_processes);
  ADD ("system/kernel-has-names-alone", whole_system, kernel_has_names_alone);
  ADD ("system/waits-for-nobody", whole_system, waits_for_nobody_where_all_is_open);
  ADD ("raw/kernel-has-addresses", raw, kernel_has_addresses);
  ADD ("raw/waits-for-nobody", raw, waits_for_nobody_where_all_is_open);
#undef ADD
  return g_test_run ();
}
