/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#include "daemon/control/proc-answer.h"

#include <unistd.h>

/* Nothing is lost if they cannot be had. */
static gboolean
send_mountinfo (
    SondeProcBroker *broker, pid_t pid, int file_fd, SondeWorker *worker, GError **error)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = pid };
  int fd = sonde_proc_broker_open_mountinfo (broker, pid, file_fd);

  return fd < 0 || sonde_worker_send (worker, &message, sizeof message, &fd, 1, error);
}

gboolean
sonde_proc_answer_process (
    SondeProcBroker *broker, guint64 request_id, pid_t pid, SondeWorker *worker, GError **error)
{
  SondeMessageProcess message;
  int fds[2];
  unsigned n_fds = sonde_proc_broker_open_process (broker, request_id, pid, &message, fds);

  message.header.type = SONDE_MESSAGE_PROCESS;
  return sonde_worker_send (worker, &message, sizeof message, fds, n_fds, error)
         && (message.status != 0 || send_mountinfo (broker, pid, -1, worker, error));
}

gboolean
sonde_proc_answer_file (SondeProcBroker *broker,
                        const SondeMessageFileRequest *request,
                        SondeWorker *worker,
                        GError **error)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int fd = sonde_proc_broker_open_file (broker, request);

  message.status = fd < 0 ? -fd : 0;
  if (fd >= 0 && !send_mountinfo (broker, request->pid, fd, worker, error))
    {
      close (fd);
      return FALSE;
    }
  return sonde_worker_send (worker, &message, sizeof message, &fd, fd < 0 ? 0 : 1, error);
}
