/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/bus-target.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *plain_program;
static char *setuid_program;

/* What a child is before it executes its program. */
typedef struct
{
  uid_t uid;
  gboolean has_capability;
  gboolean has_pid_namespace;
} Identity;

const char *
bus_target_kind_name (BusTargetKind kind)
{
  static const char *const names[BUS_N_TARGETS] = {
    [BUS_TARGET_OWN] = "own",
    [BUS_TARGET_OWN_SETUID] = "own-setuid",
    [BUS_TARGET_OWN_NONDUMPABLE] = "own-nondumpable",
    [BUS_TARGET_OWN_WITH_CAPS] = "own-with-caps",
    [BUS_TARGET_OWN_IN_PID_NAMESPACE] = "own-in-pid-namespace",
    [BUS_TARGET_OTHERS] = "others",
    [BUS_TARGET_ROOTS] = "roots",
    [BUS_TARGET_KERNEL_THREAD] = "kernel-thread",
    [BUS_TARGET_DEAD] = "dead",
  };

  return names[kind];
}

char *
bus_copy_program (const char *program, const char *name, mode_t mode)
{
  char *path = g_build_filename (g_getenv ("PRIVATE_BUS_DIR"), name, NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *bytes = NULL;
  gsize size_bytes;

  g_file_get_contents (program, &bytes, &size_bytes, &error);
  g_assert_no_error (error);
  g_file_set_contents (path, bytes, (gssize) size_bytes, &error);
  g_assert_no_error (error);
  g_assert_cmpint (chmod (path, mode), ==, 0);
  return path;
}

void
bus_targets_init (const char *program)
{
  plain_program = bus_copy_program (program, "target", 0755);
  setuid_program = bus_copy_program (program, "setuid-target", 04755);
}

/* In the child, which shares a process with threads: system calls only. */
static gboolean
raise_capability (void)
{
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct data[2] = { 0 };

  data[0].permitted = data[0].effective = data[0].inheritable = 1u << CAP_NET_RAW;
  return syscall (SYS_capset, &header, data) == 0
         && prctl (PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0) == 0;
}

/* libc's own functions would tell its threads, which are not in the child. */
static gboolean
become (const Identity *identity)
{
  if (syscall (SYS_setgroups, 0, NULL) < 0
      || syscall (SYS_setresgid, identity->uid, identity->uid, identity->uid) < 0
      || prctl (PR_SET_KEEPCAPS, identity->has_capability ? 1 : 0) < 0
      || syscall (SYS_setresuid, identity->uid, identity->uid, identity->uid) < 0)
    return FALSE;
  return !identity->has_capability || raise_capability ();
}

static void
wait_ready (int ready_fd)
{
  char byte;

  g_assert_cmpint (read (ready_fd, &byte, 1), ==, 1);
  close (ready_fd);
}

static pid_t
run (const Identity *identity, char *const *argv, char *const *environment, int *life_fd)
{
  int life[2], ready[2];
  pid_t pid;

  g_assert_cmpint (pipe2 (life, O_CLOEXEC), ==, 0);
  g_assert_cmpint (pipe2 (ready, O_CLOEXEC), ==, 0);
  pid = (pid_t) syscall (SYS_clone, (identity->has_pid_namespace ? CLONE_NEWPID : 0) | SIGCHLD,
                         NULL, NULL, NULL, NULL);
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      if (dup2 (life[0], STDIN_FILENO) >= 0 && dup2 (ready[1], STDOUT_FILENO) >= 0
          && become (identity))
        execve (argv[0], argv, environment);
      _exit (127);
    }
  close (life[0]);
  close (ready[1]);
  wait_ready (ready[0]);
  *life_fd = life[1];
  return pid;
}

pid_t
bus_run (uid_t uid,
         const char *program,
         const char *const *arguments,
         const char *const *environment,
         int *life_fd)
{
  const Identity identity = { .uid = uid };
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  char *nothing[] = { NULL };

  g_ptr_array_add (argv, (gpointer) program);
  for (guint i = 0; arguments != NULL && arguments[i] != NULL; i++)
    g_ptr_array_add (argv, (gpointer) arguments[i]);
  g_ptr_array_add (argv, NULL);
  return run (&identity, (char *const *) argv->pdata,
              environment != NULL ? (char *const *) environment : nothing, life_fd);
}

static gboolean
is_kernel_thread (int pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/stat", pid);
  g_autofree char *stat = NULL;
  const char *behind_comm;
  unsigned flags;

  return g_file_get_contents (path, &stat, NULL, NULL)
         && (behind_comm = strrchr (stat, ')')) != NULL
         && sscanf (behind_comm, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1
         && (flags & 0x00200000 /* PF_KTHREAD of the kernel's sched.h */) != 0;
}

/* One of those that live as long as the machine: they are its first processes. */
static pid_t
find_kernel_thread (void)
{
  for (int pid = 2; pid < 1000; pid++)
    if (is_kernel_thread (pid))
      return pid;
  g_error ("there is no kernel thread: not in the first pid namespace?");
}

static void
run_kind (BusTarget *self, uid_t uid)
{
  const Identity identity = {
    .uid = uid,
    .has_capability = self->kind == BUS_TARGET_OWN_WITH_CAPS,
    .has_pid_namespace = self->kind == BUS_TARGET_OWN_IN_PID_NAMESPACE,
  };
  gboolean hides = self->kind == BUS_TARGET_OWN_NONDUMPABLE;
  char *argv[] = { self->kind == BUS_TARGET_OWN_SETUID ? setuid_program : plain_program,
                   hides ? (char *) "undumpable" : NULL, NULL };
  char *nothing[] = { NULL };

  self->pid = self->child = run (&identity, argv, nothing, &self->life_fd);
}

static void
end_child (BusTarget *self)
{
  if (self->child == 0)
    return;
  kill (self->child, SIGKILL);
  while (waitpid (self->child, NULL, 0) < 0)
    g_assert_cmpint (errno, ==, EINTR);
  self->child = 0;
  close (self->life_fd);
}

void
bus_target_init (BusTarget *self, BusTargetKind kind, uid_t owner, uid_t other)
{
  *self = (BusTarget){ .kind = kind, .owner = owner, .life_fd = -1, .proof_before_death = -1 };
  if (kind == BUS_TARGET_KERNEL_THREAD)
    self->pid = find_kernel_thread ();
  else
    run_kind (self, kind == BUS_TARGET_OTHERS ? other : kind == BUS_TARGET_ROOTS ? 0 : owner);
  if (kind == BUS_TARGET_DEAD)
    {
      self->proof_before_death = bus_target_open_proof (self, owner);
      end_child (self);
    }
}

void
bus_target_clear (BusTarget *self)
{
  end_child (self);
  if (self->proof_before_death >= 0)
    close (self->proof_before_death);
}

int
bus_open_proof (uid_t uid, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  int fd;

  /* The kernel asks for the gid as well. */
  g_assert_cmpint (setegid (uid), ==, 0);
  g_assert_cmpint (seteuid (uid), ==, 0);
  fd = open (path, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (seteuid (0), ==, 0);
  g_assert_cmpint (setegid (0), ==, 0);
  return fd;
}

int
bus_target_open_proof (const BusTarget *self, uid_t caller)
{
  if (self->proof_before_death < 0)
    return bus_open_proof (caller, self->pid);
  return caller == self->owner || caller == 0 ? fcntl (self->proof_before_death, F_DUPFD_CLOEXEC, 0)
                                              : -1;
}
