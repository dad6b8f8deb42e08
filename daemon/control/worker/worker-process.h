/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that we spawn: its start, and its end by itself or by force. */
#pragma once

#include "daemon/control/worker/worker-launcher.h"

/**
 * SECTION: worker-process
 *
 * A thread of its own forks and waits for the exec, which takes as long as the machine is busy; the
 * main loop does not. What is sent to the worker meanwhile waits in its connection.
 */
typedef struct SondeWorkerProcess SondeWorkerProcess;

/* The only descriptor that it inherits but for standard error. */
#define SONDE_WORKER_FD 3

/* Once: the process was reaped, or could not be started. @how is a sentence without a full stop.
 * Nothing but sonde_worker_process_free() may follow. */
typedef void (*SondeWorkerProcessEnded) (const char *how, gpointer user_data);

/**
 * sonde_worker_process_new:
 * @fd: (transfer full): its end of the connection
 *
 * Errors: those of sonde_worker_launcher_take_uid()
 */
SondeWorkerProcess *sonde_worker_process_new (SondeWorkerLauncher *launcher,
                                              int fd,
                                              SondeWorkerProcessEnded ended,
                                              gpointer user_data,
                                              GError **error);
/* @ended is not called any more; a kill is still carried out. Accepts NULL. */
void sonde_worker_process_free (SondeWorkerProcess *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWorkerProcess, sonde_worker_process_free)

/* SIGKILL, as soon as there is a process. */
void sonde_worker_process_kill (SondeWorkerProcess *self);

/* 0: it is not started yet, or it is reaped. */
pid_t sonde_worker_process_pid (const SondeWorkerProcess *self);
