/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker whose front, whose broker and whose profiled programs are played by a test. */
#pragma once

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/channel.h"
#include "daemon/base/socket.h"
#include "daemon/capture/worker/worker-session.h"
#include "shared-ring/control-message.h"
#include "shared-ring/ring-writer.h"
#include "tests/lib/stream-summary.h"

/* Only so that a hang ends. */
#define WORKER_DEADLINE_S 300

#define WORKER_TURNS      100

/* What frames claim; rings have the pid of the test. */
#define PROGRAM_FALSE_PID 12345

typedef struct
{
  SondeWorkerSession *session;
  SondeChannel *control; /* the front's end */
  gboolean is_busy;      /* the front does not say that it has heard the last word */
  SondeChannel *broker;  /* the broker's end of the link; NULL without one */
  int status;            /* of the worker; -1: it runs */
  int reader;
  GByteArray *stream;
  gboolean stream_ended;
  GPtrArray *received;   /* copies of messages, to the front and to the broker */
  int socket;            /* the programs' end of the control socket; -1 once it is closed */
  guint32 memory_detail; /* SondeMemoryDetail, of what is begun next; as are those below */
  guint32 trace;         /* SondeTrieMode */
  guint32 trace_budget;
  guint64 trace_memory_bytes;
  guint64 trace_slow_us;
  const char *trace_filter; /* NULL: none */
} Worker;

static inline void
worker_on_message (SondeChannel *channel,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  Worker *self = user_data;

  g_ptr_array_add (self->received, g_memdup2 (message, message->size));
  if (!self->is_busy
      && (message->type == SONDE_MESSAGE_FINISHED || message->type == SONDE_MESSAGE_FAILED))
    sonde_channel_send_simple (channel, SONDE_MESSAGE_LEAVE, NULL);
}

static inline void
worker_on_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
}

static inline void
worker_on_done (int status, gpointer user_data)
{
  ((Worker *) user_data)->status = status;
}

/* What is ready now, and the stream. A ring that a test plays is always ready. */
static inline void
worker_run (Worker *self)
{
  for (guint i = 0; i < WORKER_TURNS && g_main_context_iteration (NULL, FALSE); i++)
    ;
  if (self->reader >= 0 && !self->stream_ended)
    self->stream_ended = stream_receive (self->reader, self->stream);
}

/* Of the worker's last STATISTICS, DRAINED or FINISHED. */
static inline guint64
worker_count (const Worker *self, guint statistic)
{
  for (guint i = self->received->len; i > 0; i--)
    {
      const SondeMessageStatistics *message = g_ptr_array_index (self->received, i - 1);

      if (message->header.type == SONDE_MESSAGE_STATISTICS
          || message->header.type == SONDE_MESSAGE_DRAINED
          || message->header.type == SONDE_MESSAGE_FINISHED)
        return message->values[statistic];
    }
  return 0;
}

static inline void
worker_wait_count (Worker *self, guint statistic, guint64 n)
{
  gint64 end_us = g_get_monotonic_time () + WORKER_DEADLINE_S * G_USEC_PER_SEC;

  while (worker_count (self, statistic) != n)
    {
      if (g_get_monotonic_time () > end_us)
        g_error ("statistic %u is %" G_GUINT64_FORMAT ", not %" G_GUINT64_FORMAT, statistic,
                 worker_count (self, statistic), n);
      worker_run (self);
      g_usleep (500);
    }
}

static inline const void *
worker_find (const Worker *self, SondeMessageType type)
{
  for (guint i = self->received->len; i > 0; i--)
    {
      const SondeMessageHeader *message = g_ptr_array_index (self->received, i - 1);

      if (message->type == type)
        return message;
    }
  return NULL;
}

/* The last of this type, once there is one. */
static inline const void *
worker_wait_for (Worker *self, SondeMessageType type)
{
  const void *message;

  while ((message = worker_find (self, type)) == NULL)
    worker_run (self);
  return message;
}

static inline void
worker_wait_end (Worker *self)
{
  while (self->status < 0)
    worker_run (self);
}

static inline void
worker_send (Worker *self, gpointer message, gsize size_bytes, int fd)
{
  g_assert_true (
      sonde_channel_send (self->control, message, size_bytes, &fd, fd >= 0 ? 1 : 0, NULL));
}

/* As the broker does over the link. */
static inline void
worker_answer (Worker *self, gpointer message, gsize size_bytes, int fd)
{
  g_assert_true (
      sonde_channel_send (self->broker, message, size_bytes, &fd, fd >= 0 ? 1 : 0, NULL));
}

/* Another control socket. Returns: the programs' end */
static inline int
worker_open_control (Worker *self)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_CONTROL };
  const int on = 1;
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  g_assert_cmpint (setsockopt (fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), ==, 0);
  worker_send (self, &message, sizeof message, fds[1]);
  return fds[0];
}

/* Returns: the reader's end */
static inline int
worker_open_stream (Worker *self, guint32 sink_id)
{
  SondeMessageSink message = { .header.type = SONDE_MESSAGE_SINK,
                               .sink_id = sink_id,
                               .kind = SONDE_SINK_STREAM,
                               .buffer_size_bytes = 8 << 20,
                               .frames = SONDE_SINK_FRAMES_ALL };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  worker_send (self, &message, sizeof message, fds[1]);
  return fds[0];
}

static inline const SondeChannelHandler *
worker_handler (void)
{
  static const SondeChannelHandler handler
      = { .message = worker_on_message, .closed = worker_on_closed };

  return &handler;
}

/* One that was told nothing yet. */
static inline void
worker_open (Worker *self)
{
  int fds[2];

  self->status = self->reader = self->socket = -1;
  self->stream = g_byte_array_new ();
  self->received = g_ptr_array_new_with_free_func (g_free);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
  self->broker = NULL;
  self->control = sonde_channel_new (fds[0], SONDE_WAY_WORKER_TO_FRONT, worker_handler (), self);
  self->session = sonde_worker_session_new (fds[1], worker_on_done, self);
}

/* Gives it a broker, which comes first. */
static inline void
worker_link (Worker *self)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_LINK };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
  self->broker = sonde_channel_new (fds[0], SONDE_WAY_WORKER_TO_BROKER, worker_handler (), self);
  worker_send (self, &message, sizeof message, fds[1]);
}

/* One without perf rings, that runs. */
static inline void
worker_init_for (Worker *self, guint32 owner_uid, SondeMemoryMode memory, guint32 wait_us)
{
  SondeMessageSetup setup = {
    .header.type = SONDE_MESSAGE_SETUP,
    .version = SONDE_MESSAGE_VERSION,
    .session_id = 1,
    .asked.scope = SONDE_SCOPE_LAUNCH,
    .asked.unwind = SONDE_UNWIND_NONE,
    .asked.max_depth = 16,
    .asked.frequency_hz = 1000,
    .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
    .start_ns = g_get_monotonic_time () * 1000,
    .asked.memory = memory,
    .asked.memory_detail = self->memory_detail,
    .asked.memory_interval_bytes = 4096,
    .asked.memory_wait_us = wait_us,
    .asked.trace = self->trace,
    .asked.trace_depth = SONDE_TRIE_MAX_DEPTH,
    .asked.trace_memory_bytes = self->trace_memory_bytes,
    .asked.trace_slow_us = self->trace_slow_us,
    .asked.trace_budget = self->trace_budget,
    .owner_uid = owner_uid,
    .event = "none",
    .sonde_version = "0",
  };

  if (self->trace_filter != NULL)
    g_strlcpy (setup.asked.trace_filter, self->trace_filter, sizeof setup.asked.trace_filter);
  worker_open (self);
  worker_link (self);
  worker_send (self, &setup, sizeof setup, -1);
  self->reader = worker_open_stream (self, 1);
  sonde_channel_send_simple (self->control, SONDE_MESSAGE_START, NULL);
  self->socket = worker_open_control (self);
  worker_run (self);
}

/* A session of root's. */
static inline void
worker_init (Worker *self, SondeMemoryMode memory, guint32 wait_us)
{
  worker_init_for (self, 0, memory, wait_us);
}

static inline void
worker_clear (Worker *self)
{
  sonde_worker_session_free (self->session);
  sonde_channel_free (self->control);
  sonde_channel_free (self->broker);
  sonde_clear_fd (&self->reader);
  sonde_clear_fd (&self->socket);
  g_byte_array_unref (self->stream);
  g_ptr_array_unref (self->received);
}

/* --- a program --- */

/* Waits for an answer of @size_bytes while the worker works. Returns the descriptor that came with
 * it, -1 without one, -2 at the end of file. */
static inline int
program_receive (Worker *self, int fd, gpointer bytes, gsize size_bytes)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control;
  struct iovec iov = { bytes, size_bytes };
  struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const struct cmsghdr *header;
  int received = -1;
  gssize n;

  while ((n = recvmsg (fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && errno == EAGAIN)
    worker_run (self);
  if (n <= 0)
    return -2;
  g_assert_cmpint (n, ==, (gssize) size_bytes);
  header = CMSG_FIRSTHDR (&message);
  if (header != NULL)
    memcpy (&received, CMSG_DATA (header), sizeof received);
  return received;
}

static inline int
program_open_link (Worker *self)
{
  static const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  SondeControlHeader answer;
  int link;

  g_assert_cmpint (send (self->socket, &request, sizeof request, 0), ==, sizeof request);
  link = program_receive (self, self->socket, &answer, sizeof answer);
  g_assert_cmpmem (&answer, sizeof answer, &request, sizeof request);
  return link;
}

/* Returns: the ring or -1; @answer: (out): */
static inline int
program_ask_ring_of (Worker *self,
                     int link,
                     SondeProducer producer,
                     gint32 tid,
                     guint32 size_bytes,
                     SondeControlRingAnswer *answer)
{
  SondeControlRingRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_RING },
          .producer = producer,
          .tid = tid,
          .size_bytes = size_bytes,
          .number = 42 };
  int ring;

  g_assert_cmpint (send (link, &request, sizeof request, 0), ==, sizeof request);
  ring = program_receive (self, link, answer, sizeof *answer);
  g_assert_cmpuint (answer->number, ==, 42);
  g_assert_cmpint (answer->error == 0, ==, ring >= 0);
  return ring;
}

static inline int
program_ask_ring (Worker *self,
                  int link,
                  SondeProducer producer,
                  guint32 size_bytes,
                  SondeControlRingAnswer *answer)
{
  return program_ask_ring_of (self, link, producer, 7, size_bytes, answer);
}

/* One of that number, which continues another one; @continues: 0: a first one, of an application */
static inline int
program_ask_ring_as (
    Worker *self, int link, guint32 number, guint32 continues, SondeControlRingAnswer *answer)
{
  const SondeControlRingRequest first
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_RING },
          .producer = SONDE_PRODUCER_APPLICATION,
          .tid = 7,
          .number = number };
  const SondeControlGrowRequest larger
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_GROW },
          .continues = continues,
          .size_bytes = SONDE_RING_MAX_BYTES,
          .number = number };
  int ring;

  G_STATIC_ASSERT (sizeof first == sizeof larger);
  g_assert_cmpint (send (link, continues == 0 ? (gconstpointer) &first : &larger, sizeof first, 0),
                   ==, sizeof first);
  ring = program_receive (self, link, answer, sizeof *answer);
  g_assert_cmpuint (answer->number, ==, number);
  g_assert_cmpint (answer->error == 0, ==, ring >= 0);
  return ring;
}

/* One for all threads of the program. */
static inline int
program_ask_shared_ring (Worker *self, int link, SondeControlRingAnswer *answer)
{
  return program_ask_ring_of (self, link, SONDE_PRODUCER_APPLICATION, 0, 0, answer);
}

/* A ring of an application, to be closed with program_close(). */
typedef struct
{
  int link; /* -1: in the old way */
  SondeRingMemory memory;
  SondeRingWriter *writer;
} Program;

static inline void
program_map (Program *program, int ring)
{
  g_assert_cmpint (ring, >=, 0);
  g_assert_cmpint (sonde_ring_memory_map (ring, &program->memory), ==, 0);
  g_assert_cmpint (sonde_ring_writer_new (&program->memory, program->link, &program->writer), ==,
                   0);
  close (ring);
}

static inline Program
program_open (Worker *self)
{
  Program program = { .link = program_open_link (self) };
  SondeControlRingAnswer answer;

  program_map (&program,
               program_ask_ring (self, program.link, SONDE_PRODUCER_APPLICATION, 0, &answer));
  return program;
}

/* One of a heap collector, for a worker that wants heap events. */
static inline Program
program_open_memory (Worker *self)
{
  Program program = { .link = program_open_link (self) };
  SondeControlRingAnswer answer;

  program_map (&program, program_ask_ring (self, program.link, SONDE_PRODUCER_MEMORY, 0, &answer));
  return program;
}

static inline Program
program_open_sysprof (Worker *self)
{
  Program program = { .link = -1 };
  char answer;

  g_assert_cmpint (
      send (self->socket, SONDE_CONTROL_SYSPROF_REQUEST, SONDE_CONTROL_SYSPROF_REQUEST_BYTES, 0),
      ==, SONDE_CONTROL_SYSPROF_REQUEST_BYTES);
  program_map (&program, program_receive (self, self->socket, &answer, 1));
  return program;
}

/* @has_ended: with an end frame; else as the kernel does it, of a program that was killed */
static inline void
program_close (Program *program, gboolean has_ended)
{
  if (has_ended)
    sonde_ring_writer_close (program->writer);
  sonde_ring_memory_unmap (&program->memory);
  sonde_clear_fd (&program->link);
}

/* Until the worker has read the whole ring. */
static inline void
worker_wait_drained (Worker *self, const Program *program)
{
  const SondeRingHeader *header = program->memory.header;

  while (header->head != header->tail)
    {
      worker_run (self);
      g_usleep (500);
    }
}

/* Ends a frame that sonde_writer_add_*() built. */
static inline int
program_commit (Program *program, int result)
{
  if (result == 0)
    sonde_ring_writer_commit (program->writer);
  return result;
}

static inline int
program_mark (Program *program, const char *name)
{
  SondeFrameOrigin origin = { g_get_monotonic_time () * 1000, 0, getpid () };

  return program_commit (program, sonde_writer_add_mark (sonde_ring_writer_frames (program->writer),
                                                         &origin, 1, "group", name, "message"));
}

/* A block of 24 bytes, in short; stacks differ in their first address. */
static inline void
program_allocate_short (Program *program, uint64_t address, const uint64_t *addrs, gsize n_addrs)
{
  const SondeCompactEvent event
      = { address, 24, g_get_monotonic_time () * 1000, n_addrs > 0 ? addrs[0] : 0, 7 };
  SondeCompactWriter *compact = sonde_ring_writer_compact (program->writer);
  gpointer place;

  g_assert_nonnull (compact);
  g_assert_cmpint (
      sonde_ring_writer_reserve (program->writer, SONDE_HEAP_BLOCK_ROOM (n_addrs), &place), ==, 0);
  if (n_addrs > 0)
    memcpy ((guint8 *) place + SONDE_COMPACT_ADDRS_AT, addrs, n_addrs * sizeof *addrs);
  sonde_ring_writer_commit_records (program->writer,
                                    sonde_compact_writer_block (compact, place, &event, n_addrs));
}

/* The frames of one type in the stream, copies. */
static inline GPtrArray *
worker_find_frames (const Worker *worker, guint8 type)
{
  GPtrArray *found = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GByteArray) copy = g_byte_array_new ();
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  g_byte_array_append (copy, worker->stream->data, worker->stream->len);
  g_assert_cmpint (sonde_reader_new (stream_source, copy, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    if (frame->type == type)
      g_ptr_array_add (found, g_memdup2 (frame, frame->len));
  sonde_reader_free (reader);

  return found;
}

/* A copy of the whole stream is needed, since reading it empties it. */
static inline StreamSummary *
worker_finish (Worker *worker)
{
  StreamSummary *summary;
  GByteArray *kept;

  sonde_channel_send_simple (worker->control, SONDE_MESSAGE_STOP, NULL);
  while (worker->status < 0 || !worker->stream_ended)
    worker_run (worker);
  g_assert_cmpint (worker->status, ==, 0);
  kept = g_byte_array_sized_new (worker->stream->len);
  g_byte_array_append (kept, worker->stream->data, worker->stream->len);
  summary = stream_summary_new (worker->stream);
  g_byte_array_unref (worker->stream);
  worker->stream = kept;

  return summary;
}

/* Whether a LOG frame of ours has these words. */
static inline gboolean
worker_was_said (const Worker *worker, const char *words)
{
  g_autoptr (GPtrArray) logs = worker_find_frames (worker, SONDE_FRAME_LOG);

  for (guint i = 0; i < logs->len; i++)
    {
      const SondeFrameLog *log = g_ptr_array_index (logs, i);

      if (strcmp (log->domain, "sonde") == 0 && strstr (log->message, words) != NULL)
        return TRUE;
    }
  return FALSE;
}

static inline SondeFrameOrigin
program_origin (gint64 time_ns)
{
  return (SondeFrameOrigin){ .time_ns = time_ns, .cpu = 0, .pid = PROGRAM_FALSE_PID };
}

static inline gint64
program_now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static inline void
program_define_counter (Program *program, guint32 id, const char *category, const char *name)
{
  SondeFrameOrigin origin = program_origin (program_now_ns ());
  const SondeCounter counter
      = { .category = category, .name = name, .description = "text", .id = id };

  g_assert_cmpint (program_commit (program, sonde_writer_add_counter_define (
                                                sonde_ring_writer_frames (program->writer), &origin,
                                                &counter, 1)),
                   ==, 0);
}

static inline void
program_set_counter (Program *program, guint32 id, gint64 value)
{
  SondeFrameOrigin origin = program_origin (program_now_ns ());
  const SondeCounterValue values = { .v64 = value };

  g_assert_cmpint (program_commit (program, sonde_writer_add_counter_set (
                                                sonde_ring_writer_frames (program->writer), &origin,
                                                &id, &values, 1)),
                   ==, 0);
}

static inline void
program_name_address (Program *program, guint64 address, const char *name)
{
  SondeFrameOrigin origin = program_origin (program_now_ns ());
  const SondeJitName jit_name = { address, name };

  g_assert_cmpint (
      program_commit (program, sonde_writer_add_jitmap (sonde_ring_writer_frames (program->writer),
                                                        &origin, &jit_name, 1)),
      ==, 0);
}

static inline void
program_allocate (Program *program, const uint64_t *addrs, guint n_addrs)
{
  SondeFrameOrigin origin = program_origin (program_now_ns ());

  g_assert_cmpint (program_commit (program, sonde_writer_add_allocation (
                                                sonde_ring_writer_frames (program->writer), &origin,
                                                7, 0x5000, 64, addrs, n_addrs)),
                   ==, 0);
}

static inline void
program_take_sample (Program *program, const uint64_t *addrs, guint n_addrs)
{
  SondeFrameOrigin origin = program_origin (program_now_ns ());

  g_assert_cmpint (
      program_commit (program, sonde_writer_add_sample (sonde_ring_writer_frames (program->writer),
                                                        &origin, 7, addrs, n_addrs)),
      ==, 0);
}

static inline void
program_log_line (Program *program, const char *domain)
{
  SondeFrameOrigin origin = program_origin (program_now_ns ());

  g_assert_cmpint (
      program_commit (program, sonde_writer_add_log (sonde_ring_writer_frames (program->writer),
                                                     &origin, 64, domain, "a line")),
      ==, 0);
}
