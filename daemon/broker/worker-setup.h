/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sends what a worker is told before it starts. */
#pragma once

#include "daemon/base/asked.h"
#include "daemon/base/channel.h"
#include "daemon/broker/perf-event.h"

/* SETUP, then the DOCUMENTs and what COUNTERS need. Errors: also SONDE_ERROR_NOT_SUPPORTED: the
 * machine has no text for the counters that are asked for */
gboolean sonde_worker_setup_send (SondeChannel *front,
                                  guint64 session_id,
                                  uid_t owner_uid,
                                  const SondeAsked *asked,
                                  const SondePerfPlan *plan,
                                  GError **error);
