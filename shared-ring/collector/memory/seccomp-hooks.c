/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-memory: notes when a program closes itself by seccomp, and makes no system calls there
 * that could end it. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared-ring/collector/control-link.h"
#include "shared-ring/collector/thread-ring.h"
#include "shared-ring/fork-guard.h"

#define HOOK        __attribute__ ((visibility ("default")))

#define N_ARGUMENTS 6 /* of a system call */

/* What the program would call without us; all its threads find the same. */
static struct
{
  int (*prctl) (int, ...);
  long (*syscall) (long, ...);
} real;

/* Before main(): whoever calls them later may be in a signal handler. */
static void __attribute__ ((constructor)) find_real (void)
{
  void *found[] = { dlsym (RTLD_NEXT, "prctl"), dlsym (RTLD_NEXT, "syscall") };

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&real.prctl, &found[0], sizeof found[0]);
  memcpy (&real.syscall, &found[1], sizeof found[1]);
}

/* A filter is for threads that are made later, too, and perhaps for all: sockets are made no more.
 * Strict mode leaves this thread four system calls, so it makes no events from here on. */
static void
note (int is_strict)
{
  int saved_errno = errno;

  /* What a child of vfork() closes is not closed to its parent. */
  if (!sonde_fork_guard_is_own_process ())
    return;
  sonde_control_link_confine ();
  if (is_strict)
    sonde_thread_ring_give_up ();
  errno = saved_errno;
}

/* Calls that only ask what there is, as libseccomp's, have a null pointer for the filter, or flags
 * in strict mode. Source: prctl(2), PR_SET_SECCOMP */
HOOK int
prctl (int option, ...)
{
  unsigned long arguments[4];
  va_list rest;

  va_start (rest, option);
  for (unsigned i = 0; i < 4; i++)
    arguments[i] = va_arg (rest, unsigned long);
  va_end (rest);
  if (option == PR_SET_SECCOMP && (arguments[0] == SECCOMP_MODE_STRICT || arguments[1] != 0))
    note (arguments[0] == SECCOMP_MODE_STRICT);
  if (__builtin_expect (real.prctl == NULL, 0))
    find_real ();
  return real.prctl (option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

/* As libseccomp calls it. No caller of this function gets another stack by it, as its own return
 * would go there. Source: syscall(2), seccomp(2) */
HOOK long
syscall (long number, ...)
{
  long arguments[N_ARGUMENTS];
  va_list rest;

  va_start (rest, number);
  for (unsigned i = 0; i < N_ARGUMENTS; i++)
    arguments[i] = va_arg (rest, long);
  va_end (rest);
  if (number == SYS_seccomp && arguments[0] == SECCOMP_SET_MODE_STRICT && arguments[1] == 0
      && arguments[2] == 0)
    note (1);
  else if (number == SYS_seccomp && arguments[0] == SECCOMP_SET_MODE_FILTER && arguments[2] != 0)
    note (0);
  if (__builtin_expect (real.syscall == NULL, 0))
    find_real ();
  return real.syscall (number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                       arguments[5]);
}
