/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a profiler tells its sessions. */
#pragma once

#include "client/library/connection.h"
#include "client/library/sonde-client.h"

/**
 * sonde_client_session_new:
 * @profiler: (transfer none): kept by the session, which uses its connection
 * @task: (transfer full): answered with the session when it runs, or with why it does not
 */
void sonde_client_session_new (GObject *profiler,
                               SondeConnection *connection,
                               GVariant *options,
                               GUnixFDList *fds,
                               GTask *task);
