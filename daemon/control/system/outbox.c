/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/message.h"

struct SondeOutbox
{
  GMutex lock;
  struct sockaddr_un address;
  socklen_t address_size;
  int socket;     /* connected: POLLOUT tells then whether the receiver takes more; or -1 */
  GQueue waiting; /* Datagram */
  guint writable; /* source, while something waits */
  guint n_lost;
};

typedef struct
{
  GBytes *bytes;
  GArray *fds; /* int */
} Datagram;

static void
close_one (gpointer fd)
{
  sonde_clear_fd (fd);
}

static void
datagram_free (gpointer data)
{
  Datagram *self = data;

  g_bytes_unref (self->bytes);
  g_array_unref (self->fds);
  g_free (self);
}

static Datagram *
datagram_new (gconstpointer bytes, gsize n_bytes, const int *fds, guint n_fds)
{
  Datagram *self = g_new0 (Datagram, 1);

  self->bytes = g_bytes_new (bytes, n_bytes);
  self->fds = g_array_new (FALSE, FALSE, sizeof (int));
  g_array_set_clear_func (self->fds, close_one);
  for (guint i = 0; i < n_fds; i++)
    {
      int copy = fcntl (fds[i], F_DUPFD_CLOEXEC, 3);

      if (copy < 0)
        {
          datagram_free (self);
          return NULL;
        }
      g_array_append_val (self->fds, copy);
    }
  return self;
}

SondeOutbox *
sonde_outbox_new (const char *address)
{
  SondeOutbox *self;
  gsize length = address != NULL ? strlen (address) : 0;

  if (length < 2 || length >= sizeof self->address.sun_path || strchr ("/@", address[0]) == NULL)
    return NULL;
  self = g_new0 (SondeOutbox, 1);
  g_mutex_init (&self->lock);
  self->socket = -1;
  self->address.sun_family = AF_UNIX;
  memcpy (self->address.sun_path, address, length);
  if (address[0] == '@')
    self->address.sun_path[0] = '\0';
  self->address_size = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + length);
  return self;
}

/* Returns: 0, EAGAIN, or another errno */
static int
send_now (SondeOutbox *self, gconstpointer bytes, gsize n_bytes, const int *fds, guint n_fds)
{
  union
  {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control = { 0 };
  struct iovec part = { .iov_base = (gpointer) bytes, .iov_len = n_bytes };
  struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

  g_assert (n_fds <= SONDE_MESSAGE_MAX_FDS);

  if (n_fds > 0)
    {
      control.header.cmsg_level = SOL_SOCKET;
      control.header.cmsg_type = SCM_RIGHTS;
      control.header.cmsg_len = CMSG_LEN (n_fds * sizeof (int));
      memcpy (CMSG_DATA (&control.header), fds, n_fds * sizeof (int));
      message.msg_control = &control;
      message.msg_controllen = CMSG_SPACE (n_fds * sizeof (int));
    }
  /* Twice: the receiver may have been started anew. */
  for (guint i = 0; i < 2; i++)
    {
      if (self->socket < 0)
        {
          self->socket = socket (AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
          if (self->socket < 0
              || connect (self->socket, (struct sockaddr *) &self->address, self->address_size) < 0)
            break;
        }
      if (sendmsg (self->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return 0;
      if (errno != ECONNREFUSED && errno != ENOTCONN && errno != ECONNRESET)
        return errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ? EAGAIN : errno;
      sonde_clear_fd (&self->socket);
    }
  sonde_clear_fd (&self->socket);
  return ENOTCONN;
}

/* In order, until the receiver takes no more. */
static void
send_waiting (SondeOutbox *self)
{
  Datagram *first;

  while ((first = g_queue_peek_head (&self->waiting)) != NULL)
    {
      gsize n_bytes;
      gconstpointer bytes = g_bytes_get_data (first->bytes, &n_bytes);
      int error = send_now (self, bytes, n_bytes, (const int *) (void *) first->fds->data,
                            first->fds->len);

      if (error == EAGAIN)
        return;
      self->n_lost += error != 0;
      datagram_free (g_queue_pop_head (&self->waiting));
    }
}

static gboolean
on_writable (int fd, GIOCondition condition, gpointer user_data)
{
  SondeOutbox *self = user_data;
  gboolean is_more;

  g_mutex_lock (&self->lock);
  send_waiting (self);
  /* A socket that was closed has a successor. */
  is_more = !g_queue_is_empty (&self->waiting) && fd == self->socket;
  if (!is_more)
    self->writable = !g_queue_is_empty (&self->waiting)
                         ? g_unix_fd_add (self->socket, G_IO_OUT, on_writable, self)
                         : 0;
  g_mutex_unlock (&self->lock);
  return is_more ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

void
sonde_outbox_free (SondeOutbox *self)
{
  gint64 until_us = g_get_monotonic_time () + SONDE_LIMIT_OUTBOX_MS * 1000;

  if (self == NULL)
    return;
  g_clear_handle_id (&self->writable, g_source_remove);
  send_waiting (self);
  while (!g_queue_is_empty (&self->waiting))
    {
      struct pollfd poll_fd = { .fd = self->socket, .events = POLLOUT };
      gint64 left_us = until_us - g_get_monotonic_time ();

      if (left_us <= 0 || poll (&poll_fd, 1, (int) (left_us / 1000) + 1) < 0)
        break;
      send_waiting (self);
    }
  g_queue_clear_full (&self->waiting, datagram_free);
  sonde_clear_fd (&self->socket);
  g_mutex_clear (&self->lock);
  g_free (self);
}

gboolean
sonde_outbox_send (
    SondeOutbox *self, gconstpointer bytes, gsize n_bytes, const int *fds, guint n_fds)
{
  int error = EAGAIN;
  Datagram *datagram = NULL;

  if (self == NULL)
    return TRUE;
  g_mutex_lock (&self->lock);
  if (g_queue_is_empty (&self->waiting))
    error = send_now (self, bytes, n_bytes, fds, n_fds);
  if (error == EAGAIN && self->waiting.length < SONDE_LIMIT_OUTBOX)
    datagram = datagram_new (bytes, n_bytes, fds, n_fds);
  if (datagram != NULL)
    {
      g_queue_push_tail (&self->waiting, datagram);
      if (self->writable == 0)
        self->writable = g_unix_fd_add (self->socket, G_IO_OUT, on_writable, self);
      error = 0;
    }
  self->n_lost += error != 0;
  g_mutex_unlock (&self->lock);
  return error == 0;
}

gboolean
sonde_outbox_tell (SondeOutbox *self, const char *text)
{
  return sonde_outbox_send (self, text, strlen (text), NULL, 0);
}

guint
sonde_outbox_n_lost (SondeOutbox *self)
{
  guint n_lost;

  if (self == NULL)
    return 0;
  g_mutex_lock (&self->lock);
  n_lost = self->n_lost;
  g_mutex_unlock (&self->lock);
  return n_lost;
}
