/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The socket at which systemd starts workers, with one worker kept ready. */
#include "daemon/control/worker/worker-socket.h"

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "daemon/base/error.h"

/* The next spare worker starts when the session that took this one has started. */
#define SPARE_DELAY_MS 500

struct SondeWorkerSocket
{
  char *path;
  int spare; /* -1: none */
  guint spare_watch;
  guint timer;
};

static int
connect_worker (const SondeWorkerSocket *self, GError **error)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  sonde_autofd int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int on = 1;

  g_strlcpy (address.sun_path, self->path, sizeof address.sun_path);
  /* SO_PEERCRED would name systemd, which listens. */
  if (fd < 0 || setsockopt (fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0
      || connect (fd, (struct sockaddr *) &address, sizeof address) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot have a worker from %s", self->path);
      return -1;
    }
  return sonde_steal_fd (&fd);
}

static void
forget_spare (SondeWorkerSocket *self)
{
  g_clear_handle_id (&self->spare_watch, g_source_remove);
  sonde_clear_fd (&self->spare);
}

/* It died. Another one might die as well: it waits until somebody wants one. */
static gboolean
on_spare_closed (int fd, GIOCondition condition, gpointer user_data)
{
  SondeWorkerSocket *self = user_data;

  self->spare_watch = 0;
  forget_spare (self);
  return G_SOURCE_REMOVE;
}

static gboolean
make_spare (gpointer user_data)
{
  SondeWorkerSocket *self = user_data;
  g_autoptr (GError) error = NULL;

  self->timer = 0;
  if (self->spare >= 0)
    return G_SOURCE_REMOVE;
  self->spare = connect_worker (self, &error);
  if (self->spare >= 0)
    self->spare_watch = g_unix_fd_add (self->spare, G_IO_HUP, on_spare_closed, self);
  else
    g_info ("No spare worker: %s", error->message);
  return G_SOURCE_REMOVE;
}

SondeWorkerSocket *
sonde_worker_socket_new (const char *path)
{
  SondeWorkerSocket *self = g_new0 (SondeWorkerSocket, 1);

  self->path = g_strdup (path);
  self->spare = -1;
  make_spare (self);
  return self;
}

void
sonde_worker_socket_free (SondeWorkerSocket *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  forget_spare (self);
  g_free (self->path);
  g_free (self);
}

int
sonde_worker_socket_take (SondeWorkerSocket *self, GError **error)
{
  int fd = sonde_steal_fd (&self->spare);

  forget_spare (self);
  if (self->timer == 0)
    self->timer = g_timeout_add (SPARE_DELAY_MS, make_spare, self);
  return fd >= 0 ? fd : connect_worker (self, error);
}
