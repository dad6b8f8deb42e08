/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/control-server.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/capture/program/uid-shares.h"

#define MESSAGES_A_TURN 16  /* of a peer; then others get their turn */
#define MAX_MESSAGE     256 /* bytes; a longer one is none of ours */
#define NOBODY          ((uid_t) -1)
#define MAX_OWED        SONDE_LIMIT_RINGS /* links that programs of a control socket wait for */

typedef struct
{
  SondeControlServer *server;
  guint64 id;
  int fd;
  gboolean is_link;
  uid_t uid;           /* of a link: whose it is */
  gboolean is_refused; /* gets no answer any more */
  guint n_owed;        /* links that were asked for while there was no room for answers */
  guint source;
  guint room_source; /* while some are owed */
} Peer;

struct SondeControlServer
{
  SondeControlTerms terms;
  SondeControlServerHandler handler;
  gpointer user_data;
  GHashTable *peers; /* Peer, of themselves */
  guint64 last_id;
  SondeUidShares links;
  guint n_turned_away; /* programs that came when there were too many */
};

typedef struct
{
  union
  {
    SondeControlHeader header;
    SondeControlRingRequest ring;
    SondeControlGrowRequest grow;
    char bytes[MAX_MESSAGE];
  };
  gssize size_bytes; /* 0: the end, or nothing; negative: an errno */
  pid_t pid;         /* who sent it; 0 if the kernel does not say */
  uid_t uid;         /* of that one; else of nobody */
} Message;

static void
peer_free (gpointer data)
{
  Peer *peer = data;

  g_clear_handle_id (&peer->source, g_source_remove);
  g_clear_handle_id (&peer->room_source, g_source_remove);
  sonde_clear_fd (&peer->fd);
  g_free (peer);
}

SondeControlServer *
sonde_control_server_new (const SondeControlTerms *terms,
                          gboolean is_divided,
                          const SondeControlServerHandler *handler,
                          gpointer user_data)
{
  SondeControlServer *self = g_new0 (SondeControlServer, 1);

  self->terms = *terms;
  self->handler = *handler;
  self->user_data = user_data;
  self->peers = g_hash_table_new_full (NULL, NULL, peer_free, NULL);
  sonde_uid_shares_init (&self->links, is_divided);

  return self;
}

void
sonde_control_server_free (SondeControlServer *self)
{
  if (self == NULL)
    return;

  g_hash_table_unref (self->peers);
  sonde_uid_shares_clear (&self->links);
  g_free (self);
}

/* --- messages --- */

/* Credentials come first, and leave no room for descriptors. @flags: beside what is needed */
static void
receive (int fd, Message *message, int flags)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec iov = { message->bytes, sizeof message->bytes };
  struct msghdr header = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const struct cmsghdr *first;

  message->pid = 0;
  message->uid = NOBODY;
  message->size_bytes = recvmsg (fd, &header, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (message->size_bytes < 0)
    {
      message->size_bytes = -errno;
      return;
    }
  first = CMSG_FIRSTHDR (&header);
  if (first != NULL && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_CREDENTIALS
      && first->cmsg_len == CMSG_LEN (sizeof (struct ucred)))
    {
      struct ucred credentials;

      memcpy (&credentials, CMSG_DATA (first), sizeof credentials);
      message->pid = credentials.pid;
      message->uid = credentials.uid;
    }
  if ((header.msg_flags & MSG_TRUNC) != 0)
    message->size_bytes = sizeof message->bytes;
}

/* @fd: -1: none. Returns: 0 or a negative errno */
static int
send_with_fd (const Peer *peer, gconstpointer bytes, gsize size_bytes, int fd)
{
  return sonde_send_with_fds (peer->fd, bytes, size_bytes, &fd, fd >= 0 ? 1 : 0);
}

static gboolean
send_answer (const Peer *peer, gconstpointer bytes, gsize size_bytes, int fd)
{
  return send_with_fd (peer, bytes, size_bytes, fd) == 0;
}

static gboolean
is_message (const Message *message, guint32 type, gsize size_bytes)
{
  return message->size_bytes == (gssize) size_bytes && message->header.magic == SONDE_CONTROL_MAGIC
         && message->header.version == SONDE_CONTROL_VERSION && message->header.type == type;
}

/* --- peers --- */

#define DEAF "A control socket of programs was closed: they take no answers"

static gboolean on_readable (gint fd, GIOCondition condition, gpointer user_data);

static gboolean
has_link (const SondeControlServer *self, uid_t uid)
{
  const SondeUidAmount max = { .n = SONDE_LIMIT_RINGS };

  return sonde_uid_shares_has_room (&self->links, uid, &max, 0);
}

static void
add_peer (SondeControlServer *self, int fd, gboolean is_link, uid_t uid, pid_t pid)
{
  Peer *peer;

  if (is_link && !has_link (self, uid))
    {
      close (fd);
      self->handler.link_refused (pid, self->user_data);
      self->n_turned_away++;
      /* Told at each power of two: there may be a thousand a second. */
      if ((self->n_turned_away & (self->n_turned_away - 1)) == 0)
        {
          g_autofree char *text = g_strdup_printf (
              "Programs that are not recorded, since too many have rings: %u", self->n_turned_away);

          self->handler.refused (text, self->user_data);
        }
      return;
    }
  peer = g_new0 (Peer, 1);
  peer->server = self;
  peer->id = ++self->last_id;
  peer->fd = fd;
  peer->is_link = is_link;
  peer->uid = uid;
  peer->source = g_unix_fd_add (fd, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, peer);
  g_hash_table_add (self->peers, peer);
  if (is_link)
    sonde_uid_shares_take (&self->links, uid, 0);
}

void
sonde_control_server_add (SondeControlServer *self, int fd, gboolean is_link)
{
  Message message = { .uid = NOBODY };

  if (is_link)
    receive (fd, &message, MSG_PEEK);
  add_peer (self, fd, is_link, message.uid, message.pid);
}

/* @is_gone: nobody has the other end; else it gets an end of file. FALSE, for those who watch it.
 */
static gboolean
end_peer (Peer *peer, gboolean is_gone)
{
  SondeControlServer *self = peer->server;
  gboolean is_link = peer->is_link;
  guint64 id = peer->id;

  peer->source = 0; /* the caller's */
  if (!is_gone)
    shutdown (peer->fd, SHUT_RDWR);
  if (is_link)
    sonde_uid_shares_give_back (&self->links, peer->uid, 0);
  g_hash_table_remove (self->peers, peer);
  if (is_gone || is_link)
    self->handler.gone (id, self->user_data);
  if (!is_link)
    self->handler.closed (self->user_data);

  return FALSE;
}

/* Programs get an end of file behind what was answered before. The socket stays, as when the last
 * of them is gone the rings that they got are to be closed. */
static gboolean
refuse_peer (Peer *peer, const char *why)
{
  shutdown (peer->fd, SHUT_WR);
  peer->is_refused = TRUE;
  peer->server->handler.refused (why, peer->server->user_data);
  return TRUE;
}

/* Who asked in the old way cannot be told that he gets none, and would wait for ever. */
static gboolean
answer_sysprof (Peer *peer, const Message *message)
{
  SondeControlServer *self = peer->server;
  SondeRingWanted wanted = { .kind = SONDE_RING_SYSPROF,
                             .producer = SONDE_PRODUCER_APPLICATION,
                             .peer = peer->id,
                             .pid = message->pid,
                             .uid = message->uid };
  guint number = 0;
  sonde_autofd int fd = self->handler.wanted (&wanted, &number, self->user_data);

  if (fd < 0)
    return refuse_peer (peer, "A control socket of programs was closed: there are too many rings");
  if (send_answer (peer, "", 1, fd))
    return TRUE;
  self->handler.undelivered (&wanted, number, self->user_data);
  return refuse_peer (peer, DEAF);
}

/* An answer without a descriptor says that there can be no more links. @pid, @uid: who asked last;
 * 0, NOBODY: not known. Returns: 0; -EAGAIN there is no room for it now; or another negative errno
 */
static int
send_link (Peer *peer, pid_t pid, uid_t uid)
{
  static const SondeControlHeader answer
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  const int on = 1;
  sonde_autofd int ours = -1;
  sonde_autofd int theirs = -1;
  int fds[2];
  int r;

  if (has_link (peer->server, uid) && sonde_socketpair (SOCK_SEQPACKET, fds, NULL))
    {
      ours = fds[0];
      theirs = fds[1];
      if (setsockopt (ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0)
        add_peer (peer->server, sonde_steal_fd (&ours), TRUE, uid, pid);
      else
        sonde_clear_fd (&theirs);
    }
  /* A link that was not delivered hangs up. */
  r = send_with_fd (peer, &answer, sizeof answer, theirs);
  if (r == 0 && theirs < 0)
    peer->server->handler.link_refused (pid, peer->server->user_data);
  return r;
}

static gboolean
on_room (gint fd, GIOCondition condition, gpointer user_data)
{
  Peer *peer = user_data;
  int r = 0;

  for (guint i = 0; i < MESSAGES_A_TURN && peer->n_owed > 0 && r == 0; i++)
    {
      r = send_link (peer, 0, NOBODY);
      peer->n_owed -= r == 0;
    }
  if (peer->n_owed > 0 && (r == 0 || r == -EAGAIN))
    return G_SOURCE_CONTINUE;
  if (r < 0)
    refuse_peer (peer, DEAF);
  peer->room_source = 0;
  return G_SOURCE_REMOVE;
}

/* Whoever waits on a control socket may get any link, so it is enough to know how many are owed. */
static gboolean
answer_link_request (Peer *peer, const Message *message)
{
  int r = peer->n_owed == 0 ? send_link (peer, message->pid, message->uid) : -EAGAIN;

  if (r == 0)
    return TRUE;
  if (r != -EAGAIN || ++peer->n_owed > MAX_OWED)
    {
      g_clear_handle_id (&peer->room_source, g_source_remove);
      return refuse_peer (peer, DEAF);
    }
  if (peer->room_source == 0)
    peer->room_source = g_unix_fd_add (peer->fd, G_IO_OUT, on_room, peer);
  return TRUE;
}

static gboolean
answer_ring_request (Peer *peer, const Message *message)
{
  SondeControlServer *self = peer->server;
  SondeRingWanted wanted
      = { .kind = SONDE_RING_NATIVE, .peer = peer->id, .pid = message->pid, .uid = message->uid };
  SondeControlRingAnswer answer = { .header = message->header };
  guint number = 0;
  sonde_autofd int fd = -1;

  if (message->header.type == SONDE_CONTROL_GROW)
    {
      wanted.size_bytes = message->grow.size_bytes;
      wanted.continues = message->grow.continues;
      wanted.request = message->grow.number;
    }
  else
    {
      wanted.producer = message->ring.producer;
      wanted.size_bytes = message->ring.size_bytes;
      wanted.is_shared = message->ring.tid == 0;
      wanted.request = message->ring.number;
    }
  answer.number = wanted.request;
  if (message->header.type == SONDE_CONTROL_GROW && wanted.continues == 0)
    fd = -EINVAL;
  else
    fd = self->handler.wanted (&wanted, &number, self->user_data);
  if (fd < 0)
    answer.error = fd;
  else
    {
      answer.max_depth = self->terms.max_depth;
      answer.memory_mode
          = wanted.producer == SONDE_PRODUCER_MEMORY ? self->terms.memory_mode : SONDE_MEMORY_OFF;
      answer.memory_interval_bytes = self->terms.memory_interval_bytes;
    }
  if (send_answer (peer, &answer, sizeof answer, fd))
    return TRUE;
  if (fd >= 0)
    self->handler.undelivered (&wanted, number, self->user_data);
  return end_peer (peer, FALSE);
}

/* FALSE: the peer is gone. */
static gboolean
take_message (Peer *peer, const Message *message)
{
  if (peer->is_refused)
    return TRUE;
  if (peer->is_link && is_message (message, SONDE_CONTROL_BELL, sizeof (SondeControlHeader)))
    peer->server->handler.bell (peer->server->user_data);
  else if (peer->is_link
           && (is_message (message, SONDE_CONTROL_RING, sizeof (SondeControlRingRequest))
               || is_message (message, SONDE_CONTROL_GROW, sizeof (SondeControlGrowRequest))))
    return answer_ring_request (peer, message);
  else if (peer->is_link && is_message (message, SONDE_CONTROL_JOIN, sizeof (SondeControlJoin)))
    return TRUE; /* the front has read and answered it, and left it there */
  else if (peer->is_link)
    return end_peer (peer, FALSE);
  else if (message->size_bytes == SONDE_CONTROL_SYSPROF_REQUEST_BYTES
           && memcmp (message->bytes, SONDE_CONTROL_SYSPROF_REQUEST,
                      SONDE_CONTROL_SYSPROF_REQUEST_BYTES)
                  == 0)
    return answer_sysprof (peer, message);
  else if (is_message (message, SONDE_CONTROL_LINK, sizeof (SondeControlHeader)))
    return answer_link_request (peer, message);

  return TRUE;
}

static gboolean
on_readable (gint fd, GIOCondition condition, gpointer user_data)
{
  Peer *peer = user_data;
  struct pollfd polled = { .fd = peer->fd, .events = POLLRDHUP };
  Message message;

  for (guint i = 0; i < MESSAGES_A_TURN; i++)
    {
      receive (peer->fd, &message, 0);
      if (message.size_bytes == -EAGAIN || message.size_bytes == -EINTR)
        return G_SOURCE_CONTINUE;
      if (message.size_bytes == -ECONNRESET)
        continue;
      /* An empty message is no end. */
      if (message.size_bytes < 0
          || (message.size_bytes == 0 && poll (&polled, 1, 0) == 1
              && (polled.revents & (POLLRDHUP | POLLHUP)) != 0))
        return end_peer (peer, TRUE);
      if (message.size_bytes > 0 && !take_message (peer, &message))
        return G_SOURCE_REMOVE;
    }

  return G_SOURCE_CONTINUE;
}
