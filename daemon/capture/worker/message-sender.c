/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/worker/message-sender.h"

#include <string.h>

#define LINGER_MS   10   /* between looks at what holds us */
#define MAX_LINGERS 3000 /* 30 s: the front may be started anew meanwhile */

struct SondeMessageSender
{
  SondeChannel *channel; /* NULL once the front is gone */
  SondeMessageSenderParted parted;
  gpointer user_data;
  union
  {
    SondeMessageHeader header; /* type 0: not said yet */
    SondeMessageStatistics finished;
    SondeMessageFailed failed;
  } last_word;
  gboolean is_heard;
  guint linger;
  guint n_lingers;
};

SondeMessageSender *
sonde_message_sender_new (int fd,
                          const SondeChannelHandler *handler,
                          SondeMessageSenderParted parted,
                          gpointer user_data)
{
  SondeMessageSender *self = g_new0 (SondeMessageSender, 1);

  self->channel = sonde_channel_new (fd, SONDE_WAY_FRONT_TO_WORKER, handler, user_data);
  self->parted = parted;
  self->user_data = user_data;
  return self;
}

void
sonde_message_sender_free (SondeMessageSender *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->linger, g_source_remove);
  sonde_channel_free (self->channel);
  g_free (self);
}

gboolean
sonde_message_sender_send (SondeMessageSender *self,
                           SondeMessageType type,
                           gpointer message,
                           gsize size_bytes)
{
  ((SondeMessageHeader *) message)->type = type;
  if (type == SONDE_MESSAGE_FINISHED || type == SONDE_MESSAGE_FAILED)
    memcpy (&self->last_word, message, size_bytes);
  /* A failure comes back as the channel's end. */
  if (self->channel != NULL)
    sonde_channel_send (self->channel, message, size_bytes, NULL, 0, NULL);
  return self->channel != NULL;
}

void
sonde_message_sender_repeat (SondeMessageSender *self)
{
  if (self->channel != NULL && self->last_word.header.type != 0)
    sonde_channel_send (self->channel, &self->last_word,
                        self->last_word.header.type == SONDE_MESSAGE_FINISHED
                            ? sizeof self->last_word.finished
                            : sizeof self->last_word.failed,
                        NULL, 0, NULL);
}

static gboolean
on_linger (gpointer user_data)
{
  SondeMessageSender *self = user_data;
  gboolean is_held = self->channel != NULL
                     && (sonde_channel_queued (self->channel) > 0
                         || (self->last_word.header.type != 0 && !self->is_heard));

  if (is_held && self->n_lingers++ < MAX_LINGERS)
    return G_SOURCE_CONTINUE;
  self->linger = 0;
  self->parted (self->user_data);
  return G_SOURCE_REMOVE;
}

void
sonde_message_sender_part (SondeMessageSender *self)
{
  if (self->linger == 0)
    self->linger = g_timeout_add (LINGER_MS, on_linger, self);
}

void
sonde_message_sender_leave (SondeMessageSender *self)
{
  self->is_heard = TRUE;
}

void
sonde_message_sender_close (SondeMessageSender *self)
{
  g_clear_pointer (&self->channel, sonde_channel_free);
}
