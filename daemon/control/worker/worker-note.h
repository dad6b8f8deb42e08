/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sentence of control's for the capture. */
#pragma once

#include "daemon/control/worker/worker.h"

/* NOTE. @text: in any script; what is beyond a note's length is cut off */
gboolean sonde_worker_note_send (SondeWorker *worker, const char *text, GError **error);
