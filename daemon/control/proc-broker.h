/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens /proc texts and mapped files on behalf of a worker. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"
#include "daemon/control/options.h"

/**
 * SECTION: proc-broker
 *
 * A worker names a process by number and start time and a file by its mapping, never by a path.
 * What it may ask for: everything if the owner is root or the scope is the whole machine, else
 * processes of the owner's uid that are dumpable, and in the scope `pids` the processes that were
 * named. No code here opens a process's environment or memory.
 *
 * open() can wait for as long as a hostile file system likes, so a file is opened with O_PATH first
 * and its mount looked up; only local file systems pass.
 */
typedef struct SondeProcBroker SondeProcBroker;

SondeProcBroker *sonde_proc_broker_new (uid_t owner_uid, SondeScope scope);
/* Accepts NULL. */
void sonde_proc_broker_free (SondeProcBroker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProcBroker, sonde_proc_broker_free)

/* A process that the scope `pids` named. */
void sonde_proc_broker_allow (SondeProcBroker *self, pid_t pid, guint64 start_ticks);

/**
 * sonde_proc_broker_open_process:
 * @reply: (out): all but the header
 * @fds: (out): as reply->fds says, to be closed by the caller
 *
 * Returns: the number of descriptors; failures are reply->status
 */
unsigned sonde_proc_broker_open_process (const SondeProcBroker *self,
                                         guint64 request_id,
                                         pid_t pid,
                                         SondeMessageProcess *reply,
                                         int fds[2]);

/* Returns: an O_RDONLY descriptor of a regular file, or a negative errno */
int sonde_proc_broker_open_file (const SondeProcBroker *self,
                                 const SondeMessageFileRequest *request);
