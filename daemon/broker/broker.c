/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens for one session what needs rights: its targets, their perf events, what its worker asks. */
#include "daemon/broker/broker.h"

#include <errno.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/broker/cpu-follower.h"
#include "daemon/broker/group-watch.h"
#include "daemon/broker/proc-answer.h"
#include "daemon/broker/result-queue.h"
#include "daemon/broker/target-set.h"
#include "daemon/broker/unit-events.h"
#include "daemon/broker/worker-setup.h"

struct SondeBroker
{
  SondeAsked asked;
  SondeTracer owner;
  SondeResultQueue *results;
  SondeEventSet *events; /* NULL before it is prepared and once it is closed */
  SondeProcBroker *broker;
  SondeFileQueue *files; /* requests that wait for it */
  SondeTargetSet *targets;
  GPtrArray *proven;    /* SondeTarget: until their events are open and they are announced */
  gboolean has_mounts;  /* the worker was given a target's */
  gboolean is_restored; /* the sonded before us may have sent what is answered now */

  SondeCpuFollower *cpus; /* while it is open */
  int awaited_cpu;        /* whose rings the worker was asked to map; -1: none */
  gint64 awaited_from_ns; /* since when it had been off; 0: never was on */

  SondeControlGroup *group; /* of the scope `unit`, once it is open */
  SondeGroupWatch *watch;   /* of it, while its events are on */
  char *note;               /* for the capture */
};

static void
answer_file (const SondeMessageFileRequest *request, gpointer user_data)
{
  SondeBroker *self = user_data;

  sonde_proc_answer_file (self->broker, request, self->results);
}

static void
on_all_ended (gpointer user_data)
{
  SondeBroker *self = user_data;

  sonde_result_queue_push (self->results, SONDE_RESULT_ALL_ENDED, NULL);
}

SondeBroker *
sonde_broker_new (const SondeAsked *asked,
                  uid_t owner_uid,
                  pid_t owner_pid,
                  const SondeBrokerResults *results,
                  gpointer user_data)
{
  SondeBroker *self = g_new0 (SondeBroker, 1);

  self->asked = *asked;
  sonde_tracer_init (&self->owner, owner_uid, owner_pid);
  self->results = sonde_result_queue_new (results, user_data);
  self->broker = sonde_proc_broker_new (owner_uid, asked->scope, asked->raw);
  if (!asked->children)
    sonde_proc_broker_refuse_children (self->broker);
  self->files = sonde_file_queue_new (self->broker, answer_file, self);
  self->targets = sonde_target_set_new (on_all_ended, self);
  self->proven = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  self->awaited_cpu = -1;
  return self;
}

void
sonde_broker_free (SondeBroker *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->cpus, sonde_cpu_follower_free);
  g_clear_pointer (&self->events, sonde_event_set_free);
  g_clear_pointer (&self->files, sonde_file_queue_free);
  g_clear_pointer (&self->broker, sonde_proc_broker_free);
  g_clear_pointer (&self->targets, sonde_target_set_free);
  g_clear_pointer (&self->proven, g_ptr_array_unref);
  g_clear_pointer (&self->watch, sonde_group_watch_free);
  g_clear_pointer (&self->group, sonde_control_group_free);
  g_clear_pointer (&self->results, sonde_result_queue_free);
  g_free (self->note);
  g_free (self);
}

/* @asked: (transfer full) (element-type SondeAskedTarget). Returns: (transfer full) (element-type
 * SondeTarget) */
static GPtrArray *
take_asked (GPtrArray *asked)
{
  GPtrArray *targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);

  while (asked->len > 0)
    g_ptr_array_add (targets, sonde_target_new (g_ptr_array_steal_index (asked, 0)));
  g_ptr_array_unref (asked);
  return targets;
}

static gboolean
prove (SondeBroker *self, GError **error)
{
  if (!sonde_target_set_prove (self->targets, self->proven, &self->owner, error))
    return FALSE;
  self->events = sonde_event_set_new (&self->asked, self->owner.uid, error);
  return self->events != NULL;
}

void
sonde_broker_prove (SondeBroker *self, GPtrArray *targets)
{
  GError *error = NULL;

  g_ptr_array_unref (self->proven);
  self->proven = take_asked (targets);
  prove (self, &error);
  sonde_result_queue_push (self->results, SONDE_RESULT_PROVED, error);
}

void
sonde_broker_set_up (SondeBroker *self, guint64 session_id)
{
  GError *error = NULL;

  if (!sonde_worker_setup_send (self->results, session_id, self->owner.uid, &self->asked,
                                sonde_event_set_plan (self->events), &error)
      || !sonde_event_set_send_rings (self->events, self->results, &error))
    sonde_result_queue_push (self->results, SONDE_RESULT_FAILED, error);
}

static gboolean
check_room (const SondeBroker *self, GPtrArray *targets, GError **error)
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
open_targets (SondeBroker *self, GPtrArray *targets, GError **error)
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
  return sonde_event_set_hand_over (self->events, self->results, error);
}

/* A unit that starts again gets another group: what the session sees is over then. */
static gboolean
open_unit (SondeBroker *self, const char *group, GError **error)
{
  self->group = sonde_control_group_open (group, error);
  if (self->group == NULL)
    return FALSE;
  sonde_proc_broker_allow_group (self->broker, self->group);
  if (!sonde_unit_events_open (self->events, self->group, self->asked.unit, self->owner.uid,
                               &self->note, error)
      || !sonde_event_set_hand_over (self->events, self->results, error))
    return FALSE;
  self->watch = sonde_group_watch_new (self->group, on_all_ended, self);
  return TRUE;
}

static gboolean
open_scope (SondeBroker *self, const char *group, GError **error)
{
  switch (self->asked.scope)
    {
    case SONDE_SCOPE_SYSTEM:
      return sonde_event_set_open_system (self->events, error)
             && sonde_event_set_hand_over (self->events, self->results, error);
    case SONDE_SCOPE_UNIT:
      return open_unit (self, group, error);
    case SONDE_SCOPE_TARGETS:
    case SONDE_SCOPE_LAUNCH:
    case SONDE_SCOPE_PIDS:
    default:
      return open_targets (self, self->proven, error);
    }
}

/* --- processors that come --- */

/* Events of tasks outlive the absence of their CPU, those of a whole CPU do not. */
static gboolean
has_whole_cpus (const SondeBroker *self)
{
  return self->asked.scope == SONDE_SCOPE_SYSTEM
         || (self->asked.scope == SONDE_SCOPE_UNIT && self->note == NULL);
}

/* Of the processes that were named; those that they have made are told of in the note. */
static gboolean
open_members_on_cpu (SondeBroker *self, GError **error)
{
  g_autofree char *note = NULL;

  if (self->asked.scope == SONDE_SCOPE_UNIT)
    return sonde_unit_events_open (self->events, self->group, self->asked.unit, self->owner.uid,
                                   &note, error);
  return sonde_target_set_open (self->targets, self->events, &self->owner, error);
}

static gboolean
open_on_cpu (SondeBroker *self, int cpu, GError **error)
{
  gboolean is_open;

  sonde_event_set_revive (self->events, cpu);
  sonde_event_set_narrow (self->events, cpu);
  if (self->asked.scope == SONDE_SCOPE_SYSTEM)
    is_open = sonde_event_set_open_system (self->events, error);
  else if (has_whole_cpus (self))
    is_open
        = sonde_event_set_open_group (self->events, sonde_control_group_fd (self->group), error);
  else
    is_open = open_members_on_cpu (self, error);
  sonde_event_set_narrow (self->events, -1);
  if (is_open)
    return sonde_event_set_hand_over (self->events, self->results, error);
  sonde_event_set_discard_from (self->events, 0);
  return FALSE;
}

static char *
describe_gap (const SondeBroker *self, int cpu, gint64 from_ns)
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

/* @error: (nullable): why its events could not be opened. */
static void
tell_of_cpu (SondeBroker *self, int cpu, gint64 from_ns, const GError *error)
{
  g_autofree char *text = error == NULL
                              ? describe_gap (self, cpu, from_ns)
                              : g_strdup_printf ("Processor %d cannot be recorded (any more): %s",
                                                 cpu, error->message);

  sonde_result_queue_note (self->results, text);
}

static gboolean
is_counting (int cpu, gpointer user_data)
{
  SondeBroker *self = user_data;

  return sonde_event_set_is_counting (self->events, cpu);
}

/* Until when it was seen, as exactly as is known. */
static gint64
find_end (SondeBroker *self, int cpu, gint64 from_ns)
{
  gint64 counted_until_ns = sonde_event_set_counted_until_ns (self->events, cpu);

  return from_ns != 0 && counted_until_ns != 0 ? MIN (from_ns, counted_until_ns) : from_ns;
}

/* Its rings are there. */
static void
take_back (SondeBroker *self, int cpu, gint64 from_ns)
{
  g_autoptr (GError) error = NULL;

  from_ns = find_end (self, cpu, from_ns);
  if (has_whole_cpus (self))
    open_on_cpu (self, cpu, &error);
  else
    sonde_event_set_revive (self->events, cpu);
  tell_of_cpu (self, cpu, from_ns, error);
  sonde_result_queue_push (self->results, SONDE_RESULT_CHANGED, NULL);
}

static gboolean
on_cpu_came (int cpu, gint64 from_ns, gpointer user_data)
{
  SondeBroker *self = user_data;
  g_autoptr (GError) error = NULL;

  if (sonde_event_set_has_cpu (self->events, cpu))
    {
      take_back (self, cpu, from_ns);
      return TRUE;
    }
  /* One after the other. */
  if (self->awaited_cpu >= 0)
    return FALSE;
  if (sonde_event_set_add_cpu (self->events, cpu, self->results, &error)
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

/* The sonded before us may have asked for them. */
static void
refuse_rings (SondeBroker *self)
{
  if (!self->is_restored)
    sonde_result_queue_push (self->results, SONDE_RESULT_FAILED,
                             g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED,
                                                  "The worker mapped rings that it was not given"));
}

void
sonde_broker_take_rings_mapped (SondeBroker *self, int status)
{
  g_autoptr (GError) why = NULL;
  int cpu = self->awaited_cpu;

  if (self->events == NULL)
    return; /* what they were for is closed */
  if (cpu < 0)
    {
      refuse_rings (self);
      return;
    }
  self->awaited_cpu = -1;
  sonde_event_set_take_cpu (self->events, cpu, status == 0);
  if (status != 0)
    sonde_error_set_errno (&why, status, "the worker cannot map its ring");
  else
    open_on_cpu (self, cpu, &why);
  tell_of_cpu (self, cpu, self->awaited_from_ns, why);
  sonde_result_queue_push (self->results, SONDE_RESULT_RINGS_CHANGED, NULL);
}

static void
follow_cpus (SondeBroker *self)
{
  static const SondeCpuFollowerHandler handler = { is_counting, on_cpu_came };

  self->cpus = sonde_cpu_follower_new (SONDE_CPUS_ONLINE_PATH, sonde_event_set_cpus (self->events),
                                       &handler, self);
}

void
sonde_broker_open (SondeBroker *self, const char *group)
{
  GError *error = NULL;

  if (open_scope (self, group, &error))
    follow_cpus (self);
  sonde_result_queue_push (self->results, SONDE_RESULT_OPENED, error);
}

/* A session of one's own processes sees the mounts that they see; nothing is lost without. */
static void
send_mounts (SondeBroker *self, pid_t pid)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTS };
  int fd;

  if (self->has_mounts || self->asked.scope == SONDE_SCOPE_PIDS)
    return;
  fd = sonde_proc_broker_open_mounts (self->broker, pid);
  self->has_mounts = fd >= 0;
  if (fd >= 0)
    sonde_result_queue_message (self->results, &message, sizeof message, &fd, 1);
}

/* @is_readable: else it is only known that it is to be counted. */
static void
send_counters (SondeBroker *self, const SondeTarget *target, gboolean is_readable)
{
  SondeMessageCounters message = { .header.type = SONDE_MESSAGE_COUNTERS,
                                   .kind = SONDE_COUNTER_KIND_PROCESS,
                                   .pid = sonde_target_pid (target) };
  int fd;

  if ((self->asked.counters & SONDE_COUNTERS_PROCESS) == 0)
    return;
  fd = is_readable ? sonde_proc_broker_open_stat (self->broker, target) : -1;
  sonde_result_queue_message (self->results, &message, sizeof message, &fd, fd < 0 ? 0 : 1);
}

/* The worker hears of targets once their events are on; with `start-on-exec` their records alone
 * will tell of what they execute. @targets is empty afterwards. */
static void
take_targets (SondeBroker *self, GPtrArray *targets)
{
  while (targets->len > 0)
    {
      SondeTarget *target = g_ptr_array_steal_index (targets, 0);
      pid_t pid = sonde_target_pid (target);

      sonde_proc_broker_allow (self->broker, target);
      sonde_target_set_take (self->targets, target);
      send_mounts (self, pid);
      send_counters (self, target, !self->asked.start_on_exec);
      if (!self->asked.start_on_exec)
        sonde_proc_answer_process (self->broker, 0, pid, self->results);
    }
}

void
sonde_broker_announce (SondeBroker *self)
{
  if (self->note != NULL)
    sonde_result_queue_note (self->results, self->note);
  take_targets (self, self->proven);
}

static gboolean
add (SondeBroker *self, GPtrArray *targets, GError **error)
{
  gboolean takes_targets
      = self->asked.scope == SONDE_SCOPE_TARGETS || self->asked.scope == SONDE_SCOPE_LAUNCH;

  if (!takes_targets || self->events == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                           "Only a running session with targets or launch takes processes");
      return FALSE;
    }
  if (!sonde_target_set_prove (self->targets, targets, &self->owner, error))
    return FALSE;
  if (!open_targets (self, targets, error))
    {
      sonde_event_set_discard_from (self->events, 0);
      return FALSE;
    }
  take_targets (self, targets);
  return TRUE;
}

void
sonde_broker_add (SondeBroker *self, GPtrArray *targets)
{
  g_autoptr (GPtrArray) taken = take_asked (targets);
  GError *error = NULL;

  add (self, taken, &error);
  sonde_result_queue_push (self->results, SONDE_RESULT_ADDED, error);
}

void
sonde_broker_ask_process (SondeBroker *self, const SondeMessageProcessRequest *request)
{
  sonde_proc_answer_process (self->broker, request->request_id, request->pid, self->results);
}

void
sonde_broker_ask_file (SondeBroker *self, const SondeMessageFileRequest *request)
{
  if (sonde_proc_broker_has_queries (self->broker))
    sonde_proc_answer_file (self->broker, request, self->results);
  else if (!sonde_file_queue_push (self->files, request))
    sonde_proc_refuse_file (request, EAGAIN, self->results);
}

void
sonde_broker_ask_counters (SondeBroker *self, const SondeMessageCountersRequest *request)
{
  const SondeTarget *target = sonde_target_set_find (self->targets, request->pid);

  if (target != NULL)
    send_counters (self, target, TRUE);
}

void
sonde_broker_close (SondeBroker *self)
{
  sonde_target_set_unwatch (self->targets);
  g_clear_pointer (&self->cpus, sonde_cpu_follower_free);
  g_clear_pointer (&self->watch, sonde_group_watch_free);
  g_clear_pointer (&self->events, sonde_event_set_free);
}

void
sonde_broker_record (const SondeBroker *self, SondeBrokerRecord *record)
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
sonde_broker_ring_fds (const SondeBroker *self)
{
  return self->events != NULL ? sonde_event_set_ring_fds (self->events)
                              : g_array_new (FALSE, FALSE, sizeof (int));
}

GArray *
sonde_broker_pulse_fds (const SondeBroker *self)
{
  return self->events != NULL ? sonde_event_set_pulse_fds (self->events)
                              : g_array_new (FALSE, FALSE, sizeof (int));
}

/* Whether it had targets, and none is left. */
static gboolean
is_over (const SondeBroker *self)
{
  return sonde_target_set_is_over (self->targets)
         || (self->asked.scope == SONDE_SCOPE_UNIT && self->group == NULL);
}

static void
restore_events (SondeBroker *self, const SondeBrokerRecord *record, GArray *event_fds)
{
  g_autoptr (GError) error = NULL;

  self->events = sonde_event_set_new_recorded (&self->asked, record, event_fds, &error);
  if (self->events != NULL)
    follow_cpus (self);
  else
    g_warning ("A session that was taken over cannot take more processes: %s", error->message);
  if (self->group != NULL)
    self->watch = sonde_group_watch_new (self->group, on_all_ended, self);
}

/* Without its rings, or without its unit, a session goes on with what it has. */
void
sonde_broker_restore (SondeBroker *self,
                      const SondeBrokerRecord *record,
                      guint64 start_time_us,
                      GArray *event_fds,
                      gboolean is_closed)
{
  self->is_restored = TRUE;
  sonde_proc_broker_set_began (self->broker, start_time_us);
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
  if (!is_closed)
    restore_events (self, record, event_fds);
  if (is_over (self))
    on_all_ended (self);
}

GStrv
sonde_broker_event_names (void)
{
  return sonde_perf_event_names ();
}
