/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#pragma once

#include "daemon/control/session/proc-broker.h"
#include "daemon/control/worker/worker.h"

/* PROCESS, as an answer or (@request_id 0) unasked; and of a process in a container the mounts that
 * it sees, once for each. FALSE only if the worker cannot be told. */
gboolean sonde_proc_answer_process (
    SondeProcBroker *broker, guint64 request_id, pid_t pid, SondeWorker *worker, GError **error);

/* FILE, with the same mounts before it: paths mean nothing without. */
gboolean sonde_proc_answer_file (SondeProcBroker *broker,
                                 const SondeMessageFileRequest *request,
                                 SondeWorker *worker,
                                 GError **error);
