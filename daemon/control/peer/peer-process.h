/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A broker or worker that we spawn: its start, and its end by itself or by force. */
#pragma once

#include "daemon/control/peer/peer-launcher.h"

/**
 * SECTION: peer-process
 *
 * A thread of its own forks and waits for the exec, which takes as long as the machine is busy; the
 * main loop does not. What is sent to the process meanwhile waits in its connection.
 */
typedef struct SondePeerProcess SondePeerProcess;

/* The only descriptor that it inherits but for standard error. */
#define SONDE_PEER_FD 3

/* Once: the process was reaped, or could not be started. @how is a sentence without a full stop.
 * Nothing but sonde_peer_process_free() may follow. */
typedef void (*SondePeerProcessEnded) (const char *how, gpointer user_data);

/**
 * sonde_peer_process_new:
 * @launcher: outlived only by processes that have a uid of its own range
 * @fd: (transfer full): its end of the connection
 *
 * Errors: those of sonde_peer_launcher_take_uid()
 */
SondePeerProcess *
sonde_peer_process_new (SondePeerLauncher *launcher, SondePeerKind kind, int fd, GError **error);
/* Returns: (nullable): how it has ended already: then @ended is not called */
const char *
sonde_peer_process_watch (SondePeerProcess *self, SondePeerProcessEnded ended, gpointer user_data);
/* @ended is not called any more; a kill is still carried out. Accepts NULL. */
void sonde_peer_process_free (SondePeerProcess *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePeerProcess, sonde_peer_process_free)

/* SIGKILL, as soon as there is a process. */
void sonde_peer_process_kill (SondePeerProcess *self);

/* 0: it is not started yet, or it is reaped. */
pid_t sonde_peer_process_pid (const SondePeerProcess *self);
