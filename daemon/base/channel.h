/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One end of a connection between front, broker and worker. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"

/**
 * SECTION: channel
 *
 * Non-blocking both ways on the thread-default main context. Sending queues when the socket is
 * full, up to a bound; a peer that lets the queue fill is dead to us. Every received message has
 * passed sonde_message_check(). Plain struct, main thread only.
 */
typedef struct SondeChannel SondeChannel;

#define SONDE_CHANNEL_MAX_QUEUE 4096 /* messages */

typedef struct
{
  /* @fds are the channel's, which closes them after the call: set to -1 what is taken. */
  void (*message) (SondeChannel *channel,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data);
  /* @error NULL: orderly end of file. The channel is shut; only sonde_channel_free() may follow. */
  void (*closed) (SondeChannel *channel, const GError *error, gpointer user_data);
  /* Optional: all that was queued is sent. */
  void (*drained) (SondeChannel *channel, gpointer user_data);
  /* How a descriptor is closed that was given to be sent, or came and was not taken, and the
   * connection itself, in which some may wait; NULL: by close(). */
  void (*close_fd) (int fd);
} SondeChannelHandler;

/**
 * sonde_channel_new:
 * @fd: (transfer full): a connected SOCK_SEQPACKET socket
 * @from: who the peer is and who we are, which decides which messages are legal
 */
SondeChannel *sonde_channel_new (int fd,
                                 SondeMessageWay from,
                                 const SondeChannelHandler *handler,
                                 gpointer user_data);

/* Safe inside the handler's callbacks. Accepts NULL. */
void sonde_channel_free (SondeChannel *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeChannel, sonde_channel_free)

/**
 * sonde_channel_send:
 * @message: header.type set; header.size is filled in from @size_bytes
 * @fds: (transfer full): closed by the channel once sent or on failure, whatever happens
 *
 * To a peer that has just gone a message is lost as if on its way: `closed` follows what it has
 * said before.
 *
 * Returns: FALSE with SONDE_ERROR_FAILED when the channel is shut or its queue is full
 */
gboolean sonde_channel_send (SondeChannel *self,
                             gpointer message,
                             gsize size_bytes,
                             const int *fds,
                             unsigned n_fds,
                             GError **error);
/* Whether nothing is received from now on: what comes waits, the peer's end as well. */
void sonde_channel_hold (SondeChannel *self, gboolean is_held);
/* A message that is a header only. */
gboolean sonde_channel_send_simple (SondeChannel *self, SondeMessageType type, GError **error);
/* Messages queued because the socket was full. */
guint sonde_channel_queued (const SondeChannel *self);

/* Of our end, which stays the channel's; -1 once it is shut. */
int sonde_channel_fd (const SondeChannel *self);
/* Messages that were ever received, and whether another one waits to be. */
guint64 sonde_channel_n_received (const SondeChannel *self);
gboolean sonde_channel_is_waiting (const SondeChannel *self);
/* Who sent the first message, as the kernel tells: 0 before it, and on a socket without
 * SO_PASSCRED. The process may be gone by now. */
pid_t sonde_channel_peer_pid (const SondeChannel *self);
/* Whether the other end is still open. */
gboolean sonde_channel_has_peer (const SondeChannel *self);
