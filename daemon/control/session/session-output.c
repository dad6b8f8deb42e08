/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Leads one session's frames to its streams and its capture file. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/session/session-private.h"

/* @fd: (transfer full): the worker's end. Returns: FALSE with @error */
static gboolean
send_sink (
    SondeSession *self, SondeMessageSink *message, int fd, const char *reader, GError **error)
{
  SondeSessionRecord *facts = self->facts;
  SondeRecordSink sink = { .id = facts->last_sink_id + 1 };

  /* What the last number is, a worker tells of a session that was adopted. */
  if (facts->sinks->len >= SONDE_LIMIT_SINKS || facts->last_sink_id == G_MAXUINT32)
    {
      sonde_closer_take (fd);
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit sinks: at most %d readers of a session", SONDE_LIMIT_SINKS);
      return FALSE;
    }
  message->header.type = SONDE_MESSAGE_SINK;
  message->sink_id = sink.id;
  if (!sonde_peer_send (self->worker, message, sizeof *message, &fd, 1, error))
    return FALSE;
  facts->last_sink_id = sink.id;
  sink.reader = g_strdup (reader);
  g_array_append_val (facts->sinks, sink);
  return TRUE;
}

gboolean
sonde_session_output_open_file (SondeSession *self, GError **error)
{
  SondeMessageSink message = { .kind = SONDE_SINK_FILE,
                               .buffer_size_bytes = SONDE_LIMIT_SINK_BUFFER_MAX,
                               .frames = SONDE_SINK_FRAMES_ALL,
                               .max_bytes = self->facts->capture_max_bytes };

  return send_sink (self, &message, sonde_steal_fd (&self->file_fd), NULL, error);
}

int
sonde_session_output_open_stream (SondeSession *self,
                                  const char *reader,
                                  const SondeStreamOptions *options,
                                  GError **error)
{
  SondeMessageSink message = { .kind = SONDE_SINK_STREAM,
                               .buffer_size_bytes = options->buffer_size_bytes,
                               .frames = options->frames,
                               .n_pids = options->n_pids };
  sonde_autofd int fd = -1;
  int fds[2];

  memcpy (message.pids, options->pids, options->n_pids * sizeof options->pids[0]);
  if (!sonde_socketpair (SOCK_STREAM, fds, error))
    return -1;
  fd = fds[0];
  if (shutdown (fds[1], SHUT_RD) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot close the reading side of a stream");
      close (fds[1]);
      return -1;
    }
  return send_sink (self, &message, fds[1], reader, error) ? sonde_steal_fd (&fd) : -1;
}

gboolean
sonde_session_output_closed (SondeSession *self, guint32 sink_id, GError **error)
{
  GArray *sinks = self->facts->sinks;
  guint n_before = sinks->len;

  /* A record of another sonded may name one twice. */
  for (guint i = n_before; i > 0; i--)
    if (g_array_index (sinks, SondeRecordSink, i - 1).id == sink_id)
      g_array_remove_index (sinks, i - 1);
  if (sinks->len < n_before)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
               "The worker closed stream %u, which is not open", sink_id);
  return FALSE;
}

void
sonde_session_output_reconcile (SondeSession *self, const SondeMessageSinks *message)
{
  SondeSessionRecord *facts = self->facts;

  for (guint i = 0; i < message->n_sinks; i++)
    facts->last_sink_id = MAX (facts->last_sink_id, message->sink_ids[i]);
  for (guint i = facts->sinks->len; i > 0; i--)
    {
      gboolean is_open = FALSE;

      for (guint j = 0; j < message->n_sinks; j++)
        is_open
            = is_open
              || message->sink_ids[j] == g_array_index (facts->sinks, SondeRecordSink, i - 1).id;
      if (!is_open)
        g_array_remove_index (facts->sinks, i - 1);
    }
}

/* (transfer container) (element-type utf8): who reads now, each once; borrowed */
static GPtrArray *
list_readers (const SondeSession *self)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; i < self->facts->sinks->len; i++)
    {
      char *name = g_array_index (self->facts->sinks, SondeRecordSink, i).reader;

      if (name != NULL && !g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
        g_ptr_array_add (names, name);
    }
  return names;
}

void
sonde_session_output_seal (SondeSession *self)
{
  g_autoptr (GPtrArray) names = NULL;

  if (self->last_readers != NULL)
    return;
  names = list_readers (self);
  self->last_readers = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < names->len; i++)
    g_ptr_array_add (self->last_readers, g_strdup (g_ptr_array_index (names, i)));
}

GPtrArray *
sonde_session_listeners (const SondeSession *self)
{
  gpointer owner = self->facts->owner;
  GPtrArray *names;

  if (self->last_readers == NULL)
    names = list_readers (self);
  else
    {
      names = g_ptr_array_new ();
      g_ptr_array_extend (names, self->last_readers, NULL, NULL);
    }
  if (!g_cancellable_is_cancelled (self->owner->left)
      && !g_ptr_array_find_with_equal_func (names, owner, g_str_equal, NULL))
    g_ptr_array_insert (names, 0, owner);
  return names;
}

void
sonde_session_output_close (SondeSession *self)
{
  if (self->facts->capture_file != NULL)
    sonde_capture_store_complete (self->store, self->facts->owner_uid, self->facts->capture_file);
}
