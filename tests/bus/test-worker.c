/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What sonded makes of workers that are not ours any more: test-worker SONDED BROKER */
#include <gio/gio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/message.h"
#include "tests/lib/bus-client.h"

#define WORKER_FD 3
#define PEER_FD   5

/* --- the worker: this program, started by sonded --- */

static void
worker_send (SondeMessageType type, gpointer message, gsize size_bytes)
{
  SondeMessageHeader *header = message;

  header->type = type;
  header->size = (uint32_t) size_bytes;
  if (send (WORKER_FD, message, size_bytes, MSG_NOSIGNAL) < 0)
    _exit (1);
}

static void
worker_send_statistics (SondeMessageType type)
{
  SondeMessageStatistics statistics = { 0 };

  worker_send (type, &statistics, sizeof statistics);
}

/* Takes messages up to one of @type; descriptors that come along are lost. */
static void
worker_wait_for (SondeMessageType type)
{
  union
  {
    SondeMessageHeader header;
    char bytes[SONDE_MESSAGE_MAX_SIZE];
  } packet;

  do
    if (recv (WORKER_FD, &packet, sizeof packet, 0) <= 0)
      _exit (1);
  while (packet.header.type != type);
}

static void
worker_start (void)
{
  SondeMessageHello hello = { .version = SONDE_MESSAGE_VERSION, .pid = getpid () };
  SondeMessageRingsMapped mapped = { .n_rings = 1 };

  worker_send (SONDE_MESSAGE_HELLO, &hello, sizeof hello);
  worker_wait_for (SONDE_MESSAGE_RINGS);
  worker_send (SONDE_MESSAGE_RINGS_MAPPED, &mapped, sizeof mapped);
  worker_wait_for (SONDE_MESSAGE_START);
}

static void
worker_drain (void)
{
  worker_wait_for (SONDE_MESSAGE_STOP);
  worker_send_statistics (SONDE_MESSAGE_DRAINED);
}

static void
worker_leaves_a_child (void)
{
  worker_start ();
  if (fork () == 0)
    sleep (60);
}

static void
worker_stays_behind (void)
{
  worker_start ();
  worker_drain ();
  worker_send_statistics (SONDE_MESSAGE_FINISHED);
  for (;;)
    pause ();
}

/* Longer than Stop may take, sonded does not move, and the answer waits behind much else. */
static void
worker_answers_behind_others (void)
{
  pid_t sonded = bus_parent (getppid ()); /* our parent is its spawner */

  worker_start ();
  worker_wait_for (SONDE_MESSAGE_STOP);
  kill (sonded, SIGSTOP);
  for (guint i = 0; i < 100; i++)
    worker_send_statistics (SONDE_MESSAGE_STATISTICS);
  worker_send_statistics (SONDE_MESSAGE_DRAINED);
  g_usleep ((SONDE_LIMIT_DRAIN_MS + 500) * 1000);
  kill (sonded, SIGCONT);
  worker_send_statistics (SONDE_MESSAGE_FINISHED);
}

static const struct
{
  const char *name;
  void (*run) (void);
} workers[] = {
  { "answers-behind-others", worker_answers_behind_others },
  { "leaves-a-child", worker_leaves_a_child },
  { "stays-behind", worker_stays_behind },
};

static void
worker_main (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (workers); i++)
    if (g_strcmp0 (g_getenv ("TEST_WORKER"), workers[i].name) == 0)
      workers[i].run ();
  _exit (0);
}

/* --- the client of a private sonded --- */

static const char *sonded_path;
static const char *broker_path;

typedef struct
{
  pid_t pid;
  GDBusConnection *bus;
  char *session;
  int capture;
  char *reason;
} Daemon;

static void
exec_sonded (const char *worker, int fd)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *broker_option = g_strconcat ("--broker=", broker_path, NULL);
  g_autofree char *worker_option = g_strconcat ("--worker=", self, NULL);
  g_autofree char *peer_option = g_strdup_printf ("--peer-fd=%d", PEER_FD);

  g_setenv ("TEST_WORKER", worker, TRUE);
  if (dup2 (fd, PEER_FD) == PEER_FD)
    execl (sonded_path, sonded_path, peer_option, broker_option, worker_option, NULL);
  _exit (127);
}

static void
take_finished (GDBusConnection *bus,
               const char *sender,
               const char *path,
               const char *interface,
               const char *signal,
               GVariant *arguments,
               gpointer user_data)
{
  Daemon *self = user_data;

  g_assert_null (self->reason);
  g_variant_get_child (arguments, 0, "s", &self->reason);
}

static void
daemon_connect (Daemon *self, int fd)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSocket) socket = g_socket_new_from_fd (fd, &error);
  g_autoptr (GSocketConnection) stream = NULL;

  g_assert_no_error (error);
  stream = g_socket_connection_factory_create_connection (socket);
  self->bus = g_dbus_connection_new_sync (G_IO_STREAM (stream), NULL,
                                          G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT, NULL, NULL,
                                          &error);
  g_assert_no_error (error);
  g_dbus_connection_set_exit_on_close (self->bus, FALSE);
  g_dbus_connection_signal_subscribe (self->bus, NULL, "org.sonde.Profiler1.Session", "Finished",
                                      NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE, take_finished, self,
                                      NULL);
}

/* A session that waits for its first process needs no right to anything. */
static void
daemon_init (Daemon *self, const char *worker)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  int sockets[2];

  *self = (Daemon){ .capture = -1 };
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
  self->pid = fork ();
  g_assert_cmpint (self->pid, >=, 0);
  if (self->pid == 0)
    exec_sonded (worker, sockets[1]);
  close (sockets[1]);
  daemon_connect (self, sockets[0]);

  answer = g_dbus_connection_call_with_unix_fd_list_sync (
      self->bus, NULL, "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager", "Profile",
      g_variant_new_parsed ("({'launch': <true>, 'event': <'none'>},)"), G_VARIANT_TYPE ("(oh)"),
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &fds, NULL, &error);
  g_assert_no_error (error);
  g_variant_get (answer, "(oh)", &self->session, NULL);
  self->capture = g_unix_fd_list_get (fds, 0, &error);
  g_assert_no_error (error);
}

static void
daemon_clear (Daemon *self)
{
  int status;

  g_dbus_connection_close_sync (self->bus, NULL, NULL);
  g_assert_cmpint (waitpid (self->pid, &status, 0), ==, self->pid);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
  close (self->capture);
  g_clear_object (&self->bus);
  g_free (self->session);
  g_free (self->reason);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Daemon, daemon_clear)

static gboolean
has_finished (gpointer user_data)
{
  return ((Daemon *) user_data)->reason != NULL;
}

static void
stop (Daemon *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      self->bus, NULL, self->session, "org.sonde.Profiler1.Session", "Stop", NULL, NULL,
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (answer);
}

/* Its parent is dead: it has become ours. */
static void
end_orphan (pid_t sonded)
{
  g_autoptr (GArray) children = bus_list_children (getpid ());

  for (guint i = 0; i < children->len; i++)
    if (g_array_index (children, pid_t, i) != sonded)
      bus_end (g_array_index (children, pid_t, i), SIGKILL);
}

static void
test_leaves_a_child (void)
{
  g_auto (Daemon) daemon = { 0 };

  g_assert_cmpint (prctl (PR_SET_CHILD_SUBREAPER, 1), ==, 0);
  daemon_init (&daemon, "leaves-a-child");
  bus_wait (has_finished, &daemon,
            "the end of a session whose worker's child keeps the connection");
  g_assert_cmpstr (daemon.reason, ==, "The worker exited with status 0");
  end_orphan (daemon.pid);
}

static void
test_stays_behind (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GArray) left = NULL;

  daemon_init (&daemon, "stays-behind");
  stop (&daemon);
  bus_wait (has_finished, &daemon, "the end of a session whose worker says so and stays");
  g_assert_cmpstr (daemon.reason, ==, "stopped");
  left = bus_list_workers (daemon.pid);
  g_assert_cmpuint (left->len, ==, 0);
}

static void
test_answers_behind_others (void)
{
  g_auto (Daemon) daemon = { 0 };

  daemon_init (&daemon, "answers-behind-others");
  stop (&daemon);
  bus_wait (has_finished, &daemon, "the end of a session whose worker has answered in time");
  g_assert_cmpstr (daemon.reason, ==, "stopped");
}

int
main (int argc, char **argv)
{
  if (argc >= 2 && g_str_equal (argv[1], "--fd=3"))
    worker_main ();
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 3);
  sonded_path = argv[1];
  broker_path = argv[2];

#define ADD(path, function) g_test_add_func ("/worker/" path, function)
  ADD ("whose-child-keeps-the-connection-is-gone", test_leaves_a_child);
  ADD ("that-stays-after-the-end-is-killed", test_stays_behind);
  ADD ("that-has-answered-is-not-late-because-sonded-is", test_answers_behind_others);
#undef ADD
  return g_test_run ();
}
