/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonde-broker: opens for one session what needs rights. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/capabilities.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/calls.h"

#define FIRST_ACTIVATED_FD 3 /* SD_LISTEN_FDS_START */

typedef struct
{
  GMainLoop *loop;
  int status;
} Program;

static void
on_done (int status, gpointer user_data)
{
  Program *program = user_data;

  program->status = status;
  g_main_loop_quit (program->loop);
}

/* --fd=N from the daemon that spawned us, or the one descriptor of socket activation. */
static int
connection_fd (int argc, char **argv)
{
  const char *pid = g_getenv ("LISTEN_PID");
  guint64 fd;

  if (argc == 2 && g_str_has_prefix (argv[1], "--fd=")
      && g_ascii_string_to_unsigned (argv[1] + strlen ("--fd="), 10, 0, G_MAXINT, &fd, NULL))
    return (int) fd;
  if (argc == 1 && pid != NULL && g_ascii_strtoll (pid, NULL, 10) == getpid ()
      && g_strcmp0 (g_getenv ("LISTEN_FDS"), "1") == 0)
    return FIRST_ACTIVATED_FD;
  return -1;
}

static void
write_text (const char *text)
{
  /* Nobody is left to be told that it failed. */
  if (write (STDERR_FILENO, text, strlen (text)) < 0)
    return;
}

/* GLib's own writers look for a terminal, a time zone, a character set and the journal's socket. */
static GLogWriterOutput
write_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  if (g_log_writer_default_would_drop (level, NULL))
    return G_LOG_WRITER_HANDLED;
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, "MESSAGE") && fields[i].length < 0)
      {
        g_autofree char *line = g_strconcat ("sonde-broker: ", fields[i].value, "\n", NULL);

        write_text (line);
      }
  return G_LOG_WRITER_HANDLED;
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
  Program program = { NULL, EXIT_SUCCESS };
  SondeBroker *broker;
  socklen_t size_bytes = sizeof (int);
  int type = 0;
  int fd = connection_fd (argc, argv);

  g_log_set_writer_func (write_log, NULL, NULL);
  g_set_printerr_handler (write_text);
  signal (SIGPIPE, SIG_IGN);
  if (fd < FIRST_ACTIVATED_FD || getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &size_bytes) < 0
      || type != SOCK_SEQPACKET || fcntl (fd, F_SETFD, FD_CLOEXEC) < 0)
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
