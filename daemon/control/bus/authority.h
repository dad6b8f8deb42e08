/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asks polkit who may do what: one asynchronous question per call. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/system/caller.h"

/**
 * SECTION: authority
 *
 * No answer is no: a missing polkit, an error, a timeout and a caller that has left all refuse.
 * Root is always allowed and never asked about. Of one uid, and of all, few questions are put to
 * polkit at a time, the others wait for their turn (question-queue.h).
 */
typedef struct SondeAuthority SondeAuthority;

/* Asks polkit on @connection, which outlives it, about the caller's unique bus name. */
SondeAuthority *sonde_authority_new_polkit (SondeBusConnection *connection);
/* For a private connection: we have exactly the caller's rights, so there is nothing to guard. */
SondeAuthority *sonde_authority_new_peer (void);
/* Accepts NULL. */
void sonde_authority_free (SondeAuthority *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeAuthority, sonde_authority_free)

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
