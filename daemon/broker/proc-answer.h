/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#pragma once

#include "daemon/base/channel.h"
#include "daemon/broker/proc-broker.h"

/**
 * SondeAnswer:
 *
 * Up to four messages that follow each other, with their descriptors: made where the question is
 * looked into, and sent by whoever has the connection.
 */
typedef struct SondeAnswer SondeAnswer;

SondeAnswer *sonde_answer_new (void);
/* Accepts NULL. */
void sonde_answer_free (SondeAnswer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeAnswer, sonde_answer_free)

/* @message: copied; @fds: (transfer full), at most two */
void sonde_answer_add (
    SondeAnswer *self, gconstpointer message, gsize size_bytes, const int *fds, unsigned n_fds);
/* @self: (transfer full). Errors: those of sonde_channel_send() */
gboolean sonde_answer_send (SondeAnswer *self, SondeChannel *channel, GError **error);

/* PROCESS, as an answer or (@request_id 0) unasked; and of a process in a container the mounts that
 * it sees, once for each. */
void sonde_answer_add_process (SondeAnswer *self,
                               SondeProcBroker *broker,
                               guint64 request_id,
                               pid_t pid);
/* FILE, with the same mounts before it: paths mean nothing without. */
void sonde_answer_add_file (SondeAnswer *self,
                            SondeProcBroker *broker,
                            const SondeMessageFileRequest *request);
/* FILE without one: @status is why, an errno. */
void
sonde_answer_add_refusal (SondeAnswer *self, const SondeMessageFileRequest *request, int status);

/* @text: in any script; what is beyond a note's length is cut off */
void sonde_note_init (SondeMessageNote *note, const char *text);

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
