/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: notes when a program closes itself by seccomp, and makes no system calls there
 * that could end it; and when one of its threads changes its capabilities, and is alone there. */
#include <dlfcn.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared-ring/collector/tracer/tracer.h"

#define HOOK        __attribute__ ((visibility ("default")))

#define N_ARGUMENTS 6 /* of a system call */

/* What the program would call without us; all its threads find the same. */
static struct
{
  int (*prctl) (int, ...);
  long (*syscall) (long, ...);
  int (*capset) (cap_user_header_t, const cap_user_data_t);
} real;

/* Before main(): whoever calls them later may be in a signal handler. */
static void __attribute__ ((constructor)) find_real (void)
{
  void *found[]
      = { dlsym (RTLD_NEXT, "prctl"), dlsym (RTLD_NEXT, "syscall"), dlsym (RTLD_NEXT, "capset") };

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&real.prctl, &found[0], sizeof found[0]);
  memcpy (&real.syscall, &found[1], sizeof found[1]);
  memcpy (&real.capset, &found[2], sizeof found[2]);
}

/* What a thread does for itself alone, so that threads of ours stayed as they were. libc has all
 * threads follow when the user changes, and ends the program if one may do what another may not.
 * Source: glibc, nptl/nptl_setxid.c */
static bool
is_of_one_thread (int option)
{
  return option == PR_SET_KEEPCAPS || option == PR_SET_SECUREBITS || option == PR_CAPBSET_DROP
         || option == PR_CAP_AMBIENT;
}

HOOK int capset (cap_user_header_t header, const cap_user_data_t data);

HOOK int
capset (cap_user_header_t header, const cap_user_data_t data)
{
  sonde_tracer_leave_alone ();
  if (__builtin_expect (real.capset == NULL, 0))
    find_real ();
  return real.capset (header, data);
}

/* Calls that only ask what there is have a null pointer for the filter. Strict mode takes the time
 * stamp counter away, too, and what PR_SET_TSC does is inherited by new threads. Source: prctl(2),
 * PR_SET_SECCOMP, PR_SET_TSC */
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
    sonde_tracer_confine (arguments[0] == SECCOMP_MODE_STRICT);
  else if (option == PR_SET_TSC && arguments[0] == PR_TSC_SIGSEGV)
    sonde_tracer_confine (true);
  else if (is_of_one_thread (option))
    sonde_tracer_leave_alone ();
  if (__builtin_expect (real.prctl == NULL, 0))
    find_real ();
  return real.prctl (option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

/* As libseccomp calls it. Source: syscall(2), seccomp(2) */
HOOK long
syscall (long number, ...)
{
  long arguments[N_ARGUMENTS];
  va_list rest;

  va_start (rest, number);
  for (unsigned i = 0; i < N_ARGUMENTS; i++)
    arguments[i] = va_arg (rest, long);
  va_end (rest);
  if (number == SYS_seccomp && arguments[0] == SECCOMP_SET_MODE_STRICT)
    sonde_tracer_confine (true);
  else if (number == SYS_seccomp && arguments[0] == SECCOMP_SET_MODE_FILTER && arguments[2] != 0)
    sonde_tracer_confine (false);
  if (__builtin_expect (real.syscall == NULL, 0))
    find_real ();
  return real.syscall (number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                       arguments[5]);
}
