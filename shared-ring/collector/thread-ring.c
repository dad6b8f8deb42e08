/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/thread-ring.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "shared-ring/collector/beacon.h"
#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"

/* Rings that wait for the end of their thread at a time; further ones end before it. */
#define MAX_LEFT 64

static _Thread_local SondeThreadRing own;

/* Rings of threads that are about to end, but still run, as long as it takes to end one: libc frees
 * memory behind all destructors. Others close them. */
typedef struct
{
  SondeRingWriter *writer; /* NULL: none; BUSY: somebody works here */
  int32_t tid;             /* valid while there is a writer */
} LeftRing;

static LeftRing left[MAX_LEFT];
#define BUSY ((SondeRingWriter *) left)

/* Events of threads that found no descriptor to ask by, or waited for others' ring in vain: the
 * next ring has them for its losses. */
static uint32_t n_missed;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int once_result;

static bool
take (LeftRing *slot, SondeRingWriter *expected)
{
  return __atomic_compare_exchange_n (&slot->writer, &expected, BUSY, false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED);
}

static void
close_left (void)
{
  int saved_errno = errno;

  for (unsigned i = 0; i < MAX_LEFT; i++)
    {
      SondeRingWriter *writer = sonde_ring_load_relaxed (&left[i].writer);

      if (writer == NULL || writer == BUSY || !take (&left[i], writer))
        continue;
      /* The number may be another thread's by now; then this one waits for that one's end, too. */
      if (tgkill (getpid (), left[i].tid, 0) < 0 && errno == ESRCH)
        {
          sonde_ring_writer_close (writer);
          writer = NULL;
        }
      sonde_ring_store_release (&left[i].writer, writer);
    }
  errno = saved_errno;
}

void
sonde_thread_ring_close (void)
{
  SondeThreadRing *self = &own;
  SondeRingWriter *writer = self->writer;

  /* A child of vfork() that ends by exit() has its parent's. */
  if (sonde_thread_ring_is_held () && !sonde_fork_guard_is_own_process ())
    return;
  if (self->error == 0 && self->on_close != NULL)
    self->on_close ();
  self->error = -ENODEV;
  self->writer = NULL;
  sonde_ring_signal_fence ();
  sonde_common_ring_leave (&self->common);
  sonde_ring_writer_close (writer);
  close_left ();
}

void
sonde_thread_ring_give_up (void)
{
  sonde_thread_ring_close ();
  own.is_opening = 1;
}

/* Destructors of other keys may run later, and make events: they have as many rounds. */
static void
end_thread (void *data)
{
  SondeThreadRing *self = data;
  unsigned i = MAX_LEFT;

  self->n_rounds++;
  if (self->n_rounds < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific (key, self) == 0)
    return;

  close_left ();
  /* What it has in common with others stays theirs. */
  if (self->on_end != NULL && self->writer == NULL && self->error == 0)
    {
      self->has_ended = true;
      self->on_end ();
      sonde_common_ring_dwindle (&self->common);
      return;
    }
  if (self->on_end != NULL && self->writer != NULL)
    for (i = 0; i < MAX_LEFT && !take (&left[i], NULL); i++)
      ;
  if (i == MAX_LEFT)
    {
      sonde_thread_ring_close ();
      return;
    }
  left[i].tid = self->tid;
  self->has_ended = true;
  /* Pairs with the acquire in take(). */
  sonde_ring_store_release (&left[i].writer, self->writer);
  self->on_end ();
}

static void
init_once (void)
{
  once_result = sonde_fork_guard_init ();
  if (once_result == 0)
    once_result = -pthread_key_create (&key, end_thread);
}

static int
open_writer (SondeThreadRing *self, const SondeRingWish *wish)
{
  SondeRingWriter *writer;
  SondeRingGrant grant;
  int r = -EBADF;

  /* Another thread may be closing all descriptors, ours among them. */
  for (unsigned n = 0; r == -EBADF && n < 2; n++)
    {
      r = sonde_control_link_get_ring (wish, &grant);
      if (r < 0)
        return r;
      r = sonde_ring_writer_open (grant.ring_fd, grant.link_fd, &writer);
      close (grant.ring_fd);
    }
  if (r < 0)
    return r;

  r = -pthread_setspecific (key, self);
  if (r < 0)
    {
      sonde_ring_writer_close (writer);
      return r;
    }

  sonde_ring_writer_let_grow (writer, grant.answer.number, sonde_control_link_grow_ring);
  for (uint32_t n = __atomic_exchange_n (&n_missed, 0, __ATOMIC_RELAXED); n > 0; n--)
    sonde_ring_writer_lose (writer, 0);
  self->n_own_definitions = 0;
  self->n_definitions = &self->n_own_definitions;
  self->n_rounds = 0;
  self->answer = grant.answer;
  sonde_ring_signal_fence ();
  self->writer = writer;
  return 0;
}

/* The profiler has no more for single threads, or its memory could not be mapped. */
static int
join_others (SondeThreadRing *self, SondeProducer producer)
{
  int r = -pthread_setspecific (key, self);

  if (r == 0)
    r = sonde_common_ring_join (&self->common, producer, &self->answer);
  if (r < 0)
    return r;

  for (uint32_t n = __atomic_exchange_n (&n_missed, 0, __ATOMIC_RELAXED); n > 0; n--)
    sonde_common_ring_lose (&self->common, 0);
  self->n_definitions = self->common.n_definitions;
  self->n_rounds = 0;
  return 0;
}

/* An answer of any kind stands for this process: nobody is asked twice. A child that was not told
 * of its birth could not remember one, and has no ring. */
static void
ask_for_ring (SondeThreadRing *self, const SondeRingWish *wish)
{
  SondeRingWriter *before = self->writer; /* our parent's, or one that was left */
  bool is_full;
  int r;

  /* Who has it in mind shall not write to what is unmapped. */
  if (before != NULL && self->error == 0 && self->on_close != NULL
      && self->generation == sonde_fork_guard_generation ())
    self->on_close ();

  self->error = -EBUSY;
  self->generation = 0; /* until there is an answer */
  self->beacon = sonde_beacon_generation ();
  self->has_ended = false;
  self->writer = NULL;
  sonde_ring_signal_fence ();

  pthread_once (&once, init_once);
  r = once_result;
  if (r == 0 && sonde_fork_guard_generation () == 0)
    r = -ECHILD;
  sonde_ring_writer_close (before);
  sonde_common_ring_leave (&self->common);
  close_left ();
  self->pid = getpid ();
  self->tid = gettid ();
  if (r == 0)
    r = open_writer (self, wish);
  if (r == -EBUSY)
    return;
  is_full = r == -EMFILE || r == -ENFILE;
  if (r < 0 && !is_full && r != -ECHILD && r != -EOPNOTSUPP
      && sonde_control_link_is_there (wish->producer))
    r = join_others (self, wish->producer);
  /* The program may have a descriptor, and the ring be there, for the next event. */
  if (is_full || r == -EINPROGRESS)
    {
      __atomic_fetch_add (&n_missed, 1, __ATOMIC_RELAXED);
      return;
    }
  self->error = r < 0 ? -ENODEV : 0;
  self->generation = sonde_fork_guard_generation ();
}

/* Locks are taken here that a signal handler must not come upon, by an event or by a fork(). */
static void
open_ring (SondeThreadRing *self, const SondeRingWish *wish)
{
  int saved_errno = errno;
  sigset_t all, before;
  int state;

  self->is_opening = 1;
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  /* Who allocates memory does not expect to be cancelled there. */
  pthread_setcancelstate (PTHREAD_CANCEL_DISABLE, &state);
  ask_for_ring (self, wish);
  pthread_setcancelstate (state, NULL);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  sonde_ring_signal_fence ();
  self->is_opening = 0;
  errno = saved_errno;
}

bool
sonde_thread_ring_is_held (void)
{
  return own.writer != NULL || own.common.generation != 0;
}

/* Whether what the thread was told still holds. */
static bool
is_current (const SondeThreadRing *self)
{
  if (self->generation == 0 || self->generation != sonde_fork_guard_generation ())
    return false;
  if (self->error < 0)
    return self->beacon == sonde_beacon_generation ();
  return !(self->writer != NULL ? sonde_ring_writer_is_over (self->writer)
                                : sonde_common_ring_is_left (&self->common));
}

/* Where the thread has no ring of its own that takes events now. */
static void __attribute__ ((noinline)) find_ring (SondeThreadRing *self, const SondeRingWish *wish)
{
  uint32_t beacon;

  if (is_current (self))
    return;
  /* A ring that a child of vfork() had got would be in its parent's memory, and that one's name. So
   * its parent gets one, with its own next event. */
  if (self->is_opening == 0 && !sonde_fork_guard_is_own_process ())
    {
      __atomic_fetch_add (&n_missed, 1, __ATOMIC_RELAXED);
      if (!sonde_thread_ring_is_held ())
        {
          self->error = -EBUSY;
          self->generation = 0;
        }
      return;
    }

  beacon = sonde_beacon_generation ();
  /* What it has others close once it is gone. */
  if (self->has_ended && self->generation == sonde_fork_guard_generation ())
    self->error = -ENODEV;
  else if (!sonde_thread_ring_is_held () && !sonde_control_link_is_there (wish->producer))
    {
      self->error = -ENODEV;
      self->beacon = beacon;
      self->generation = sonde_fork_guard_generation ();
      sonde_ring_store_relaxed (&n_missed, 0);
    }
  else if (self->is_opening == 0)
    open_ring (self, wish);
}

SondeThreadRing *
sonde_thread_ring_get (const SondeRingWish *wish)
{
  SondeThreadRing *self = &own;

  /* Looked up once: the compiler takes that call for cheaper than to keep its result. */
  __asm__("" : "+r"(self));
  if (__builtin_expect (self->writer != NULL ? sonde_ring_writer_check_wanted (self->writer) < 0
                                             : !is_current (self),
                        false))
    find_ring (self, wish);
  return self;
}
