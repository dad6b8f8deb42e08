/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes the messages of a session's worker and broker. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/system/audit.h"
#include "daemon/control/session/session-private.h"

/* Makes the connection over which the worker asks the broker. */
static gboolean
link_up (SondeSession *self, GError **error)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_LINK };
  int fds[2];

  if (!sonde_socketpair (SOCK_SEQPACKET, fds, error))
    return FALSE;
  if (sonde_peer_send (self->worker, &message, sizeof message, &fds[0], 1, error))
    return sonde_broker_link_serve (self->broker, self->facts->id, fds[1], error);
  close (fds[1]);
  return FALSE;
}

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
  return link_up (self, error);
}

/* What every session begins with. @reader: (out): -1 if that is a file */
static gboolean
open_output (SondeSession *self, int *reader, GError **error)
{
  SondeStreamOptions stream;

  if (self->facts->is_lasting)
    return sonde_session_output_open_file (self->output, self->worker, error);
  sonde_stream_options_init (&stream);
  stream.buffer_size_bytes = self->options->buffer_size_bytes;
  *reader = sonde_session_output_open_stream (self->output, self->facts->owner, &stream,
                                              self->worker, error);
  return *reader >= 0;
}

static gboolean
go_live (SondeSession *self, GError **error)
{
  sonde_autofd int reader = -1;

  if (!open_output (self, &reader, error)
      || !sonde_peer_send_simple (self->worker, SONDE_MESSAGE_START, error)
      || !sonde_broker_link_announce (self->broker, error))
    return FALSE;
  self->facts->live_since_us = g_get_monotonic_time ();
  sonde_session_step (self, SONDE_STEP_START);
  sonde_session_start_duration (self);
  sonde_session_save_peers (self);
  sonde_session_save (self);
  sonde_audit ("session-started", self->facts->id, self->facts->owner_uid,
               sonde_scope_name (self->options->asked.scope));
  self->has_started = TRUE;
  self->handler->started (self, sonde_steal_fd (&reader), NULL, self->user_data);
  return TRUE;
}

void
sonde_session_begin (SondeSession *self)
{
  g_autoptr (GError) error = NULL;

  if (self->state != SONDE_STATE_PLACING || self->lookup != NULL)
    return;
  if (self->lookup_error != NULL)
    sonde_session_fail (self, self->lookup_error);
  else if (self->no_file != NULL)
    sonde_session_fail (self, self->no_file);
  else if (sonde_session_output_is_ready (self->output))
    {
      sonde_session_step (self, SONDE_STEP_OPEN);
      if (!sonde_broker_link_open (self->broker, self->group, &error))
        sonde_session_fail (self, error);
    }
}

static gboolean
on_rings_mapped (SondeSession *self, gconstpointer data, GError **error)
{
  const SondeMessageRingsMapped *message = data;

  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      /* Of a processor that has come. A broker that cannot be told has gone, which shows. */
      sonde_broker_link_tell_mapped (self->broker, message, NULL);
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

  /* An older worker counts less. */
  memcpy (self->facts->statistics, message->values,
          message->header.size - G_STRUCT_OFFSET (SondeMessageStatistics, values));
  sonde_peer_measure (self->worker, &self->worker_cost);
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

  if (!self->is_adopted)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker told of its sinks unasked");
      return FALSE;
    }
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
  return sonde_peer_send_simple (self->worker, SONDE_MESSAGE_LEAVE, error);
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
  { SONDE_MESSAGE_STATISTICS, WHILE_HEARD, on_statistics, FALSE },
  { SONDE_MESSAGE_SINK_CLOSED, WHILE_HEARD, on_sink_closed, FALSE },
  { SONDE_MESSAGE_SINKS, WHILE_HEARD, on_sinks, FALSE },
  { SONDE_MESSAGE_CONTROLS, WHILE_HEARD, on_controls, FALSE },
  { SONDE_MESSAGE_DRAINED, SONDE_STATES_DRAINING, on_drained, FALSE },
  { SONDE_MESSAGE_FINISHED, SONDE_STATES_DRAINING, on_finished, TRUE },
  { SONDE_MESSAGE_FAILED, ~0u, on_failed, FALSE },
};

/* Of a worker of another version, which asks us and waits for an answer a quarter of a second. */
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
on_worker_message (SondePeer *worker,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  if (sonde_session_is_in (self, SONDE_STATES_DEAF))
    return;
  if (self->facts->protocol != SONDE_MESSAGE_VERSION && is_request (message->type))
    return;
  dispatch (self, message, &error);
  if (error != NULL)
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
      sonde_session_fail_reason (self, how);
    }
  sonde_session_end (self);
}

static void
on_worker_caught_up (SondePeer *worker, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->broker != NULL)
    sonde_peer_hold (sonde_broker_link_peer (self->broker), FALSE);
}

const SondePeerHandler sonde_session_worker_handler
    = { .message = on_worker_message, .gone = on_worker_gone, .caught_up = on_worker_caught_up };

/* --- the broker --- */

static gboolean
on_sheet (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageSheet *message = data;
  GPtrArray *targets = self->options->targets;

  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The broker speaks version %u of our protocol, not %d: sonded has to be "
                   "restarted after an upgrade",
                   message->version, SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  sonde_peer_launcher_take_sheet (self->launcher, message);
  sonde_session_step (self, SONDE_STEP_CALL);
  self->options->targets = g_ptr_array_new ();
  return sonde_broker_link_ask (self->broker, &self->options->asked, self->facts->owner_uid,
                                sonde_caller_pid (self->owner), targets, error);
}

static gboolean
on_proved (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  return sonde_broker_result_is_good (data, error) && sonde_session_start_worker (self, error);
}

static gboolean
on_opened (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  return sonde_broker_result_is_good (data, error) && go_live (self, error);
}

static gboolean
on_added (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  if (sonde_broker_link_take_added (self->broker, data, error))
    {
      sonde_session_save (self);
      return TRUE;
    }
  /* The sonded before us may have asked, and died before it wrote that down. */
  if (self->is_adopted)
    g_clear_error (error);
  return self->is_adopted;
}

static gboolean
on_broken (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  g_autoptr (GError) why = NULL;

  if (sonde_broker_result_is_good (data, &why))
    return TRUE;
  sonde_session_fail (self, why);
  return TRUE;
}

static gboolean
on_targets_ended (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_stop (self, "targets-exited");
  return TRUE;
}

/* The session goes on without answers about that user. */
static gboolean
on_stuck (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageStuck *message = data;
  g_autofree char *text
      = message->is_over != 0
            ? g_strdup_printf ("Processes of uid %u answer again", message->uid)
            : g_strdup_printf ("Processes of uid %u do not answer: of them and their files nothing "
                               "is told (asked: process %d)",
                               message->uid, message->pid);

  sonde_audit (message->is_over != 0 ? "targets-answer" : "targets-stuck", self->facts->id,
               self->facts->owner_uid, text);
  /* A connection that breaks shows by itself. */
  if (sonde_session_is_in (self, WHILE_HEARD))
    sonde_session_note (self, text, NULL);
  return TRUE;
}

/* What the worker is to hear. It hears of no more events once it drains. While it is behind, the
 * rest waits with the broker: events on their way are descriptors of ours. */
static gboolean
hand_on (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageHeader *message = data;
  gboolean is_of_events
      = message->type == SONDE_MESSAGE_EVENTS || message->type == SONDE_MESSAGE_RINGS;
  g_autofree gpointer copy = NULL;
  g_autoptr (GError) failure = NULL;
  gboolean is_sent;

  if (is_of_events && sonde_session_is_in (self, SONDE_STATES_DRAINING))
    return TRUE;
  copy = g_memdup2 (message, message->size);
  is_sent = sonde_peer_send (self->worker, copy, message->size, fds, n_fds, &failure);
  for (unsigned i = 0; i < n_fds; i++)
    fds[i] = -1;
  if (sonde_peer_is_behind (self->worker))
    sonde_peer_hold (sonde_broker_link_peer (self->broker), TRUE);
  /* One that delivers may leave at any moment: what it said last is still to be read. */
  if (!is_sent && self->state != SONDE_STATE_DELIVERING)
    sonde_session_fail (self, failure);
  return TRUE;
}

#define WHILE_MAPPING SONDE_STATE_BIT (SONDE_STATE_MAPPING)
#define WHILE_OPENING SONDE_STATE_BIT (SONDE_STATE_OPENING)
#define WHILE_SERVED  (WHILE_MAPPING | SONDE_STATE_BIT (SONDE_STATE_PLACING) | WHILE_OPENING)

/* What has crossed our CLOSE is still taken. */
static const struct
{
  SondeMessageType type;
  guint32 taken_in; /* set of states */
  gboolean (*take) (
      SondeSession *self, gconstpointer message, int *fds, unsigned n_fds, GError **error);
} broker_rows[] = {
  { SONDE_MESSAGE_SHEET, SONDE_STATE_BIT (SONDE_STATE_CALLING), on_sheet },
  { SONDE_MESSAGE_PROVED, SONDE_STATE_BIT (SONDE_STATE_PROVING), on_proved },
  { SONDE_MESSAGE_SETUP, WHILE_MAPPING, hand_on },
  { SONDE_MESSAGE_DOCUMENT, WHILE_MAPPING | WHILE_HEARD, hand_on },
  { SONDE_MESSAGE_COUNTERS, WHILE_MAPPING | WHILE_HEARD, hand_on },
  { SONDE_MESSAGE_RINGS, WHILE_MAPPING | WHILE_HEARD, hand_on },
  { SONDE_MESSAGE_EVENTS, WHILE_OPENING | WHILE_HEARD, hand_on },
  { SONDE_MESSAGE_OPENED, WHILE_OPENING, on_opened },
  { SONDE_MESSAGE_PROCESS, WHILE_HEARD, hand_on },
  { SONDE_MESSAGE_NOTE, WHILE_HEARD, hand_on },
  { SONDE_MESSAGE_ADDED, WHILE_HEARD, on_added },
  { SONDE_MESSAGE_TARGETS_ENDED, WHILE_HEARD, on_targets_ended },
  { SONDE_MESSAGE_STUCK, WHILE_SERVED | WHILE_HEARD, on_stuck },
  { SONDE_MESSAGE_BROKEN, ~0u, on_broken },
};

/* A refusal fails a session that is starting, with its reason; one that runs loses a broker that
 * says what it may not. */
static void
on_broker_message (SondePeer *broker,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  if (sonde_session_is_in (self, SONDE_STATES_DEAF))
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (broker_rows); i++)
    if (broker_rows[i].type == message->type && sonde_session_is_in (self, broker_rows[i].taken_in))
      {
        if (broker_rows[i].take (self, message, fds, n_fds, &error))
          return;
        break;
      }
  if (error == NULL)
    g_set_error (&error, SONDE_ERROR, SONDE_ERROR_FAILED, "The broker sent \"%s\" out of order",
                 sonde_message_type_to_string (message->type));
  if (sonde_session_is_in (self, SONDE_STATES_STARTING))
    sonde_session_fail (self, error);
  else
    sonde_session_lose_broker (self, error->message);
}

static void
on_broker_gone (SondePeer *broker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;
  g_autofree char *reason = g_strdup (how); /* the broker's, which goes */

  g_clear_pointer (&self->broker, sonde_broker_link_free);
  sonde_session_lose_broker (self, reason);
}

const SondePeerHandler sonde_session_broker_handler
    = { .message = on_broker_message, .gone = on_broker_gone };
