/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-source.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "client/base/cli.h"
#include "client/model/capture-stream.h"
#include "client/service/record-run.h"
#include "client/service/service.h"

#define READ_BYTES         (256 * 1024)
#define READS_PER_DISPATCH 16

struct SondeTopSource
{
  SondeClientProfiler *profiler; /* of a session of others */
  int capture_fd;
  guint capture_source;
  guint8 *buffer;
  SondeRecordRun *run; /* NULL: it is one of others */
  SondeCaptureStream *stream;
  const SondeTopSourceHandler *handler;
  gpointer user_data;
  gulong frame_id; /* of the run's session */
  gboolean was_told_to_stop;
  gboolean has_failed;
};

static void
take_frame (const SondeFrame *frame, gpointer user_data)
{
  SondeTopSource *self = user_data;

  self->handler->frame (frame, self->user_data);
}

static SondeTopSource *
source_new (void)
{
  SondeTopSource *self = g_new0 (SondeTopSource, 1);

  self->capture_fd = -1;
  self->stream = sonde_capture_stream_new (take_frame, self);
  return self;
}

SondeTopSource *
sonde_top_source_new_session (guint64 session, GError **error)
{
  static const char *const frames[] = { "samples", "counters", NULL };
  g_autoptr (SondeTopSource) self = source_new ();
  g_auto (GVariantBuilder) request = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  GError *failure = NULL;

  g_variant_builder_add (&request, "{sv}", "frames", g_variant_new_strv (frames, -1));
  self->buffer = g_malloc (READ_BYTES);
  self->profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_TERMINAL, error);
  if (self->profiler == NULL)
    return NULL;
  self->capture_fd = sonde_client_profiler_attach_sync (
      self->profiler, session, g_variant_builder_end (&request), NULL, &failure);
  if (self->capture_fd >= 0)
    return g_steal_pointer (&self);
  g_propagate_error (error, sonde_service_explain (self->profiler, session, failure));
  return NULL;
}

SondeTopSource *
sonde_top_source_new_recording (const SondeRecordOptions *options, GError **error)
{
  g_autoptr (SondeTopSource) self = source_new ();

  self->run = sonde_record_run_new (options, error);
  return self->run != NULL ? g_steal_pointer (&self) : NULL;
}

void
sonde_top_source_free (SondeTopSource *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->capture_source, g_source_remove);
  sonde_clear_fd (&self->capture_fd);
  if (self->frame_id != 0)
    g_signal_handler_disconnect (sonde_record_run_session (self->run), self->frame_id);
  sonde_record_run_free (self->run);
  g_clear_object (&self->profiler);
  sonde_capture_stream_free (self->stream);
  g_free (self->buffer);
  g_free (self);
}

gboolean
sonde_top_source_connect (SondeTopSource *self, GError **error)
{
  return self->run == NULL || sonde_record_run_connect (self->run, error);
}

static void
session_frame (SondeClientSession *session, SondeClientFrame *frame, gpointer user_data)
{
  g_autoptr (GBytes) bytes = sonde_client_frame_get_bytes (frame);

  take_frame (g_bytes_get_data (bytes, NULL), user_data);
}

static void
run_started (SondeClientSession *session, gpointer user_data)
{
  SondeTopSource *self = user_data;

  self->frame_id = g_signal_connect (session, "frame", G_CALLBACK (session_frame), self);
  sonde_client_session_read (session);
}

/* Nothing is on the screen yet: that begins with the first frame. */
static void
run_noticed (const char *text, gpointer user_data)
{
  sonde_cli_complain ("%s", text);
}

static void
run_failed (const char *what, const GError *error, gpointer user_data)
{
  SondeTopSource *self = user_data;

  self->has_failed = TRUE;
  self->handler->failed (what, error, self->user_data);
}

static void
run_stopped (const char *reason, gpointer user_data)
{
  SondeTopSource *self = user_data;

  self->handler->stopped (reason, self->user_data);
}

static void
run_ended (gpointer user_data)
{
  SondeTopSource *self = user_data;

  self->handler->ended (self->user_data);
}

/* Of a session of others; @error: (nullable) (transfer none) */
static gboolean
stop_reading (SondeTopSource *self, const GError *error)
{
  self->capture_source = 0;
  sonde_clear_fd (&self->capture_fd);
  if (error != NULL)
    {
      self->has_failed = TRUE;
      self->handler->failed ("", error, self->user_data);
    }
  self->handler->stopped (NULL, self->user_data);
  self->handler->ended (self->user_data);
  return G_SOURCE_REMOVE;
}

static gboolean
capture_ready (gint fd, GIOCondition condition, gpointer user_data)
{
  SondeTopSource *self = user_data;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < READS_PER_DISPATCH; i++)
    {
      gssize n = recv (fd, self->buffer, READ_BYTES, MSG_DONTWAIT);

      /* of a session that is over the capture is a file */
      if (n < 0 && errno == ENOTSOCK)
        n = read (fd, self->buffer, READ_BYTES);
      if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return G_SOURCE_CONTINUE;
      if (n < 0)
        g_set_error (&error, G_IO_ERROR, g_io_error_from_errno (errno),
                     "Cannot read the capture: %s", g_strerror (errno));
      else if (n == 0)
        sonde_capture_stream_end (self->stream, &error);
      else if (sonde_capture_stream_add (self->stream, self->buffer, (gsize) n, &error))
        continue;
      return stop_reading (self, error);
    }
  return G_SOURCE_CONTINUE;
}

void
sonde_top_source_start (SondeTopSource *self,
                        const SondeTopSourceHandler *handler,
                        gpointer user_data)
{
  static const SondeRecordRunHandler run_handler = { .noticed = run_noticed,
                                                     .failed = run_failed,
                                                     .started = run_started,
                                                     .stopped = run_stopped,
                                                     .ended = run_ended };

  self->handler = handler;
  self->user_data = user_data;
  if (self->run != NULL)
    sonde_record_run_start (self->run, &run_handler, self);
  else
    self->capture_source
        = g_unix_fd_add (self->capture_fd, G_IO_IN | G_IO_HUP | G_IO_ERR, capture_ready, self);
}

gboolean
sonde_top_source_stop (SondeTopSource *self)
{
  gboolean is_first = !self->was_told_to_stop;

  self->was_told_to_stop = TRUE;
  if (self->run != NULL)
    return sonde_record_run_end (self->run, SIGTERM);
  if (is_first && self->capture_source != 0)
    {
      g_clear_handle_id (&self->capture_source, g_source_remove);
      stop_reading (self, NULL);
    }
  return is_first;
}

gboolean
sonde_top_source_is_embedded (const SondeTopSource *self)
{
  return self->run != NULL && sonde_record_run_is_embedded (self->run);
}

int
sonde_top_source_exit_status (const SondeTopSource *self)
{
  if (!self->has_failed)
    return 0;
  return self->run != NULL ? sonde_record_run_exit_status (self->run) : 1;
}
