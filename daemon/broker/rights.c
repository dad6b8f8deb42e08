/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/nsfs.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "daemon/base/call-list.h"
#include "daemon/base/error.h"
#include "daemon/base/message.h"
#include "daemon/base/proc-maps.h"
#include "daemon/base/proc-text.h"

/* --- capabilities --- */

#define PARANOID_PATH "/proc/sys/kernel/perf_event_paranoid"
#define MAX_NEEDED    3

static const struct
{
  int n_needed;
  cap_value_t needed[MAX_NEEDED];
} purposes[SONDE_N_PURPOSES] = {
  /* SYS_ADMIN where nothing less will do: see init. PTRACE for tasks of others. */
  [SONDE_FOR_EVENTS] = { 3, { CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYS_ADMIN } },
  /* maps and root; map_files; programs in folders that are closed to others */
  [SONDE_FOR_PROCESSES] = { 3, { CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE, CAP_DAC_READ_SEARCH } },
  [SONDE_FOR_TRACEPOINTS] = { 1, { CAP_DAC_READ_SEARCH } },
  [SONDE_FOR_KERNEL_NAMES] = { 1, { CAP_SYSLOG } },
  /* the first for BPF, the second for what it may read and write at a sample */
  [SONDE_FOR_PROGRAMS] = { 2, { CAP_BPF, CAP_PERFMON } },
};

static gboolean
is_permitted (cap_t set, cap_value_t capability)
{
  cap_flag_value_t value = CAP_CLEAR;

  return cap_get_flag (set, capability, CAP_PERMITTED, &value) == 0 && value == CAP_SET;
}

/* Kernels that Debian and Ubuntu patch so do not know CAP_PERFMON above 2. */
static gboolean
is_wanted (cap_value_t capability)
{
  return capability != CAP_SYS_ADMIN || sonde_proc_number_read (PARANOID_PATH, 2) >= 3;
}

gboolean
sonde_capabilities_init (GError **error)
{
  cap_t now = cap_get_proc ();
  cap_t kept = cap_init ();
  gboolean is_done = now != NULL && kept != NULL;

  for (guint i = 0; i < SONDE_N_PURPOSES && is_done; i++)
    for (int j = 0; j < purposes[i].n_needed; j++)
      {
        cap_value_t capability = purposes[i].needed[j];

        if (is_permitted (now, capability) && is_wanted (capability))
          cap_set_flag (kept, CAP_PERMITTED, 1, &capability, CAP_SET);
      }
  is_done = is_done && cap_set_proc (kept) == 0;
  if (!is_done)
    sonde_error_set_errno (error, errno, "Cannot give up capabilities");
  cap_free (now);
  cap_free (kept);

  return is_done;
}

cap_t
sonde_capabilities_raise (SondePurpose purpose)
{
  cap_t before = cap_get_proc ();
  cap_t raised = before != NULL ? cap_dup (before) : NULL;
  gboolean is_more = FALSE;

  for (int i = 0; i < purposes[purpose].n_needed && raised != NULL; i++)
    if (is_permitted (raised, purposes[purpose].needed[i]))
      is_more
          |= cap_set_flag (raised, CAP_EFFECTIVE, 1, &purposes[purpose].needed[i], CAP_SET) == 0;
  /* If it fails the call that follows does, with a reason of its own. */
  if (is_more)
    cap_set_proc (raised);
  cap_free (raised);

  return before;
}

void
sonde_capabilities_lower (cap_t *before)
{
  int saved = errno;

  /* What has been in effect once cannot be refused. */
  if (*before != NULL && cap_set_proc (*before) < 0)
    g_error ("Cannot lower capabilities: %s", g_strerror (errno));
  cap_free (*before);
  *before = NULL;
  errno = saved;
}

/* --- system calls --- */

static const SondeSystemCall calls[] = {
  /* the connections with the front and with the worker */
  { SCMP_SYS (recvmsg), "messages, with the proofs of strangers" },
  { SCMP_SYS (sendmsg), "messages, with events and files" },
  { SCMP_SYS (sendto), "the last word of a broker that broke this list" },
  { SCMP_SYS (getsockopt), "whether what came is a connection" },
  { SCMP_SYS (close), "what was sent, and is over" },

  /* what the kernel tells of processes, control groups, processors and tracepoints, and the
   * programs that are mapped: looked for, and opened to be read (openat is below) */
  { SCMP_SYS (read), "texts of /proc and /sys; clocks of processors; GLib's eventfd" },
  { SCMP_SYS (pread64), "whether a proof is alive; headers of programs" },
  { SCMP_SYS (readlink), "what a proof was opened as" },
  { SCMP_SYS (readlinkat), "the same, where readlink is no call" },
  { SCMP_SYS (getdents64), "threads of a process; groups below a unit's; our descriptors" },
  { SCMP_SYS (lseek), "such a folder once more" },
  { SCMP_SYS (fstat), "whose it is, where that is a call of its own" },
  { SCMP_SYS (newfstatat), "the same today" },
  { SCMP_SYS (statx), "the same without asking a file system's server" },
  { SCMP_SYS (fstatfs), "whether it is tracefs, or which version of control groups" },
  { SCMP_SYS (statfs), "the same" },
  { SCMP_SYS (faccessat), "whether a thread is still of its process" },
  { SCMP_SYS (faccessat2), "the same today" },

  /* rights: raised for one call, on the thread that makes it */
  { SCMP_SYS (capget), "what there is" },
  { SCMP_SYS (capset), "what is in effect" },

  /* lanes, and the threads that close what strangers sent; clone is below */
  { SCMP_SYS (futex), "locks, and waits for what there is to do" },
  { SCMP_SYS (set_robust_list), "a thread begins" },
  { SCMP_SYS (rseq), "the same" },
  { SCMP_SYS (rt_sigprocmask), "the same; abort" },
  { SCMP_SYS (sched_getaffinity), "malloc, of how many threads have memory of their own" },
  { SCMP_SYS (exit), "a thread ends" },

  /* memory; mmap and mprotect are below */
  { SCMP_SYS (brk), "malloc" },
  { SCMP_SYS (munmap), "free; the stack of a thread" },
  { SCMP_SYS (mremap), "realloc" },
  { SCMP_SYS (madvise), "malloc gives pages back, and a thread its stack" },
  { SCMP_SYS (getrandom), "malloc, of its own checks" },
  { SCMP_SYS (sysinfo), "qsort asks how much memory there is" },

  /* the loop and its clocks */
  { SCMP_SYS (poll), "the loop; whether a target is alive" },
  { SCMP_SYS (ppoll), "the same, where poll is no call" },
  { SCMP_SYS (restart_syscall), "a wait that a stop interrupted" },
  { SCMP_SYS (eventfd2), "GLib's loop wakes itself" },
  { SCMP_SYS (write), "the same; a complaint" },
  { SCMP_SYS (clock_gettime), "the clock, where the vdso has none" },
  { SCMP_SYS (gettimeofday), "the same" },
  { SCMP_SYS (time), "the same" },

  /* itself */
  { SCMP_SYS (getpid), "its own events; abort" },
  { SCMP_SYS (gettid), "abort" },
  { SCMP_SYS (rt_sigaction), "abort" },
  { SCMP_SYS (rt_sigreturn), "the return from a signal" },
  { SCMP_SYS (exit_group), "the end" },
};

#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

static const SondeBoundedSystemCall bounded[] = {
  { SCMP_SYS (openat), 2, WRITING, O_RDONLY },
  /* no groups of events, and none that inherits another's output */
  { SCMP_SYS (perf_event_open), 4,
    SONDE_CALL_ALL_BITS & ~(guint64) (PERF_FLAG_FD_CLOEXEC | PERF_FLAG_PID_CGROUP), 0 },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, PERF_EVENT_IOC_ID },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, PERF_EVENT_IOC_ENABLE },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, PERF_EVENT_IOC_SET_OUTPUT },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, PERF_EVENT_IOC_SET_BPF },
  /* the program that walks interpreters: its maps, their entries, its load, and the run of what
   * loads it */
  { SCMP_SYS (bpf), 0, SONDE_CALL_ALL_BITS, BPF_MAP_CREATE },
  { SCMP_SYS (bpf), 0, SONDE_CALL_ALL_BITS, BPF_MAP_UPDATE_ELEM },
  { SCMP_SYS (bpf), 0, SONDE_CALL_ALL_BITS, BPF_MAP_DELETE_ELEM },
  { SCMP_SYS (bpf), 0, SONDE_CALL_ALL_BITS, BPF_PROG_LOAD },
  { SCMP_SYS (bpf), 0, SONDE_CALL_ALL_BITS, BPF_PROG_TEST_RUN },
  /* probes of a process */
  { SCMP_SYS (bpf), 0, SONDE_CALL_ALL_BITS, BPF_LINK_CREATE },
  /* who made the namespace of a process; one mapping of it */
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, NS_GET_OWNER_UID },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, NS_GET_USERNS },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, SONDE_PROC_MAPS_QUERY },
  /* a ring that is sent and kept; folders that are read */
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_DUPFD_CLOEXEC },
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_GETFD },
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_SETFD },
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_GETFL },
  /* a thread, and no process */
  { SCMP_SYS (clone), 0, CLONE_THREAD, CLONE_THREAD },
  { SCMP_SYS (prctl), 0, SONDE_CALL_ALL_BITS, PR_SET_NAME },
  /* what malloc wants, and a stack: no memory becomes code */
  { SCMP_SYS (mmap), 2, PROT_EXEC, 0 },
  { SCMP_SYS (mprotect), 2, PROT_EXEC, 0 },
  /* how many descriptors it may have; what the filter's load is bounded by */
  { SCMP_SYS (prlimit64), 0, SONDE_CALL_ALL_BITS, 0 },
};

/* Its arguments are out of a filter's sight: the C library makes threads by clone then. */
static const SondeSystemCall missing[] = { { SCMP_SYS (clone3), "threads" } };

gboolean
sonde_broker_calls_enforce (int front_fd, GError **error)
{
  static SondeMessageResult message
      = { .header = { SONDE_MESSAGE_BROKEN, sizeof message },
          .error = SONDE_ERROR_FAILED,
          .text = "The broker made a system call that it may not make: " };
  const SondeCallList list = { .calls = calls,
                               .n_calls = G_N_ELEMENTS (calls),
                               .bounded = bounded,
                               .n_bounded = G_N_ELEMENTS (bounded),
                               .missing = missing,
                               .n_missing = G_N_ELEMENTS (missing),
                               .fd = front_fd,
                               .message = &message,
                               .size_bytes = sizeof message,
                               .text = message.text };

  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot give up new privileges");
  /* What g_strerror() would look for in files later. */
  g_setenv ("CHARSET", "UTF-8", TRUE);
  return sonde_call_list_enforce (&list, error);
}
