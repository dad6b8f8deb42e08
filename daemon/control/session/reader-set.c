/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/reader-set.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/base/closer.h"

struct SondeReaderSet
{
  GHashTable *readers; /* sink number → name; NULL for a file */
  guint32 last_id;
};

SondeReaderSet *
sonde_reader_set_new (void)
{
  SondeReaderSet *self = g_new0 (SondeReaderSet, 1);

  self->readers = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

void
sonde_reader_set_free (SondeReaderSet *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->readers);
  g_free (self);
}

/* @fds: the reader's end, the worker's end */
static gboolean
make_stream (int fds[2], GError **error)
{
  if (!sonde_socketpair (SOCK_STREAM, fds, error))
    return FALSE;
  if (shutdown (fds[1], SHUT_RD) == 0)
    return TRUE;
  sonde_error_set_errno (error, errno, "Cannot close the reading side of a stream");
  close (fds[0]);
  close (fds[1]);
  return FALSE;
}

/* @fd: (transfer full): the worker's end. Returns the sink's number, or 0. */
static guint32
send_sink (SondeReaderSet *self,
           SondeMessageSink *message,
           int fd,
           const char *reader,
           SondePeer *worker,
           GError **error)
{
  /* What the last number is, a worker tells of a session that was adopted. */
  if (g_hash_table_size (self->readers) >= SONDE_LIMIT_SINKS || self->last_id == G_MAXUINT32)
    {
      close (fd);
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit sinks: at most %d readers of a session", SONDE_LIMIT_SINKS);
      return 0;
    }
  message->header.type = SONDE_MESSAGE_SINK;
  message->sink_id = self->last_id + 1;
  if (!sonde_peer_send (worker, message, sizeof *message, &fd, 1, error))
    return 0;
  self->last_id = message->sink_id;
  g_hash_table_insert (self->readers, GUINT_TO_POINTER (message->sink_id), g_strdup (reader));
  return message->sink_id;
}

int
sonde_reader_set_open (SondeReaderSet *self,
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
  if (!make_stream (fds, error))
    return -1;
  fd = fds[0];
  if (send_sink (self, &message, fds[1], reader, worker, error) == 0)
    return -1;
  return sonde_steal_fd (&fd);
}

guint32
sonde_reader_set_open_file (
    SondeReaderSet *self, int fd, guint64 max_bytes, SondePeer *worker, GError **error)
{
  SondeMessageSink message = { .kind = SONDE_SINK_FILE,
                               .buffer_size_bytes = SONDE_LIMIT_SINK_BUFFER_MAX,
                               .frames = SONDE_SINK_FRAMES_ALL,
                               .max_bytes = max_bytes };
  sonde_deferring gboolean before = sonde_closer_defer (TRUE);

  return send_sink (self, &message, fd, NULL, worker, error);
}

gboolean
sonde_reader_set_closed (SondeReaderSet *self, guint32 sink_id)
{
  return g_hash_table_remove (self->readers, GUINT_TO_POINTER (sink_id));
}

void
sonde_reader_set_reconcile (SondeReaderSet *self, const guint32 *sink_ids, guint n_sinks)
{
  GHashTableIter iter;
  gpointer key;

  for (guint i = 0; i < n_sinks; i++)
    self->last_id = MAX (self->last_id, sink_ids[i]);
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
sonde_reader_set_record (const SondeReaderSet *self, SondeSessionRecord *record)
{
  GHashTableIter iter;
  gpointer key;
  gpointer reader;

  record->last_sink_id = self->last_id;
  g_array_set_size (record->sinks, 0);
  g_hash_table_iter_init (&iter, self->readers);
  while (g_hash_table_iter_next (&iter, &key, &reader))
    {
      SondeRecordSink sink = { .id = GPOINTER_TO_UINT (key), .reader = g_strdup (reader) };

      g_array_append_val (record->sinks, sink);
    }
}

void
sonde_reader_set_restore (SondeReaderSet *self, const SondeSessionRecord *record)
{
  self->last_id = record->last_sink_id;
  for (guint i = 0; i < record->sinks->len; i++)
    {
      const SondeRecordSink *sink = &g_array_index (record->sinks, SondeRecordSink, i);

      g_hash_table_insert (self->readers, GUINT_TO_POINTER (sink->id), g_strdup (sink->reader));
    }
}

guint
sonde_reader_set_n_open (const SondeReaderSet *self)
{
  return g_hash_table_size (self->readers);
}

GPtrArray *
sonde_reader_set_names (const SondeReaderSet *self)
{
  GPtrArray *names = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer name;

  g_hash_table_iter_init (&iter, self->readers);
  while (g_hash_table_iter_next (&iter, NULL, &name))
    if (name != NULL && !g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
      g_ptr_array_add (names, name);
  return names;
}
