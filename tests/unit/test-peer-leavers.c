/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Brokers that were told to end and do not: children of ours, which systemd knows nothing about. */
#include "daemon/control/peer/peer-leavers.h"

#include <gio/gunixsocketaddress.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"

#define UID   1000
#define OTHER 1001

/* --- a systemd that knows no process --- */

typedef struct
{
  SondeBusConnectionReply reply;
  gpointer user_data;
} Question;

static gboolean
on_asked (gpointer data)
{
  g_autofree Question *question = data;
  g_autoptr (GError) error = g_error_new (G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "No such unit");

  question->reply (NULL, error, question->user_data);
  return G_SOURCE_REMOVE;
}

void
sonde_bus_connection_call (SondeBusConnection *self,
                           const SondeBusConnectionCall *call,
                           SondeBusConnectionReply reply,
                           gpointer user_data)
{
  Question question = { reply, user_data };

  if (call->arguments != NULL)
    g_variant_unref (g_variant_ref_sink (call->arguments));
  if (reply != NULL)
    g_idle_add (on_asked, g_memdup2 (&question, sizeof question));
}

SondeSubscription *
sonde_bus_connection_subscribe (SondeBusConnection *self,
                                const char *match,
                                SondeBusConnectionSignal signal,
                                gpointer user_data)
{
  g_assert_not_reached ();
}

void
sonde_bus_connection_unsubscribe (SondeSubscription *self)
{
}

/* --- the fd store --- */

typedef struct
{
  char *path;
  int socket;
  SondeOutbox *outbox;
  SondeFdStore *store;
  SondePeerLauncher *launcher;
  SondePeerLeavers *leavers;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  const char *const paths[SONDE_PEER_N_KINDS] = { "/nowhere/broker", "/nowhere/worker" };
  g_autofree char *folder = g_dir_make_tmp ("sonde-leavers-XXXXXX", NULL);
  g_autoptr (GSocketAddress) address = NULL;
  char native[256];

  fixture->path = g_build_filename (folder, "notify", NULL);
  address = g_unix_socket_address_new (fixture->path);
  g_assert_true (g_socket_address_to_native (address, native, sizeof native, NULL));
  fixture->socket = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  g_assert_cmpint (bind (fixture->socket, (struct sockaddr *) (void *) native,
                         (socklen_t) g_socket_address_get_native_size (address)),
                   ==, 0);
  fixture->outbox = sonde_outbox_new (fixture->path);
  fixture->store = sonde_fd_store_new (fixture->outbox);
  fixture->launcher = sonde_peer_launcher_new (paths, NULL);
  fixture->leavers = sonde_peer_leavers_new (fixture->launcher, fixture->store);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  g_autofree char *folder = g_path_get_dirname (fixture->path);

  sonde_peer_leavers_free (fixture->leavers);
  sonde_peer_launcher_unref (fixture->launcher);
  sonde_fd_store_free (fixture->store);
  sonde_outbox_free (fixture->outbox);
  close (fixture->socket);
  unlink (fixture->path);
  rmdir (folder);
  g_free (fixture->path);
}

static void
assert_told (Fixture *fixture, const char *what, const char *name)
{
  g_autofree char *expected = g_strdup_printf ("%s\nFDNAME=%s", what, name);
  char text[256] = "";

  g_assert_cmpint (recv (fixture->socket, text, sizeof text - 1, 0), >, 0);
  g_assert_cmpstr (text, ==, expected);
}

/* --- children --- */

static pid_t
start_child (void)
{
  pid_t child = fork ();

  if (child == 0)
    for (;;)
      pause ();
  g_assert_cmpint (child, >, 0);
  return child;
}

static void
end_child (pid_t child)
{
  kill (child, SIGKILL);
  g_assert_cmpint (waitpid (child, NULL, 0), ==, child);
}

static void
assert_counts (Fixture *fixture, uid_t uid, guint expected, guint expected_stuck)
{
  guint n_stuck;

  g_assert_cmpuint (sonde_peer_leavers_count (fixture->leavers, uid, &n_stuck), ==, expected);
  g_assert_cmpuint (n_stuck, ==, expected_stuck);
}

/* systemd, which does not know it, is not waited for. */
static void
wait_until_empty (Fixture *fixture)
{
  gint64 start_us = g_get_monotonic_time ();

  while (!sonde_peer_leavers_is_empty (fixture->leavers))
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpint (g_get_monotonic_time () - start_us, <, SONDE_LIMIT_PEER_EXIT_MS * 1000 / 2);
}

/* --- cases --- */

static pid_t left_child; /* of the sonded before: what main() puts into its store */
static char *left_name;

static void
count_for_the_next_sonded (Fixture *fixture, gconstpointer data)
{
  sonde_peer_leavers_adopt (fixture->leavers);
  assert_counts (fixture, UID, 1, 1);
  assert_counts (fixture, OTHER, 0, 0);
  /* Those that are none; what is of a session is not theirs. */
  assert_told (fixture, "FDSTOREREMOVE=1", "broker.1001.99999999");
  assert_told (fixture, "FDSTOREREMOVE=1", "something");
  end_child (left_child);
  wait_until_empty (fixture);
  assert_told (fixture, "FDSTOREREMOVE=1", left_name);
  assert_counts (fixture, UID, 0, 0);
}

static void
nothing (SondePeer *peer, const char *how, gpointer user_data)
{
}

static void
count_at_once_and_are_kept (Fixture *fixture, gconstpointer data)
{
  static const SondePeerHandler handler = { .gone = nothing };
  pid_t child = start_child ();
  g_autofree char *name = g_strdup_printf ("broker.%d.%d", UID, child);
  sonde_autofd int other = -1;
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
  other = fds[1];
  sonde_peer_leavers_take (
      fixture->leavers,
      sonde_peer_adopt (fixture->launcher, SONDE_PEER_BROKER, fds[0], child, &handler, NULL), UID);
  assert_counts (fixture, UID, 1, 0);
  assert_told (fixture, "FDSTORE=1\nFDPOLL=0", name);
  /* It has been killed by then, as far as we can. */
  for (guint n_stuck = 0; n_stuck == 0;)
    {
      g_main_context_iteration (NULL, TRUE);
      sonde_peer_leavers_count (fixture->leavers, UID, &n_stuck);
    }
  assert_counts (fixture, UID, 1, 1);
  end_child (child);
  wait_until_empty (fixture);
  assert_told (fixture, "FDSTOREREMOVE=1", name);
}

/* As descriptors 3 and up, before anything else is opened. */
static void
leave_to_ourselves (void)
{
  g_autofree char *pid = g_strdup_printf ("%d", getpid ());
  g_autofree char *names = NULL;

  left_child = start_child ();
  left_name = g_strdup_printf ("broker.%d.%d", UID, left_child);
  names = g_strdup_printf ("%s:broker.1001.99999999:something:3.worker", left_name);
  for (int i = 0; i < 4; i++)
    g_assert_cmpint (syscall (SYS_pidfd_open, left_child, 0), ==, 3 + i);
  g_setenv ("LISTEN_PID", pid, TRUE);
  g_setenv ("LISTEN_FDS", "4", TRUE);
  g_setenv ("LISTEN_FDNAMES", names, TRUE);
}

int
main (int argc, char **argv)
{
  (void) syscall (SYS_close_range, 3u, ~0u, 0);
  leave_to_ourselves ();
  g_test_init (&argc, &argv, NULL);
  /* That systemd does not know a unit is told. */
  g_log_set_always_fatal (G_LOG_FATAL_MASK | G_LOG_LEVEL_CRITICAL);
#define ADD(name, function)                                                                        \
  g_test_add ("/peer-leavers/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("count-for-the-next-sonded", count_for_the_next_sonded);
  ADD ("count-at-once-and-are-kept", count_at_once_and_are_kept);
#undef ADD
  return g_test_run ();
}
