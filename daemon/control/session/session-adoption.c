/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session that passes from one sonded to the next. */
#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"
#include "daemon/control/session/session-private.h"

/* --- to the next one --- */

void
sonde_session_save (SondeSession *self)
{
  SondeSessionRecord *facts = self->facts;
  gboolean has_broker = self->broker != NULL;

  if (self->keeper == NULL)
    return;
  facts->state = sonde_session_state_row (self->state)->record;
  facts->worker_pid = sonde_peer_pid (self->worker);
  facts->broker_pid = has_broker ? sonde_peer_pid (self->broker) : 0;
  facts->n_additions = has_broker ? g_queue_get_length (&self->additions) : 0;
  sonde_session_keeper_keep_record (self->keeper, facts);
}

void
sonde_session_save_peers (SondeSession *self)
{
  const SondePeer *peers[SONDE_PEER_N_KINDS]
      = { [SONDE_PEER_BROKER] = self->broker, [SONDE_PEER_CAPTURE] = self->worker };

  if (self->keeper == NULL)
    return;
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    sonde_session_keeper_keep_peer (self->keeper, kind,
                                    sonde_channel_fd (sonde_peer_channel (peers[kind])));
}

void
sonde_session_leave (SondeSession *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->keeper, sonde_session_keeper_free);
  g_clear_pointer (&self->worker, sonde_peer_leave);
  sonde_peer_leave (sonde_session_steal_broker (self));
  sonde_session_free (self);
}

/* --- from the one before --- */

/* All that needs neither broker nor worker. @facts: (transfer full) on success */
static SondeSession *
restore (SondeSessionRecord *facts,
         SondeCaller *owner,
         SondeCaptureStore *store,
         const SondeSessionHandler *handler,
         gpointer user_data,
         GError **error)
{
  SondeOptions *options = NULL;
  SondeSession *self;

  if (facts->is_lasting && store == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "There is no place for its capture file any more");
      return NULL;
    }
  options = sonde_options_restore (facts->options, error);
  if (options == NULL)
    return NULL;
  self = sonde_session_new_with (facts, owner, options, facts->is_lasting ? store : NULL, handler,
                                 user_data);
  self->has_started = TRUE;
  self->is_adopted = TRUE;
  if (facts->capture_file != NULL)
    sonde_capture_store_hold (
        store, facts->capture_file,
        sonde_session_state_is_in (facts->state, SONDE_STATES_OVER) ? 0 : facts->capture_max_bytes);
  return self;
}

/* Says again what the one before wanted of both, who may have heard it. */
static void
take_up (SondeSession *self)
{
  static const SondeMessageType wishes[SONDE_N_STATES] = {
    [SONDE_STATE_RUNNING] = SONDE_MESSAGE_RESUME,
    [SONDE_STATE_PAUSED] = SONDE_MESSAGE_PAUSE,
    [SONDE_STATE_DRAINING] = SONDE_MESSAGE_STOP,
    [SONDE_STATE_FINISHED] = SONDE_MESSAGE_LEAVE,
  };
  gboolean is_foreign = self->facts->protocol != SONDE_MESSAGE_VERSION;
  SondeSessionState state = self->facts->state;
  SondeMessageType of_broker;
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) lost = NULL;

  /* Finished, but for its process: it may not have heard that it may leave. */
  sonde_session_enter (self, state == SONDE_STATE_FINISHED ? SONDE_STATE_LEAVING : state);
  /* It is told once that has ended. */
  if (self->state == SONDE_STATE_FAILED)
    {
      sonde_peer_kill (self->worker);
      return;
    }
  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_start_duration (self);
  if (is_foreign && sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_stop (self, "upgrade");
  else if (!sonde_peer_send_simple (self->worker, wishes[state], &error))
    sonde_session_fail (self, error);
  of_broker
      = sonde_session_is_in (self, SONDE_STATES_LIVE) ? SONDE_MESSAGE_REPORT : SONDE_MESSAGE_CLOSE;
  if (!is_foreign && self->broker == NULL)
    sonde_session_lose_broker (self, "The connection to the broker is not there");
  else if (!is_foreign && !sonde_peer_send_simple (self->broker, of_broker, &lost))
    sonde_session_lose_broker (self, lost->message);
  if (!sonde_session_is_over (self)
      && !sonde_peer_send_simple (self->worker, SONDE_MESSAGE_REPORT, &error))
    sonde_session_fail (self, error);
}

SondeSession *
sonde_session_adopt (SondeLeftSession *left,
                     SondeFdStore *fd_store,
                     SondeCaller *owner,
                     SondeCaptureStore *store,
                     SondePeerLauncher *launcher,
                     const SondeSessionHandler *handler,
                     gpointer user_data,
                     GError **error)
{
  SondeSessionRecord *record = left->record;
  gboolean is_over = sonde_session_state_is_in (record->state, SONDE_STATES_OVER);
  SondeSession *self;

  if (left->peer_fds[SONDE_PEER_CAPTURE] < 0 && !is_over)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The connection to its worker is not there");
      return NULL;
    }
  self = restore (record, owner, store, handler, user_data, error);
  if (self == NULL)
    return NULL;
  self->keeper = sonde_session_keeper_new_left (fd_store, left);
  left->record = NULL; /* it is the session's now */
  if (left->peer_fds[SONDE_PEER_CAPTURE] < 0)
    {
      sonde_session_enter (self, record->is_broken ? SONDE_STATE_FAILED : record->state);
      sonde_session_keeper_forget_peer (self->keeper, SONDE_PEER_BROKER);
      return self;
    }
  self->launcher = sonde_peer_launcher_ref (launcher);
  self->worker = sonde_peer_adopt (launcher, SONDE_PEER_CAPTURE,
                                   sonde_steal_fd (&left->peer_fds[SONDE_PEER_CAPTURE]),
                                   record->worker_pid, &sonde_session_worker_handler, self);
  if (left->peer_fds[SONDE_PEER_BROKER] >= 0)
    sonde_session_adopt_broker (self, sonde_steal_fd (&left->peer_fds[SONDE_PEER_BROKER]), record);
  take_up (self);
  sonde_audit ("session-adopted", self->facts->id, self->facts->owner_uid,
               sonde_scope_name (self->options->asked.scope));
  return self;
}

void
sonde_session_stop_if_deserted (SondeSession *self)
{
  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    return;
  if (!self->facts->is_lasting && g_cancellable_is_cancelled (sonde_caller_left (self->owner)))
    sonde_session_stop (self, "owner-left");
}
