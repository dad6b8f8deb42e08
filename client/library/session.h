/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One session seen by its owner: asks for it, reads or keeps its capture, waits for its end. */
#pragma once

#include "client/library/connection.h"

/**
 * sonde_client_session_new:
 * @profiler: (transfer none): kept by the session, which uses its connection
 * @options: a{sv} of Manager.Profile; floating is fine
 * @fds: (nullable): what the handles in @options mean
 * @task: (transfer full): answered with the session when it runs, or with why it does not
 */
void sonde_client_session_new (GObject *profiler,
                               SondeConnection *connection,
                               GVariant *options,
                               GUnixFDList *fds,
                               GTask *task);

/* The proof that the caller may read a process: an open /proc/PID/maps, close-on-exec; or -1 with
 * @error. */
int sonde_process_proof_open (gint pid, GError **error);
