/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#include "daemon/control/session/proc-answer.h"

#include <errno.h>

#include "base/fd.h"
#include "daemon/control/worker/worker-note.h"

/* @fd: (transfer full): what the broker gave: not always a descriptor */
static gboolean
send_mountinfo (int fd, pid_t pid, SondeWorker *worker, GError **error)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = pid };

  if (fd == -ENOSPC)
    return sonde_worker_note_send (worker,
                                   "Programs are on more mounts of containers than a capture tells "
                                   "of: names of their functions may be missing",
                                   error);
  return fd < 0 || sonde_worker_send (worker, &message, sizeof message, &fd, 1, error);
}

gboolean
sonde_proc_answer_process (
    SondeProcBroker *broker, guint64 request_id, pid_t pid, SondeWorker *worker, GError **error)
{
  SondeMessageProcess message;
  int mountinfo_fd;
  int fds[2];
  unsigned n_fds
      = sonde_proc_broker_open_process (broker, request_id, pid, &message, fds, &mountinfo_fd);

  message.header.type = SONDE_MESSAGE_PROCESS;
  if (sonde_worker_send (worker, &message, sizeof message, fds, n_fds, error))
    return send_mountinfo (mountinfo_fd, pid, worker, error);
  sonde_clear_fd (&mountinfo_fd);
  return FALSE;
}

gboolean
sonde_proc_answer_file (SondeProcBroker *broker,
                        const SondeMessageFileRequest *request,
                        SondeWorker *worker,
                        GError **error)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int mountinfo_fd;
  int fd = sonde_proc_broker_open_file (broker, request, &mountinfo_fd);

  message.status = fd < 0 ? -fd : 0;
  if (send_mountinfo (mountinfo_fd, request->pid, worker, error))
    return sonde_worker_send (worker, &message, sizeof message, &fd, fd < 0 ? 0 : 1, error);
  sonde_clear_fd (&fd);
  return FALSE;
}
