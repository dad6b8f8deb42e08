/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/broker/walk-program.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#if HAVE_WALK_PROGRAM

/* Made by bpftool of walk.bpf.c, with what loads it. */
#include "walk-skeleton.h"

#include "daemon/broker/rights.h"

#define TYPES_PATH      "/sys/kernel/btf/vmlinux"
#define NAMESPACE_PATH  "/proc/self/ns/pid"
#define FIRST_NAMESPACE 0xEFFFFFFCu /* PROC_PID_INIT_INO of the kernel */

struct SondeWalkProgram
{
  struct sonde_walk *skeleton;
};

static char *
explain (int error_number)
{
  if (error_number == EPERM || error_number == EACCES)
    return g_strdup ("the kernel gives BPF programs to CAP_BPF and CAP_PERFMON, which are not "
                     "to be had");
  if (access (TYPES_PATH, F_OK) < 0)
    return g_strdup ("the kernel does not describe its types (BTF)");
  return g_strdup_printf ("the kernel does not take the BPF program: %s",
                          g_strerror (error_number));
}

/* Processes have other numbers within a container than on the machine. Returns: 0 or a negative
 * errno */
static int
set_session (SondeWalkProgram *self, gboolean shows_closed)
{
  const int zero = 0;
  SondeWalkSession session = { .shows_closed = shows_closed };
  struct stat st;

  if (stat (NAMESPACE_PATH, &st) < 0)
    return -errno;
  if (st.st_ino != FIRST_NAMESPACE)
    {
      session.device = st.st_dev;
      session.inode = st.st_ino;
    }
  return skel_map_update_elem (self->skeleton->maps.sessions.map_fd, &zero, &session, BPF_ANY) < 0
             ? -errno
             : 0;
}

SondeWalkProgram *
sonde_walk_program_new (gboolean shows_closed, char **why)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROGRAMS);
  g_autoptr (SondeWalkProgram) self = g_new0 (SondeWalkProgram, 1);
  int result;

  self->skeleton = sonde_walk__open ();
  result = self->skeleton != NULL ? sonde_walk__load (self->skeleton) : -ENOMEM;
  if (result == 0)
    result = set_session (self, shows_closed);
  if (result == 0)
    return g_steal_pointer (&self);
  *why = explain (-result);
  return NULL;
}

void
sonde_walk_program_free (SondeWalkProgram *self)
{
  if (self == NULL)
    return;
  sonde_walk__destroy (self->skeleton);
  g_free (self);
}

int
sonde_walk_program_set_output (SondeWalkProgram *self, int cpu, int output_fd)
{
  return skel_map_update_elem (self->skeleton->maps.outputs.map_fd, &cpu, &output_fd, BPF_ANY) < 0
             ? -errno
             : 0;
}

int
sonde_walk_program_attach (SondeWalkProgram *self, int event_fd)
{
  return ioctl (event_fd, PERF_EVENT_IOC_SET_BPF, self->skeleton->progs.sonde_walk.prog_fd) < 0
             ? -errno
             : 0;
}

int
sonde_walk_program_set_place (SondeWalkProgram *self, pid_t pid, const SondeWalkPlace *place)
{
  int map_fd = self->skeleton->maps.places.map_fd;

  if (place != NULL)
    return skel_map_update_elem (map_fd, &pid, place, BPF_ANY) < 0 ? -errno : 0;
  return skel_map_delete_elem (map_fd, &pid) < 0 && errno != ENOENT ? -errno : 0;
}

#else

SondeWalkProgram *
sonde_walk_program_new (gboolean shows_closed, char **why)
{
  *why = g_strdup ("sonde-broker was built without the BPF program (option bpf)");
  return NULL;
}

void
sonde_walk_program_free (SondeWalkProgram *self)
{
}

int
sonde_walk_program_set_output (SondeWalkProgram *self, int cpu, int output_fd)
{
  return -ENOSYS;
}

int
sonde_walk_program_attach (SondeWalkProgram *self, int event_fd)
{
  return -ENOSYS;
}

int
sonde_walk_program_set_place (SondeWalkProgram *self, pid_t pid, const SondeWalkPlace *place)
{
  return -ENOSYS;
}

#endif
