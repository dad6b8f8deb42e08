/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What one session profiles: its targets, their perf events, and what its worker may ask about. */
#include "daemon/control/session/session-scope.h"

#include <errno.h>

#include "daemon/base/error.h"
#include "daemon/control/system/cpu-follower.h"
#include "daemon/control/system/group-watch.h"
#include "daemon/control/session/proc-answer.h"
#include "daemon/control/session/target-set.h"
#include "daemon/control/events/unit-events.h"
#include "daemon/control/system/unit.h"
#include "daemon/control/worker/worker-note.h"

struct SondeSessionScope
{
  const SondeOptions *options;
  SondeTracer owner;
  SondeEventSet *events; /* NULL before it is prepared and once it is closed */
  SondeProcBroker *broker;
  SondeFileQueue *files;     /* requests that wait for it */
  SondeWorker *files_worker; /* whose they are: it goes with us */
  GError *files_error;       /* why it could not be answered */
  SondeTargetSet *targets;
  gboolean has_mounts; /* the worker was given a target's */

  SondeCpuFollower *cpus; /* while it is open */
  SondeWorker *worker;    /* the same */
  int awaited_cpu;        /* whose rings the worker was asked to map; -1: none */
  gint64 awaited_from_ns; /* since when it had been off; 0: never was on */
  const SondeSessionScopeHandler *handler;
  gpointer user_data;

  SondeControlGroup *group; /* of the scope `unit` once systemd has told */
  SondeGroupWatch *watch;   /* of it, while its events are on */
  char *note;               /* for the capture */
  GCancellable *lookup;     /* of the question to systemd, while it is open */
  GError *lookup_error;
  SondeSessionScopeReady ready; /* who waits for the answer */
  gpointer ready_data;
};

/* A worker that cannot be told shows at its next request, if not by itself. */
static gboolean
answer_file (const SondeMessageFileRequest *request, gpointer user_data)
{
  SondeSessionScope *self = user_data;

  g_clear_error (&self->files_error);
  return sonde_proc_answer_file (self->broker, request, self->files_worker, &self->files_error);
}

SondeSessionScope *
sonde_session_scope_new (const SondeOptions *options,
                         uid_t owner_uid,
                         pid_t owner_pid,
                         const SondeSessionScopeHandler *handler,
                         gpointer user_data)
{
  SondeSessionScope *self = g_new0 (SondeSessionScope, 1);

  self->options = options;
  sonde_tracer_init (&self->owner, owner_uid, owner_pid);
  self->broker = sonde_proc_broker_new (owner_uid, options->scope, options->raw);
  if (!options->children)
    sonde_proc_broker_refuse_children (self->broker);
  self->files = sonde_file_queue_new (self->broker, answer_file, self);
  self->targets = sonde_target_set_new (handler->all_exited, user_data);
  self->awaited_cpu = -1;
  self->handler = handler;
  self->user_data = user_data;
  return self;
}

void
sonde_session_scope_free (SondeSessionScope *self)
{
  if (self == NULL)
    return;
  if (self->lookup != NULL)
    g_cancellable_cancel (self->lookup);
  g_clear_object (&self->lookup);
  g_clear_error (&self->lookup_error);
  g_clear_pointer (&self->cpus, sonde_cpu_follower_free);
  g_clear_pointer (&self->events, sonde_event_set_free);
  g_clear_pointer (&self->files, sonde_file_queue_free);
  g_clear_error (&self->files_error);
  g_clear_pointer (&self->broker, sonde_proc_broker_free);
  g_clear_pointer (&self->targets, sonde_target_set_free);
  g_clear_pointer (&self->watch, sonde_group_watch_free);
  g_clear_pointer (&self->group, sonde_control_group_free);
  g_free (self->note);
  g_free (self);
}

static void
on_group_found (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeSessionScope *self;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = sonde_unit_find_group_finish (result, &error);

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return; /* self is gone */
  self = user_data;
  g_clear_object (&self->lookup);
  if (path == NULL || (self->group = sonde_control_group_open (path, &error)) == NULL)
    self->lookup_error = g_steal_pointer (&error);
  else
    sonde_proc_broker_allow_group (self->broker, self->group);
  if (self->ready != NULL)
    self->ready (self->lookup_error, self->ready_data);
}

gboolean
sonde_session_scope_prepare (SondeSessionScope *self, GError **error)
{
  if (!sonde_target_set_prove (self->targets, self->options->targets, &self->owner, error))
    return FALSE;
  self->events = sonde_event_set_new (self->options, self->owner.uid, error);
  if (self->events == NULL)
    return FALSE;
  if (self->options->scope == SONDE_SCOPE_UNIT)
    {
      self->lookup = g_cancellable_new ();
      sonde_unit_find_group_async (self->options->unit, self->lookup, on_group_found, self);
    }
  return TRUE;
}

void
sonde_session_scope_when_ready (SondeSessionScope *self,
                                SondeSessionScopeReady ready,
                                gpointer user_data)
{
  if (self->lookup == NULL)
    {
      ready (self->lookup_error, user_data);
      return;
    }
  self->ready = ready;
  self->ready_data = user_data;
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

static gboolean
check_room (const SondeSessionScope *self, GPtrArray *targets, GError **error)
{
  g_autoptr (GArray) pids = g_array_new (FALSE, FALSE, sizeof (gint));

  for (guint i = 0; i < targets->len; i++)
    {
      gint pid = sonde_target_pid (g_ptr_array_index (targets, i));

      g_array_append_val (pids, pid);
    }
  return sonde_event_set_check_room (self->events, self->owner.uid, pids, error);
}

/* Opened disabled, confirmed, enabled: in this order (see target.h). */
static gboolean
open_targets (SondeSessionScope *self, GPtrArray *targets, SondeWorker *worker, GError **error)
{
  gboolean is_late = sonde_event_set_n_handed_over (self->events) > 0;

  if (!check_room (self, targets, error))
    return FALSE;
  for (guint i = 0; i < targets->len; i++)
    {
      const SondeTarget *target = g_ptr_array_index (targets, i);

      if (!sonde_event_set_open_process (self->events, sonde_target_pid (target),
                                         sonde_target_process_fd (target), is_late, error))
        return FALSE;
    }
  for (guint i = 0; i < targets->len; i++)
    if (!sonde_target_confirm (g_ptr_array_index (targets, i), &self->owner, error))
      return FALSE;
  return sonde_event_set_hand_over (self->events, worker, error);
}

/* A unit that starts again gets another group: what the session sees is over then. */
static gboolean
open_unit (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  if (!sonde_unit_events_open (self->events, self->group, self->options->unit, self->owner.uid,
                               &self->note, error)
      || !sonde_event_set_hand_over (self->events, worker, error))
    return FALSE;
  self->watch = sonde_group_watch_new (self->group, self->handler->all_exited, self->user_data);
  return TRUE;
}

static gboolean
open_scope (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  switch (self->options->scope)
    {
    case SONDE_SCOPE_SYSTEM:
      return sonde_event_set_open_system (self->events, error)
             && sonde_event_set_hand_over (self->events, worker, error);
    case SONDE_SCOPE_UNIT:
      return open_unit (self, worker, error);
    case SONDE_SCOPE_TARGETS:
    case SONDE_SCOPE_LAUNCH:
    case SONDE_SCOPE_PIDS:
    default:
      return open_targets (self, self->options->targets, worker, error);
    }
}

/* --- processors that come --- */

/* Events of tasks outlive the absence of their CPU, those of a whole CPU do not. */
static gboolean
has_whole_cpus (const SondeSessionScope *self)
{
  return self->options->scope == SONDE_SCOPE_SYSTEM
         || (self->options->scope == SONDE_SCOPE_UNIT && self->note == NULL);
}

/* Of the processes that were named; those that they have made are told of in the note. */
static gboolean
open_members_on_cpu (SondeSessionScope *self, GError **error)
{
  g_autofree char *note = NULL;

  if (self->options->scope == SONDE_SCOPE_UNIT)
    return sonde_unit_events_open (self->events, self->group, self->options->unit, self->owner.uid,
                                   &note, error);
  return sonde_target_set_open (self->targets, self->events, &self->owner, error);
}

static gboolean
open_on_cpu (SondeSessionScope *self, int cpu, GError **error)
{
  gboolean is_open;

  sonde_event_set_revive (self->events, cpu);
  sonde_event_set_narrow (self->events, cpu);
  if (self->options->scope == SONDE_SCOPE_SYSTEM)
    is_open = sonde_event_set_open_system (self->events, error);
  else if (has_whole_cpus (self))
    is_open
        = sonde_event_set_open_group (self->events, sonde_control_group_fd (self->group), error);
  else
    is_open = open_members_on_cpu (self, error);
  sonde_event_set_narrow (self->events, -1);
  if (is_open)
    return sonde_event_set_hand_over (self->events, self->worker, error);
  sonde_event_set_discard_from (self->events, 0);
  return FALSE;
}

static char *
describe_gap (const SondeSessionScope *self, int cpu, gint64 from_ns)
{
  double until_s = (double) g_get_monotonic_time () / 1e6;

  if (from_ns != 0)
    return g_strdup_printf ("Processor %d was off between %.3f s and %.3f s", cpu,
                            (double) from_ns / 1e9, until_s);
  return g_strdup_printf ("Processor %d came at %.3f s%s", cpu, until_s,
                          has_whole_cpus (self)
                              ? ""
                              : "; of processes that others of the session had made before it "
                                "shows nothing");
}

/* @error: (nullable): why its events could not be opened. A connection that breaks shows by itself.
 */
static void
tell_of_cpu (SondeSessionScope *self, int cpu, gint64 from_ns, const GError *error)
{
  g_autofree char *text = error == NULL
                              ? describe_gap (self, cpu, from_ns)
                              : g_strdup_printf ("Processor %d cannot be recorded (any more): %s",
                                                 cpu, error->message);

  sonde_worker_note_send (self->worker, text, NULL);
}

static gboolean
is_counting (int cpu, gpointer user_data)
{
  SondeSessionScope *self = user_data;

  return sonde_event_set_is_counting (self->events, cpu);
}

/* Until when it was seen, as exactly as is known. */
static gint64
find_end (SondeSessionScope *self, int cpu, gint64 from_ns)
{
  gint64 counted_until_ns = sonde_event_set_counted_until_ns (self->events, cpu);

  return from_ns != 0 && counted_until_ns != 0 ? MIN (from_ns, counted_until_ns) : from_ns;
}

/* Its rings are there. */
static void
take_back (SondeSessionScope *self, int cpu, gint64 from_ns)
{
  g_autoptr (GError) error = NULL;

  from_ns = find_end (self, cpu, from_ns);
  if (has_whole_cpus (self))
    open_on_cpu (self, cpu, &error);
  else
    sonde_event_set_revive (self->events, cpu);
  tell_of_cpu (self, cpu, from_ns, error);
  self->handler->changed (self->user_data);
}

static gboolean
on_cpu_came (int cpu, gint64 from_ns, gpointer user_data)
{
  SondeSessionScope *self = user_data;
  g_autoptr (GError) error = NULL;

  if (sonde_event_set_has_cpu (self->events, cpu))
    {
      take_back (self, cpu, from_ns);
      return TRUE;
    }
  /* One after the other. */
  if (self->awaited_cpu >= 0)
    return FALSE;
  if (sonde_event_set_add_cpu (self->events, cpu, self->worker, &error)
      && sonde_event_set_has_cpu (self->events, cpu))
    {
      self->awaited_cpu = cpu;
      self->awaited_from_ns = from_ns;
      return TRUE;
    }
  sonde_event_set_take_cpu (self->events, cpu, FALSE);
  if (error != NULL)
    tell_of_cpu (self, cpu, from_ns, error);
  return error != NULL;
}

gboolean
sonde_session_scope_rings_mapped (SondeSessionScope *self, int status, GError **error)
{
  g_autoptr (GError) why = NULL;
  int cpu = self->awaited_cpu;

  if (cpu < 0)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker mapped rings that it was not given");
      return FALSE;
    }
  self->awaited_cpu = -1;
  sonde_event_set_take_cpu (self->events, cpu, status == 0);
  if (status != 0)
    sonde_error_set_errno (&why, status, "the worker cannot map its ring");
  else
    open_on_cpu (self, cpu, &why);
  tell_of_cpu (self, cpu, self->awaited_from_ns, why);
  return TRUE;
}

static void
follow_cpus (SondeSessionScope *self, SondeWorker *worker)
{
  static const SondeCpuFollowerHandler handler = { is_counting, on_cpu_came };

  self->worker = worker;
  self->cpus = sonde_cpu_follower_new (SONDE_CPUS_ONLINE_PATH, sonde_event_set_cpus (self->events),
                                       &handler, self);
}

gboolean
sonde_session_scope_open (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  if (!open_scope (self, worker, error))
    return FALSE;
  follow_cpus (self, worker);
  return TRUE;
}

/* A session of one's own processes sees the mounts that they see; nothing is lost without. */
static gboolean
send_mounts (SondeSessionScope *self, pid_t pid, SondeWorker *worker, GError **error)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTS };
  int fd;

  if (self->has_mounts || self->options->scope == SONDE_SCOPE_PIDS)
    return TRUE;
  fd = sonde_proc_broker_open_mounts (self->broker, pid);
  self->has_mounts = fd >= 0;
  return fd < 0 || sonde_worker_send (worker, &message, sizeof message, &fd, 1, error);
}

/* @is_readable: else it is only known that it is to be counted. */
static gboolean
send_counters (SondeSessionScope *self,
               const SondeTarget *target,
               gboolean is_readable,
               SondeWorker *worker,
               GError **error)
{
  SondeMessageCounters message = { .header.type = SONDE_MESSAGE_COUNTERS,
                                   .kind = SONDE_COUNTER_KIND_PROCESS,
                                   .pid = sonde_target_pid (target) };
  int fd;

  if ((self->options->counters & SONDE_COUNTERS_PROCESS) == 0)
    return TRUE;
  fd = is_readable ? sonde_proc_broker_open_stat (self->broker, target) : -1;
  return sonde_worker_send (worker, &message, sizeof message, &fd, fd < 0 ? 0 : 1, error);
}

/* The worker hears of targets once their events are on; with `start-on-exec` their records alone
 * will tell of what they execute. @targets is empty afterwards. */
static gboolean
take_targets (SondeSessionScope *self, GPtrArray *targets, SondeWorker *worker, GError **error)
{
  while (targets->len > 0)
    {
      SondeTarget *target = g_ptr_array_steal_index (targets, 0);
      pid_t pid = sonde_target_pid (target);

      sonde_proc_broker_allow (self->broker, target);
      sonde_target_set_take (self->targets, target);
      if (!send_mounts (self, pid, worker, error)
          || !send_counters (self, target, !self->options->start_on_exec, worker, error)
          || (!self->options->start_on_exec
              && !sonde_proc_answer_process (self->broker, 0, pid, worker, error)))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_session_scope_announce (SondeSessionScope *self, SondeWorker *worker, GError **error)
{
  if (self->note != NULL && !sonde_worker_note_send (worker, self->note, error))
    return FALSE;
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
  if (!sonde_target_set_prove (self->targets, targets, &self->owner, error))
    return FALSE;
  if (!open_targets (self, targets, worker, error))
    {
      sonde_event_set_discard_from (self->events, 0);
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
  return sonde_proc_answer_process (self->broker, request->request_id, request->pid, worker, error);
}

gboolean
sonde_session_scope_answer_file (SondeSessionScope *self,
                                 const SondeMessageFileRequest *request,
                                 SondeWorker *worker,
                                 GError **error)
{
  if (sonde_proc_broker_has_queries (self->broker))
    return sonde_proc_answer_file (self->broker, request, worker, error);
  if (self->files_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&self->files_error));
      return FALSE;
    }
  self->files_worker = worker;
  return sonde_file_queue_push (self->files, request)
         || sonde_proc_refuse_file (request, EAGAIN, worker, error);
}

gboolean
sonde_session_scope_answer_counters (SondeSessionScope *self,
                                     const SondeMessageCountersRequest *request,
                                     SondeWorker *worker,
                                     GError **error)
{
  const SondeTarget *target = sonde_target_set_find (self->targets, request->pid);

  return target == NULL || send_counters (self, target, TRUE, worker, error);
}

void
sonde_session_scope_close (SondeSessionScope *self)
{
  sonde_target_set_unwatch (self->targets);
  g_clear_pointer (&self->cpus, sonde_cpu_follower_free);
  g_clear_pointer (&self->watch, sonde_group_watch_free);
  g_clear_pointer (&self->events, sonde_event_set_free);
}

void
sonde_session_scope_record (const SondeSessionScope *self, SondeSessionRecord *record)
{
  sonde_target_set_record (self->targets, record->targets);
  sonde_proc_broker_record (self->broker, record->named);
  if (self->group != NULL)
    record->group = g_strdup (sonde_control_group_path (self->group));
  record->note = g_strdup (self->note);
  if (self->events != NULL)
    sonde_event_set_record (self->events, record);
}

GArray *
sonde_session_scope_ring_fds (const SondeSessionScope *self)
{
  return self->events != NULL ? sonde_event_set_ring_fds (self->events)
                              : g_array_new (FALSE, FALSE, sizeof (int));
}

GArray *
sonde_session_scope_pulse_fds (const SondeSessionScope *self)
{
  return self->events != NULL ? sonde_event_set_pulse_fds (self->events)
                              : g_array_new (FALSE, FALSE, sizeof (int));
}

/* Without its rings, or without its unit, a session goes on with what it has. */
void
sonde_session_scope_restore (SondeSessionScope *self,
                             const SondeSessionRecord *record,
                             GArray *event_fds,
                             SondeWorker *worker)
{
  g_autoptr (GError) error = NULL;

  sonde_proc_broker_set_began (self->broker, record->start_time_us);
  for (guint i = 0; i < record->targets->len; i++)
    {
      SondeTarget *target
          = sonde_target_new_recorded (&g_array_index (record->targets, SondeRecordTarget, i));

      sonde_proc_broker_allow (self->broker, target);
      sonde_target_set_take (self->targets, target);
    }
  sonde_proc_broker_allow_recorded (self->broker, record->named);
  self->has_mounts = TRUE;
  self->note = g_strdup (record->note);
  if (record->group != NULL && (self->group = sonde_control_group_open (record->group, NULL)))
    sonde_proc_broker_allow_group (self->broker, self->group);
  if (record->state == SONDE_STATE_DRAINING)
    return;
  self->events = sonde_event_set_new_recorded (self->options, record, event_fds, &error);
  if (self->events != NULL)
    follow_cpus (self, worker);
  else
    g_warning ("A session that was taken over cannot take more processes: %s", error->message);
  if (self->group != NULL)
    self->watch = sonde_group_watch_new (self->group, self->handler->all_exited, self->user_data);
}

gboolean
sonde_session_scope_is_over (const SondeSessionScope *self)
{
  return sonde_target_set_is_over (self->targets)
         || (self->options->scope == SONDE_SCOPE_UNIT && self->group == NULL);
}
