/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One broker or worker: its start, its connection, its end. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/channel.h"
#include "daemon/base/proc-text.h"
#include "daemon/control/peer/peer-process.h"
#include "daemon/control/peer/peer-unit.h"

/**
 * SECTION: peer
 *
 * The process at the other end of a connection. It gets exactly one descriptor, its end of the
 * connection, as number SONDE_PEER_FD; everything else comes by message. So it does not matter to
 * anybody else whether we spawned it or systemd started it because we connected to its socket.
 */
typedef struct SondePeer SondePeer;

typedef struct
{
  /* @message has passed sonde_message_check(). @fds: of which those that are taken are set to -1 */
  void (*message) (SondePeer *peer,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data);
  /* Once: its connection and its process have ended. @how is a sentence without a full
   * stop. Nothing but sonde_peer_free() may follow. */
  void (*gone) (SondePeer *peer, const char *how, gpointer user_data);
  /* Optional: it has taken all that was sent to it. */
  void (*caught_up) (SondePeer *peer, gpointer user_data);
} SondePeerHandler;

SondePeer *sonde_peer_start (SondePeerLauncher *launcher,
                             SondePeerKind kind,
                             const SondePeerHandler *handler,
                             gpointer user_data,
                             GError **error);
/**
 * sonde_peer_adopt:
 * @fd: (transfer full): the connection of a process that systemd has started for a sonded before us
 * @pid: its process then
 *
 * What it said last is heard even if it has ended meanwhile.
 */
SondePeer *sonde_peer_adopt (SondePeerLauncher *launcher,
                             SondePeerKind kind,
                             int fd,
                             pid_t pid,
                             const SondePeerHandler *handler,
                             gpointer user_data);
/* Kills a process that is still there. Safe inside the handler's callbacks. */
void sonde_peer_free (SondePeer *self);

/* As sonde_peer_free(), but the process lives on with what others hold of its connection. */
void sonde_peer_leave (SondePeer *self);

/* Of one that systemd has started, once it has said a word; else 0. */
pid_t sonde_peer_pid (const SondePeer *self);
/* Of its process; -1: it is none of systemd's, or has said no word. It stays the peer's. */
int sonde_peer_pidfd (const SondePeer *self);
/* What it costs so far. FALSE, and @cost as it was, if it is not there. */
gboolean sonde_peer_measure (const SondePeer *self, SondeProcCost *cost);
/* What its unit may have, now or as soon as it is known; it has none if we spawned it. */
void sonde_peer_set_share (SondePeer *self, const SondeUnitShare *share);
/* Its connection. */
const SondeChannel *sonde_peer_channel (const SondePeer *self);

/* Whether what was sent to it waits for it; whether it is not heard meanwhile. */
gboolean sonde_peer_is_behind (const SondePeer *self);
void sonde_peer_hold (SondePeer *self, gboolean is_held);

/* SIGKILL; @gone follows. */
void sonde_peer_kill (SondePeer *self);
/* Closes its connection, at which it exits, or is killed SONDE_LIMIT_PEER_EXIT_MS later. From now
 * on @handler is told, of its end alone: also from inside of this call. */
void sonde_peer_dismiss (SondePeer *self, const SondePeerHandler *handler, gpointer user_data);

/* As sonde_channel_send(): @fds are taken whatever happens. */
gboolean sonde_peer_send (SondePeer *self,
                          gpointer message,
                          gsize size_bytes,
                          const int *fds,
                          unsigned n_fds,
                          GError **error);
gboolean sonde_peer_send_simple (SondePeer *self, SondeMessageType type, GError **error);
