/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/control-server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/packet-socket.h"

#define MAX_MESSAGE 256
#define TURN_MS     5

static void
ring_free (gpointer data)
{
  ControlRing *ring = data;

  sonde_ring_reader_free (ring->reader);
  g_ptr_array_unref (ring->frames);
  g_free (ring);
}

static void
make_pair (int type, int *ours, int *theirs)
{
  const int on = 1;
  int fds[2];

  g_assert_cmpint (socketpair (AF_UNIX, type | SOCK_CLOEXEC, 0, fds), ==, 0);
  g_assert_cmpint (setsockopt (fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), ==, 0);
  *ours = fds[0];
  *theirs = fds[1];
}

ControlServer *
control_server_new (const ControlServerOptions *options)
{
  ControlServer *self = g_new0 (ControlServer, 1);

  self->options = *options;
  make_pair (options->socket_type, &self->control, &self->client);
  self->links = g_array_new (FALSE, FALSE, sizeof (int));
  self->rings = g_ptr_array_new_with_free_func (ring_free);

  return self;
}

void
control_server_free (ControlServer *self)
{
  for (guint i = 0; i < self->links->len; i++)
    close (g_array_index (self->links, int, i));
  g_array_unref (self->links);
  g_ptr_array_unref (self->rings);
  close (self->control);
  if (self->client >= 0)
    close (self->client);
  g_free (self);
}

/* @fd: (transfer full): or -1 */
static void
send_with_fd (int socket, gconstpointer bytes, gsize size, int fd)
{
  /* Whoever asked may be gone. */
  if (packet_socket_send (socket, bytes, size, &fd, fd >= 0 ? 1 : 0, MSG_DONTWAIT) < 0)
    g_test_message ("no answer sent: %s", g_strerror (errno));
  if (fd >= 0)
    close (fd);
}

/* Bytes of the next message, and who sent it; 0 at the end, -1 if there is none. */
static gssize
receive (int socket, gpointer bytes, gint32 *pid)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec iov = { bytes, MAX_MESSAGE };
  struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  gssize n = recvmsg (socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR (&message) : NULL;
  struct ucred credentials;

  *pid = -1;
  if (header != NULL && header->cmsg_type == SCM_CREDENTIALS)
    {
      memcpy (&credentials, CMSG_DATA (header), sizeof credentials);
      *pid = credentials.pid;
    }

  return n < 0 && errno == ECONNRESET ? 0 : n;
}

/* Returns: the ring's descriptor */
static int
add_ring (ControlServer *self,
          SondeRingKind kind,
          gint32 pid,
          const SondeControlRingRequest *request)
{
  SondeRingOptions options = { kind, SONDE_RING_DEFAULT_BYTES, self->options.wait_us, 0 };
  SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, pid };
  ControlRing *ring = g_new0 (ControlRing, 1);
  SondeRingMemory memory;
  int fd;

  if (!self->options.wants_frames)
    options.features = SONDE_RING_COMPACT_HEAP;
  if (self->options.may_grow)
    options.features |= SONDE_RING_MAY_GROW;
  if (self->options.ring_bytes != 0)
    options.size_bytes = self->options.ring_bytes;
  else if (request != NULL && request->size_bytes != 0)
    options.size_bytes = request->size_bytes;
  g_assert_cmpint (sonde_ring_memory_create (&options, &memory, &fd), ==, 0);
  g_assert_cmpint (sonde_ring_reader_new (&memory, &rights, &ring->reader), ==, 0);
  sonde_ring_reader_pause (ring->reader, self->options.is_paused);
  ring->frames = g_ptr_array_new_with_free_func (g_free);
  ring->pid = pid;
  ring->tid = request != NULL ? request->tid : 0;
  ring->producer = request != NULL ? request->producer : 0;
  ring->number = request != NULL ? request->number : 0;
  g_ptr_array_add (self->rings, ring);

  return fd;
}

/* Returns: the descriptor of a larger ring, or -1 */
static int
grow_ring (ControlServer *self, gint32 pid, const SondeControlGrowRequest *wanted)
{
  for (guint i = self->rings->len; i > 0; i--)
    {
      const ControlRing *ring = g_ptr_array_index (self->rings, i - 1);
      const SondeControlRingRequest request = { .producer = ring->producer,
                                                .tid = ring->tid,
                                                .size_bytes = wanted->size_bytes,
                                                .number = wanted->number };
      ControlRing *last;
      int fd;

      if (ring->number != wanted->continues || ring->pid != pid)
        continue;
      fd = add_ring (self, SONDE_RING_NATIVE, pid, &request);
      last = g_ptr_array_index (self->rings, self->rings->len - 1);
      last->before = ring;
      return fd;
    }
  return -1;
}

static gboolean
is_message (const SondeControlHeader *header, gssize n, guint32 type, gsize size)
{
  return n == (gssize) size && header->magic == SONDE_CONTROL_MAGIC
         && header->version == SONDE_CONTROL_VERSION && header->type == type;
}

static void
answer_control (ControlServer *self, gconstpointer bytes, gssize n, gint32 pid)
{
  const SondeControlHeader *header = bytes;

  if (self->options.is_mute)
    self->n_ignored++;
  else if (n == SONDE_CONTROL_SYSPROF_REQUEST_BYTES
           && memcmp (bytes, SONDE_CONTROL_SYSPROF_REQUEST, (gsize) n) == 0)
    send_with_fd (self->control, "", 1, add_ring (self, SONDE_RING_SYSPROF, pid, NULL));
  else if (is_message (header, n, SONDE_CONTROL_LINK, sizeof *header))
    {
      int ours, theirs;

      make_pair (SOCK_SEQPACKET, &ours, &theirs);
      g_array_append_val (self->links, ours);
      self->n_links++;
      send_with_fd (self->control, header, sizeof *header, theirs);
    }
  else
    self->n_ignored++;
}

static void
answer_link (ControlServer *self, int link, gconstpointer bytes, gssize n, gint32 pid)
{
  const SondeControlRingRequest *request = bytes;
  const guint n_max = self->options.n_max_rings;
  const guint n_max_own = self->options.n_max_own;
  SondeControlRingAnswer answer
      = { .max_depth = self->options.max_depth != 0 ? self->options.max_depth : 64,
          .memory_mode = self->options.memory_mode,
          .memory_interval_bytes = self->options.memory_interval_bytes };
  int fd = -1;

  if (is_message (bytes, n, SONDE_CONTROL_BELL, sizeof (SondeControlHeader)))
    self->n_bells++;
  else if (is_message (bytes, n, SONDE_CONTROL_RING, sizeof *request))
    {
      answer.header = request->header;
      answer.number = request->number;
      self->n_own += request->tid != 0;
      if ((n_max > 0 && self->rings->len >= n_max)
          || (n_max_own > 0 && request->tid != 0 && self->n_own > n_max_own))
        {
          answer.error = -EDQUOT;
          self->n_refused++;
        }
      else
        fd = add_ring (self, SONDE_RING_NATIVE, pid, request);
      send_with_fd (link, &answer, sizeof answer, fd);
    }
  else if (is_message (bytes, n, SONDE_CONTROL_GROW, sizeof (SondeControlGrowRequest)))
    {
      answer.header = request->header;
      answer.number = ((const SondeControlGrowRequest *) bytes)->number;
      fd = grow_ring (self, pid, bytes);
      answer.error = fd < 0 ? -EDQUOT : 0;
      send_with_fd (link, &answer, sizeof answer, fd);
    }
  else
    self->n_ignored++;
}

static void
drain (const ControlServer *self, ControlRing *ring)
{
  const SondeFrame *frame;
  int r;

  if (ring->before != NULL && sonde_ring_reader_state (ring->before->reader) == SONDE_RING_IS_OPEN)
    return;
  r = sonde_ring_reader_begin (ring->reader, SIZE_MAX);
  while (r == 0 && (r = sonde_ring_reader_next (ring->reader, &frame)) == 1)
    {
      if (self->options.take != NULL)
        self->options.take (self->options.take_data, frame);
      else
        g_ptr_array_add (ring->frames, g_memdup2 (frame, frame->len));
      r = 0;
    }
  sonde_ring_reader_release (ring->reader);
}

/* Whether somebody still has the other end. */
static gboolean
serve_socket (ControlServer *self, int socket)
{
  union
  {
    guint64 align;
    guint8 bytes[MAX_MESSAGE];
  } message;
  gint32 pid;
  gssize n;

  while ((n = receive (socket, message.bytes, &pid)) > 0)
    {
      if (socket == self->control)
        answer_control (self, message.bytes, n, pid);
      else
        answer_link (self, socket, message.bytes, n, pid);
    }

  return n < 0;
}

/* Until somebody asks or rings, or a turn is due: not every ring has a doorbell. */
static void
wait_for_turn (const ControlServer *self)
{
  g_autofree struct pollfd *sockets = g_new0 (struct pollfd, self->links->len + 1);

  sockets[0] = (struct pollfd){ self->control, POLLIN, 0 };
  for (guint i = 0; i < self->links->len; i++)
    sockets[i + 1] = (struct pollfd){ g_array_index (self->links, int, i), POLLIN, 0 };
  poll (sockets, self->links->len + 1, TURN_MS);
}

static void
serve_until_closed (ControlServer *self)
{
  gboolean is_open = TRUE;

  while (is_open)
    {
      wait_for_turn (self);
      is_open = serve_socket (self, self->control);
      for (guint i = self->links->len; i > 0; i--)
        if (!serve_socket (self, g_array_index (self->links, int, i - 1)))
          {
            close (g_array_index (self->links, int, i - 1));
            g_array_remove_index (self->links, i - 1);
          }
      is_open |= self->links->len > 0;
      for (guint i = 0; i < self->rings->len; i++)
        drain (self, self->rings->pdata[i]);
      if (self->options.turn != NULL)
        self->options.turn (self);
    }
}

int
control_server_run (ControlServer *self, int (*client) (void), const char *variable)
{
  g_autofree char *number = g_strdup_printf ("%d", self->client);
  pid_t child = fork ();
  int status;

  if (child == 0)
    {
      close (self->control);
      fcntl (self->client, F_SETFD, 0);
      g_setenv (variable, number, TRUE);
      exit (client ());
    }

  g_assert_cmpint (child, >, 0);
  close (self->client);
  self->client = -1;
  serve_until_closed (self);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);

  return status;
}

guint
control_server_count (const ControlServer *self, guint8 type)
{
  guint n = 0;

  for (guint i = 0; i < self->rings->len; i++)
    {
      const ControlRing *ring = self->rings->pdata[i];

      for (guint k = 0; k < ring->frames->len; k++)
        n += ((const SondeFrame *) ring->frames->pdata[k])->type == type;
    }

  return n;
}

gconstpointer
control_server_find (const ControlServer *self, guint8 type)
{
  for (guint i = 0; i < self->rings->len; i++)
    {
      const ControlRing *ring = self->rings->pdata[i];

      for (guint k = 0; k < ring->frames->len; k++)
        if (((const SondeFrame *) ring->frames->pdata[k])->type == type)
          return ring->frames->pdata[k];
    }

  return NULL;
}

void
control_server_account (const ControlServer *self, SondeRingCounts *sum)
{
  *sum = (SondeRingCounts){ 0 };
  for (guint i = 0; i < self->rings->len; i++)
    {
      const ControlRing *ring = self->rings->pdata[i];
      SondeRingCounts counts;

      sonde_ring_reader_count (ring->reader, &counts);
      sum->frames += counts.frames;
      sum->bytes += counts.bytes;
      sum->produced += counts.produced;
      sum->claimed.lost_events += counts.claimed.lost_events;
      sum->claimed.blocked_events += counts.claimed.blocked_events;
      sum->claimed.blocked_ns += counts.claimed.blocked_ns;
    }
}
