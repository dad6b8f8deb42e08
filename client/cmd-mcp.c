/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl mcp: serves what records and reads captures to programs that have a language model. */
#include "client/commands.h"

#include <glib-unix.h>
#include <signal.h>
#include <unistd.h>

#include "client/base/cli.h"
#include "client/mcp/mcp-server.h"

static void
has_ended (gpointer user_data)
{
  g_main_loop_quit (user_data);
}

static gboolean
is_interrupted (gpointer user_data)
{
  g_main_loop_quit (user_data);
  return G_SOURCE_CONTINUE;
}

int
sonde_cmd_mcp (int argc, char **argv)
{
  static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr (GMainLoop) loop = NULL;
  g_autoptr (SondeMcpServer) server = NULL;

  if (!sonde_cli_parse_nothing (
          argc, argv,
          "Serves the Model Context Protocol on standard input and output: a program that has a\n"
          "language model starts it, and the model profiles with the rights of the user.",
          "Example:\n  sondectl mcp", entries))
    return 1;
  if (isatty (STDIN_FILENO))
    sonde_cli_complain ("waiting for the messages of a program; see sondectl(1), MCP");
  signal (SIGPIPE, SIG_IGN); /* write() says so */
  loop = g_main_loop_new (NULL, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    g_unix_signal_add (signals[i], is_interrupted, loop);
  server = sonde_mcp_server_new (STDIN_FILENO, STDOUT_FILENO, has_ended, loop);
  g_main_loop_run (loop);
  return 0;
}
