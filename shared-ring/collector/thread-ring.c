/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ring of the calling thread, made when it is first wanted. */
#include "shared-ring/collector/thread-ring.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"

static _Thread_local SondeThreadRing own;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int once_result;

/* What comes later, from destructors that run after this one, finds no ring. */
void
sonde_thread_ring_close (void)
{
  SondeThreadRing *self = &own;
  SondeRingWriter *writer = self->writer;

  if (writer != NULL && self->on_close != NULL)
    self->on_close ();
  self->error = -ENODEV;
  self->writer = NULL;
  sonde_ring_signal_fence ();
  sonde_ring_writer_close (writer);
}

/* Destructors of other keys may run later, and make events: they have as many rounds. */
static void
close_ring (void *data)
{
  SondeThreadRing *self = data;

  self->n_rounds++;
  if (self->n_rounds < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific (key, self) == 0)
    return;
  sonde_thread_ring_close ();
}

static void
init_once (void)
{
  once_result = sonde_fork_guard_init ();
  if (once_result == 0)
    once_result = -pthread_key_create (&key, close_ring);
}

static int
open_writer (SondeThreadRing *self, const SondeRingWish *wish)
{
  SondeRingWriter *writer;
  SondeRingGrant grant;
  int r = sonde_control_link_get_ring (wish, &grant);

  if (r < 0)
    return r;

  r = sonde_ring_writer_open (grant.ring_fd, grant.link_fd, &writer);
  close (grant.ring_fd);
  if (r < 0)
    return r;

  r = -pthread_setspecific (key, self);
  if (r < 0)
    {
      sonde_ring_writer_close (writer);
      return r;
    }

  self->n_definitions = 0;
  self->n_rounds = 0;
  self->answer = grant.answer;
  sonde_ring_signal_fence ();
  self->writer = writer;
  return 0;
}

/* An answer of any kind stands for this process: nobody is asked twice. A child that was not told
 * of its birth could not remember one, and has no ring. */
static void
ask_for_ring (SondeThreadRing *self, const SondeRingWish *wish)
{
  SondeRingWriter *of_parent = self->writer;
  int r;

  self->error = -EBUSY;
  self->writer = NULL;
  sonde_ring_signal_fence ();

  pthread_once (&once, init_once);
  r = once_result;
  if (r == 0 && sonde_fork_guard_generation () == 0)
    r = -ECHILD;
  sonde_ring_writer_close (of_parent);
  self->pid = getpid ();
  self->tid = gettid ();
  if (r == 0)
    r = open_writer (self, wish);

  if (r == -EBUSY)
    return;
  self->error = r < 0 ? -ENODEV : 0;
  self->generation = sonde_fork_guard_generation ();
}

/* Locks are taken here that a signal handler must not come upon, by an event or by a fork(). */
static void
open_ring (SondeThreadRing *self, const SondeRingWish *wish)
{
  int saved_errno = errno;
  sigset_t all, before;

  self->is_opening = 1;
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  ask_for_ring (self, wish);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  sonde_ring_signal_fence ();
  self->is_opening = 0;
  errno = saved_errno;
}

SondeThreadRing *
sonde_thread_ring_get (const SondeRingWish *wish)
{
  SondeThreadRing *self = &own;

  if (self->generation != 0 && self->generation == sonde_fork_guard_generation ())
    return self;

  if (!sonde_control_link_is_there ())
    self->error = -ENODEV;
  else if (self->is_opening == 0)
    open_ring (self, wish);

  return self;
}
