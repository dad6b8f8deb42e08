/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session as an object: frames as signals, and its end. */
#include "client/library/session.h"

#include <errno.h>
#include <fcntl.h>

#include "client/base/fd.h"
#include "client/library/frame.h"
#include "client/library/process-proof.h"
#include "client/library/recording.h"
#include "client/model/capture-stream.h"

struct _SondeClientSession
{
  GObject parent_instance;

  GObject *profiler;
  SondeRecording *recording;
  GTask *starting;
  GTask *adding; /* NULL: no process is being added; and so on */
  GTask *opening;
  GTask *refreshing;
  GCancellable *cancellable;
  gulong cancelled_id;
  SondeCaptureStream *stream;
  gboolean is_over; /* no more comes */
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

  sonde_recording_free (self->recording);
  sonde_capture_stream_free (self->stream);
  g_clear_object (&self->cancellable);
  g_clear_object (&self->profiler);
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
  self->stream = sonde_capture_stream_new (tell_frame, self);
}

static gboolean
take_data (const guint8 *bytes, gsize size_bytes, GError **error, gpointer user_data)
{
  SondeClientSession *self = user_data;

  return sonde_capture_stream_add (self->stream, bytes, size_bytes, error);
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
has_started (gpointer user_data)
{
  SondeClientSession *self = user_data;
  g_autoptr (GTask) task = g_steal_pointer (&self->starting);

  g_cancellable_disconnect (self->cancellable, self->cancelled_id);
  g_task_return_pointer (task, g_object_ref (self), g_object_unref);
}

static void
has_added (const GError *error, gpointer user_data)
{
  SondeClientSession *self = user_data;

  answer (&self->adding, error);
}

static void
has_opened (int fd, const GError *error, gpointer user_data)
{
  SondeClientSession *self = user_data;
  g_autoptr (GTask) task = g_steal_pointer (&self->opening);

  if (task == NULL) /* it was over before */
    sonde_clear_fd (&fd);
  else if (error != NULL)
    g_task_return_error (task, g_error_copy (error));
  else
    g_task_return_int (task, fd);
}

static void
has_refreshed (gpointer user_data)
{
  SondeClientSession *self = user_data;

  answer (&self->refreshing, NULL);
}

static void
has_ended (const GError *error, gpointer user_data)
{
  SondeClientSession *self = user_data;
  g_autoptr (GError) cut = NULL;
  g_autoptr (GError) gone = g_error_new (G_IO_ERROR, G_IO_ERROR_CANCELLED, "The session is over");

  self->is_over = TRUE;
  if (error == NULL && !sonde_capture_stream_end (self->stream, &cut))
    error = cut;
  answer (&self->adding, error != NULL ? error : gone);
  answer (&self->opening, error != NULL ? error : gone);
  answer (&self->refreshing, error != NULL ? error : gone);
  if (self->starting != NULL)
    {
      g_cancellable_disconnect (self->cancellable, self->cancelled_id);
      answer (&self->starting, error != NULL ? error : gone);
    }
  else
    g_signal_emit (self, signals[SIGNAL_FINISHED], 0, sonde_recording_reason (self->recording),
                   error);
  /* not at once: the recording is what calls us */
  g_idle_add_once ((GSourceOnceFunc) g_object_unref, self);
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
  static const SondeRecordingHandler handler = { .started = has_started,
                                                 .added = has_added,
                                                 .control_opened = has_opened,
                                                 .refreshed = has_refreshed,
                                                 .ended = has_ended,
                                                 .data = take_data };
  SondeClientSession *self = g_object_new (SONDE_CLIENT_TYPE_SESSION, NULL); /* until it is over */

  self->profiler = g_object_ref (profiler);
  self->starting = task;
  self->recording = sonde_recording_new (connection, &handler, self);
  g_task_set_check_cancellable (task, FALSE); /* a session that runs is answered in any case */
  if (g_task_get_cancellable (task) != NULL)
    {
      self->cancellable = g_object_ref (g_task_get_cancellable (task));
      self->cancelled_id = g_cancellable_connect (self->cancellable, G_CALLBACK (start_cancelled),
                                                  g_object_ref (self), g_object_unref);
    }
  sonde_recording_start (self->recording, options, fds);
}

void
sonde_client_session_read (SondeClientSession *self)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  sonde_recording_read (self->recording);
}

void
sonde_client_session_save (SondeClientSession *self, int fd)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));
  g_return_if_fail (fd >= 0 && !sonde_capture_stream_has_begun (self->stream));

  sonde_recording_save (self->recording, fd);
}

void
sonde_client_session_stop (SondeClientSession *self)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  sonde_recording_stop (self->recording);
  sonde_recording_read (self->recording);
}

/* Puts @task, (transfer full), where its answer is awaited; FALSE: there is an earlier one. */
static gboolean
ask (GTask **place, GTask *task)
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

void
sonde_client_session_add_process_async (SondeClientSession *self,
                                        gint pid,
                                        GCancellable *cancellable,
                                        GAsyncReadyCallback callback,
                                        gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  sonde_autofd int maps = -1;

  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!ask (&self->adding, g_task_new (self, cancellable, callback, user_data)))
    return;
  g_task_set_source_tag (self->adding, sonde_client_session_add_process_async);
  maps = sonde_process_proof_open (pid, &error);
  if (maps < 0)
    answer (&self->adding, error);
  else
    sonde_recording_add_process (self->recording, pid, maps);
}

gboolean
sonde_client_session_add_process_finish (SondeClientSession *self,
                                         GAsyncResult *result,
                                         GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

void
sonde_client_session_open_control_async (SondeClientSession *self,
                                         GCancellable *cancellable,
                                         GAsyncReadyCallback callback,
                                         gpointer user_data)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!ask (&self->opening, g_task_new (self, cancellable, callback, user_data)))
    return;
  g_task_set_source_tag (self->opening, sonde_client_session_open_control_async);
  g_task_set_check_cancellable (self->opening, FALSE); /* a descriptor that came is handed out */
  sonde_recording_open_control (self->recording);
}

int
sonde_client_session_open_control_finish (SondeClientSession *self,
                                          GAsyncResult *result,
                                          GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), -1);

  return (int) g_task_propagate_int (G_TASK (result), error);
}

void
sonde_client_session_refresh_async (SondeClientSession *self,
                                    GCancellable *cancellable,
                                    GAsyncReadyCallback callback,
                                    gpointer user_data)
{
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (self));

  if (!ask (&self->refreshing, g_task_new (self, cancellable, callback, user_data)))
    return;
  g_task_set_source_tag (self->refreshing, sonde_client_session_refresh_async);
  sonde_recording_refresh (self->recording);
}

gboolean
sonde_client_session_refresh_finish (SondeClientSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

gboolean
sonde_client_session_has_statistics (SondeClientSession *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), FALSE);

  return sonde_recording_has_statistics (self->recording);
}

guint64
sonde_client_session_get_statistic (SondeClientSession *self, const char *key)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), 0);

  return sonde_recording_statistic (self->recording, key);
}

guint64
sonde_client_session_get_n_bytes (SondeClientSession *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), 0);

  return sonde_recording_bytes (self->recording);
}

gint64
sonde_client_session_get_elapsed_ns (SondeClientSession *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION (self), 0);

  return sonde_recording_elapsed_ns (self->recording);
}
