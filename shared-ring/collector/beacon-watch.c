/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/beacon-watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared-ring/collector/beacon.h"

/* It calls no more than poll() and connect(). Where a program has more thread-local memory than
 * that, the usual size is taken. */
#define STACK_BYTES (128 * 1024)

/* A mapping that can only be read will do for the kernel, of whatever user the file is. Anything
 * but a wake-up or a changed word is a filter's answer, and would be so again. */
static void *
watch (void *data)
{
  void (*changed) (void);

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&changed, &data, sizeof changed);
  for (bool is_over = false; !is_over;)
    {
      uint32_t seen = sonde_beacon_generation ();

      changed ();
      is_over = syscall (SYS_futex, sonde_beacon_word, FUTEX_WAIT, seen, NULL, NULL, 0) < 0
                && errno != EAGAIN && errno != EINTR;
    }
  return NULL;
}

void
sonde_beacon_watch_start (void (*changed) (void))
{
  void *data;
  int saved_errno = errno;
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_t thread;

  memcpy (&data, &changed, sizeof data);
  if (!sonde_beacon_is_there () || pthread_attr_init (&attributes) != 0)
    return;
  pthread_attr_setdetachstate (&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize (&attributes, STACK_BYTES);
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  if (pthread_create (&thread, &attributes, watch, data) == EINVAL)
    {
      pthread_attr_destroy (&attributes);
      pthread_attr_init (&attributes);
      pthread_attr_setdetachstate (&attributes, PTHREAD_CREATE_DETACHED);
      pthread_create (&thread, &attributes, watch, data);
    }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  pthread_attr_destroy (&attributes);
  errno = saved_errno;
}
