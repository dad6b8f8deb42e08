/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a session does with the messages of its worker. */
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"
#include "daemon/control/session/session-private.h"
#include "daemon/control/worker/worker-note.h"

static gboolean
on_hello (SondeSession *self, const SondeMessageHello *message, GError **error)
{
  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The worker speaks version %u of our protocol, not %d", message->version,
                   SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  sonde_session_enter_phase (self, SONDE_PHASE_RINGS, SONDE_LIMIT_START_MS);
  sonde_broker_set_up (self->broker, self->id);
  return TRUE;
}

/* What every session begins with. @reader: (out): -1 if that is a file */
static gboolean
open_output (SondeSession *self, int *reader, GError **error)
{
  SondeStreamOptions stream;

  if (sonde_session_is_lasting (self))
    return sonde_session_output_open_file (self->output, self->worker, error);
  sonde_stream_options_init (&stream);
  stream.buffer_size_bytes = self->options->buffer_size_bytes;
  *reader = sonde_session_output_open_stream (self->output, sonde_session_owner (self), &stream,
                                              self->worker, error);
  return *reader >= 0;
}

static gboolean
go_live (SondeSession *self, GError **error)
{
  sonde_autofd int reader = -1;

  if (!open_output (self, &reader, error)
      || !sonde_worker_send_simple (self->worker, SONDE_MESSAGE_START, error))
    return FALSE;
  self->live_since_us = g_get_monotonic_time ();
  sonde_session_enter_phase (self, SONDE_PHASE_LIVE, SONDE_LIMIT_SILENCE_MS);
  sonde_session_step (self, SONDE_STEP_STARTED);
  sonde_broker_announce (self->broker);
  sonde_session_start_duration (self);
  sonde_session_save_worker (self);
  sonde_session_save (self);
  sonde_audit ("session-started", self->id, self->owner_uid,
               sonde_scope_name (self->options->asked.scope));
  sonde_session_answer_start (self, sonde_steal_fd (&reader), NULL);
  return TRUE;
}

void
sonde_session_begin (SondeSession *self)
{
  if (self->phase != SONDE_PHASE_SCOPE || self->lookup != NULL)
    return;
  if (self->lookup_error != NULL)
    sonde_session_fail (self, self->lookup_error);
  else if (self->no_file != NULL)
    sonde_session_fail (self, self->no_file);
  else if (sonde_session_output_is_ready (self->output))
    {
      sonde_session_enter_phase (self, SONDE_PHASE_OPEN, 0);
      sonde_broker_open (self->broker, self->group);
    }
}

static gboolean
on_rings_mapped (SondeSession *self, const SondeMessageRingsMapped *message, GError **error)
{
  if (self->phase == SONDE_PHASE_LIVE)
    {
      /* Of a processor that has come. */
      sonde_broker_take_rings_mapped (self->broker, message->status);
      return TRUE;
    }
  if (self->phase == SONDE_PHASE_DRAIN)
    return TRUE; /* the events they were for are closed */
  if (message->status != 0)
    return sonde_error_set_errno (error, message->status, "The worker cannot map its perf rings");
  sonde_session_enter_phase (self, SONDE_PHASE_SCOPE, SONDE_LIMIT_START_MS);
  sonde_session_begin (self);
  return TRUE;
}

static void
take_statistics (SondeSession *self, const SondeMessageStatistics *message)
{
  memcpy (self->statistics, message->values, sizeof self->statistics);
  sonde_worker_measure (self->worker, &self->worker_cost);
}

static void
on_drained (SondeSession *self, const SondeMessageStatistics *message)
{
  gboolean is_orphan = g_str_equal (self->reason, "owner-left");

  take_statistics (self, message);
  if (self->phase == SONDE_PHASE_DELIVERY)
    return;
  sonde_session_enter_phase (self, SONDE_PHASE_DELIVERY,
                             is_orphan ? SONDE_LIMIT_DELIVERY_ORPHAN_MS : SONDE_LIMIT_DELIVERY_MS);
  sonde_session_answer_stops (self, NULL);
}

static void
stop_if_deserted (SondeSession *self)
{
  const char *reason = sonde_session_output_deserted (self->output);

  if (self->phase == SONDE_PHASE_LIVE && reason != NULL)
    sonde_session_stop (self, reason);
}

static gboolean
on_sink_closed (SondeSession *self, const SondeMessageSinkClosed *message, GError **error)
{
  /* The sonded before us may have opened it and told nobody. */
  if (!sonde_session_output_closed (self->output, message->sink_id, error))
    {
      if (self->is_adopted)
        g_clear_error (error);
      return self->is_adopted;
    }
  stop_if_deserted (self);
  return TRUE;
}

/* Comes after all that the sonded before us has not read. */
static void
on_sinks (SondeSession *self, const SondeMessageSinks *message)
{
  sonde_session_output_reconcile (self->output, message->sink_ids, message->n_sinks);
  stop_if_deserted (self);
}

/* The sonded before us may have given it some. */
static gboolean
on_controls (SondeSession *self, const SondeMessageControls *message, GError **error)
{
  if (message->n_taken > self->n_controls && !self->is_adopted)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker took control sockets that it was not given");
      return FALSE;
    }
  self->n_controls = MAX (self->n_controls, message->n_taken);
  self->n_closed_controls = message->n_taken - message->n_open;
  return TRUE;
}

/* Written down before the worker may go: nobody else can tell then how it ended. */
static gboolean
on_finished (SondeSession *self, const SondeMessageStatistics *message, GError **error)
{
  take_statistics (self, message);
  sonde_session_enter_phase (self, SONDE_PHASE_OVER, SONDE_LIMIT_WORKER_EXIT_MS);
  sonde_session_answer_stops (self, NULL);
  sonde_session_save (self);
  return sonde_worker_send_simple (self->worker, SONDE_MESSAGE_LEAVE, error);
}

static void
on_failed (SondeSession *self, const SondeMessageFailed *message)
{
  g_autofree char *text
      = g_utf8_make_valid (message->text, (gssize) strnlen (message->text, sizeof message->text));

  sonde_session_fail_reason (self, text[0] != '\0' ? text : "The worker failed");
}

/* A worker that delivers may leave at any moment: what it said last is still to be read, and
 * decides. */
static gboolean
forgive_if_leaving (const SondeSession *self, gboolean is_sent, GError **error)
{
  if (is_sent || (self->phase != SONDE_PHASE_DELIVERY && self->phase != SONDE_PHASE_OVER))
    return is_sent;
  g_clear_error (error);
  return TRUE;
}

static gboolean
dispatch (SondeSession *self, const SondeMessageHeader *header, GError **error)
{
  gconstpointer message = header;

  switch (header->type)
    {
    case SONDE_MESSAGE_HELLO:
      return on_hello (self, message, error);
    case SONDE_MESSAGE_RINGS_MAPPED:
      return on_rings_mapped (self, message, error);
    case SONDE_MESSAGE_PROCESS_REQUEST:
      sonde_broker_ask_process (self->broker, message);
      return TRUE;
    case SONDE_MESSAGE_FILE_REQUEST:
      sonde_broker_ask_file (self->broker, message);
      return TRUE;
    case SONDE_MESSAGE_COUNTERS_REQUEST:
      sonde_broker_ask_counters (self->broker, message);
      return TRUE;
    case SONDE_MESSAGE_STATISTICS:
      take_statistics (self, message);
      return TRUE;
    case SONDE_MESSAGE_DRAINED:
      on_drained (self, message);
      return TRUE;
    case SONDE_MESSAGE_SINK_CLOSED:
      return on_sink_closed (self, message, error);
    case SONDE_MESSAGE_SINKS:
      on_sinks (self, message);
      return TRUE;
    case SONDE_MESSAGE_CONTROLS:
      return on_controls (self, message, error);
    case SONDE_MESSAGE_FINISHED:
      return forgive_if_leaving (self, on_finished (self, message, error), error);
    case SONDE_MESSAGE_FAILED:
      on_failed (self, message);
      return TRUE;
    default:
      g_assert_not_reached (); /* is_expected() lets no other type through */
    }
}

static void
on_worker_message (SondeWorker *worker, const SondeMessageHeader *message, gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  if (self->phase == SONDE_PHASE_OVER)
    return;
  if (!sonde_session_phase_expects (self->phase, message->type))
    g_set_error (&error, SONDE_ERROR, SONDE_ERROR_FAILED, "The worker sent \"%s\" out of order",
                 sonde_message_type_to_string (message->type));
  else
    dispatch (self, message, &error);
  if (error != NULL)
    sonde_session_fail (self, error);
}

static void
on_worker_gone (SondeWorker *worker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;

  /* Over, but not failed: it has said that it is finished. */
  if (self->phase == SONDE_PHASE_OVER)
    sonde_session_step (self, SONDE_STEP_FINISH);
  else
    {
      sonde_audit ("worker-died", self->id, self->owner_uid, how);
      sonde_session_fail_reason (self, how);
    }
  sonde_session_end (self);
}

const SondeWorkerHandler sonde_session_worker_handler
    = { .message = on_worker_message, .gone = on_worker_gone };

/* --- results of the broker --- */

static void
on_proved (const GError *error, gpointer user_data)
{
  sonde_session_take_proof (user_data, error);
}

static void
on_opened (const GError *refusal, gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  if (self->phase != SONDE_PHASE_OPEN)
    return;
  if (refusal != NULL)
    sonde_session_fail (self, refusal);
  else if (!go_live (self, &error))
    sonde_session_fail (self, error);
}

static void
on_added (const GError *error, gpointer user_data)
{
  SondeSession *self = user_data;

  if (error == NULL && self->phase == SONDE_PHASE_LIVE)
    sonde_session_save (self);
  sonde_session_answer_addition (self, error);
}

static void
close_all (const int *fds, unsigned n_fds)
{
  for (unsigned i = 0; i < n_fds; i++)
    close (fds[i]);
}

/* The worker may have gone on since: it hears of no more events once it drains, and of nothing when
 * it is over. */
static void
on_broker_message (
    gpointer message, gsize size_bytes, const int *fds, unsigned n_fds, gpointer user_data)
{
  SondeSession *self = user_data;
  guint32 type = ((const SondeMessageHeader *) message)->type;
  gboolean is_of_events = type == SONDE_MESSAGE_EVENTS || type == SONDE_MESSAGE_RINGS;
  g_autoptr (GError) error = NULL;

  if (self->phase == SONDE_PHASE_OVER || (is_of_events && self->phase > SONDE_PHASE_LIVE))
    close_all (fds, n_fds);
  else if (!forgive_if_leaving (
               self, sonde_worker_send (self->worker, message, size_bytes, fds, n_fds, &error),
               &error))
    sonde_session_fail (self, error);
}

static void
on_broker_note (const char *text, gpointer user_data)
{
  SondeSession *self = user_data;

  /* A connection that breaks shows by itself. */
  if (self->phase != SONDE_PHASE_OVER)
    sonde_worker_note_send (self->worker, text, NULL);
}

static void
on_all_ended (gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->phase == SONDE_PHASE_LIVE)
    sonde_session_stop (self, "targets-exited");
}

static void
on_broker_changed (gboolean has_other_rings, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->phase != SONDE_PHASE_LIVE)
    return;
  if (has_other_rings)
    sonde_session_save_worker (self);
  else
    sonde_session_save_pulses (self);
  sonde_session_save (self);
}

static void
on_broker_failed (const GError *error, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->phase != SONDE_PHASE_OVER)
    sonde_session_fail (self, error);
}

const SondeBrokerResults sonde_session_broker_results = {
  .proved = on_proved,
  .opened = on_opened,
  .added = on_added,
  .message = on_broker_message,
  .note = on_broker_note,
  .all_ended = on_all_ended,
  .changed = on_broker_changed,
  .failed = on_broker_failed,
};
