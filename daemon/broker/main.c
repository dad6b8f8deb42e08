/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonde-broker: opens for one session what needs rights. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/program.h"
#include "daemon/broker/rights.h"
#include "daemon/broker/broker.h"

typedef struct
{
  GMainLoop *loop;
  int status;
} BrokerMain;

static void
on_done (int status, gpointer user_data)
{
  BrokerMain *program = user_data;

  program->status = status;
  g_main_loop_quit (program->loop);
}

/* Whoever reads what our client writes does not wait for a lane of ours that is stuck. */
static gboolean
leave_surroundings (int keep_fd)
{
  int null_fd = open ("/dev/null", O_RDWR | O_CLOEXEC);

  return null_fd >= 0 && dup2 (null_fd, STDIN_FILENO) >= 0 && dup2 (null_fd, STDOUT_FILENO) >= 0
         && (keep_fd == 3 || close_range (3, (unsigned) keep_fd - 1, 0) == 0)
         && close_range ((unsigned) keep_fd + 1, ~0u, 0) == 0 && chdir ("/") == 0;
}

/* It has the rings of all processors open, and opens thousands of events at once. */
static void
raise_file_limit (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) < 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit (RLIMIT_NOFILE, &limit);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  BrokerMain program = { NULL, EXIT_SUCCESS };
  SondeBroker *broker;
  int fd;

  sonde_program_log_plainly ("sonde-broker");
  signal (SIGPIPE, SIG_IGN);
  fd = sonde_program_connection (argc, argv, NULL);
  if (fd < 0)
    {
      g_printerr ("sonde-broker is started by sonded, with --fd=N or by socket activation\n");
      return EXIT_FAILURE;
    }
  if (!leave_surroundings (fd))
    {
      g_printerr ("sonde-broker: cannot leave what it was started with\n");
      return EXIT_FAILURE;
    }
  if (!sonde_capabilities_init (&error))
    {
      g_printerr ("sonde-broker: %s\n", error->message);
      return EXIT_FAILURE;
    }
  raise_file_limit ();
  if (!sonde_broker_calls_enforce (fd, &error))
    {
      g_printerr ("sonde-broker: %s\n", error->message);
      return EXIT_FAILURE;
    }

  program.loop = g_main_loop_new (NULL, FALSE);
  broker = sonde_broker_new (fd, on_done, &program);
  g_main_loop_run (program.loop);

  /* What others wait for is closed, and all events; the rest of our descriptors, and a lane, may
   * keep the kernel waiting. */
  sonde_broker_free (broker);
  close (STDERR_FILENO);
  _exit (program.status);
}
