/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Questions that wait for their turn: few are put at a time, and no uid keeps others waiting. */
#pragma once

#include <glib.h>
#include <sys/types.h>

/**
 * SECTION: question-queue
 *
 * The bus lets one connection wait for a number of answers that is soon used up by people who sit
 * in front of a dialog. So a question waits here, in the line of its uid, and the lines take turns.
 * It is bounded by the calls that a uid may have in flight, SONDE_LIMIT_CALLS.
 */
typedef struct SondeQuestionQueue SondeQuestionQueue;
/* Where a question stands: in its line, or, once it is put, among those that are open. */
typedef struct SondeQuestionPlace SondeQuestionPlace;

/* @max_open: questions that are put and not answered, of all uids; @max_open_per_uid: of one;
 * @put: is called once for a question whose turn it is, in the order of the turns; it may not call
 * back */
SondeQuestionQueue *
sonde_question_queue_new (guint max_open, guint max_open_per_uid, void (*put) (gpointer question));
/* When all places are given back. Accepts NULL. */
void sonde_question_queue_free (SondeQuestionQueue *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeQuestionQueue, sonde_question_queue_free)

/* Its turn comes by sonde_question_queue_advance() at the earliest.
 * @question: (transfer none): for `put`; outlives the place
 * Returns: to be given back with sonde_question_place_leave() */
SondeQuestionPlace *
sonde_question_queue_enter (SondeQuestionQueue *self, uid_t uid, gpointer question);
/* Puts as many questions as may be open. */
void sonde_question_queue_advance (SondeQuestionQueue *self);

/* Whether the question has been put. */
gboolean sonde_question_place_is_open (const SondeQuestionPlace *self);
/* Answered, or given up before it was put. The next one's turn comes with an advance. */
void sonde_question_place_leave (SondeQuestionPlace *self);
