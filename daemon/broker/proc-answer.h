/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#pragma once

#include "daemon/base/channel.h"
#include "daemon/broker/event-set.h"
#include "daemon/broker/proc-broker.h"

/**
 * SondeAnswer:
 *
 * Up to four messages that follow each other, with their descriptors: made where the question is
 * looked into, and sent by whoever has the connection.
 */
typedef struct SondeAnswer SondeAnswer;

void sonde_answer_free (SondeAnswer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeAnswer, sonde_answer_free)

/* What came of an opening: (transfer full) (nullable): NULL: it was not looked into */
SondeOpening *sonde_answer_steal_opening (SondeAnswer *self);

/* Of PLACE: whether it is right. */
gboolean sonde_answer_is_right (const SondeAnswer *self);

/* Of PROBES: (transfer full): the link that keeps them, or -1; PROBED tells why there is none. */
int sonde_answer_steal_link (SondeAnswer *self);

/* @self: (transfer full): without what @broker says was told of already. Errors: those of
 * sonde_channel_send() */
gboolean sonde_answer_send (SondeAnswer *self,
                            SondeProcBroker *broker,
                            SondeChannel *channel,
                            GError **error);

/* @text: in any script; what is beyond a note's length is cut off */
void sonde_note_init (SondeMessageNote *note, const char *text);

typedef enum
{
  SONDE_QUESTION_PROCESS,  /* PROCESS */
  SONDE_QUESTION_FILE,     /* FILE */
  SONDE_QUESTION_COUNTERS, /* COUNTERS */
  SONDE_QUESTION_TARGET,   /* all that is told of a new one, as far as it is wanted */
  SONDE_QUESTION_OPEN,     /* nothing: the events of a process */
  SONDE_QUESTION_JOIN,     /* JOINED, which is the front's to hear */
  SONDE_QUESTION_THREADS,  /* THREADS */
  SONDE_QUESTION_PLACE,    /* nothing: whether a process is walked so */
  SONDE_QUESTION_PROBES,   /* PROBED */
} SondeQuestionKind;

/* What is to be looked into of one process: a request of the worker's, or a new target. */
typedef struct
{
  SondeQuestionKind kind;
  pid_t pid;
  uid_t uid;                    /* whose it is: sonde_proc_owner() */
  guint64 request_id;           /* of PROCESS and JOIN */
  guint64 start_ticks;          /* of COUNTERS and TARGET: the handle of the process, with pid */
  SondeMessageFileRequest file; /* of FILE */
  gboolean is_called;           /* of JOIN: the scope has to have it */
  gboolean wants_mounts;        /* of TARGET, here and below: DOCUMENT, of the first one */
  gboolean wants_counters;      /* COUNTERS */
  gboolean wants_process;       /* PROCESS; and the descriptor of COUNTERS */
  SondeMessageInterpreter interpreter; /* of PLACE */
  guint n_tids;                        /* of THREADS; 0: all */
  gint tids[SONDE_MESSAGE_MAX_ASKED_THREADS];
  SondeMessageProbes probes;  /* of PROBES */
  SondeProbeProgram *program; /* of PROBES: a reference */
  SondeOpening *opening;      /* of OPEN */
  gpointer data;              /* whoever asks knows what it is */
} SondeQuestion;

/* One that was copied, with its opening. */
void sonde_question_free (SondeQuestion *self);

/**
 * sonde_question_answer:
 * @self: of which self->opening is taken
 * @batch: as for sonde_proc_broker_open_file()
 *
 * Takes as long as the kernel likes. With a process in a container come the mounts that it sees,
 * once for each; with a file before it, since paths mean nothing without.
 *
 * Returns: (transfer full)
 */
SondeAnswer *
sonde_question_answer (const SondeQuestion *self, SondeProcBroker *broker, SondeProcBatch *batch);
/* The same without looking. @status: why, an errno */
SondeAnswer *sonde_question_refuse (const SondeQuestion *self, int status);
