/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/session-output.h"

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/control/session/reader-set.h"
#include "daemon/base/closer.h"

struct SondeSessionOutput
{
  SondeCaptureStore *store;
  uid_t owner_uid;
  SondeStoreRequest *creating; /* NULL: not yet, or not any more */
  void (*created) (const GError *error, gpointer user_data);
  gpointer user_data;
  int file_fd; /* until the worker has it; -1 */
  char *path;
  guint64 max_bytes;
  SondeReaderSet *readers;
  GPtrArray *last_readers; /* char *: once sealed */
};

SondeSessionOutput *
sonde_session_output_new (SondeCaptureStore *store, uid_t owner_uid)
{
  SondeSessionOutput *self = g_new0 (SondeSessionOutput, 1);

  self->store = store;
  self->owner_uid = owner_uid;
  self->file_fd = -1;
  self->readers = sonde_reader_set_new ();
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
  g_clear_pointer (&self->readers, sonde_reader_set_free);
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
  self->creating = sonde_capture_store_create (self->store, self->owner_uid, label, session_id,
                                               on_created, self);
}

gboolean
sonde_session_output_is_ready (const SondeSessionOutput *self)
{
  return self->store == NULL || self->path != NULL;
}

gboolean
sonde_session_output_open_file (SondeSessionOutput *self, SondePeer *worker, GError **error)
{
  return sonde_reader_set_open_file (self->readers, sonde_steal_fd (&self->file_fd),
                                     self->max_bytes, worker, error)
         != 0;
}

int
sonde_session_output_open_stream (SondeSessionOutput *self,
                                  const char *reader,
                                  const SondeStreamOptions *options,
                                  SondePeer *worker,
                                  GError **error)
{
  return sonde_reader_set_open (self->readers, reader, options, worker, error);
}

gboolean
sonde_session_output_closed (SondeSessionOutput *self, guint32 sink_id, GError **error)
{
  if (sonde_reader_set_closed (self->readers, sink_id))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
               "The worker closed stream %u, which is not open", sink_id);
  return FALSE;
}

const char *
sonde_session_output_deserted (const SondeSessionOutput *self)
{
  if (sonde_reader_set_n_open (self->readers) > 0)
    return NULL;
  return self->store != NULL ? "capture-full" : "reader-left";
}

void
sonde_session_output_reconcile (SondeSessionOutput *self, const guint32 *sink_ids, guint n_sinks)
{
  sonde_reader_set_reconcile (self->readers, sink_ids, n_sinks);
}

void
sonde_session_output_record (const SondeSessionOutput *self, SondeSessionRecord *record)
{
  g_free (record->capture_file);
  record->capture_file = g_strdup (self->path);
  record->capture_max_bytes = self->max_bytes;
  sonde_reader_set_record (self->readers, record);
}

void
sonde_session_output_restore (SondeSessionOutput *self, const SondeSessionRecord *record)
{
  gboolean is_over = record->state == SONDE_STATE_FINISHED || record->state == SONDE_STATE_FAILED;

  self->path = g_strdup (record->capture_file);
  self->max_bytes = record->capture_max_bytes;
  if (self->path != NULL)
    sonde_capture_store_hold (self->store, self->path, is_over ? 0 : self->max_bytes);
  sonde_reader_set_restore (self->readers, record);
}

void
sonde_session_output_seal (SondeSessionOutput *self)
{
  g_autoptr (GPtrArray) names = NULL;

  if (self->last_readers != NULL)
    return;
  names = sonde_reader_set_names (self->readers);
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

GPtrArray *
sonde_session_output_readers (const SondeSessionOutput *self)
{
  GPtrArray *names;

  if (self->last_readers == NULL)
    return sonde_reader_set_names (self->readers);
  names = g_ptr_array_new ();
  g_ptr_array_extend (names, self->last_readers, NULL, NULL);
  return names;
}

gboolean
sonde_session_output_has_file (const SondeSessionOutput *self)
{
  return self->store != NULL;
}

const char *
sonde_session_output_path (const SondeSessionOutput *self)
{
  return self->path != NULL ? self->path : "";
}

void
sonde_session_output_reopen (const SondeSessionOutput *self,
                             SondeStoreReply reply,
                             gpointer user_data)
{
  g_assert (self->path != NULL);

  sonde_capture_store_reopen (self->store, self->owner_uid, self->path, reply, user_data);
}
