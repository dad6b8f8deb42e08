/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The events of a broker's session: when it begins, for processors that come, and for processes
 * that are added. */
#include "daemon/broker/broker-private.h"

#include <fcntl.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"

gboolean
sonde_broker_prove (SondeBroker *self, GError **error)
{
  if (!sonde_target_set_check_room (self->targets, self->proven->len, error))
    return FALSE;
  for (guint i = 0; i < self->proven->len; i++)
    if (!sonde_target_prove (g_ptr_array_index (self->proven, i), &self->owner, error)
        || !sonde_target_set_check_new (self->targets, self->proven, i, error))
      return FALSE;
  self->events = sonde_event_set_new (&self->asked, self->owner.uid, error);
  return self->events != NULL;
}

/* Opened disabled, confirmed, enabled: in this order (see target.h). */
static gboolean
open_targets (SondeBroker *self, SondeEventDraft *draft, GError **error)
{
  g_autoptr (GArray) pids = g_array_new (FALSE, FALSE, sizeof (gint));

  for (guint i = 0; i < self->proven->len; i++)
    {
      gint pid = ((const SondeTarget *) g_ptr_array_index (self->proven, i))->pid;

      g_array_append_val (pids, pid);
    }
  if (!sonde_event_draft_check_room (draft, self->owner.uid, pids, error))
    return FALSE;
  for (guint i = 0; i < self->proven->len; i++)
    {
      const SondeTarget *target = g_ptr_array_index (self->proven, i);

      if (!sonde_event_draft_open_process (draft, target->pid, target->process_fd, FALSE, error))
        return FALSE;
    }
  for (guint i = 0; i < self->proven->len; i++)
    if (!sonde_target_confirm (g_ptr_array_index (self->proven, i), &self->owner, error))
      return FALSE;
  return TRUE;
}

/* Events of tasks outlive the absence of their CPU, those of a whole CPU do not. */
static gboolean
has_whole_cpus (const SondeBroker *self)
{
  return self->asked.scope == SONDE_SCOPE_SYSTEM
         || (sonde_scope_is_group (self->asked.scope) && self->note == NULL);
}

static gboolean on_again (gpointer user_data);

static void
add_gap (SondeBroker *self, const SondeGap *gap)
{
  g_array_append_vals (self->gaps, gap, 1);
  if (self->again == 0)
    self->again = g_timeout_add (SONDE_LIMIT_GAP_LOOK_MS, on_again, self);
}

static void
add_gaps (SondeBroker *self, const GArray *cpus, pid_t pid)
{
  for (guint i = 0; i < cpus->len; i++)
    add_gap (self, &(SondeGap){ g_array_index (cpus, int, i), pid });
}

/* Of a unit's members it is not known which of them; the worker takes what two events of one tell
 * once. */
static void
add_gaps_of_all (SondeBroker *self, const GArray *cpus)
{
  g_autoptr (GArray) pids
      = cpus->len > 0 && self->group != NULL ? sonde_control_group_list (self->group, NULL) : NULL;

  for (guint i = 0; pids != NULL && i < pids->len; i++)
    add_gaps (self, cpus, g_array_index (pids, pid_t, i));
  for (guint i = 0; i < self->proven->len; i++)
    add_gaps (self, cpus, ((const SondeTarget *) g_ptr_array_index (self->proven, i))->pid);
}

gboolean
sonde_broker_open (SondeBroker *self, const char *group, GError **error)
{
  g_autoptr (SondeEventDraft) draft = sonde_event_set_draft (self->events, -1);
  gboolean is_open;

  switch ((SondeScope) self->asked.scope)
    {
    case SONDE_SCOPE_SYSTEM:
      is_open = sonde_event_draft_open_system (draft, error);
      break;
    case SONDE_SCOPE_UNIT:
    case SONDE_SCOPE_CGROUP:
      /* A unit that starts again gets another group: what the session sees is over then. */
      self->group = sonde_control_group_open (group, self->asked.unit, error);
      if (self->group == NULL)
        return FALSE;
      sonde_proc_broker_allow_group (self->broker, self->group);
      is_open = sonde_group_events_open (draft, self->group, self->owner.uid, &self->note, error);
      break;
    case SONDE_SCOPE_TARGETS:
    case SONDE_SCOPE_LAUNCH:
    case SONDE_SCOPE_PIDS:
    case SONDE_N_SCOPES:
    default:
      is_open = open_targets (self, draft, error);
    }
  if (is_open && !has_whole_cpus (self))
    add_gaps_of_all (self, sonde_event_draft_off_cpus (draft));
  return is_open
         && sonde_event_set_hand_over (self->events, g_steal_pointer (&draft), self->front, error);
}

/* --- processors that come --- */

/* Those of the whole of it, which wait for no process. */
static gboolean
open_cpu (SondeBroker *self, int cpu, GError **error)
{
  g_autoptr (SondeEventDraft) draft = sonde_event_set_draft (self->events, cpu);

  return (self->asked.scope == SONDE_SCOPE_SYSTEM
              ? sonde_event_draft_open_system (draft, error)
              : sonde_event_draft_open_group (draft, sonde_control_group_fd (self->group), error))
         && sonde_event_set_hand_over (self->events, g_steal_pointer (&draft), self->front, error);
}

static char *
describe_absence (const SondeBroker *self, int cpu, gint64 from_ns)
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

/* @n_missing: processes of the session that it does not show yet; @error: (nullable): why its
 * events could not be opened. */
static void
tell_of_cpu (SondeBroker *self, int cpu, gint64 from_ns, guint n_missing, const GError *error)
{
  g_autofree char *text = error == NULL
                              ? describe_absence (self, cpu, from_ns)
                              : g_strdup_printf ("Processor %d cannot be recorded (any more): %s",
                                                 cpu, error->message);
  g_autofree char *with_missing = g_strdup_printf (
      "%s; processes that are missing there until the kernel answers: %u", text, n_missing);

  sonde_broker_say_note (self, n_missing > 0 && error == NULL ? with_missing : text);
}

static gboolean
is_counting (int cpu, gpointer user_data)
{
  SondeBroker *self = user_data;

  return sonde_event_set_is_counting (self->events, cpu);
}

/* Its rings are there. */
static void
take_back (SondeBroker *self, int cpu, gint64 from_ns)
{
  gint64 counted_until_ns = sonde_event_set_counted_until_ns (self->events, cpu);
  g_autoptr (GError) error = NULL;

  /* Until when it was seen, as exactly as is known. */
  if (from_ns != 0 && counted_until_ns != 0)
    from_ns = MIN (from_ns, counted_until_ns);
  sonde_event_set_revive (self->events, cpu);
  if (has_whole_cpus (self))
    open_cpu (self, cpu, &error);
  else
    sonde_event_set_open_outputs (self->events, self->front, &error);
  tell_of_cpu (self, cpu, from_ns, 0, error);
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
  if (sonde_event_set_add_cpu (self->events, cpu, self->front, &error)
      && sonde_event_set_has_cpu (self->events, cpu))
    {
      self->awaited_cpu = cpu;
      self->awaited_from_ns = from_ns;
      return TRUE;
    }
  sonde_event_set_take_cpu (self->events, cpu, FALSE);
  if (error != NULL)
    tell_of_cpu (self, cpu, from_ns, 0, error);
  return error != NULL;
}

void
sonde_broker_follow_cpus (SondeBroker *self)
{
  static const SondeCpuFollowerHandler handler = { is_counting, on_cpu_came };

  self->cpus = sonde_cpu_follower_new (SONDE_CPUS_ONLINE_PATH, sonde_event_set_cpus (self->events),
                                       &handler, self);
}

void
sonde_broker_take_targets (SondeBroker *self, GPtrArray *targets, gpointer operation)
{
  while (targets->len > 0)
    {
      SondeTarget *target = g_ptr_array_steal_index (targets, 0);
      SondeQuestion question
          = { .kind = SONDE_QUESTION_TARGET,
              .pid = target->pid,
              .start_ticks = target->start_ticks,
              .wants_mounts = self->asked.scope != SONDE_SCOPE_PIDS,
              .wants_counters = (self->asked.counters & SONDE_COUNTERS_PROCESS) != 0,
              .wants_process = !self->asked.start_on_exec,
              .data = operation };

      sonde_target_set_take (self->targets, target);
      self->n_untold++;
      sonde_broker_look_into (self, &question);
    }
}

/* --- what lanes open --- */

/* Of an ADD, or of a processor that came: events that lanes open, and what is told of them. */
typedef struct
{
  gboolean is_addition;
  gint64 since_us;     /* monotonic: when it came */
  int cpu;             /* whose events they are; -1: of all */
  gint64 from_ns;      /* since when that had been off */
  guint n_passes;      /* over the members of a unit */
  GHashTable *members; /* pids of those that were asked about */
  GArray *pids;        /* pid_t: those alone, which have gaps there; NULL: all */
  GArray *asked;       /* pid_t: of each of the openings */
  guint n_opened;      /* processes */
  guint n_missing;     /* processes that are gaps now */
  GPtrArray *targets;  /* SondeTarget: to be added; NULL: of a processor */
  GPtrArray
      *openings; /* SondeOpening, in their order; NULL: its lane has it, or never gave it back */
  gboolean is_begun;
  gboolean is_open; /* nothing is opened any more */
  guint n_left;     /* lanes that are still to open; then targets that are still to be told of */
  GError *why;      /* nothing was opened */
} Operation;

static Operation *
operation_new (gboolean is_addition, int cpu, gint64 from_ns)
{
  Operation *self = g_new0 (Operation, 1);

  self->is_addition = is_addition;
  self->since_us = g_get_monotonic_time ();
  self->cpu = cpu;
  self->from_ns = from_ns;
  self->members = g_hash_table_new (NULL, NULL);
  self->asked = g_array_new (FALSE, FALSE, sizeof (pid_t));
  self->openings = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_opening_free);
  return self;
}

static void
operation_free (gpointer data)
{
  Operation *self = data;

  g_hash_table_unref (self->members);
  g_ptr_array_unref (self->openings);
  g_array_unref (self->asked);
  g_clear_pointer (&self->pids, g_array_unref);
  g_clear_pointer (&self->targets, g_ptr_array_unref);
  g_clear_error (&self->why);
  g_free (self);
}

/* An answer waits for those to what was added before. */
static void
answer_operations (SondeBroker *self)
{
  GList *next;

  for (GList *at = self->operations.head; at != NULL; at = next)
    {
      Operation *operation = at->data;

      next = at->next;
      if (!operation->is_open || operation->n_left > 0)
        {
          if (operation->is_addition)
            break;
          continue;
        }
      if (operation->is_addition)
        sonde_broker_say_result (self, SONDE_MESSAGE_ADDED, operation->why);
      g_queue_delete_link (&self->operations, at);
      operation_free (operation);
    }
  sonde_broker_say_targets_ended (self);
}

gboolean
sonde_broker_is_adding (const SondeBroker *self)
{
  for (const GList *at = self->operations.head; at != NULL; at = at->next)
    if (((const Operation *) at->data)->is_addition)
      return TRUE;
  return FALSE;
}

/* In the lane of its uid; a process that is gone, in that of the session's owner. Where that one
 * adds processes, all in his own, which all that he may add are of: no answer depends on whether a
 * stranger's process exists. */
static void
ask_lane (SondeBroker *self, Operation *operation, SondeOpening *opening, pid_t pid)
{
  SondeQuestion question = { .kind = SONDE_QUESTION_OPEN,
                             .pid = pid,
                             .request_id = operation->openings->len,
                             .opening = opening,
                             .data = operation };

  g_ptr_array_add (operation->openings, NULL);
  g_array_append_val (operation->asked, pid);
  operation->n_left++;
  if ((operation->is_addition && self->owner.uid != 0) || sonde_proc_owner (pid, &question.uid) < 0)
    question.uid = self->owner.uid;
  sonde_lanes_ask (self->lanes, &question);
}

/* @targets is empty afterwards. */
static void
ask_targets (SondeBroker *self, Operation *operation, GPtrArray *targets)
{
  while (targets->len > 0)
    {
      SondeTarget *target = g_ptr_array_steal_index (targets, 0);

      ask_lane (self, operation,
                sonde_opening_new_target (target, operation->is_addition, &self->owner,
                                          sonde_event_set_draft (self->events, operation->cpu)),
                target->pid);
    }
}

/* Those that were not asked about; whoever forks meanwhile is found in the next pass. */
static void
ask_members (SondeBroker *self, Operation *operation)
{
  g_autoptr (GArray) pids = operation->pids != NULL
                                ? g_array_ref (operation->pids)
                                : sonde_control_group_list (self->group, &operation->why);
  guint n_asked = 0;

  g_ptr_array_set_size (operation->openings, 0);
  g_array_set_size (operation->asked, 0);
  for (guint i = 0; pids != NULL && i < pids->len && n_asked < SONDE_LIMIT_MEMBERS_AT_ONCE; i++)
    {
      pid_t pid = g_array_index (pids, pid_t, i);

      if (!g_hash_table_add (operation->members, GINT_TO_POINTER (pid)))
        continue;
      n_asked++;
      ask_lane (self, operation,
                sonde_opening_new_member (pid, self->group,
                                          sonde_event_set_draft (self->events, operation->cpu)),
                pid);
    }
  if (n_asked > 0 && ++operation->n_passes > SONDE_LIMIT_EVENTS / SONDE_LIMIT_MEMBERS_AT_ONCE)
    g_set_error (&operation->why, SONDE_ERROR, SONDE_ERROR_FAILED,
                 "%s makes processes faster than they can be found",
                 sonde_control_group_name (self->group));
}

static GPtrArray *
copy_targets (const SondeBroker *self, const GArray *pids)
{
  GPtrArray *copies = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);

  for (guint i = 0; i < pids->len; i++)
    {
      const SondeTarget *target
          = sonde_target_set_find (self->targets, g_array_index (pids, pid_t, i));
      SondeTarget *copy = target != NULL ? sonde_target_copy (target) : NULL;

      if (copy != NULL)
        g_ptr_array_add (copies, copy);
    }
  return copies;
}

static void
begin (SondeBroker *self, Operation *operation)
{
  gboolean takes_targets
      = self->asked.scope == SONDE_SCOPE_TARGETS || self->asked.scope == SONDE_SCOPE_LAUNCH;
  g_autoptr (GPtrArray) copies = NULL;

  operation->is_begun = TRUE;
  if (operation->is_addition && (!takes_targets || self->events == NULL))
    g_set_error_literal (&operation->why, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                         "Only a running session with targets or launch takes processes");
  else if (operation->is_addition)
    {
      if (sonde_target_set_check_room (self->targets, operation->targets->len, &operation->why))
        ask_targets (self, operation, operation->targets);
    }
  else if (self->group != NULL && self->events != NULL)
    ask_members (self, operation);
  else if (self->events != NULL)
    {
      copies = operation->pids != NULL ? copy_targets (self, operation->pids)
                                       : sonde_target_set_copy (self->targets);
      ask_targets (self, operation, copies);
    }
}

/* Others may have been added since they were asked about, and the front may have told the caller
 * that they were not. */
static gboolean
check_addition (const SondeBroker *self, const Operation *operation, GError **error)
{
  gint64 age_us = g_get_monotonic_time () - operation->since_us;

  if (age_us < SONDE_LIMIT_PROOF_MS * G_GINT64_CONSTANT (1000))
    return sonde_target_set_check_room (self->targets, operation->openings->len, error);
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                       "The processes were not proven in time");
  return FALSE;
}

/* What they did not open. Returns: (transfer full) (element-type SondeGap) */
static GArray *
find_gaps (Operation *operation)
{
  GArray *gaps = g_array_new (FALSE, FALSE, sizeof (SondeGap));

  for (guint i = 0; i < operation->openings->len; i++)
    {
      const SondeOpening *opening = g_ptr_array_index (operation->openings, i);
      SondeGap gap = { operation->cpu, g_array_index (operation->asked, pid_t, i) };
      const GArray *off = opening != NULL ? sonde_event_draft_off_cpus (opening->draft) : NULL;

      if (opening == NULL)
        g_array_append_val (gaps, gap);
      for (guint j = 0; off != NULL && j < off->len; j++)
        {
          gap.cpu = g_array_index (off, int, j);
          g_array_append_val (gaps, gap);
        }
      operation->n_opened += opening != NULL && sonde_event_draft_size (opening->draft) > 0;
    }
  return gaps;
}

/* What came of its openings: their events are on. @operation->targets: those that are new */
static gboolean
take_openings (SondeBroker *self, Operation *operation, GError **error)
{
  g_autoptr (SondeEventDraft) draft = sonde_event_set_draft (self->events, operation->cpu);
  g_autoptr (GArray) gaps = find_gaps (operation);

  for (guint i = 0; i < operation->openings->len; i++)
    {
      SondeOpening *opening = g_ptr_array_index (operation->openings, i);

      /* The session has the process already: it is a gap. */
      if (opening == NULL && !operation->is_addition)
        continue;
      if (opening == NULL)
        {
          g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                               "The kernel does not answer about processes of this user");
          return FALSE;
        }
      if (opening->error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&opening->error));
          return FALSE;
        }
      if (operation->is_addition)
        {
          g_ptr_array_add (operation->targets, g_steal_pointer (&opening->target));
          if (!sonde_target_set_check_new (self->targets, operation->targets, i, error))
            return FALSE;
        }
      sonde_event_draft_take (draft, g_steal_pointer (&opening->draft));
    }
  if ((operation->is_addition && !check_addition (self, operation, error))
      || !sonde_event_set_hand_over (self->events, g_steal_pointer (&draft), self->front, error))
    return FALSE;
  for (guint i = 0; i < gaps->len; i++)
    add_gap (self, &g_array_index (gaps, SondeGap, i));
  operation->n_missing += gaps->len;
  return TRUE;
}

static void
tell_of_gaps (SondeBroker *self, const Operation *operation)
{
  g_autofree char *text = NULL;

  if (operation->why != NULL)
    text = g_strdup_printf ("Processor %d does not show processes, %u: %s", operation->cpu,
                            operation->pids->len, operation->why->message);
  else if (operation->n_opened > 0)
    text = g_strdup_printf ("Processor %d shows more processes from %.3f s on: %u", operation->cpu,
                            (double) g_get_monotonic_time () / 1e6, operation->n_opened);
  if (text != NULL)
    sonde_broker_say_note (self, text);
}

/* All of its lanes have answered, or were given up. */
static void
end_lanes (SondeBroker *self, Operation *operation)
{
  if (self->events == NULL && operation->is_addition && operation->why == NULL)
    g_set_error_literal (&operation->why, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                         "The session takes no processes any more");
  if (self->events != NULL && operation->why == NULL)
    take_openings (self, operation, &operation->why);
  operation->n_left = 1; /* this one */
  if (self->events != NULL && operation->why == NULL && self->group != NULL)
    ask_members (self, operation);
  operation->is_open = operation->n_left == 1 || operation->why != NULL;
  if (operation->is_open && operation->pids != NULL && self->events != NULL)
    tell_of_gaps (self, operation);
  else if (operation->is_open && !operation->is_addition && self->events != NULL)
    tell_of_cpu (self, operation->cpu, operation->from_ns, operation->n_missing, operation->why);
  if (operation->is_open && operation->is_addition && operation->why == NULL)
    {
      for (guint i = 0; i < operation->targets->len; i++)
        sonde_proc_broker_allow (self->broker, g_ptr_array_index (operation->targets, i));
      operation->n_left += operation->targets->len;
      sonde_broker_take_targets (self, operation->targets, operation);
    }
  operation->n_left--;
}

/* What is added is begun at once, and handed over in its order. A processor has to know all that
 * was added before it, and keeps none behind it waiting: those have their events there already. */
static void
advance (SondeBroker *self)
{
  gboolean are_all_open = TRUE; /* that were added before */

  for (GList *at = self->operations.head; at != NULL && self->state != STATE_OVER; at = at->next)
    {
      Operation *operation = at->data;

      if (!operation->is_begun && (are_all_open || operation->is_addition))
        {
          operation->n_left = 1; /* this one */
          begin (self, operation);
          operation->n_left--;
        }
      while (are_all_open && !operation->is_open && operation->n_left == 0)
        end_lanes (self, operation);
      are_all_open = are_all_open && (operation->is_open || !operation->is_addition);
    }
  answer_operations (self);
}

/* @gaps: those of @cpu are moved to it. Returns: NULL if there are none */
static Operation *
operation_new_again (GArray *gaps, int cpu)
{
  Operation *operation = NULL;

  for (guint i = gaps->len; i > 0; i--)
    {
      SondeGap gap = g_array_index (gaps, SondeGap, i - 1);

      if (gap.cpu != cpu)
        continue;
      if (operation == NULL)
        {
          operation = operation_new (FALSE, cpu, 0);
          operation->pids = g_array_new (FALSE, FALSE, sizeof (pid_t));
        }
      g_array_append_val (operation->pids, gap.pid);
      g_array_remove_index_fast (gaps, i - 1);
    }
  return operation;
}

/* A lane that is still stuck refuses at once. */
static gboolean
on_again (gpointer user_data)
{
  SondeBroker *self = user_data;
  g_autofree char *text
      = sonde_proc_text_read (AT_FDCWD, SONDE_CPUS_ONLINE_PATH, SONDE_LIMIT_PROC_TEXT_BYTES);
  g_autoptr (GArray) online = text != NULL ? sonde_cpu_list_parse (text) : NULL;

  if (self->state != STATE_RUNNING || !g_queue_is_empty (&self->operations) || online == NULL)
    return G_SOURCE_CONTINUE;
  for (guint i = 0; i < online->len; i++)
    {
      Operation *operation = operation_new_again (self->gaps, g_array_index (online, int, i));

      if (operation != NULL)
        g_queue_push_tail (&self->operations, operation);
    }
  advance (self);
  if (self->gaps->len > 0 || self->again == 0)
    return G_SOURCE_CONTINUE;
  self->again = 0;
  return G_SOURCE_REMOVE;
}

void
sonde_broker_take_opening (SondeBroker *self, const SondeQuestion *question, SondeOpening *opening)
{
  Operation *operation = question->data;

  g_ptr_array_index (operation->openings, question->request_id) = opening;
  operation->n_left--;
  advance (self);
}

void
sonde_broker_take_told (SondeBroker *self, const SondeQuestion *question)
{
  Operation *operation = question->data;

  if (operation == NULL)
    return;
  operation->n_left--;
  answer_operations (self);
}

void
sonde_broker_add (SondeBroker *self, GPtrArray *targets)
{
  Operation *operation = operation_new (TRUE, -1, 0);

  operation->targets = targets;
  g_queue_push_tail (&self->operations, operation);
  advance (self);
}

void
sonde_broker_clear_operations (SondeBroker *self)
{
  g_queue_clear_full (&self->operations, operation_free);
}

void
sonde_broker_take_rings (SondeBroker *self, int status)
{
  g_autoptr (GError) why = NULL;
  int cpu = self->awaited_cpu;

  if (self->events == NULL)
    return; /* what they were for is closed */
  if (cpu < 0)
    {
      g_set_error_literal (&why, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker mapped rings that it was not given");
      sonde_broker_refuse (self, SONDE_MESSAGE_BROKEN, why);
      return;
    }
  self->awaited_cpu = -1;
  sonde_event_set_take_cpu (self->events, cpu, status == 0);
  if (status != 0)
    sonde_error_set_errno (&why, status, "the worker cannot map its ring");
  else
    sonde_event_set_revive (self->events, cpu);
  if (status == 0 && !has_whole_cpus (self))
    {
      g_queue_push_tail (&self->operations, operation_new (FALSE, cpu, self->awaited_from_ns));
      advance (self);
      return;
    }
  if (status == 0)
    open_cpu (self, cpu, &why);
  tell_of_cpu (self, cpu, self->awaited_from_ns, 0, why);
}
