/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One sonde-capture process: its start, its connection, its end. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/channel.h"
#include "daemon/base/proc-text.h"
#include "daemon/control/worker/worker-process.h"
#include "daemon/control/worker/worker-unit.h"

/**
 * SECTION: worker
 *
 * A worker gets exactly one descriptor, its end of the connection, as number SONDE_WORKER_FD;
 * everything else comes by message. So it does not matter to anybody else whether we spawned it or
 * systemd started it because we connected to its socket.
 */
typedef struct SondeWorker SondeWorker;

typedef struct
{
  /* @message has passed sonde_message_check(). */
  void (*message) (SondeWorker *worker, const SondeMessageHeader *message, gpointer user_data);
  /* Once: its connection and its process have ended. @how is a sentence without a full
   * stop. Nothing but sonde_worker_free() may follow. */
  void (*gone) (SondeWorker *worker, const char *how, gpointer user_data);
} SondeWorkerHandler;

SondeWorker *sonde_worker_start (SondeWorkerLauncher *launcher,
                                 const SondeWorkerHandler *handler,
                                 gpointer user_data,
                                 GError **error);
/**
 * sonde_worker_adopt:
 * @fd: (transfer full): the connection of a worker that systemd has started for a sonded before us
 * @pid: its process then
 *
 * What it said last is heard even if it has ended meanwhile.
 */
SondeWorker *sonde_worker_adopt (SondeWorkerLauncher *launcher,
                                 int fd,
                                 pid_t pid,
                                 const SondeWorkerHandler *handler,
                                 gpointer user_data);
/* Kills a process that is still there. Safe inside the handler's callbacks. Accepts NULL. */
void sonde_worker_free (SondeWorker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWorker, sonde_worker_free)

/* As sonde_worker_free(), but the process lives on with what others hold of its connection. Accepts
 * NULL. */
void sonde_worker_leave (SondeWorker *self);

/* Of a worker that systemd has started, once it has said a word; else 0. */
pid_t sonde_worker_pid (const SondeWorker *self);
/* What it costs so far. FALSE, and @cost as it was, if it is not there. */
gboolean sonde_worker_measure (const SondeWorker *self, SondeProcCost *cost);
/* What its unit may have, now or as soon as it is known; it has none if we spawned it. */
void sonde_worker_set_share (SondeWorker *self, const SondeUnitShare *share);
/* Its connection. */
const SondeChannel *sonde_worker_channel (const SondeWorker *self);

/* SIGKILL; @gone follows. */
void sonde_worker_kill (SondeWorker *self);

/* As sonde_channel_send(): @fds are taken whatever happens. */
gboolean sonde_worker_send (SondeWorker *self,
                            gpointer message,
                            gsize size_bytes,
                            const int *fds,
                            unsigned n_fds,
                            GError **error);
gboolean sonde_worker_send_simple (SondeWorker *self, SondeMessageType type, GError **error);
