/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Owns and joins the stages of one session, as control tells it to. */
#include "daemon/capture/pipeline.h"

#include <errno.h>
#include <glib-unix.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/fd.h"
#include "daemon/capture/clock-watch.h"
#include "daemon/capture/control-link.h"
#include "daemon/capture/ring-set.h"
#include "daemon/capture/stages.h"
#include "daemon/capture/symbolizer.h"

#define FIRST_DRAIN_US    2000  /* a reader waits for the first sample */
#define BUSY_DRAIN_US     20000 /* a ring that is half full before wakes us */
#define IDLE_DRAIN_US     100000
#define TICK_MS           100                                 /* flush; counters */
#define TICKS_A_STATISTIC 3                                   /* about three a second */
#define TICKS_A_REPORT    10                                  /* one a second */
#define STOP_WAIT_NS      (300 * G_GINT64_CONSTANT (1000000)) /* for answers, in all */
#define URGENT_NS         (G_GINT64_CONSTANT (1000000000))    /* for readers, of less than 2 s */

typedef enum
{
  STATE_NEW = 1 << 0,    /* nothing is known */
  STATE_SET_UP = 1 << 1, /* the request is known */
  STATE_READY = 1 << 2,  /* rings are mapped */
  STATE_RUNNING = 1 << 3,
  STATE_PAUSED = 1 << 4,
  STATE_DRAINING = 1 << 5,  /* events are off, rings are being emptied */
  STATE_FINISHING = 1 << 6, /* symbols, and what sinks have not taken yet */
  STATE_DONE = 1 << 7,
} State;

struct SondePipeline
{
  State state;
  SondeControlLink *control;
  SondePipelineDone done;
  gpointer user_data;
  SondeStages *stages;
  SondeSymbolizer *symbolizer;
  SondeRingSet *rings;
  SondeClockWatch *clocks;

  GSource *drain; /* its ready time is the next drain */
  gint64 drain_interval_us;
  guint64 n_records; /* at the last drain */
  gboolean first_flushed;
  gint64 stop_wait_until_ns;
  gint64 urgent_ns; /* rings of programs are drained whether readers take it or not */
  guint tick_source;
  guint n_ticks;
  int status;
};

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static void begin_end (SondePipeline *self, int status);

static void
fail (SondePipeline *self, int error_number, const char *text)
{
  sonde_control_link_failed (self->control, error_number, text);
  begin_end (self, EXIT_FAILURE);
}

static gboolean
send_request (const SondeRequest *request, gpointer user_data)
{
  const SondePipeline *self = user_data;

  return sonde_control_link_request (self->control, request);
}

static gboolean
ask_counters (gint32 pid, gpointer user_data)
{
  const SondePipeline *self = user_data;

  return sonde_control_link_ask_counters (self->control, pid);
}

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  SondePipeline *self = user_data;

  sonde_control_link_sink_closed (self->control, sink_id, reason);
  if (self->state == STATE_FINISHING && self->symbolizer == NULL
      && sonde_recorder_n_sinks (sonde_stages_recorder (self->stages)) == 0)
    begin_end (self, EXIT_SUCCESS);
}

static void
control_closed (gpointer user_data)
{
  SondePipeline *self = user_data;

  sonde_control_link_controls (self->control, self->stages);
}

/* --- the end --- */

static void
on_parted (gpointer user_data)
{
  SondePipeline *self = user_data;

  self->done (self->status, self->user_data);
}

/* Called from within stages, so all that is left is done from the main loop. */
static void
begin_end (SondePipeline *self, int status)
{
  if (self->state == STATE_DONE)
    return;

  if (self->state == STATE_FINISHING && status == EXIT_SUCCESS)
    sonde_control_link_finished (self->control, self->stages);
  self->state = STATE_DONE;
  self->status = status;
  g_source_set_ready_time (self->drain, -1);
  sonde_control_link_part (self->control);
}

static void
finish_sinks (SondePipeline *self, GBytes *symbols)
{
  SondeRecorder *recorder = sonde_stages_recorder (self->stages);

  g_clear_pointer (&self->symbolizer, sonde_symbolizer_free);
  sonde_recorder_finish (recorder, symbols);
  if (sonde_recorder_n_sinks (recorder) == 0)
    begin_end (self, EXIT_SUCCESS);
}

static void
on_symbols (GBytes *symbols, gpointer user_data)
{
  finish_sinks (user_data, symbols);
}

static void
end_drain (SondePipeline *self)
{
  SondeAddressSet *addresses = sonde_stages_addresses (self->stages);

  sonde_ring_set_unwatch (self->rings);
  sonde_stages_end (self->stages);
  sonde_recorder_report (sonde_stages_recorder (self->stages));
  self->state = STATE_FINISHING;
  g_source_set_ready_time (self->drain, -1);
  sonde_control_link_statistics (self->control, SONDE_MESSAGE_DRAINED, self->stages);

  if (addresses != NULL)
    self->symbolizer = sonde_symbolizer_start (addresses, on_symbols, self);
  else
    finish_sinks (self, NULL);
}

static void
begin_drain (SondePipeline *self)
{
  sonde_event_keeper_enable (sonde_stages_events (self->stages), FALSE);
  if (self->state == STATE_RUNNING)
    sonde_stages_count (self->stages, TRUE);
  self->state = STATE_DRAINING;
  self->stop_wait_until_ns = now_ns () + STOP_WAIT_NS;
  self->urgent_ns = now_ns () + URGENT_NS;
  g_source_set_ready_time (self->drain, 0);
}

/* --- turns --- */

static gint64
next_drain_us (SondePipeline *self, SondeRingMergeState result)
{
  guint64 n_records = sonde_stages_n_records (self->stages);
  gboolean idle = n_records == self->n_records && result == SONDE_RING_MERGE_EMPTY;

  self->n_records = n_records;
  if (result == SONDE_RING_MERGE_BUDGET)
    return 0;
  if (idle)
    self->drain_interval_us = MIN (self->drain_interval_us * 2, IDLE_DRAIN_US);
  else
    self->drain_interval_us = n_records == 0 ? FIRST_DRAIN_US : BUSY_DRAIN_US;

  return g_get_monotonic_time () + self->drain_interval_us;
}

static gboolean
on_drain (gpointer user_data)
{
  SondePipeline *self = user_data;
  gboolean draining = self->state == STATE_DRAINING;
  gint64 wait_until_ns = draining ? self->stop_wait_until_ns : G_MAXINT64;
  SondeRingMergeState result = sonde_stages_drain (self->stages, draining, wait_until_ns);

  if (draining
      && !sonde_inferiors_drain (sonde_stages_inferiors (self->stages),
                                 now_ns () >= self->urgent_ns))
    result = SONDE_RING_MERGE_BUDGET;
  if (draining && result == SONDE_RING_MERGE_EMPTY)
    {
      end_drain (self);
      return G_SOURCE_CONTINUE;
    }
  g_source_set_ready_time (self->drain, next_drain_us (self, result));
  if (!self->first_flushed && self->n_records > 0)
    {
      self->first_flushed = TRUE;
      sonde_recorder_flush (sonde_stages_recorder (self->stages));
    }

  return G_SOURCE_CONTINUE;
}

static void
ring_filled (gpointer user_data)
{
  SondePipeline *self = user_data;

  if (self->state & (STATE_RUNNING | STATE_PAUSED))
    g_source_set_ready_time (self->drain, 0);
}

static void
ring_mapped (SondePerfRing *ring, SondeEventKind kind, gpointer user_data)
{
  SondePipeline *self = user_data;

  sonde_stages_add_ring (self->stages, ring, kind);
}

static gboolean
on_tick (gpointer user_data)
{
  SondePipeline *self = user_data;
  SondeRecorder *recorder = sonde_stages_recorder (self->stages);

  if ((self->state & (STATE_RUNNING | STATE_PAUSED)) == 0)
    return G_SOURCE_CONTINUE;

  self->n_ticks++;
  sonde_inferiors_settle (sonde_stages_inferiors (self->stages));
  sonde_recorder_settle_maps (recorder);
  sonde_stages_count (self->stages, self->state == STATE_RUNNING);
  if (self->n_ticks % TICKS_A_STATISTIC == 0)
    sonde_stages_read_lost (self->stages, FALSE);
  if (self->n_ticks % TICKS_A_REPORT == 0)
    {
      sonde_clock_watch_look (self->clocks);
      sonde_stages_expire (self->stages);
      sonde_inferiors_count (sonde_stages_inferiors (self->stages));
      sonde_recorder_report (recorder);
    }
  else
    {
      sonde_recorder_flush (recorder);
    }
  if (self->n_ticks % TICKS_A_STATISTIC == 0)
    sonde_control_link_statistics (self->control, SONDE_MESSAGE_STATISTICS, self->stages);

  return G_SOURCE_CONTINUE;
}

static gboolean
dispatch_drain (GSource *source, GSourceFunc callback, gpointer user_data)
{
  return callback (user_data);
}

static GSourceFuncs drain_functions = { .dispatch = dispatch_drain };

/* --- from control: one function a message --- */

typedef void (*MessageHandler) (SondePipeline *self,
                                const SondeMessageHeader *message,
                                int *fds,
                                unsigned n_fds);

static void
handle_setup (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  static const SondeStagesHandler handler
      = { send_request, ask_counters, sink_closed, control_closed };
  static const SondeRingSetHandler ring_handler = { ring_mapped, ring_filled };
  const SondeMessageSetup *setup = (const void *) message;
  const char *why;

  if (!sonde_stages_supports (setup, &why))
    {
      fail (self, EPROTO, why);
      return;
    }
  self->stages = sonde_stages_new (setup, &handler, self);
  self->rings = sonde_ring_set_new (sonde_ring_set_wanted (setup), &ring_handler, self);
  self->tick_source = g_timeout_add (TICK_MS, on_tick, self);
  self->state = STATE_SET_UP;
}

static void
handle_document (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_stages_add_document (self->stages, (const void *) message, fds[0]);
}

static void
handle_counters (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_stages_add_counters (self->stages, (const void *) message,
                             n_fds > 0 ? sonde_steal_fd (&fds[0]) : -1);
}

/* First those of all processors, later those of one that has come. */
static void
handle_rings (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  SondeMessageRingsMapped answer = { 0 };

  if (!sonde_ring_set_take (self->rings, (const void *) message, fds, &answer))
    return;
  if (answer.status == 0 && self->state == STATE_SET_UP)
    {
      sonde_stages_describe (self->stages, answer.sample_ring_bytes, answer.sideband_ring_bytes);
      self->state = STATE_READY;
    }
  sonde_control_link_rings_mapped (self->control, &answer);
}

static void
handle_events (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  const SondeMessageEvents *events = (const void *) message;

  for (unsigned i = 0; i < n_fds; i++)
    if (!sonde_stages_add_event (self->stages, &events->events[i], sonde_steal_fd (&fds[i])))
      {
        fail (self, EMFILE, "too many perf events");
        return;
      }
}

static void
handle_sink (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  const SondeMessageSink *sink = (const void *) message;
  int status = sonde_recorder_add_sink (sonde_stages_recorder (self->stages),
                                        sonde_steal_fd (&fds[0]), sink);

  if (status != 0)
    sink_closed (sink->sink_id, status, self);
}

static void
on_clock (const char *text, gpointer user_data)
{
  SondePipeline *self = user_data;

  if (self->state & (STATE_RUNNING | STATE_PAUSED))
    sonde_recorder_warn (sonde_stages_recorder (self->stages), text);
}

static void
handle_start (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_stages_start (self->stages);
  self->clocks = sonde_clock_watch_new (on_clock, self);
  sonde_stages_count (self->stages, TRUE);
  self->state = STATE_RUNNING;
  self->drain_interval_us = FIRST_DRAIN_US;
  g_source_set_ready_time (self->drain, g_get_monotonic_time () + FIRST_DRAIN_US);
}

/* The rings' records may have waited for this answer. */
static void
drain_soon (SondePipeline *self)
{
  if (self->state & (STATE_RUNNING | STATE_PAUSED | STATE_DRAINING))
    g_source_set_ready_time (self->drain, 0);
}

static void
handle_process (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  const SondeMessageProcess *process = (const void *) message;
  unsigned next = 0;
  int maps_fd = process->fds & SONDE_PROCESS_FD_MAPS && next < n_fds ? fds[next++] : -1;
  int cmdline_fd = process->fds & SONDE_PROCESS_FD_CMDLINE && next < n_fds ? fds[next++] : -1;

  sonde_tracker_answer_process (sonde_stages_tracker (self->stages), process, maps_fd, cmdline_fd);
  drain_soon (self);
}

static void
handle_file (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  const SondeMessageFile *file = (const void *) message;

  sonde_tracker_answer_file (sonde_stages_tracker (self->stages), file,
                             n_fds > 0 ? sonde_steal_fd (&fds[0]) : -1);
  drain_soon (self);
}

static void
handle_note (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_recorder_warn (sonde_stages_recorder (self->stages),
                       ((const SondeMessageNote *) message)->text);
}

static void
handle_control (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_inferiors_add_control (sonde_stages_inferiors (self->stages), sonde_steal_fd (&fds[0]));
}

static void
handle_pause (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_event_keeper_enable (sonde_stages_events (self->stages), FALSE);
  sonde_inferiors_pause (sonde_stages_inferiors (self->stages), TRUE);
  self->state = STATE_PAUSED;
}

static void
handle_resume (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_event_keeper_enable (sonde_stages_events (self->stages), TRUE);
  sonde_inferiors_pause (sonde_stages_inferiors (self->stages), FALSE);
  self->state = STATE_RUNNING;
}

static void
handle_stop (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  /* Before START nothing was recorded, but the stages end in the same way. */
  if (self->state & (STATE_SET_UP | STATE_READY))
    sonde_stages_start (self->stages);
  begin_drain (self);
}

/* Another sonded than the one that has heard what was said before. */
static void
handle_report (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  if (self->stages != NULL)
    {
      sonde_control_link_sinks (self->control, self->stages);
      sonde_control_link_controls (self->control, self->stages);
      sonde_control_link_statistics (self->control, SONDE_MESSAGE_STATISTICS, self->stages);
      sonde_stages_ask_again (self->stages);
    }
  if (self->state == STATE_FINISHING)
    sonde_control_link_statistics (self->control, SONDE_MESSAGE_DRAINED, self->stages);
  sonde_control_link_repeat (self->control);
}

static void
handle_leave (SondePipeline *self, const SondeMessageHeader *message, int *fds, unsigned n_fds)
{
  sonde_control_link_leave (self->control);
}

#define FROM_SETUP                                                                                 \
  (STATE_SET_UP | STATE_READY | STATE_RUNNING | STATE_PAUSED | STATE_DRAINING | STATE_FINISHING)
#define WHILE_ON (STATE_READY | STATE_RUNNING | STATE_PAUSED)

/* Messages may cross: one that comes too late is ignored, one that comes too early is an error. */
static const struct
{
  MessageHandler handle;
  unsigned takes;   /* states in which it is handled */
  unsigned ignores; /* states in which it is nothing */
} messages[] = {
  [SONDE_MESSAGE_SETUP] = { handle_setup, STATE_NEW, 0 },
  [SONDE_MESSAGE_DOCUMENT]
  = { handle_document, STATE_SET_UP | WHILE_ON | STATE_DRAINING, STATE_FINISHING },
  [SONDE_MESSAGE_RINGS]
  = { handle_rings, STATE_SET_UP | WHILE_ON, STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_EVENTS] = { handle_events, WHILE_ON, STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_SINK] = { handle_sink, FROM_SETUP, 0 },
  [SONDE_MESSAGE_START] = { handle_start, STATE_SET_UP | STATE_READY, 0 },
  [SONDE_MESSAGE_PROCESS] = { handle_process, WHILE_ON | STATE_DRAINING, STATE_FINISHING },
  [SONDE_MESSAGE_FILE] = { handle_file, WHILE_ON | STATE_DRAINING, STATE_FINISHING },
  [SONDE_MESSAGE_STOP] = { handle_stop, STATE_SET_UP | WHILE_ON, STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_PAUSE]
  = { handle_pause, STATE_RUNNING, STATE_PAUSED | STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_RESUME]
  = { handle_resume, STATE_PAUSED, STATE_RUNNING | STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_REPORT] = { handle_report, FROM_SETUP | STATE_DONE, 0 },
  [SONDE_MESSAGE_NOTE] = { handle_note, WHILE_ON | STATE_DRAINING, STATE_FINISHING },
  [SONDE_MESSAGE_CONTROL]
  = { handle_control, STATE_RUNNING | STATE_PAUSED, STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_COUNTERS]
  = { handle_counters, STATE_SET_UP | WHILE_ON, STATE_DRAINING | STATE_FINISHING },
  [SONDE_MESSAGE_LEAVE] = { handle_leave, STATE_DONE, 0 },
};

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  SondePipeline *self = user_data;
  g_autofree char *text = NULL;
  guint32 type = message->type;

  if (type < G_N_ELEMENTS (messages) && (messages[type].takes & self->state))
    {
      messages[type].handle (self, message, fds, n_fds);
      return;
    }
  if (self->state == STATE_DONE
      || (type < G_N_ELEMENTS (messages) && (messages[type].ignores & self->state)))
    return;

  text
      = g_strdup_printf ("message %s came too early or twice", sonde_message_type_to_string (type));
  fail (self, EPROTO, text);
}

static void
on_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  SondePipeline *self = user_data;

  sonde_control_link_close (self->control);
  if (self->state & (STATE_RUNNING | STATE_PAUSED))
    begin_drain (self);
  /* Control does not want it any more, or never did: it was the spare one. */
  else if (self->state & (STATE_NEW | STATE_SET_UP | STATE_READY))
    begin_end (self, error == NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

SondePipeline *
sonde_pipeline_new (int control_fd, SondePipelineDone done, gpointer user_data)
{
  static const SondeChannelHandler handler = { on_message, on_closed };
  SondePipeline *self = g_new0 (SondePipeline, 1);

  self->state = STATE_NEW;
  self->done = done;
  self->user_data = user_data;
  self->drain = g_source_new (&drain_functions, sizeof (GSource));
  g_source_set_static_name (self->drain, "drain");
  g_source_set_callback (self->drain, on_drain, self, NULL);
  g_source_attach (self->drain, g_main_context_get_thread_default ());
  self->control = sonde_control_link_new (control_fd, &handler, on_parted, self);
  sonde_control_link_hello (self->control);

  return self;
}

void
sonde_pipeline_free (SondePipeline *self)
{
  if (self == NULL)
    return;

  if (self->tick_source != 0)
    g_source_remove (self->tick_source);
  sonde_ring_set_free (self->rings);
  sonde_clock_watch_free (self->clocks);
  g_source_destroy (self->drain);
  g_source_unref (self->drain);
  sonde_symbolizer_free (self->symbolizer);
  sonde_stages_free (self->stages);
  sonde_control_link_free (self->control);
  g_free (self);
}
