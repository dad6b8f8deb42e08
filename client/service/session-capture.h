/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One more reader of a session that is there. */
#pragma once

#include "client/library/sonde-client.h"

/**
 * sonde_session_capture_open:
 * @path: of the session object
 * @request: a{sv} of Session.OpenCapture; floating is fine
 *
 * Blocks, for as long as somebody is asked for a password.
 *
 * Returns: the read side of its capture, the caller's to close; -1 with @error
 */
int sonde_session_capture_open (SondeClientProfiler *profiler,
                                const char *path,
                                GVariant *request,
                                GError **error);
