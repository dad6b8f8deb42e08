/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/quiet-thread.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* Where a program has more thread-local memory than that, the usual size is taken. */
#define STACK_BYTES (128 * 1024)

bool
sonde_quiet_thread_start (SondeQuietThread *self, void *(*run) (void *data), void *data)
{
  int saved_errno = errno;
  pthread_attr_t attributes;
  sigset_t all, before;
  int r;

  sonde_quiet_thread_join (self);
  if (pthread_attr_init (&attributes) != 0)
    return false;
  pthread_attr_setstacksize (&attributes, STACK_BYTES);
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  r = pthread_create (&self->thread, &attributes, run, data);
  if (r == EINVAL)
    r = pthread_create (&self->thread, NULL, run, data);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  pthread_attr_destroy (&attributes);
  if (r == 0)
    self->pid = getpid ();
  errno = saved_errno;
  return r == 0;
}

void
sonde_quiet_thread_join (SondeQuietThread *self)
{
  if (self->pid == getpid () && !pthread_equal (self->thread, pthread_self ()))
    pthread_join (self->thread, NULL);
  self->pid = 0;
}
