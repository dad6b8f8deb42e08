/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/session.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "client/library/frame.h"
#include "client/model/capture-sink.h"
#include "client/model/capture-stream.h"

#define READ_BYTES         (256 * 1024)
#define READS_PER_DISPATCH 16
#define FINISHED_GRACE_S   5 /* between the end of the capture and the signal that says why */

struct _SondeClientSession
{
  GObject parent_instance;

  GObject *profiler; /* keeps the connection */
  SondeConnection *connection;
  GCancellable *calls; /* all that are not answered */
  GVariant *options;   /* of Profile */
  GUnixFDList *fds;
  char *path; /* of the session object; NULL before it is there */

  GTask *starting;
  GTask *adding; /* NULL: no process is being added; and so on */
  GTask *opening;
  GTask *refreshing;
  GCancellable *cancellable; /* of the start */
  gulong cancelled_id;

  int capture_fd;
  guint8 *buffer;
  SondeCaptureStream *stream;
  SondeCaptureSink *sink; /* NULL: frames are emitted */
  guint64 n_bytes;        /* read */
  gint64 start_us;
  gint64 end_us;

  guint finished_id; /* signal subscription */
  gulong closed_id;
  gulong given_up_id;
  guint capture_source;
  guint grace_source;

  int control_fd;   /* of OpenControl, until it is handed out */
  char *rendezvous; /* NULL: not known, or there is none */

  guint n_asks; /* of Profile */
  guint n_stops;
  gboolean stop_wanted;
  gboolean at_eof;
  gboolean is_service_gone;
  gboolean is_over; /* no more comes */
  char *reason;
  GVariant *statistics;
  GError *error; /* the first failure */
};

G_DEFINE_FINAL_TYPE (SondeClientSession, sonde_client_session, G_TYPE_OBJECT)

enum
{
  SIGNAL_FRAME,
  SIGNAL_FINISHED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

static void
sonde_client_session_finalize (GObject *object)
{
  SondeClientSession *self = SONDE_CLIENT_SESSION (object);

  sonde_capture_stream_free (self->stream);
  sonde_capture_sink_free (self->sink);
  g_clear_pointer (&self->options, g_variant_unref);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_object (&self->fds);
  g_clear_object (&self->calls);
  g_clear_object (&self->cancellable);
  g_clear_object (&self->profiler);
  g_clear_error (&self->error);
  g_free (self->buffer);
  sonde_clear_fd (&self->control_fd);
  g_free (self->rendezvous);
  g_free (self->reason);
  g_free (self->path);
  G_OBJECT_CLASS (sonde_client_session_parent_class)->finalize (object);
}

static void
sonde_client_session_class_init (SondeClientSessionClass *class)
{
  G_OBJECT_CLASS (class)->finalize = sonde_client_session_finalize;

  signals[SIGNAL_FRAME] = g_signal_new ("frame", SONDE_CLIENT_TYPE_SESSION, G_SIGNAL_RUN_LAST, 0,
                                        NULL, NULL, NULL, G_TYPE_NONE, 1, SONDE_CLIENT_TYPE_FRAME);

  signals[SIGNAL_FINISHED]
      = g_signal_new ("finished", SONDE_CLIENT_TYPE_SESSION, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                      G_TYPE_NONE, 2, G_TYPE_STRING, G_TYPE_ERROR);
}

static void
tell_frame (const SondeFrame *found, gpointer user_data)
{
  g_autoptr (SondeClientFrame) frame = sonde_client_frame_new (found);

  g_signal_emit (user_data, signals[SIGNAL_FRAME], 0, frame);
}

static void
sonde_client_session_init (SondeClientSession *self)
{
  self->capture_fd = -1;
  self->control_fd = -1;
  self->buffer = g_malloc (READ_BYTES);
  self->calls = g_cancellable_new ();
  self->stream = sonde_capture_stream_new (tell_frame, self);
}

/* A call keeps the session until it is answered, or cancelled by the end. */
static void
call (SondeClientSession *self, const SondeServiceCall *what, GAsyncReadyCallback callback)
{
  sonde_connection_call (self->connection, what, self->calls, callback, g_object_ref (self));
}

/* --- the end --- */

static void
fail (SondeClientSession *self, GError *error)
{
  if (self->error == NULL)
    self->error = error;
  else
    g_error_free (error);
}

static void
answer (GTask **task, const GError *error)
{
  g_autoptr (GTask) answered = g_steal_pointer (task);

  if (answered == NULL)
    return;
  if (error != NULL)
    g_task_return_error (answered, g_error_copy (error));
  else
    g_task_return_boolean (answered, TRUE);
}

static void
end (SondeClientSession *self)
{
  g_autoptr (GError) over = g_error_new (G_IO_ERROR, G_IO_ERROR_CANCELLED, "The session is over");
  g_autoptr (GError) cut = NULL;
  const GError *why;

  if (self->is_over)
    return;
  self->is_over = TRUE;
  self->end_us = g_get_monotonic_time ();
  g_dbus_connection_signal_unsubscribe (self->connection->bus, self->finished_id);
  g_clear_signal_handler (&self->closed_id, self->connection->bus);
  g_clear_signal_handler (&self->given_up_id, self->connection->closed);
  g_clear_handle_id (&self->capture_source, g_source_remove);
  g_clear_handle_id (&self->grace_source, g_source_remove);
  sonde_clear_fd (&self->capture_fd);
  g_cancellable_cancel (self->calls);
  if (self->error == NULL && !sonde_capture_stream_end (self->stream, &cut))
    fail (self, g_steal_pointer (&cut));
  why = self->error != NULL ? self->error : over;
  answer (&self->adding, why);
  answer (&self->opening, why);
  answer (&self->refreshing, why);
  if (self->starting != NULL)
    {
      g_cancellable_disconnect (self->cancellable, self->cancelled_id);
      answer (&self->starting, why);
    }
  else
    g_signal_emit (self, signals[SIGNAL_FINISHED], 0, self->reason, self->error);
  /* not at once: who called us goes on with it */
  g_idle_add_once ((GSourceOnceFunc) g_object_unref, self);
}

static void
end_with (SondeClientSession *self, GError *error)
{
  fail (self, error);
  end (self);
}

/* The end needs both: all bytes, and the word of the service (or the certainty that none comes). */
static void
check_end (SondeClientSession *self)
{
  static const char *const normal[]
      = { "stopped", "duration", "targets-exited", "owner-left", "reader-left", "upgrade", NULL };

  if (!self->at_eof || (self->reason == NULL && !self->is_service_gone))
    return;
  if (self->reason == NULL)
    fail (self,
          g_error_new (G_IO_ERROR, G_IO_ERROR_FAILED, "The service ended during the recording"));
  else if (!g_strv_contains (normal, self->reason))
    fail (self, g_error_new_literal (G_IO_ERROR, G_IO_ERROR_FAILED, self->reason));
  end (self);
}

static gboolean
grace_over (gpointer user_data)
{
  SondeClientSession *self = user_data;

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
  SondeClientSession *self = user_data;

  if (g_strcmp0 (path, self->path) != 0 || self->reason != NULL
      || !g_variant_is_of_type (parameters, G_VARIANT_TYPE ("(sa{st})")))
    return;
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_variant_get (parameters, "(s@a{st})", &self->reason, &self->statistics);
  check_end (self);
}

static void
connection_closed (GDBusConnection *bus, gboolean remote, GError *error, gpointer user_data)
{
  SondeClientSession *self = user_data;

  self->is_service_gone = TRUE;
  if (self->path == NULL)
    end_with (self, g_error_new (G_IO_ERROR, G_IO_ERROR_FAILED, "The service ended"));
  else
    check_end (self);
}

/* By our own side: nothing of what is still to come matters. */
static void
connection_given_up (GCancellable *closed, gpointer user_data)
{
  end_with (user_data, g_error_new (G_IO_ERROR, G_IO_ERROR_CLOSED, "The connection was closed"));
}

/* --- the capture --- */

/* A session whose file cannot take more is stopped and read to its end: only that says what the
 * file lacks. */
static gboolean
deliver (SondeClientSession *self, gsize size_bytes)
{
  GError *error = NULL;
  gboolean is_full;

  self->n_bytes += size_bytes;
  if (self->sink != NULL
          ? sonde_capture_sink_add (self->sink, self->buffer, size_bytes, &error)
          : sonde_capture_stream_add (self->stream, self->buffer, size_bytes, &error))
    return TRUE;
  is_full = error->domain == G_FILE_ERROR;
  fail (self, error);
  if (is_full)
    sonde_client_session_stop (self);
  return is_full;
}

static gboolean
capture_ready (gint fd, GIOCondition condition, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = g_object_ref (user_data);

  for (guint i = 0; i < READS_PER_DISPATCH; i++)
    {
      gssize n = recv (fd, self->buffer, READ_BYTES, MSG_DONTWAIT);

      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return G_SOURCE_CONTINUE;
      if (n < 0)
        fail (self, g_error_new (G_IO_ERROR, g_io_error_from_errno (errno),
                                 "Cannot read the capture: %s", g_strerror (errno)));
      if (n > 0 && deliver (self, (gsize) n) && !self->is_over)
        continue;
      if (self->is_over) /* who got the frames closed the profiler */
        return G_SOURCE_REMOVE;
      /* closing our end is what stops a session that nobody understands */
      self->at_eof = TRUE;
      self->capture_source = 0;
      sonde_clear_fd (&self->capture_fd);
      if (self->sink != NULL)
        sonde_capture_sink_finish (self->sink);
      self->grace_source = g_timeout_add_seconds (FINISHED_GRACE_S, grace_over, self);
      check_end (self);
      return G_SOURCE_REMOVE;
    }
  return G_SOURCE_CONTINUE;
}

void
sonde_client_session_read (SondeClientSession *self)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (self->capture_source == 0 && self->capture_fd >= 0)
    self->capture_source
        = g_unix_fd_add (self->capture_fd, G_IO_IN | G_IO_HUP | G_IO_ERR, capture_ready, self);
}

void
sonde_client_session_save (SondeClientSession *self, int fd)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));
  g_return_if_fail (fd >= 0 && !sonde_capture_stream_has_begun (self->stream));

  self->sink = sonde_capture_sink_new (fd);
  sonde_client_session_read (self);
}

/* --- start and stop --- */

static void stopped (GObject *source, GAsyncResult *result, gpointer user_data);

static void
call_stop (SondeClientSession *self)
{
  self->n_stops++;
  call (self,
        &(SondeServiceCall){
            .path = self->path, .method = "Stop", .type = "(a{st})", .is_quiet = TRUE },
        stopped);
}

static void
stopped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) statistics = sonde_connection_call_finish (source, result, NULL, &error);

  /* A session that ended by itself meanwhile is no failure; Finished tells how it ended. But a
   * service that went before it answered comes back. */
  if (statistics == NULL && !self->is_over && self->n_stops < SONDE_MAX_ASKS
      && g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY))
    call_stop (self);
}

void
sonde_client_session_stop (SondeClientSession *self)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!self->stop_wanted && !self->is_over)
    {
      self->stop_wanted = TRUE;
      if (self->path != NULL)
        call_stop (self);
      else
        end_with (self, g_error_new (G_IO_ERROR, G_IO_ERROR_CANCELLED, "Stopped before the start"));
    }
  sonde_client_session_read (self);
}

static void profiled (GObject *source, GAsyncResult *result, gpointer user_data);

static void
call_profile (SondeClientSession *self)
{
  self->n_asks++;
  call (self,
        &(SondeServiceCall){ .method = "Profile",
                             .arguments = g_variant_new ("(@a{sv})", self->options),
                             .fds = self->fds,
                             .type = "(oh)" },
        profiled);
}

/* A service that went before it answered comes back, and is asked again: nothing had begun, for a
 * session whose only reader went with the answer ends by itself. */
static void
profiled (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) handle = NULL;
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;
  g_autoptr (GVariant) answered = sonde_connection_call_finish (source, result, &fds, &error);

  if (self->is_over)
    {
      g_clear_error (&error);
      return;
    }
  if (answered == NULL && g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY))
    {
      g_clear_error (&error);
      if (self->n_asks < SONDE_MAX_ASKS)
        call_profile (self);
      else
        end_with (self, g_error_new (G_IO_ERROR, G_IO_ERROR_FAILED, "The service ended"));
      return;
    }
  if (answered != NULL)
    {
      g_variant_get (answered, "(o@h)", &self->path, &handle);
      self->capture_fd = sonde_connection_take_handle (fds, handle, &error);
    }
  if (error != NULL)
    {
      end_with (self, error);
      return;
    }
  self->start_us = g_get_monotonic_time ();
  task = g_steal_pointer (&self->starting);
  g_cancellable_disconnect (self->cancellable, self->cancelled_id);
  g_task_return_pointer (task, g_object_ref (self), g_object_unref);
}

static gboolean
stop_start (gpointer user_data)
{
  SondeClientSession *self = user_data;

  if (self->starting != NULL)
    sonde_client_session_stop (self);
  return G_SOURCE_REMOVE;
}

/* Comes on any thread, and within a lock. */
static void
start_cancelled (GCancellable *cancellable, gpointer user_data)
{
  g_idle_add_full (G_PRIORITY_DEFAULT, stop_start, g_object_ref (user_data), g_object_unref);
}

void
sonde_client_session_new (GObject *profiler,
                          SondeConnection *connection,
                          GVariant *options,
                          GUnixFDList *fds,
                          GTask *task)
{
  SondeClientSession *self = g_object_new (SONDE_CLIENT_TYPE_SESSION, NULL); /* until it is over */

  self->profiler = g_object_ref (profiler);
  self->connection = connection;
  self->options = g_variant_ref_sink (options);
  self->fds = fds != NULL ? g_object_ref (fds) : NULL;
  self->starting = task;
  g_task_set_check_cancellable (task, FALSE); /* a session that runs is answered in any case */
  if (g_task_get_cancellable (task) != NULL)
    {
      self->cancellable = g_object_ref (g_task_get_cancellable (task));
      self->cancelled_id = g_cancellable_connect (self->cancellable, G_CALLBACK (start_cancelled),
                                                  g_object_ref (self), g_object_unref);
    }
  /* before the session is asked for: it may be over before anybody could listen */
  self->finished_id = g_dbus_connection_signal_subscribe (
      connection->bus, connection->name, SONDE_SESSION_INTERFACE, "Finished", NULL, NULL,
      G_DBUS_SIGNAL_FLAGS_NONE, session_finished, self, NULL);
  self->closed_id
      = g_signal_connect (connection->bus, "closed", G_CALLBACK (connection_closed), self);
  self->given_up_id
      = g_signal_connect (connection->closed, "cancelled", G_CALLBACK (connection_given_up), self);
  call_profile (self);
}

/* --- what else is asked of a session that goes on --- */

/* Puts @task, (transfer full), where its answer is awaited; FALSE: there is an earlier one. */
static gboolean
await (GTask **place, GTask *task)
{
  SondeClientSession *self = g_task_get_source_object (task);

  if (*place == NULL && !self->is_over)
    {
      *place = task;
      return TRUE;
    }
  if (self->is_over)
    g_task_return_new_error (task, G_IO_ERROR, G_IO_ERROR_CLOSED, "The session is over");
  else
    g_task_return_new_error (task, G_IO_ERROR, G_IO_ERROR_PENDING,
                             "The same is being asked for already");
  g_object_unref (task);
  return FALSE;
}

GVariant *
sonde_process_prove (gint pid, GUnixFDList *fds, GError **error)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", pid);
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  gint handle;

  if (fd < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot read process %d: %s",
                   pid, g_strerror (errno));
      return NULL;
    }
  handle = g_unix_fd_list_append (fds, fd, error);
  return handle < 0 ? NULL : g_variant_new_parsed ("[(%u, %h)]", (guint32) pid, handle);
}

static void
process_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answered = sonde_connection_call_finish (source, result, NULL, &error);

  answer (&self->adding, answered != NULL ? NULL : error);
}

void
sonde_client_session_add_process_async (SondeClientSession *self,
                                        gint pid,
                                        GCancellable *cancellable,
                                        GAsyncReadyCallback callback,
                                        gpointer user_data)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  GVariant *targets;

  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!await (&self->adding, g_task_new (self, cancellable, callback, user_data)))
    return;
  g_task_set_source_tag (self->adding, sonde_client_session_add_process_async);
  targets = sonde_process_prove (pid, fds, &error);
  if (targets == NULL)
    answer (&self->adding, error);
  else
    call (self,
          &(SondeServiceCall){ .path = self->path,
                               .method = "AddProcess",
                               .arguments = g_variant_new_tuple (&targets, 1),
                               .fds = fds,
                               .type = "()" },
          process_added);
}

gboolean
sonde_client_session_add_process_finish (SondeClientSession *self,
                                         GAsyncResult *result,
                                         GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

/* An older service has none. */
static void
rendezvous_read (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = user_data;
  g_autoptr (GVariant) answered = sonde_connection_call_finish (source, result, NULL, NULL);
  g_autoptr (GTask) task = g_steal_pointer (&self->opening);
  g_autoptr (GVariant) value = NULL;

  if (task == NULL) /* it was over before */
    return;
  if (answered != NULL)
    g_variant_get (answered, "(v)", &value);
  if (value != NULL && g_variant_is_of_type (value, G_VARIANT_TYPE_STRING)
      && g_variant_get_string (value, NULL)[0] != '\0')
    {
      g_free (self->rendezvous);
      self->rendezvous = g_variant_dup_string (value, NULL);
    }
  g_task_return_int (task, sonde_steal_fd (&self->control_fd));
}

static void
control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) handle = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answered = sonde_connection_call_finish (source, result, &fds, &error);
  g_autoptr (GTask) task = NULL;

  if (self->opening == NULL) /* it was over before */
    return;
  sonde_clear_fd (&self->control_fd);
  if (answered != NULL)
    {
      handle = g_variant_get_child_value (answered, 0);
      self->control_fd = sonde_connection_take_handle (fds, handle, &error);
    }
  if (self->control_fd >= 0)
    {
      call (self,
            &(SondeServiceCall){ .path = self->path,
                                 .interface = "org.freedesktop.DBus.Properties",
                                 .method = "Get",
                                 .arguments
                                 = g_variant_new ("(ss)", SONDE_SESSION_INTERFACE, "Rendezvous"),
                                 .type = "(v)",
                                 .is_quiet = TRUE },
            rendezvous_read);
      return;
    }
  task = g_steal_pointer (&self->opening);
  g_task_return_error (task, g_steal_pointer (&error));
}

const char *
sonde_client_session_get_rendezvous (SondeClientSession *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), NULL);

  return self->rendezvous;
}

void
sonde_client_session_open_control_async (SondeClientSession *self,
                                         GCancellable *cancellable,
                                         GAsyncReadyCallback callback,
                                         gpointer user_data)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!await (&self->opening, g_task_new (self, cancellable, callback, user_data)))
    return;
  g_task_set_source_tag (self->opening, sonde_client_session_open_control_async);
  g_task_set_check_cancellable (self->opening, FALSE); /* a descriptor that came is handed out */
  call (self, &(SondeServiceCall){ .path = self->path, .method = "OpenControl", .type = "(h)" },
        control_opened);
}

int
sonde_client_session_open_control_finish (SondeClientSession *self,
                                          GAsyncResult *result,
                                          GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), -1);

  return (int) g_task_propagate_int (G_TASK (result), error);
}

static void
statistics_read (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeClientSession) self = user_data;
  g_autoptr (GVariant) answered = sonde_connection_call_finish (source, result, NULL, NULL);
  g_autoptr (GVariant) value = NULL;

  if (answered != NULL)
    g_variant_get (answered, "(v)", &value);
  /* after Finished the object is gone, and better figures are here */
  if (value != NULL && self->reason == NULL
      && g_variant_is_of_type (value, G_VARIANT_TYPE ("a{st}")))
    {
      g_clear_pointer (&self->statistics, g_variant_unref);
      self->statistics = g_steal_pointer (&value);
    }
  answer (&self->refreshing, NULL);
}

void
sonde_client_session_refresh_async (SondeClientSession *self,
                                    GCancellable *cancellable,
                                    GAsyncReadyCallback callback,
                                    gpointer user_data)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!await (&self->refreshing, g_task_new (self, cancellable, callback, user_data)))
    return;
  g_task_set_source_tag (self->refreshing, sonde_client_session_refresh_async);
  if (self->reason != NULL)
    answer (&self->refreshing, NULL);
  else
    call (self,
          &(SondeServiceCall){ .path = self->path,
                               .interface = "org.freedesktop.DBus.Properties",
                               .method = "Get",
                               .arguments
                               = g_variant_new ("(ss)", SONDE_SESSION_INTERFACE, "Statistics"),
                               .type = "(v)",
                               .is_quiet = TRUE },
          statistics_read);
}

gboolean
sonde_client_session_refresh_finish (SondeClientSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- figures --- */

gboolean
sonde_client_session_has_statistics (SondeClientSession *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), FALSE);

  return self->statistics != NULL;
}

/* What the service does not know: how it went with the file. FALSE: it is no key of ours. */
static gboolean
look_up_in_file (const SondeCaptureSink *sink, const char *key, guint64 *value)
{
  const SondeCaptureCounts *kept = sonde_capture_sink_kept (sink);
  SondeCaptureCounts lost = sonde_capture_sink_lost (sink);
  const struct
  {
    const char *key;
    guint64 value;
  } own[] = {
    { "file-samples", kept->n_samples },   { "file-events", kept->n_events },
    { "file-lost", lost.n_frames },        { "file-samples-lost", lost.n_samples },
    { "file-events-lost", lost.n_events },
  };

  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    if (g_str_equal (key, own[i].key))
      {
        *value = own[i].value;
        return TRUE;
      }
  return FALSE;
}

guint64
sonde_client_session_get_statistic (SondeClientSession *self, const char *key)
{
  guint64 value = 0;

  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), 0);

  if (self->sink != NULL && look_up_in_file (self->sink, key, &value))
    return value;
  if (self->statistics != NULL)
    g_variant_lookup (self->statistics, key, "t", &value);
  return value;
}

guint64
sonde_client_session_get_n_bytes (SondeClientSession *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), 0);

  return self->sink != NULL ? sonde_capture_sink_kept (self->sink)->n_bytes : self->n_bytes;
}

gint64
sonde_client_session_get_elapsed_ns (SondeClientSession *self)
{
  gint64 end_us;

  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), 0);

  end_us = self->end_us != 0 ? self->end_us : g_get_monotonic_time ();
  return self->start_us == 0 ? 0 : (end_us - self->start_us) * 1000;
}
