/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The states of one session, from its start to the end of its worker. */
#include "daemon/control/session/session-private.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/system/audit.h"

gboolean
sonde_session_step (SondeSession *self, SondeSessionStep step)
{
  const char *name = sonde_session_state_row (self->state)->name;
  gboolean is_known = !sonde_session_is_in (self, SONDE_STATES_STARTING);
  SondeSessionState next = sonde_session_state_next (self->state, step);

  if (next == SONDE_STATE_NONE)
    return FALSE;
  sonde_session_enter (self, next);
  /* Nobody knows of it before the answer to Profile. */
  if (is_known && !g_str_equal (sonde_session_state_row (next)->name, name))
    self->handler->state_changed (self, self->user_data);
  return TRUE;
}

gboolean
sonde_session_has_progress (SondeSession *self)
{
  const SondeChannel *channel = self->worker != NULL ? sonde_peer_channel (self->worker) : NULL;
  guint64 n_before = self->n_heard_watched;

  if (channel == NULL)
    return TRUE;
  self->n_heard_watched = sonde_channel_n_received (channel);
  return self->n_heard_watched != n_before || !sonde_channel_is_waiting (channel);
}

gboolean
sonde_session_hear (SondeSession *self,
                    const SondeSessionWord *words,
                    gsize n_words,
                    const char *speaker,
                    const SondeMessageHeader *message,
                    int *fds,
                    unsigned n_fds,
                    GError **error)
{
  if (sonde_session_is_in (self, SONDE_STATES_DEAF))
    return TRUE;
  for (gsize i = 0; i < n_words; i++)
    if (words[i].type == message->type && sonde_session_is_in (self, words[i].taken_in))
      return words[i].take (self, message, fds, n_fds, error);
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The %s sent \"%s\" out of order", speaker,
               sonde_message_type_to_string (message->type));
  return FALSE;
}

static gboolean
has_unread (const SondePeer *peer)
{
  const SondeChannel *channel = peer != NULL ? sonde_peer_channel (peer) : NULL;

  return channel != NULL && sonde_channel_is_waiting (channel);
}

/* What waits to be read is our silence, not theirs, and may be what was waited for. One that never
 * stops talking is late all the same. */
static gboolean
on_deadline (gpointer user_data)
{
  SondeSession *self = user_data;
  const SondeChannel *channel = self->worker != NULL ? sonde_peer_channel (self->worker) : NULL;
  guint64 n_heard = channel != NULL ? sonde_channel_n_received (channel) : 0;

  self->deadline = 0;
  if (sonde_session_is_in (self, SONDE_STATES_LIVE)
      && (n_heard > self->n_heard || has_unread (self->worker)))
    {
      self->n_heard = n_heard;
      sonde_session_enter (self, self->state);
    }
  else if (self->state == SONDE_STATE_LEAVING)
    sonde_peer_kill (self->worker);
  else if ((has_unread (self->worker) || has_unread (self->broker))
           && self->n_unread++ < SONDE_LIMIT_UNREAD_TIMES)
    self->deadline = g_timeout_add (SONDE_LIMIT_UNREAD_MS, on_deadline, self);
  else
    sonde_session_abort (self, sonde_session_state_row (self->state)->overdue);
  return G_SOURCE_REMOVE;
}

static void
set_deadline (SondeSession *self, guint ms)
{
  g_clear_handle_id (&self->deadline, g_source_remove);
  self->n_unread = 0;
  if (ms > 0)
    self->deadline = g_timeout_add (ms, on_deadline, self);
}

void
sonde_session_enter (SondeSession *self, SondeSessionState state)
{
  gboolean is_orphan
      = self->facts->reason != NULL && g_str_equal (self->facts->reason, "owner-left");

  self->state = state;
  /* Those who would read the rest have less time if nobody is left. */
  set_deadline (self, state == SONDE_STATE_DELIVERING && is_orphan
                          ? SONDE_LIMIT_DELIVERY_ORPHAN_MS
                          : sonde_session_state_row (state)->deadline_ms);
}

void
sonde_session_answer_stops (SondeSession *self, const GError *error)
{
  g_autoptr (GArray) stops = g_steal_pointer (&self->stops);
  g_autoptr (GVariant) statistics = NULL;

  self->stops = g_array_new (FALSE, FALSE, sizeof (SondeSessionStop));
  if (error == NULL)
    statistics = g_variant_ref_sink (sonde_session_statistics (self));
  for (guint i = 0; i < stops->len; i++)
    {
      const SondeSessionStop *stop = &g_array_index (stops, SondeSessionStop, i);

      stop->stopped (statistics, error, stop->user_data);
    }
}

gboolean
sonde_session_note (SondeSession *self, const char *text, GError **error)
{
  SondeMessageNote message = { .header.type = SONDE_MESSAGE_NOTE };
  g_autofree char *ascii = g_str_to_ascii (text, "C");

  g_strlcpy (message.text, ascii, sizeof message.text);
  return sonde_peer_send (self->worker, &message, sizeof message, NULL, 0, error);
}

void
sonde_session_end (SondeSession *self)
{
  /* Of the process, which is gone; a session with a file stays much longer than that. */
  g_clear_handle_id (&self->deadline, g_source_remove);
  g_clear_handle_id (&self->end, g_source_remove);
  sonde_session_dismiss_broker (self);
  sonde_session_output_give_up (self);
  sonde_session_output_close (self);
  if (self->worker != NULL)
    sonde_audit ("session-ended", self->facts->id, self->facts->owner_uid, self->facts->reason);
  if (self->has_started && self->facts->is_lasting)
    sonde_session_save (self);
  self->handler->ended (self, self->has_started, self->user_data);
  /* Once it is told: better twice than never. */
  if (!self->has_started || !self->facts->is_lasting)
    sonde_session_keeper_forget_record (&self->keeper);
  sonde_session_keeper_forget_peer (&self->keeper, SONDE_PEER_CAPTURE);
}

static gboolean
on_end (gpointer user_data)
{
  SondeSession *self = user_data;

  self->end = 0;
  sonde_session_end (self);
  return G_SOURCE_REMOVE;
}

void
sonde_session_fail (SondeSession *self, const GError *error)
{
  gboolean was_starting = sonde_session_is_in (self, SONDE_STATES_STARTING);

  if (!sonde_session_step (self, SONDE_STEP_FAIL))
    return;
  g_clear_handle_id (&self->duration, g_source_remove);
  sonde_session_dismiss_broker (self);
  sonde_session_output_seal (self);
  if (self->facts->reason == NULL
      || !(self->facts->is_broken || g_str_equal (self->facts->reason, "owner-left")))
    {
      g_free (self->facts->reason);
      self->facts->reason = g_strdup (error->message);
    }
  /* There is no worker whose end would be waited for, and whoever has it fail may hold it still. */
  if (self->worker != NULL)
    sonde_peer_kill (self->worker);
  else
    self->end = g_idle_add (on_end, self);
  if (was_starting)
    self->handler->started (self, -1, error, self->user_data);
  sonde_session_answer_stops (self, error);
  sonde_session_output_give_up (self);
}

void
sonde_session_abort (SondeSession *self, const char *reason)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, reason);

  sonde_session_fail (self, error);
}

gboolean
sonde_session_refuse_state (const SondeSession *self, GError **error)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE, "The session is %s",
               sonde_session_state_row (self->state)->name);
  return FALSE;
}

gboolean
sonde_session_switch (SondeSession *self, SondeSessionStep step, GError **error)
{
  SondeMessageType message = step == SONDE_STEP_PAUSE ? SONDE_MESSAGE_PAUSE : SONDE_MESSAGE_RESUME;

  if (!sonde_session_step (self, step))
    return sonde_session_refuse_state (self, error);
  sonde_session_save (self);
  if (self->is_slowed || sonde_peer_send_simple (self->worker, message, error))
    return TRUE;
  sonde_session_abort (self, "The worker cannot be told to pause or resume");
  return FALSE;
}

/* A broker holds little, and its file says how much. */
void
sonde_session_share_out (SondeSession *self)
{
  SondeUnitShare of_broker = self->share;

  of_broker.memory_bytes = 0;
  if (self->share.cpu_weight == 0)
    return;
  if (self->worker != NULL)
    sonde_peer_set_share (self->worker, &self->share);
  if (self->broker != NULL)
    sonde_peer_set_share (self->broker, &of_broker);
}

guint64
sonde_session_measure (SondeSession *self)
{
  if (self->worker != NULL)
    sonde_peer_measure (self->worker, &self->worker_cost);
  if (self->broker != NULL)
    sonde_peer_measure (self->broker, &self->broker_cost);
  return self->worker_cost.cpu_us + self->broker_cost.cpu_us;
}

/* One that its owner has paused stays so. */
static gboolean
switch_if_running (SondeSession *self, SondeMessageType message)
{
  return self->state != SONDE_STATE_RUNNING || sonde_peer_send_simple (self->worker, message, NULL);
}

gboolean
sonde_session_set_slowed (SondeSession *self, gboolean is_slowed, const char *text)
{
  gboolean is_told;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    return FALSE;
  self->is_slowed = is_slowed;
  sonde_audit (is_slowed ? "session-slowed" : "session-resumed", self->facts->id,
               self->facts->owner_uid, text);
  /* No sample between the two notes. */
  is_told = is_slowed ? switch_if_running (self, SONDE_MESSAGE_PAUSE)
                            && sonde_session_note (self, text, NULL)
                      : sonde_session_note (self, text, NULL)
                            && switch_if_running (self, SONDE_MESSAGE_RESUME);
  if (!is_told)
    sonde_session_abort (self, "The worker cannot be told to pause or resume");
  return TRUE;
}

void
sonde_session_end_over_budget (SondeSession *self, const char *reason)
{
  if (sonde_session_is_in (self, SONDE_STATES_DEAF))
    return; /* its process has but a moment left */
  if (sonde_session_is_in (self, SONDE_STATES_LIVE) && sonde_session_note (self, reason, NULL))
    sonde_session_stop (self, reason);
  else
    sonde_session_abort (self, reason);
}

int
sonde_session_open_stream (SondeSession *self,
                           const char *reader,
                           const SondeStreamOptions *options,
                           GError **error)
{
  int fd;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      sonde_session_refuse_state (self, error);
      return -1;
    }
  fd = sonde_session_output_open_stream (self, reader, options, FALSE, error);
  if (fd >= 0)
    sonde_session_save (self);
  return fd;
}

gboolean
sonde_session_open_file (const SondeSession *self,
                         SondeStoreReply reply,
                         gpointer user_data,
                         GError **error)
{
  if (!sonde_session_is_over (self) || self->facts->capture_file == NULL)
    return sonde_session_refuse_state (self, error);
  sonde_capture_store_ask (self->store, SONDE_STORE_REOPEN, self->facts->owner_uid,
                           self->facts->capture_file, 0, reply, user_data);
  return TRUE;
}

int
sonde_session_open_control (SondeSession *self, GError **error)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_CONTROL };
  sonde_autofd int fd = -1;
  int fds[2];
  const int on = 1;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      sonde_session_refuse_state (self, error);
      return -1;
    }
  if (self->n_controls - self->n_closed_controls >= SONDE_LIMIT_CONTROLS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit controls: at most %d control sockets of a session", SONDE_LIMIT_CONTROLS);
      return -1;
    }
  if (!sonde_socketpair (SOCK_SEQPACKET, fds, error))
    return -1;
  fd = fds[0];
  /* The worker's end tells who sends; links that a program asks for are made by the worker. */
  if (setsockopt (fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot make a control socket");
      close (fds[1]);
      return -1;
    }
  if (!sonde_peer_send (self->worker, &message, sizeof message, &fds[1], 1, error))
    return -1;
  self->n_controls++;
  return sonde_steal_fd (&fd);
}

static gboolean
on_duration (gpointer user_data)
{
  SondeSession *self = user_data;

  self->duration = 0;
  sonde_session_stop (self, "duration");
  return G_SOURCE_REMOVE;
}

void
sonde_session_start_duration (SondeSession *self)
{
  gint64 gone_us = g_get_monotonic_time () - self->facts->live_since_us;
  guint64 left_us = self->options->asked.duration_us
                    - MIN (self->options->asked.duration_us, (guint64) MAX (gone_us, 0));
  guint64 ms = self->options->asked.duration_us > 0 ? MAX ((left_us + 999) / 1000, 1) : 0;

  /* GLib counts in 32 bits of milliseconds: 49 days. */
  if (ms > 0 && ms <= G_MAXUINT)
    self->duration = g_timeout_add ((guint) ms, on_duration, self);
  else if (ms > 0)
    self->duration = g_timeout_add_seconds ((guint) (ms / 1000), on_duration, self);
}

SondeSession *
sonde_session_new_with (SondeSessionRecord *facts,
                        SondeCaller *owner,
                        SondeOptions *options,
                        SondeCaptureStore *store,
                        const SondeSessionHandler *handler,
                        gpointer user_data)
{
  SondeSession *self = g_new0 (SondeSession, 1);

  self->facts = facts;
  self->owner = sonde_caller_ref (owner);
  self->options = options;
  self->handler = handler;
  self->user_data = user_data;
  self->state = SONDE_STATE_CALLING;
  self->store = store;
  self->file_fd = -1;
  self->stops = g_array_new (FALSE, FALSE, sizeof (SondeSessionStop));
  return self;
}

SondeSession *
sonde_session_new (guint64 id,
                   SondeCaller *owner,
                   SondeOptions *options,
                   SondeCaptureStore *store,
                   SondeFdStore *fd_store,
                   const SondeSessionHandler *handler,
                   gpointer user_data)
{
  SondeSessionRecord *facts = sonde_session_record_new ();
  SondeSession *self;

  facts->protocol = SONDE_MESSAGE_VERSION;
  facts->id = id;
  facts->bus_id = g_strdup (owner->bus_id);
  facts->owner = g_strdup (owner->name);
  facts->owner_uid = owner->uid;
  facts->owner_pid = owner->pid;
  facts->options = g_variant_ref_sink (sonde_options_to_variant (options));
  facts->description = sonde_options_describe (options);
  facts->start_time_us = (guint64) g_get_real_time ();
  facts->is_lasting = store != NULL;
  self = sonde_session_new_with (facts, owner, options, store, handler, user_data);
  self->keeper = (SondeSessionKeeper){ .store = fd_store, .id = id };
  return self;
}

void
sonde_session_free (SondeSession *self)
{
  if (self == NULL)
    return;
  sonde_session_enter (self, SONDE_STATE_FAILED); /* which nothing changes any more */
  g_clear_handle_id (&self->duration, g_source_remove);
  g_clear_handle_id (&self->end, g_source_remove);
  sonde_session_keeper_forget (&self->keeper);
  g_clear_pointer (&self->worker, sonde_peer_free);
  sonde_peer_free (sonde_session_steal_broker (self));
  g_clear_pointer (&self->lookup, sonde_group_question_free);
  g_clear_error (&self->lookup_error);
  g_free (self->group);
  g_clear_pointer (&self->launcher, sonde_peer_launcher_unref);
  g_clear_pointer (&self->creating, sonde_store_request_cancel);
  sonde_session_output_give_up (self);
  sonde_session_output_close (self);
  sonde_closer_clear (&self->file_fd);
  if (self->facts->capture_file != NULL)
    sonde_capture_store_release (self->store, self->facts->capture_file);
  g_clear_pointer (&self->last_readers, g_ptr_array_unref);
  g_clear_pointer (&self->stops, g_array_unref);
  g_clear_pointer (&self->options, sonde_options_free);
  g_clear_pointer (&self->owner, sonde_caller_unref);
  sonde_session_record_free (self->facts);
  g_clear_error (&self->no_file);
  g_free (self);
}

void
sonde_session_stop (SondeSession *self, const char *reason)
{
  g_autoptr (GError) error = NULL;

  if (sonde_session_is_in (self, SONDE_STATES_STARTING))
    {
      sonde_session_abort (self, reason);
      return;
    }
  if (self->state == SONDE_STATE_DELIVERING && g_str_equal (reason, "owner-left"))
    set_deadline (self, SONDE_LIMIT_DELIVERY_ORPHAN_MS);
  if (!sonde_session_step (self, SONDE_STEP_STOP))
    return;
  g_free (self->facts->reason); /* of a record, which may have one in any state */
  self->facts->reason = g_strdup (reason);
  sonde_session_save (self);
  g_clear_handle_id (&self->duration, g_source_remove);
  /* One that cannot be told has gone. */
  if (self->broker != NULL)
    sonde_peer_send_simple (self->broker, SONDE_MESSAGE_CLOSE, NULL);
  sonde_session_output_seal (self);
  if (!sonde_peer_send_simple (self->worker, SONDE_MESSAGE_STOP, &error))
    sonde_session_fail (self, error);
}

void
sonde_session_stop_for (SondeSession *self, SondeSessionStopped stopped, gpointer user_data)
{
  const SondeSessionStop stop = { stopped, user_data };
  g_autoptr (GError) error = NULL;

  sonde_session_stop (self, "stopped");
  if (!sonde_session_is_in (self, SONDE_STATES_DRAINING | SONDE_STATE_BIT (SONDE_STATE_LEAVING)))
    {
      sonde_session_refuse_state (self, &error);
      stopped (NULL, error, user_data);
      return;
    }
  g_array_append_val (self->stops, stop);
  if (self->state != SONDE_STATE_DRAINING)
    sonde_session_answer_stops (self, NULL);
}

void
sonde_session_retire (SondeSession *self)
{
  g_assert (sonde_session_is_over (self));

  g_clear_pointer (&self->worker, sonde_peer_free);
  g_clear_pointer (&self->owner, sonde_caller_unref);
}

const SondeSessionRecord *
sonde_session_facts (const SondeSession *self)
{
  return self->facts;
}

gboolean
sonde_session_is_over (const SondeSession *self)
{
  return sonde_session_is_in (self, SONDE_STATES_OVER);
}

const SondeOptions *
sonde_session_options (const SondeSession *self)
{
  return self->options;
}

const char *
sonde_session_state_name (const SondeSession *self)
{
  return sonde_session_state_row (self->state)->name;
}

GVariant *
sonde_session_statistics (const SondeSession *self)
{
  g_auto (GVariantBuilder) builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{st}"));
  for (guint i = 0; i < SONDE_N_STATISTICS; i++)
    g_variant_builder_add (&builder, "{st}", sonde_statistic_name ((SondeStatistic) i),
                           self->facts->statistics[i]);
  if (self->worker_cost.memory_bytes > 0)
    {
      g_variant_builder_add (&builder, "{st}", "worker-cpu-us", self->worker_cost.cpu_us);
      g_variant_builder_add (&builder, "{st}", "worker-memory-bytes",
                             self->worker_cost.memory_bytes);
    }
  return g_variant_builder_end (&builder);
}
