/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/capture/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/call-list.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/message.h"
#include "daemon/capture/perf/rings.h"

#define WANTED_FILES 70000 /* events, sinks and module files of the largest session */

/* @wanted and no more; if that is too much to ask for, as far as it goes. */
static void
set_limit (int resource, rlim_t wanted)
{
  struct rlimit limit = { wanted, wanted };

  if (setrlimit (resource, &limit) == 0 || getrlimit (resource, &limit) < 0)
    return;
  limit.rlim_cur = MIN (wanted, limit.rlim_max);
  (void) setrlimit (resource, &limit);
}

/* The kernel's struct landlock_ruleset_attr as it has grown, newer than our headers may be. */
typedef struct
{
  guint64 fs;
  guint64 net;    /* version 4 */
  guint64 scoped; /* version 6 */
} Ruleset;

/* Of each version of the interface, the bits of all rights that it knows. */
static const struct
{
  Ruleset all;
  gsize size_bytes;
} rulesets[] = {
  { { .fs = (1 << 13) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* Linux 5.13 */
  { { .fs = (1 << 14) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* 5.19: refer */
  { { .fs = (1 << 15) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* 6.2: truncate */
  { { .fs = (1 << 15) - 1, .net = 3 }, G_STRUCT_OFFSET (Ruleset, scoped) }, /* 6.7: bind, connect */
  { { .fs = (1 << 16) - 1, .net = 3 }, G_STRUCT_OFFSET (Ruleset, scoped) }, /* 6.10: ioctl */
  { { .fs = (1 << 16) - 1, .net = 3, .scoped = 3 }, sizeof (Ruleset) }, /* 6.12: abstract, signal */
};

gboolean
sonde_sandbox_restrict_files (GError **error)
{
  long version = syscall (SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  long best = MIN (version, (long) G_N_ELEMENTS (rulesets));
  int ruleset;
  long result;

  /* ENOSYS or EOPNOTSUPP: not built in, or not switched on */
  if (version < 1)
    return TRUE;
  ruleset = (int) syscall (SYS_landlock_create_ruleset, &rulesets[best - 1].all,
                           rulesets[best - 1].size_bytes, 0);
  if (ruleset < 0)
    return sonde_error_set_errno (error, errno, "Cannot make a Landlock ruleset");
  /* A ruleset without a rule allows nothing of what it handles. */
  result = syscall (SYS_landlock_restrict_self, ruleset, 0);
  if (result < 0)
    sonde_error_set_errno (error, errno, "Cannot give up files by Landlock");
  close (ruleset);
  return result == 0;
}

/* --- the system calls that a worker makes, and why it needs each --- */

static const SondeSystemCall calls[] = {
  /* the connection with the front, and sinks */
  { SCMP_SYS (recvmsg), "messages of the front, with descriptors" },
  { SCMP_SYS (sendmsg), "messages to the front; frames to a reader" },
  { SCMP_SYS (sendto), "the last word of a worker that broke this list" },
  { SCMP_SYS (shutdown), "the end of a stream" },
  { SCMP_SYS (pwrite64), "frames to a capture file" },
  { SCMP_SYS (ftruncate), "the last whole frame of a capture file; the size of a ring" },
  { SCMP_SYS (socketpair), "the links of profiled programs, of AF_UNIX as all pairs are" },
  { SCMP_SYS (fstatfs), "what is free on the disk of a capture file" },
  { SCMP_SYS (write), "GLib's eventfd; a complaint; the image of the vdso" },
  { SCMP_SYS (close), "descriptors of files, events and sinks that are done" },

  /* what the broker opened for us */
  { SCMP_SYS (read), "texts of /proc, counts of perf events, GLib's eventfd" },
  { SCMP_SYS (pread64), "ELF files" },
  { SCMP_SYS (lseek), "libelf, of a file's size" },
  { SCMP_SYS (fstat), "a file's size, where it is a call of its own" },
  { SCMP_SYS (newfstatat), "fstat() of today's C library" },
  { SCMP_SYS (statx), "the same of tomorrow's" },
  { SCMP_SYS (memfd_create), "the vdso, an ELF file that only memory has; rings" },

  /* memory; mmap and mprotect are below */
  { SCMP_SYS (brk), "malloc" },
  { SCMP_SYS (munmap), "free; rings that have ended" },
  { SCMP_SYS (mremap), "realloc" },
  { SCMP_SYS (madvise), "malloc gives pages back; a ring is no child's" },
  { SCMP_SYS (sysinfo), "qsort asks how much memory there is" },

  /* the loop and its clocks */
  { SCMP_SYS (poll), "the loop" },
  { SCMP_SYS (ppoll), "the same, where poll is no call" },
  { SCMP_SYS (restart_syscall), "a wait that a stop interrupted" },
  { SCMP_SYS (eventfd2), "GLib's loop wakes itself" },
  { SCMP_SYS (futex), "GLib's locks" },
  { SCMP_SYS (clock_gettime), "the clock, where the vdso has none" },
  { SCMP_SYS (gettimeofday), "the same" },
  { SCMP_SYS (time), "the same" },
  { SCMP_SYS (timerfd_create), "the wall clock is set, which the kernel tells a timer" },
  { SCMP_SYS (timerfd_settime), "the same" },

  /* itself */
  { SCMP_SYS (uname), "the machine's name for its kind, in the capture" },
  { SCMP_SYS (sched_getaffinity), "the number of processors, in the capture" },
  { SCMP_SYS (getpid), "GLib's log; abort" },
  { SCMP_SYS (gettid), "abort" },
  { SCMP_SYS (rt_sigprocmask), "abort" },
  { SCMP_SYS (rt_sigaction), "abort" },
  { SCMP_SYS (rt_sigreturn), "the return from a signal" },
  { SCMP_SYS (exit), "the end" },
  { SCMP_SYS (exit_group), "the end" },
};

static const SondeBoundedSystemCall bounded[] = {
  /* Rings, and what malloc wants. No memory becomes code. */
  { SCMP_SYS (mmap), 2, PROT_EXEC, 0 },
  { SCMP_SYS (mprotect), 2, PROT_EXEC, 0 },
  /* pause, resume and stop */
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, PERF_EVENT_IOC_DISABLE },
  { SCMP_SYS (ioctl), 1, SONDE_CALL_ALL_BITS, PERF_EVENT_IOC_ENABLE },
  /* a file that two parts read */
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_DUPFD_CLOEXEC },
  /* a ring keeps its size, whoever gets it */
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_ADD_SEALS },
  /* who asks on a link */
  { SCMP_SYS (setsockopt), 2, SONDE_CALL_ALL_BITS, SO_PASSCRED },
  /* room for the last frames of a capture file, which stays as long as it is */
  { SCMP_SYS (fallocate), 1, SONDE_CALL_ALL_BITS, FALLOC_FL_KEEP_SIZE },
  /* libelf looks whether a file is open, and how */
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_GETFD },
  { SCMP_SYS (fcntl), 1, SONDE_CALL_ALL_BITS, F_GETFL },
  /* how many files it may keep open; locked memory that it needs no more; what the filter's load
   * is bounded by */
  { SCMP_SYS (prlimit64), 0, SONDE_CALL_ALL_BITS, 0 },
};

/* The last step. */
static gboolean
restrict_calls (int front_fd, GError **error)
{
  static SondeMessageFailed message
      = { .header = { SONDE_MESSAGE_FAILED, sizeof message },
          .error = EPERM,
          .text = "The worker made a system call that it may not make: " };
  const SondeCallList list = { .calls = calls,
                               .n_calls = G_N_ELEMENTS (calls),
                               .bounded = bounded,
                               .n_bounded = G_N_ELEMENTS (bounded),
                               .fd = front_fd,
                               .message = &message,
                               .size_bytes = sizeof message,
                               .text = message.text };

  return sonde_call_list_enforce (&list, error);
}

/* --- all of it --- */

gboolean
sonde_sandbox_enter (int keep_fd, uid_t uid, GError **error)
{
  static const struct rlimit memory = { SONDE_LIMIT_WORKER_BYTES, SONDE_LIMIT_WORKER_BYTES };
  static const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
  rlim_t ring_bytes = SONDE_RINGS_MAX_SAMPLE_BYTES + (1u << 20);

  if ((keep_fd > 3 && close_range (3, (unsigned) keep_fd - 1, 0) < 0)
      || close_range (MAX (3u, (unsigned) keep_fd + 1), ~0u, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot close inherited descriptors");
  /* Any event could have a ring, and rings are in nobody's account: the rings of a session it is.
   */
  set_limit (RLIMIT_MEMLOCK, ring_bytes * (rlim_t) sysconf (_SC_NPROCESSORS_CONF));
  set_limit (RLIMIT_NOFILE, WANTED_FILES);
  if (!WITH_SANITIZERS && setrlimit (RLIMIT_DATA, &memory) < 0)
    return sonde_error_set_errno (error, errno, "Cannot limit its memory");
  umask (077);
  signal (SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of write() */
  if (chdir ("/") < 0)
    return sonde_error_set_errno (error, errno, "Cannot change to /");

  /* One that it shared with other workers would share their locked memory, and their signals. */
  if (geteuid () == 0 && (uid == 0 || uid == SONDE_SANDBOX_SAME_UID))
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Root's worker needs a uid of its own");
      return FALSE;
    }
  if (geteuid () == 0
      && (setgroups (0, NULL) < 0 || setresgid (uid, uid, uid) < 0
          || setresuid (uid, uid, uid) < 0))
    return sonde_error_set_errno (error, errno, "Cannot become uid %u", (guint) uid);
  /* Where there is nothing to drop the call may be forbidden already. */
  if ((syscall (SYS_capget, &header, now) != 0 || memcmp (now, none, sizeof none) != 0)
      && syscall (SYS_capset, &header, none) < 0)
    return sonde_error_set_errno (error, errno, "Cannot drop capabilities");
  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot give up new privileges");
  if (prctl (PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot become undumpable");

  /* What strftime() and g_strerror() would look for in files later. */
  tzset ();
  g_setenv ("CHARSET", "UTF-8", TRUE);
  return sonde_sandbox_restrict_files (error) && restrict_calls (keep_fd, error);
}
