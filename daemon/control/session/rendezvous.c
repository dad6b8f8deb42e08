/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/rendezvous.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/quota.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define NAME_BYTES 16 /* random ones, of an abstract address */
#define BACKLOG    4096

/* A guest who has not answered yet. */
typedef struct
{
  SondeRendezvous *rendezvous;
  SondeGuest *guest;
  guint8 nonce[SONDE_CONTROL_NONCE_BYTES];
  gint64 since_us;
  guint source;
  guint deadline;
} Visit;

struct SondeRendezvous
{
  int fd;
  char *address; /* "@NAME" of an abstract one, else a path */
  const SondeRendezvousHandler *handler;
  gpointer user_data;
  guint source;
  guint rest;         /* until connections are taken again */
  GHashTable *visits; /* Visit, of themselves */
  SondeUidRate *rate;
};

/* --- guests --- */

void
sonde_guest_free (SondeGuest *self)
{
  char byte;

  if (self == NULL)
    return;
  /* Where nothing came nothing can wait: no thread is needed that closes it. */
  if (self->fd >= 0 && shutdown (self->fd, SHUT_RDWR) == 0
      && recv (self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
    sonde_clear_fd (&self->fd);
  sonde_closer_clear (&self->fd);
  sonde_clear_fd (&self->pidfd);
  g_free (self);
}

/* Source: pidfd_open(2): readable once the process has ended */
gboolean
sonde_guest_is_alive (const SondeGuest *self)
{
  struct pollfd polled = { .fd = self->pidfd, .events = POLLIN };

  return poll (&polled, 1, 0) == 0;
}

static gboolean
say (const SondeGuest *guest, gconstpointer bytes, gsize size_bytes)
{
  return send (guest->fd, bytes, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (gssize) size_bytes;
}

gboolean
sonde_guest_answer (const SondeGuest *self, int error)
{
  const SondeControlJoinAnswer answer
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_JOIN },
          .error = error };

  return say (self, &answer, sizeof answer);
}

/* @fd: (transfer full). NULL: the kernel does not say who it is, or not any more */
static SondeGuest *
guest_new (int fd)
{
  SondeGuest *self = g_new0 (SondeGuest, 1);
  socklen_t size_bytes = sizeof self->pidfd;
  struct ucred credentials;
  const int on = 1;

  self->fd = fd;
  self->pidfd = -1;
  if (getsockopt (fd, SOL_SOCKET, SO_PEERPIDFD, &self->pidfd, &size_bytes) < 0)
    self->pidfd = -1;
  size_bytes = sizeof credentials;
  if (setsockopt (fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0
      && getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes) == 0
      && credentials.pid > 0)
    {
      self->pid = credentials.pid;
      self->uid = credentials.uid;
      if (self->pidfd < 0)
        self->pidfd = (int) syscall (SYS_pidfd_open, credentials.pid, 0);
    }
  if (self->pidfd >= 0 && self->pid > 0)
    return self;
  sonde_guest_free (self);
  return NULL;
}

/* --- visits --- */

static void
visit_free (gpointer data)
{
  Visit *visit = data;

  g_clear_handle_id (&visit->source, g_source_remove);
  g_clear_handle_id (&visit->deadline, g_source_remove);
  sonde_guest_free (visit->guest);
  g_free (visit);
}

/* What lies there, without taking it. Returns: whether it is his JOIN. The kernel tells who has
 * sent it, and has no room to give us a descriptor. */
static gboolean
read_join (const Visit *visit, SondeControlJoin *join)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec iov = { join, sizeof *join };
  struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  gssize n = recvmsg (visit->guest->fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *first = n == (gssize) sizeof *join ? CMSG_FIRSTHDR (&message) : NULL;
  struct ucred credentials;

  if (first == NULL || (message.msg_flags & MSG_TRUNC) != 0 || first->cmsg_level != SOL_SOCKET
      || first->cmsg_type != SCM_CREDENTIALS || first->cmsg_len != CMSG_LEN (sizeof (struct ucred)))
    return FALSE;
  memcpy (&credentials, CMSG_DATA (first), sizeof credentials);
  return credentials.pid == visit->guest->pid && join->header.magic == SONDE_CONTROL_MAGIC
         && join->header.version == SONDE_CONTROL_VERSION && join->header.type == SONDE_CONTROL_JOIN
         && memcmp (join->nonce, visit->nonce, sizeof join->nonce) == 0;
}

static gboolean
on_readable (gint fd, GIOCondition condition, gpointer user_data)
{
  Visit *visit = user_data;
  SondeRendezvous *self = visit->rendezvous;
  static const guint8 no_key[SONDE_CONTROL_KEY_BYTES];
  SondeControlJoin join;

  visit->source = 0;
  if (read_join (visit, &join) && sonde_guest_is_alive (visit->guest))
    {
      SondeGuest *guest = g_steal_pointer (&visit->guest);

      memcpy (guest->key, join.key, sizeof guest->key);
      guest->is_called = memcmp (join.key, no_key, sizeof no_key) == 0;
      self->handler->met (guest, self->user_data);
    }
  g_hash_table_remove (self->visits, visit);
  return G_SOURCE_REMOVE;
}

static gboolean
on_deadline (gpointer user_data)
{
  Visit *visit = user_data;

  visit->deadline = 0;
  g_hash_table_remove (visit->rendezvous->visits, visit);
  return G_SOURCE_REMOVE;
}

/* Who may not come in is not told why: the connection ends. A user may have as many uids as there
 * are places, so that the first one of another uid takes the place of who has kept his for longest:
 * who wants to come in answers at once. */
static gboolean
has_place (SondeRendezvous *self, uid_t uid)
{
  gint64 now_us = g_get_monotonic_time ();
  guint n_own = 0;
  GHashTableIter iter;
  gpointer visit;
  Visit *oldest = NULL;

  if (!sonde_uid_rate_has_room (self->rate, uid, now_us))
    return FALSE;
  sonde_uid_rate_count (self->rate, uid, now_us);
  g_hash_table_iter_init (&iter, self->visits);
  while (g_hash_table_iter_next (&iter, &visit, NULL))
    {
      n_own += ((const Visit *) visit)->guest->uid == uid;
      if (oldest == NULL || ((const Visit *) visit)->since_us < oldest->since_us)
        oldest = visit;
    }
  if (n_own == 0 && g_hash_table_size (self->visits) >= SONDE_LIMIT_GUESTS - 1)
    return g_hash_table_remove (self->visits, oldest);
  return n_own < sonde_quota_share (SONDE_LIMIT_GUESTS, g_hash_table_size (self->visits) - n_own);
}

/* @fd: (transfer full) */
static void
take_connection (SondeRendezvous *self, int fd)
{
  SondeControlNonce nonce
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_NONCE } };
  g_autoptr (SondeGuest) guest = guest_new (fd);
  Visit *visit;

  if (guest == NULL)
    return;
  if (!has_place (self, guest->uid))
    {
      self->handler->turned_away (guest->uid, self->user_data);
      return;
    }
  if (getrandom (nonce.nonce, sizeof nonce.nonce, GRND_NONBLOCK) != sizeof nonce.nonce
      || !say (guest, &nonce, sizeof nonce))
    return;
  visit = g_new0 (Visit, 1);
  visit->rendezvous = self;
  visit->since_us = g_get_monotonic_time ();
  visit->guest = g_steal_pointer (&guest);
  memcpy (visit->nonce, nonce.nonce, sizeof visit->nonce);
  visit->source = g_unix_fd_add (fd, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, visit);
  visit->deadline = g_timeout_add (SONDE_LIMIT_GUEST_MS, on_deadline, visit);
  g_hash_table_add (self->visits, visit);
}

static gboolean on_connections (gint fd, GIOCondition condition, gpointer user_data);

static gboolean
on_rested (gpointer user_data)
{
  SondeRendezvous *self = user_data;

  self->rest = 0;
  self->source = g_unix_fd_add (self->fd, G_IO_IN, on_connections, self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_connections (gint listener, GIOCondition condition, gpointer user_data)
{
  SondeRendezvous *self = user_data;
  gboolean has_room = sonde_closer_n_waiting () < SONDE_LIMIT_GUESTS_LEAVING;

  for (guint i = 0; i < SONDE_LIMIT_GUESTS_A_TURN && has_room; i++)
    {
      int fd = accept4 (listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

      if (fd >= 0)
        take_connection (self, fd);
      else if (errno == EAGAIN)
        break;
      else if (errno != EINTR && errno != ECONNABORTED)
        has_room = FALSE;
    }
  if (has_room)
    return G_SOURCE_CONTINUE;
  self->source = 0;
  self->rest = g_timeout_add (SONDE_LIMIT_GUEST_REST_MS, on_rested, self);
  return G_SOURCE_REMOVE;
}

/* --- the place --- */

static char *
make_hex (gsize n_bytes)
{
  guint8 bytes[64];
  GString *text = g_string_new (NULL);

  g_assert (n_bytes <= sizeof bytes);
  if (getrandom (bytes, n_bytes, 0) != (gssize) n_bytes)
    g_error ("There are no random numbers"); /* since the machine has started there are */
  for (gsize i = 0; i < n_bytes; i++)
    g_string_append_printf (text, "%02x", bytes[i]);
  return g_string_free (text, FALSE);
}

char *
sonde_rendezvous_make_key (void)
{
  return make_hex (SONDE_CONTROL_KEY_BYTES);
}

int
sonde_rendezvous_listen (GError **error)
{
  sonde_autofd int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  g_autofree char *name = make_hex (NAME_BYTES);
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  gsize size_bytes;

  size_bytes
      = offsetof (struct sockaddr_un, sun_path) + 1
        + (gsize) g_snprintf (address.sun_path + 1, sizeof address.sun_path - 1, "sonde/%s", name);
  if (fd < 0 || bind (fd, (const struct sockaddr *) &address, (socklen_t) size_bytes) < 0
      || listen (fd, BACKLOG) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot listen for programs");
      return -1;
    }
  return sonde_steal_fd (&fd);
}

/* Returns: (transfer full): NULL: it is no socket that programs can come to */
static char *
name_address (int fd)
{
  union
  {
    struct sockaddr any;
    struct sockaddr_un unix_address;
    char space[sizeof (struct sockaddr_un) + 1]; /* a path may be as long as its place */
  } address = { .space = { 0 } };
  socklen_t size_bytes = sizeof address.unix_address;
  const char *path = address.unix_address.sun_path;
  socklen_t type_bytes = sizeof (int);
  int type = 0;

  if (getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) < 0 || type != SOCK_SEQPACKET
      || getsockname (fd, &address.any, &size_bytes) < 0 || address.any.sa_family != AF_UNIX
      || size_bytes <= offsetof (struct sockaddr_un, sun_path))
    return NULL;
  return path[0] == '\0' ? g_strconcat ("@", path + 1, NULL) : g_strdup (path);
}

SondeRendezvous *
sonde_rendezvous_new (int fd,
                      const SondeRendezvousHandler *handler,
                      gpointer user_data,
                      GError **error)
{
  g_autofree char *address = name_address (fd);
  SondeRendezvous *self;

  if (address == NULL || !g_unix_set_fd_nonblocking (fd, TRUE, NULL))
    {
      close (fd);
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "Programs cannot come to this socket");
      return NULL;
    }
  self = g_new0 (SondeRendezvous, 1);
  self->fd = fd;
  self->address = g_steal_pointer (&address);
  self->handler = handler;
  self->user_data = user_data;
  self->visits = g_hash_table_new_full (NULL, NULL, visit_free, NULL);
  self->rate = sonde_uid_rate_new (SONDE_LIMIT_GUEST_BURST, SONDE_LIMIT_GUEST_INTERVAL_US);
  self->source = g_unix_fd_add (fd, G_IO_IN, on_connections, self);
  return self;
}

void
sonde_rendezvous_free (SondeRendezvous *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->source, g_source_remove);
  g_clear_handle_id (&self->rest, g_source_remove);
  g_hash_table_unref (self->visits);
  sonde_uid_rate_free (self->rate);
  sonde_clear_fd (&self->fd);
  g_free (self->address);
  g_free (self);
}

const char *
sonde_rendezvous_address (const SondeRendezvous *self)
{
  return self->address;
}

char *
sonde_rendezvous_describe (const SondeRendezvous *self, const char *key)
{
  return g_strdup_printf ("%s:%s", self->address, key);
}

gboolean
sonde_rendezvous_has_key (const char *description, const guint8 key[SONDE_CONTROL_KEY_BYTES])
{
  const char *digits = description != NULL ? strrchr (description, ':') : NULL;
  guint8 difference = 0;

  if (digits == NULL || strlen (digits + 1) != (gsize) 2 * SONDE_CONTROL_KEY_BYTES)
    return FALSE;
  for (gsize i = 0; i < SONDE_CONTROL_KEY_BYTES; i++)
    difference |= (guint8) (g_ascii_xdigit_value (digits[1 + 2 * i]) << 4
                            | g_ascii_xdigit_value (digits[2 + 2 * i]))
                  ^ key[i];
  return difference == 0;
}
