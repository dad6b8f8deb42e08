/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/event-set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/broker/rights.h"
#include "daemon/base/proc-text.h"
#include "daemon/base/quota.h"
#include "daemon/broker/cpu-follower.h"
#include "daemon/broker/proc-broker.h"

#define TASK_FOLDER_LINKS 2 /* "." and its name; each thread is one more */
#define MAX_PARTIAL_LISTS 8 /* without a new thread in a row; then what makes them is too quick */

typedef struct
{
  int fd;
  SondeMessageEvent entry;
} OpenEvent;

/* A clock among the events of a processor: like all of them it stands still for good once the
 * processor was off, however shortly. */
typedef struct
{
  int fd;             /* -1: none, where events of whole processors are refused */
  gint64 since_ns;    /* CLOCK_MONOTONIC: when it was opened */
  guint64 enabled_ns; /* as last read */
} Pulse;

struct SondeEventSet
{
  SondePerfPlan plan;
  GArray *cpus;   /* int: those with rings, which stay when their CPU goes off */
  GArray *rings;  /* OpenEvent: for each CPU those of list_kinds() */
  GArray *pulses; /* Pulse: for each CPU; where no event of whole CPUs is wanted, none */
  gboolean has_pulses;
  SondeWalkProgram *walks; /* NULL: interpreters are not walked */
  char *why_no_walks;
  SondeProbeProgram *probes; /* NULL: no hits of probes are written */
  char *why_no_probes;
  GArray *with_outputs; /* int: CPUs on which both write */
  int unmapped_cpu;     /* whose rings the worker has not mapped yet; -1: none */
  guint n_handed_over;  /* events */
  gboolean start_on_exec;
};

struct SondeEventDraft
{
  SondePerfPlan plan;
  GArray *cpus;   /* int: on which events are opened */
  guint n_cpus;   /* on which they will be */
  guint n_before; /* events of the set */
  GArray *events; /* OpenEvent: disabled */
  GArray *off;    /* int: CPUs on which some could not be opened */
  gboolean start_on_exec;
};

static void
clear_event (gpointer event)
{
  sonde_clear_fd (&((OpenEvent *) event)->fd);
}

static GArray *
events_new (void)
{
  GArray *events = g_array_new (FALSE, FALSE, sizeof (OpenEvent));

  g_array_set_clear_func (events, clear_event);
  return events;
}

/* Kinds of rings in their order on each CPU: what programs write is in that of samples, whether
 * there are samples or not. Returns: how many there are */
static guint
list_kinds (const SondePerfPlan *plan, SondeEventKind kinds[3])
{
  guint n = 0;

  if (plan->has_samples || plan->has_probes)
    kinds[n++] = SONDE_EVENT_SAMPLES;
  kinds[n++] = SONDE_EVENT_SIDEBAND;
  if (plan->has_switches)
    kinds[n++] = SONDE_EVENT_SWITCHES;
  return n;
}

/* Events of a task, or of a CPU. */
static guint
n_kinds (const SondePerfPlan *plan)
{
  return 1u + (plan->has_samples != FALSE) + (plan->has_switches != FALSE);
}

static const struct perf_event_attr *
attr_of_ring (const SondePerfPlan *plan, SondeEventKind kind)
{
  if (kind == SONDE_EVENT_SAMPLES)
    return &plan->samples_ring;
  return kind == SONDE_EVENT_SWITCHES ? &plan->switches_ring : &plan->sideband_ring;
}

static const struct perf_event_attr *
attr_of_event (const SondePerfPlan *plan, SondeEventKind kind)
{
  if (kind == SONDE_EVENT_SAMPLES)
    return &plan->samples;
  return kind == SONDE_EVENT_SWITCHES ? &plan->switches : &plan->sideband;
}

static guint
n_rings (const SondePerfPlan *plan)
{
  SondeEventKind kinds[3];

  return list_kinds (plan, kinds);
}

static gboolean
identify (OpenEvent *event, GError **error)
{
  if (ioctl (event->fd, PERF_EVENT_IOC_ID, &event->entry.id) < 0)
    return sonde_error_set_errno (error, errno, "Cannot identify a perf event");
  return TRUE;
}

/* A whole-CPU dummy never goes away. Without the right to one, a dummy on our own main thread lives
 * as long as this process does.
 * @is_off: (out): the CPU is, and there is no ring */
static gboolean
open_ring (SondeEventSet *self, SondeEventKind kind, int cpu, gboolean *is_off, GError **error)
{
  const struct perf_event_attr *attr = attr_of_ring (&self->plan, kind);
  OpenEvent ring = { .entry = { .cpu = cpu, .tid = -1, .kind = kind } };
  int fd = sonde_perf_event_open (attr, -1, cpu);

  if (fd == -EACCES || fd == -EPERM)
    {
      ring.entry.tid = getpid ();
      fd = sonde_perf_event_open (attr, 0, cpu);
    }
  *is_off = fd == -ENODEV;
  if (*is_off)
    return TRUE;
  if (fd < 0)
    {
      sonde_perf_event_set_error (error, -fd, "dummy");
      return FALSE;
    }
  ring.fd = fd;
  g_array_append_val (self->rings, ring);
  return identify (&g_array_index (self->rings, OpenEvent, self->rings->len - 1), error);
}

static void
clear_pulse (gpointer pulse)
{
  sonde_clear_fd (&((Pulse *) pulse)->fd);
}

/* -1: it has no rings */
static int
index_of_cpu (const SondeEventSet *self, int cpu)
{
  for (guint i = 0; i < self->cpus->len; i++)
    if (g_array_index (self->cpus, int, i) == cpu)
      return (int) i;
  return -1;
}

static void
forget_outputs (SondeEventSet *self, int cpu)
{
  for (guint i = self->with_outputs->len; i > 0; i--)
    if (g_array_index (self->with_outputs, int, i - 1) == cpu)
      g_array_remove_index_fast (self->with_outputs, i - 1);
}

void
sonde_event_set_revive (SondeEventSet *self, int cpu)
{
  int index = index_of_cpu (self, cpu);
  Pulse *pulse;
  int fd;

  forget_outputs (self, cpu);
  if (!self->has_pulses || index < 0)
    return;
  pulse = &g_array_index (self->pulses, Pulse, index);
  clear_pulse (pulse);
  fd = sonde_perf_event_open (&self->plan.pulse, -1, cpu);
  *pulse = (Pulse){ .fd = fd < 0 ? -1 : fd, .since_ns = g_get_monotonic_time () * 1000 };
}

/* One that has just gone off may come later. */
static gboolean
open_rings_on (SondeEventSet *self, int cpu, GError **error)
{
  guint n_before = self->rings->len;
  gboolean is_off = FALSE;
  Pulse none = { .fd = -1 };
  SondeEventKind kinds[3];
  guint n = list_kinds (&self->plan, kinds);

  for (guint i = 0; i < n && !is_off; i++)
    if (!open_ring (self, kinds[i], cpu, &is_off, error))
      {
        g_array_set_size (self->rings, n_before);
        return FALSE;
      }
  if (is_off)
    g_array_set_size (self->rings, n_before);
  else
    {
      g_array_append_val (self->cpus, cpu);
      g_array_append_val (self->pulses, none);
      sonde_event_set_revive (self, cpu);
    }
  return TRUE;
}

/* Before there are rings: without it there may be none of samples. */
static void
make_probe_program (SondeEventSet *self)
{
  if (self->plan.has_probes && (self->plan.sideband.read_format & PERF_FORMAT_LOST) == 0)
    self->why_no_probes
        = g_strdup ("this kernel does not count what single events lose (Linux 6.0)");
  else if (self->plan.has_probes)
    self->probes = sonde_probe_program_new (&self->why_no_probes);
  self->plan.has_probes = self->probes != NULL;
}

SondeEventSet *
sonde_event_set_new (const SondeAsked *asked, uid_t owner_uid, GError **error)
{
  g_autoptr (SondeEventSet) self = g_new0 (SondeEventSet, 1);
  g_autofree char *online
      = sonde_proc_text_read (AT_FDCWD, SONDE_CPUS_ONLINE_PATH, SONDE_LIMIT_PROC_TEXT_BYTES);
  g_autoptr (GArray) cpus = online != NULL ? sonde_cpu_list_parse (online) : NULL;

  self->rings = events_new ();
  self->cpus = g_array_new (FALSE, FALSE, sizeof (int));
  self->pulses = g_array_new (FALSE, FALSE, sizeof (Pulse));
  g_array_set_clear_func (self->pulses, clear_pulse);
  self->with_outputs = g_array_new (FALSE, FALSE, sizeof (int));
  self->has_pulses = asked->scope == SONDE_SCOPE_SYSTEM || sonde_scope_is_group (asked->scope);
  self->unmapped_cpu = -1;
  self->start_on_exec = asked->start_on_exec;
  sonde_perf_plan_init (&self->plan, asked);
  if (cpus == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "Cannot read which processors are online in /sys/devices/system/cpu");
      return NULL;
    }
  /* Each ring's event is sent to the worker in a duplicate; later as many events of whole CPUs are
   * on their way. */
  if (!sonde_quota_check_rings (owner_uid, cpus->len, error)
      || !sonde_quota_check_fds (owner_uid, 3 * (guint64) cpus->len * n_rings (&self->plan), error)
      || !sonde_perf_plan_probe (&self->plan, asked, g_array_index (cpus, int, 0), error))
    return NULL;
  make_probe_program (self);
  for (guint i = 0; i < cpus->len; i++)
    if (!open_rings_on (self, g_array_index (cpus, int, i), error))
      return NULL;
  /* Else what walks lose would be taken for samples. */
  if (self->plan.has_walks && (self->plan.samples.read_format & PERF_FORMAT_LOST) == 0)
    self->why_no_walks
        = g_strdup ("this kernel does not count what single events lose (Linux 6.0)");
  else if (self->plan.has_walks)
    self->walks = sonde_walk_program_new (
        sonde_proc_broker_is_unlimited (owner_uid, (SondeScope) asked->scope, asked->raw),
        &self->why_no_walks);
  return g_steal_pointer (&self);
}

void
sonde_event_set_free (SondeEventSet *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->cpus, g_array_unref);
  g_clear_pointer (&self->pulses, g_array_unref);
  g_clear_pointer (&self->rings, g_array_unref);
  g_clear_pointer (&self->with_outputs, g_array_unref);
  sonde_walk_program_free (self->walks);
  g_free (self->why_no_walks);
  sonde_probe_program_unref (self->probes);
  g_free (self->why_no_probes);
  g_free (self);
}

SondeWalkProgram *
sonde_event_set_walk_program (const SondeEventSet *self)
{
  return self->walks;
}

const char *
sonde_event_set_why_no_walks (const SondeEventSet *self)
{
  return self->why_no_walks;
}

SondeProbeProgram *
sonde_event_set_probe_program (const SondeEventSet *self)
{
  return self->probes;
}

const char *
sonde_event_set_why_no_probes (const SondeEventSet *self)
{
  return self->why_no_probes;
}

const SondePerfPlan *
sonde_event_set_plan (const SondeEventSet *self)
{
  return &self->plan;
}

/* @fds are taken. @n_more: rings that follow */
static gboolean
send_batch (SondeChannel *front,
            SondeMessageType type,
            const OpenEvent *events,
            const int *fds,
            guint n_events,
            guint n_more,
            GError **error)
{
  gsize size_bytes = sizeof (SondeMessageEvents) + n_events * sizeof (SondeMessageEvent);
  g_autofree SondeMessageEvents *message = g_malloc0 (size_bytes);

  message->header.type = type;
  message->n_events = n_events;
  message->n_more = n_more;
  for (guint i = 0; i < n_events; i++)
    message->events[i] = events[i].entry;
  return sonde_channel_send (front, message, size_bytes, fds, n_events, error);
}

/* Ours stay open: later events are redirected through them. */
static gboolean
duplicate (const OpenEvent *rings, guint n_rings, int *fds, GError **error)
{
  for (guint i = 0; i < n_rings; i++)
    {
      fds[i] = fcntl (rings[i].fd, F_DUPFD_CLOEXEC, 3);
      if (fds[i] < 0)
        {
          sonde_error_set_errno (error, errno, "Cannot duplicate a ring's event");
          while (i-- > 0)
            close (fds[i]);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
send_rings_from (SondeEventSet *self, guint first, SondeChannel *front, GError **error)
{
  for (; first < self->rings->len; first += SONDE_MESSAGE_MAX_FDS)
    {
      const OpenEvent *rings = &g_array_index (self->rings, OpenEvent, first);
      guint n_rings = MIN (self->rings->len - first, SONDE_MESSAGE_MAX_FDS);
      int fds[SONDE_MESSAGE_MAX_FDS];

      if (!duplicate (rings, n_rings, fds, error)
          || !send_batch (front, SONDE_MESSAGE_RINGS, rings, fds, n_rings,
                          self->rings->len - first - n_rings, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_event_set_send_rings (SondeEventSet *self, SondeChannel *front, GError **error)
{
  return send_rings_from (self, 0, front, error);
}

const GArray *
sonde_event_set_cpus (const SondeEventSet *self)
{
  return self->cpus;
}

gboolean
sonde_event_set_has_cpu (const SondeEventSet *self, int cpu)
{
  return index_of_cpu (self, cpu) >= 0;
}

gboolean
sonde_event_set_add_cpu (SondeEventSet *self, int cpu, SondeChannel *front, GError **error)
{
  guint n_before = self->rings->len;

  g_assert (!sonde_event_set_has_cpu (self, cpu) && self->unmapped_cpu < 0);

  self->unmapped_cpu = cpu;
  return open_rings_on (self, cpu, error) && send_rings_from (self, n_before, front, error);
}

void
sonde_event_set_take_cpu (SondeEventSet *self, int cpu, gboolean is_mapped)
{
  int index = index_of_cpu (self, cpu);

  self->unmapped_cpu = -1;
  if (is_mapped || index < 0)
    return;
  g_array_remove_index (self->cpus, (guint) index);
  g_array_remove_index (self->pulses, (guint) index);
  g_array_remove_range (self->rings, (guint) index * n_rings (&self->plan), n_rings (&self->plan));
}

/* FALSE: it has none, or it cannot be read. */
static gboolean
read_pulse (Pulse *self)
{
  guint64 values[2]; /* count, time enabled */

  if (self->fd < 0 || read (self->fd, values, sizeof values) != sizeof values)
    return FALSE;
  self->enabled_ns = values[1];
  return TRUE;
}

gboolean
sonde_event_set_is_counting (SondeEventSet *self, int cpu)
{
  int index = index_of_cpu (self, cpu);
  Pulse *pulse = index >= 0 ? &g_array_index (self->pulses, Pulse, index) : NULL;
  guint64 before_ns = pulse != NULL ? pulse->enabled_ns : 0;

  return pulse == NULL || !read_pulse (pulse) || pulse->enabled_ns > before_ns;
}

gint64
sonde_event_set_counted_until_ns (SondeEventSet *self, int cpu)
{
  int index = index_of_cpu (self, cpu);
  Pulse *pulse = index >= 0 ? &g_array_index (self->pulses, Pulse, index) : NULL;

  return pulse != NULL && read_pulse (pulse) ? pulse->since_ns + (gint64) pulse->enabled_ns : 0;
}

/* --- a draft --- */

SondeEventDraft *
sonde_event_set_draft (const SondeEventSet *self, int cpu)
{
  SondeEventDraft *draft = g_new0 (SondeEventDraft, 1);

  draft->plan = self->plan;
  draft->cpus = g_array_new (FALSE, FALSE, sizeof (int));
  for (guint i = 0; i < self->cpus->len; i++)
    {
      int with_rings = g_array_index (self->cpus, int, i);

      if (with_rings != self->unmapped_cpu && (cpu < 0 || with_rings == cpu))
        g_array_append_val (draft->cpus, with_rings);
    }
  draft->n_cpus = self->cpus->len;
  draft->n_before = self->n_handed_over;
  draft->events = events_new ();
  draft->off = g_array_new (FALSE, FALSE, sizeof (int));
  draft->start_on_exec = self->start_on_exec;
  return draft;
}

void
sonde_event_draft_free (SondeEventDraft *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->cpus);
  g_array_unref (self->events);
  g_array_unref (self->off);
  g_free (self);
}

const GArray *
sonde_event_draft_off_cpus (const SondeEventDraft *self)
{
  return self->off;
}

guint
sonde_event_draft_size (const SondeEventDraft *self)
{
  return self->events->len;
}

void
sonde_event_draft_take (SondeEventDraft *self, SondeEventDraft *more)
{
  g_array_append_vals (self->events, more->events->data, more->events->len);
  for (guint i = 0; i < more->events->len; i++)
    g_array_index (more->events, OpenEvent, i).fd = -1;
  sonde_event_draft_free (more);
}

static gboolean
check_room (const SondeEventDraft *self, guint n_tasks, GError **error)
{
  guint64 wanted = (guint64) n_tasks * self->n_cpus * n_kinds (&self->plan);

  if (wanted + self->events->len + self->n_before <= SONDE_LIMIT_EVENTS)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "Limit events: %u threads on %u processors need more than %d perf events", n_tasks,
               self->n_cpus, SONDE_LIMIT_EVENTS);
  return FALSE;
}

/* What one event of each kind on each CPU watches. */
typedef struct
{
  pid_t tid;    /* -1: whole CPUs */
  int group_fd; /* -1, or with tid -1 a control group on them */
  guint32 flags;
  gboolean is_gone; /* (out): the thread has exited meanwhile */
} Subject;

/* What it will need is opened when it comes back. */
static void
note_off (SondeEventDraft *self, int cpu)
{
  for (guint i = 0; i < self->off->len; i++)
    if (g_array_index (self->off, int, i) == cpu)
      return;
  g_array_append_val (self->off, cpu);
}

static gboolean
open_event (SondeEventDraft *self, SondeEventKind kind, Subject *subject, int cpu, GError **error)
{
  gboolean is_sampling = kind == SONDE_EVENT_SAMPLES;
  const struct perf_event_attr *attr = attr_of_event (&self->plan, kind);
  gboolean waits = self->start_on_exec && kind != SONDE_EVENT_SIDEBAND;
  guint32 flags = subject->flags | (waits ? SONDE_EVENT_ON_EXEC : 0);
  OpenEvent event = { .entry = { .cpu = cpu, .tid = subject->tid, .kind = kind, .flags = flags } };

  event.fd = subject->group_fd >= 0 ? sonde_perf_event_open_group (attr, subject->group_fd, cpu)
                                    : sonde_perf_event_open (attr, subject->tid, cpu);
  if (event.fd == -ESRCH)
    {
      subject->is_gone = TRUE;
      return TRUE;
    }
  if (event.fd == -ENODEV)
    {
      note_off (self, cpu);
      return TRUE;
    }
  if (event.fd < 0)
    {
      sonde_perf_event_set_error (error, -event.fd, is_sampling ? self->plan.event_name : "dummy");
      return FALSE;
    }
  g_array_append_val (self->events, event);
  return TRUE;
}

static gboolean
open_subject (SondeEventDraft *self, Subject *subject, GError **error)
{
  for (guint i = 0; i < self->cpus->len && !subject->is_gone; i++)
    {
      int cpu = g_array_index (self->cpus, int, i);

      /* Side-band first: a mapping is known before a sample in it. */
      if (!open_event (self, SONDE_EVENT_SIDEBAND, subject, cpu, error))
        return FALSE;
      if (self->plan.has_samples && !subject->is_gone
          && !open_event (self, SONDE_EVENT_SAMPLES, subject, cpu, error))
        return FALSE;
      if (self->plan.has_switches && !subject->is_gone
          && !open_event (self, SONDE_EVENT_SWITCHES, subject, cpu, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_event_draft_open_system (SondeEventDraft *self, GError **error)
{
  Subject subject = { .tid = -1, .group_fd = -1 };

  return check_room (self, 1, error) && open_subject (self, &subject, error);
}

gboolean
sonde_event_draft_open_group (SondeEventDraft *self, int group_fd, GError **error)
{
  Subject subject = { .tid = -1, .group_fd = group_fd };

  return check_room (self, 1, error) && open_subject (self, &subject, error);
}

/* Threads in @tasks_fd, at most twice as many as events may be. The kernel goes on by number where
 * the thread that it had come to has ended: some that live are left out then. */
static GArray *
list_tasks (int tasks_fd)
{
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (pid_t));
  sonde_autofd int fd = openat (tasks_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *tasks = fd >= 0 ? fdopendir (fd) : NULL;
  const struct dirent *entry;

  if (tasks == NULL)
    return g_steal_pointer (&found);
  (void) sonde_steal_fd (&fd);
  while (found->len <= 2 * SONDE_LIMIT_EVENTS && (entry = readdir (tasks)) != NULL)
    {
      pid_t tid = (pid_t) strtol (entry->d_name, NULL, 10);

      if (tid > 0)
        g_array_append_val (found, tid);
    }
  closedir (tasks);
  return g_steal_pointer (&found);
}

static gboolean
has_task (int tasks_fd, pid_t tid)
{
  char name[16];

  g_snprintf (name, sizeof name, "%d", (int) tid);
  return faccessat (tasks_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether @tids were all threads at some time: as many as the kernel counts then, and each is there
 * afterwards. */
static gboolean
is_whole (int tasks_fd, const GArray *tids)
{
  struct stat status;

  if (fstat (tasks_fd, &status) < 0)
    return errno == ENOENT || errno == ESRCH; /* the process is gone */
  if (status.st_nlink != (nlink_t) tids->len + TASK_FOLDER_LINKS)
    return tids->len == 0;
  for (guint i = 0; i < tids->len; i++)
    if (!has_task (tasks_fd, g_array_index (tids, pid_t, i)))
      return FALSE;
  return TRUE;
}

static GArray *
pick_new (const GArray *tids, GHashTable *known)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (pid_t));

  for (guint i = 0; i < tids->len; i++)
    if (!g_hash_table_contains (known, GINT_TO_POINTER (g_array_index (tids, pid_t, i))))
      g_array_append_val (found, g_array_index (tids, pid_t, i));
  return found;
}

gboolean
sonde_event_draft_check_room (const SondeEventDraft *self,
                              uid_t owner_uid,
                              GArray *pids,
                              GError **error)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  guint n_tasks = 0;

  /* Each summand is bounded, and what is too much already is not counted further. */
  for (guint i = 0; i < pids->len && n_tasks <= SONDE_LIMIT_EVENTS; i++)
    {
      g_autofree char *directory = g_strdup_printf ("/proc/%d/task", g_array_index (pids, gint, i));
      sonde_autofd int tasks_fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
      g_autoptr (GArray) tids = list_tasks (tasks_fd);

      n_tasks += tids->len;
    }
  return check_room (self, n_tasks, error)
         && sonde_quota_check_fds (owner_uid,
                                   (guint64) n_tasks * self->n_cpus * n_kinds (&self->plan), error);
}

/* The number may have gone to a task of another process since it was found; then what was opened is
 * closed again. */
static gboolean
open_task (SondeEventDraft *self, int tasks_fd, pid_t tid, guint32 flags, GError **error)
{
  Subject subject = { .tid = tid, .group_fd = -1, .flags = flags };
  guint n_before = self->events->len;

  if (!open_subject (self, &subject, error))
    return FALSE;
  if (!has_task (tasks_fd, tid))
    g_array_set_size (self->events, n_before);
  return TRUE;
}

gboolean
sonde_event_draft_open_process (
    SondeEventDraft *self, pid_t pid, int process_fd, gboolean is_late, GError **error)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  sonde_autofd int tasks_fd = openat (process_fd, "task", O_PATH | O_DIRECTORY | O_CLOEXEC);
  g_autoptr (GHashTable) opened = g_hash_table_new (NULL, NULL);
  guint n_partial = 0;

  if (tasks_fd < 0) /* it is gone */
    return TRUE;
  for (guint pass = 0; pass < SONDE_LIMIT_TASK_PASSES; pass++)
    {
      g_autoptr (GArray) all = list_tasks (tasks_fd);
      g_autoptr (GArray) tids = pick_new (all, opened);

      n_partial = tids->len == 0 ? n_partial + 1 : 0;
      if (tids->len == 0 && (is_whole (tasks_fd, all) || n_partial == MAX_PARTIAL_LISTS))
        return TRUE;
      if (!check_room (self, tids->len, error))
        return FALSE;
      for (guint i = 0; i < tids->len; i++)
        {
          pid_t tid = g_array_index (tids, pid_t, i);

          g_hash_table_add (opened, GINT_TO_POINTER (tid));
          if (!open_task (self, tasks_fd, tid, is_late || pass > 0 ? SONDE_EVENT_LATE : 0, error))
            return FALSE;
        }
    }
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
               "Process %d makes threads faster than they can be found", (int) pid);
  return FALSE;
}

/* --- processes: targets, and the members of a unit --- */

SondeOpening *
sonde_opening_new_target (SondeTarget *target,
                          gboolean is_new,
                          const SondeTracer *owner,
                          SondeEventDraft *draft)
{
  SondeOpening *self = g_new0 (SondeOpening, 1);

  *self = (SondeOpening){ .owner = *owner, .target = target, .is_new = is_new, .draft = draft };
  return self;
}

SondeOpening *
sonde_opening_new_member (pid_t pid, const SondeControlGroup *group, SondeEventDraft *draft)
{
  SondeOpening *self = g_new0 (SondeOpening, 1);

  *self = (SondeOpening){ .pid = pid, .group = group, .draft = draft };
  return self;
}

void
sonde_opening_free (SondeOpening *self)
{
  if (self == NULL)
    return;
  sonde_target_free (self->target);
  sonde_event_draft_free (self->draft);
  g_clear_error (&self->error);
  g_free (self);
}

/* The number may have gone to a process outside of the unit since it was listed: its events, still
 * off, are closed again. */
static gboolean
open_member (SondeEventDraft *draft,
             const SondeControlGroup *group,
             pid_t pid,
             gboolean is_late,
             GError **error)
{
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) pid);
  sonde_autofd int process_fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  guint n_before = draft->events->len;
  g_autofree char *text = NULL;

  if (process_fd < 0)
    return TRUE;
  if (!sonde_event_draft_open_process (draft, pid, process_fd, is_late, error))
    return FALSE;
  text = sonde_proc_text_read (process_fd, "cgroup", SONDE_LIMIT_PROC_TEXT_BYTES);
  if (text == NULL || !sonde_control_group_contains (group, text))
    g_array_set_size (draft->events, n_before);
  return TRUE;
}

/* Some may have been inherited. */
void
sonde_opening_run (SondeOpening *self)
{
  g_autoptr (GArray) pids = g_array_new (FALSE, FALSE, sizeof (gint));

  if (self->target == NULL)
    {
      open_member (self->draft, self->group, self->pid, TRUE, &self->error);
      return;
    }
  if (self->is_new)
    {
      gint pid = self->target->pid;

      g_array_append_val (pids, pid);
      if (!sonde_target_prove (self->target, &self->owner, &self->error)
          || !sonde_event_draft_check_room (self->draft, self->owner.uid, pids, &self->error))
        return;
    }
  /* Nothing more of one that is gone, or that its owner may not look into any more. */
  else if (!sonde_target_reopen (self->target, &self->owner))
    return;
  if (sonde_event_draft_open_process (self->draft, self->target->pid, self->target->process_fd,
                                      TRUE, &self->error)
      && !sonde_target_confirm (self->target, &self->owner, self->is_new ? &self->error : NULL))
    g_array_set_size (self->draft->events, 0);
}

static gboolean
refuse_empty (const SondeControlGroup *group, GError **error)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS, "%s has no process",
               sonde_control_group_name (group));
  return FALSE;
}

/* Whoever forks during a pass is found in the next one. */
static gboolean
open_members (SondeEventDraft *draft,
              const SondeControlGroup *group,
              uid_t owner_uid,
              GError **error)
{
  g_autoptr (GHashTable) known = g_hash_table_new (NULL, NULL);

  for (guint pass = 0; pass < SONDE_LIMIT_TASK_PASSES; pass++)
    {
      g_autoptr (GArray) pids = sonde_control_group_list (group, error);
      guint n_new = 0;

      if (pids == NULL
          || (pass == 0 && !sonde_event_draft_check_room (draft, owner_uid, pids, error)))
        return FALSE;
      for (guint i = 0; i < pids->len; i++)
        {
          pid_t pid = g_array_index (pids, pid_t, i);

          if (!g_hash_table_add (known, GINT_TO_POINTER (pid)))
            continue;
          n_new++;
          if (!open_member (draft, group, pid, pass > 0, error))
            return FALSE;
        }
      if (n_new == 0 && draft->events->len > 0)
        return TRUE;
      if (n_new == 0)
        return refuse_empty (group, error);
    }
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
               "%s makes processes faster than they can be found",
               sonde_control_group_name (group));
  return FALSE;
}

gboolean
sonde_group_events_open (SondeEventDraft *draft,
                         const SondeControlGroup *group,
                         uid_t owner_uid,
                         char **note,
                         GError **error)
{
  g_autoptr (GError) why = NULL;
  int group_fd = sonde_control_group_fd (group);

  *note = NULL;
  if (sonde_control_group_is_empty (group))
    return refuse_empty (group, error);
  if (group_fd >= 0 && sonde_event_draft_open_group (draft, group_fd, &why))
    return TRUE;
  g_array_set_size (draft->events, 0);
  if (!open_members (draft, group, owner_uid, error))
    return FALSE;
  *note = g_strdup_printf (
      "The processes of the unit or control group are watched one by one, with those that they "
      "make; others that join it later are not seen: %s",
      why != NULL ? why->message : "its control group is of version 1, which has no perf events");
  return TRUE;
}

/* --- what becomes of a draft --- */

/* What is told by its rings alone goes on. */
static void
drop_without_rings (const SondeEventSet *self, GArray *events)
{
  guint n_left = 0;

  for (guint i = 0; i < events->len; i++)
    {
      OpenEvent *event = &g_array_index (events, OpenEvent, i);

      if (!sonde_event_set_has_cpu (self, event->entry.cpu))
        sonde_clear_fd (&event->fd);
      else if (n_left++ < i)
        {
          g_array_index (events, OpenEvent, n_left - 1) = *event;
          event->fd = -1;
        }
    }
  g_array_set_size (events, n_left);
}

/* The session goes on without. */
static void
give_up_walks (SondeEventSet *self, const char *what, int error_number)
{
  g_clear_pointer (&self->walks, sonde_walk_program_free);
  if (self->why_no_walks == NULL)
    self->why_no_walks = g_strdup_printf ("%s: %s", what, g_strerror (error_number));
}

static gboolean
enable (SondeEventSet *self, OpenEvent *event, GError **error)
{
  SondeEventKind kinds[3];
  guint n = list_kinds (&self->plan, kinds);
  guint ring = (guint) index_of_cpu (self, event->entry.cpu) * n;
  int result = 0;

  for (guint i = 0; i < n; i++)
    if (kinds[i] == event->entry.kind)
      ring += i;

  if (self->walks != NULL && event->entry.kind == SONDE_EVENT_SAMPLES)
    result = sonde_walk_program_attach (self->walks, event->fd);
  if (result < 0)
    give_up_walks (self, "the kernel runs no program at this event", -result);
  if (!identify (event, error))
    return FALSE;
  if (ioctl (event->fd, PERF_EVENT_IOC_SET_OUTPUT, g_array_index (self->rings, OpenEvent, ring).fd)
      < 0)
    return sonde_error_set_errno (error, errno, "Cannot redirect a perf event to its ring");
  if ((event->entry.flags & SONDE_EVENT_ON_EXEC) == 0
      && ioctl (event->fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot enable a perf event");
  return TRUE;
}

/* @batch: what is sent is closed here */
static gboolean
send_events (SondeChannel *front, OpenEvent *batch, guint n_events, GError **error)
{
  int fds[SONDE_MESSAGE_MAX_FDS];

  for (guint i = 0; i < n_events; i++)
    fds[i] = sonde_steal_fd (&batch[i].fd);
  return send_batch (front, SONDE_MESSAGE_EVENTS, batch, fds, n_events, 0, error);
}

/* Returns: 0, or a negative errno: -ENODEV: the CPU is off */
static int
open_output_on (SondeEventSet *self, SondeEventKind kind, int cpu, OpenEvent *event)
{
  gboolean is_walk = kind == SONDE_EVENT_WALKS;

  *event = (OpenEvent){ .entry = { .cpu = cpu, .tid = -1, .kind = kind } };
  event->fd = sonde_perf_event_open (is_walk ? &self->plan.walks : &self->plan.probes, -1, cpu);
  if (event->fd < 0)
    return event->fd;
  if (!enable (self, event, NULL))
    return -EINVAL;
  return is_walk ? sonde_walk_program_set_output (self->walks, cpu, event->fd)
                 : sonde_probe_program_set_output (self->probes, cpu, event->fd);
}

/* The session goes on without. */
static void
give_up_output (SondeEventSet *self, SondeEventKind kind, int error_number)
{
  const char *what = "the kernel opens no event for what a BPF program writes";

  if (kind == SONDE_EVENT_WALKS)
    {
      give_up_walks (self, what, error_number);
      return;
    }
  g_clear_pointer (&self->probes, sonde_probe_program_unref);
  if (self->why_no_probes == NULL)
    self->why_no_probes = g_strdup_printf ("%s: %s", what, g_strerror (error_number));
}

static gboolean
has_output (const SondeEventSet *self, SondeEventKind kind)
{
  return kind == SONDE_EVENT_WALKS ? self->walks != NULL : self->probes != NULL;
}

static gboolean
open_outputs_on (SondeEventSet *self, int cpu, SondeChannel *front, GError **error)
{
  static const SondeEventKind kinds[] = { SONDE_EVENT_WALKS, SONDE_EVENT_PROBES };
  gboolean is_off = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (kinds) && !is_off; i++)
    {
      OpenEvent event;
      int result;

      if (!has_output (self, kinds[i]))
        continue;
      result = open_output_on (self, kinds[i], cpu, &event);
      is_off = result == -ENODEV;
      if (result < 0)
        clear_event (&event);
      if (result < 0 && !is_off)
        give_up_output (self, kinds[i], -result);
      if (result == 0 && !send_events (front, &event, 1, error))
        return FALSE;
    }
  if (!is_off)
    g_array_append_val (self->with_outputs, cpu);
  return TRUE;
}

gboolean
sonde_event_set_open_outputs (SondeEventSet *self, SondeChannel *front, GError **error)
{
  for (guint i = 0; i < self->cpus->len; i++)
    {
      int cpu = g_array_index (self->cpus, int, i);
      gboolean has_some = cpu == self->unmapped_cpu;

      for (guint j = 0; j < self->with_outputs->len; j++)
        has_some = has_some || g_array_index (self->with_outputs, int, j) == cpu;
      if (!has_some && !open_outputs_on (self, cpu, front, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_event_set_hand_over (SondeEventSet *self,
                           SondeEventDraft *draft,
                           SondeChannel *front,
                           GError **error)
{
  g_autoptr (SondeEventDraft) taken = draft;
  GArray *events = taken->events;

  if (events->len + self->n_handed_over > SONDE_LIMIT_EVENTS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit events: at most %d perf events in a session", SONDE_LIMIT_EVENTS);
      return FALSE;
    }
  drop_without_rings (self, events);
  if (!sonde_event_set_open_outputs (self, front, error))
    return FALSE;
  for (guint i = 0; i < events->len; i++)
    if (!enable (self, &g_array_index (events, OpenEvent, i), error))
      return FALSE;

  for (guint first = 0; first < events->len; first += SONDE_MESSAGE_MAX_FDS)
    {
      guint n_events = MIN (events->len - first, SONDE_MESSAGE_MAX_FDS);

      if (!send_events (front, &g_array_index (events, OpenEvent, first), n_events, error))
        return FALSE;
    }
  self->n_handed_over += events->len;
  return TRUE;
}
