/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/quiet-thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* Where a program has more thread-local memory than that, the usual size is taken. */
#define STACK_BYTES (128 * 1024)

bool
sonde_quiet_thread_start (void *(*run) (void *data), void *data)
{
  int saved_errno = errno;
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_t thread;
  int r;

  if (pthread_attr_init (&attributes) != 0)
    return false;
  pthread_attr_setdetachstate (&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize (&attributes, STACK_BYTES);
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  r = pthread_create (&thread, &attributes, run, data);
  if (r == EINVAL)
    {
      pthread_attr_destroy (&attributes);
      pthread_attr_init (&attributes);
      pthread_attr_setdetachstate (&attributes, PTHREAD_CREATE_DETACHED);
      r = pthread_create (&thread, &attributes, run, data);
    }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  pthread_attr_destroy (&attributes);
  errno = saved_errno;
  return r == 0;
}
