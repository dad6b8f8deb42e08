/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts, watches and kills brokers and workers through the spawner. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/peer/spawner.h"

/**
 * SECTION: peer-process
 *
 * What is sent to a process before it has begun waits in its connection; nobody waits for its
 * start.
 */

/* Our end of the connection with the spawner. */
typedef struct SondePeerProcesses SondePeerProcesses;

/* @fd: (transfer full): of sonde_spawner_fork() */
SondePeerProcesses *
sonde_peer_processes_new (int fd, const SondeSpawnerProgram *programs, unsigned n_programs);
/* Kills that were asked for are carried out; nobody is told of an end any more. */
void sonde_peer_processes_free (SondePeerProcesses *self);

/* One of them: its start, and its end by itself or by force. */
typedef struct SondePeerProcess SondePeerProcess;

/* Once: the process was reaped, or could not be started. @how is a sentence without a full stop.
 * Nothing but sonde_peer_process_free() may follow. */
typedef void (*SondePeerProcessEnded) (const char *how, gpointer user_data);

/**
 * sonde_peer_process_new:
 * @processes: outliving it
 * @program: an index
 * @name: of the program, in sentences; outliving it
 * @fd: (transfer full): its end of the connection
 *
 * Errors: SONDE_ERROR_FAILED: the spawner has gone, or is behind
 */
SondePeerProcess *sonde_peer_process_new (
    SondePeerProcesses *processes, unsigned program, const char *name, int fd, GError **error);
/* Returns: (nullable): how it has ended already: then @ended is not called */
const char *
sonde_peer_process_watch (SondePeerProcess *self, SondePeerProcessEnded ended, gpointer user_data);
/* @ended is not called any more; a kill is still carried out. */
void sonde_peer_process_free (SondePeerProcess *self);

/* SIGKILL, as soon as there is a process. */
void sonde_peer_process_kill (SondePeerProcess *self);

/* 0: it is not started yet, or it is reaped. */
pid_t sonde_peer_process_pid (const SondePeerProcess *self);
