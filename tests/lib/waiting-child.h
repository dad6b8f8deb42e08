/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A copy of the test that is made something else, and waits to be looked at. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void
waiting_child_end (pid_t pid)
{
  pid_t ended;

  g_assert_cmpint (kill (pid, SIGKILL), ==, 0);
  /* A fuzzer's timer may interrupt it. */
  do
    ended = waitpid (pid, NULL, 0);
  while (ended < 0 && errno == EINTR);
  g_assert_cmpint (ended, ==, pid);
}

/* @prepare: runs in the child. Returns: its number, for waiting_child_end(); -1 if @prepare said
 * FALSE */
static inline pid_t
waiting_child_spawn (gboolean (*prepare) (gpointer user_data), gpointer user_data)
{
  int ready[2];
  char answer = 'n';
  pid_t pid;

  g_assert_cmpint (pipe2 (ready, O_CLOEXEC), ==, 0);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      answer = prepare (user_data) ? 'y' : 'n';
      prctl (PR_SET_PDEATHSIG, SIGKILL); /* which a change of uid takes away */
      if (write (ready[1], &answer, 1) == 1)
        pause ();
      _exit (0);
    }
  close (ready[1]);
  /* A fuzzer has an alarm. */
  g_assert_cmpint (TEMP_FAILURE_RETRY (read (ready[0], &answer, 1)), ==, 1);
  close (ready[0]);
  if (answer == 'y')
    return pid;
  waiting_child_end (pid);
  return -1;
}
