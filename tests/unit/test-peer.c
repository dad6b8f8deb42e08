/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connections with brokers and workers, which are scripts here. */
#include "daemon/control/peer/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"

typedef struct
{
  char *path; /* of a script */
  SondeSpawnerProgram programs[SONDE_PEER_N_KINDS];
  SondePeerLauncher *launcher;
  SondePeer *peer;
  gboolean is_gone;
} Fixture;

static void
on_message (SondePeer *peer,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
}

static void
on_gone (SondePeer *peer, const char *how, gpointer user_data)
{
  ((Fixture *) user_data)->is_gone = TRUE;
}

static void
set_up (Fixture *fixture, gconstpointer script)
{
  static const SondePeerHandler handler = { .message = on_message, .gone = on_gone };
  g_autofree char *text = g_strdup_printf ("#!/bin/sh\n%s\n", (const char *) script);
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("worker-XXXXXX", &fixture->path, &error);
  const char *const paths[SONDE_PEER_N_KINDS] = { [SONDE_PEER_BROKER] = "/nowhere/broker" };

  g_assert_no_error (error);
  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  g_assert_cmpint (fchmod (fd, 0755), ==, 0);
  close (fd);
  fixture->programs[SONDE_PEER_CAPTURE].path = fixture->path;
  fixture->launcher = sonde_peer_launcher_new (
      paths, sonde_peer_processes_new (sonde_spawner_fork (fixture->programs, SONDE_PEER_N_KINDS),
                                       fixture->programs, SONDE_PEER_N_KINDS));
  fixture->peer
      = sonde_peer_start (fixture->launcher, SONDE_PEER_CAPTURE, &handler, fixture, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *fixture, gconstpointer script)
{
  sonde_peer_kill (fixture->peer);
  while (!fixture->is_gone)
    g_main_context_iteration (NULL, TRUE);
  sonde_peer_free (fixture->peer);
  sonde_peer_launcher_unref (fixture->launcher);
  unlink (fixture->path);
  g_free (fixture->path);
}

static gboolean
has_closer (void)
{
  g_autoptr (GDir) threads = g_dir_open ("/proc/self/task", 0, NULL);
  const char *thread;

  while ((thread = g_dir_read_name (threads)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("/proc/self/task/%s/comm", thread);
      g_autofree char *name = NULL;

      if (g_file_get_contents (path, &name, NULL, NULL)
          && g_str_equal (g_strstrip (name), "closer"))
        return TRUE;
    }
  return FALSE;
}

/* It may be a stranger's, handed on to a worker by a broker that lies. */
static void
has_what_it_sends_closed (Fixture *fixture, gconstpointer script)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_KALLSYMS };
  int fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

  g_assert_false (has_closer ());
  g_assert_true (sonde_peer_send (fixture->peer, &message, sizeof message, &fd, 1, NULL));
  /* Its number may be another one's by then. */
  while (!has_closer ())
    g_usleep (1000);
}

/* Its descriptors are ours, and of what all sessions may have on their way. */
static void
is_behind_after_few_descriptors (Fixture *fixture, gconstpointer script)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_CONTROL };
  guint n_sent = 0;

  while (!sonde_peer_is_behind (fixture->peer))
    {
      int fds[2];

      g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
      g_assert_true (sonde_peer_send (fixture->peer, &message, sizeof message, &fds[0], 1, NULL));
      close (fds[1]);
      n_sent++;
    }
  g_assert_cmpuint (n_sent, >, SONDE_LIMIT_CONTROLS);
  g_assert_cmpuint (n_sent, <, 100);
}

/* Somebody else may hold our end, such as systemd. */
static void
hangs_up_whoever_holds_the_connection (Fixture *fixture, gconstpointer script)
{
  sonde_autofd int copy
      = fcntl (sonde_channel_fd (sonde_peer_channel (fixture->peer)), F_DUPFD_CLOEXEC, 3);
  static const SondePeerHandler handler = { .gone = on_gone };
  char byte;

  sonde_peer_dismiss (fixture->peer, &handler, fixture);
  g_assert_cmpint (recv (copy, &byte, 1, MSG_DONTWAIT), ==, 0);
  g_assert_cmpint (send (copy, "", 1, MSG_NOSIGNAL), ==, -1);
  g_assert_cmpint (errno, ==, EPIPE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
  g_test_add ("/peer/" name, Fixture, "exec sleep 1000", set_up, function, tear_down)
  ADD ("has-what-it-sends-closed", has_what_it_sends_closed);
  ADD ("is-behind-after-few-descriptors", is_behind_after_few_descriptors);
  ADD ("hangs-up-whoever-holds-the-connection", hangs_up_whoever_holds_the_connection);
#undef ADD
  return g_test_run ();
}
