/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connections to the sockets of workers and brokers, at which the test listens in systemd's place.
 */
#include "daemon/control/peer/peer-launcher.h"

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

/* Of workers; nobody listens for brokers. */
static SondePeerLauncher *
launcher_new (const char *path)
{
  const char *paths[SONDE_PEER_N_KINDS]
      = { [SONDE_PEER_BROKER] = "/nowhere/broker", [SONDE_PEER_CAPTURE] = path };

  return sonde_peer_launcher_new (paths, NULL);
}

/* --- cases --- */

static void
refuses_where_nobody_listens (void)
{
  g_autoptr (SondePeerLauncher) launcher = launcher_new ("/nowhere/capture");
  struct SondePeerProcess *process;
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (sonde_peer_launcher_take (launcher, SONDE_PEER_CAPTURE, &process, &error), ==,
                   -1);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "/nowhere/capture"));
}

static void
has_one_ready (void)
{
  Listener listener;
  SondePeerLauncher *launcher;
  struct SondePeerProcess *process;
  sonde_autofd int spare = -1;
  sonde_autofd int second = -1;
  sonde_autofd int fd = -1;
  struct pollfd end;

  listener_init (&listener);
  launcher = launcher_new (listener.path);
  spare = listener_accept (&listener);
  g_assert_cmpint (spare, >=, 0);

  fd = sonde_peer_launcher_take (launcher, SONDE_PEER_CAPTURE, &process, NULL);
  g_assert_true (are_connected (fd, spare));
  g_assert_cmpint (listener_accept (&listener), ==, -1);

  second = listener_wait (&listener);
  sonde_peer_launcher_unref (launcher);
  end = (struct pollfd){ .fd = second };
  /* A thread closes it. */
  g_assert_cmpint (poll (&end, 1, 60000), ==, 1);
  g_assert_true ((end.revents & POLLHUP) != 0);
  listener_clear (&listener);
}

static void
names_the_worker_not_the_listener (void)
{
  Listener listener;
  SondePeerLauncher *launcher;
  struct SondePeerProcess *process;
  sonde_autofd int other = -1;
  sonde_autofd int fd = -1;
  int has_credentials = 0;
  socklen_t size_bytes = sizeof has_credentials;

  listener_init (&listener);
  launcher = launcher_new (listener.path);
  other = listener_accept (&listener);
  fd = sonde_peer_launcher_take (launcher, SONDE_PEER_CAPTURE, &process, NULL);
  g_assert_no_errno (getsockopt (fd, SOL_SOCKET, SO_PASSCRED, &has_credentials, &size_bytes));
  g_assert_true (has_credentials);
  sonde_peer_launcher_unref (launcher);
  listener_clear (&listener);
}

static void
replaces_a_dead_spare_when_one_is_wanted (void)
{
  Listener listener;
  SondePeerLauncher *launcher;
  struct SondePeerProcess *process;
  sonde_autofd int other = -1;
  sonde_autofd int fd = -1;
  int dead;

  listener_init (&listener);
  launcher = launcher_new (listener.path);
  dead = listener_accept (&listener);
  sonde_clear_fd (&dead);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpint (listener_accept (&listener), ==, -1);

  fd = sonde_peer_launcher_take (launcher, SONDE_PEER_CAPTURE, &process, NULL);
  other = listener_accept (&listener);
  g_assert_cmpint (other, >=, 0);
  g_assert_true (are_connected (fd, other));
  sonde_peer_launcher_unref (launcher);
  listener_clear (&listener);
}

static gboolean
on_sheet (gpointer user_data)
{
  *(gboolean *) user_data = TRUE;
  return G_SOURCE_REMOVE;
}

/* What a broker says first is known before anybody takes it, who reads it again. */
static void
hears_what_a_spare_broker_says (void)
{
  SondeMessageSheet sheet = { .header = { SONDE_MESSAGE_SHEET, sizeof sheet },
                              .version = SONDE_MESSAGE_VERSION,
                              .events = 5,
                              .tracepoints = 9 };
  const char *paths[SONDE_PEER_N_KINDS] = { [SONDE_PEER_CAPTURE] = "/nowhere/capture" };
  SondePeerLauncher *launcher;
  struct SondePeerProcess *process;
  Listener listener;
  sonde_autofd int other = -1;
  sonde_autofd int fd = -1;
  gboolean is_there = FALSE;

  listener_init (&listener);
  paths[SONDE_PEER_BROKER] = listener.path;
  launcher = sonde_peer_launcher_new (paths, NULL);
  sonde_peer_launcher_await_sheet (launcher, on_sheet, &is_there);
  other = listener_accept (&listener);
  g_assert_no_errno (send (other, &sheet, sizeof sheet, MSG_NOSIGNAL));
  while (!is_there)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (sonde_peer_launcher_sheet (launcher)->events, ==, 5);
  g_assert_cmpuint (sonde_peer_launcher_sheet (launcher)->tracepoints, ==, 9);
  fd = sonde_peer_launcher_take (launcher, SONDE_PEER_BROKER, &process, NULL);
  g_assert_cmpint (recv (fd, &sheet, sizeof sheet, MSG_DONTWAIT), ==, sizeof sheet);
  sonde_peer_launcher_unref (launcher);
  listener_clear (&listener);
}

static void
waits_for_no_word_of_a_broker_that_lies_or_dies (gconstpointer word)
{
  const char *paths[SONDE_PEER_N_KINDS] = { [SONDE_PEER_CAPTURE] = "/nowhere/capture" };
  SondePeerLauncher *launcher;
  Listener listener;
  sonde_autofd int other = -1;
  gboolean is_there = FALSE;

  listener_init (&listener);
  paths[SONDE_PEER_BROKER] = listener.path;
  launcher = sonde_peer_launcher_new (paths, NULL);
  sonde_peer_launcher_await_sheet (launcher, on_sheet, &is_there);
  other = listener_accept (&listener);
  if (word != NULL)
    g_assert_no_errno (send (other, word, strlen (word), MSG_NOSIGNAL));
  else
    sonde_clear_fd (&other);
  while (!is_there)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (sonde_peer_launcher_sheet (launcher)->events, ==, 0);
  sonde_peer_launcher_unref (launcher);
  listener_clear (&listener);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/peer-spare/refuses-where-nobody-listens", refuses_where_nobody_listens);
  g_test_add_func ("/peer-spare/has-one-ready", has_one_ready);
  g_test_add_func ("/peer-spare/names-the-worker-not-the-listener",
                   names_the_worker_not_the_listener);
  g_test_add_func ("/peer-spare/replaces-a-dead-spare-when-one-is-wanted",
                   replaces_a_dead_spare_when_one_is_wanted);
  g_test_add_data_func ("/peer-spare/waits-for-no-word-of-a-broker-that-lies", "I have everything!",
                        waits_for_no_word_of_a_broker_that_lies_or_dies);
  g_test_add_data_func ("/peer-spare/waits-for-no-word-of-a-broker-that-dies", NULL,
                        waits_for_no_word_of_a_broker_that_lies_or_dies);
  g_test_add_func ("/peer-spare/hears-what-a-spare-broker-says", hears_what_a_spare_broker_says);
  return g_test_run ();
}
