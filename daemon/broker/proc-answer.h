/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#pragma once

#include "daemon/broker/proc-broker.h"
#include "daemon/broker/result-queue.h"

/* PROCESS, as an answer or (@request_id 0) unasked; and of a process in a container the mounts that
 * it sees, once for each. */
void sonde_proc_answer_process (SondeProcBroker *broker,
                                guint64 request_id,
                                pid_t pid,
                                SondeResultQueue *results);

/* FILE, with the same mounts before it: paths mean nothing without. */
void sonde_proc_answer_file (SondeProcBroker *broker,
                             const SondeMessageFileRequest *request,
                             SondeResultQueue *results);
