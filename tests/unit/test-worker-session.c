/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A whole worker: front and broker are played by this test, the kernel by a memfd. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/capture/perf/rings.h"
#include "tests/lib/fake-perf-record.h"
#include "tests/unit/worker-fixture.h"

#define SAMPLE_TYPE                                                                                \
  (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU  \
   | PERF_SAMPLE_PERIOD)
#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4)
#endif
#define PAGE 4096u

typedef struct
{
  Worker worker;
  guint8 *ring; /* the mapping of the fake ring */
  gsize ring_bytes;
  int ring_fd;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  worker_open (&fixture->worker);
  worker_link (&fixture->worker);
  fixture->ring_fd = -1;
}

static void
set_up_without_broker (Fixture *fixture, gconstpointer data)
{
  worker_open (&fixture->worker);
  fixture->ring_fd = -1;
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  worker_clear (&fixture->worker);
  sonde_clear_fd (&fixture->ring_fd);
  if (fixture->ring != NULL)
    munmap (fixture->ring, PAGE + fixture->ring_bytes);
}

/* --- the front, and the broker --- */

static void
send_setup (Fixture *fixture, uint32_t version, uint64_t sample_type)
{
  SondeMessageSetup setup = {
    .header.type = SONDE_MESSAGE_SETUP,
    .version = version,
    .flags = SONDE_SPEC_KERNEL_TIME,
    .session_id = 1,
    .asked.symbols = TRUE,
    .asked.unwind = SONDE_UNWIND_NONE,
    .asked.max_depth = 16,
    .asked.frequency_hz = 1000,
    .sample_type = sample_type,
    .read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST,
    .event = "cpu-clock",
    .sonde_version = "0",
  };

  g_assert_true (sonde_channel_send (fixture->worker.control, &setup, sizeof setup, NULL, 0, NULL));
}

static void
send_events (Fixture *fixture, SondeMessageType type, int fd)
{
  gsize size_bytes = sizeof (SondeMessageEvents) + sizeof (SondeMessageEvent);
  g_autofree SondeMessageEvents *events = g_malloc0 (size_bytes);

  events->header.type = type;
  events->n_events = 1;
  events->events[0].tid = -1;
  events->events[0].kind = SONDE_EVENT_SAMPLES;
  g_assert_true (sonde_channel_send (fixture->worker.control, events, size_bytes, &fd, 1, NULL));
}

static void
send_ring (Fixture *fixture)
{
  SondeMessageSetup setup = { .asked.frequency_hz = 1000 };
  const SondeMessageRingsMapped *mapped;

  fixture->ring_bytes = sonde_rings_wanted (&setup);
  fixture->ring_fd = memfd_create ("ring", MFD_CLOEXEC);
  g_assert_cmpint (ftruncate (fixture->ring_fd, (off_t) (PAGE + fixture->ring_bytes)), ==, 0);
  fixture->ring = mmap (NULL, PAGE + fixture->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                        fixture->ring_fd, 0);
  g_assert_true (fixture->ring != MAP_FAILED);
  send_events (fixture, SONDE_MESSAGE_RINGS, dup (fixture->ring_fd));

  mapped = worker_wait_for (&fixture->worker, SONDE_MESSAGE_RINGS_MAPPED);
  g_assert_cmpint (mapped->status, ==, 0);
  g_assert_cmpuint (mapped->sample_ring_bytes, ==, fixture->ring_bytes);
}

/* An event of which the kernel lost @n_lost samples. */
static void
send_event (Fixture *fixture, uint64_t n_lost)
{
  uint64_t values[3] = { 0, 77, n_lost };
  int fd = memfd_create ("event", MFD_CLOEXEC);

  g_assert_cmpint (write (fd, values, sizeof values), ==, sizeof values);
  g_assert_cmpint (lseek (fd, 0, SEEK_SET), ==, 0);
  send_events (fixture, SONDE_MESSAGE_EVENTS, fd);
}

static void
send_simple (Fixture *fixture, SondeMessageType type)
{
  g_assert_true (sonde_channel_send_simple (fixture->worker.control, type, NULL));
}

/* The test's own process, as the broker would tell of it: unasked over the front. */
static void
send_process (Fixture *fixture, guint64 request_id, int32_t pid)
{
  SondeMessageProcess process = { .header.type = SONDE_MESSAGE_PROCESS,
                                  .request_id = request_id,
                                  .pid = pid,
                                  .start_ticks = 1,
                                  .fds = SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CMDLINE,
                                  .comm = "program" };
  int fds[2] = { open ("/proc/self/maps", O_RDONLY | O_CLOEXEC),
                 open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC) };

  g_assert_true (
      sonde_channel_send (request_id == 0 ? fixture->worker.control : fixture->worker.broker,
                          &process, sizeof process, fds, 2, NULL));
}

/* Nothing is told of the process that was asked for. */
static void
refuse_process (Fixture *fixture, const SondeMessageProcessRequest *request, int status)
{
  SondeMessageProcess process = { .header.type = SONDE_MESSAGE_PROCESS,
                                  .request_id = request->request_id,
                                  .pid = request->pid,
                                  .status = status };

  worker_answer (&fixture->worker, &process, sizeof process, -1);
}

/* Says yes (status 0, with this program) or no to all file requests. */
static guint
answer_files (Fixture *fixture, int status)
{
  guint n_answers = 0;

  for (guint i = 0; i < fixture->worker.received->len; i++)
    {
      SondeMessageFileRequest *request = g_ptr_array_index (fixture->worker.received, i);
      SondeMessageFile answer = { .header.type = SONDE_MESSAGE_FILE };
      int fd;

      if (request->header.type != SONDE_MESSAGE_FILE_REQUEST)
        continue;
      answer.request_id = request->request_id;
      answer.status = status;
      fd = status == 0 ? open ("/proc/self/exe", O_RDONLY | O_CLOEXEC) : -1;
      worker_answer (&fixture->worker, &answer, sizeof answer, fd);
      request->header.type = 0;
      n_answers++;
    }

  return n_answers;
}

/* --- the kernel --- */

static void
write_sample (Fixture *fixture, uint32_t pid, uint64_t ip, int64_t time_ns, uint16_t misc)
{
  struct perf_event_mmap_page *page = (void *) fixture->ring;
  struct perf_event_header header
      = { .type = PERF_RECORD_SAMPLE, .misc = misc, .size = sizeof header + sizeof (SampleBody) };
  SampleBody body = { 77, ip, pid, pid, time_ns, 1, 0, 1000000 };
  guint8 *at = fixture->ring + PAGE + page->data_head;

  memcpy (at, &header, sizeof header);
  memcpy (at + sizeof header, &body, sizeof body);
  __atomic_store_n (&page->data_head, page->data_head + header.size, __ATOMIC_RELEASE);
}

static void
write_fork (Fixture *fixture, uint32_t parent, uint32_t child, int64_t time_ns)
{
  struct perf_event_mmap_page *page = (void *) fixture->ring;
  ForkRecord record = { .header = { .type = PERF_RECORD_FORK, .size = sizeof record },
                        .pid = child,
                        .parent_pid = parent,
                        .tid = child,
                        .parent_tid = parent,
                        .time_ns = time_ns,
                        .id_pid = parent,
                        .id_tid = parent,
                        .id_time_ns = time_ns,
                        .id = 77 };

  memcpy (fixture->ring + PAGE + page->data_head, &record, sizeof record);
  __atomic_store_n (&page->data_head, page->data_head + sizeof record, __ATOMIC_RELEASE);
}

static guint
count_received (Fixture *fixture, uint32_t type)
{
  guint n = 0;

  for (guint i = 0; i < fixture->worker.received->len; i++)
    n += ((const SondeMessageHeader *) g_ptr_array_index (fixture->worker.received, i))->type
         == type;
  return n;
}

static void
start (Fixture *fixture, guint64 n_lost)
{
  send_setup (fixture, SONDE_MESSAGE_VERSION, SAMPLE_TYPE);
  send_ring (fixture);
  fixture->worker.reader = worker_open_stream (&fixture->worker, 3);
  send_event (fixture, n_lost);
  send_simple (fixture, SONDE_MESSAGE_START);
}

/* What its reader got. */
static StreamSummary *
summarize (Fixture *fixture)
{
  worker_run (&fixture->worker);
  g_assert_true (fixture->worker.stream_ended);

  return stream_summary_new (fixture->worker.stream);
}

/* --- cases --- */

static void
refuses_another_version (Fixture *fixture, gconstpointer data)
{
  send_setup (fixture, SONDE_MESSAGE_VERSION + 1, SAMPLE_TYPE);
  worker_wait_end (&fixture->worker);
  g_assert_cmpint (fixture->worker.status, !=, 0);
}

static void
refuses_samples_it_cannot_read (Fixture *fixture, gconstpointer data)
{
  const SondeMessageFailed *failed;

  send_setup (fixture, SONDE_MESSAGE_VERSION, SAMPLE_TYPE | PERF_SAMPLE_RAW);
  failed = worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_assert_cmpint (failed->error, ==, EPROTO);
  worker_wait_end (&fixture->worker);
}

static void
refuses_messages_out_of_order (Fixture *fixture, gconstpointer data)
{
  const SondeMessageFailed *failed;

  send_simple (fixture, SONDE_MESSAGE_START);
  failed = worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_assert_nonnull (strstr (failed->text, "start"));
  worker_wait_end (&fixture->worker);
}

static void
refuses_a_second_setup (Fixture *fixture, gconstpointer data)
{
  send_setup (fixture, SONDE_MESSAGE_VERSION, SAMPLE_TYPE);
  send_setup (fixture, SONDE_MESSAGE_VERSION, SAMPLE_TYPE);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  worker_wait_end (&fixture->worker);
}

static void
refuses_a_setup_without_a_broker (Fixture *fixture, gconstpointer data)
{
  const SondeMessageFailed *failed;

  send_setup (fixture, SONDE_MESSAGE_VERSION, SAMPLE_TYPE);
  failed = worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_assert_nonnull (strstr (failed->text, "setup"));
  worker_wait_end (&fixture->worker);
}

static void
refuses_a_second_broker (Fixture *fixture, gconstpointer data)
{
  SondeChannel *first = fixture->worker.broker;
  const SondeMessageFailed *failed;

  worker_link (&fixture->worker);
  failed = worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_assert_nonnull (strstr (failed->text, "link"));
  worker_wait_end (&fixture->worker);
  sonde_channel_free (first);
}

static void
ends_when_control_goes_before_the_start (Fixture *fixture, gconstpointer data)
{
  g_clear_pointer (&fixture->worker.control, sonde_channel_free);
  worker_wait_end (&fixture->worker);
  g_assert_cmpint (fixture->worker.status, ==, 0);
}

static void
says_hello_first (Fixture *fixture, gconstpointer data)
{
  const SondeMessageHello *hello = worker_wait_for (&fixture->worker, SONDE_MESSAGE_HELLO);

  g_assert_cmpuint (hello->version, ==, SONDE_MESSAGE_VERSION);
  g_assert_true (g_ptr_array_index (fixture->worker.received, 0) == hello);
}

static void
stops_without_a_sample (Fixture *fixture, gconstpointer data)
{
  const SondeMessageSinkClosed *closed;
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_DRAINED);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FINISHED);
  worker_wait_end (&fixture->worker);
  g_assert_cmpint (fixture->worker.status, ==, 0);
  closed = worker_find (&fixture->worker, SONDE_MESSAGE_SINK_CLOSED);
  g_assert_cmpuint (closed->sink_id, ==, 3);
  g_assert_cmpint (closed->reason, ==, 0);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_METADATA], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_CTRDEF], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 0);
}

static void
records_a_sample_of_a_target (Fixture *fixture, gconstpointer data)
{
  uint64_t ip = (uint64_t) (uintptr_t) records_a_sample_of_a_target;
  const SondeMessageStatistics *statistics;
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 4);
  send_process (fixture, 0, 100);
  write_sample (fixture, 100, ip, 5000, PERF_RECORD_MISC_USER);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FILE_REQUEST);
  g_assert_cmpuint (answer_files (fixture, 0), >, 0);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  statistics = worker_wait_for (&fixture->worker, SONDE_MESSAGE_DRAINED);
  g_assert_cmpuint (statistics->values[SONDE_LEDGER_PRODUCED], ==, 5);
  g_assert_cmpuint (statistics->values[SONDE_LEDGER_RECORDED], ==, 1);
  g_assert_cmpuint (statistics->values[SONDE_LEDGER_LOST_KERNEL], ==, 4);
  worker_wait_end (&fixture->worker);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], >, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_FILE_CHUNK], ==, 1);
  g_assert_cmpuint (summary->n_addrs, ==, 2);
  g_assert_cmpuint (summary->addrs[0], ==, SONDE_CONTEXT_USER);
  g_assert_cmpuint (summary->addrs[1], ==, ip);
}

static void
asks_for_an_unknown_process_and_waits (Fixture *fixture, gconstpointer data)
{
  const SondeMessageProcessRequest *request;
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  write_sample (fixture, 200, 0x1000, 5000, PERF_RECORD_MISC_USER);
  write_sample (fixture, 200, 0x1000, 6000, PERF_RECORD_MISC_USER);
  request = worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  g_assert_cmpint (request->pid, ==, 200);
  send_process (fixture, request->request_id, 200);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FILE_REQUEST);
  answer_files (fixture, EACCES);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 2);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], >, 1);
}

/* Each once, however many samples are in it. */
static void
tells_which_files_were_refused (Fixture *fixture, gconstpointer data)
{
  const SondeMessageProcessRequest *request;
  g_autoptr (GPtrArray) logs = NULL;
  guint n_files;

  start (fixture, 0);
  write_sample (fixture, 200, 0x1000, 5000, PERF_RECORD_MISC_USER);
  request = worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  send_process (fixture, request->request_id, 200);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FILE_REQUEST);
  n_files = answer_files (fixture, GPOINTER_TO_INT (data));
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  logs = worker_find_frames (&fixture->worker, SONDE_FRAME_LOG);
  g_assert_cmpuint (logs->len, >, 0);
  g_assert_cmpuint (logs->len, <=, n_files);
  g_assert_true (worker_was_said (&fixture->worker, "Unwind data and names of /"));
  g_assert_true (worker_was_said (&fixture->worker,
                                  GPOINTER_TO_INT (data) == EACCES    ? "none of the file systems"
                                  : GPOINTER_TO_INT (data) == ENOEXEC ? "no program or library"
                                                                      : g_strerror (EIO)));
}

/* A busy broker refuses a thousand at once, and is asked for them again. */
static void
tells_of_no_file_that_is_asked_for_again (Fixture *fixture, gconstpointer data)
{
  const SondeMessageProcessRequest *request;

  start (fixture, 0);
  write_sample (fixture, 200, 0x1000, 5000, PERF_RECORD_MISC_USER);
  request = worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  send_process (fixture, request->request_id, 200);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FILE_REQUEST);
  answer_files (fixture, GPOINTER_TO_INT (data));
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  g_assert_false (worker_was_said (&fixture->worker, "Unwind data and names of"));
}

static void
asks_for_the_parent_of_a_fork (Fixture *fixture, gconstpointer data)
{
  const SondeMessageProcessRequest *request;
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  write_fork (fixture, 200, 201, 4000);
  write_sample (fixture, 201, 0x1000, 5000, PERF_RECORD_MISC_USER);
  request = worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  g_assert_cmpint (request->pid, ==, 200);
  send_process (fixture, request->request_id, 200);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FILE_REQUEST);
  answer_files (fixture, EACCES);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  /* The child has its parent's mappings: nobody had to be asked, and it may be gone. */
  g_assert_cmpuint (count_received (fixture, SONDE_MESSAGE_PROCESS_REQUEST), ==, 1);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], >, 1);
}

/* It was asked while the session ran. */
static void
takes_mounts_that_come_after_the_stop (Fixture *fixture, gconstpointer data)
{
  static const char path[] = "/proc/200/mountinfo";
  SondeMessageDocument document
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = 200 };
  const SondeMessageProcessRequest *request;

  start (fixture, 0);
  write_sample (fixture, 200, 0x1000, 5000, PERF_RECORD_MISC_USER);
  request = worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_run (&fixture->worker);
  send_process (fixture, request->request_id, 200);
  worker_answer (&fixture->worker, &document, sizeof document,
                 open ("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  worker_wait_end (&fixture->worker);
  worker_run (&fixture->worker);
  g_assert_nonnull (
      memmem (fixture->worker.stream->data, fixture->worker.stream->len, path, sizeof path));
}

static void
says_that_mounts_are_cut (Fixture *fixture, gconstpointer data)
{
  static const char said[] = "Of /proc/200/mountinfo the capture has the first 256 KiB only";
  SondeMessageDocument document
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = 200 };
  int whole = memfd_create ("mountinfo", MFD_CLOEXEC);
  int longer = memfd_create ("mountinfo", MFD_CLOEXEC);
  const GByteArray *stream = fixture->worker.stream;

  g_assert_cmpint (ftruncate (whole, 256 * 1024), ==, 0);
  g_assert_cmpint (ftruncate (longer, 256 * 1024 + 1), ==, 0);
  start (fixture, 0);
  worker_send (&fixture->worker, &document, sizeof document, whole);
  worker_run (&fixture->worker);
  g_assert_null (memmem (stream->data, stream->len, said, sizeof said));
  worker_send (&fixture->worker, &document, sizeof document, longer);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  worker_run (&fixture->worker);
  g_assert_nonnull (memmem (stream->data, stream->len, said, sizeof said));
}

static void
goes_on_when_no_answer_comes (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  write_sample (fixture, 300, 0x1000, 5000, PERF_RECORD_MISC_USER);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  /* It says so. */
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
}

/* With the link what waits goes on, and nothing waits any more. */
static void
goes_on_without_its_broker (Fixture *fixture, gconstpointer data)
{
  SondeWorkerSession *session = fixture->worker.session;
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  write_sample (fixture, 300, 0x1000, 5000, PERF_RECORD_MISC_USER);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  g_clear_pointer (&fixture->worker.broker, sonde_channel_free);
  while (session->link != NULL)
    worker_run (&fixture->worker);
  /* At the time 0 no request would be too old to be waited for. */
  g_assert_true (sonde_tracker_is_known (session->tracker,
                                         sonde_tracker_process (session->tracker, 300, 5000), 0));
  worker_wait_count (&fixture->worker, SONDE_LEDGER_RECORDED, 1);
  write_sample (fixture, 301, 0x1000, 6000, PERF_RECORD_MISC_USER);
  write_sample (fixture, 302, 0x1000, 7000, PERF_RECORD_MISC_USER);
  worker_wait_count (&fixture->worker, SONDE_LEDGER_RECORDED, 3);
  g_assert_cmpuint (count_received (fixture, SONDE_MESSAGE_PROCESS_REQUEST), ==, 1);
  summary = worker_finish (&fixture->worker);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 3);
  g_assert_true (worker_was_said (&fixture->worker, "Nobody tells of processes and files"));
}

static void
says_that_its_broker_was_gone_before (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  g_clear_pointer (&fixture->worker.broker, sonde_channel_free);
  worker_run (&fixture->worker);
  start (fixture, 0);
  write_sample (fixture, 300, 0x1000, 5000, PERF_RECORD_MISC_USER);
  worker_wait_count (&fixture->worker, SONDE_LEDGER_RECORDED, 1);
  summary = worker_finish (&fixture->worker);
  g_assert_true (worker_was_said (&fixture->worker, "Nobody tells of processes and files"));
}

/* What a broker may not say ends the link alone. */
static void
drops_a_broker_that_says_anything (Fixture *fixture, gconstpointer data)
{
  SondeMessageHeader stop = { .type = SONDE_MESSAGE_STOP };
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  worker_run (&fixture->worker);
  worker_answer (&fixture->worker, &stop, sizeof stop, -1);
  worker_run (&fixture->worker);
  g_assert_null (worker_find (&fixture->worker, SONDE_MESSAGE_DRAINED));
  summary = worker_finish (&fixture->worker);
  g_assert_true (worker_was_said (&fixture->worker, "Nobody tells of processes and files"));
}

static void
asks_again_for_a_process_that_was_stuck (Fixture *fixture, gconstpointer data)
{
  const SondeMessageProcessRequest *request;
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  write_sample (fixture, 200, 0x1000, 5000, PERF_RECORD_MISC_USER);
  request = worker_wait_for (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  refuse_process (fixture, request, ETIMEDOUT);
  worker_wait_count (&fixture->worker, SONDE_STATISTIC_TARGET_STUCK, 1);
  g_ptr_array_set_size (fixture->worker.received, 0);
  for (int64_t time_ns = 6000;
       worker_find (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST) == NULL; time_ns += 1000)
    {
      write_sample (fixture, 200, 0x1000, time_ns, PERF_RECORD_MISC_USER);
      worker_run (&fixture->worker);
      g_usleep (20000);
    }
  request = worker_find (&fixture->worker, SONDE_MESSAGE_PROCESS_REQUEST);
  send_process (fixture, request->request_id, 200);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FILE_REQUEST);
  answer_files (fixture, ETIMEDOUT);
  summary = worker_finish (&fixture->worker);
  g_assert_cmpuint (worker_count (&fixture->worker, SONDE_STATISTIC_TARGET_STUCK), >, 1);
  /* Without a name at first. */
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 2);
  g_assert_true (worker_was_said (&fixture->worker, "had no answer from the kernel in time"));
}

static void
hides_kernel_addresses (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  write_sample (fixture, 0, 0xffffffff81000000, 5000, PERF_RECORD_MISC_KERNEL);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  worker_wait_end (&fixture->worker);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (summary->n_addrs, ==, 2);
  g_assert_cmpuint (summary->addrs[0], ==, SONDE_CONTEXT_KERNEL);
  g_assert_cmpstr (summary->last_name, ==, "[kernel]");
}

static void
tells_all_when_told_to_report (Fixture *fixture, gconstpointer data)
{
  const SondeMessageSinks *sinks;

  start (fixture, 0);
  worker_run (&fixture->worker);
  g_ptr_array_set_size (fixture->worker.received, 0);
  send_simple (fixture, SONDE_MESSAGE_REPORT);
  sinks = worker_wait_for (&fixture->worker, SONDE_MESSAGE_SINKS);
  g_assert_cmpuint (sinks->n_sinks, ==, 1);
  g_assert_cmpuint (sinks->sink_ids[0], ==, 3);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_STATISTICS);
}

static void
finishes_the_capture_when_control_goes (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  start (fixture, 0);
  send_simple (fixture, SONDE_MESSAGE_REPORT);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_STATISTICS);
  write_sample (fixture, 0, 0xffffffff81000000, 5000, PERF_RECORD_MISC_KERNEL);
  g_clear_pointer (&fixture->worker.control, sonde_channel_free);
  worker_wait_end (&fixture->worker);
  g_assert_cmpint (fixture->worker.status, ==, 0);
  summary = summarize (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
}

static void
says_its_last_word_until_it_is_heard (Fixture *fixture, gconstpointer data)
{
  const SondeMessageFailed *failed;

  fixture->worker.is_busy = TRUE;
  send_setup (fixture, SONDE_MESSAGE_VERSION, PERF_SAMPLE_RAW);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_ptr_array_set_size (fixture->worker.received, 0);
  send_simple (fixture, SONDE_MESSAGE_REPORT);
  failed = worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_assert_cmpint (failed->error, ==, EPROTO);
  g_assert_nonnull (strstr (failed->text, "cannot read"));
  g_assert_cmpint (fixture->worker.status, ==, -1);
  send_simple (fixture, SONDE_MESSAGE_LEAVE);
  worker_wait_end (&fixture->worker);
}

static void
does_not_wait_for_a_front_that_is_gone (Fixture *fixture, gconstpointer data)
{
  fixture->worker.is_busy = TRUE;
  send_setup (fixture, SONDE_MESSAGE_VERSION, PERF_SAMPLE_RAW);
  worker_wait_for (&fixture->worker, SONDE_MESSAGE_FAILED);
  g_clear_pointer (&fixture->worker.control, sonde_channel_free);
  worker_wait_end (&fixture->worker);
  g_assert_cmpint (fixture->worker.status, !=, 0);
}

static void
counts_a_malformed_sample_as_lost (Fixture *fixture, gconstpointer data)
{
  const SondeMessageStatistics *statistics;
  struct perf_event_mmap_page *page;
  struct perf_event_header *header;

  start (fixture, 0);
  page = (void *) fixture->ring;
  header = (void *) (fixture->ring + PAGE);
  *header = (struct perf_event_header){ .type = PERF_RECORD_SAMPLE, .size = 16 };
  __atomic_store_n (&page->data_head, 16, __ATOMIC_RELEASE);
  send_simple (fixture, SONDE_MESSAGE_STOP);
  statistics = worker_wait_for (&fixture->worker, SONDE_MESSAGE_DRAINED);
  g_assert_cmpuint (statistics->values[SONDE_LEDGER_PRODUCED], ==, 1);
  g_assert_cmpuint (statistics->values[SONDE_LEDGER_LOST_RING], ==, 1);
  worker_wait_end (&fixture->worker);
}

#define ADD(name, function)                                                                        \
  g_test_add ("/worker-session/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-another-version", refuses_another_version);
  ADD ("refuses-samples-it-cannot-read", refuses_samples_it_cannot_read);
  ADD ("refuses-messages-out-of-order", refuses_messages_out_of_order);
  ADD ("refuses-a-second-setup", refuses_a_second_setup);
  g_test_add ("/worker-session/refuses-a-setup-without-a-broker", Fixture, NULL,
              set_up_without_broker, refuses_a_setup_without_a_broker, tear_down);
  ADD ("refuses-a-second-broker", refuses_a_second_broker);
  ADD ("ends-when-control-goes-before-the-start", ends_when_control_goes_before_the_start);
  ADD ("says-hello-first", says_hello_first);
  ADD ("stops-without-a-sample", stops_without_a_sample);
  ADD ("counts-a-malformed-sample-as-lost", counts_a_malformed_sample_as_lost);
  ADD ("records-a-sample-of-a-target", records_a_sample_of_a_target);
  ADD ("asks-for-an-unknown-process-and-waits", asks_for_an_unknown_process_and_waits);
#define ADD_REFUSAL(path, status, test)                                                            \
  g_test_add ("/worker-session/" path, Fixture, GINT_TO_POINTER (status), set_up, test, tear_down)
  ADD_REFUSAL ("tells-of-a-file-system-that-is-not-opened", EACCES, tells_which_files_were_refused);
  ADD_REFUSAL ("tells-of-a-file-that-is-no-program", ENOEXEC, tells_which_files_were_refused);
  ADD_REFUSAL ("tells-of-a-file-that-cannot-be-read", EIO, tells_which_files_were_refused);
  ADD_REFUSAL ("tells-nothing-of-a-busy-broker", EAGAIN, tells_of_no_file_that_is_asked_for_again);
  ADD_REFUSAL ("tells-nothing-of-a-stuck-broker", ETIMEDOUT,
               tells_of_no_file_that_is_asked_for_again);
  ADD ("asks-for-the-parent-of-a-fork", asks_for_the_parent_of_a_fork);
  ADD ("takes-mounts-that-come-after-the-stop", takes_mounts_that_come_after_the_stop);
  ADD ("says-that-mounts-are-cut", says_that_mounts_are_cut);
  ADD ("goes-on-when-no-answer-comes", goes_on_when_no_answer_comes);
  ADD ("goes-on-without-its-broker", goes_on_without_its_broker);
  ADD ("says-that-its-broker-was-gone-before", says_that_its_broker_was_gone_before);
  ADD ("drops-a-broker-that-says-anything", drops_a_broker_that_says_anything);
  ADD ("asks-again-for-a-process-that-was-stuck", asks_again_for_a_process_that_was_stuck);
  ADD ("hides-kernel-addresses", hides_kernel_addresses);
  ADD ("tells-all-when-told-to-report", tells_all_when_told_to_report);
  ADD ("says-its-last-word-until-it-is-heard", says_its_last_word_until_it_is_heard);
  ADD ("does-not-wait-for-a-front-that-is-gone", does_not_wait_for_a_front_that_is_gone);
  ADD ("finishes-the-capture-when-control-goes", finishes_the_capture_when_control_goes);
  return g_test_run ();
}
