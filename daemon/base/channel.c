/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/base/channel.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/socket.h"

#define MAX_MESSAGES_PER_TURN 32
#define MAX_US_PER_TURN       5000 /* a peer whose messages cost much waits for its next turn */
#define RETRY_MS                                                                                   \
  10 /* while too many descriptors are in flight: the socket itself looks writable                 \
      */

/* A message that did not fit into the socket yet. */
typedef struct
{
  gpointer bytes;
  gsize size_bytes;
  int *fds;
  unsigned n_fds;
} Pending;

struct SondeChannel
{
  gatomicrefcount refs; /* the owner's, and one while a callback runs */
  int fd;
  pid_t peer_pid; /* 0: not known */
  SondeMessageWay from;
  gboolean freed; /* by the owner: no callback any more */
  gboolean is_held;
  const SondeChannelHandler *handler;
  gpointer user_data;
  GSource *readable;
  GSource *retry; /* only while something is queued: on_writable() or on_retry() */
  GQueue pending; /* Pending */
  guint64 n_received;
};

static bool
is_from_worker (const SondeChannel *self)
{
  return (self->from & (SONDE_WAY_WORKER_TO_FRONT | SONDE_WAY_WORKER_TO_BROKER)) != 0;
}

static void
close_fds (const SondeChannel *self, const int *fds, unsigned n_fds)
{
  for (unsigned i = 0; i < n_fds; i++)
    if (fds[i] >= 0 && self->handler->close_fd != NULL)
      self->handler->close_fd (fds[i]);
    else if (fds[i] >= 0)
      close (fds[i]);
}

static void
drop_pending (SondeChannel *self)
{
  Pending *pending = g_queue_pop_head (&self->pending);

  close_fds (self, pending->fds, pending->n_fds);
  g_free (pending->fds);
  g_free (pending->bytes);
  g_free (pending);
}

static void
remove_source (GSource **source)
{
  if (*source == NULL)
    return;
  g_source_destroy (*source);
  g_clear_pointer (source, g_source_unref);
}

/* No more traffic; queued messages and their descriptors go. */
static void
shut (SondeChannel *self)
{
  remove_source (&self->readable);
  remove_source (&self->retry);
  /* First: the end of what is queued may wait. */
  close_fds (self, &self->fd, 1);
  self->fd = -1;
  while (!g_queue_is_empty (&self->pending))
    drop_pending (self);
}

static void
channel_unref (SondeChannel *self)
{
  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  shut (self);
  g_free (self);
}

static void
fail (SondeChannel *self, const GError *error)
{
  shut (self);
  if (!self->freed && self->handler->closed != NULL)
    self->handler->closed (self, error, self->user_data);
}

/* The first message's sender is the peer: later ones could come from whom it gave its end to. */
static void
take_credentials (SondeChannel *self, struct cmsghdr *control)
{
  struct ucred sender;

  if (self->peer_pid != 0 || control->cmsg_len < CMSG_LEN (sizeof sender))
    return;
  memcpy (&sender, CMSG_DATA (control), sizeof sender);
  self->peer_pid = sender.pid;
}

/* Collects the descriptors of all control messages. Returns FALSE if there were too many. */
static gboolean
take_control (SondeChannel *self, struct msghdr *header, int *fds, unsigned *n_fds)
{
  *n_fds = 0;
  for (struct cmsghdr *control = CMSG_FIRSTHDR (header); control != NULL;
       control = CMSG_NXTHDR (header, control))
    {
      unsigned n;

      if (control->cmsg_level != SOL_SOCKET)
        continue;
      if (control->cmsg_type == SCM_CREDENTIALS)
        take_credentials (self, control);
      if (control->cmsg_type != SCM_RIGHTS)
        continue;
      n = (control->cmsg_len - CMSG_LEN (0)) / sizeof (int);
      if (n > SONDE_MESSAGE_MAX_FDS - *n_fds)
        {
          close_fds (self, (const int *) (void *) CMSG_DATA (control), n);
          return FALSE;
        }
      memcpy (fds + *n_fds, CMSG_DATA (control), n * sizeof (int));
      *n_fds += n;
    }
  return (header->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
}

static void
deliver (SondeChannel *self,
         const SondeMessageHeader *message,
         gsize size_bytes,
         int *fds,
         unsigned n_fds,
         gboolean whole)
{
  const char *why = "too long, or its descriptors are too many or find no room";

  if (whole && sonde_message_check (message, size_bytes, n_fds, self->from, &why) == 0)
    {
      self->handler->message (self, message, fds, n_fds, self->user_data);
    }
  else
    {
      g_autoptr (GError) error = g_error_new (
          SONDE_ERROR, SONDE_ERROR_FAILED,
          "Refused a message \"%s\" of %" G_GSIZE_FORMAT " bytes: %s",
          size_bytes >= sizeof *message ? sonde_message_type_to_string (message->type) : "?",
          size_bytes, why);

      fail (self, error);
    }
  close_fds (self, fds, n_fds);
}

/* Takes one message. Returns FALSE when there is none (or no channel) any more. */
static gboolean
receive_one (SondeChannel *self)
{
  union
  {
    SondeMessageHeader header;
    guint64 align;
    char bytes[SONDE_MESSAGE_MAX_SIZE];
  } packet;
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))
               + CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec vector = { .iov_base = packet.bytes, .iov_len = sizeof packet.bytes };
  struct msghdr header = {
    .msg_iov = &vector,
    .msg_iovlen = 1,
    .msg_control = control.bytes,
    /* No descriptor of a worker comes so far as to be one of ours. */
    .msg_controllen
    = is_from_worker (self) ? CMSG_SPACE (sizeof (struct ucred)) : sizeof control.bytes,
  };
  int fds[SONDE_MESSAGE_MAX_FDS];
  unsigned n_fds;
  gboolean whole;
  ssize_t got;

  got = recvmsg (self->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return FALSE;
  /* The peer left without reading everything; what it said before comes behind this, reported once.
   */
  if (got < 0 && errno == ECONNRESET)
    return TRUE;
  if (got < 0)
    {
      g_autoptr (GError) error = NULL;

      sonde_error_set_errno (&error, errno, "Cannot receive");
      fail (self, error);
      return FALSE;
    }
  self->n_received++;
  whole = take_control (self, &header, fds, &n_fds);
  /* The end of file, or a packet of no bytes: that may still bring descriptors. */
  if (got == 0)
    {
      close_fds (self, fds, n_fds);
      fail (self, NULL);
      return FALSE;
    }
  deliver (self, &packet.header, (gsize) got, fds, n_fds, whole);
  return self->fd >= 0 && !self->freed && !self->is_held;
}

static gboolean
on_readable (int fd, GIOCondition condition, gpointer user_data)
{
  SondeChannel *self = user_data;
  gint64 end_us = g_get_monotonic_time () + MAX_US_PER_TURN;

  g_atomic_ref_count_inc (&self->refs);
  for (unsigned i = 0; i < MAX_MESSAGES_PER_TURN && receive_one (self); i++)
    if (g_get_monotonic_time () >= end_us)
      break;
  channel_unref (self);
  return G_SOURCE_CONTINUE; /* shut() destroyed the source where it had to go */
}

/* Returns 1 sent, 0 the socket is full, or a negative errno. */
static int
send_now (SondeChannel *self, gconstpointer bytes, gsize size_bytes, const int *fds, unsigned n_fds)
{
  int r = sonde_send_with_fds (self->fd, bytes, size_bytes, fds, n_fds);

  if (r == 0)
    return 1;
  if (r == -ENOBUFS || r == -ENOMEM)
    return -ETOOMANYREFS; /* passes as well, without the socket telling when */
  return r == -EAGAIN || r == -EINTR ? 0 : r;
}

static GSource *
watch (SondeChannel *self, GIOCondition condition, GUnixFDSourceFunc callback, const char *name)
{
  GSource *source = g_unix_fd_source_new (self->fd, condition);

  g_source_set_callback (source, G_SOURCE_FUNC (callback), self, NULL);
  g_source_set_static_name (source, name);
  g_source_attach (source, g_main_context_get_thread_default ());
  return source;
}

static gboolean on_writable (int fd, GIOCondition condition, gpointer user_data);

static gboolean
on_retry (gpointer user_data)
{
  SondeChannel *self = user_data;

  on_writable (self->fd, G_IO_OUT, self);
  return G_SOURCE_REMOVE;
}

static void
send_later (SondeChannel *self, int result)
{
  remove_source (&self->retry);
  if (result != -ETOOMANYREFS)
    {
      self->retry = watch (self, G_IO_OUT, on_writable, "sonde-channel-out");
      return;
    }
  self->retry = g_timeout_source_new (RETRY_MS);
  g_source_set_callback (self->retry, on_retry, self, NULL);
  g_source_set_static_name (self->retry, "sonde-channel-retry");
  g_source_attach (self->retry, g_main_context_get_thread_default ());
}

static gboolean
on_writable (int fd, GIOCondition condition, gpointer user_data)
{
  SondeChannel *self = user_data;
  Pending *pending;

  while ((pending = g_queue_peek_head (&self->pending)) != NULL)
    {
      int result
          = send_now (self, pending->bytes, pending->size_bytes, pending->fds, pending->n_fds);

      if (result == 0 || result == -ETOOMANYREFS)
        {
          send_later (self, result);
          return G_SOURCE_REMOVE;
        }
      /* A dead peer shows as end of file to on_readable(), which tells the owner. */
      drop_pending (self);
    }
  remove_source (&self->retry);
  if (self->handler->drained != NULL)
    self->handler->drained (self, self->user_data);
  return G_SOURCE_REMOVE;
}

SondeChannel *
sonde_channel_new (int fd,
                   SondeMessageWay from,
                   const SondeChannelHandler *handler,
                   gpointer user_data)
{
  SondeChannel *self = g_new0 (SondeChannel, 1);

  g_atomic_ref_count_init (&self->refs);
  self->fd = fd;
  self->from = from;
  self->handler = handler;
  self->user_data = user_data;
  g_queue_init (&self->pending);
  sonde_channel_hold (self, FALSE);
  return self;
}

void
sonde_channel_hold (SondeChannel *self, gboolean is_held)
{
  self->is_held = is_held;
  if (is_held)
    remove_source (&self->readable);
  else if (self->fd >= 0 && self->readable == NULL)
    self->readable = watch (self, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, "sonde-channel-in");
}

void
sonde_channel_free (SondeChannel *self)
{
  if (self == NULL)
    return;
  self->freed = TRUE;
  shut (self);
  channel_unref (self);
}

static void
enqueue (SondeChannel *self,
         gconstpointer message,
         gsize size_bytes,
         const int *fds,
         unsigned n_fds,
         int result)
{
  Pending *pending = g_new0 (Pending, 1);

  pending->bytes = g_memdup2 (message, size_bytes);
  pending->size_bytes = size_bytes;
  pending->fds = g_memdup2 (fds, n_fds * sizeof (int));
  pending->n_fds = n_fds;
  g_queue_push_tail (&self->pending, pending);
  if (self->retry == NULL)
    send_later (self, result);
}

gboolean
sonde_channel_send (SondeChannel *self,
                    gpointer message,
                    gsize size_bytes,
                    const int *fds,
                    unsigned n_fds,
                    GError **error)
{
  SondeMessageHeader *header = message;
  int result = -EPIPE;

  g_assert (size_bytes <= SONDE_MESSAGE_MAX_SIZE && n_fds <= SONDE_MESSAGE_MAX_FDS);
  header->size = (guint32) size_bytes;
  if (self->fd >= 0)
    result
        = g_queue_is_empty (&self->pending) ? send_now (self, message, size_bytes, fds, n_fds) : 0;
  if ((result == 0 || result == -ETOOMANYREFS)
      && g_queue_get_length (&self->pending) < SONDE_CHANNEL_MAX_QUEUE)
    {
      enqueue (self, message, size_bytes, fds, n_fds, result);
      return TRUE;
    }
  close_fds (self, fds, n_fds);
  /* A peer that has just gone may have said something before, its last word perhaps: that is read
   * first, and then the end of file tells the owner. */
  if (result > 0 || (self->fd >= 0 && (result == -EPIPE || result == -ECONNRESET)))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Cannot send \"%s\": %s",
               sonde_message_type_to_string (header->type),
               result == 0 ? "the other side does not read" : g_strerror (-result));
  return FALSE;
}

gboolean
sonde_channel_send_simple (SondeChannel *self, SondeMessageType type, GError **error)
{
  SondeMessageHeader header = { .type = type };

  return sonde_channel_send (self, &header, sizeof header, NULL, 0, error);
}

guint
sonde_channel_queued (const SondeChannel *self)
{
  return g_queue_get_length ((GQueue *) &self->pending);
}

pid_t
sonde_channel_peer_pid (const SondeChannel *self)
{
  return self->peer_pid;
}

int
sonde_channel_fd (const SondeChannel *self)
{
  return self->fd;
}

guint64
sonde_channel_n_received (const SondeChannel *self)
{
  return self->n_received;
}

gboolean
sonde_channel_is_waiting (const SondeChannel *self)
{
  struct pollfd input = { .fd = self->fd, .events = POLLIN };

  return self->fd >= 0 && poll (&input, 1, 0) > 0;
}

gboolean
sonde_channel_has_peer (const SondeChannel *self)
{
  struct pollfd end = { .fd = self->fd };

  return self->fd >= 0 && poll (&end, 1, 0) >= 0 && (end.revents & (POLLHUP | POLLERR)) == 0;
}
