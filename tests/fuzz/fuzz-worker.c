/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker whose front and broker say anything at any time, over rings and files with foreign
 * bytes. What it writes is a capture all the same. */
#include <errno.h>
#include <gio/gio.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "daemon/capture/worker/worker-session.h"
#include "daemon/capture/perf/rings.h"
#include "protocol/reader.h"
#include "shared-ring/ring-layout.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/packet.h"
#include "tests/lib/packet-socket.h"

#define MAX_PACKETS      64
#define MAX_TURNS        256 /* of the main loop after each packet */
#define MAX_STREAM_BYTES (8u << 20)
#define WAIT             0   /* as type of a packet: the loop's timers come */
#define PROGRAMS         200 /* as type of a packet: a program does something */

/* The low bits of a packet's kind of descriptors. */
enum
{
  FD_FILE,   /* u16 n and n bytes */
  FD_RING,   /* the same, as records at the beginning of a ring */
  FD_STREAM, /* a socket whose other end is read */
  FD_LEFT,   /* a socket whose other end is closed */
  N_FD_KINDS,
  FD_CONTROL, /* of a control socket, whose other end is the programs' */
  FD_LINK,    /* of the link, whose other end is the broker's */
};

/* What a program does: the kind of descriptors of a packet PROGRAMS. */
enum
{
  SAY_CONTROL, /* the bytes are sent on the control socket */
  SAY_LINK,    /* on the last link that was made */
  SAY_RING,  /* a position, a number of frames, and what stands at the beginning of the last ring */
  SAY_LEAVE, /* closes all */
  SAY_BROKER_LEAVES,
  N_SAYINGS,
};

typedef struct
{
  SondeWorkerSession *session;
  int control; /* the front's end */
  int broker;  /* the broker's end of the last link; -1 */
  int reader;  /* of the first stream; -1 */
  GByteArray *stream;
  gboolean is_done;
  int program; /* the programs' end of the last control socket; -1 */
  int link;    /* the last one; -1 */
  int ring;    /* the same */
} Worker;

static void
on_done (int status, gpointer user_data)
{
  Worker *worker = user_data;

  if (worker->is_done)
    abort ();
  worker->is_done = TRUE;
}

/* --- descriptors --- */

/* @at: where the bytes go, in a file that is larger if @size_bytes says so */
static int
make_file (Input *input, off_t at, off_t size_bytes)
{
  int fd = memfd_create ("file", MFD_CLOEXEC);
  size_t asked = input_take_u16 (input);
  size_t n = MIN (asked, input->left);
  g_autofree uint8_t *bytes = g_malloc (n + 1);

  input_take (input, bytes, n);
  if (fd < 0 || (size_bytes > 0 && ftruncate (fd, size_bytes) < 0)
      || pwrite (fd, bytes, n, at) != (ssize_t) n)
    abort ();
  if (size_bytes > 0)
    {
      uint64_t head = n & ~(size_t) 7;

      if (pwrite (fd, &head, sizeof head, offsetof (struct perf_event_mmap_page, data_head))
          != sizeof head)
        abort ();
    }
  return fd;
}

static int
make_stream (Worker *worker, bool is_read)
{
  int fds[2];

  if (!sonde_socketpair (SOCK_STREAM, fds, NULL))
    abort ();
  if (is_read && worker->reader < 0)
    worker->reader = fds[0];
  else
    close (fds[0]);
  return fds[1];
}

/* @other: where the other end goes; the one before is closed. */
static int
make_pair (int *other)
{
  const int on = 1;
  int fds[2];

  if (!sonde_socketpair (SOCK_SEQPACKET, fds, NULL)
      || setsockopt (fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
    abort ();
  sonde_clear_fd (other);
  *other = fds[0];
  return fds[1];
}

/* What front and broker hand over is what they say: a text can be read without waiting, a ring is
 * as long as it is mapped. Only its content is foreign. */
static unsigned
kind_of (uint32_t type, unsigned kind)
{
  switch (type)
    {
    case SONDE_MESSAGE_DOCUMENT:
    case SONDE_MESSAGE_COUNTERS:
    case SONDE_MESSAGE_PROCESS:
    case SONDE_MESSAGE_FILE:
      return FD_FILE;
    case SONDE_MESSAGE_RINGS:
      return FD_RING;
    case SONDE_MESSAGE_CONTROL:
    case SONDE_MESSAGE_PROGRAM:
      return FD_CONTROL;
    case SONDE_MESSAGE_LINK:
      return FD_LINK;
    default:
      return kind % N_FD_KINDS;
    }
}

static int
make_fd (Worker *worker, Input *input, unsigned kind)
{
  off_t page_bytes = sysconf (_SC_PAGESIZE);

  switch (kind)
    {
    case FD_RING:
      return make_file (input, page_bytes, page_bytes + SONDE_RINGS_MAX_SAMPLE_BYTES);
    case FD_STREAM:
      return make_stream (worker, true);
    case FD_LEFT:
      return make_stream (worker, false);
    case FD_CONTROL:
      return make_pair (&worker->program);
    case FD_LINK:
      return make_pair (&worker->broker);
    case FD_FILE:
    default:
      return make_file (input, 0, 0);
    }
}

/* --- front and broker --- */

/* All that the worker says is well-formed. */
static void
hear (int fd, SondeMessageWay way)
{
  union
  {
    uint64_t align;
    char bytes[SONDE_MESSAGE_MAX_SIZE];
  } packet;
  ssize_t n;

  while (fd >= 0 && (n = recv (fd, packet.bytes, sizeof packet, MSG_DONTWAIT)) > 0)
    if (!packet_is_good (packet.bytes, (size_t) n, 0, way))
      abort ();
}

static void
read_stream (Worker *worker)
{
  uint8_t block[16384];
  ssize_t n;

  while (worker->reader >= 0 && (n = recv (worker->reader, block, sizeof block, MSG_DONTWAIT)) >= 0)
    {
      if (n > 0 && worker->stream->len < MAX_STREAM_BYTES)
        g_byte_array_append (worker->stream, block, (guint) n);
      else
        sonde_clear_fd (&worker->reader);
    }
}

/* --- programs --- */

/* Takes the answers: links and rings. */
static void
hear_programs (Worker *worker, int fd)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control;
  char bytes[64];
  struct iovec vector = { bytes, sizeof bytes };
  struct msghdr message = {
    .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const struct cmsghdr *rights;
  struct stat status;
  int *place;
  int got;

  if (fd < 0 || recvmsg (fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
    return;
  rights = CMSG_FIRSTHDR (&message);
  if (rights == NULL)
    return;
  memcpy (&got, CMSG_DATA (rights), sizeof got);
  if (fstat (got, &status) < 0)
    abort ();
  place = S_ISSOCK (status.st_mode) ? &worker->link : &worker->ring;
  sonde_clear_fd (place);
  *place = got;
}

static void
write_ring (const Worker *worker, const uint8_t *bytes, size_t n)
{
  off_t page_bytes = sysconf (_SC_PAGESIZE);
  uint64_t words[2]; /* tail, sequence */

  if (worker->ring < 0 || n < sizeof words)
    return;
  memcpy (words, bytes, sizeof words);
  if (pwrite (worker->ring, bytes + sizeof words, n - sizeof words, page_bytes) < 0
      || pwrite (worker->ring, words, sizeof (uint32_t), offsetof (SondeRingHeader, tail_index)) < 0
      || pwrite (worker->ring, words, sizeof words, offsetof (SondeRingHeader, tail)) < 0)
    abort ();
}

static void
leave (Worker *worker)
{
  sonde_clear_fd (&worker->program);
  sonde_clear_fd (&worker->link);
  sonde_clear_fd (&worker->ring);
}

static void
say (Worker *worker, const Packet *packet)
{
  const uint8_t *bytes = packet->bytes + sizeof packet->header;

  switch (packet->fd_kind % N_SAYINGS)
    {
    case SAY_CONTROL:
      if (worker->program >= 0)
        send (worker->program, bytes, packet->n_given, MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case SAY_LINK:
      if (worker->link >= 0)
        send (worker->link, bytes, packet->n_given, MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case SAY_RING:
      write_ring (worker, bytes, packet->n_given);
      break;
    case SAY_BROKER_LEAVES:
      sonde_clear_fd (&worker->broker);
      break;
    case SAY_LEAVE:
    default:
      leave (worker);
    }
}

static void
run (Worker *worker, gint64 end_us)
{
  for (unsigned i = 0; i < MAX_TURNS && !worker->is_done; i++)
    {
      gboolean is_busy = g_main_context_iteration (NULL, FALSE);

      hear (worker->control, SONDE_WAY_WORKER_TO_FRONT);
      hear (worker->broker, SONDE_WAY_WORKER_TO_BROKER);
      hear_programs (worker, worker->program);
      hear_programs (worker, worker->link);
      read_stream (worker);
      if (!is_busy && g_get_monotonic_time () >= end_us)
        break;
      if (!is_busy)
        g_usleep (200);
    }
}

static void
converse (Worker *worker, Input *input)
{
  Packet packet;
  int fds[PACKET_MAX_FDS];

  for (unsigned i = 0; i < MAX_PACKETS && input->left > 0 && !worker->is_done; i++)
    {
      packet_take (&packet, input);
      if (packet.header.type == WAIT)
        {
          run (worker, g_get_monotonic_time () + 1000 * (packet.fd_kind % 8));
          continue;
        }
      if (packet.header.type == PROGRAMS)
        {
          say (worker, &packet);
          run (worker, 0);
          continue;
        }
      for (unsigned n = 0; n < packet.n_fds; n++)
        fds[n] = make_fd (worker, input, kind_of (packet.header.type, packet.fd_kind));
      if (!packet.is_of_link || worker->broker >= 0)
        packet_socket_send (packet.is_of_link ? worker->broker : worker->control, packet.bytes,
                            packet.size_bytes, fds, packet.n_fds, MSG_DONTWAIT);
      for (unsigned n = 0; n < packet.n_fds; n++)
        sonde_clear_fd (&fds[n]);
      run (worker, 0);
    }
}

/* --- what it wrote --- */

static int64_t
read_memory (void *user_data, void *buffer, size_t size_bytes)
{
  Input *input = user_data;

  return (int64_t) input_take (input, buffer, MIN (size_bytes, input->left));
}

/* The end may be missing, as it is when a worker is killed. */
static void
check_stream (const GByteArray *stream)
{
  Input input = { stream->data, stream->len };
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  int r = sonde_reader_new (read_memory, &input, &reader);

  if (r < 0 && r != -ENODATA)
    abort ();
  if (r < 0)
    return;
  while ((r = sonde_reader_next (reader, &frame)) == 1)
    continue;
  if (r < 0 && sonde_reader_fault (reader) != SONDE_FRAME_FAULT_SHORT_HEADER
      && sonde_reader_fault (reader) != SONDE_FRAME_FAULT_LENGTH_PAST_END)
    abort ();
  sonde_reader_free (reader);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  Worker worker = {
    .broker = -1, .reader = -1, .program = -1, .link = -1, .ring = -1, .stream = g_byte_array_new ()
  };
  int fds[2];
  unsigned before;

  while (g_main_context_iteration (NULL, FALSE)) /* GLib's own descriptors are there */
    continue;
  before = fuzz_count_fds ();
  if (!sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL))
    abort ();
  worker.control = fds[0];
  worker.session = sonde_worker_session_new (fds[1], on_done, &worker);
  converse (&worker, &input);
  shutdown (worker.control, SHUT_WR);
  run (&worker, 0);
  sonde_worker_session_free (worker.session);
  read_stream (&worker);
  sonde_clear_fd (&worker.control);
  sonde_clear_fd (&worker.broker);
  sonde_clear_fd (&worker.reader);
  leave (&worker);
  check_stream (worker.stream);
  g_byte_array_unref (worker.stream);
  if (fuzz_count_fds () != before)
    abort ();

  return 0;
}
