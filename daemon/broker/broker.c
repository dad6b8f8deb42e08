/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/base/channel.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"
#include "daemon/broker/broker-private.h"
#include "daemon/broker/rights.h"

/* --- what is said --- */

static gboolean
on_end (gpointer user_data)
{
  SondeBroker *self = user_data;

  self->end = 0;
  self->done (self->status, self->user_data);
  return G_SOURCE_REMOVE;
}

/* From the main loop: whoever is told may free this. */
static void
end (SondeBroker *self, int status)
{
  self->state = STATE_OVER;
  self->status = status;
  if (self->end == 0)
    self->end = g_idle_add_full (G_PRIORITY_HIGH, on_end, self, NULL);
}

/* A front that cannot be told anything has no use for us. */
static void
check_said (SondeBroker *self, const GError *error)
{
  if (error == NULL || self->end != 0)
    return;
  g_warning ("%s", error->message);
  end (self, EXIT_FAILURE);
}

/* @fds: (transfer full) */
static void
say (SondeBroker *self, gpointer message, gsize size_bytes, const int *fds, unsigned n_fds)
{
  g_autoptr (GError) error = NULL;

  sonde_channel_send (self->front, message, size_bytes, fds, n_fds, &error);
  check_said (self, error);
}

void
sonde_broker_say_note (SondeBroker *self, const char *text)
{
  SondeMessageNote message;

  sonde_note_init (&message, text);
  say (self, &message, sizeof message, NULL, 0);
}

/* @why: (nullable): none: it is done */
void
sonde_broker_say_result (SondeBroker *self, SondeMessageType type, const GError *why)
{
  SondeMessageResult message = { .header.type = type, .error = SONDE_MESSAGE_NO_ERROR };

  if (why != NULL)
    {
      g_autofree char *text = g_utf8_make_valid (why->message, -1);
      const char *end_of_valid;

      message.error = why->domain == SONDE_ERROR ? (guint32) why->code : SONDE_ERROR_FAILED;
      g_strlcpy (message.text, text[0] != '\0' ? text : "unknown", sizeof message.text);
      g_utf8_validate (message.text, -1, &end_of_valid);
      message.text[end_of_valid - message.text] = '\0';
    }
  say (self, &message, sizeof message, NULL, 0);
}

/* What is being added may be one more. */
void
sonde_broker_say_targets_ended (SondeBroker *self)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_TARGETS_ENDED };

  if (!self->has_ended || self->n_untold > 0 || sonde_broker_is_adding (self))
    return;
  self->has_ended = FALSE;
  if (self->group == NULL && !sonde_target_set_is_over (self->targets))
    return;
  say (self, &message, sizeof message, NULL, 0);
}

static void
on_all_ended (gpointer user_data)
{
  SondeBroker *self = user_data;

  self->has_ended = TRUE;
  sonde_broker_say_targets_ended (self);
}

/* Events off our hands, nothing more is watched. */
static void
close_events (SondeBroker *self)
{
  sonde_target_set_unwatch (self->targets);
  g_clear_pointer (&self->cpus, sonde_cpu_follower_free);
  g_clear_handle_id (&self->again, g_source_remove);
  g_array_set_size (self->gaps, 0);
  g_clear_pointer (&self->watch, sonde_group_watch_free);
  g_clear_pointer (&self->events, sonde_event_set_free);
}

/* @type: PROVED, OPENED or BROKEN */
void
sonde_broker_refuse (SondeBroker *self, SondeMessageType type, const GError *why)
{
  close_events (self);
  g_clear_pointer (&self->worker, sonde_channel_free);
  self->state = STATE_OVER;
  sonde_broker_say_result (self, type, why);
}

static void
take_probes (SondeBroker *self, const SondeQuestion *question, SondeAnswer *answer)
{
  SondeProbeLink taken = { question->pid, sonde_answer_steal_link (answer) };
  uid_t uid;

  self->n_probes_asked--;
  /* Of one that is gone nobody would say so any more. */
  if (taken.link_fd >= 0 && sonde_proc_owner (question->pid, &uid) < 0)
    sonde_closer_clear (&taken.link_fd);
  if (taken.link_fd >= 0)
    g_array_append_val (self->probes, taken);
}

/* Of new targets and programs the front hears, of all else the worker, which has left perhaps. */
static void
on_answered (const SondeQuestion *question, SondeAnswer *answer, gpointer user_data)
{
  SondeBroker *self = user_data;
  g_autoptr (SondeAnswer) taken = answer;
  g_autoptr (GError) error = NULL;

  if (question->kind == SONDE_QUESTION_PROBES)
    take_probes (self, question, taken);
  if (self->state == STATE_OVER)
    return;
  if (question->kind == SONDE_QUESTION_OPEN)
    {
      sonde_broker_take_opening (self, question, sonde_answer_steal_opening (taken));
      return;
    }
  if (question->kind == SONDE_QUESTION_PLACE)
    {
      if (sonde_answer_is_right (taken) && self->events != NULL
          && sonde_event_set_walk_program (self->events) != NULL)
        sonde_walk_program_set_place (sonde_event_set_walk_program (self->events), question->pid,
                                      &question->interpreter.place);
      return;
    }
  if (question->kind != SONDE_QUESTION_TARGET && question->kind != SONDE_QUESTION_JOIN)
    {
      if (self->worker != NULL
          && !sonde_answer_send (g_steal_pointer (&taken), self->broker, self->worker, &error))
        sonde_broker_refuse (self, SONDE_MESSAGE_BROKEN, error);
      return;
    }
  sonde_answer_send (g_steal_pointer (&taken), self->broker, self->front, &error);
  check_said (self, error);
  if (question->kind == SONDE_QUESTION_JOIN)
    return;
  sonde_broker_take_told (self, question);
  self->n_untold--;
  sonde_broker_say_targets_ended (self);
}

static void
on_stuck (uid_t uid, pid_t pid, gboolean is_over, gpointer user_data)
{
  SondeMessageStuck message = {
    .header.type = SONDE_MESSAGE_STUCK, .uid = uid, .pid = pid, .is_over = (guint32) is_over
  };

  say (user_data, &message, sizeof message, NULL, 0);
}

/* @question: without its uid */
void
sonde_broker_look_into (SondeBroker *self, SondeQuestion *question)
{
  int result = sonde_proc_owner (question->pid, &question->uid);

  if (result < 0)
    {
      on_answered (question, sonde_question_refuse (question, -result), self);
      g_clear_pointer (&question->program, sonde_probe_program_unref);
    }
  else
    sonde_lanes_ask (self->lanes, question);
}

/* --- what the worker asks for --- */

static void
on_process_request (SondeBroker *self, const SondeMessageHeader *data)
{
  const SondeMessageProcessRequest *request = (const void *) data;
  SondeQuestion question
      = { .kind = SONDE_QUESTION_PROCESS, .pid = request->pid, .request_id = request->request_id };

  sonde_broker_look_into (self, &question);
}

static void
on_file_request (SondeBroker *self, const SondeMessageHeader *data)
{
  const SondeMessageFileRequest *request = (const void *) data;
  SondeQuestion question = { .kind = SONDE_QUESTION_FILE, .pid = request->pid, .file = *request };

  sonde_broker_look_into (self, &question);
}

static void
on_counters_request (SondeBroker *self, const SondeMessageHeader *data)
{
  const SondeMessageCountersRequest *request = (const void *) data;
  const SondeTarget *target = sonde_target_set_find (self->targets, request->pid);
  SondeQuestion question = { .kind = SONDE_QUESTION_COUNTERS, .pid = request->pid };

  if (target == NULL || (self->asked.counters & SONDE_COUNTERS_PROCESS) == 0)
    return;
  question.start_ticks = target->start_ticks;
  sonde_broker_look_into (self, &question);
}

static void
tell_why_not (SondeBroker *self, const char *what, const char *why)
{
  g_autofree char *text = g_strdup_printf ("%s: %s", what, why);
  SondeMessageNote note;

  sonde_note_init (&note, text);
  sonde_channel_send (self->worker, &note, sizeof note, NULL, 0, NULL);
}

/* A lane answers in order, so what is asked for a process later replaces what was asked before. One
 * that is not walked any more may be again where a lane was slow: what it tells is of a generation
 * that the worker does not take. */
static void
on_interpreter (SondeBroker *self, const SondeMessageHeader *data)
{
  const SondeMessageInterpreter *message = (const void *) data;
  SondeQuestion question
      = { .kind = SONDE_QUESTION_PLACE, .pid = message->pid, .interpreter = *message };
  SondeWalkProgram *program
      = self->events != NULL ? sonde_event_set_walk_program (self->events) : NULL;
  const char *why = self->events != NULL ? sonde_event_set_why_no_walks (self->events) : NULL;

  if (program != NULL && message->place.kind == SONDE_WALK_NONE)
    sonde_walk_program_set_place (program, message->pid, NULL);
  else if (program != NULL)
    sonde_broker_look_into (self, &question);
  else if (why != NULL && !self->has_told_walks)
    {
      self->has_told_walks = TRUE;
      tell_why_not (self, "Functions of interpreted programs are not shown", why);
    }
}

/* They run no more, or are about to execute another program. */
static void
let_go_of_probes (SondeBroker *self, pid_t pid)
{
  for (guint i = self->probes->len; i > 0; i--)
    {
      SondeProbeLink *link = &g_array_index (self->probes, SondeProbeLink, i - 1);

      if (link->pid != pid)
        continue;
      sonde_closer_clear (&link->link_fd);
      g_array_remove_index_fast (self->probes, i - 1);
    }
}

/* Returns: 0 or a negative errno */
static int
admit_probes (SondeBroker *self)
{
  const gint64 burst_us
      = SONDE_LIMIT_PROBES_BURST * G_GINT64_CONSTANT (1) * SONDE_LIMIT_PROBES_INTERVAL_US;
  gint64 now_us = g_get_monotonic_time ();

  if (self->events == NULL || sonde_event_set_probe_program (self->events) == NULL)
    return -ENOSYS;
  self->probes_free_us = MAX (self->probes_free_us, now_us - burst_us);
  if (self->probes->len + self->n_probes_asked >= SONDE_LIMIT_PROBED_FILES
      || self->probes_free_us + SONDE_LIMIT_PROBES_INTERVAL_US > now_us)
    return -EDQUOT;
  self->probes_free_us += SONDE_LIMIT_PROBES_INTERVAL_US;
  return 0;
}

static void
on_probes (SondeBroker *self, const SondeMessageHeader *data)
{
  const SondeMessageProbes *message = (const void *) data;
  SondeQuestion question
      = { .kind = SONDE_QUESTION_PROBES, .pid = message->pid, .probes = *message };
  int result;

  if (message->n_notes == 0)
    {
      let_go_of_probes (self, message->pid);
      return;
    }
  result = admit_probes (self);
  self->n_probes_asked++;
  if (result == -ENOSYS && !self->has_told_probes && self->events != NULL
      && sonde_event_set_why_no_probes (self->events) != NULL)
    {
      self->has_told_probes = TRUE;
      tell_why_not (self, "Probes of programs' allocators are not followed",
                    sonde_event_set_why_no_probes (self->events));
    }
  if (result < 0)
    {
      on_answered (&question, sonde_question_refuse (&question, -result), self);
      return;
    }
  question.program = sonde_probe_program_ref (sonde_event_set_probe_program (self->events));
  sonde_broker_look_into (self, &question);
}

static void
on_threads_request (SondeBroker *self, const SondeMessageHeader *data)
{
  const SondeMessageThreadsRequest *request = (const void *) data;
  SondeQuestion question
      = { .kind = SONDE_QUESTION_THREADS, .pid = request->pid, .n_tids = request->n_threads };

  if (self->asked.waits == SONDE_WAITS_OFF)
    return;
  for (guint i = 0; i < request->n_threads; i++)
    question.tids[i] = request->tids[i];
  sonde_broker_look_into (self, &question);
}

static const struct
{
  SondeMessageType type;
  void (*take) (SondeBroker *self, const SondeMessageHeader *message);
} requests[] = {
  { SONDE_MESSAGE_PROCESS_REQUEST, on_process_request },
  { SONDE_MESSAGE_FILE_REQUEST, on_file_request },
  { SONDE_MESSAGE_COUNTERS_REQUEST, on_counters_request },
  { SONDE_MESSAGE_INTERPRETER, on_interpreter },
  { SONDE_MESSAGE_PROBES, on_probes },
  { SONDE_MESSAGE_THREADS_REQUEST, on_threads_request },
};

static void
on_worker_message (SondeChannel *channel,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  SondeBroker *self = user_data;
  g_autoptr (GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (requests); i++)
    if (requests[i].type == message->type && (self->state & STATES_HEARD) != 0)
      {
        requests[i].take (self, message);
        return;
      }
  g_set_error (&error, SONDE_ERROR, SONDE_ERROR_FAILED, "The worker sent \"%s\" out of order",
               sonde_message_type_to_string (message->type));
  sonde_broker_refuse (self, SONDE_MESSAGE_BROKEN, error);
}

/* One that has left is the front's to talk about. */
static void
on_worker_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  SondeBroker *self = user_data;
  g_autoptr (GError) why = NULL;

  g_clear_pointer (&self->worker, sonde_channel_free);
  if (error == NULL)
    return;
  g_set_error (&why, SONDE_ERROR, SONDE_ERROR_FAILED, "The worker's requests: %s", error->message);
  sonde_broker_refuse (self, SONDE_MESSAGE_BROKEN, why);
}

static const SondeChannelHandler worker_handler
    = { .message = on_worker_message,
        .closed = on_worker_closed,
        /* Files of whatever the processes have mapped. */
        .close_fd = sonde_closer_take };

/* --- prove and serve --- */

static gboolean
on_ask (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  static const SondeLanesHandler handler = { sonde_question_answer, on_answered, on_stuck };
  const SondeMessageAsk *message = (const void *) data;

  self->asked = message->asked;
  sonde_tracer_init (&self->owner, message->owner_uid, message->owner_pid);
  self->broker
      = sonde_proc_broker_new (self->owner.uid, (SondeScope) self->asked.scope, self->asked.raw);
  if (!self->asked.children)
    sonde_proc_broker_refuse_children (self->broker);
  self->lanes = sonde_lanes_new (self->broker, &handler, self);
  self->state = STATE_ASKED;
  return TRUE;
}

/* Else even to poll it could wait, for a file system of its owner. Source: pidfd_open(2) */
static gboolean
is_pidfd_of (int fd, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fdinfo/%d", fd);
  g_autofree char *text = sonde_proc_text_read (AT_FDCWD, path, 4096);
  const char *line = text != NULL ? strstr (text, "\nPid:\t") : NULL;

  return line != NULL && g_ascii_strtoll (line + strlen ("\nPid:\t"), NULL, 10) == pid;
}

/* Descriptors are taken from @fds. Returns: (transfer full) (element-type SondeTarget) */
static GPtrArray *
take_asked (const SondeMessageTargets *message, int *fds)
{
  GPtrArray *targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);

  for (guint i = 0; i < message->n_targets; i++)
    {
      const SondeMessageTarget *entry = &message->targets[i];
      SondeAskedTarget *asked = g_new0 (SondeAskedTarget, 1);

      *asked = (SondeAskedTarget){ .pid = entry->pid,
                                   .has_proof = (entry->flags & SONDE_TARGET_HAS_PROOF) != 0,
                                   .maps_fd = -1,
                                   .pidfd = -1 };
      if ((entry->flags & SONDE_TARGET_HAS_MAPS) != 0)
        asked->maps_fd = sonde_steal_fd (fds++);
      if ((entry->flags & SONDE_TARGET_HAS_PIDFD) != 0)
        asked->pidfd = sonde_steal_fd (fds++);
      if (asked->pidfd >= 0 && !is_pidfd_of (asked->pidfd, asked->pid))
        sonde_closer_clear (&asked->pidfd);
      g_ptr_array_add (targets, sonde_target_new (asked));
    }
  return targets;
}

/* Whether there are targets where the scope has some, and proofs where it wants them: that does not
 * depend on the front's word. */
static gboolean
check_asked (const SondeBroker *self, const SondeMessageTargets *message, GError **error)
{
  gboolean has_proofs
      = self->asked.scope == SONDE_SCOPE_TARGETS || self->asked.scope == SONDE_SCOPE_LAUNCH;
  gboolean has_targets = has_proofs || self->asked.scope == SONDE_SCOPE_PIDS;
  gboolean is_right = has_targets || message->n_targets == 0;

  for (guint i = 0; i < message->n_targets && is_right; i++)
    is_right = ((message->targets[i].flags & SONDE_TARGET_HAS_PROOF) != 0) == has_proofs;
  if (!is_right)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                 "The front sent \"%s\" with targets that the scope %s does not take",
                 sonde_message_type_to_string (message->header.type),
                 sonde_scope_name ((SondeScope) self->asked.scope));
  return is_right;
}

static gboolean
on_prove (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  const SondeMessageTargets *message = (const void *) data;
  g_autoptr (GPtrArray) targets = take_asked (message, fds);
  g_autoptr (GError) why = NULL;

  if (!check_asked (self, message, error))
    return FALSE;
  g_ptr_array_unref (self->proven);
  self->proven = g_steal_pointer (&targets);
  if (!sonde_broker_prove (self, &why))
    {
      sonde_broker_refuse (self, SONDE_MESSAGE_PROVED, why);
      return TRUE;
    }
  self->state = STATE_PROVED;
  sonde_broker_say_result (self, SONDE_MESSAGE_PROVED, NULL);
  return TRUE;
}

static gboolean
send_setup (SondeBroker *self, guint64 session_id, GError **error)
{
  const SondePerfPlan *plan = sonde_event_set_plan (self->events);
  /* Without samples its rings hold what tells of processes, in the same shape. */
  const struct perf_event_attr *attr = plan->has_samples ? &plan->samples : &plan->sideband;
  SondeMessageSetup message = {
    .header.type = SONDE_MESSAGE_SETUP,
    .version = SONDE_MESSAGE_VERSION,
    .flags = sonde_perf_plan_flags (plan),
    .session_id = session_id,
    .owner_uid = self->owner.uid,
    .asked = self->asked,
    .sample_type = attr->sample_type,
    .sample_regs_user = attr->sample_regs_user,
    .read_format = attr->read_format,
    .start_realtime_ns = g_get_real_time () * 1000,
    .start_ns = g_get_monotonic_time () * 1000,
  };

  g_strlcpy (message.event, plan->event_name, sizeof message.event);
  g_strlcpy (message.sonde_version, SONDE_VERSION, sizeof message.sonde_version);
  return sonde_channel_send (self->front, &message, sizeof message, NULL, 0, error);
}

/* A text that cannot be had is not worth a session: captures without it are complete enough. */
static gboolean
send_document (SondeChannel *front, SondeDocumentKind kind, const char *path, GError **error)
{
  SondeMessageDocument message = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = kind };
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_KERNEL_NAMES);
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  return fd < 0 || sonde_channel_send (front, &message, sizeof message, &fd, 1, error);
}

/* What /proc shows to everybody. Interfaces are those of the machine: ours may have none. Where the
 * first process is hidden from us, without a right to more, it is what we have. */
static const struct
{
  guint counters; /* SONDE_COUNTERS_* */
  SondeCounterKind kind;
  const char *path;
  const char *other_path;
} texts[] = {
  { SONDE_COUNTERS_CPU, SONDE_COUNTER_KIND_CPU, "/proc/stat", NULL },
  { SONDE_COUNTERS_MEMORY, SONDE_COUNTER_KIND_MEMORY, "/proc/meminfo", NULL },
  { SONDE_COUNTERS_NETWORK, SONDE_COUNTER_KIND_NETWORK, "/proc/1/net/dev", "/proc/self/net/dev" },
  { SONDE_COUNTERS_DISK, SONDE_COUNTER_KIND_DISK, "/proc/diskstats", NULL },
};

static gboolean
send_counters (SondeChannel *front, guint counters, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      SondeMessageCounters message
          = { .header.type = SONDE_MESSAGE_COUNTERS, .kind = texts[i].kind };
      int fd;

      if ((counters & texts[i].counters) == 0)
        continue;
      fd = open (texts[i].path, O_RDONLY | O_CLOEXEC);
      if (fd < 0 && texts[i].other_path != NULL)
        fd = open (texts[i].other_path, O_RDONLY | O_CLOEXEC);
      if (fd < 0)
        {
          g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                       "Option counters: cannot open %s: %s", texts[i].path, g_strerror (errno));
          return FALSE;
        }
      if (!sonde_channel_send (front, &message, sizeof message, &fd, 1, error))
        return FALSE;
    }
  return TRUE;
}

/* SETUP, then the DOCUMENTs and what COUNTERS need, and the rings. */
static gboolean
set_up_worker (SondeBroker *self, guint64 session_id, GError **error)
{
  const SondeAsked *asked = &self->asked;
  /* Else those that the first target sees. */
  gboolean has_mounts = asked->scope != SONDE_SCOPE_TARGETS && asked->scope != SONDE_SCOPE_LAUNCH;

  return send_setup (self, session_id, error)
         && send_document (self->front, SONDE_DOCUMENT_CPUINFO, "/proc/cpuinfo", error)
         && send_counters (self->front, asked->counters, error)
         && (!has_mounts
             || send_document (self->front, SONDE_DOCUMENT_MOUNTS, "/proc/mounts", error))
         && (!asked->kernel
             || send_document (self->front, SONDE_DOCUMENT_KALLSYMS, "/proc/kallsyms", error))
         && sonde_event_set_send_rings (self->events, self->front, error);
}

static gboolean
on_serve (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  const SondeMessageServe *message = (const void *) data;
  g_autoptr (GError) why = NULL;
  socklen_t size_bytes = sizeof (int);
  int type = 0;

  if (getsockopt (fds[0], SOL_SOCKET, SO_TYPE, &type, &size_bytes) < 0 || type != SOCK_SEQPACKET)
    {
      sonde_closer_clear (&fds[0]);
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The front sent \"serve\" without a connection");
      return FALSE;
    }
  self->worker = sonde_channel_new (sonde_steal_fd (&fds[0]), SONDE_WAY_WORKER_TO_BROKER,
                                    &worker_handler, self);
  self->state = STATE_SERVED;
  if (!set_up_worker (self, message->session_id, &why))
    sonde_broker_refuse (self, SONDE_MESSAGE_BROKEN, why);
  return TRUE;
}

/* --- announce --- */

static gboolean
on_open (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  const SondeMessageOpen *message = (const void *) data;
  g_autoptr (GError) why = NULL;

  if (!sonde_broker_open (self, message->group, &why))
    {
      sonde_broker_refuse (self, SONDE_MESSAGE_OPENED, why);
      return TRUE;
    }
  /* The worker may ask for them before we are told that it was started. */
  for (guint i = 0; i < self->proven->len; i++)
    sonde_proc_broker_allow (self->broker, g_ptr_array_index (self->proven, i));
  self->state = STATE_OPEN;
  sonde_broker_say_result (self, SONDE_MESSAGE_OPENED, NULL);
  return TRUE;
}

static gboolean
on_announce (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  self->state = STATE_RUNNING;
  if (self->note != NULL)
    sonde_broker_say_note (self, self->note);
  sonde_broker_take_targets (self, self->proven, NULL);
  sonde_broker_follow_cpus (self);
  if (self->group != NULL)
    self->watch = sonde_group_watch_new (self->group, on_all_ended, self);
  return TRUE;
}

static gboolean
on_add (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  const SondeMessageTargets *message = (const void *) data;
  g_autoptr (GPtrArray) targets = take_asked (message, fds);

  if (!check_asked (self, message, error))
    return FALSE;
  sonde_broker_add (self, g_steal_pointer (&targets));
  return TRUE;
}

static gboolean
on_rings_mapped (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  const SondeMessageRingsMapped *message = (const void *) data;

  sonde_broker_take_rings (self, message->status);
  return TRUE;
}

static gboolean
on_join (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  const SondeMessageJoin *message = (const void *) data;
  SondeQuestion question = { .kind = SONDE_QUESTION_JOIN,
                             .pid = message->pid,
                             .request_id = message->request_id,
                             .is_called = message->is_called };

  sonde_broker_look_into (self, &question);
  return TRUE;
}

static gboolean
on_close (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  close_events (self);
  self->has_ended = FALSE;
  self->state = STATE_CLOSED;
  return TRUE;
}

/* A front that has taken over may not know it. */
static gboolean
on_report (SondeBroker *self, const SondeMessageHeader *data, int *fds, GError **error)
{
  if (self->state == STATE_RUNNING
      && (self->group != NULL ? sonde_control_group_is_empty (self->group)
                              : sonde_target_set_is_over (self->targets)))
    on_all_ended (self);
  return TRUE;
}

/* --- the front --- */

static const struct
{
  SondeMessageType type;
  guint taken_in; /* set of states */
  gboolean (*take) (SondeBroker *self, const SondeMessageHeader *message, int *fds, GError **error);
} rows[] = {
  { SONDE_MESSAGE_ASK, STATE_SPARE, on_ask },
  { SONDE_MESSAGE_PROVE, STATE_ASKED, on_prove },
  { SONDE_MESSAGE_SERVE, STATE_PROVED, on_serve },
  { SONDE_MESSAGE_OPEN, STATE_SERVED, on_open },
  { SONDE_MESSAGE_ANNOUNCE, STATE_OPEN, on_announce },
  { SONDE_MESSAGE_ADD, STATE_RUNNING, on_add },
  { SONDE_MESSAGE_JOIN, STATE_RUNNING, on_join },
  /* The worker's answer may cross what closes us. */
  { SONDE_MESSAGE_RINGS_MAPPED, STATE_RUNNING | STATE_CLOSED, on_rings_mapped },
  { SONDE_MESSAGE_REPORT, STATES_ALL, on_report },
  { SONDE_MESSAGE_CLOSE, STATES_ALL, on_close },
};

static void
on_front_message (SondeChannel *channel,
                  const SondeMessageHeader *message,
                  int *fds,
                  unsigned n_fds,
                  gpointer user_data)
{
  SondeBroker *self = user_data;
  g_autoptr (GError) error = NULL;
  gboolean is_taken = self->state == STATE_OVER; /* it had not heard that yet */

  for (gsize i = 0; i < G_N_ELEMENTS (rows) && !is_taken && error == NULL; i++)
    if (rows[i].type == message->type && (self->state & rows[i].taken_in) != 0)
      is_taken = rows[i].take (self, message, fds, &error);
  /* They may be of a stranger. */
  for (unsigned i = 0; i < n_fds; i++)
    sonde_closer_clear (&fds[i]);
  if (is_taken)
    return;
  if (error == NULL)
    g_set_error (&error, SONDE_ERROR, SONDE_ERROR_FAILED, "The front sent \"%s\" out of order",
                 sonde_message_type_to_string (message->type));
  g_warning ("%s", error->message);
  sonde_broker_refuse (self, SONDE_MESSAGE_BROKEN, error);
  end (self, EXIT_FAILURE);
}

static void
on_front_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  SondeBroker *self = user_data;

  if (error != NULL)
    g_warning ("%s", error->message);
  end (self, error != NULL ? EXIT_FAILURE : EXIT_SUCCESS);
}

SondeBroker *
sonde_broker_new (int fd, SondeBrokerDone done, gpointer user_data)
{
  static const SondeChannelHandler handler
      = { .message = on_front_message, .closed = on_front_closed };
  SondeMessageSheet sheet
      = { .header.type = SONDE_MESSAGE_SHEET, .version = SONDE_MESSAGE_VERSION };
  SondeBroker *self = g_new0 (SondeBroker, 1);

  self->state = STATE_SPARE;
  self->done = done;
  self->user_data = user_data;
  self->targets = sonde_target_set_new (on_all_ended, self);
  self->proven = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  g_queue_init (&self->operations);
  self->awaited_cpu = -1;
  self->gaps = g_array_new (FALSE, FALSE, sizeof (SondeGap));
  self->probes = g_array_new (FALSE, FALSE, sizeof (SondeProbeLink));
  self->front = sonde_channel_new (fd, SONDE_WAY_FRONT_TO_BROKER, &handler, self);
  sonde_perf_event_look (&sheet.events, &sheet.tracepoints);
  say (self, &sheet, sizeof sheet, NULL, 0);
  return self;
}

void
sonde_broker_free (SondeBroker *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->end, g_source_remove);
  close_events (self);
  g_clear_pointer (&self->front, sonde_channel_free);
  g_clear_pointer (&self->worker, sonde_channel_free);
  g_clear_pointer (&self->lanes, sonde_lanes_free);
  sonde_broker_clear_operations (self);
  g_clear_pointer (&self->targets, sonde_target_set_free);
  g_clear_pointer (&self->proven, g_ptr_array_unref);
  g_clear_pointer (&self->broker, sonde_proc_broker_unref);
  g_array_unref (self->gaps);
  /* Not closed: see probe-program.h. */
  g_array_unref (self->probes);
  g_free (self->note);
  g_free (self);
}
