/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The single gate between a caller and a handler. */
#pragma once

#include "daemon/control/bus/call.h"

/**
 * sonde_gate_pass:
 * @call: (transfer full): whose caller is known
 * @run: gets @call once it is through
 *
 * Asks at most one question about the call, as its row says, and fails the call if the answer is
 * not yes. The request is frozen before the question. A session is looked up again after it: it may
 * have ended meanwhile.
 *
 * Who may not use a session gets the same error whether or not there is one of that number.
 */
void sonde_gate_pass (SondeCall *call, void (*run) (SondeCall *call));
