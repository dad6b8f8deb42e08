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

/* FILE without one: @status is why, an errno. */
gboolean sonde_proc_refuse_file (const SondeMessageFileRequest *request,
                                 int status,
                                 SondeWorker *worker,
                                 GError **error);

/**
 * SondeFileQueue:
 *
 * Requests for files, where each would have all mappings of its process read: those of one process
 * that wait are answered by one reading. A turn takes one process, then others have their turns for
 * some times as long: a process with very many mappings costs its own session time, and nobody
 * else.
 */
typedef struct SondeFileQueue SondeFileQueue;

/* FALSE: nobody is there any more to be answered. */
typedef gboolean (*SondeFileQueueAnswer) (const SondeMessageFileRequest *request,
                                          gpointer user_data);

/* @broker: borrowed, outliving it */
SondeFileQueue *
sonde_file_queue_new (SondeProcBroker *broker, SondeFileQueueAnswer answer, gpointer user_data);
/* Accepts NULL. What waits is forgotten. */
void sonde_file_queue_free (SondeFileQueue *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFileQueue, sonde_file_queue_free)

/* It is answered later. FALSE: SONDE_LIMIT_FILE_REQUESTS wait already, and it is not. */
gboolean sonde_file_queue_push (SondeFileQueue *self, const SondeMessageFileRequest *request);
