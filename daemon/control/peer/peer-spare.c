/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-spare.h"

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/socket.h"

/* The next spare one starts when the session that took this one has started. */
#define SPARE_DELAY_MS 500

struct SondePeerSpare
{
  SondePeerLauncher *launcher;
  SondePeerKind kind;
  char *socket_path;         /* NULL: they are spawned */
  int fd;                    /* of the spare; -1: there is none */
  SondePeerProcess *process; /* of a spawned one */
  guint watch;
  guint timer;
};

static int
connect_one (const SondePeerSpare *self, GError **error)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  sonde_autofd int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int on = 1;

  g_strlcpy (address.sun_path, self->socket_path, sizeof address.sun_path);
  /* SO_PEERCRED would name systemd, which listens. */
  if (fd < 0 || setsockopt (fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0
      || connect (fd, (struct sockaddr *) &address, sizeof address) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot have a %s from %s",
                             sonde_peer_kind_row (self->kind)->name, self->socket_path);
      return -1;
    }
  return sonde_steal_fd (&fd);
}

static int
make (const SondePeerSpare *self, SondePeerProcess **process, GError **error)
{
  int fds[2];

  *process = NULL;
  if (self->socket_path != NULL)
    return connect_one (self, error);
  if (!sonde_socketpair (SOCK_SEQPACKET, fds, error))
    return -1;
  *process = sonde_peer_process_new (self->launcher, self->kind, fds[1], error);
  if (*process != NULL)
    return fds[0];
  close (fds[0]);
  return -1;
}

static void
forget_spare (SondePeerSpare *self)
{
  g_clear_handle_id (&self->watch, g_source_remove);
  sonde_closer_clear (&self->fd);
  g_clear_pointer (&self->process, sonde_peer_process_free);
}

/* It died. Another one might die as well: it waits until somebody wants one. */
static gboolean
on_spare_closed (int fd, GIOCondition condition, gpointer user_data)
{
  SondePeerSpare *self = user_data;

  self->watch = 0;
  forget_spare (self);
  if (self->kind == SONDE_PEER_BROKER)
    sonde_peer_launcher_take_sheet (self->launcher, NULL);
  return G_SOURCE_REMOVE;
}

/* Whoever takes it reads it, and refuses what is no sheet. */
static gboolean
on_first_word (int fd, GIOCondition condition, gpointer user_data)
{
  SondePeerSpare *self = user_data;
  SondeMessageSheet sheet;
  gssize n = recv (fd, &sheet, sizeof sheet, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  const char *why;

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    return on_spare_closed (fd, condition, self);
  if (n == sizeof sheet
      && sonde_message_check (&sheet, sizeof sheet, 0, SONDE_WAY_BROKER_TO_FRONT, &why) == 0
      && sheet.header.type == SONDE_MESSAGE_SHEET)
    sonde_peer_launcher_take_sheet (self->launcher, &sheet);
  else
    sonde_peer_launcher_take_sheet (self->launcher, NULL);
  self->watch = g_unix_fd_add (fd, G_IO_HUP, on_spare_closed, self);
  return G_SOURCE_REMOVE;
}

static gboolean
make_spare (gpointer user_data)
{
  SondePeerSpare *self = user_data;
  g_autoptr (GError) error = NULL;

  self->timer = 0;
  if (self->fd >= 0)
    return G_SOURCE_REMOVE;
  self->fd = make (self, &self->process, &error);
  if (self->fd < 0)
    g_info ("No spare %s: %s", sonde_peer_kind_row (self->kind)->name, error->message);
  else if (self->kind == SONDE_PEER_BROKER)
    self->watch = g_unix_fd_add (self->fd, G_IO_IN | G_IO_HUP, on_first_word, self);
  else
    self->watch = g_unix_fd_add (self->fd, G_IO_HUP, on_spare_closed, self);
  return G_SOURCE_REMOVE;
}

SondePeerSpare *
sonde_peer_spare_new (SondePeerLauncher *launcher, SondePeerKind kind, const char *socket_path)
{
  SondePeerSpare *self = g_new0 (SondePeerSpare, 1);

  self->launcher = launcher;
  self->kind = kind;
  self->socket_path = g_strdup (socket_path);
  self->fd = -1;
  if (socket_path != NULL || kind == SONDE_PEER_BROKER)
    make_spare (self);
  return self;
}

void
sonde_peer_spare_free (SondePeerSpare *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  forget_spare (self);
  g_free (self->socket_path);
  g_free (self);
}

gboolean
sonde_peer_spare_is_there (const SondePeerSpare *self)
{
  return self->fd >= 0;
}

int
sonde_peer_spare_take (SondePeerSpare *self, SondePeerProcess **process, GError **error)
{
  int fd = sonde_steal_fd (&self->fd);

  *process = g_steal_pointer (&self->process);
  forget_spare (self);
  if (self->socket_path != NULL && self->timer == 0)
    self->timer = g_timeout_add (SPARE_DELAY_MS, make_spare, self);
  return fd >= 0 ? fd : make (self, process, error);
}
