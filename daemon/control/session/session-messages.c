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
on_hello (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageHello *message = data;

  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The worker speaks version %u of our protocol, not %d: sonded has to be "
                   "restarted after an upgrade",
                   message->version, SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  sonde_session_step (self, SONDE_STEP_GREET);
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
  sonde_session_step (self, SONDE_STEP_START);
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
  if (self->state != SONDE_STATE_PLACING || self->lookup != NULL)
    return;
  if (self->lookup_error != NULL)
    sonde_session_fail (self, self->lookup_error);
  else if (self->no_file != NULL)
    sonde_session_fail (self, self->no_file);
  else if (sonde_session_output_is_ready (self->output))
    {
      sonde_session_step (self, SONDE_STEP_OPEN);
      sonde_broker_open (self->broker, self->group);
    }
}

static gboolean
on_rings_mapped (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageRingsMapped *message = data;

  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      /* Of a processor that has come. */
      sonde_broker_take_rings_mapped (self->broker, message->status);
      return TRUE;
    }
  if (self->state == SONDE_STATE_DRAINING)
    return TRUE; /* the events they were for are closed */
  if (message->status != 0)
    return sonde_error_set_errno (error, message->status, "The worker cannot map its perf rings");
  sonde_session_step (self, SONDE_STEP_MAP);
  sonde_session_begin (self);
  return TRUE;
}

static gboolean
on_statistics (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageStatistics *message = data;

  memcpy (self->statistics, message->values, sizeof self->statistics);
  sonde_worker_measure (self->worker, &self->worker_cost);
  return TRUE;
}

/* One that is adopted says it again, or has said it to the sonded before. */
static gboolean
on_drained (SondeSession *self, gconstpointer data, GError **error)
{
  on_statistics (self, data, error);
  if (sonde_session_step (self, SONDE_STEP_DELIVER))
    sonde_session_answer_stops (self, NULL);
  return TRUE;
}

static void
stop_if_deserted (SondeSession *self)
{
  const char *reason = sonde_session_output_deserted (self->output);

  if (sonde_session_is_in (self, SONDE_STATES_LIVE) && reason != NULL)
    sonde_session_stop (self, reason);
}

static gboolean
on_sink_closed (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageSinkClosed *message = data;

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
static gboolean
on_sinks (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageSinks *message = data;

  sonde_session_output_reconcile (self->output, message->sink_ids, message->n_sinks);
  stop_if_deserted (self);
  return TRUE;
}

/* The sonded before us may have given it some. */
static gboolean
on_controls (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageControls *message = data;

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
on_finished (SondeSession *self, gconstpointer data, GError **error)
{
  on_statistics (self, data, error);
  sonde_session_step (self, SONDE_STEP_LEAVE);
  sonde_session_answer_stops (self, NULL);
  sonde_session_save (self);
  return sonde_worker_send_simple (self->worker, SONDE_MESSAGE_LEAVE, error);
}

static gboolean
on_failed (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageFailed *message = data;
  g_autofree char *text
      = g_utf8_make_valid (message->text, (gssize) strnlen (message->text, sizeof message->text));

  sonde_session_fail_reason (self, text[0] != '\0' ? text : "The worker failed");
  return TRUE;
}

static gboolean
on_process_request (SondeSession *self, gconstpointer message, GError **error)
{
  sonde_broker_ask_process (self->broker, message);
  return TRUE;
}

static gboolean
on_file_request (SondeSession *self, gconstpointer message, GError **error)
{
  sonde_broker_ask_file (self->broker, message);
  return TRUE;
}

static gboolean
on_counters_request (SondeSession *self, gconstpointer message, GError **error)
{
  sonde_broker_ask_counters (self->broker, message);
  return TRUE;
}

#define WHILE_HEARD (SONDE_STATES_LIVE | SONDE_STATES_DRAINING)

static const struct
{
  SondeMessageType type;
  guint32 taken_in; /* set of states */
  gboolean (*take) (SondeSession *self, gconstpointer message, GError **error);
  gboolean is_answered; /* which may fail, since a worker that delivers may leave at any moment:
                           what it said last is still to be read, and decides */
} rows[] = {
  { SONDE_MESSAGE_HELLO, SONDE_STATE_BIT (SONDE_STATE_STARTING), on_hello, FALSE },
  /* Its answer may cross our STOP. */
  { SONDE_MESSAGE_RINGS_MAPPED,
    SONDE_STATE_BIT (SONDE_STATE_MAPPING) | SONDE_STATES_LIVE
        | SONDE_STATE_BIT (SONDE_STATE_DRAINING),
    on_rings_mapped, FALSE },
  { SONDE_MESSAGE_PROCESS_REQUEST, WHILE_HEARD, on_process_request, FALSE },
  { SONDE_MESSAGE_FILE_REQUEST, WHILE_HEARD, on_file_request, FALSE },
  { SONDE_MESSAGE_COUNTERS_REQUEST, WHILE_HEARD, on_counters_request, FALSE },
  { SONDE_MESSAGE_STATISTICS, WHILE_HEARD, on_statistics, FALSE },
  { SONDE_MESSAGE_SINK_CLOSED, WHILE_HEARD, on_sink_closed, FALSE },
  { SONDE_MESSAGE_SINKS, WHILE_HEARD, on_sinks, FALSE },
  { SONDE_MESSAGE_CONTROLS, WHILE_HEARD, on_controls, FALSE },
  { SONDE_MESSAGE_DRAINED, SONDE_STATES_DRAINING, on_drained, FALSE },
  { SONDE_MESSAGE_FINISHED, SONDE_STATES_DRAINING, on_finished, TRUE },
  { SONDE_MESSAGE_FAILED, ~0u, on_failed, FALSE },
};

static gboolean
is_request (guint32 type)
{
  return type == SONDE_MESSAGE_PROCESS_REQUEST || type == SONDE_MESSAGE_FILE_REQUEST
         || type == SONDE_MESSAGE_COUNTERS_REQUEST;
}

static void
dispatch (SondeSession *self, const SondeMessageHeader *message, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].type == message->type && sonde_session_is_in (self, rows[i].taken_in))
      {
        gboolean is_taken = rows[i].take (self, message, error);

        if (!is_taken && rows[i].is_answered
            && sonde_session_is_in (self,
                                    SONDE_STATES_DEAF | SONDE_STATE_BIT (SONDE_STATE_DELIVERING)))
          g_clear_error (error);
        return;
      }
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The worker sent \"%s\" out of order",
               sonde_message_type_to_string (message->type));
}

static void
on_worker_message (SondeWorker *worker, const SondeMessageHeader *message, gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  if (sonde_session_is_in (self, SONDE_STATES_DEAF))
    return;
  if (self->is_foreign && is_request (message->type))
    return;
  dispatch (self, message, &error);
  if (error != NULL)
    sonde_session_fail (self, error);
}

static void
on_worker_gone (SondeWorker *worker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;

  if (!sonde_session_step (self, SONDE_STEP_FINISH) && !sonde_session_is_over (self))
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

  if (self->state != SONDE_STATE_OPENING)
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

  if (error == NULL && sonde_session_is_in (self, SONDE_STATES_LIVE))
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

  if (sonde_session_is_in (self, SONDE_STATES_DEAF)
      || (is_of_events && sonde_session_is_in (self, SONDE_STATES_DRAINING)))
    close_all (fds, n_fds);
  /* One that delivers may leave at any moment: what it said last is still to be read. */
  else if (!sonde_worker_send (self->worker, message, size_bytes, fds, n_fds, &error)
           && self->state != SONDE_STATE_DELIVERING)
    sonde_session_fail (self, error);
}

static void
on_broker_note (const char *text, gpointer user_data)
{
  SondeSession *self = user_data;

  /* A connection that breaks shows by itself. */
  if (!sonde_session_is_in (self, SONDE_STATES_DEAF))
    sonde_worker_note_send (self->worker, text, NULL);
}

static void
on_all_ended (gpointer user_data)
{
  SondeSession *self = user_data;

  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_stop (self, "targets-exited");
}

static void
on_broker_changed (gboolean has_other_rings, gpointer user_data)
{
  SondeSession *self = user_data;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
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

  if (!sonde_session_is_in (self, SONDE_STATES_DEAF))
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
