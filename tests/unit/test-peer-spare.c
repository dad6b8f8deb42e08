/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connections to the socket of workers, at which the test listens in systemd's place. */
#include "daemon/control/peer/peer-socket.h"

#include <glib/gstdio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "daemon/base/error.h"

typedef struct
{
  char *folder;
  char *path;
  int fd;
} Listener;

static void
listener_init (Listener *self)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };

  self->folder = g_dir_make_tmp (NULL, NULL);
  self->path = g_build_filename (self->folder, "capture", NULL);
  g_strlcpy (address.sun_path, self->path, sizeof address.sun_path);
  self->fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  g_assert_no_errno (bind (self->fd, (struct sockaddr *) &address, sizeof address));
  g_assert_no_errno (listen (self->fd, 8));
}

static void
listener_close (Listener *self)
{
  sonde_clear_fd (&self->fd);
  g_unlink (self->path);
}

static void
listener_clear (Listener *self)
{
  listener_close (self);
  g_rmdir (self->folder);
  g_free (self->path);
  g_free (self->folder);
}

/* Returns: the other end of the next connection, or -1 if there is none */
static int
listener_accept (Listener *self)
{
  return accept4 (self->fd, NULL, NULL, SOCK_CLOEXEC);
}

/* The next spare worker comes a while after one was taken. */
static int
listener_wait (Listener *self)
{
  int fd;

  while ((fd = listener_accept (self)) < 0)
    g_main_context_iteration (NULL, TRUE);
  return fd;
}

static gboolean
are_connected (int fd, int other_fd)
{
  char byte;

  g_assert_no_errno (send (other_fd, "x", 1, MSG_NOSIGNAL));
  return recv (fd, &byte, 1, MSG_DONTWAIT) == 1;
}

/* --- cases --- */

static void
refuses_where_nobody_listens (void)
{
  g_autoptr (SondePeerSocket) socket = sonde_peer_socket_new ("/nowhere/capture");
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (sonde_peer_socket_take (socket, &error), ==, -1);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "/nowhere/capture"));
}

static void
has_one_ready (void)
{
  Listener listener;
  SondePeerSocket *socket;
  sonde_autofd int spare = -1;
  sonde_autofd int second = -1;
  sonde_autofd int fd = -1;
  struct pollfd end;

  listener_init (&listener);
  socket = sonde_peer_socket_new (listener.path);
  spare = listener_accept (&listener);
  g_assert_cmpint (spare, >=, 0);

  fd = sonde_peer_socket_take (socket, NULL);
  g_assert_true (are_connected (fd, spare));
  g_assert_cmpint (listener_accept (&listener), ==, -1);

  second = listener_wait (&listener);
  sonde_peer_socket_free (socket);
  end = (struct pollfd){ .fd = second };
  g_assert_cmpint (poll (&end, 1, 0), ==, 1);
  g_assert_true ((end.revents & POLLHUP) != 0);
  listener_clear (&listener);
}

static void
names_the_worker_not_the_listener (void)
{
  Listener listener;
  SondePeerSocket *socket;
  sonde_autofd int other = -1;
  sonde_autofd int fd = -1;
  int has_credentials = 0;
  socklen_t size_bytes = sizeof has_credentials;

  listener_init (&listener);
  socket = sonde_peer_socket_new (listener.path);
  other = listener_accept (&listener);
  fd = sonde_peer_socket_take (socket, NULL);
  g_assert_no_errno (getsockopt (fd, SOL_SOCKET, SO_PASSCRED, &has_credentials, &size_bytes));
  g_assert_true (has_credentials);
  sonde_peer_socket_free (socket);
  listener_clear (&listener);
}

static void
replaces_a_dead_spare_when_one_is_wanted (void)
{
  Listener listener;
  SondePeerSocket *socket;
  sonde_autofd int other = -1;
  sonde_autofd int fd = -1;
  int dead;

  listener_init (&listener);
  socket = sonde_peer_socket_new (listener.path);
  dead = listener_accept (&listener);
  sonde_clear_fd (&dead);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpint (listener_accept (&listener), ==, -1);

  fd = sonde_peer_socket_take (socket, NULL);
  other = listener_accept (&listener);
  g_assert_cmpint (other, >=, 0);
  g_assert_true (are_connected (fd, other));
  sonde_peer_socket_free (socket);
  listener_clear (&listener);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/peer-socket/refuses-where-nobody-listens", refuses_where_nobody_listens);
  g_test_add_func ("/peer-socket/has-one-ready", has_one_ready);
  g_test_add_func ("/peer-socket/names-the-worker-not-the-listener",
                   names_the_worker_not_the_listener);
  g_test_add_func ("/peer-socket/replaces-a-dead-spare-when-one-is-wanted",
                   replaces_a_dead_spare_when_one_is_wanted);
  return g_test_run ();
}
