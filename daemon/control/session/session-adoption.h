/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session that passes from one sonded to the next. */
#pragma once

#include "daemon/control/session/session-keeper.h"
#include "daemon/control/session/session.h"

/**
 * SECTION: session-adoption
 *
 * What a client is told is written down before it is told, and what it wants (to pause, to stop)
 * before the worker is. Whoever takes over says the latter again, and lets the worker tell the
 * rest: it is harmless to hear something twice, and nothing depends on a message that was read and
 * not acted upon.
 */

/**
 * sonde_session_adopt:
 * @left: its descriptors and its record are taken
 * @owner: of the record's name, left or not
 *
 * Its worker has never stopped. Of a session that is over, and has no worker any more, only what
 * its properties say is left (see sonde_session_retire()); one that has one ends again, since it
 * may not have been told. The handler is not called in here.
 *
 * Errors: SONDE_ERROR_FAILED, and those of sonde_options_restore()
 */
SondeSession *sonde_session_adopt (SondeLeftSession *left,
                                   SondeFdStore *fd_store,
                                   SondeCaller *owner,
                                   SondeCaptureStore *store,
                                   SondePeerLauncher *launcher,
                                   const SondeSessionHandler *handler,
                                   gpointer user_data,
                                   GError **error);
