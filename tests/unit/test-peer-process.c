/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Workers and brokers that are spawned. A lease on their program lets the exec wait until it is
 * given up. */
#include "daemon/control/peer/peer-process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"

#define DEADLINE_S 300

typedef struct
{
  char *path; /* of a script */
  int lease;  /* -1: none */
  int connection;
  SondePeerLauncher *launcher;
  SondePeerProcess *process;
  char *how;
} Fixture;

static void
on_ended (const char *how, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_null (fixture->how);
  fixture->how = g_strdup (how);
}

static void
set_up (Fixture *fixture, gconstpointer script)
{
  g_autofree char *text = g_strdup_printf ("#!/bin/sh\n%s\n", (const char *) script);
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("worker-XXXXXX", &fixture->path, &error);
  SondePeerPlace places[SONDE_PEER_N_KINDS]
      = { [SONDE_PEER_BROKER] = { .socket_path = "/nowhere/broker" } };

  g_assert_no_error (error);
  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  g_assert_cmpint (fchmod (fd, 0755), ==, 0);
  close (fd);
  places[SONDE_PEER_CAPTURE].path = fixture->path;
  fixture->lease = fixture->connection = -1;
  fixture->launcher = sonde_peer_launcher_new (places);
}

static void
tear_down (Fixture *fixture, gconstpointer script)
{
  sonde_peer_process_free (fixture->process);
  sonde_peer_launcher_unref (fixture->launcher);
  sonde_clear_fd (&fixture->lease);
  sonde_clear_fd (&fixture->connection);
  unlink (fixture->path);
  g_free (fixture->path);
  g_free (fixture->how);
}

static void
hold_exec (Fixture *fixture)
{
  fixture->lease = open (fixture->path, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (fcntl (fixture->lease, F_SETLEASE, F_WRLCK), ==, 0);
}

/* The child, which waits for it, has the descriptor too. */
static void
release_exec (Fixture *fixture)
{
  g_assert_cmpint (fcntl (fixture->lease, F_SETLEASE, F_UNLCK), ==, 0);
  sonde_clear_fd (&fixture->lease);
}

/* The kernel asks for the lease. */
static void
wait_for_exec (void)
{
  const struct timespec deadline = { .tv_sec = DEADLINE_S };
  sigset_t set;
  int got;

  sigemptyset (&set);
  sigaddset (&set, SIGIO);
  /* GLib's handler of SIGCHLD may run meanwhile, of the process of the case before. */
  do
    got = sigtimedwait (&set, NULL, &deadline);
  while (got < 0 && errno == EINTR);
  g_assert_cmpint (got, ==, SIGIO);
}

static void
start (Fixture *fixture)
{
  g_autoptr (GError) error = NULL;
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  fixture->connection = fds[0];
  fixture->process = sonde_peer_process_new (fixture->launcher, SONDE_PEER_CAPTURE, fds[1], &error);
  g_assert_no_error (error);
  g_assert_null (sonde_peer_process_watch (fixture->process, on_ended, fixture));
}

static void
wait_for_end (Fixture *fixture)
{
  while (fixture->how == NULL)
    g_main_context_iteration (NULL, TRUE);
}

/* Whether a child of ours runs our program still. */
static gboolean
has_child_before_exec (void)
{
  g_autoptr (GDir) tasks = g_dir_open ("/proc/self/task", 0, NULL);
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  const char *task;

  while ((task = g_dir_read_name (tasks)) != NULL)
    {
      g_autofree char *list = g_strdup_printf ("/proc/self/task/%s/children", task);
      g_autofree char *children = NULL;
      g_autofree char *link = NULL;
      g_autofree char *child = NULL;

      if (!g_file_get_contents (list, &children, NULL, NULL) || children[0] == '\0')
        continue;
      link = g_strdup_printf ("/proc/%d/exe", (int) g_ascii_strtoll (children, NULL, 10));
      child = g_file_read_link (link, NULL);
      if (g_strcmp0 (child, program) == 0)
        return TRUE;
    }
  return FALSE;
}

/* --- cases --- */

static void
one_that_cannot_be_started_tells_why (Fixture *fixture, gconstpointer script)
{
  unlink (fixture->path);
  start (fixture);
  wait_for_end (fixture);
  g_assert_true (g_str_has_prefix (fixture->how, "Cannot start a worker: "));
  g_assert_nonnull (strstr (fixture->how, fixture->path));
}

static void
its_start_keeps_nobody_waiting (Fixture *fixture, gconstpointer script)
{
  hold_exec (fixture);
  start (fixture);
  wait_for_exec ();
  g_assert_true (has_child_before_exec ());
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_null (fixture->how);
  release_exec (fixture);
  wait_for_end (fixture);
  g_assert_cmpstr (fixture->how, ==, "The worker exited with status 7");
}

static void
one_that_has_ended_unwatched_says_how (Fixture *fixture, gconstpointer script)
{
  const char *how;

  start (fixture);
  sonde_peer_process_watch (fixture->process, NULL, NULL);
  while ((how = sonde_peer_process_watch (fixture->process, NULL, NULL)) == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (how, ==, "The worker exited with status 7");
  g_assert_null (fixture->how);
}

static void
one_that_is_killed_before_it_has_begun_is_killed_then (Fixture *fixture, gconstpointer script)
{
  hold_exec (fixture);
  start (fixture);
  wait_for_exec ();
  sonde_peer_process_kill (fixture->process);
  release_exec (fixture);
  wait_for_end (fixture);
  g_assert_cmpstr (fixture->how, ==, "The worker was killed by signal 9");
}

static void
one_that_is_forgotten_before_it_has_begun_runs_untold (Fixture *fixture, gconstpointer script)
{
  char byte;

  hold_exec (fixture);
  start (fixture);
  wait_for_exec ();
  g_clear_pointer (&fixture->process, sonde_peer_process_free);
  release_exec (fixture);
  g_assert_cmpint (recv (fixture->connection, &byte, 1, 0), ==, 0); /* it has exited */
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_null (fixture->how);
}

int
main (int argc, char **argv)
{
  sigset_t set;

  sigemptyset (&set);
  sigaddset (&set, SIGIO);
  sigprocmask (SIG_BLOCK, &set, NULL);
  g_test_init (&argc, &argv, NULL);
#define ADD(name, script, function)                                                                \
  g_test_add ("/peer-process/" name, Fixture, script, set_up, function, tear_down)
  ADD ("one-that-cannot-be-started-tells-why", "exit 7", one_that_cannot_be_started_tells_why);
  ADD ("its-start-keeps-nobody-waiting", "exit 7", its_start_keeps_nobody_waiting);
  ADD ("one-that-has-ended-unwatched-says-how", "exit 7", one_that_has_ended_unwatched_says_how);
  ADD ("one-that-is-killed-before-it-has-begun-is-killed-then", "exec sleep 1000",
       one_that_is_killed_before_it_has_begun_is_killed_then);
  ADD ("one-that-is-forgotten-before-it-has-begun-runs-untold", "exit 7",
       one_that_is_forgotten_before_it_has_begun_runs_untold);
#undef ADD
  return g_test_run ();
}
