/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One profiling session: its states, its worker, its end. */
#include "daemon/control/session.h"

#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/control/audit.h"
#include "daemon/control/event-set.h"
#include "daemon/control/proc-broker.h"
#include "daemon/control/target-set.h"
#include "daemon/control/worker-setup.h"
#include "daemon/control/worker.h"

#define FIRST_SINK 1

/* Where the conversation with the worker stands: finer than the state that the bus shows. */
typedef enum
{
  PHASE_IDLE,     /* no worker yet */
  PHASE_HELLO,    /* waiting for it to say hello */
  PHASE_RINGS,    /* for its rings */
  PHASE_LIVE,     /* running or paused */
  PHASE_DRAIN,    /* STOP is sent */
  PHASE_DELIVERY, /* DRAINED has come; readers take the rest */
  PHASE_OVER,     /* FINISHED or FAILED has come, or we gave up: nothing is heard any more */
  N_PHASES,
} Phase;

struct SondeSession
{
  guint64 id;
  SondeCaller *owner; /* held, so that its leaving is noticed */
  uid_t owner_uid;
  SondeOptions *options;
  const SondeSessionHandler *handler;
  gpointer user_data;

  SondeSessionState state;
  Phase phase;
  gboolean is_starting; /* `started` is owed */
  gboolean is_quiet;    /* free has begun: no callback any more */
  char *reason;
  guint64 statistics[SONDE_N_STATISTICS];

  SondeWorker *worker;
  SondeEventSet *events;
  SondeProcBroker *broker;
  SondeTargetSet *targets;
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
  static const char *const reasons[N_PHASES] = {
    [PHASE_HELLO] = "The worker did not say hello in time",
    [PHASE_RINGS] = "The worker did not map its rings in time",
    [PHASE_DRAIN] = "The worker did not drain its rings in time",
    [PHASE_DELIVERY] = "The readers did not take the rest of the capture in time",
  };
  SondeSession *self = user_data;

  self->deadline = 0;
  if (self->phase == PHASE_OVER) /* finished, and only its process stays */
    sonde_worker_kill (self->worker);
  else
    session_fail (self, reasons[self->phase]);
  return G_SOURCE_REMOVE;
}

/* @ms: 0 none */
static void
enter_phase (SondeSession *self, Phase phase, guint ms)
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
  sonde_target_set_unwatch (self->targets);
  enter_phase (self, PHASE_OVER, 0);
  if (self->reason == NULL || !g_str_equal (self->reason, "owner-left"))
    {
      g_free (self->reason);
      self->reason = g_strdup (error->message);
    }
  g_clear_pointer (&self->events, sonde_event_set_free);
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
send_process (SondeSession *self, guint64 request_id, pid_t pid, GError **error)
{
  SondeMessageProcess message;
  int fds[2];
  unsigned n_fds = sonde_proc_broker_open_process (self->broker, request_id, pid, &message, fds);

  message.header.type = SONDE_MESSAGE_PROCESS;
  return sonde_worker_send (self->worker, &message, sizeof message, fds, n_fds, error);
}

/* Opened disabled, confirmed, enabled: in this order (see target.h). */
static gboolean
open_targets (SondeSession *self, GPtrArray *targets, GError **error)
{
  for (guint i = 0; i < targets->len; i++)
    if (!sonde_event_set_open_process (self->events,
                                       sonde_target_pid (g_ptr_array_index (targets, i)), error))
      return FALSE;
  for (guint i = 0; i < targets->len; i++)
    if (!sonde_target_confirm (g_ptr_array_index (targets, i), error))
      return FALSE;
  return sonde_event_set_hand_over (self->events, self->worker, error);
}

/* The worker hears of targets once their events are on. @targets is empty afterwards. */
static gboolean
take_targets (SondeSession *self, GPtrArray *targets, GError **error)
{
  while (targets->len > 0)
    {
      SondeTarget *target = g_ptr_array_steal_index (targets, 0);

      sonde_proc_broker_allow (self->broker, sonde_target_pid (target),
                               sonde_target_start_ticks (target));
      sonde_target_set_take (self->targets, target);
      if (!send_process (self, 0, sonde_target_pid (target), error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_session_add_targets (SondeSession *self, GPtrArray *targets, GError **error)
{
  gboolean takes_targets
      = self->options->scope == SONDE_SCOPE_TARGETS || self->options->scope == SONDE_SCOPE_LAUNCH;

  if (!takes_targets || self->phase != PHASE_LIVE)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                           "Only a running session with targets or launch takes processes");
      return FALSE;
    }
  if (!sonde_target_set_prove (self->targets, targets, self->owner_uid, error))
    return FALSE;
  if (!open_targets (self, targets, error))
    {
      sonde_event_set_discard (self->events);
      return FALSE;
    }
  return take_targets (self, targets, error);
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
                                sonde_event_set_plan (self->events), error))
    return FALSE;
  enter_phase (self, PHASE_RINGS, SONDE_LIMIT_START_MS);
  return sonde_event_set_send_rings (self->events, self->worker, error);
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
  sonde_autofd int reader = -1;

  if (message->status != 0)
    return sonde_error_set_errno (error, message->status, "The worker cannot map its perf rings");
  reader = sonde_worker_setup_send_sink (self->worker, FIRST_SINK, error);
  if (reader < 0)
    return FALSE;
  if (self->options->scope == SONDE_SCOPE_SYSTEM
      && (!sonde_event_set_open_system (self->events, error)
          || !sonde_event_set_hand_over (self->events, self->worker, error)))
    return FALSE;
  if (!open_targets (self, self->options->targets, error)
      || !sonde_worker_send_simple (self->worker, SONDE_MESSAGE_START, error))
    return FALSE;
  enter_phase (self, PHASE_LIVE, 0);
  step (self, SONDE_STEP_STARTED);
  if (!take_targets (self, self->options->targets, error))
    return FALSE;
  start_duration (self);
  sonde_audit ("session-started", self->id, self->owner_uid,
               sonde_scope_name (self->options->scope));
  answer_start (self, sonde_steal_fd (&reader), NULL);
  return TRUE;
}

static gboolean
on_file_request (SondeSession *self, const SondeMessageFileRequest *request, GError **error)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int fd = sonde_proc_broker_open_file (self->broker, request);

  message.status = fd < 0 ? -fd : 0;
  return sonde_worker_send (self->worker, &message, sizeof message, &fd, fd < 0 ? 0 : 1, error);
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
  enter_phase (self, PHASE_DELIVERY,
               is_orphan ? SONDE_LIMIT_DELIVERY_ORPHAN_MS : SONDE_LIMIT_DELIVERY_MS);
  answer_stops (self, NULL);
}

static void
on_sink_closed (SondeSession *self, const SondeMessageSinkClosed *message)
{
  if (self->phase == PHASE_LIVE)
    sonde_session_stop (self, "reader-left");
}

static void
on_failed (SondeSession *self, const SondeMessageFailed *message)
{
  g_autofree char *text
      = g_utf8_make_valid (message->text, (gssize) strnlen (message->text, sizeof message->text));

  session_fail (self, text[0] != '\0' ? text : "The worker failed");
}

/* The order of the conversation: which message may come in which phase. */
static gboolean
is_expected (Phase phase, guint32 type)
{
  switch (type)
    {
    case SONDE_MESSAGE_HELLO:
      return phase == PHASE_HELLO;
    case SONDE_MESSAGE_RINGS_MAPPED:
      return phase == PHASE_RINGS;
    case SONDE_MESSAGE_PROCESS_REQUEST:
    case SONDE_MESSAGE_FILE_REQUEST:
    case SONDE_MESSAGE_STATISTICS:
    case SONDE_MESSAGE_SINK_CLOSED:
      return phase == PHASE_LIVE || phase == PHASE_DRAIN || phase == PHASE_DELIVERY;
    case SONDE_MESSAGE_DRAINED:
      return phase == PHASE_DRAIN;
    case SONDE_MESSAGE_FINISHED:
      return phase == PHASE_DELIVERY;
    case SONDE_MESSAGE_FAILED:
      return TRUE;
    default:
      return FALSE;
    }
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
      return send_process (self, ((const SondeMessageProcessRequest *) message)->request_id,
                           ((const SondeMessageProcessRequest *) message)->pid, error);
    case SONDE_MESSAGE_FILE_REQUEST:
      return on_file_request (self, message, error);
    case SONDE_MESSAGE_STATISTICS:
      take_statistics (self, message);
      return TRUE;
    case SONDE_MESSAGE_DRAINED:
      on_drained (self, message);
      return TRUE;
    case SONDE_MESSAGE_SINK_CLOSED:
      on_sink_closed (self, message);
      return TRUE;
    case SONDE_MESSAGE_FINISHED:
      take_statistics (self, message);
      enter_phase (self, PHASE_OVER, SONDE_LIMIT_WORKER_EXIT_MS);
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

  if (self->phase == PHASE_OVER)
    return;
  if (!is_expected (self->phase, message->type))
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
  if (self->phase == PHASE_OVER)
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
  self->handler = handler;
  self->user_data = user_data;
  self->state = SONDE_STATE_STARTING;
  self->broker = sonde_proc_broker_new (self->owner_uid, options->scope);
  self->targets = sonde_target_set_new (on_targets_exited, self);
  self->stops = g_ptr_array_new_with_free_func (g_object_unref);
  return self;
}

void
sonde_session_free (SondeSession *self)
{
  if (self == NULL)
    return;
  self->is_quiet = TRUE;
  enter_phase (self, PHASE_OVER, 0);
  g_clear_handle_id (&self->duration, g_source_remove);
  g_clear_pointer (&self->worker, sonde_worker_free);
  g_clear_pointer (&self->events, sonde_event_set_free);
  g_clear_pointer (&self->broker, sonde_proc_broker_free);
  g_clear_pointer (&self->targets, sonde_target_set_free);
  g_clear_pointer (&self->stops, g_ptr_array_unref);
  g_clear_pointer (&self->options, sonde_options_free);
  g_clear_pointer (&self->owner, sonde_caller_unref);
  g_free (self->reason);
  g_free (self);
}

gboolean
sonde_session_start (SondeSession *self, SondeWorkerLauncher *launcher, GError **error)
{
  static const SondeWorkerHandler handler
      = { .message = on_worker_message, .gone = on_worker_gone };

  if (!sonde_target_set_prove (self->targets, self->options->targets, self->owner_uid, error))
    return FALSE;
  self->events = sonde_event_set_new (self->options, error);
  if (self->events == NULL)
    return FALSE;
  self->worker = sonde_worker_spawn (launcher, &handler, self, error);
  if (self->worker == NULL)
    return FALSE;
  self->is_starting = TRUE;
  enter_phase (self, PHASE_HELLO, SONDE_LIMIT_START_MS);
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
  if (self->phase == PHASE_DELIVERY && g_str_equal (reason, "owner-left"))
    enter_phase (self, PHASE_DELIVERY, SONDE_LIMIT_DELIVERY_ORPHAN_MS);
  if (!step (self, SONDE_STEP_STOP))
    return;
  self->reason = g_strdup (reason);
  g_clear_handle_id (&self->duration, g_source_remove);
  sonde_target_set_unwatch (self->targets);
  g_clear_pointer (&self->events, sonde_event_set_free);
  enter_phase (self, PHASE_DRAIN, SONDE_LIMIT_DRAIN_MS);
  if (!sonde_worker_send_simple (self->worker, SONDE_MESSAGE_STOP, &error))
    session_fail_with (self, error);
}

void
sonde_session_stop_async (SondeSession *self, GAsyncReadyCallback callback, gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (NULL, NULL, callback, user_data);

  g_task_set_source_tag (task, sonde_session_stop_async);
  sonde_session_stop (self, "stopped");
  if (self->phase == PHASE_DRAIN)
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
