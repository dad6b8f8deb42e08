/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/perf-event.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/broker/rights.h"
#include "daemon/base/proc-text.h"

#define PARANOID_PATH "/proc/sys/kernel/perf_event_paranoid"
#define MAX_RATE_PATH "/proc/sys/kernel/perf_event_max_sample_rate"

/* Bytes in a ring that wake its reader, who looks at it by the clock as well. Half of the ring
 * (0) is for those that fill it faster: rings may be small, unprivileged 128 KiB a CPU. */
#define SAMPLES_WATERMARK  0
#define SIDEBAND_WATERMARK (8 * 1024)
#define SWITCHES_WATERMARK 0

/* The registers that unwinding needs: all general ones, instruction and stack pointer.
 * Source: asm/perf_regs.h */
#if defined(__x86_64__)
#define REGS_MASK 0xff01ffULL /* AX BX CX DX SI DI BP SP IP, R8 to R15 */
#elif defined(__aarch64__)
#define REGS_MASK ((1ULL << 33) - 1) /* X0 to X30, SP, PC */
#else
#define REGS_MASK 0ULL
#endif

#define ID_SAMPLE_TYPE                                                                             \
  (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

/* The second is where it was before Linux 4.1, and where some still mount it alone. */
static const char *const mount_points[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

/* Without tracefs its mount point is an empty directory that somebody may have put files into. */
static int
open_tracefs (const char *path)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct statfs fs;

  if (fd < 0 || fstatfs (fd, &fs) < 0)
    return -errno;
  return fs.f_type == TRACEFS_MAGIC ? sonde_steal_fd (&fd) : -ENOENT;
}

gint64
sonde_tracepoint_id (const char *name)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_TRACEPOINTS);
  g_autofree char *path = g_strdup_printf ("events/%s/id", name);
  int result = -ENOENT;

  g_strdelimit (path, ":", '/');
  for (guint i = 0; i < G_N_ELEMENTS (mount_points); i++)
    {
      sonde_autofd int fd = open_tracefs (mount_points[i]);
      g_autofree char *text = fd >= 0 ? sonde_proc_text_read (fd, path, 64) : NULL;
      guint64 id;

      if (text != NULL
          && g_ascii_string_to_unsigned (g_strchomp (text), 10, 1, G_MAXUINT, &id, NULL))
        return (gint64) id;
      if (fd < 0)
        result = fd;
    }
  return result;
}

static void
init_common (struct perf_event_attr *attr)
{
  *attr = (struct perf_event_attr){
    .size = sizeof *attr,
    .sample_type = ID_SAMPLE_TYPE,
    .disabled = 1,
    .sample_id_all = 1,
    .exclude_hv = 1,
    .exclude_guest = 1,
    .use_clockid = 1,
    .clockid = CLOCK_MONOTONIC,
  };
}

static void
init_dummy (struct perf_event_attr *attr)
{
  init_common (attr);
  attr->type = PERF_TYPE_SOFTWARE;
  attr->config = PERF_COUNT_SW_DUMMY;
  /* It counts nothing; a user may have it. */
  attr->exclude_kernel = 1;
}

static void
init_ring (struct perf_event_attr *attr, guint32 watermark_bytes)
{
  init_dummy (attr);
  attr->watermark = 1;
  attr->wakeup_watermark = watermark_bytes;
}

static void
set_inherit (struct perf_event_attr *attr, const SondeAsked *asked)
{
  if (asked->scope == SONDE_SCOPE_SYSTEM)
    return;
  /* New threads always belong to their process; new processes are a choice. */
  attr->inherit = 1;
  attr->inherit_thread = !asked->children;
}

static void
use_event (SondePerfPlan *self, SondeEventChoice event, const SondeAsked *asked)
{
  struct perf_event_attr *attr = &self->samples;

  if (event == SONDE_EVENT_TRACEPOINT)
    {
      self->event_name = sonde_asked_event_name (asked);
      self->tracepoint_id = sonde_tracepoint_id (self->event_name);
      attr->type = PERF_TYPE_TRACEPOINT;
      /* With it the kernel makes a sample of every hit, whatever the period. */
      attr->sample_type &= ~(guint64) PERF_SAMPLE_PERIOD;
      attr->config = (guint64) MAX (self->tracepoint_id, 0);
      return;
    }
  self->event_name = sonde_event_choice_names[event];
  if (event == SONDE_EVENT_CPU_CLOCK)
    {
      attr->type = PERF_TYPE_SOFTWARE;
      attr->config = PERF_COUNT_SW_CPU_CLOCK;
      /* An idle CPU has nothing to tell; some hardware counters refuse this bit, and stand still.
       */
      attr->exclude_idle = asked->scope == SONDE_SCOPE_SYSTEM;
      return;
    }
  attr->type = PERF_TYPE_HARDWARE;
  attr->config
      = event == SONDE_EVENT_INSTRUCTIONS ? PERF_COUNT_HW_INSTRUCTIONS : PERF_COUNT_HW_CPU_CYCLES;
  attr->exclude_idle = 0;
}

/* defer_callchain and defer_output, which came with Linux 6.19, and its headers: the first two of
 * the bits that others hold reserved, behind sigtrap. Source: linux/perf_event.h */
#define DEFER_BITS (UINT64_C (3) << 38)

static void
set_deferred (SondePerfPlan *self, gboolean defers)
{
  const size_t offset = offsetof (struct perf_event_attr, read_format) + sizeof (guint64);
  guint64 bits;

  memcpy (&bits, (const guint8 *) &self->samples + offset, sizeof bits);
  bits = defers ? bits | DEFER_BITS : bits & ~DEFER_BITS;
  memcpy ((guint8 *) &self->samples + offset, &bits, sizeof bits);
  self->defers = defers;
}

static void
set_stack (struct perf_event_attr *attr, const SondeAsked *asked)
{
  gboolean by_copy = asked->unwind == SONDE_UNWIND_DWARF || asked->unwind == SONDE_UNWIND_LIBDWFL;
  /* Above a copy that is too short, frame pointers may go on. libdwfl is not told of them. */
  gboolean by_kernel
      = asked->unwind == SONDE_UNWIND_DWARF || asked->unwind == SONDE_UNWIND_FRAME_POINTER;

  if (by_copy)
    {
      attr->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
      attr->sample_regs_user = REGS_MASK;
      attr->sample_stack_user = asked->stack_size_bytes;
    }
  if (by_kernel || asked->kernel)
    {
      attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
      attr->exclude_callchain_user = !by_kernel;
      attr->exclude_callchain_kernel = !asked->kernel;
    }
}

static void
init_samples (SondePerfPlan *self, const SondeAsked *asked)
{
  struct perf_event_attr *attr = &self->samples;

  init_common (attr);
  attr->sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD;
  attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
  if (asked->frequency_hz > 0)
    {
      attr->freq = 1;
      attr->sample_freq = asked->frequency_hz;
    }
  else
    attr->sample_period = asked->period;
  /* Side-band records are wanted from the start: they tell of the exec. */
  attr->enable_on_exec = asked->start_on_exec;
  set_stack (attr, asked);
  /* Frame pointers alone had better come with their sample. */
  set_deferred (self, asked->unwind == SONDE_UNWIND_DWARF);
  set_inherit (attr, asked);
  use_event (self, asked->event == SONDE_EVENT_AUTO ? SONDE_EVENT_CYCLES : asked->event, asked);
  self->may_fall_back = asked->event == SONDE_EVENT_AUTO;
}

static void
init_sideband (SondePerfPlan *self, const SondeAsked *asked)
{
  struct perf_event_attr *attr = &self->sideband;

  init_dummy (attr);
  attr->mmap = 1; /* executable mappings; mmap_data would add the others */
  attr->mmap2 = 1;
  attr->comm = 1;
  attr->comm_exec = 1;
  attr->task = 1;
  attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
  set_inherit (attr, asked);
}

/* Like the side band it needs no right beyond the target's: a switch tells a thread, and nothing of
 * the kernel. What switches of a whole processor tell of the other thread the worker does not read.
 * Times begin with the program that is waited for. */
static void
init_switches (struct perf_event_attr *attr, const SondeAsked *asked)
{
  init_dummy (attr);
  attr->context_switch = 1;
  attr->enable_on_exec = asked->start_on_exec;
  attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
  set_inherit (attr, asked);
}

/* It writes when it is told to, and what it is told to. The place of an instruction is that of the
 * sample. */
static void
init_walks (struct perf_event_attr *attr)
{
  init_common (attr);
  attr->type = PERF_TYPE_SOFTWARE;
  attr->config = PERF_COUNT_SW_BPF_OUTPUT;
  attr->sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_RAW;
  attr->sample_period = 1;
  attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
}

/* The same at a probe, whose registers and stack tell of a block. */
static void
init_probes (struct perf_event_attr *attr, const SondeAsked *asked)
{
  init_walks (attr);
  attr->sample_type = SONDE_PROBE_SAMPLE_TYPE;
  attr->sample_regs_user = SONDE_PROBE_REGISTERS;
  attr->sample_stack_user = asked->stack_size_bytes;
}

void
sonde_perf_plan_init (SondePerfPlan *self, const SondeAsked *asked)
{
  *self = (SondePerfPlan){ .event_name = sonde_event_choice_names[SONDE_EVENT_NONE] };
  init_ring (&self->samples_ring, SAMPLES_WATERMARK);
  init_ring (&self->sideband_ring, SIDEBAND_WATERMARK);
  init_ring (&self->switches_ring, SWITCHES_WATERMARK);
  init_dummy (&self->pulse);
  self->pulse.disabled = 0;
  self->pulse.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
  init_sideband (self, asked);
  init_switches (&self->switches, asked);
  self->has_switches = asked->waits != SONDE_WAITS_OFF;
  init_walks (&self->walks);
  init_probes (&self->probes, asked);
  self->has_probes = asked->memory == SONDE_MEMORY_SAMPLED;
  self->has_samples = asked->event != SONDE_EVENT_NONE;
  /* The worker is told how records end, those of the side band, too. */
  init_common (&self->samples);
  if (self->has_samples)
    init_samples (self, asked);
  /* At a tracepoint a program would run for all tasks, and decide what others see of it. */
  self->has_walks = self->has_samples && asked->interpreters
                    && asked->event != SONDE_EVENT_TRACEPOINT && asked->unwind != SONDE_UNWIND_NONE;
}

static int
open_event (const struct perf_event_attr *attr, int subject, int cpu, unsigned long flags)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_EVENTS);
  long fd = syscall (SYS_perf_event_open, attr, subject, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);

  return fd < 0 ? -errno : (int) fd;
}

int
sonde_perf_event_open (const struct perf_event_attr *attr, pid_t tid, int cpu)
{
  return open_event (attr, tid, cpu, 0);
}

int
sonde_perf_event_open_group (const struct perf_event_attr *attr, int group_fd, int cpu)
{
  return open_event (attr, group_fd, cpu, PERF_FLAG_PID_CGROUP);
}

void
sonde_perf_event_set_error (GError **error, int error_number, const char *event_name)
{
  gint64 paranoid = sonde_proc_number_read (PARANOID_PATH, 0);

  if ((error_number == EACCES || error_number == EPERM) && paranoid >= 3)
    g_set_error (
        error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED,
        "kernel.perf_event_paranoid is %" G_GINT64_FORMAT
        ": this kernel gives perf events to CAP_SYS_ADMIN alone, which the service has if it "
        "was built with the option perf_event_paranoid_drop_in (see sonded(8))",
        paranoid);
  else
    sonde_error_set_errno (error, error_number, "Cannot open perf event %s", event_name);
}

/* EINVAL has many reasons; this one has a name. */
static gboolean
check_rate (const SondePerfPlan *self, GError **error)
{
  gint64 max_rate = sonde_proc_number_read (MAX_RATE_PATH, G_MAXINT64);

  if (!self->samples.freq || self->samples.sample_freq <= (guint64) max_rate)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
               "Option frequency: this kernel takes at most %" G_GINT64_FORMAT
               " Hz (kernel.perf_event_max_sample_rate)",
               max_rate);
  return FALSE;
}

/* Gives up one thing that may be why the kernel refused. */
static gboolean
weaken (SondePerfPlan *self, const SondeAsked *asked, int error_number)
{
  if (error_number == EINVAL && self->defers)
    {
      set_deferred (self, FALSE);
      return TRUE;
    }
  if (error_number == EINVAL && (self->samples.read_format & PERF_FORMAT_LOST) != 0)
    {
      self->samples.read_format &= ~(guint64) PERF_FORMAT_LOST;
      self->sideband.read_format &= ~(guint64) PERF_FORMAT_LOST;
      self->switches.read_format &= ~(guint64) PERF_FORMAT_LOST;
      self->walks.read_format &= ~(guint64) PERF_FORMAT_LOST;
      self->probes.read_format &= ~(guint64) PERF_FORMAT_LOST;
      return TRUE;
    }
  /* A tracepoint is in the kernel: without its time nothing is left. */
  if ((error_number == EACCES || error_number == EPERM) && !self->samples.exclude_kernel
      && self->tracepoint_id == 0)
    {
      self->samples.exclude_kernel = 1;
      self->samples.exclude_callchain_kernel = 1;
      /* A callchain that was wanted for its kernel part alone has nothing to say any more. */
      if (self->samples.exclude_callchain_user)
        self->samples.sample_type &= ~(guint64) PERF_SAMPLE_CALLCHAIN;
      return TRUE;
    }
  if (self->may_fall_back && error_number != EACCES && error_number != EPERM)
    {
      self->may_fall_back = FALSE;
      use_event (self, SONDE_EVENT_CPU_CLOCK, asked);
      self->samples.read_format |= PERF_FORMAT_LOST;
      self->sideband.read_format |= PERF_FORMAT_LOST;
      self->switches.read_format |= PERF_FORMAT_LOST;
      self->walks.read_format |= PERF_FORMAT_LOST;
      return TRUE;
    }
  return FALSE;
}

static gboolean
check_tracepoint (const SondePerfPlan *self, GError **error)
{
  if (self->tracepoint_id >= 0)
    return TRUE;
  if (self->tracepoint_id == -EACCES)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED,
                 "Option event: the kernel keeps its tracepoints (tracefs) from us");
  else
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                 "Option event: this machine has no %s, or tracefs is not mounted at "
                 "/sys/kernel/tracing",
                 self->event_name);
  return FALSE;
}

/* Why the last attempt failed, beyond which nothing can be given up. */
static gboolean
refuse_event (const SondePerfPlan *self, int error_number, GError **error)
{
  if (error_number == ENOENT || error_number == EOPNOTSUPP || error_number == ENODEV)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                 "Option event: this machine has no %s", self->event_name);
  else if (error_number == EINVAL && self->samples.inherit_thread)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                 "Option children: this kernel cannot follow threads without processes; Linux 5.13 "
                 "can");
  else
    sonde_perf_event_set_error (error, error_number, self->event_name);
  return FALSE;
}

gboolean
sonde_perf_plan_probe (SondePerfPlan *self, const SondeAsked *asked, int first_cpu, GError **error)
{
  gboolean system = asked->scope == SONDE_SCOPE_SYSTEM;
  int fd;

  if (!self->has_samples)
    return TRUE;
  if (!check_rate (self, error) || !check_tracepoint (self, error))
    return FALSE;
  while ((fd = sonde_perf_event_open (&self->samples, system ? -1 : 0, first_cpu)) < 0)
    if (!weaken (self, asked, -fd))
      return refuse_event (self, -fd, error);
  close (fd);
  return TRUE;
}

guint32
sonde_perf_plan_flags (const SondePerfPlan *self)
{
  guint64 sample_type = self->has_samples ? self->samples.sample_type : 0;
  guint32 flags = 0;

  if (!self->samples.exclude_kernel)
    flags |= SONDE_SPEC_KERNEL_TIME;
  if ((sample_type & PERF_SAMPLE_STACK_USER) != 0)
    flags |= SONDE_SPEC_USER_STACK;
  if ((sample_type & PERF_SAMPLE_CALLCHAIN) != 0)
    flags |= SONDE_SPEC_CALLCHAIN;
  if (self->has_samples && self->defers)
    flags |= SONDE_SPEC_DEFERRED;
  return flags;
}

void
sonde_perf_event_look (guint64 *events, guint64 *tracepoints)
{
  const char *tracepoint;

  *events = 0;
  *tracepoints = 0;
  for (SondeEventChoice event = 0; event < SONDE_N_EVENTS; event++)
    {
      SondeAsked asked = { .scope = SONDE_SCOPE_LAUNCH, .event = event, .period = 1000000 };
      SondePerfPlan plan;

      sonde_perf_plan_init (&plan, &asked);
      if ((event != SONDE_EVENT_CYCLES && event != SONDE_EVENT_INSTRUCTIONS)
          || sonde_perf_plan_probe (&plan, &asked, -1, NULL))
        *events |= G_GUINT64_CONSTANT (1) << event;
    }
  for (guint i = 0; (tracepoint = sonde_tracepoint_name (i)) != NULL; i++)
    if (sonde_tracepoint_id (tracepoint) > 0)
      *tracepoints |= G_GUINT64_CONSTANT (1) << i;
}
