/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The messages of a session's worker. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/session/session-private.h"
#include "daemon/control/system/audit.h"

/* Makes the connection over which the worker asks the broker. */
static gboolean
on_hello (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageHello *message = data;
  SondeMessageHeader link = { .type = SONDE_MESSAGE_LINK };
  SondeMessageServe serve = { .header.type = SONDE_MESSAGE_SERVE, .session_id = self->facts->id };
  int ends[2];

  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The worker speaks version %u of our protocol, not %d: sonded has to be "
                   "restarted after an upgrade",
                   message->version, SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  sonde_session_step (self, SONDE_STEP_GREET);
  if (!sonde_socketpair (SOCK_SEQPACKET, ends, error))
    return FALSE;
  if (sonde_peer_send (self->worker, &link, sizeof link, &ends[0], 1, error))
    return sonde_peer_send (self->broker, &serve, sizeof serve, &ends[1], 1, error);
  close (ends[1]);
  return FALSE;
}

static gboolean
on_rings_mapped (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageRingsMapped *message = data;

  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      SondeMessageRingsMapped copy = *message;

      /* Of a processor that has come. A broker that cannot be told has gone, which shows. */
      sonde_peer_send (self->broker, &copy, sizeof copy, NULL, 0, NULL);
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
on_statistics (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageStatistics *message = data;

  /* An older worker counts less. */
  memcpy (self->facts->statistics, message->values,
          message->header.size - G_STRUCT_OFFSET (SondeMessageStatistics, values));
  sonde_peer_measure (self->worker, &self->worker_cost);
  return TRUE;
}

/* One that is adopted says it again, or has said it to the sonded before. */
static gboolean
on_drained (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  on_statistics (self, data, fds, n_fds, error);
  if (sonde_session_step (self, SONDE_STEP_DELIVER))
    sonde_session_answer_stops (self, NULL);
  return TRUE;
}

/* Nobody takes frames any more. */
static void
stop_if_deserted (SondeSession *self)
{
  if (sonde_session_is_in (self, SONDE_STATES_LIVE) && self->facts->sinks->len == 0)
    sonde_session_stop (self, self->facts->is_lasting ? "capture-full" : "reader-left");
}

static gboolean
on_sink_closed (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageSinkClosed *message = data;

  /* The sonded before us may have opened it and told nobody. */
  if (!sonde_session_output_closed (self, message->sink_id, error))
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
on_sinks (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  if (!self->is_adopted)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker told of its sinks unasked");
      return FALSE;
    }
  sonde_session_output_reconcile (self, data);
  stop_if_deserted (self);
  return TRUE;
}

/* The sonded before us may have given it some. */
static gboolean
on_controls (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
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
on_finished (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  on_statistics (self, data, fds, n_fds, error);
  sonde_session_step (self, SONDE_STEP_LEAVE);
  sonde_session_answer_stops (self, NULL);
  sonde_session_save (self);
  /* One that delivers may leave at any moment. */
  sonde_peer_send_simple (self->worker, SONDE_MESSAGE_LEAVE, NULL);
  return TRUE;
}

static gboolean
on_failed (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageFailed *message = data;
  g_autofree char *text
      = g_utf8_make_valid (message->text, (gssize) strnlen (message->text, sizeof message->text));

  sonde_session_abort (self, text[0] != '\0' ? text : "The worker failed");
  return TRUE;
}

static const SondeSessionWord words[] = {
  { SONDE_MESSAGE_HELLO, SONDE_STATE_BIT (SONDE_STATE_STARTING), on_hello },
  /* Its answer may cross our STOP. */
  { SONDE_MESSAGE_RINGS_MAPPED,
    SONDE_STATE_BIT (SONDE_STATE_MAPPING) | SONDE_STATES_LIVE
        | SONDE_STATE_BIT (SONDE_STATE_DRAINING),
    on_rings_mapped },
  { SONDE_MESSAGE_STATISTICS, SONDE_STATES_HEARD, on_statistics },
  { SONDE_MESSAGE_SINK_CLOSED, SONDE_STATES_HEARD, on_sink_closed },
  { SONDE_MESSAGE_SINKS, SONDE_STATES_HEARD, on_sinks },
  { SONDE_MESSAGE_CONTROLS, SONDE_STATES_HEARD, on_controls },
  { SONDE_MESSAGE_DRAINED, SONDE_STATES_DRAINING, on_drained },
  { SONDE_MESSAGE_FINISHED, SONDE_STATES_DRAINING, on_finished },
  { SONDE_MESSAGE_FAILED, ~0u, on_failed },
};

static void
on_worker_message (SondePeer *worker,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  /* One of another version asks us, and waits for an answer a quarter of a second. */
  if (self->facts->protocol != SONDE_MESSAGE_VERSION
      && (message->type == SONDE_MESSAGE_PROCESS_REQUEST
          || message->type == SONDE_MESSAGE_FILE_REQUEST
          || message->type == SONDE_MESSAGE_COUNTERS_REQUEST))
    return;
  if (!sonde_session_hear (self, words, G_N_ELEMENTS (words), "worker", message, fds, n_fds,
                           &error))
    sonde_session_fail (self, error);
}

static void
on_worker_gone (SondePeer *worker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->facts->is_broken && self->state == SONDE_STATE_LEAVING)
    sonde_session_step (self, SONDE_STEP_FAIL);
  else if (!sonde_session_step (self, SONDE_STEP_FINISH) && !sonde_session_is_over (self))
    {
      sonde_audit ("worker-died", self->facts->id, self->facts->owner_uid, how);
      sonde_session_abort (self, how);
    }
  sonde_session_end (self);
}

static void
on_worker_caught_up (SondePeer *worker, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->broker != NULL)
    sonde_peer_hold (self->broker, FALSE);
}

const SondePeerHandler sonde_session_worker_handler
    = { .message = on_worker_message, .gone = on_worker_gone, .caught_up = on_worker_caught_up };
