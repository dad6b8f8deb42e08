/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a broker's results from the main loop, in their order. */
#pragma once

#include "daemon/broker/broker.h"

/**
 * SECTION: result-queue
 *
 * Who is told may do anything to the broker, as a process at the other end of a socket may: so
 * nothing is told while the broker is in the middle of something.
 */
typedef struct SondeResultQueue SondeResultQueue;

SondeResultQueue *sonde_result_queue_new (const SondeBrokerResults *results, gpointer user_data);
/* Also from inside of a result. Accepts NULL. */
void sonde_result_queue_free (SondeResultQueue *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeResultQueue, sonde_result_queue_free)

/* @message: copied, its size filled in; @fds: (transfer full) */
void sonde_result_queue_message (
    SondeResultQueue *self, gpointer message, gsize size_bytes, const int *fds, unsigned n_fds);
void sonde_result_queue_note (SondeResultQueue *self, const char *text);

typedef enum
{
  SONDE_RESULT_PROVED,
  SONDE_RESULT_OPENED,
  SONDE_RESULT_ADDED,
  SONDE_RESULT_FAILED,
  SONDE_RESULT_ALL_ENDED,
  SONDE_RESULT_CHANGED,
  SONDE_RESULT_RINGS_CHANGED,
  SONDE_RESULT_MESSAGE, /* by the function above, as is the next */
  SONDE_RESULT_NOTE,
} SondeResultKind;

/* @error: (nullable) (transfer full) */
void sonde_result_queue_push (SondeResultQueue *self, SondeResultKind kind, GError *error);
