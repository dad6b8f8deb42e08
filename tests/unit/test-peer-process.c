/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Workers and brokers that are spawned. A lease on their program lets the exec wait until it is
 * given up. */
#include "daemon/control/peer/peer-process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"

#define DEADLINE_S 300
#define NOBODY     65534
/* Nobody kills it if the spawner has gone. */
#define UNTIL_CONNECTION_ENDS "exec cat <&3"

typedef struct
{
  char *path; /* of a script */
  int lease;  /* -1: none */
  int connection;
  int spawner; /* our end of its connection; the processes' */
  SondeSpawnerProgram program;
  SondePeerProcesses *processes;
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
fork_spawner (Fixture *fixture)
{
  fixture->program = (SondeSpawnerProgram){ .path = fixture->path, .has_own_uid = TRUE };
  fixture->spawner = sonde_spawner_fork (&fixture->program, 1);
  g_assert_cmpint (fixture->spawner, >=, 0);
  fixture->processes = sonde_peer_processes_new (fixture->spawner, &fixture->program, 1);
}

static void
set_up (Fixture *fixture, gconstpointer script)
{
  g_autofree char *text = g_strdup_printf ("#!/bin/sh\n%s\n", (const char *) script);
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("worker-XXXXXX", &fixture->path, &error);

  g_assert_no_error (error);
  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  g_assert_cmpint (fchmod (fd, 0755), ==, 0);
  close (fd);
  fixture->lease = fixture->connection = -1;
  fork_spawner (fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer script)
{
  sonde_peer_process_free (fixture->process);
  sonde_peer_processes_free (fixture->processes);
  /* The spawner ends then. */
  while (waitpid (-1, NULL, 0) > 0 || errno == EINTR)
    ;
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
  fixture->process = sonde_peer_process_new (fixture->processes, 0, "worker", fds[1], &error);
  g_assert_no_error (error);
  g_assert_null (sonde_peer_process_watch (fixture->process, on_ended, fixture));
}

static void
wait_for_end (Fixture *fixture)
{
  while (fixture->how == NULL)
    g_main_context_iteration (NULL, TRUE);
}

static pid_t
first_child (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/task/%d/children", (int) pid, (int) pid);
  g_autofree char *children = NULL;

  g_assert_true (g_file_get_contents (path, &children, NULL, NULL));
  return (pid_t) g_ascii_strtoll (children, NULL, 10);
}

/* The spawner, our only child, has one which runs our program still. */
static gboolean
has_child_before_exec (void)
{
  pid_t spawner = first_child (getpid ());
  g_autofree char *link = g_strdup_printf ("/proc/%d/exe", (int) first_child (spawner));
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *child = g_file_read_link (link, NULL);

  return g_strcmp0 (child, program) == 0;
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

static void
all_ends_are_told_when_the_spawner_has_gone (Fixture *fixture, gconstpointer script)
{
  g_autoptr (GError) error = NULL;
  pid_t spawner = first_child (getpid ());
  int fds[2];

  start (fixture);
  while (sonde_peer_process_pid (fixture->process) == 0)
    g_main_context_iteration (NULL, TRUE);
  kill (spawner, SIGKILL);
  g_assert_cmpint (waitpid (spawner, NULL, 0), ==, spawner);
  wait_for_end (fixture);
  g_assert_nonnull (strstr (fixture->how, "has gone"));
  g_assert_cmpint (sonde_peer_process_pid (fixture->process), ==, 0);
  sonde_peer_process_kill (fixture->process);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  g_assert_null (sonde_peer_process_new (fixture->processes, 0, "worker", fds[1], &error));
  g_assert_nonnull (error);
  close (fds[0]);
}

/* --- a sonded that has gone --- */

static pid_t
wait_for_pid (const Fixture *fixture)
{
  while (sonde_peer_process_pid (fixture->process) == 0)
    g_main_context_iteration (NULL, TRUE);
  return sonde_peer_process_pid (fixture->process);
}

static void
wait_for (int fd, short event)
{
  struct pollfd poll_fd = { .fd = fd, .events = event };

  g_assert_cmpint (poll (&poll_fd, 1, DEADLINE_S * 1000), ==, 1);
  g_assert_cmpint (poll_fd.revents & event, !=, 0);
}

/* What it was told last goes unread, which the kernel says before what it had asked for. */
static void
last_wishes_of_one_that_has_gone_are_done (Fixture *fixture, gconstpointer script)
{
  pid_t spawner = first_child (getpid ());
  sonde_autofd int connection = -1;
  SondePeerProcess *first;
  int status;

  start (fixture);
  wait_for_pid (fixture);
  first = g_steal_pointer (&fixture->process);
  connection = sonde_steal_fd (&fixture->connection);
  start (fixture);
  wait_for_pid (fixture);
  g_assert_cmpint (kill (sonde_peer_process_pid (first), SIGKILL), ==, 0);
  wait_for (fixture->spawner, POLLIN);
  g_assert_cmpint (kill (spawner, SIGSTOP), ==, 0);
  g_assert_cmpint (waitpid (spawner, &status, WUNTRACED), ==, spawner);
  sonde_peer_process_kill (fixture->process);
  sonde_peer_process_free (first);
  g_clear_pointer (&fixture->process, sonde_peer_process_free);
  g_clear_pointer (&fixture->processes, sonde_peer_processes_free);
  g_assert_cmpint (kill (spawner, SIGCONT), ==, 0);
  wait_for (fixture->connection, POLLHUP);
}

/* Its end of the connection could have one of their numbers, which a spawner keeps. */
static void
spawner_goes_with_one_without_standard_streams (Fixture *fixture, gconstpointer script)
{
  for (int closed = STDIN_FILENO; closed <= STDERR_FILENO; closed++)
    {
      int to_us[2];
      int status;
      int pidfd;
      pid_t spawner;
      pid_t pid;

      g_assert_cmpint (pipe (to_us), ==, 0);
      pid = fork ();
      g_assert_cmpint (pid, >=, 0);
      if (pid == 0)
        {
          close (closed);
          if (sonde_spawner_fork (&fixture->program, 1) < 0)
            _exit (1);
          spawner = first_child (getpid ());
          _exit (write (to_us[1], &spawner, sizeof spawner) != sizeof spawner);
        }
      close (to_us[1]);
      g_assert_cmpint (read (to_us[0], &spawner, sizeof spawner), ==, sizeof spawner);
      g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
      g_assert_cmpint (status, ==, 0);
      close (to_us[0]);
      pidfd = (int) syscall (SYS_pidfd_open, spawner, 0);
      if (pidfd >= 0)
        wait_for (pidfd, POLLIN);
      sonde_clear_fd (&pidfd);
    }
}

/* --- uids --- */

static gboolean
skip_unless_root (void)
{
  if (geteuid () == 0)
    return FALSE;
  g_test_skip ("needs root");
  return TRUE;
}

/* One with @uid that waits to be killed. */
static pid_t
occupy (uid_t uid)
{
  int ready[2];
  char byte;
  pid_t pid;

  g_assert_cmpint (pipe (ready), ==, 0);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      if (setresuid (uid, uid, uid) == 0 && write (ready[1], "", 1) == 1)
        pause ();
      _exit (1);
    }
  g_assert_cmpint (read (ready[0], &byte, 1), ==, 1);
  close (ready[0]);
  close (ready[1]);
  return pid;
}

static void
end_occupant (pid_t pid)
{
  kill (pid, SIGKILL);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
}

/* A worker gets a uid that no live process has, and none if all have one. */
static void
those_of_root_get_a_uid_of_their_own (Fixture *fixture, gconstpointer script)
{
  pid_t occupants[SONDE_WORKER_N_UIDS];
  uid_t uid = SONDE_WORKER_UID_FIRST + (uid_t) g_test_rand_int_range (0, SONDE_WORKER_N_UIDS);
  g_autofree char *option = g_strdup_printf ("--uid=%u", uid);
  char text[64] = "";

  if (skip_unless_root ())
    return;
  for (guint i = 0; i < SONDE_WORKER_N_UIDS; i++)
    occupants[i] = occupy (SONDE_WORKER_UID_FIRST + i);
  start (fixture);
  wait_for_end (fixture);
  g_assert_nonnull (strstr (fixture->how, "user ids of workers"));

  end_occupant (occupants[uid - SONDE_WORKER_UID_FIRST]);
  g_clear_pointer (&fixture->how, g_free);
  g_clear_pointer (&fixture->process, sonde_peer_process_free);
  sonde_clear_fd (&fixture->connection);
  start (fixture);
  g_assert_cmpint (recv (fixture->connection, text, sizeof text - 1, 0), >, 0);
  g_assert_cmpstr (text, ==, option);
  wait_for_end (fixture);
  for (guint i = 0; i < SONDE_WORKER_N_UIDS; i++)
    if (SONDE_WORKER_UID_FIRST + i != uid)
      end_occupant (occupants[i]);
}

static void
those_of_others_have_the_callers (Fixture *fixture, gconstpointer script)
{
  Fixture other = { .path = fixture->path, .connection = -1 };
  char text[64];
  int status;
  pid_t pid = fork ();

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      g_assert_true (geteuid () != 0 || setresuid (NOBODY, NOBODY, NOBODY) == 0);
      fork_spawner (&other);
      start (&other);
      _exit (recv (other.connection, text, sizeof text, 0) != strlen ("none")
             || memcmp (text, "none", strlen ("none")) != 0);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
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
  ADD ("one-that-is-killed-before-it-has-begun-is-killed-then", UNTIL_CONNECTION_ENDS,
       one_that_is_killed_before_it_has_begun_is_killed_then);
  ADD ("one-that-is-forgotten-before-it-has-begun-runs-untold", "exit 7",
       one_that_is_forgotten_before_it_has_begun_runs_untold);
  ADD ("all-ends-are-told-when-the-spawner-has-gone", UNTIL_CONNECTION_ENDS,
       all_ends_are_told_when_the_spawner_has_gone);
  ADD ("last-wishes-of-one-that-has-gone-are-done", UNTIL_CONNECTION_ENDS,
       last_wishes_of_one_that_has_gone_are_done);
  ADD ("spawner-goes-with-one-without-standard-streams", "exit 7",
       spawner_goes_with_one_without_standard_streams);
  ADD ("those-of-root-get-a-uid-of-their-own", "printf %s \"$2\" >&3",
       those_of_root_get_a_uid_of_their_own);
  ADD ("those-of-others-have-the-callers", "printf %s \"${2:-none}\" >&3",
       those_of_others_have_the_callers);
#undef ADD
  return g_test_run ();
}
