/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonde-capture: the data plane of one session. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/capture/worker/sandbox.h"
#include "daemon/capture/worker/worker-session.h"

#define FIRST_ACTIVATED_FD 3 /* SD_LISTEN_FDS_START */

typedef struct
{
  GMainLoop *loop;
  int status;
} Worker;

static void
on_done (int status, gpointer user_data)
{
  Worker *worker = user_data;

  worker->status = status;
  g_main_loop_quit (worker->loop);
}

static gboolean
read_option (const char *argument, const char *prefix, guint64 *value)
{
  return g_str_has_prefix (argument, prefix)
         && g_ascii_string_to_unsigned (argument + strlen (prefix), 10, 0, INT_MAX, value, NULL);
}

/* --fd=N [--uid=N] from the daemon that spawned us, or the one descriptor of socket activation. */
static int
connection_fd (int argc, char **argv, uid_t *uid)
{
  const char *pid = g_getenv ("LISTEN_PID");
  guint64 fd;
  guint64 own_uid;

  *uid = SONDE_SANDBOX_SAME_UID;
  if (argc == 3 && read_option (argv[2], "--uid=", &own_uid))
    *uid = (uid_t) own_uid;
  if ((argc == 2 || *uid != SONDE_SANDBOX_SAME_UID) && read_option (argv[1], "--fd=", &fd))
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

static GLogWriterOutput
write_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  if (g_log_writer_default_would_drop (level, NULL))
    return G_LOG_WRITER_HANDLED;
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, "MESSAGE") && fields[i].length < 0)
      {
        g_autofree char *line = g_strconcat ("sonde-capture: ", fields[i].value, "\n", NULL);

        write_text (line);
      }
  return G_LOG_WRITER_HANDLED;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GMainLoop) loop = NULL;
  g_autoptr (SondeWorkerSession) session = NULL;
  Worker worker = { NULL, EXIT_SUCCESS };
  socklen_t size_bytes = sizeof (int);
  int type = 0;
  uid_t uid;
  int fd = connection_fd (argc, argv, &uid);

  /* GLib's own writers look for a terminal, a time zone, a character set and the journal's socket:
   * all of these are out of a worker's reach. */
  g_log_set_writer_func (write_log, NULL, NULL);
  g_set_printerr_handler (write_text);

  if (fd < FIRST_ACTIVATED_FD || getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &size_bytes) < 0
      || type != SOCK_SEQPACKET || fcntl (fd, F_SETFD, FD_CLOEXEC) < 0)
    {
      g_printerr (
          "sonde-capture is started by sonded, with --fd=N [--uid=N] or by socket activation\n");
      return EXIT_FAILURE;
    }
  if (!sonde_sandbox_enter (fd, uid, &error))
    {
      g_printerr ("sonde-capture: %s\n", error->message);
      return EXIT_FAILURE;
    }

  loop = worker.loop = g_main_loop_new (NULL, FALSE);
  session = sonde_worker_session_new (fd, on_done, &worker);
  g_main_loop_run (loop);

  return worker.status;
}
