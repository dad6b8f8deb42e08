/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker tells control, until control has heard its last word. */
#include "daemon/capture/control-link.h"

#include <unistd.h>

#define LINGER_MS   10   /* between looks at what holds us */
#define MAX_LINGERS 3000 /* 30 s: control may be started anew meanwhile */

struct SondeControlLink
{
  SondeChannel *channel; /* NULL once control is gone */
  SondeControlLinkParted parted;
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

SondeControlLink *
sonde_control_link_new (int fd,
                        const SondeChannelHandler *handler,
                        SondeControlLinkParted parted,
                        gpointer user_data)
{
  SondeControlLink *self = g_new0 (SondeControlLink, 1);

  self->channel = sonde_channel_new (fd, FALSE, handler, user_data);
  self->parted = parted;
  self->user_data = user_data;
  return self;
}

void
sonde_control_link_free (SondeControlLink *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->linger, g_source_remove);
  sonde_channel_free (self->channel);
  g_free (self);
}

/* A failure comes back as the channel's end. */
static void
send_message (SondeControlLink *self, gpointer message, gsize size_bytes)
{
  if (self->channel != NULL)
    sonde_channel_send (self->channel, message, size_bytes, NULL, 0, NULL);
}

void
sonde_control_link_hello (SondeControlLink *self)
{
  SondeMessageHello message
      = { .header.type = SONDE_MESSAGE_HELLO, .version = SONDE_MESSAGE_VERSION, .pid = getpid () };

  send_message (self, &message, sizeof message);
}

void
sonde_control_link_rings_mapped (SondeControlLink *self, SondeMessageRingsMapped *message)
{
  message->header.type = SONDE_MESSAGE_RINGS_MAPPED;
  send_message (self, message, sizeof *message);
}

void
sonde_control_link_statistics (SondeControlLink *self, SondeMessageType type, SondeStages *stages)
{
  SondeMessageStatistics message = { .header.type = type };

  sonde_stages_statistics (stages, &message);
  send_message (self, &message, sizeof message);
}

void
sonde_control_link_sinks (SondeControlLink *self, SondeStages *stages)
{
  SondeMessageSinks message = { .header.type = SONDE_MESSAGE_SINKS };

  sonde_recorder_list_sinks (sonde_stages_recorder (stages), &message);
  send_message (self, &message, sizeof message);
}

void
sonde_control_link_controls (SondeControlLink *self, SondeStages *stages)
{
  SondeMessageControls message = { .header.type = SONDE_MESSAGE_CONTROLS };
  const SondeInferiors *inferiors = sonde_stages_inferiors (stages);

  if (inferiors != NULL)
    {
      message.n_taken = sonde_inferiors_n_taken (inferiors);
      message.n_open = sonde_inferiors_n_open (inferiors);
    }
  send_message (self, &message, sizeof message);
}

void
sonde_control_link_sink_closed (SondeControlLink *self, guint32 sink_id, int reason)
{
  SondeMessageSinkClosed message
      = { .header.type = SONDE_MESSAGE_SINK_CLOSED, .sink_id = sink_id, .reason = reason };

  send_message (self, &message, sizeof message);
}

gboolean
sonde_control_link_request (SondeControlLink *self, const SondeRequest *request)
{
  if (request->is_file)
    {
      SondeMessageFileRequest message = request->file;

      message.header.type = SONDE_MESSAGE_FILE_REQUEST;
      send_message (self, &message, sizeof message);
    }
  else
    {
      SondeMessageProcessRequest message = { .header.type = SONDE_MESSAGE_PROCESS_REQUEST,
                                             .request_id = request->id,
                                             .pid = request->pid };

      send_message (self, &message, sizeof message);
    }
  return self->channel != NULL;
}

gboolean
sonde_control_link_ask_counters (SondeControlLink *self, gint32 pid)
{
  SondeMessageCountersRequest message
      = { .header.type = SONDE_MESSAGE_COUNTERS_REQUEST, .pid = pid };

  send_message (self, &message, sizeof message);
  return self->channel != NULL;
}

void
sonde_control_link_repeat (SondeControlLink *self)
{
  if (self->last_word.header.type == SONDE_MESSAGE_FINISHED)
    send_message (self, &self->last_word, sizeof self->last_word.finished);
  else if (self->last_word.header.type == SONDE_MESSAGE_FAILED)
    send_message (self, &self->last_word, sizeof self->last_word.failed);
}

void
sonde_control_link_finished (SondeControlLink *self, SondeStages *stages)
{
  self->last_word.finished = (SondeMessageStatistics){ .header.type = SONDE_MESSAGE_FINISHED };
  sonde_stages_statistics (stages, &self->last_word.finished);
  sonde_control_link_repeat (self);
}

void
sonde_control_link_failed (SondeControlLink *self, int error_number, const char *text)
{
  self->last_word.failed
      = (SondeMessageFailed){ .header.type = SONDE_MESSAGE_FAILED, .error = error_number };
  g_strlcpy (self->last_word.failed.text, text, sizeof self->last_word.failed.text);
  sonde_control_link_repeat (self);
}

static gboolean
is_held (const SondeControlLink *self)
{
  if (self->channel == NULL)
    return FALSE;
  return sonde_channel_queued (self->channel) > 0
         || (self->last_word.header.type != 0 && !self->is_heard);
}

static gboolean
on_linger (gpointer user_data)
{
  SondeControlLink *self = user_data;

  if (is_held (self) && self->n_lingers++ < MAX_LINGERS)
    return G_SOURCE_CONTINUE;
  self->linger = 0;
  self->parted (self->user_data);
  return G_SOURCE_REMOVE;
}

void
sonde_control_link_part (SondeControlLink *self)
{
  if (self->linger == 0)
    self->linger = g_timeout_add (LINGER_MS, on_linger, self);
}

void
sonde_control_link_leave (SondeControlLink *self)
{
  self->is_heard = TRUE;
}

void
sonde_control_link_close (SondeControlLink *self)
{
  g_clear_pointer (&self->channel, sonde_channel_free);
}
