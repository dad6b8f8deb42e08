/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/session-output.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"

SondeSessionOutput *
sonde_session_output_new (SondeCaptureStore *store, uid_t owner_uid)
{
  SondeSessionOutput *self = g_new0 (SondeSessionOutput, 1);

  self->store = store;
  self->owner_uid = owner_uid;
  self->file_fd = -1;
  self->readers = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

void
sonde_session_output_free (SondeSessionOutput *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->creating, sonde_store_request_cancel);
  sonde_session_output_close (self);
  sonde_closer_clear (&self->file_fd);
  if (self->path != NULL)
    sonde_capture_store_release (self->store, self->path);
  g_hash_table_unref (self->readers);
  g_clear_pointer (&self->last_readers, g_ptr_array_unref);
  g_free (self->path);
  g_free (self);
}

static void
on_created (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeSessionOutput *self = user_data;

  self->creating = NULL;
  self->file_fd = sonde_steal_fd (&answer->fd);
  self->path = g_steal_pointer (&answer->path);
  self->max_bytes = answer->max_bytes;
  self->created (error, self->user_data);
}

void
sonde_session_output_create_file (SondeSessionOutput *self,
                                  const char *label,
                                  guint64 session_id,
                                  void (*created) (const GError *error, gpointer user_data),
                                  gpointer user_data)
{
  self->created = created;
  self->user_data = user_data;
  self->creating = sonde_capture_store_ask (self->store, SONDE_STORE_CREATE, self->owner_uid, label,
                                            session_id, on_created, self);
}

/* @fd: (transfer full): the worker's end. Returns: FALSE with @error */
static gboolean
send_sink (SondeSessionOutput *self,
           SondeMessageSink *message,
           int fd,
           const char *reader,
           SondePeer *worker,
           GError **error)
{
  /* What the last number is, a worker tells of a session that was adopted. */
  if (g_hash_table_size (self->readers) >= SONDE_LIMIT_SINKS || self->last_sink_id == G_MAXUINT32)
    {
      sonde_closer_take (fd);
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit sinks: at most %d readers of a session", SONDE_LIMIT_SINKS);
      return FALSE;
    }
  message->header.type = SONDE_MESSAGE_SINK;
  message->sink_id = self->last_sink_id + 1;
  if (!sonde_peer_send (worker, message, sizeof *message, &fd, 1, error))
    return FALSE;
  self->last_sink_id = message->sink_id;
  g_hash_table_insert (self->readers, GUINT_TO_POINTER (message->sink_id), g_strdup (reader));
  return TRUE;
}

gboolean
sonde_session_output_open_file (SondeSessionOutput *self, SondePeer *worker, GError **error)
{
  SondeMessageSink message = { .kind = SONDE_SINK_FILE,
                               .buffer_size_bytes = SONDE_LIMIT_SINK_BUFFER_MAX,
                               .frames = SONDE_SINK_FRAMES_ALL,
                               .max_bytes = self->max_bytes };

  return send_sink (self, &message, sonde_steal_fd (&self->file_fd), NULL, worker, error);
}

int
sonde_session_output_open_stream (SondeSessionOutput *self,
                                  const char *reader,
                                  const SondeStreamOptions *options,
                                  SondePeer *worker,
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
  return send_sink (self, &message, fds[1], reader, worker, error) ? sonde_steal_fd (&fd) : -1;
}

gboolean
sonde_session_output_closed (SondeSessionOutput *self, guint32 sink_id, GError **error)
{
  if (g_hash_table_remove (self->readers, GUINT_TO_POINTER (sink_id)))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
               "The worker closed stream %u, which is not open", sink_id);
  return FALSE;
}

const char *
sonde_session_output_deserted (const SondeSessionOutput *self)
{
  if (g_hash_table_size (self->readers) > 0)
    return NULL;
  return self->store != NULL ? "capture-full" : "reader-left";
}

void
sonde_session_output_reconcile (SondeSessionOutput *self, const guint32 *sink_ids, guint n_sinks)
{
  GHashTableIter iter;
  gpointer key;

  for (guint i = 0; i < n_sinks; i++)
    self->last_sink_id = MAX (self->last_sink_id, sink_ids[i]);
  g_hash_table_iter_init (&iter, self->readers);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      gboolean is_open = FALSE;

      for (guint i = 0; i < n_sinks; i++)
        is_open = is_open || sink_ids[i] == GPOINTER_TO_UINT (key);
      if (!is_open)
        g_hash_table_iter_remove (&iter);
    }
}

void
sonde_session_output_record (const SondeSessionOutput *self, SondeSessionRecord *record)
{
  GHashTableIter iter;
  gpointer key;
  gpointer reader;

  g_free (record->capture_file);
  record->capture_file = g_strdup (self->path);
  record->capture_max_bytes = self->max_bytes;
  record->last_sink_id = self->last_sink_id;
  g_array_set_size (record->sinks, 0);
  g_hash_table_iter_init (&iter, self->readers);
  while (g_hash_table_iter_next (&iter, &key, &reader))
    {
      SondeRecordSink sink = { .id = GPOINTER_TO_UINT (key), .reader = g_strdup (reader) };

      g_array_append_val (record->sinks, sink);
    }
}

void
sonde_session_output_restore (SondeSessionOutput *self, const SondeSessionRecord *record)
{
  gboolean is_over = sonde_session_state_is_in (record->state, SONDE_STATES_OVER);

  self->path = g_strdup (record->capture_file);
  self->max_bytes = record->capture_max_bytes;
  if (self->path != NULL)
    sonde_capture_store_hold (self->store, self->path, is_over ? 0 : self->max_bytes);
  self->last_sink_id = record->last_sink_id;
  for (guint i = 0; i < record->sinks->len; i++)
    {
      const SondeRecordSink *sink = &g_array_index (record->sinks, SondeRecordSink, i);

      g_hash_table_insert (self->readers, GUINT_TO_POINTER (sink->id), g_strdup (sink->reader));
    }
}

GPtrArray *
sonde_session_output_readers (const SondeSessionOutput *self)
{
  GPtrArray *names = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer name;

  if (self->last_readers != NULL)
    {
      g_ptr_array_extend (names, self->last_readers, NULL, NULL);
      return names;
    }
  g_hash_table_iter_init (&iter, self->readers);
  while (g_hash_table_iter_next (&iter, NULL, &name))
    if (name != NULL && !g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
      g_ptr_array_add (names, name);
  return names;
}

void
sonde_session_output_seal (SondeSessionOutput *self)
{
  g_autoptr (GPtrArray) names = NULL;

  if (self->last_readers != NULL)
    return;
  names = sonde_session_output_readers (self);
  self->last_readers = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < names->len; i++)
    g_ptr_array_add (self->last_readers, g_strdup (g_ptr_array_index (names, i)));
}

void
sonde_session_output_close (SondeSessionOutput *self)
{
  if (self->path != NULL)
    sonde_capture_store_complete (self->store, self->owner_uid, self->path);
}
