/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The socket at which systemd starts workers, with one worker kept ready. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: worker-socket
 *
 * Each connection to it is a worker of its own, an instance of sonde-capture@.service. To become
 * one takes some ten milliseconds, so one connection is made beforehand. Its worker has said hello
 * when it is taken, and that waits in the connection.
 */
typedef struct SondeWorkerSocket SondeWorkerSocket;

/* Connects the first spare worker; what is wrong shows when a worker is wanted. */
SondeWorkerSocket *sonde_worker_socket_new (const char *path);
/* The spare worker sees the end of its connection and exits. Accepts NULL. */
void sonde_worker_socket_free (SondeWorkerSocket *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWorkerSocket, sonde_worker_socket_free)

/**
 * sonde_worker_socket_take:
 *
 * Returns: (transfer full): a connection with SO_PASSCRED, on which a worker says hello or which
 *   ends; -1 with @error if systemd does not listen or has too many connections to accept
 */
int sonde_worker_socket_take (SondeWorkerSocket *self, GError **error);
