/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonde-capture: the data plane of one session. */
#include <stdlib.h>

#include "daemon/base/program.h"
#include "daemon/capture/worker/sandbox.h"
#include "daemon/capture/worker/worker-session.h"

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

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GMainLoop) loop = NULL;
  g_autoptr (SondeWorkerSession) session = NULL;
  Worker worker = { NULL, EXIT_SUCCESS };
  uid_t uid;
  int fd;

  sonde_program_log_plainly ("sonde-capture");
  fd = sonde_program_connection (argc, argv, &uid);
  if (fd < 0)
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
