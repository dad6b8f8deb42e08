/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What one session profiles: its targets, their perf events, and what its worker may ask about. */
#include "daemon/control/session-scope.h"

#include "daemon/base/error.h"
#include "daemon/control/proc-broker.h"
#include "daemon/control/target-set.h"

struct SondeSessionScope
{
  const SondeOptions *options;
  uid_t owner_uid;
  SondeEventSet *events; /* NULL before it is prepared and once it is closed */
  SondeProcBroker *broker;
  SondeTargetSet *targets;
};

SondeSessionScope *
sonde_session_scope_new (const SondeOptions *options,
                         uid_t owner_uid,
                         void (*all_exited) (gpointer user_data),
                         gpointer user_data)
{
  SondeSessionScope *self = g_new0 (SondeSessionScope, 1);

  self->options = options;
  self->owner_uid = owner_uid;
  self->broker = sonde_proc_broker_new (owner_uid, options->scope);
  self->targets = sonde_target_set_new (all_exited, user_data);
  return self;
}

void
sonde_session_scope_free (SondeSessionScope *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->events, sonde_event_set_free);
  g_clear_pointer (&self->broker, sonde_proc_broker_free);
  g_clear_pointer (&self->targets, sonde_target_set_free);
  g_free (self);
}

gboolean
sonde_session_scope_prepare (SondeSessionScope *self, GError **error)
{
  if (!sonde_target_set_prove (self->targets, self->options->targets, self->owner_uid, error))
    return FALSE;
  self->events = sonde_event_set_new (self->options, error);
  return self->events != NULL;
}

const SondePerfPlan *
sonde_session_scope_plan (const SondeSessionScope *self)
{
  return sonde_event_set_plan (self->events);
}

gboolean
sonde_session_scope_send_rings (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  return sonde_event_set_send_rings (self->events, worker, error);
}

/* Opened disabled, confirmed, enabled: in this order (see target.h). */
static gboolean
open_targets (SondeSessionScope *self, GPtrArray *targets, SondeWorker *worker, GError **error)
{
  for (guint i = 0; i < targets->len; i++)
    if (!sonde_event_set_open_process (self->events,
                                       sonde_target_pid (g_ptr_array_index (targets, i)), error))
      return FALSE;
  for (guint i = 0; i < targets->len; i++)
    if (!sonde_target_confirm (g_ptr_array_index (targets, i), error))
      return FALSE;
  return sonde_event_set_hand_over (self->events, worker, error);
}

gboolean
sonde_session_scope_open (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  if (self->options->scope == SONDE_SCOPE_SYSTEM
      && !sonde_event_set_open_system (self->events, error))
    return FALSE;
  return open_targets (self, self->options->targets, worker, error);
}

static gboolean
send_process (
    SondeSessionScope *self, guint64 request_id, pid_t pid, SondeWorker *worker, GError **error)
{
  SondeMessageProcess message;
  int fds[2];
  unsigned n_fds = sonde_proc_broker_open_process (self->broker, request_id, pid, &message, fds);

  message.header.type = SONDE_MESSAGE_PROCESS;
  return sonde_worker_send (worker, &message, sizeof message, fds, n_fds, error);
}

/* The worker hears of targets once their events are on. @targets is empty afterwards. */
static gboolean
take_targets (SondeSessionScope *self, GPtrArray *targets, SondeWorker *worker, GError **error)
{
  while (targets->len > 0)
    {
      SondeTarget *target = g_ptr_array_steal_index (targets, 0);

      sonde_proc_broker_allow (self->broker, sonde_target_pid (target),
                               sonde_target_start_ticks (target));
      sonde_target_set_take (self->targets, target);
      if (!send_process (self, 0, sonde_target_pid (target), worker, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_session_scope_announce (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  return take_targets (self, self->options->targets, worker, error);
}

gboolean
sonde_session_scope_add (SondeSessionScope *self,
                         GPtrArray *targets,
                         SondeWorker *worker,
                         GError **error)
{
  gboolean takes_targets
      = self->options->scope == SONDE_SCOPE_TARGETS || self->options->scope == SONDE_SCOPE_LAUNCH;

  if (!takes_targets || self->events == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                           "Only a running session with targets or launch takes processes");
      return FALSE;
    }
  if (!sonde_target_set_prove (self->targets, targets, self->owner_uid, error))
    return FALSE;
  if (!open_targets (self, targets, worker, error))
    {
      sonde_event_set_discard (self->events);
      return FALSE;
    }
  return take_targets (self, targets, worker, error);
}

gboolean
sonde_session_scope_answer_process (SondeSessionScope *self,
                                    const SondeMessageProcessRequest *request,
                                    SondeWorker *worker,
                                    GError **error)
{
  return send_process (self, request->request_id, request->pid, worker, error);
}

gboolean
sonde_session_scope_answer_file (SondeSessionScope *self,
                                 const SondeMessageFileRequest *request,
                                 SondeWorker *worker,
                                 GError **error)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int fd = sonde_proc_broker_open_file (self->broker, request);

  message.status = fd < 0 ? -fd : 0;
  return sonde_worker_send (worker, &message, sizeof message, &fd, fd < 0 ? 0 : 1, error);
}

void
sonde_session_scope_close (SondeSessionScope *self)
{
  sonde_target_set_unwatch (self->targets);
  g_clear_pointer (&self->events, sonde_event_set_free);
}
