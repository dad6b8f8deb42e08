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

/* The proof that the caller may read a process: an open /proc/PID/maps, which is appended to @fds.
 * Returns: (transfer floating): a(uh), of that process; NULL with @error */
GVariant *sonde_process_prove (gint pid, GUnixFDList *fds, GError **error);
