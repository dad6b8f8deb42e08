/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One profiling session: its states, its worker, its end. */
#include "daemon/control/session.h"

#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/control/audit.h"
#include "daemon/control/options-view.h"
#include "daemon/control/reader-set.h"
#include "daemon/control/session-phase.h"
#include "daemon/control/session-scope.h"
#include "daemon/control/worker-setup.h"
#include "daemon/control/worker.h"

struct SondeSession
{
  guint64 id;
  SondeCaller *owner; /* held, so that its leaving is noticed */
  uid_t owner_uid;
  SondeOptions *options;
  GVariant *options_view;
  char *description;
  guint64 start_time_us; /* since 1970 */
  const SondeSessionHandler *handler;
  gpointer user_data;

  SondeSessionState state;
  SondeSessionPhase phase;
  gboolean is_starting; /* `started` is owed */
  gboolean is_quiet;    /* free has begun: no callback any more */
  char *reason;
  guint64 statistics[SONDE_N_STATISTICS];

  SondeWorker *worker;
  SondeSessionScope *scope;
  SondeReaderSet *readers;
  GPtrArray *stops; /* GTask: unanswered Stop calls */

  guint deadline; /* of the current phase */
  guint duration;
};

static void session_fail (SondeSession *self, const char *reason);

static gboolean
step (SondeSession *self, SondeSessionStep step)
{
  SondeSessionState next = sonde_session_state_next (self->state, step);

  if (next == SONDE_STATE_NONE)
    return FALSE;
  self->state = next;
  /* Nobody knows of it before the answer to Profile. */
  if (!self->is_quiet && !self->is_starting)
    self->handler->state_changed (self, self->user_data);
  return TRUE;
}

static gboolean
on_deadline (gpointer user_data)
{
  SondeSession *self = user_data;

  self->deadline = 0;
  if (self->phase == SONDE_PHASE_OVER) /* finished, and only its process stays */
    sonde_worker_kill (self->worker);
  else
    session_fail (self, sonde_session_phase_overdue (self->phase));
  return G_SOURCE_REMOVE;
}

/* @ms: 0 none */
static void
enter_phase (SondeSession *self, SondeSessionPhase phase, guint ms)
{
  g_clear_handle_id (&self->deadline, g_source_remove);
  self->phase = phase;
  if (ms > 0)
    self->deadline = g_timeout_add (ms, on_deadline, self);
}

static void
answer_stops (SondeSession *self, const GError *error)
{
  g_autoptr (GPtrArray) stops = g_steal_pointer (&self->stops);

  self->stops = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint i = 0; i < stops->len; i++)
    {
      GTask *task = g_ptr_array_index (stops, i);

      if (error != NULL)
        g_task_return_error (task, g_error_copy (error));
      else
        g_task_return_pointer (task, g_variant_ref_sink (sonde_session_statistics (self)),
                               (GDestroyNotify) g_variant_unref);
    }
}

static void
answer_start (SondeSession *self, int capture_fd, const GError *error)
{
  if (!self->is_starting)
    {
      if (capture_fd >= 0)
        close (capture_fd);
      return;
    }
  self->is_starting = FALSE;
  self->handler->started (self, capture_fd, error, self->user_data);
}

static void
end (SondeSession *self)
{
  sonde_audit ("session-ended", self->id, self->owner_uid, self->reason);
  if (!self->is_quiet)
    self->handler->ended (self, self->user_data);
}

/* Of a failed start or a dead worker; `ended` follows when the worker is reaped. */
static void
session_fail_with (SondeSession *self, const GError *error)
{
  if (!step (self, SONDE_STEP_FAIL))
    return;
  g_clear_handle_id (&self->duration, g_source_remove);
  sonde_session_scope_close (self->scope);
  enter_phase (self, SONDE_PHASE_OVER, 0);
  if (self->reason == NULL || !g_str_equal (self->reason, "owner-left"))
    {
      g_free (self->reason);
      self->reason = g_strdup (error->message);
    }
  sonde_worker_kill (self->worker);
  answer_start (self, -1, error);
  answer_stops (self, error);
}

static void
session_fail (SondeSession *self, const char *reason)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, reason);

  session_fail_with (self, error);
}

static void
on_targets_exited (gpointer user_data)
{
  sonde_session_stop (user_data, "targets-exited");
}

static gboolean
refuse_state (const SondeSession *self, GError **error)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE, "The session is %s",
               sonde_session_state_name (self->state));
  return FALSE;
}

static gboolean
switch_sampling (SondeSession *self,
                 SondeSessionStep which,
                 SondeMessageType message,
                 GError **error)
{
  if (!step (self, which))
    return refuse_state (self, error);
  if (sonde_worker_send_simple (self->worker, message, error))
    return TRUE;
  session_fail (self, "The worker cannot be told to pause or resume");
  return FALSE;
}

gboolean
sonde_session_pause (SondeSession *self, GError **error)
{
  return switch_sampling (self, SONDE_STEP_PAUSE, SONDE_MESSAGE_PAUSE, error);
}

gboolean
sonde_session_resume (SondeSession *self, GError **error)
{
  return switch_sampling (self, SONDE_STEP_RESUME, SONDE_MESSAGE_RESUME, error);
}

int
sonde_session_open_stream (SondeSession *self,
                           const char *reader,
                           const SondeStreamOptions *options,
                           GError **error)
{
  if (self->phase == SONDE_PHASE_LIVE)
    return sonde_reader_set_open (self->readers, reader, options, self->worker, error);
  refuse_state (self, error);
  return -1;
}

gboolean
sonde_session_add_targets (SondeSession *self, GPtrArray *targets, GError **error)
{
  if (self->phase != SONDE_PHASE_LIVE)
    return refuse_state (self, error);
  return sonde_session_scope_add (self->scope, targets, self->worker, error);
}

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
  if (!sonde_worker_setup_send (self->worker, self->id, self->owner_uid, self->options,
                                sonde_session_scope_plan (self->scope), error))
    return FALSE;
  enter_phase (self, SONDE_PHASE_RINGS, SONDE_LIMIT_START_MS);
  return sonde_session_scope_send_rings (self->scope, self->worker, error);
}

static gboolean
on_duration (gpointer user_data)
{
  SondeSession *self = user_data;

  self->duration = 0;
  sonde_session_stop (self, "duration");
  return G_SOURCE_REMOVE;
}

static void
start_duration (SondeSession *self)
{
  guint64 ms = (self->options->duration_us + 999) / 1000;

  /* GLib counts in 32 bits of milliseconds: 49 days. */
  if (ms > 0 && ms <= G_MAXUINT)
    self->duration = g_timeout_add ((guint) ms, on_duration, self);
  else if (ms > 0)
    self->duration = g_timeout_add_seconds ((guint) (ms / 1000), on_duration, self);
}

static gboolean
on_rings_mapped (SondeSession *self, const SondeMessageRingsMapped *message, GError **error)
{
  SondeStreamOptions stream = SONDE_STREAM_OPTIONS_INIT;
  sonde_autofd int reader = -1;

  if (message->status != 0)
    return sonde_error_set_errno (error, message->status, "The worker cannot map its perf rings");
  stream.buffer_size_bytes = self->options->buffer_size_bytes;
  reader = sonde_reader_set_open (self->readers, sonde_session_owner (self), &stream, self->worker,
                                  error);
  if (reader < 0 || !sonde_session_scope_open (self->scope, self->worker, error)
      || !sonde_worker_send_simple (self->worker, SONDE_MESSAGE_START, error))
    return FALSE;
  enter_phase (self, SONDE_PHASE_LIVE, 0);
  step (self, SONDE_STEP_STARTED);
  if (!sonde_session_scope_announce (self->scope, self->worker, error))
    return FALSE;
  start_duration (self);
  sonde_audit ("session-started", self->id, self->owner_uid,
               sonde_scope_name (self->options->scope));
  answer_start (self, sonde_steal_fd (&reader), NULL);
  return TRUE;
}

static void
take_statistics (SondeSession *self, const SondeMessageStatistics *message)
{
  memcpy (self->statistics, message->values, sizeof self->statistics);
}

static void
on_drained (SondeSession *self, const SondeMessageStatistics *message)
{
  gboolean is_orphan = g_str_equal (self->reason, "owner-left");

  take_statistics (self, message);
  enter_phase (self, SONDE_PHASE_DELIVERY,
               is_orphan ? SONDE_LIMIT_DELIVERY_ORPHAN_MS : SONDE_LIMIT_DELIVERY_MS);
  answer_stops (self, NULL);
}

static gboolean
on_sink_closed (SondeSession *self, const SondeMessageSinkClosed *message, GError **error)
{
  if (!sonde_reader_set_closed (self->readers, message->sink_id))
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The worker closed stream %u, which is not open", message->sink_id);
      return FALSE;
    }
  if (self->phase == SONDE_PHASE_LIVE && sonde_reader_set_n_open (self->readers) == 0)
    sonde_session_stop (self, "reader-left");
  return TRUE;
}

static void
on_failed (SondeSession *self, const SondeMessageFailed *message)
{
  g_autofree char *text
      = g_utf8_make_valid (message->text, (gssize) strnlen (message->text, sizeof message->text));

  session_fail (self, text[0] != '\0' ? text : "The worker failed");
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
      return sonde_session_scope_answer_process (self->scope, message, self->worker, error);
    case SONDE_MESSAGE_FILE_REQUEST:
      return sonde_session_scope_answer_file (self->scope, message, self->worker, error);
    case SONDE_MESSAGE_STATISTICS:
      take_statistics (self, message);
      return TRUE;
    case SONDE_MESSAGE_DRAINED:
      on_drained (self, message);
      return TRUE;
    case SONDE_MESSAGE_SINK_CLOSED:
      return on_sink_closed (self, message, error);
    case SONDE_MESSAGE_FINISHED:
      take_statistics (self, message);
      enter_phase (self, SONDE_PHASE_OVER, SONDE_LIMIT_WORKER_EXIT_MS);
      return TRUE;
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
    session_fail_with (self, error);
}

static void
on_worker_gone (SondeWorker *worker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;

  /* Over, but not failed: it has said that it is finished. */
  if (self->phase == SONDE_PHASE_OVER)
    step (self, SONDE_STEP_FINISH);
  else
    {
      sonde_audit ("worker-died", self->id, self->owner_uid, how);
      session_fail (self, how);
    }
  end (self);
}

SondeSession *
sonde_session_new (guint64 id,
                   SondeCaller *owner,
                   SondeOptions *options,
                   const SondeSessionHandler *handler,
                   gpointer user_data)
{
  SondeSession *self = g_new0 (SondeSession, 1);

  self->id = id;
  self->owner = sonde_caller_ref (owner);
  self->owner_uid = sonde_caller_uid (owner);
  self->options = options;
  self->options_view = g_variant_ref_sink (sonde_options_to_variant (options));
  self->description = sonde_options_describe (options);
  self->start_time_us = (guint64) g_get_real_time ();
  self->handler = handler;
  self->user_data = user_data;
  self->state = SONDE_STATE_STARTING;
  self->scope = sonde_session_scope_new (options, self->owner_uid, on_targets_exited, self);
  self->readers = sonde_reader_set_new ();
  self->stops = g_ptr_array_new_with_free_func (g_object_unref);
  return self;
}

void
sonde_session_free (SondeSession *self)
{
  if (self == NULL)
    return;
  self->is_quiet = TRUE;
  enter_phase (self, SONDE_PHASE_OVER, 0);
  g_clear_handle_id (&self->duration, g_source_remove);
  g_clear_pointer (&self->worker, sonde_worker_free);
  g_clear_pointer (&self->scope, sonde_session_scope_free);
  g_clear_pointer (&self->readers, sonde_reader_set_free);
  g_clear_pointer (&self->stops, g_ptr_array_unref);
  g_clear_pointer (&self->options, sonde_options_free);
  g_clear_pointer (&self->options_view, g_variant_unref);
  g_free (self->description);
  g_clear_pointer (&self->owner, sonde_caller_unref);
  g_free (self->reason);
  g_free (self);
}

gboolean
sonde_session_start (SondeSession *self, SondeWorkerLauncher *launcher, GError **error)
{
  static const SondeWorkerHandler handler
      = { .message = on_worker_message, .gone = on_worker_gone };

  if (!sonde_session_scope_prepare (self->scope, error))
    return FALSE;
  self->worker = sonde_worker_spawn (launcher, &handler, self, error);
  if (self->worker == NULL)
    return FALSE;
  self->is_starting = TRUE;
  enter_phase (self, SONDE_PHASE_HELLO, SONDE_LIMIT_START_MS);
  return TRUE;
}

void
sonde_session_stop (SondeSession *self, const char *reason)
{
  g_autoptr (GError) error = NULL;

  if (self->state == SONDE_STATE_STARTING)
    {
      sonde_session_abort (self, reason);
      return;
    }
  /* Those who would read the rest have less time if nobody is left. */
  if (self->phase == SONDE_PHASE_DELIVERY && g_str_equal (reason, "owner-left"))
    enter_phase (self, SONDE_PHASE_DELIVERY, SONDE_LIMIT_DELIVERY_ORPHAN_MS);
  if (!step (self, SONDE_STEP_STOP))
    return;
  self->reason = g_strdup (reason);
  g_clear_handle_id (&self->duration, g_source_remove);
  sonde_session_scope_close (self->scope);
  enter_phase (self, SONDE_PHASE_DRAIN, SONDE_LIMIT_DRAIN_MS);
  if (!sonde_worker_send_simple (self->worker, SONDE_MESSAGE_STOP, &error))
    session_fail_with (self, error);
}

void
sonde_session_stop_async (SondeSession *self, GAsyncReadyCallback callback, gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (NULL, NULL, callback, user_data);

  g_task_set_source_tag (task, sonde_session_stop_async);
  sonde_session_stop (self, "stopped");
  if (self->phase == SONDE_PHASE_DRAIN)
    g_ptr_array_add (self->stops, g_steal_pointer (&task));
  else if (self->state == SONDE_STATE_DRAINING)
    g_task_return_pointer (task, g_variant_ref_sink (sonde_session_statistics (self)),
                           (GDestroyNotify) g_variant_unref);
  else
    g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_INVALID_STATE, "The session is %s",
                             sonde_session_state_name (self->state));
}

GVariant *
sonde_session_stop_finish (GAsyncResult *result, GError **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

void
sonde_session_abort (SondeSession *self, const char *reason)
{
  session_fail (self, reason);
}

guint64
sonde_session_id (const SondeSession *self)
{
  return self->id;
}

const char *
sonde_session_owner (const SondeSession *self)
{
  return sonde_caller_name (self->owner);
}

uid_t
sonde_session_owner_uid (const SondeSession *self)
{
  return self->owner_uid;
}

const SondeOptions *
sonde_session_options (const SondeSession *self)
{
  return self->options;
}

guint64
sonde_session_start_time_us (const SondeSession *self)
{
  return self->start_time_us;
}

const char *
sonde_session_description (const SondeSession *self)
{
  return self->description;
}

GVariant *
sonde_session_options_view (const SondeSession *self)
{
  return self->options_view;
}

SondeSessionState
sonde_session_state (const SondeSession *self)
{
  return self->state;
}

const char *
sonde_session_reason (const SondeSession *self)
{
  return self->reason;
}

GVariant *
sonde_session_statistics (const SondeSession *self)
{
  g_auto (GVariantBuilder) builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{st}"));
  for (guint i = 0; i < SONDE_N_STATISTICS; i++)
    g_variant_builder_add (&builder, "{st}", sonde_statistic_name ((SondeStatistic) i),
                           self->statistics[i]);
  return g_variant_builder_end (&builder);
}
