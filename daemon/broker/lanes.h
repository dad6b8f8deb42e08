/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asks the kernel about processes from a thread for each uid, so that one that hangs delays no
 * other. */
#pragma once

#include "daemon/broker/proc-answer.h"

/**
 * SECTION: lanes
 *
 * What the kernel is asked about a process can wait for that process, or for the server of a file
 * system that its owner runs: for as long as that one likes, and sometimes beyond SIGKILL. So each
 * uid has a thread of its own, its lane, in which the questions about its processes wait for each
 * other. uids that /etc/subuid gives to one user are one.
 *
 * A lane that does not answer a question within SONDE_LIMIT_LANE_MS is stuck: that question and all
 * that wait behind it are refused with ETIMEDOUT, and so is each new one, at once, until the thread
 * returns; what it brings then is dropped. There are at most SONDE_LIMIT_LANES; one that has
 * nothing to do is given up for another uid, and while there is none EAGAIN is the answer.
 *
 * Where each request for a file has all mappings of its process read, those of one process that
 * wait are answered by one reading, and then the lane rests some times as long: a process with very
 * many mappings costs its own uid time, and the machine little.
 *
 * A lane that opens events holds them, switched off, until they are told of, and closes what nobody
 * waits for any more.
 *
 * Main loop only, but for what SondeLanesHandler says.
 */
typedef struct SondeLanes SondeLanes;

typedef struct
{
  /* In the thread of a lane: sonde_question_answer() */
  SondeAnswer *(*look) (const SondeQuestion *question,
                        SondeProcBroker *broker,
                        SondeProcBatch *batch);
  /* Each question once, also from inside of sonde_lanes_ask(). @answer: (transfer full) */
  void (*answered) (const SondeQuestion *question, SondeAnswer *answer, gpointer user_data);
  /* The lane of @uid is, or is not any more. @pid: that it was asked about */
  void (*stuck) (uid_t uid, pid_t pid, gboolean is_over, gpointer user_data);
} SondeLanesHandler;

/* @broker: prepared, and shared from now on; @handler: outliving it */
SondeLanes *
sonde_lanes_new (SondeProcBroker *broker, const SondeLanesHandler *handler, gpointer user_data);
/* What is not answered is forgotten; waits for nobody. Not from inside of a handler. */
void sonde_lanes_free (SondeLanes *self);

/* @question: copied, and its opening is taken */
void sonde_lanes_ask (SondeLanes *self, const SondeQuestion *question);

typedef struct
{
  uid_t first;
  guint32 n;
  uid_t uid; /* what they are folded into: the first one of the same user's first range */
} SondeUidRange;

/* @text: of /etc/subuid. Returns: (transfer full) (element-type SondeUidRange). Source: subuid(5)
 */
GArray *sonde_subuid_parse (const char *text);
/* @uid itself if it is in none of @ranges */
uid_t sonde_subuid_fold (const GArray *ranges, uid_t uid);
