/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top.h"

#include <glib-unix.h>
#include <signal.h>

#include "client/base/cli.h"
#include "client/base/pager.h"
#include "client/base/text.h"
#include "client/report/profile-text.h"
#include "client/service/service.h"
#include "client/top/top-layout.h"
#include "client/top/top-terminal.h"

#define NAMES_BUDGET_US 50000 /* until something else may be done */
#define NAMES_PAUSE_MS  20    /* for that */
#define FIRST_LOOK_MS   300   /* so long the first picture takes */
#define LEAVE_MS        1000  /* that a block which is being printed may still take */

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

static void show (Top *self);

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
        sonde_top_source_stop (self->source);
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
  sonde_top_layout_fill (page, self->view, sonde_top_history_n_seen (self->history), self->end);
  sonde_top_terminal_show (self->terminal, page);
}

static void
pressed (guint key, gpointer user_data)
{
  Top *self = user_data;

  if (self->terminal == NULL)
    return;
  switch (sonde_top_view_press (
      self->view, key, sonde_top_layout_rows (sonde_top_terminal_n_lines (self->terminal))))
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
  const SondeProfileStyle style = { .percent_limit = SONDE_PROFILE_PERCENT_LIMIT,
                                    .max_depth = SONDE_PROFILE_MAX_DEPTH,
                                    .utf8 = g_get_charset (NULL),
                                    .colours = sonde_pager_wants_colours () };
  GString *out = g_string_new (self->n_blocks > 0 ? "\n" : NULL);
  const SondeProfile *profile;

  sonde_top_view_take (self->view, sonde_top_history_snapshot (self->history, clock_ns (self),
                                                               FALSE, G_MAXINT64 / 2));
  profile = sonde_top_view_profile (self->view);
  sonde_top_layout_append_header (out, self->view->snapshot);
  if (sonde_profile_total (profile) == 0)
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
take_frame (const SondeFrame *frame, gpointer user_data)
{
  Top *self = user_data;

  if (self->tick == 0 && !self->is_leaving)
    begin (self);
  sonde_top_history_add_frame (self->history, frame, clock_ns (self));
}

static void
has_failed (const char *what, const GError *error, gpointer user_data)
{
  Top *self = user_data;

  self->has_failed = TRUE;
  if (self->terminal == NULL)
    sonde_service_error_complain (what, error, sonde_top_source_is_embedded (self->source));
  else
    {
      g_string_append_printf (self->complaints, "%s%s", what, error->message);
      g_free (self->end);
      self->end = g_strdup_printf ("%s%s", what, error->message);
    }
}

static void
has_stopped (const char *reason, gpointer user_data)
{
  Top *self = user_data;

  self->end_ns = g_get_monotonic_time () * 1000;
  if (self->end == NULL)
    self->end = sonde_text_escape (reason != NULL ? reason : "the session is over", -1);
  if (self->terminal == NULL)
    return;
  take_snapshot (self);
  show (self);
}

/* On a terminal it can be looked at until the user has enough. */
static void
has_ended (gpointer user_data)
{
  Top *self = user_data;

  self->has_ended = TRUE;
  if (self->terminal != NULL)
    return;
  if (self->options->is_text && !self->is_leaving && self->printing == NULL && self->end_ns != 0
      && self->tick != 0)
    print (self);
  else if (self->printing == NULL)
    leave (self);
}

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
  static const SondeTopSourceHandler handler = { take_frame, has_failed, has_stopped, has_ended };
  const SondeTopHistoryOptions history_options
      = { .span_ns = (gint64) (options->window_s * 1e9), .max_bytes = SONDE_TOP_MAX_BYTES };
  g_auto (Top) self = { .source = source, .options = options, .complaints = g_string_new (NULL) };
  guint signals[]
      = { g_unix_signal_add (SIGINT, on_end, &self), g_unix_signal_add (SIGTERM, on_end, &self),
          g_unix_signal_add (SIGHUP, on_end, &self) };
  int status;

  self.loop = g_main_loop_new (NULL, FALSE);
  self.history = sonde_top_history_new (&history_options, clock_ns (&self));
  self.view = sonde_top_view_new (options->mode);
  sonde_top_source_start (source, &handler, &self);
  g_main_loop_run (self.loop);

  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    g_source_remove (signals[i]);
  if (self.complaints->len > 0)
    sonde_cli_complain ("%s", self.complaints->str);
  status = sonde_top_source_exit_status (source);
  return status == 0 && self.has_failed ? 1 : status;
}
