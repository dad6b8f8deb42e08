/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The gate in front of a command. */
#include "client/service/spawn.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct
{
  int exec_error;
  int wait_status;
  gboolean has_exited;
} Seen;

static void
on_exec_failed (int error_number, gpointer user_data)
{
  Seen *seen = user_data;

  g_assert_false (seen->has_exited);
  seen->exec_error = error_number;
}

static void
on_exited (int wait_status, gpointer user_data)
{
  Seen *seen = user_data;

  seen->wait_status = wait_status;
  seen->has_exited = TRUE;
}

static const SondeSpawnHandler handler = { on_exec_failed, on_exited };

static void
run (const char *const *argv, Seen *seen)
{
  g_autoptr (SondeSpawn) spawn = sonde_spawn_new ((char **) argv, NULL, NULL, FALSE, NULL);

  g_assert_nonnull (spawn);
  sonde_spawn_watch (spawn, &handler, seen);
  g_assert_false (sonde_spawn_is_running (spawn));
  sonde_spawn_release (spawn, -1, NULL, NULL, FALSE);
  while (!seen->has_exited)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (sonde_spawn_is_running (spawn));
}

/* What a command says of its environment. */
static char *
tell_environment (const char *preload, int control_fd)
{
  const char *const argv[] = {
    "sh", "-c",
    "echo $SONDE_CONTROL_FD $SYSPROF_CONTROL_FD; "
    "test -z \"$SONDE_RENDEZVOUS\" || echo $SONDE_CONTROL_INODE $SONDE_RENDEZVOUS $SONDE_BEACON; "
    "test -z \"$SONDE_CONTROL_FD\" || readlink /proc/self/fd/$SONDE_CONTROL_FD; "
    "echo $LD_PRELOAD >&2",
    NULL
  };
  g_autoptr (SondeSpawn) spawn = NULL;
  g_autofree char *file = NULL;
  int out = g_file_open_tmp (NULL, &file, NULL);
  int saved[2] = { dup (1), dup (2) };
  char *text = NULL;
  Seen seen = { 0 };

  dup2 (out, 1);
  dup2 (out, 2);
  spawn = sonde_spawn_new ((char **) argv, NULL, preload, FALSE, NULL);
  dup2 (saved[0], 1);
  dup2 (saved[1], 2);
  sonde_spawn_watch (spawn, &handler, &seen);
  sonde_spawn_release (spawn, control_fd, control_fd >= 0 ? "@somewhere:1" : NULL,
                       control_fd >= 0 ? "/some/beacon" : NULL, FALSE);
  while (!seen.has_exited)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (g_file_get_contents (file, &text, NULL, NULL));
  unlink (file);
  close (out);
  close (saved[0]);
  close (saved[1]);

  return text;
}

static void
a_command_is_told_of_its_control_socket (void)
{
  g_autofree char *without = tell_environment (NULL, -1);
  g_autofree char *with = NULL;
  g_autofree char *expected = NULL;
  struct stat st;
  int fds[2];

  g_assert_cmpstr (without, ==, "\n\n");
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), ==, 0);
  g_assert_cmpint (fstat (fds[0], &st), ==, 0);
  with = tell_environment ("libc.so.6", fds[0]);
  expected = g_strdup_printf ("\n%lu @somewhere:1 /some/beacon\nsocket:[%lu]\nlibc.so.6\n",
                              (unsigned long) st.st_ino, (unsigned long) st.st_ino);
  g_assert_true (g_str_has_suffix (with, expected));
  close (fds[0]);
  close (fds[1]);
}

static void
a_command_that_is_not_there_is_told_before_its_exit (void)
{
  Seen seen = { 0 };

  run ((const char *const[]){ "/nonexistent/program", NULL }, &seen);
  g_assert_cmpint (seen.exec_error, ==, ENOENT);
  g_assert_cmpint (WEXITSTATUS (seen.wait_status), ==, 127);
}

static void
a_file_that_is_no_program_is_told_too (void)
{
  Seen seen = { 0 };

  run ((const char *const[]){ "/etc/passwd", NULL }, &seen);
  g_assert_cmpint (seen.exec_error, ==, EACCES);
  g_assert_cmpint (WEXITSTATUS (seen.wait_status), ==, 126);
}

static void
a_command_that_is_never_released_is_killed (void)
{
  const char *const argv[] = { "true", NULL };
  SondeSpawn *spawn = sonde_spawn_new ((char **) argv, NULL, NULL, FALSE, NULL);
  GPid pid = sonde_spawn_pid (spawn);

  g_assert_cmpint (kill (pid, 0), ==, 0);
  sonde_spawn_free (spawn);
  g_assert_cmpint (kill (pid, 0), ==, -1);
  g_assert_cmpint (errno, ==, ESRCH);
}

static void
the_exit_status_comes_through (void)
{
  Seen seen = { 0 };

  run ((const char *const[]){ "sh", "-c", "exit 7", NULL }, &seen);
  g_assert_cmpint (seen.exec_error, ==, 0);
  g_assert_true (WIFEXITED (seen.wait_status));
  g_assert_cmpint (WEXITSTATUS (seen.wait_status), ==, 7);
}

static void
a_deadly_signal_comes_through (void)
{
  Seen seen = { 0 };

  run ((const char *const[]){ "sh", "-c", "kill -KILL $$", NULL }, &seen);
  g_assert_true (WIFSIGNALED (seen.wait_status));
  g_assert_cmpint (WTERMSIG (seen.wait_status), ==, SIGKILL);
}

static void
runs_in_the_form_that_the_word_says (void)
{
  const char *const plain[] = { "sh", "-c", "exit 3", NULL };
  const char *const named[] = { "sh", "-c", "exit 4", NULL };

  for (int is_named = 0; is_named < 2; is_named++)
    {
      g_autoptr (SondeSpawn) spawn
          = sonde_spawn_new ((char **) plain, (char **) named, NULL, FALSE, NULL);
      Seen seen = { 0 };

      sonde_spawn_watch (spawn, &handler, &seen);
      sonde_spawn_release (spawn, -1, "@somewhere:1", NULL, is_named);
      while (!seen.has_exited)
        g_main_context_iteration (NULL, TRUE);
      g_assert_cmpint (WEXITSTATUS (seen.wait_status), ==, 3 + is_named);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/spawn/a-command-is-told-of-its-control-socket",
                   a_command_is_told_of_its_control_socket);
  g_test_add_func ("/spawn/a-command-that-is-not-there-is-told-before-its-exit",
                   a_command_that_is_not_there_is_told_before_its_exit);
  g_test_add_func ("/spawn/a-file-that-is-no-program-is-told-too",
                   a_file_that_is_no_program_is_told_too);
  g_test_add_func ("/spawn/a-command-that-is-never-released-is-killed",
                   a_command_that_is_never_released_is_killed);
  g_test_add_func ("/spawn/the-exit-status-comes-through", the_exit_status_comes_through);
  g_test_add_func ("/spawn/a-deadly-signal-comes-through", a_deadly_signal_comes_through);
  g_test_add_func ("/spawn/runs-in-the-form-that-the-word-says",
                   runs_in_the_form_that_the_word_says);
  return g_test_run ();
}
