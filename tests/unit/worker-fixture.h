/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker without perf rings, whose control and whose profiled programs are played by a test. */
#pragma once

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/channel.h"
#include "daemon/base/fd.h"
#include "daemon/capture/pipeline.h"
#include "shared-ring/control-message.h"
#include "shared-ring/ring-writer.h"
#include "tests/lib/stream-summary.h"

typedef struct
{
  SondePipeline *pipeline;
  SondeChannel *control;
  int status; /* of the worker; -1: it runs */
  int reader;
  GByteArray *stream;
  gboolean stream_ended;
  GPtrArray *received; /* copies of messages */
  int socket;          /* the programs' end of the control socket; -1 once it is closed */
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
  if (message->type == SONDE_MESSAGE_FINISHED || message->type == SONDE_MESSAGE_FAILED)
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

/* What is ready now, and the stream. */
static inline void
worker_run (Worker *self)
{
  while (g_main_context_iteration (NULL, FALSE))
    ;
  if (self->reader >= 0 && !self->stream_ended)
    self->stream_ended = stream_receive (self->reader, self->stream);
}

static inline void
worker_wait_until_ns (Worker *self, gint64 until_us)
{
  while (g_get_monotonic_time () < until_us)
    {
      worker_run (self);
      g_usleep (500);
    }
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
  while (worker_count (self, statistic) != n)
    {
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

static inline void
worker_send (Worker *self, gpointer message, gsize size_bytes, int fd)
{
  g_assert_true (
      sonde_channel_send (self->control, message, size_bytes, &fd, fd >= 0 ? 1 : 0, NULL));
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

static inline void
worker_init (Worker *self, SondeMemoryMode memory, guint32 wait_us)
{
  static const SondeChannelHandler handler = { worker_on_message, worker_on_closed };
  SondeMessageSetup setup = {
    .header.type = SONDE_MESSAGE_SETUP,
    .version = SONDE_MESSAGE_VERSION,
    .session_id = 1,
    .unwind = SONDE_UNWIND_NONE,
    .max_depth = 16,
    .frequency_hz = 1000,
    .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
    .start_ns = g_get_monotonic_time () * 1000,
    .memory = memory,
    .memory_interval_bytes = 4096,
    .memory_wait_us = wait_us,
    .event = "none",
    .scope = "launch",
    .sonde_version = "0",
  };
  int fds[2];

  self->status = -1;
  self->stream = g_byte_array_new ();
  self->received = g_ptr_array_new_with_free_func (g_free);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
  self->control = sonde_channel_new (fds[0], TRUE, &handler, self);
  self->pipeline = sonde_pipeline_new (fds[1], worker_on_done, self);
  worker_send (self, &setup, sizeof setup, -1);
  self->reader = worker_open_stream (self, 1);
  sonde_channel_send_simple (self->control, SONDE_MESSAGE_START, NULL);
  self->socket = worker_open_control (self);
  worker_run (self);
}

/* Stops it, and reads the stream to its end. */
static inline StreamSummary *
worker_finish (Worker *self)
{
  sonde_channel_send_simple (self->control, SONDE_MESSAGE_STOP, NULL);
  while (self->status < 0 || !self->stream_ended)
    worker_run (self);
  g_assert_cmpint (self->status, ==, 0);
  return stream_summary_new (self->stream);
}

static inline void
worker_clear (Worker *self)
{
  sonde_pipeline_free (self->pipeline);
  sonde_channel_free (self->control);
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
program_ask_ring (Worker *self,
                  int link,
                  SondeProducer producer,
                  guint32 size_bytes,
                  SondeControlRingAnswer *answer)
{
  SondeControlRingRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_RING },
          .producer = producer,
          .tid = 7,
          .size_bytes = size_bytes,
          .number = 42 };
  int ring;

  g_assert_cmpint (send (link, &request, sizeof request, 0), ==, sizeof request);
  ring = program_receive (self, link, answer, sizeof *answer);
  g_assert_cmpuint (answer->number, ==, 42);
  g_assert_cmpint (answer->error == 0, ==, ring >= 0);
  return ring;
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
