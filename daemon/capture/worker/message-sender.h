/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sends a worker's messages, and keeps the last one until the front has heard it. */
#pragma once

#include "daemon/base/channel.h"

/**
 * SECTION: message-sender
 *
 * Owns the worker's end of the connection. That the front is gone is told by the channel's end. The
 * last word, FINISHED or FAILED, can be told again to a sonded that has taken the place of the one
 * which read it. Main thread only.
 */
typedef struct SondeMessageSender SondeMessageSender;

/* The front has heard the last word, is gone, or does not listen any more. The sender may not be
 * freed in it. */
typedef void (*SondeMessageSenderParted) (gpointer user_data);

/* @fd: (transfer full): a connected SOCK_SEQPACKET socket */
SondeMessageSender *sonde_message_sender_new (int fd,
                                              const SondeChannelHandler *handler,
                                              SondeMessageSenderParted parted,
                                              gpointer user_data);
/* Accepts NULL. */
void sonde_message_sender_free (SondeMessageSender *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMessageSender, sonde_message_sender_free)

/* @message: the struct of @type, all but the header; FINISHED or FAILED is the last word, and kept.
 * Returns: FALSE if the front is gone */
gboolean sonde_message_sender_send (SondeMessageSender *self,
                                    SondeMessageType type,
                                    gpointer message,
                                    gsize size_bytes);
/* Waits until the front has heard the last word if there is one, and what else was sent is on its
 * way; then @parted. */
void sonde_message_sender_part (SondeMessageSender *self);
/* After sonde_message_sender_part(): somebody else listens now, or nobody has to any more. */
void sonde_message_sender_repeat (SondeMessageSender *self);
void sonde_message_sender_leave (SondeMessageSender *self);

/* The channel has reported its end. */
void sonde_message_sender_close (SondeMessageSender *self);
