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

/* FILE without one: @status is why, an errno. */
void sonde_proc_refuse_file (const SondeMessageFileRequest *request,
                             int status,
                             SondeResultQueue *results);

/**
 * SondeFileQueue:
 *
 * Requests for files, where each would have all mappings of its process read: those of one process
 * that wait are answered by one reading. A turn takes one process, then others have their turns for
 * some times as long: a process with very many mappings costs its own session time, and nobody
 * else.
 */
typedef struct SondeFileQueue SondeFileQueue;

typedef void (*SondeFileQueueAnswer) (const SondeMessageFileRequest *request, gpointer user_data);

/* @broker: borrowed, outliving it */
SondeFileQueue *
sonde_file_queue_new (SondeProcBroker *broker, SondeFileQueueAnswer answer, gpointer user_data);
/* Accepts NULL. What waits is forgotten. */
void sonde_file_queue_free (SondeFileQueue *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFileQueue, sonde_file_queue_free)

/* It is answered later. FALSE: SONDE_LIMIT_FILE_REQUESTS wait already, and it is not. */
gboolean sonde_file_queue_push (SondeFileQueue *self, const SondeMessageFileRequest *request);
