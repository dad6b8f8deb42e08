/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How workers are started: by systemd, or as our children with a uid for each. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/control/system/bus-connection.h"
#include "daemon/control/worker/worker-socket.h"

/**
 * SECTION: worker-launcher
 *
 * What root spawns gets a uid, and the gid of the same number, that no other process has: locked
 * memory is counted for each uid, and workers must not be able to signal each other. Anybody else's
 * workers are the caller.
 *
 * The range lies below that of DynamicUser= (61184 to 65519) among those that systemd leaves to
 * nobody, clear of what Debian gives to packages, and within the 65,536 ids that a container
 * usually has. Of these the kernel tells which ones live processes have, so that two daemons get
 * along; ours are remembered from their start until they are reaped.
 *
 * Source: https://systemd.io/UIDS-GIDS; Debian Policy 9.2.2; getpriority(2)
 */
#define SONDE_WORKER_UID_FIRST 60928u
#define SONDE_WORKER_N_UIDS    256u

#define SONDE_WORKER_UID_NONE  ((uid_t) -1) /* the caller's */

typedef struct SondeWorkerLauncher SondeWorkerLauncher;

/* @path: the executable, to be spawned; never a caller's word */
SondeWorkerLauncher *sonde_worker_launcher_new (const char *path);
/* @socket_path: where systemd listens
 * @bus: the system bus, where it answers; outliving it */
SondeWorkerLauncher *sonde_worker_launcher_new_systemd (const char *socket_path,
                                                        SondeBusConnection *bus);
SondeWorkerLauncher *sonde_worker_launcher_ref (SondeWorkerLauncher *self);
void sonde_worker_launcher_unref (SondeWorkerLauncher *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWorkerLauncher, sonde_worker_launcher_unref)

/* NULL: systemd starts them. */
const char *sonde_worker_launcher_path (const SondeWorkerLauncher *self);
/* NULL both, unless systemd starts them. */
SondeWorkerSocket *sonde_worker_launcher_socket (const SondeWorkerLauncher *self);
SondeBusConnection *sonde_worker_launcher_bus (const SondeWorkerLauncher *self);

/**
 * sonde_worker_launcher_take_uid:
 * @uid: (out): SONDE_WORKER_UID_NONE unless we are root
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: all are in use
 */
gboolean sonde_worker_launcher_take_uid (SondeWorkerLauncher *self, uid_t *uid, GError **error);

/* When its process is reaped. SONDE_WORKER_UID_NONE is nothing to give back. */
void sonde_worker_launcher_give_uid_back (SondeWorkerLauncher *self, uid_t uid);
