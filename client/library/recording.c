/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One session seen by its owner: asks for it, keeps its capture, waits for its end. */
#include "client/library/recording.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/socket.h>

#include "client/base/fd.h"

#define SESSION_INTERFACE  "org.sonde.Profiler1.Session"
#define READ_BYTES         (256 * 1024)
#define READS_PER_DISPATCH 16
#define MAX_STOPS          5
#define FINISHED_GRACE_S   5 /* between the end of the capture and the signal that says why */

struct SondeRecording
{
  SondeConnection *connection;
  const SondeRecordingHandler *handler;
  gpointer user_data;

  GCancellable *cancellable; /* of every call */
  char *path;                /* of the session object; NULL before it is there */
  SondeDBusSession *session;
  int capture_fd;
  int out_fd;
  guint8 *buffer;
  guint64 bytes;
  gint64 start_us;
  gint64 end_us;

  guint finished_id; /* signal subscription */
  guint watch_id;    /* of the service's name */
  gulong closed_id;
  gulong given_up_id;
  guint capture_source;
  guint grace_source;

  gboolean stop_wanted;
  guint n_stops; /* calls */
  gboolean at_eof;
  gboolean is_service_gone;
  gboolean has_ended;
  char *reason;
  GVariant *statistics;
  GError *error; /* the first failure */
};

static void
fail (SondeRecording *self, GError *error)
{
  g_dbus_error_strip_remote_error (error);
  if (self->error == NULL)
    self->error = error;
  else
    g_error_free (error);
}

static void
end (SondeRecording *self)
{
  if (self->has_ended)
    return;
  self->has_ended = TRUE;
  self->end_us = g_get_monotonic_time ();
  g_clear_handle_id (&self->capture_source, g_source_remove);
  g_clear_handle_id (&self->grace_source, g_source_remove);
  self->handler->ended (self->error, self->user_data);
}

static gboolean
is_normal_reason (const char *reason)
{
  static const char *const normal[]
      = { "stopped", "duration", "targets-exited", "owner-left", "reader-left", NULL };

  return g_strv_contains (normal, reason);
}

/* The end needs both: all bytes, and the word of the service (or the certainty that none comes). */
static void
check_end (SondeRecording *self)
{
  if (!self->at_eof)
    return;
  if (self->reason == NULL && !self->is_service_gone)
    return;
  if (self->reason == NULL)
    fail (self,
          g_error_new (G_IO_ERROR, G_IO_ERROR_FAILED, "The service ended during the recording"));
  else if (!is_normal_reason (self->reason))
    fail (self, g_error_new_literal (G_IO_ERROR, G_IO_ERROR_FAILED, self->reason));
  end (self);
}

static gboolean
grace_over (gpointer user_data)
{
  SondeRecording *self = user_data;

  self->grace_source = 0;
  self->is_service_gone = TRUE;
  check_end (self);
  return G_SOURCE_REMOVE;
}

static void
session_finished (GDBusConnection *bus,
                  const char *sender,
                  const char *path,
                  const char *interface,
                  const char *signal,
                  GVariant *parameters,
                  gpointer user_data)
{
  SondeRecording *self = user_data;

  if (g_strcmp0 (path, self->path) != 0 || self->reason != NULL
      || !g_variant_is_of_type (parameters, G_VARIANT_TYPE ("(sa{st})")))
    return;
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_variant_get (parameters, "(s@a{st})", &self->reason, &self->statistics);
  check_end (self);
}

static void
service_gone (SondeRecording *self)
{
  self->is_service_gone = TRUE;
  if (self->path == NULL && !self->has_ended)
    {
      fail (self, g_error_new (G_IO_ERROR, G_IO_ERROR_FAILED, "The service ended"));
      end (self);
      return;
    }
  check_end (self);
}

/* A session outlives a restart of the service; if it does not, no Finished comes. */
static void
name_vanished (GDBusConnection *bus, const char *name, gpointer user_data)
{
  SondeRecording *self = user_data;

  if (self->path == NULL)
    service_gone (self);
}

static void
connection_closed (GDBusConnection *bus, gboolean remote, GError *error, gpointer user_data)
{
  service_gone (user_data);
}

/* By our own side: nothing of what is still to come matters. */
static void
connection_given_up (GCancellable *closed, gpointer user_data)
{
  SondeRecording *self = user_data;

  fail (self, g_error_new (G_IO_ERROR, G_IO_ERROR_CLOSED, "The connection was closed"));
  end (self);
}

SondeRecording *
sonde_recording_new (SondeConnection *connection,
                     const SondeRecordingHandler *handler,
                     gpointer user_data)
{
  SondeRecording *self = g_new0 (SondeRecording, 1);

  self->connection = connection;
  self->handler = handler;
  self->user_data = user_data;
  self->out_fd = -1;
  self->capture_fd = -1;
  self->buffer = g_malloc (READ_BYTES);
  self->cancellable = g_cancellable_new ();

  /* before the session is asked for: it may be over before a proxy could listen */
  self->finished_id = g_dbus_connection_signal_subscribe (
      connection->bus, connection->name, SESSION_INTERFACE, "Finished", NULL, NULL,
      G_DBUS_SIGNAL_FLAGS_NONE, session_finished, self, NULL);
  self->closed_id
      = g_signal_connect (connection->bus, "closed", G_CALLBACK (connection_closed), self);
  self->given_up_id
      = g_signal_connect (connection->closed, "cancelled", G_CALLBACK (connection_given_up), self);
  if (connection->name != NULL)
    self->watch_id = g_bus_watch_name_on_connection (connection->bus, connection->name,
                                                     G_BUS_NAME_WATCHER_FLAGS_NONE, NULL,
                                                     name_vanished, self, NULL);
  return self;
}

void
sonde_recording_free (SondeRecording *self)
{
  if (self == NULL)
    return;
  /* a callback that is told of this does not touch self */
  g_cancellable_cancel (self->cancellable);
  g_clear_object (&self->cancellable);
  g_dbus_connection_signal_unsubscribe (self->connection->bus, self->finished_id);
  g_clear_signal_handler (&self->closed_id, self->connection->bus);
  g_clear_signal_handler (&self->given_up_id, self->connection->closed);
  g_clear_handle_id (&self->watch_id, g_bus_unwatch_name);
  g_clear_handle_id (&self->capture_source, g_source_remove);
  g_clear_handle_id (&self->grace_source, g_source_remove);
  sonde_clear_fd (&self->capture_fd);
  g_clear_object (&self->session);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_error (&self->error);
  g_free (self->buffer);
  g_free (self->reason);
  g_free (self->path);
  g_free (self);
}

static gboolean
write_all (SondeRecording *self, const guint8 *bytes, gsize size)
{
  while (size > 0)
    {
      gssize n = write (self->out_fd, bytes, size);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          fail (self, g_error_new (G_IO_ERROR, g_io_error_from_errno (errno),
                                   "Cannot write the capture: %s", g_strerror (errno)));
          return FALSE;
        }
      bytes += n;
      size -= (gsize) n;
      self->bytes += (guint64) n;
    }
  return TRUE;
}

static gboolean
deliver (SondeRecording *self, const guint8 *bytes, gsize size)
{
  GError *error = NULL;

  if (self->out_fd >= 0)
    return write_all (self, bytes, size);
  self->bytes += size;
  if (self->handler->data (bytes, size, &error, self->user_data))
    return TRUE;
  fail (self, error);
  return FALSE;
}

static gboolean
reach_eof (SondeRecording *self)
{
  self->at_eof = TRUE;
  self->capture_source = 0;
  sonde_clear_fd (&self->capture_fd);
  self->grace_source = g_timeout_add_seconds (FINISHED_GRACE_S, grace_over, self);
  check_end (self);
  return G_SOURCE_REMOVE;
}

static gboolean
capture_ready (gint fd, GIOCondition condition, gpointer user_data)
{
  SondeRecording *self = user_data;

  for (guint i = 0; i < READS_PER_DISPATCH; i++)
    {
      gssize n = recv (fd, self->buffer, READ_BYTES, MSG_DONTWAIT);

      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return G_SOURCE_CONTINUE;
      if (n < 0)
        fail (self, g_error_new (G_IO_ERROR, g_io_error_from_errno (errno),
                                 "Cannot read the capture: %s", g_strerror (errno)));
      /* closing our end is what stops the session if the disk is full */
      if (n <= 0 || !deliver (self, self->buffer, (gsize) n))
        return reach_eof (self);
    }
  return G_SOURCE_CONTINUE;
}

void
sonde_recording_read (SondeRecording *self)
{
  if (self->capture_source == 0 && self->capture_fd >= 0)
    self->capture_source
        = g_unix_fd_add (self->capture_fd, G_IO_IN | G_IO_HUP | G_IO_ERR, capture_ready, self);
}

void
sonde_recording_save (SondeRecording *self, int fd)
{
  self->out_fd = fd;
  sonde_recording_read (self);
}

/* Returns: a descriptor, or -1 */
static int
take_handle (GUnixFDList *fds, GVariant *handle, GError **error)
{
  gint32 index = g_variant_get_handle (handle);

  if (fds != NULL && index >= 0 && index < g_unix_fd_list_get_length (fds))
    return g_unix_fd_list_get (fds, index, error);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
               "The service's answer lacks a descriptor");
  return -1;
}

static void stopped (GObject *source, GAsyncResult *result, gpointer user_data);

static void
call_stop (SondeRecording *self)
{
  self->n_stops++;
  sonde_dbus_session_call_stop (self->session, G_DBUS_CALL_FLAGS_NONE, -1, self->cancellable,
                                stopped, self);
}

static void
stopped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecording *self;
  g_autoptr (GVariant) statistics = NULL;
  g_autoptr (GError) error = NULL;

  /* a session that ended by itself meanwhile is no failure; Finished tells how it ended */
  if (sonde_dbus_session_call_stop_finish (SONDE_DBUS_SESSION (source), &statistics, result, &error)
      || g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  self = user_data;
  /* the service went before it answered, and comes back */
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY) && self->n_stops < MAX_STOPS)
    call_stop (self);
}

static void
session_ready (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecording *self = user_data;
  g_autoptr (GError) error = NULL;
  SondeDBusSession *session = sonde_dbus_session_proxy_new_finish (result, &error);

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  if (session == NULL)
    {
      fail (self, g_steal_pointer (&error));
      end (self);
      return;
    }
  self->session = session;
  if (self->stop_wanted)
    call_stop (self);
  else
    self->handler->started (self->user_data);
}

static void
profile_ready (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecording *self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) capture = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;

  if (!sonde_dbus_manager_call_profile_finish (SONDE_DBUS_MANAGER (source), &path, &capture, &fds,
                                               result, &error)
      && g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return; /* self may be gone */
  if (error == NULL)
    self->capture_fd = take_handle (fds, capture, &error);
  if (error != NULL)
    {
      fail (self, g_steal_pointer (&error));
      end (self);
      return;
    }

  self->path = g_steal_pointer (&path);
  self->start_us = g_get_monotonic_time ();
  sonde_dbus_session_proxy_new (
      self->connection->bus,
      G_DBUS_PROXY_FLAGS_DO_NOT_LOAD_PROPERTIES | G_DBUS_PROXY_FLAGS_DO_NOT_CONNECT_SIGNALS,
      self->connection->name, self->path, self->cancellable, session_ready, self);
}

void
sonde_recording_start (SondeRecording *self, GVariant *options, GUnixFDList *fds)
{
  sonde_dbus_manager_call_profile (self->connection->manager, options,
                                   sonde_connection_call_flags (self->connection), -1, fds,
                                   self->cancellable, profile_ready, self);
}

static void
control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecording *self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) handle = NULL;
  g_autoptr (GError) error = NULL;
  int fd = -1;

  if (!sonde_dbus_session_call_open_control_finish (SONDE_DBUS_SESSION (source), &handle, &fds,
                                                    result, &error)
      && g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return; /* self may be gone */
  if (error == NULL)
    fd = take_handle (fds, handle, &error);
  if (error != NULL)
    g_dbus_error_strip_remote_error (error);
  self->handler->control_opened (fd, error, self->user_data);
}

void
sonde_recording_open_control (SondeRecording *self)
{
  sonde_dbus_session_call_open_control (self->session,
                                        sonde_connection_call_flags (self->connection), G_MAXINT,
                                        NULL, self->cancellable, control_opened, self);
}

static void
process_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecording *self = user_data;
  g_autoptr (GError) error = NULL;

  if (!sonde_dbus_session_call_add_process_finish (SONDE_DBUS_SESSION (source), NULL, result,
                                                   &error))
    {
      if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return;
      g_dbus_error_strip_remote_error (error);
    }
  self->handler->added (error, self->user_data);
}

void
sonde_recording_add_process (SondeRecording *self, GPid pid, int maps_fd)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  int index = g_unix_fd_list_append (fds, maps_fd, &error);

  if (index < 0)
    {
      self->handler->added (error, self->user_data);
      return;
    }
  sonde_dbus_session_call_add_process (self->session,
                                       g_variant_new_parsed ("[(%u, %h)]", (guint32) pid, index),
                                       sonde_connection_call_flags (self->connection), G_MAXINT,
                                       fds, self->cancellable, process_added, self);
}

void
sonde_recording_stop (SondeRecording *self)
{
  if (self->stop_wanted || self->has_ended)
    return;
  self->stop_wanted = TRUE;
  if (self->session != NULL)
    call_stop (self);
  else if (self->path == NULL)
    {
      g_cancellable_cancel (self->cancellable);
      fail (self, g_error_new (G_IO_ERROR, G_IO_ERROR_CANCELLED, "Stopped before the start"));
      end (self);
    }
}

static void
statistics_ready (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecording *self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) reply
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  g_autoptr (GVariant) value = NULL;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return; /* self may be gone */
  if (reply != NULL)
    g_variant_get (reply, "(v)", &value);
  /* after Finished the object is gone, and better figures are here */
  if (value != NULL && self->reason == NULL
      && g_variant_is_of_type (value, G_VARIANT_TYPE ("a{st}")))
    {
      g_clear_pointer (&self->statistics, g_variant_unref);
      self->statistics = g_steal_pointer (&value);
    }
  self->handler->refreshed (self->user_data);
}

void
sonde_recording_refresh (SondeRecording *self)
{
  if (self->session == NULL || self->reason != NULL)
    {
      self->handler->refreshed (self->user_data);
      return;
    }
  g_dbus_connection_call (
      self->connection->bus, self->connection->name, self->path, "org.freedesktop.DBus.Properties",
      "Get", g_variant_new ("(ss)", SESSION_INTERFACE, "Statistics"), G_VARIANT_TYPE ("(v)"),
      G_DBUS_CALL_FLAGS_NONE, -1, self->cancellable, statistics_ready, self);
}

gboolean
sonde_recording_has_statistics (const SondeRecording *self)
{
  return self->statistics != NULL;
}

guint64
sonde_recording_statistic (const SondeRecording *self, const char *key)
{
  guint64 value = 0;

  if (self->statistics != NULL)
    g_variant_lookup (self->statistics, key, "t", &value);
  return value;
}

const char *
sonde_recording_reason (const SondeRecording *self)
{
  return self->reason;
}

guint64
sonde_recording_bytes (const SondeRecording *self)
{
  return self->bytes;
}

gint64
sonde_recording_elapsed_ns (const SondeRecording *self)
{
  gint64 end_us = self->end_us != 0 ? self->end_us : g_get_monotonic_time ();

  return self->start_us == 0 ? 0 : (end_us - self->start_us) * 1000;
}
