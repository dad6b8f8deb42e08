/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A child that is this program once more, and does what children should not. */
#include "client/mcp/mcp-child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the child --- */

static int
play (const char *role)
{
  static char block[1 << 20];

  memset (block, 'x', sizeof block);
  if (g_str_equal (role, "speak"))
    {
      g_print ("printed\n");
      g_printerr ("said\n");
      return 7;
    }
  if (g_str_equal (role, "read"))
    return (int) read (STDIN_FILENO, block, 1);
  if (g_str_equal (role, "signals"))
    {
      struct sigaction action;

      sigaction (SIGPIPE, NULL, &action);
      return action.sa_handler == SIG_DFL ? 0 : 1;
    }
  if (g_str_equal (role, "stubborn"))
    signal (SIGINT, SIG_IGN);
  if (g_str_equal (role, "leave") && fork () > 0)
    {
      g_print ("%d", getpid ());
      return 0;
    }
  if (g_str_equal (role, "polite") || g_str_equal (role, "stubborn"))
    g_print ("ready\n");
  while (g_str_equal (role, "print"))
    if (write (STDOUT_FILENO, block, sizeof block) < 0 && errno != EINTR)
      return 1;
  for (;;)
    pause ();
}

/* --- who waits for it --- */

typedef struct
{
  GMainLoop *loop;
  SondeMcpChild *child;
  SondeMcpChildEnd end;
  int wait_status;
  guint n_done;
  gboolean stops;
} Fixture;

static void
is_done (SondeMcpChildEnd end, int wait_status, gpointer user_data)
{
  Fixture *self = user_data;

  self->end = end;
  self->wait_status = wait_status;
  self->n_done++;
  g_main_loop_quit (self->loop);
}

static gboolean
look (gpointer user_data)
{
  Fixture *self = user_data;

  if (sonde_mcp_child_printed (self->child)->len == 0)
    return G_SOURCE_CONTINUE;
  sonde_mcp_child_stop (self->child);
  sonde_mcp_child_stop (self->child);
  return G_SOURCE_REMOVE;
}

static void
run (Fixture *self, const char *role, double seconds, gboolean is_heard)
{
  char *argv[] = { (char *) "child", (char *) role, NULL };
  const SondeMcpChildOptions options = { .seconds = seconds, .is_heard = is_heard };
  g_autoptr (GError) error = NULL;

  self->loop = g_main_loop_new (NULL, FALSE);
  self->child = sonde_mcp_child_start (argv, &options, is_done, self, &error);
  g_assert_no_error (error);
  if (self->stops)
    g_timeout_add (10, look, self);
  g_main_loop_run (self->loop);
  g_assert_cmpuint (self->n_done, ==, 1);
}

static void
clear (Fixture *self)
{
  sonde_mcp_child_free (self->child);
  g_main_loop_unref (self->loop);
}

static void
test_late (void)
{
  Fixture fixture = { 0 };

  run (&fixture, "hang", 0.2, TRUE);
  g_assert_cmpint (fixture.end, ==, SONDE_MCP_CHILD_LATE);
  clear (&fixture);
}

static void
test_large (void)
{
  Fixture fixture = { 0 };

  run (&fixture, "print", 200, TRUE);
  g_assert_cmpint (fixture.end, ==, SONDE_MCP_CHILD_LARGE);
  g_assert_true (WIFSIGNALED (fixture.wait_status));
  g_assert_cmpuint (sonde_mcp_child_printed (fixture.child)->len, <=,
                    SONDE_MCP_CHILD_ANSWER_BYTES + 65536);
  clear (&fixture);
}

/* Of who is not heard the end is kept, however much it is. */
static void
test_end (void)
{
  Fixture fixture = { 0 };

  run (&fixture, "print", 0.5, FALSE);
  g_assert_cmpint (fixture.end, ==, SONDE_MCP_CHILD_LATE);
  g_assert_cmpuint (sonde_mcp_child_printed (fixture.child)->len, ==, SONDE_MCP_CHILD_SAID_BYTES);
  clear (&fixture);
}

static void
test_folder (void)
{
  char *argv[] = { (char *) "child", (char *) "speak", NULL };
  const SondeMcpChildOptions options = { .seconds = 1, .folder = "/dev/null/x" };
  g_autoptr (GError) error = NULL;

  g_assert_null (sonde_mcp_child_start (argv, &options, is_done, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_DIRECTORY);
}

static void
test_speaks (void)
{
  Fixture fixture = { 0 };

  run (&fixture, "speak", 200, TRUE);
  g_assert_cmpint (fixture.end, ==, SONDE_MCP_CHILD_EXITED);
  g_assert_true (WIFEXITED (fixture.wait_status) && WEXITSTATUS (fixture.wait_status) == 7);
  g_assert_cmpstr (sonde_mcp_child_printed (fixture.child)->str, ==, "printed\n");
  g_assert_cmpstr (sonde_mcp_child_said (fixture.child)->str, ==, "said\n");
  clear (&fixture);
}

/* Nothing to read, and signals as they were, though we ignore one. */
static void
test_begins (void)
{
  static const char *const roles[] = { "read", "signals" };

  signal (SIGPIPE, SIG_IGN);
  for (guint i = 0; i < G_N_ELEMENTS (roles); i++)
    {
      Fixture fixture = { 0 };

      run (&fixture, roles[i], 200, TRUE);
      g_assert_cmpint (fixture.wait_status, ==, 0);
      clear (&fixture);
    }
  signal (SIGPIPE, SIG_DFL);
}

static void
test_stopped (void)
{
  static const struct
  {
    const char *role;
    int signal_number;
  } cases[] = { { "polite", SIGINT }, { "stubborn", SIGKILL } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Fixture fixture = { .stops = TRUE };

      run (&fixture, cases[i].role, 200, TRUE);
      g_assert_cmpint (fixture.end, ==, SONDE_MCP_CHILD_EXITED);
      g_assert_true (WIFSIGNALED (fixture.wait_status));
      g_assert_cmpint (WTERMSIG (fixture.wait_status), ==, cases[i].signal_number);
      clear (&fixture);
    }
}

/* The group has nobody any more, though a part of it did not end by itself. */
static void
test_group (void)
{
  Fixture fixture = { 0 };
  pid_t group;
  int status;

  /* Orphans come to us: not everybody's first process reaps them. */
  g_assert_cmpint (prctl (PR_SET_CHILD_SUBREAPER, 1), ==, 0);
  run (&fixture, "leave", 200, TRUE);
  g_assert_cmpint (fixture.end, ==, SONDE_MCP_CHILD_EXITED);
  g_assert_cmpint (fixture.wait_status, ==, 0);
  group = (pid_t) g_ascii_strtoll (sonde_mcp_child_printed (fixture.child)->str, NULL, 10);
  g_assert_cmpint (group, >, 1);
  while (waitpid (-group, &status, 0) > 0)
    g_assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL);
  g_assert_cmpint (kill (-group, 0), ==, -1);
  g_assert_cmpint (errno, ==, ESRCH);
  prctl (PR_SET_CHILD_SUBREAPER, 0);
  clear (&fixture);
}

static void
test_freed (void)
{
  char *argv[] = { (char *) "child", (char *) "hang", NULL };
  const SondeMcpChildOptions options = { .seconds = 200 };
  Fixture fixture = { 0 };
  SondeMcpChild *child = sonde_mcp_child_start (argv, &options, is_done, &fixture, NULL);

  g_assert_nonnull (child);
  sonde_mcp_child_free (child);
  /* it is reaped by the main loop, and nobody is told */
  while (waitpid (-1, NULL, WNOHANG) == 0)
    g_main_context_iteration (NULL, FALSE);
  g_assert_cmpuint (fixture.n_done, ==, 0);
}

int
main (int argc, char **argv)
{
  if (argc == 2 && g_str_equal (argv[0], "child"))
    return play (argv[1]);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mcp-child/kills-what-takes-too-long", test_late);
  g_test_add_func ("/mcp-child/kills-what-answers-too-much", test_large);
  g_test_add_func ("/mcp-child/keeps-the-end-of-what-is-no-answer", test_end);
  g_test_add_func ("/mcp-child/refuses-a-folder-that-is-not-there", test_folder);
  g_test_add_func ("/mcp-child/tells-what-it-printed-and-said", test_speaks);
  g_test_add_func ("/mcp-child/begins-with-an-empty-input-and-usual-signals", test_begins);
  g_test_add_func ("/mcp-child/interrupts-it-and-then-kills-it", test_stopped);
  g_test_add_func ("/mcp-child/leaves-nobody-of-its-group", test_group);
  g_test_add_func ("/mcp-child/may-be-freed-while-it-runs", test_freed);
  return g_test_run ();
}
