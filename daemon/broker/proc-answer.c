/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#include "daemon/broker/proc-answer.h"

#include <errno.h>

/* @fd: (transfer full): what the broker gave: not always a descriptor */
static void
send_mountinfo (int fd, pid_t pid, SondeResultQueue *results)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = pid };

  if (fd == -ENOSPC)
    sonde_result_queue_note (results,
                             "Programs are on more mounts of containers than a capture tells of: "
                             "names of their functions may be missing");
  else if (fd >= 0)
    sonde_result_queue_message (results, &message, sizeof message, &fd, 1);
}

void
sonde_proc_answer_process (SondeProcBroker *broker,
                           guint64 request_id,
                           pid_t pid,
                           SondeResultQueue *results)
{
  SondeMessageProcess message;
  int mountinfo_fd;
  int fds[2];
  unsigned n_fds
      = sonde_proc_broker_open_process (broker, request_id, pid, &message, fds, &mountinfo_fd);

  message.header.type = SONDE_MESSAGE_PROCESS;
  sonde_result_queue_message (results, &message, sizeof message, fds, n_fds);
  send_mountinfo (mountinfo_fd, pid, results);
}

void
sonde_proc_answer_file (SondeProcBroker *broker,
                        const SondeMessageFileRequest *request,
                        SondeResultQueue *results)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int mountinfo_fd;
  int fd = sonde_proc_broker_open_file (broker, request, &mountinfo_fd);

  message.status = fd < 0 ? -fd : 0;
  send_mountinfo (mountinfo_fd, request->pid, results);
  sonde_result_queue_message (results, &message, sizeof message, &fd, fd < 0 ? 0 : 1);
}
