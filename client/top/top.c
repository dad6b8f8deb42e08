/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "client/base/cli.h"
#include "client/base/pager.h"
#include "client/base/text.h"
#include "client/model/capture-stream.h"
#include "client/report/profile-text.h"
#include "client/service/record-run.h"
#include "client/service/service.h"
#include "client/top/top-page.h"
#include "client/top/top-terminal.h"

#define READ_BYTES         (256 * 1024)
#define READS_PER_DISPATCH 16
#define NAMES_BUDGET_US    50000 /* until something else may be done */
#define NAMES_PAUSE_MS     20    /* for that */
#define FIRST_LOOK_MS      300   /* so long the first picture takes */
#define LEAVE_MS           1000  /* that a block which is being printed may still take */

typedef struct
{
  SondeTopSource *source;
  const SondeTopOptions *options;
  GMainLoop *loop;
  SondeTopHistory *history;
  SondeTopView *view;
  SondeTopTerminal *terminal; /* NULL: text, or not yet */
  guint tick;                 /* source: the next look */
  guint names_tick;           /* source: more names */
  gint64 end_ns;              /* of the capture; 0: it goes on */
  char *end;                  /* why, if it has ended */
  GString *complaints;        /* for when the terminal is restored */
  guint n_blocks;             /* printed */
  GCancellable *printing;     /* of a block; NULL: nothing is being printed */
  guint patience;             /* source: nobody waits for it any longer */
  gboolean is_leaving;
  gboolean has_ended; /* the source */
  gboolean has_failed;
} Top;

struct SondeTopSource
{
  SondeClientProfiler *profiler; /* of a session of others */
  int capture_fd;
  guint capture_source;
  guint8 *buffer;
  SondeRecordRun *run; /* NULL: it is one of others */
  SondeCaptureStream *stream;
  Top *top;        /* who is told, once it runs */
  gulong frame_id; /* of the run's session */
  gboolean has_failed;
};

static void show (Top *self);
static void stop_source (SondeTopSource *self);

static gint64
clock_ns (const Top *self)
{
  return self->end_ns != 0 ? self->end_ns : g_get_monotonic_time () * 1000;
}

static void
check_left (Top *self)
{
  if (self->is_leaving && self->has_ended && self->printing == NULL)
    g_main_loop_quit (self->loop);
}

/* Who takes nothing does not hold us up: the thread that prints ends with the process. */
static void
stop_printing (Top *self)
{
  g_clear_handle_id (&self->patience, g_source_remove);
  if (self->printing != NULL)
    g_cancellable_cancel (self->printing);
  g_clear_object (&self->printing);
}

static gboolean
patience_over (gpointer user_data)
{
  Top *self = user_data;

  self->patience = 0;
  stop_printing (self);
  check_left (self);
  return G_SOURCE_REMOVE;
}

/* The terminal is given back at once; the session takes a moment. */
static void
leave (Top *self)
{
  g_clear_handle_id (&self->tick, g_source_remove);
  g_clear_handle_id (&self->names_tick, g_source_remove);
  g_clear_pointer (&self->terminal, sonde_top_terminal_free);
  if (!self->is_leaving)
    {
      self->is_leaving = TRUE;
      if (!self->has_ended)
        stop_source (self->source);
      if (self->printing != NULL)
        self->patience = g_timeout_add (LEAVE_MS, patience_over, self);
    }
  check_left (self);
}

static gboolean look_for_names (gpointer user_data);

static void
take_snapshot (Top *self)
{
  SondeTopSnapshot *snapshot = sonde_top_history_snapshot (self->history, clock_ns (self),
                                                           self->view->is_all, NAMES_BUDGET_US);

  if (snapshot->is_unnamed_yet && self->names_tick == 0)
    self->names_tick = g_timeout_add (NAMES_PAUSE_MS, look_for_names, self);
  sonde_top_view_take (self->view, snapshot);
}

static gboolean
look_for_names (gpointer user_data)
{
  Top *self = user_data;

  self->names_tick = 0;
  take_snapshot (self);
  show (self);
  return G_SOURCE_REMOVE;
}

static void
show (Top *self)
{
  SondeTopPage *page;

  if (self->terminal == NULL)
    return;
  page = sonde_top_page_new (sonde_top_terminal_n_lines (self->terminal),
                             sonde_top_terminal_n_columns (self->terminal), g_get_charset (NULL));
  sonde_top_page_fill (page, self->view, sonde_top_history_n_seen (self->history), self->end);
  sonde_top_terminal_show (self->terminal, page);
}

static void
pressed (guint key, gpointer user_data)
{
  Top *self = user_data;

  if (self->terminal == NULL)
    return;
  switch (sonde_top_view_press (
      self->view, key, sonde_top_page_n_rows (sonde_top_terminal_n_lines (self->terminal))))
    {
    case SONDE_TOP_QUIT:
      leave (self);
      return;
    case SONDE_TOP_RESET:
      sonde_top_history_reset (self->history, clock_ns (self));
      take_snapshot (self);
      break;
    case SONDE_TOP_SNAPSHOT:
      take_snapshot (self);
      break;
    case SONDE_TOP_SHOW:
    default:
      break;
    }
  show (self);
}

static void
changed (gpointer user_data)
{
  show (user_data);
}

/* All names, however long that takes: nothing else is to be done meanwhile. */
static GString *
dup_block (Top *self)
{
  SondeProfileStyle style;
  GString *out = g_string_new (self->n_blocks > 0 ? "\n" : NULL);
  const SondeProfile *profile;

  sonde_profile_style_init (&style);
  sonde_top_view_take (self->view, sonde_top_history_snapshot (self->history, clock_ns (self),
                                                               FALSE, G_MAXINT64 / 2));
  profile = sonde_top_view_profile (self->view);
  sonde_top_page_append_header (out, self->view);
  if (self->view->mode == SONDE_TOP_CALLS)
    sonde_top_page_append_calls (out, self->view);
  else if (sonde_profile_total (profile) == 0)
    g_string_append (out, "\nNo samples.\n");
  else if (sonde_top_view_is_tree (self->view))
    sonde_profile_append_tree (out, profile, &style);
  else
    sonde_profile_append_flat (out, profile, &style);
  return out;
}

static void
free_block (gpointer data)
{
  g_string_free (data, TRUE);
}

static void
print_in_thread (GTask *task, gpointer source, gpointer block, GCancellable *cancellable)
{
  g_task_return_boolean (task, sonde_cli_print (block));
}

static void
has_printed (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Top *self = user_data;
  gboolean is_good;

  if (g_cancellable_is_cancelled (g_task_get_cancellable (G_TASK (result))))
    return; /* self may be gone */
  is_good = g_task_propagate_boolean (G_TASK (result), NULL);
  stop_printing (self);
  self->n_blocks++;
  self->has_failed = self->has_failed || !is_good;
  if (!is_good || self->has_ended || (int) self->n_blocks == self->options->count)
    leave (self);
  check_left (self);
}

/* In a thread: frames are read however slow it is, and what is not out yet costs the next one. */
static void
print (Top *self)
{
  g_autoptr (GTask) task = NULL;

  if (self->printing != NULL || self->is_leaving)
    return;
  self->printing = g_cancellable_new ();
  task = g_task_new (NULL, self->printing, has_printed, self);
  g_task_set_task_data (task, dup_block (self), free_block);
  g_task_run_in_thread (task, print_in_thread);
}

static gboolean
look (gpointer user_data)
{
  Top *self = user_data;

  self->tick = g_timeout_add ((guint) (self->options->interval_s * 1000), look, self);
  if (self->options->is_text)
    print (self);
  else if (self->terminal != NULL)
    {
      take_snapshot (self);
      show (self);
    }
  return G_SOURCE_REMOVE;
}

/* Not before there is something to see: until then somebody may be asked for a password here. */
static void
begin (Top *self)
{
  static const SondeTopTerminalHandler handler = { pressed, changed };
  g_autoptr (GError) error = NULL;

  if (self->options->is_text)
    {
      self->tick = g_timeout_add ((guint) (self->options->interval_s * 1000), look, self);
      return;
    }
  self->terminal = sonde_top_terminal_new (sonde_pager_wants_colours (), &handler, self, &error);
  if (self->terminal == NULL)
    {
      g_string_append_printf (self->complaints, "%s", error->message);
      self->has_failed = TRUE;
      leave (self);
      return;
    }
  self->tick = g_timeout_add (FIRST_LOOK_MS, look, self);
  show (self);
}

static void
take_frame (Top *self, const SondeFrame *frame)
{
  if (self->tick == 0 && !self->is_leaving)
    begin (self);
  sonde_top_history_add_frame (self->history, frame, clock_ns (self));
}

static gboolean
is_embedded (const SondeTopSource *self)
{
  return self->run != NULL && sonde_record_run_is_embedded (self->run);
}

static void
has_failed (Top *self, const char *what, const GError *error)
{
  self->has_failed = TRUE;
  if (self->terminal == NULL)
    sonde_service_error_complain (what, error, is_embedded (self->source));
  else
    {
      g_string_append_printf (self->complaints, "%s%s", what, error->message);
      g_free (self->end);
      self->end = g_strdup_printf ("%s%s", what, error->message);
    }
}

/* No more frames come. @reason: "targets-exited", ...; NULL: it is not known */
static void
has_stopped (Top *self, const char *reason)
{
  self->end_ns = g_get_monotonic_time () * 1000;
  if (self->end == NULL)
    self->end = sonde_text_escape (reason != NULL ? reason : "the session is over", -1);
  if (self->terminal == NULL)
    return;
  take_snapshot (self);
  show (self);
}

/* Neither do other events. On a terminal it can be looked at until the user has enough. */
static void
has_ended (Top *self)
{
  self->has_ended = TRUE;
  if (self->terminal != NULL)
    return;
  if (self->options->is_text && !self->is_leaving && self->printing == NULL && self->end_ns != 0
      && self->tick != 0)
    print (self);
  else if (self->printing == NULL)
    leave (self);
}

/* --- where frames come from --- */

static void
stream_frame (const SondeFrame *frame, gpointer user_data)
{
  const SondeTopSource *self = user_data;

  take_frame (self->top, frame);
}

static SondeTopSource *
source_new (void)
{
  SondeTopSource *self = g_new0 (SondeTopSource, 1);

  self->capture_fd = -1;
  self->stream = sonde_capture_stream_new (stream_frame, self);
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

  stream_frame (g_bytes_get_data (bytes, NULL), user_data);
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
  has_failed (self->top, what, error);
}

static void
run_stopped (const char *reason, gpointer user_data)
{
  SondeTopSource *self = user_data;

  has_stopped (self->top, reason);
}

static void
run_ended (gpointer user_data)
{
  SondeTopSource *self = user_data;

  has_ended (self->top);
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
      has_failed (self->top, "", error);
    }
  has_stopped (self->top, NULL);
  has_ended (self->top);
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

static void
start_source (SondeTopSource *self, Top *top)
{
  static const SondeRecordRunHandler run_handler = { .noticed = run_noticed,
                                                     .failed = run_failed,
                                                     .started = run_started,
                                                     .stopped = run_stopped,
                                                     .ended = run_ended };

  self->top = top;
  if (self->run != NULL)
    sonde_record_run_start (self->run, &run_handler, self);
  else
    self->capture_source
        = g_unix_fd_add (self->capture_fd, G_IO_IN | G_IO_HUP | G_IO_ERR, capture_ready, self);
}

/* Ends a recording of our own, and its command; leaves a session of others as it is. */
static void
stop_source (SondeTopSource *self)
{
  if (self->run != NULL)
    sonde_record_run_end (self->run, SIGTERM);
  else if (self->capture_source != 0)
    {
      g_clear_handle_id (&self->capture_source, g_source_remove);
      stop_reading (self, NULL);
    }
}

/* --- the whole --- */

static gboolean
on_end (gpointer user_data)
{
  Top *self = user_data;

  if (self->is_leaving)
    g_main_loop_quit (self->loop);
  else
    leave (self);
  return G_SOURCE_CONTINUE;
}

static void
top_clear (Top *self)
{
  stop_printing (self);
  g_clear_pointer (&self->terminal, sonde_top_terminal_free);
  g_clear_handle_id (&self->tick, g_source_remove);
  g_clear_handle_id (&self->names_tick, g_source_remove);
  sonde_top_view_free (self->view);
  sonde_top_history_free (self->history);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  g_string_free (self->complaints, TRUE);
  g_free (self->end);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Top, top_clear)

int
sonde_top_run (SondeTopSource *source, const SondeTopOptions *options)
{
  const SondeTopHistoryOptions history_options
      = { .span_ns = (gint64) (options->window_s * 1e9), .max_bytes = SONDE_TOP_MAX_BYTES };
  g_auto (Top) self = { .source = source, .options = options, .complaints = g_string_new (NULL) };
  guint signals[]
      = { g_unix_signal_add (SIGINT, on_end, &self), g_unix_signal_add (SIGTERM, on_end, &self),
          g_unix_signal_add (SIGHUP, on_end, &self) };
  int status = 0;

  self.loop = g_main_loop_new (NULL, FALSE);
  self.history = sonde_top_history_new (&history_options, clock_ns (&self));
  self.view = sonde_top_view_new (options->mode);
  start_source (source, &self);
  g_main_loop_run (self.loop);

  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    g_source_remove (signals[i]);
  if (self.complaints->len > 0)
    sonde_cli_complain ("%s", self.complaints->str);
  if (source->has_failed)
    status = source->run != NULL ? sonde_record_run_exit_status (source->run) : 1;
  return status == 0 && self.has_failed ? 1 : status;
}
