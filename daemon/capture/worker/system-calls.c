/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The system calls that a worker makes, and why it needs each. */
#include "config.h"

#include "daemon/capture/worker/system-calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/message.h"

#define N_NAMES          512
#define MAX_NAME         32
#define MAX_LOAD_SECONDS 3u /* of CPU time of the process: it takes milliseconds */

/* One that the machine does not have is no rule. */
typedef struct
{
  int number;
  const char *reason;
} Call;

static const Call calls[] = {
  /* the connection to control, and sinks */
  { SCMP_SYS (recvmsg), "messages of control, with descriptors" },
  { SCMP_SYS (sendmsg), "messages to control; frames to a reader" },
  { SCMP_SYS (sendto), "the last word of a worker that broke this list" },
  { SCMP_SYS (shutdown), "the end of a stream" },
  { SCMP_SYS (pwrite64), "frames to a capture file" },
  { SCMP_SYS (ftruncate), "the last whole frame of a capture file; the size of a ring" },
  { SCMP_SYS (socketpair), "the links of profiled programs, of AF_UNIX as all pairs are" },
  { SCMP_SYS (fstatfs), "what is free on the disk of a capture file" },
  { SCMP_SYS (write), "GLib's eventfd; a complaint; the image of the vdso" },
  { SCMP_SYS (close), "descriptors of files, events and sinks that are done" },

  /* what control opened for us */
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

/* A signal handler has nothing but what is static. */
static struct
{
  int control_fd;
  char names[N_NAMES][MAX_NAME]; /* by number */
} last_word;

static void
on_violation (int signum, siginfo_t *info, void *context)
{
  static const char before[] = "The worker made a system call that it may not make: ";
  SondeMessageFailed message
      = { .header = { SONDE_MESSAGE_FAILED, sizeof message }, .error = EPERM };
  const char *name = info->si_syscall >= 0 && info->si_syscall < N_NAMES
                         ? last_word.names[info->si_syscall]
                         : "unknown";

  memcpy (message.text, before, sizeof before);
  strcat (message.text, name); /* 52 + 32 of 200 bytes */
  (void) send (last_word.control_fd, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (write (STDERR_FILENO, message.text, strlen (message.text)) > 0)
    (void) !write (STDERR_FILENO, "\n", 1);
  _exit (EXIT_FAILURE);
}

/* Returns: 0 or a negative errno */
static int
prepare_last_word (int control_fd)
{
  struct sigaction action = { .sa_sigaction = on_violation, .sa_flags = SA_SIGINFO };

  last_word.control_fd = control_fd;
  for (int i = 0; i < N_NAMES; i++)
    {
      char *name = seccomp_syscall_resolve_num_arch (SCMP_ARCH_NATIVE, i);

      g_strlcpy (last_word.names[i], name != NULL ? name : "unknown", MAX_NAME);
      free (name);
    }
  return sigaction (SIGSYS, &action, NULL) < 0 ? -errno : 0;
}

/* Calls of which some arguments are as good as no call. Returns: 0 or a negative errno */
static int
allow_bounded_calls (scmp_filter_ctx filter)
{
  const scmp_datum_t all = G_MAXUINT32; /* an int has 32 bits, and the kernel looks at no more */
  const struct
  {
    int call;
    unsigned index;     /* of an argument */
    scmp_datum_t mask;  /* the bits of it that are looked at */
    scmp_datum_t value; /* of these */
  } rules[] = {
    /* Rings, and what malloc wants. No memory becomes code. */
    { SCMP_SYS (mmap), 2, PROT_EXEC, 0 },
    { SCMP_SYS (mprotect), 2, PROT_EXEC, 0 },
    /* pause, resume and stop */
    { SCMP_SYS (ioctl), 1, all, PERF_EVENT_IOC_DISABLE },
    { SCMP_SYS (ioctl), 1, all, PERF_EVENT_IOC_ENABLE },
    /* a file that two parts read */
    { SCMP_SYS (fcntl), 1, all, F_DUPFD_CLOEXEC },
    /* a ring keeps its size, whoever gets it */
    { SCMP_SYS (fcntl), 1, all, F_ADD_SEALS },
    /* who asks on a link */
    { SCMP_SYS (setsockopt), 2, all, SO_PASSCRED },
    /* room for the last frames of a capture file, which stays as long as it is */
    { SCMP_SYS (fallocate), 1, all, FALLOC_FL_KEEP_SIZE },
    /* libelf looks whether a file is open, and how */
    { SCMP_SYS (fcntl), 1, all, F_GETFD },
    { SCMP_SYS (fcntl), 1, all, F_GETFL },
    /* abort, of itself alone */
    { SCMP_SYS (tgkill), 0, all, (scmp_datum_t) getpid () },
    /* how many files it may keep open; locked memory that it needs no more; load_in_time() */
    { SCMP_SYS (prlimit64), 0, all, 0 },
  };
  int result = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (rules) && result == 0; i++)
    result = seccomp_rule_add (
        filter, SCMP_ACT_ALLOW, rules[i].call, 1,
        SCMP_CMP64 (rules[i].index, SCMP_CMP_MASKED_EQ, rules[i].mask, rules[i].value));
  return result;
}

/* Where libseccomp gets no memory it may go round for ever: then the kernel ends us, and whoever
 * waits is told at once. The filter lets the limit be taken back. */
static int
load_in_time (scmp_filter_ctx filter)
{
  struct rlimit before = { RLIM_INFINITY, RLIM_INFINITY };
  struct rlimit bounded;
  int result;

  getrlimit (RLIMIT_CPU, &before);
  bounded = (struct rlimit){ MIN (before.rlim_cur, MAX_LOAD_SECONDS), before.rlim_max };
  setrlimit (RLIMIT_CPU, &bounded);
  result = seccomp_load (filter);
  setrlimit (RLIMIT_CPU, &before);
  return result;
}

gboolean
sonde_system_calls_restrict (int control_fd, GError **error)
{
  scmp_filter_ctx filter = seccomp_init (WITH_SANITIZERS ? SCMP_ACT_LOG : SCMP_ACT_TRAP);
  int result = -ENOMEM;

  if (filter != NULL)
    /* Calls of another architecture are for those who have something to hide. */
    result = seccomp_attr_set (filter, SCMP_FLTATR_ACT_BADARCH,
                               WITH_SANITIZERS ? SCMP_ACT_LOG : SCMP_ACT_KILL_PROCESS);
  for (gsize i = 0; i < G_N_ELEMENTS (calls) && result == 0; i++)
    result = seccomp_rule_add (filter, SCMP_ACT_ALLOW, calls[i].number, 0);
  if (result == 0)
    result = allow_bounded_calls (filter);
  if (result == 0)
    result = prepare_last_word (control_fd);
  if (result == 0)
    result = load_in_time (filter);
  seccomp_release (filter);

  return result == 0 || sonde_error_set_errno (error, -result, "Cannot restrict its system calls");
}
