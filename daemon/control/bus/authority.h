/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asks polkit who may do what: one asynchronous question per call, in turns. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/system/caller.h"

/**
 * SECTION: authority
 *
 * No answer is no: a missing polkit, an error, a timeout and a caller that has left all refuse.
 * Root is always allowed and never asked about. Of one uid, and of all, few questions are put to
 * polkit at a time, the others wait for their turn.
 */
typedef struct SondeAuthority SondeAuthority;

/* Asks polkit on @connection, which outlives it, about the caller's unique bus name. */
SondeAuthority *sonde_authority_new_polkit (SondeBusConnection *connection);
/* For a private connection: we have exactly the caller's rights, so there is nothing to guard. */
SondeAuthority *sonde_authority_new_peer (void);
void sonde_authority_free (SondeAuthority *self);

/**
 * sonde_authority_check_async:
 * @action: a polkit action
 * @details: (transfer floating): of type a{ss}: what the question is about
 * @is_interactive: whether the caller's message allows a password dialog
 *
 * Errors: SONDE_ERROR_NOT_AUTHORIZED, naming @action
 */
void sonde_authority_check_async (SondeAuthority *self,
                                  SondeCaller *caller,
                                  const char *action,
                                  GVariant *details,
                                  gboolean is_interactive,
                                  GAsyncReadyCallback callback,
                                  gpointer user_data);
gboolean sonde_authority_check_finish (SondeAuthority *self, GAsyncResult *result, GError **error);

/* The bus lets one connection wait for a number of answers that is soon used up by people who sit
 * in front of a dialog. So a question waits in the line of its uid, and the lines take turns. It is
 * bounded by the calls that a uid may have in flight, SONDE_LIMIT_CALLS. */
typedef struct SondeQuestionQueue SondeQuestionQueue;
/* Where a question stands: in its line, or, once it is put, among those that are open. */
typedef struct
{
  struct SondeQuestionLine *line;
  gpointer question;
  gboolean is_open;
} SondeQuestionPlace;

/* @max_open: questions that are put and not answered, of all uids; @max_open_per_uid: of one;
 * @put: is called once for a question whose turn it is, in the order of the turns; it may not call
 * back */
SondeQuestionQueue *
sonde_question_queue_new (guint max_open, guint max_open_per_uid, void (*put) (gpointer question));
/* When all places are given back. */
void sonde_question_queue_free (SondeQuestionQueue *self);

/* Its turn comes by sonde_question_queue_advance() at the earliest.
 * @question: (transfer none): for `put`; outlives the place
 * Returns: to be given back with sonde_question_place_leave() */
SondeQuestionPlace *
sonde_question_queue_enter (SondeQuestionQueue *self, uid_t uid, gpointer question);
/* Puts as many questions as may be open. */
void sonde_question_queue_advance (SondeQuestionQueue *self);

/* Answered, or given up before it was put. The next one's turn comes with an advance. */
void sonde_question_place_leave (SondeQuestionPlace *self);
