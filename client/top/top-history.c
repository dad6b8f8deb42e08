/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a live view shows: the last seconds of a capture, in memory that has a bound. */
#include "client/top/top-history.h"

#include <errno.h>
#include <signal.h>

#include "client/report/report-text.h"

/* How much what is alive may grow before it is copied again: else a machine with more processes
 * than the bound has room for would be copied all the time. */
#define MIN_GROWTH 2

struct SondeTopHistory
{
  SondeTopHistoryOptions options;
  SondeTopWindow *window;
  SondeTopWindow *next; /* NULL: there is no need for one */
  gsize first_bytes;    /* what @window was made with */
  gsize next_bytes;     /* what @next was made with */
  guint64 n_seen;
};

void
sonde_top_snapshot_free (SondeTopSnapshot *self)
{
  if (self == NULL)
    return;
  sonde_profile_free (self->profile);
  sonde_profile_free (self->threads);
  sonde_top_window_unref (self->window);
  g_free (self->subject);
  g_free (self->event);
  g_free (self->losses);
  g_free (self);
}

/* One that may not be told of is there. */
static gboolean
is_process_alive (gint32 pid)
{
  return pid <= 0 || kill (pid, 0) == 0 || errno != ESRCH;
}

SondeTopHistory *
sonde_top_history_new (const SondeTopHistoryOptions *options, gint64 now_ns)
{
  SondeTopHistory *self = g_new0 (SondeTopHistory, 1);

  self->options = *options;
  if (self->options.is_alive == NULL)
    self->options.is_alive = is_process_alive;
  self->window = sonde_top_window_new (NULL, NULL, now_ns);
  return self;
}

void
sonde_top_history_free (SondeTopHistory *self)
{
  if (self == NULL)
    return;
  sonde_top_window_unref (self->window);
  sonde_top_window_unref (self->next);
  g_free (self);
}

static void
take_over (SondeTopHistory *self)
{
  sonde_top_window_unref (self->window);
  self->window = g_steal_pointer (&self->next);
  self->first_bytes = self->next_bytes;
}

void
sonde_top_history_add_frame (SondeTopHistory *self, const SondeFrame *frame, gint64 now_ns)
{
  gsize size_bytes;
  gsize soft_bytes;
  gsize hard_bytes;

  self->n_seen += frame->type == SONDE_FRAME_SAMPLE;
  sonde_top_window_add_frame (self->window, frame, now_ns);
  if (self->next != NULL)
    sonde_top_window_add_frame (self->next, frame, now_ns);
  /* The next window begins at half of the memory, so that both together stay within it. */
  size_bytes = sonde_top_window_size_bytes (self->window);
  soft_bytes = MAX (self->options.max_bytes / 2, MIN_GROWTH * self->first_bytes);
  hard_bytes = MAX (self->options.max_bytes * 3 / 4, 2 * MIN_GROWTH * self->first_bytes);
  if (self->next == NULL && size_bytes > soft_bytes)
    {
      self->next = sonde_top_window_new (self->window, self->options.is_alive, now_ns);
      self->next_bytes = sonde_top_window_size_bytes (self->next);
    }
  else if (self->next != NULL
           && (size_bytes > hard_bytes
               || now_ns - sonde_top_window_start_ns (self->next) >= self->options.span_ns))
    take_over (self);
}

void
sonde_top_history_reset (SondeTopHistory *self, gint64 now_ns)
{
  if (self->next != NULL)
    take_over (self);
  sonde_top_window_reset (self->window, now_ns);
}

guint64
sonde_top_history_n_seen (const SondeTopHistory *self)
{
  return self->n_seen;
}

gsize
sonde_top_history_size_bytes (const SondeTopHistory *self)
{
  return sonde_top_window_size_bytes (self->window)
         + (self->next != NULL ? sonde_top_window_size_bytes (self->next) : 0);
}

/* Only events that come with time say how busy a CPU was. */
static guint64
read_frequency (const SondeCaptureModel *model)
{
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (model);
  g_autofree char *event
      = settings != NULL ? g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "event", NULL)
                         : NULL;

  if (g_strcmp0 (event, "cpu-clock") != 0 && g_strcmp0 (event, "cycles") != 0)
    return 0;
  return g_key_file_get_uint64 (settings, SONDE_CAPTURE_SETTINGS, "frequency", NULL);
}

SondeTopSnapshot *
sonde_top_history_snapshot (SondeTopHistory *self, gint64 now_ns, gboolean is_all, gint64 budget_us)
{
  const SondeCaptureModel *model = sonde_top_window_model (self->window);
  SondeTopSelection selection
      = { .from_ns = now_ns - self->options.span_ns, .is_all = is_all, .budget_us = budget_us };
  SondeTopSnapshot *snapshot = g_new0 (SondeTopSnapshot, 1);
  g_autofree char *cut = NULL;
  guint64 produced;
  static const SondeModelProcess none = { .cmdline = (char *) "nothing yet" };

  sonde_top_window_select (self->window, &selection);
  snapshot->window = sonde_top_window_ref (self->window);
  snapshot->profile = selection.profile;
  snapshot->threads = selection.threads;
  snapshot->covered_ns = MAX (now_ns - selection.covered_from_ns, 0);
  snapshot->is_all = is_all;
  snapshot->is_unnamed_yet = selection.is_unnamed_yet;
  snapshot->n_seen = self->n_seen;
  snapshot->frequency_hz = read_frequency (model);
  snapshot->subject = sonde_report_describe_subject (
      model, sonde_profile_n_processes (snapshot->profile) > 0
                 ? &sonde_profile_process (snapshot->profile, 0)->process
                 : &none);
  snapshot->event = sonde_report_describe_event (model);
  snapshot->losses = sonde_capture_model_ledger (model, SONDE_LEDGER_PRODUCED, &produced)
                         ? sonde_report_describe_losses (model)
                         : g_strdup ("not known yet");
  cut = sonde_capture_model_describe_cut (model);
  if (cut != NULL)
    {
      g_autofree char *lost = snapshot->losses;

      snapshot->losses = g_strdup_printf ("%s; truncated: %s", lost, cut);
    }
  return snapshot;
}
