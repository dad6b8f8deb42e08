/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#include "daemon/broker/probe-program.h"

#include <errno.h>
#include <stddef.h>

#include "daemon/broker/rights.h"

#ifdef __x86_64__

#include <asm/ptrace.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

#define MAX_CPUS 8192

/* Of Linux 6.6, and its headers. Source: linux/bpf.h */
#define TRACE_UPROBE_MULTI 48

typedef struct
{
  guint32 program_fd;
  guint32 target_fd;
  guint32 type;
  guint32 flags;
  guint64 path;
  guint64 offsets;
  guint64 semaphores;
  guint64 cookies;
  guint32 n;
  guint32 multi_flags;
  guint32 pid;
  guint32 padding;
} LinkAttributes;

_Static_assert(offsetof (LinkAttributes, pid) == 56,
               "union bpf_attr, link_create.uprobe_multi.pid");

struct SondeProbeProgram
{
  gatomicrefcount refs;
  int outputs_fd; /* map: CPU → event */
  int program_fd;
};

static int
bpf (int command, gpointer attributes, gsize size_bytes)
{
  long result = syscall (SYS_bpf, command, attributes, size_bytes);

  return result < 0 ? -errno : (int) result;
}

#define MOVE(to, from)                                                                             \
  {                                                                                                \
    .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = to, .src_reg = from                            \
  }
#define SET(to, number)                                                                            \
  {                                                                                                \
    .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = to, .imm = number                              \
  }
#define CALL(function)                                                                             \
  {                                                                                                \
    .code = BPF_JMP | BPF_CALL, .imm = function                                                    \
  }

/* if (ip == cookie) bpf_perf_event_output (registers, outputs, BPF_F_CURRENT_CPU, &cookie, 8) */
static int
load (int outputs_fd)
{
  const struct bpf_insn instructions[] = {
    MOVE (BPF_REG_6, BPF_REG_1),
    CALL (BPF_FUNC_get_attach_cookie),
    { .code = BPF_LDX | BPF_MEM | BPF_DW,
      .dst_reg = BPF_REG_1,
      .src_reg = BPF_REG_6,
      .off = offsetof (struct pt_regs, rip) },
    { .code = BPF_JMP | BPF_JNE | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_0, .off = 10 },
    { .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .src_reg = BPF_REG_0, .off = -8 },
    MOVE (BPF_REG_1, BPF_REG_6),
    { .code = BPF_LD | BPF_IMM | BPF_DW,
      .dst_reg = BPF_REG_2,
      .src_reg = BPF_PSEUDO_MAP_FD,
      .imm = outputs_fd },
    { .imm = 0 },
    { .code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = BPF_REG_3, .imm = -1 },
    { .imm = 0 },
    MOVE (BPF_REG_4, BPF_REG_10),
    { .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_4, .imm = -8 },
    SET (BPF_REG_5, 8),
    CALL (BPF_FUNC_perf_event_output),
    SET (BPF_REG_0, 0),
    { .code = BPF_JMP | BPF_EXIT },
  };
  union bpf_attr attributes = { .prog_type = BPF_PROG_TYPE_KPROBE,
                                .insns = (guint64) (guintptr) instructions,
                                .insn_cnt = G_N_ELEMENTS (instructions),
                                .license = (guint64) (guintptr) "GPL",
                                .prog_name = "sonde_probe",
                                .expected_attach_type = TRACE_UPROBE_MULTI };

  return bpf (BPF_PROG_LOAD, &attributes, sizeof attributes);
}

static int
make_outputs (void)
{
  union bpf_attr attributes = { .map_type = BPF_MAP_TYPE_PERF_EVENT_ARRAY,
                                .key_size = sizeof (guint32),
                                .value_size = sizeof (guint32),
                                .max_entries = MAX_CPUS,
                                .map_name = "sonde_probes" };

  return bpf (BPF_MAP_CREATE, &attributes, sizeof attributes);
}

static int
create_link (const SondeProbeProgram *self,
             const char *path,
             gint32 pid,
             const SondeProbePlace *places,
             guint n_places)
{
  guint64 offsets[SONDE_PROBE_MAX_SITES];
  guint64 semaphores[SONDE_PROBE_MAX_SITES];
  guint64 cookies[SONDE_PROBE_MAX_SITES];
  LinkAttributes attributes = { .program_fd = (guint32) self->program_fd,
                                .type = TRACE_UPROBE_MULTI,
                                .path = (guint64) (guintptr) path,
                                .offsets = (guint64) (guintptr) offsets,
                                .semaphores = (guint64) (guintptr) semaphores,
                                .cookies = (guint64) (guintptr) cookies,
                                .n = n_places,
                                .pid = (guint32) pid };

  g_assert (n_places <= SONDE_PROBE_MAX_SITES);
  for (guint i = 0; i < n_places; i++)
    {
      offsets[i] = places[i].site;
      semaphores[i] = places[i].semaphore;
      cookies[i] = places[i].address;
    }
  return bpf (BPF_LINK_CREATE, &attributes, sizeof attributes);
}

/* The first kernels that had such links took a process for its first thread. Those that do not look
 * at the pid before they look for the file. */
static gboolean
knows_processes (const SondeProbeProgram *self)
{
  const SondeProbePlace place = { 0 };

  return create_link (self, "/", -1, &place, 1) == -EINVAL
         && create_link (self, "/", 0, &place, 1) == -EBADF;
}

SondeProbeProgram *
sonde_probe_program_new (char **why)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROGRAMS);
  g_autoptr (SondeProbeProgram) self = g_new0 (SondeProbeProgram, 1);
  int result;

  g_atomic_ref_count_init (&self->refs);
  self->program_fd = -1;
  result = self->outputs_fd = make_outputs ();
  if (result >= 0)
    result = self->program_fd = load (self->outputs_fd);
  if (result >= 0 && knows_processes (self))
    return g_steal_pointer (&self);
  *why = g_strdup (result == -EPERM || result == -EACCES
                       ? "the kernel gives them to CAP_BPF and CAP_PERFMON, which are not to be had"
                       : "this kernel has no uprobes of a single process (Linux 6.10)");
  return NULL;
}

SondeProbeProgram *
sonde_probe_program_ref (SondeProbeProgram *self)
{
  g_atomic_ref_count_inc (&self->refs);
  return self;
}

void
sonde_probe_program_unref (SondeProbeProgram *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->refs))
    return;
  sonde_clear_fd (&self->program_fd);
  sonde_clear_fd (&self->outputs_fd);
  g_free (self);
}

int
sonde_probe_program_set_output (SondeProbeProgram *self, int cpu, int output_fd)
{
  union bpf_attr attributes = { .map_fd = (guint32) self->outputs_fd,
                                .key = (guint64) (guintptr) &cpu,
                                .value = (guint64) (guintptr) &output_fd };

  return bpf (BPF_MAP_UPDATE_ELEM, &attributes, sizeof attributes);
}

int
sonde_probe_program_link (
    SondeProbeProgram *self, int fd, pid_t pid, const SondeProbePlace *places, guint n_places)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROGRAMS);
  char path[64];

  g_snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  return create_link (self, path, pid, places, n_places);
}

#else

SondeProbeProgram *
sonde_probe_program_new (char **why)
{
  *why = g_strdup ("registers of this machine's programs are not known (x86-64 alone)");
  return NULL;
}

SondeProbeProgram *
sonde_probe_program_ref (SondeProbeProgram *self)
{
  return self;
}

void
sonde_probe_program_unref (SondeProbeProgram *self)
{
}

int
sonde_probe_program_set_output (SondeProbeProgram *self, int cpu, int output_fd)
{
  return -ENOSYS;
}

int
sonde_probe_program_link (
    SondeProbeProgram *self, int fd, pid_t pid, const SondeProbePlace *places, guint n_places)
{
  return -ENOSYS;
}

#endif
