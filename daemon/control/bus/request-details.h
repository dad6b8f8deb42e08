/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells polkit of a request: for its rules, and for the person who is asked. */
#pragma once

#include "daemon/control/system/caller.h"
#include "daemon/control/request/options.h"

/**
 * SECTION: request-details
 *
 * Values of type a{ss}, floating. The key "what" stands in the messages of the policy file; the
 * others are for rules: action.lookup ("scope").
 *
 * Whoever asks may read them through an authentication agent of his own, so they say nothing that
 * he does not know: no name of a process, and no uid of one where /proc hides it.
 */

/* what, scope, targets (pids), target-uids, client-pid, and the options that are for polkit, as far
 * as they have a value */
GVariant *sonde_request_details_to_start (const SondeOptions *options, const SondeCaller *caller);
/* what, session, client-pid: alike whether or not there is such a session */
GVariant *sonde_request_details_of_session (guint64 session_id, const SondeCaller *caller);
/* what, capture, client-pid: the same of a stored capture */
GVariant *sonde_request_details_of_capture (const char *name, const SondeCaller *caller);
