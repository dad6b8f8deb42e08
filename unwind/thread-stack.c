/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which memory above the stack pointer the calling thread may read. */
#include "unwind/thread-stack.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Farther from where the stack is known, the stack pointer is on another one: this much is asked
 * for page by page, at most. */
#define MAX_STEP_BYTES      (UINT64_C (64) << 20)

#define KERNEL_SIGSET_BYTES 8
#define NO_SUCH_OPERATION   (-1)

static uint64_t
page_bytes (void)
{
  return getauxval (AT_PAGESZ);
}

/* The kernel copies the set before it looks at the operation. Of the system calls that would do,
 * this one is forbidden in no sandbox. */
bool
sonde_thread_stack_is_readable (uint64_t address)
{
  uint64_t word = address & -(uint64_t) KERNEL_SIGSET_BYTES;
  int saved_errno = errno;
  bool is_readable
      = syscall (SYS_rt_sigprocmask, NO_SUCH_OPERATION, word, NULL, KERNEL_SIGSET_BYTES) == 0
        || errno != EFAULT;

  errno = saved_errno;
  return is_readable;
}

uint64_t
sonde_thread_stack_page_end (uint64_t address)
{
  return (address | (page_bytes () - 1)) + 1;
}

/* Where the thread's own stack ends: glibc puts a thread's control block there, the kernel the
 * program's name at the end of the first one. */
static uint64_t
find_high (uint64_t sp)
{
  uint64_t first = getauxval (AT_EXECFN);

  return sp < first && first - sp < MAX_STEP_BYTES ? first : (uint64_t) pthread_self ();
}

/* What is readable below a stack without a gap belongs to it, whether or not @sp does: so no page
 * is asked for twice, but for the one that was not readable. The first stack grows. */
bool
sonde_thread_stack_reaches (SondeThreadStack *self, uint64_t sp)
{
  if (self->high == 0)
    self->low = self->high = find_high (sp);
  if (sp >= self->low)
    return sp < self->high;
  if (self->low - sp > MAX_STEP_BYTES)
    return false;

  while (self->low > sp && sonde_thread_stack_is_readable (self->low - 1))
    self->low = (self->low - 1) & -page_bytes ();
  return self->low <= sp;
}
