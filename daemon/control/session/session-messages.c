/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a session does with the messages of its worker. */
#include <string.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"
#include "daemon/control/session/session-private.h"
#include "daemon/control/session/worker-setup.h"

static gboolean
on_hello (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageHello *message = data;

  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The worker speaks version %u of our protocol, not %d", message->version,
                   SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  if (!sonde_worker_setup_send (self->worker, self->id, self->owner_uid, self->options,
                                sonde_session_scope_plan (self->scope), error))
    return FALSE;
  sonde_session_step (self, SONDE_STEP_GREET);
  return sonde_session_scope_send_rings (self->scope, self->worker, error);
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
      || !sonde_session_scope_open (self->scope, self->worker, error)
      || !sonde_worker_send_simple (self->worker, SONDE_MESSAGE_START, error))
    return FALSE;
  self->live_since_us = g_get_monotonic_time ();
  sonde_session_step (self, SONDE_STEP_START);
  if (!sonde_session_scope_announce (self->scope, self->worker, error))
    return FALSE;
  sonde_session_start_duration (self);
  sonde_session_save_worker (self);
  sonde_session_save (self);
  sonde_audit ("session-started", self->id, self->owner_uid,
               sonde_scope_name (self->options->scope));
  sonde_session_answer_start (self, sonde_steal_fd (&reader), NULL);
  return TRUE;
}

void
sonde_session_begin (SondeSession *self)
{
  g_autoptr (GError) error = NULL;

  if (self->state != SONDE_STATE_PLACING || !self->is_scope_ready)
    return;
  if (self->no_file != NULL)
    sonde_session_fail (self, self->no_file);
  else if (sonde_session_output_is_ready (self->output) && !go_live (self, &error))
    sonde_session_fail (self, error);
}

static void
on_scope_ready (const GError *refusal, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->state != SONDE_STATE_PLACING)
    return;
  self->is_scope_ready = refusal == NULL;
  if (refusal != NULL)
    sonde_session_fail (self, refusal);
  else
    sonde_session_begin (self);
}

/* Of a processor that has come. The sonded before us may have asked for them. */
static gboolean
on_more_rings (SondeSession *self, const SondeMessageRingsMapped *message, GError **error)
{
  if (!sonde_session_scope_rings_mapped (self->scope, message->status, error))
    {
      if (self->is_adopted)
        g_clear_error (error);
      return self->is_adopted;
    }
  sonde_session_save_worker (self);
  sonde_session_save (self);
  return TRUE;
}

static gboolean
on_rings_mapped (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageRingsMapped *message = data;

  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    return on_more_rings (self, message, error);
  if (self->state == SONDE_STATE_DRAINING)
    return TRUE; /* the events they were for are closed */
  if (message->status != 0)
    return sonde_error_set_errno (error, message->status, "The worker cannot map its perf rings");
  sonde_session_step (self, SONDE_STEP_MAP);
  sonde_session_scope_when_ready (self->scope, on_scope_ready, self);
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
  return sonde_session_scope_answer_process (self->scope, message, self->worker, error);
}

static gboolean
on_file_request (SondeSession *self, gconstpointer message, GError **error)
{
  return sonde_session_scope_answer_file (self->scope, message, self->worker, error);
}

static gboolean
on_counters_request (SondeSession *self, gconstpointer message, GError **error)
{
  return sonde_session_scope_answer_counters (self->scope, message, self->worker, error);
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
  { SONDE_MESSAGE_PROCESS_REQUEST, WHILE_HEARD, on_process_request, TRUE },
  { SONDE_MESSAGE_FILE_REQUEST, WHILE_HEARD, on_file_request, TRUE },
  { SONDE_MESSAGE_COUNTERS_REQUEST, WHILE_HEARD, on_counters_request, TRUE },
  { SONDE_MESSAGE_STATISTICS, WHILE_HEARD, on_statistics, FALSE },
  { SONDE_MESSAGE_SINK_CLOSED, WHILE_HEARD, on_sink_closed, FALSE },
  { SONDE_MESSAGE_SINKS, WHILE_HEARD, on_sinks, FALSE },
  { SONDE_MESSAGE_CONTROLS, WHILE_HEARD, on_controls, FALSE },
  { SONDE_MESSAGE_DRAINED, SONDE_STATES_DRAINING, on_drained, FALSE },
  { SONDE_MESSAGE_FINISHED, SONDE_STATES_DRAINING, on_finished, TRUE },
  { SONDE_MESSAGE_FAILED, ~0u, on_failed, FALSE },
};

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
