/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that share rings, with a profiler of the test's own: nothing is mixed up or missing, and
 * who never gives a ring back keeps others from no more than that. */
#include "shared-ring/collector/common-ring.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"
#include "shared-ring/ring-reader.h"

#define MAX_RINGS 8 /* as there */
#define MAX_GROWN (4 * MAX_RINGS)
#define N_THREADS 32
#define N_EVENTS  4000

/* As of the control link: rings with their readers. */
static struct
{
  pthread_mutex_t lock; /* whose order ThreadSanitizer knows */
  guint n_max;
  guint32 wait_us;
  SondeRingReader *readers[MAX_GROWN];
  const SondeRingHeader *headers[MAX_GROWN];
  guint continues[MAX_GROWN]; /* which of them, from 1; 0: none */
  guint n_readers;
  guint n_grown; /* of these, those that continue one */
  guint32 features;
  guint64 seen[N_THREADS]; /* events */
  gboolean is_over;
  guint n_given;
  gulong make_us; /* that a ring takes */
  int link[2];    /* our end, the program's end */
} profiler = { .lock = PTHREAD_MUTEX_INITIALIZER, .link = { -1, -1 } };

static int
make_ring (gsize size_bytes, guint continues)
{
  const SondeRingOptions options
      = { SONDE_RING_NATIVE, size_bytes, profiler.wait_us, profiler.features };
  const SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, getpid () };
  SondeRingMemory memory;
  int ring_fd;

  g_assert_cmpuint (profiler.n_readers, <, MAX_GROWN);
  g_assert_cmpint (sonde_ring_memory_create (&options, &memory, &ring_fd), ==, 0);
  profiler.headers[profiler.n_readers] = memory.header;
  g_assert_cmpint (sonde_ring_reader_new (&memory, &rights, &profiler.readers[profiler.n_readers]),
                   ==, 0);
  profiler.continues[profiler.n_readers++] = continues;
  return ring_fd;
}

int
sonde_control_link_get_ring (const SondeRingWish *wish, SondeRingGrant *grant)
{
  int r = -EDQUOT;

  g_assert_true (wish->is_common);
  pthread_mutex_lock (&profiler.lock);
  if (profiler.n_given < profiler.n_max)
    {
      profiler.n_given++;
      /* Others are refused meanwhile. */
      pthread_mutex_unlock (&profiler.lock);
      g_usleep (profiler.make_us);
      pthread_mutex_lock (&profiler.lock);
      *grant = (SondeRingGrant){ .link_fd = profiler.link[1], .answer.max_depth = 17 };
      grant->ring_fd = make_ring (SONDE_RING_MIN_BYTES, 0);
      grant->answer.number = profiler.n_readers;
      r = 0;
    }
  pthread_mutex_unlock (&profiler.lock);
  return r;
}

int
sonde_control_link_grow_ring (uint32_t number,
                              size_t size_bytes,
                              int *ring_fd,
                              uint32_t *new_number)
{
  pthread_mutex_lock (&profiler.lock);
  *ring_fd = make_ring (MIN (size_bytes, SONDE_RING_MAX_BYTES), number);
  *new_number = profiler.n_readers;
  profiler.n_grown++;
  pthread_mutex_unlock (&profiler.lock);
  return 0;
}

static void
begin (guint n_max, guint32 wait_us)
{
  g_assert_cmpint (sonde_fork_guard_init (), ==, 0);
  profiler.n_max = n_max;
  profiler.wait_us = wait_us;
}

/* Of different lengths, full of what only this event has. */
static void
fill_event (gpointer place, guint thread, guint n)
{
  SondeFrameAllocation *frame = place;
  const guint n_addrs = n % 61;
  uint64_t *addrs = (gpointer) (frame + 1);

  *frame = (SondeFrameAllocation){ .frame = { .len = (guint16) (sizeof *frame + n_addrs * 8),
                                              .time_ns = n,
                                              .type = SONDE_FRAME_ALLOCATION },
                                   .tid = (gint32) thread,
                                   .n_addrs = (guint16) n_addrs };
  for (guint i = 0; i < n_addrs; i++)
    addrs[i] = thread * 1000000 + n;
}

/* What threads have in common are stacks, of which there are 17. */
static void
fill_short_event (gpointer place, guint thread, guint n)
{
  SondeFrameAllocation *frame = place;
  const guint n_addrs = n % 4 == 0 ? 0 : n % 17;

  *frame = (SondeFrameAllocation){ .frame = { .len = (guint16) (sizeof *frame + n_addrs * 8),
                                              .time_ns = n,
                                              .type = SONDE_FRAME_ALLOCATION },
                                   .address = (n + 1) * 8,
                                   .size_bytes = n % 4 == 0 ? 0 : thread + 1,
                                   .tid = (gint32) thread,
                                   .n_addrs = (guint16) n_addrs };
  for (guint i = 0; i < n_addrs; i++)
    frame->addrs[i] = 0x1000 + n_addrs * 100 + i;
}

static int
make_event (SondeCommonRing *self, guint thread, guint n)
{
  gpointer place;
  int r = sonde_common_ring_reserve (self, sizeof (SondeFrameAllocation) + 61 * 8, &place);

  g_assert_cmpint (r, ==, 0);
  if ((profiler.features & SONDE_RING_COMPACT_HEAP) != 0)
    {
      fill_short_event (place, thread, n);
      self->stack_hash = ((SondeFrameAllocation *) place)->n_addrs;
    }
  else
    fill_event (place, thread, n);
  return sonde_common_ring_commit (self);
}

/* A time may be that of another thread's event before it. */
static void
see_short_event (const SondeFrame *frame)
{
  const SondeFrameAllocation *event = (gconstpointer) frame;
  const guint n = (guint) (event->address / 8 - 1);
  union
  {
    SondeFrameAllocation event;
    guint8 bytes[sizeof (SondeFrameAllocation) + 61 * 8];
  } expected;

  g_assert_cmpuint (event->tid, <, N_THREADS);
  fill_short_event (&expected, (guint) event->tid, n);
  g_assert_cmpint (frame->time_ns, >=, n);
  g_assert_cmpuint (frame->len, ==, expected.event.frame.len);
  g_assert_cmpint (event->size_bytes, ==, expected.event.size_bytes);
  g_assert_cmpmem (event->addrs, event->n_addrs * 8, expected.event.addrs,
                   expected.event.n_addrs * 8);
  profiler.seen[event->tid]++;
}

static void
see_event (const SondeFrame *frame)
{
  const SondeFrameAllocation *event = (gconstpointer) frame;
  union
  {
    SondeFrameAllocation event;
    guint8 bytes[sizeof (SondeFrameAllocation) + 61 * 8];
  } expected;

  g_assert_cmpuint (event->tid, <, N_THREADS);
  fill_event (&expected, (guint) event->tid, (guint) frame->time_ns);
  expected.event.frame.pid = frame->pid;
  g_assert_cmpmem (frame, frame->len, &expected, expected.event.frame.len);
  profiler.seen[event->tid]++;
}

static void
read_all (void)
{
  const SondeFrame *frame;

  pthread_mutex_lock (&profiler.lock);
  for (guint i = 0; i < profiler.n_readers; i++)
    {
      guint before = profiler.continues[i];

      if (sonde_ring_reader_state (profiler.readers[i]) == SONDE_RING_HAS_ENDED
          || (before != 0
              && sonde_ring_reader_state (profiler.readers[before - 1]) == SONDE_RING_IS_OPEN))
        continue;
      g_assert_cmpint (sonde_ring_reader_begin (profiler.readers[i], SIZE_MAX), ==, 0);
      while (sonde_ring_reader_next (profiler.readers[i], &frame) == 1)
        if ((profiler.features & SONDE_RING_COMPACT_HEAP) != 0)
          see_short_event (frame);
        else
          see_event (frame);
      sonde_ring_reader_release (profiler.readers[i]);
      g_assert_cmpint (sonde_ring_reader_state (profiler.readers[i]), <=, SONDE_RING_HAS_ENDED);
    }
  pthread_mutex_unlock (&profiler.lock);
}

/* Those of an odd number block a signal that has a handler, as threads of many programs do. */
static gpointer
make_events (gpointer data)
{
  sigset_t blocked;
  SondeControlRingAnswer answer;
  SondeCommonRing self = { 0 };
  guint thread = GPOINTER_TO_UINT (data);

  sigemptyset (&blocked);
  sigaddset (&blocked, SIGUSR2);
  if (thread % 2 == 1)
    pthread_sigmask (SIG_BLOCK, &blocked, NULL);
  g_assert_cmpint (
      sonde_common_ring_join (
          &self, thread % 2 == 0 ? SONDE_PRODUCER_MEMORY : SONDE_PRODUCER_APPLICATION, &answer),
      ==, 0);
  g_assert_cmpuint (answer.max_depth, ==, 17);
  for (guint i = 0; i < N_EVENTS; i++)
    g_assert_cmpint (make_event (&self, thread, i), ==, 0);
  g_assert_cmpuint (self.n_frames, ==, N_EVENTS);
  g_assert_cmpuint (self.n_lost, ==, 0);
  sonde_common_ring_leave (&self);
  return NULL;
}

static gpointer
read_until_over (gpointer data)
{
  while (!g_atomic_int_get (&profiler.is_over))
    {
      read_all ();
      g_usleep (100);
    }
  return NULL;
}

static void
ignore (int number)
{
}

static void
take_all (guint n_rings)
{
  const struct sigaction action = { .sa_handler = ignore };
  GThread *threads[N_THREADS];
  GThread *reader;

  begin (n_rings, 60 * 1000000);
  g_assert_cmpint (sigaction (SIGUSR2, &action, NULL), ==, 0);
  reader = g_thread_new ("reader", read_until_over, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("writer", make_events, GUINT_TO_POINTER (i));
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_atomic_int_set (&profiler.is_over, TRUE);
  g_thread_join (reader);
  read_all ();
  g_assert_cmpuint (profiler.n_readers - profiler.n_grown, ==, n_rings);
  for (guint i = 0; i < N_THREADS; i++)
    g_assert_cmpuint (profiler.seen[i], ==, N_EVENTS);
}

static void
takes_all_through_one (void)
{
  take_all (1);
}

static void
takes_all_through_three (void)
{
  take_all (3);
}

static void
takes_all_through_as_many_as_there_may_be (void)
{
  take_all (MAX_RINGS);
}

/* Each thread goes on in the larger ring, whoever got it. */
static void
takes_all_through_rings_that_grow (void)
{
  profiler.features = SONDE_RING_MAY_GROW;
  take_all (2);
  g_assert_cmpuint (profiler.n_grown, >, 0);
}

/* What is short is that in rings that are shared, too: with a clock for each it takes 40 bytes. */
static void
takes_all_in_short (void)
{
  guint64 n_bytes = 0, n_events = 0;
  SondeRingCounts counts;

  profiler.features = SONDE_RING_COMPACT_HEAP | SONDE_RING_MAY_GROW;
  take_all (3);
  for (guint i = 0; i < profiler.n_readers; i++)
    {
      sonde_ring_reader_count (profiler.readers[i], &counts);
      n_bytes += counts.bytes;
      n_events += counts.frames;
    }
  g_assert_cmpuint (n_events, ==, N_THREADS * N_EVENTS);
  g_assert_cmpuint (n_bytes, <, n_events * (sizeof (SondeHeapClock) + sizeof (SondeHeapBlock)));
}

/* Others may be asking for theirs, hundreds of them, before the one that asks for a common one. */
static void
waits_for_a_ring_that_is_being_made (void)
{
  profiler.make_us = 1000000;
  take_all (1);
}

static gpointer
make_one_for_ever (gpointer data)
{
  static SondeCommonRing self;
  SondeControlRingAnswer answer;

  sonde_common_ring_join (&self, SONDE_PRODUCER_MEMORY, &answer);
  return NULL;
}

/* Who made it was killed. Each event looks for a ring: if each waited, that would take an hour. */
static void
waits_once_for_a_ring_that_never_comes (void)
{
  SondeControlRingAnswer answer;
  SondeCommonRing self = { 0 };
  guint n_given = 0;

  begin (1, 0);
  profiler.make_us = G_MAXULONG;
  g_thread_unref (g_thread_new ("maker", make_one_for_ever, NULL));
  while (n_given == 0)
    {
      pthread_mutex_lock (&profiler.lock);
      n_given = profiler.n_given;
      pthread_mutex_unlock (&profiler.lock);
    }
  for (guint i = 0; i < 360; i++)
    g_assert_cmpint (sonde_common_ring_join (&self, SONDE_PRODUCER_MEMORY, &answer), ==,
                     -EINPROGRESS);
}

static void
refuses_who_finds_none (void)
{
  SondeControlRingAnswer answer;
  SondeCommonRing self = { 0 };
  gpointer place;

  begin (0, 0);
  g_assert_cmpint (sonde_common_ring_join (&self, SONDE_PRODUCER_MEMORY, &answer), ==, -EDQUOT);
  g_assert_cmpint (sonde_common_ring_check_wanted (&self), ==, -ECHILD);
  g_assert_cmpint (sonde_common_ring_reserve (&self, 48, &place), ==, -ECHILD);
}

static sigjmp_buf way_out;

static void
leave (int number)
{
  siglongjmp (way_out, 1);
}

/* The doorbell rings for the first event, and for the one that waits for room. */
static gpointer
interrupt_wait (gpointer data)
{
  char bell[64];

  for (guint i = 0; i < 2; i++)
    g_assert_cmpint (recv (profiler.link[0], bell, sizeof bell, 0), >, 0);
  g_assert_cmpint (pthread_kill (*(pthread_t *) data, SIGUSR1), ==, 0);
  return NULL;
}

/* By one who waits for room in it, and never comes back from a signal handler. */
static void
goes_round_a_ring_that_stays_taken (void)
{
  const struct sigaction action = { .sa_handler = leave };
  static SondeCommonRing gone, roaming, pinned;
  SondeControlRingAnswer answer;
  SondeRingCounts counts;
  pthread_t self = pthread_self ();
  volatile guint n = 0;
  GThread *other;

  begin (2, 1000000);
  g_assert_cmpint (sigaction (SIGUSR1, &action, NULL), ==, 0);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, profiler.link), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&gone, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&roaming, SONDE_PRODUCER_MEMORY, &answer), ==, 0);
  other = g_thread_new ("interrupt", interrupt_wait, &self);
  if (sigsetjmp (way_out, 1) == 0)
    while (make_event (&gone, 0, 0) == 0)
      n++;
  g_thread_join (other);
  read_all ();
  g_assert_cmpuint (profiler.seen[0], ==, n);
  g_assert_cmpuint (gone.n_lost, ==, 0);
  roaming.home = gone.home;
  g_assert_cmpint (make_event (&roaming, 1, 1), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&pinned, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  pinned.home = gone.home;
  g_assert_cmpint (make_event (&pinned, 2, 2), ==, -ENOBUFS);
  g_assert_cmpuint (pinned.n_lost, ==, 1);
  read_all ();
  g_assert_cmpuint (profiler.seen[1], ==, 1);
  g_assert_cmpuint (profiler.seen[2], ==, 0);
  sonde_ring_reader_count (profiler.readers[0], &counts);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 1);
}

/* A thread that is kept off its processor while it waits for room. */
static struct
{
  gint may_be; /* the next handler that comes upon a wait */
  gint is_over;
  int entered[2];
  int released[2];
  SondeCommonRing ring;
} held;

static void
hold (int number)
{
  char byte = 0;

  if (sonde_ring_load_relaxed (&profiler.headers[0]->is_waiting) == 0
      || !g_atomic_int_compare_and_exchange (&held.may_be, TRUE, FALSE))
    return;
  g_assert_cmpint (write (held.entered[1], &byte, 1), ==, 1);
  g_assert_cmpint (read (held.released[0], &byte, 1), ==, 1);
}

static gpointer
fill_ring (gpointer data)
{
  while (!g_atomic_int_get (&held.is_over))
    g_assert_cmpint (make_event (&held.ring, 0, 0), ==, 0);
  return NULL;
}

/* Returns when it is. */
static void
wait_until_held (pthread_t thread)
{
  struct pollfd entered = { .fd = held.entered[0], .events = POLLIN };
  char byte;

  g_atomic_int_set (&held.may_be, TRUE);
  while (poll (&entered, 1, 1) == 0)
    g_assert_cmpint (pthread_kill (thread, SIGUSR1), ==, 0);
  g_assert_cmpint (read (held.entered[0], &byte, 1), ==, 1);
}

static gpointer
make_room (gpointer data)
{
  g_usleep (1500000);
  g_atomic_int_set (&held.is_over, TRUE);
  read_all ();
  g_assert_cmpint (write (held.released[1], "", 1), ==, 1);
  return NULL;
}

/* Longer than an event may wait for room. */
static void
waits_for_who_is_kept_off_its_processor (void)
{
  const struct sigaction action = { .sa_handler = hold };
  SondeCommonRing pinned = { 0 };
  SondeControlRingAnswer answer;
  pthread_t filler;
  GThread *other;

  begin (1, 1000000);
  g_assert_cmpint (sigaction (SIGUSR1, &action, NULL), ==, 0);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, profiler.link), ==, 0);
  g_assert_cmpint (pipe2 (held.entered, O_CLOEXEC), ==, 0);
  g_assert_cmpint (pipe2 (held.released, O_CLOEXEC), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&held.ring, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&pinned, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpint (pthread_create (&filler, NULL, fill_ring, NULL), ==, 0);

  wait_until_held (filler);
  other = g_thread_new ("room", make_room, NULL);
  g_assert_cmpint (make_event (&pinned, 2, 2), ==, 0);
  g_thread_join (other);
  pthread_join (filler, NULL);
  read_all ();
  g_assert_cmpuint (profiler.seen[2], ==, 1);
  g_assert_cmpuint (pinned.n_lost, ==, 0);
}

static gpointer
leave_soon (gpointer data)
{
  g_usleep (200000);
  sonde_ring_reader_leave (profiler.readers[0]);
  return NULL;
}

/* Who has taken the ring gets no processor, but the session is over. */
static void
waits_for_nobody_behind_the_end (void)
{
  const struct sigaction action = { .sa_handler = hold };
  SondeCommonRing pinned = { 0 };
  SondeControlRingAnswer answer;
  pthread_t filler;
  GThread *other;

  begin (1, 1000000);
  g_assert_cmpint (sigaction (SIGUSR1, &action, NULL), ==, 0);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, profiler.link), ==, 0);
  g_assert_cmpint (pipe2 (held.entered, O_CLOEXEC), ==, 0);
  g_assert_cmpint (pipe2 (held.released, O_CLOEXEC), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&held.ring, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&pinned, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpint (pthread_create (&filler, NULL, fill_ring, NULL), ==, 0);

  wait_until_held (filler);
  other = g_thread_new ("leave", leave_soon, NULL);
  g_assert_cmpint (make_event (&pinned, 2, 2), ==, -ECHILD);
  g_thread_join (other);
}

/* Full rings, an event in an event, impossible lengths, the last events of a thread. */
static void
counts_what_it_loses (void)
{
  SondeControlRingAnswer answer;
  SondeCommonRing self = { 0 };
  SondeRingCounts counts;
  gpointer place, other;
  guint n = 0;

  begin (1, 0);
  g_assert_cmpint (sonde_common_ring_join (&self, SONDE_PRODUCER_MEMORY, &answer), ==, 0);
  g_assert_cmpint (sonde_common_ring_reserve (&self, 47, &place), ==, -EMSGSIZE);
  g_assert_cmpint (sonde_common_ring_reserve (&self, SONDE_FRAME_MAX_SIZE + 8, &place), ==,
                   -EMSGSIZE);
  g_assert_cmpint (sonde_common_ring_commit (&self), ==, -ECHILD);
  while (make_event (&self, 0, n) == 0)
    n++;
  g_assert_cmpuint (self.n_frames, ==, n);
  read_all ();
  g_assert_cmpint (sonde_common_ring_reserve (&self, 48, &place), ==, 0);
  g_assert_cmpint (sonde_common_ring_reserve (&self, 48, &other), ==, -EBUSY);
  ((SondeFrame *) place)->len = 56;
  g_assert_cmpint (sonde_common_ring_commit (&self), ==, -EMSGSIZE);
  sonde_common_ring_dwindle (&self);
  g_assert_cmpint (sonde_common_ring_reserve (&self, 56, &place), ==, -EBUSY);
  g_assert_cmpint (sonde_common_ring_reserve (&self, 48, &place), ==, 0);
  fill_event (place, 0, 0);
  g_assert_cmpint (sonde_common_ring_commit (&self), ==, 0);
  sonde_common_ring_lose (&self, 48);
  read_all ();
  g_assert_cmpuint (self.n_lost, ==, 5);
  g_assert_cmpuint (profiler.seen[0], ==, n + 1);
  sonde_ring_reader_count (profiler.readers[0], &counts);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 5);
  sonde_common_ring_leave (&self);
}

/* Two threads are in the middle of an event when the profiler leaves their ring, and a third one
 * gets another in its place, where the counters of the first one are not defined. */
static void
moves_to_the_next_ring_what_means_the_same_there (void)
{
  SondeCommonRing counting = { 0 }, marking = { 0 }, next = { 0 };
  SondeControlRingAnswer answer;
  SondeRingCounts counts;
  gpointer set, mark;
  uint64_t before;

  begin (1, 0);
  g_assert_cmpint (sonde_common_ring_join (&counting, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&marking, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  before = *counting.n_definitions;
  g_assert_cmpint (sonde_common_ring_reserve (&counting, 48, &set), ==, 0);
  *(SondeFrame *) set = (SondeFrame){ .len = 48, .type = SONDE_FRAME_CTRSET };
  g_assert_cmpint (sonde_common_ring_reserve (&marking, 48, &mark), ==, 0);
  fill_event (mark, 5, 0);

  sonde_ring_reader_leave (profiler.readers[0]);
  profiler.n_max = 2;
  g_assert_cmpint (sonde_common_ring_join (&next, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_cmpuint (profiler.n_readers, ==, 2);
  g_assert_cmpuint (next.home, ==, counting.home);
  g_assert_cmpuint (*counting.n_definitions, !=, before);
  g_assert_cmpuint ((uint32_t) *next.n_definitions, ==, 0);

  g_assert_cmpint (sonde_common_ring_commit (&counting), ==, -ECHILD);
  g_assert_cmpint (sonde_common_ring_reserve (&counting, 48, &set), ==, -ECHILD);
  g_assert_cmpint (sonde_common_ring_commit (&marking), ==, 0);
  g_assert_cmpint (sonde_common_ring_reserve (&next, 48, &mark), ==, 0);
  fill_event (mark, 6, 0);
  g_assert_cmpint (sonde_common_ring_commit (&next), ==, 0);
  read_all ();
  g_assert_cmpuint (profiler.seen[5], ==, 1);
  g_assert_cmpuint (profiler.seen[6], ==, 1);
  for (guint i = 0; i < 2; i++)
    {
      sonde_ring_reader_count (profiler.readers[i], &counts);
      g_assert_cmpuint (counts.claimed.lost_events, ==, 0);
      g_assert_cmpuint (counts.frames, ==, i == 0 ? 0 : 2);
    }
}

static void
gives_a_child_rings_of_its_own (void)
{
  SondeControlRingAnswer answer;
  SondeCommonRing self = { 0 };
  gpointer place;
  int status;
  pid_t child;

  begin (1, 0);
  g_assert_cmpint (sonde_common_ring_join (&self, SONDE_PRODUCER_MEMORY, &answer), ==, 0);
  child = fork ();
  if (child == 0)
    {
      profiler.n_readers = profiler.n_given = 0;
      g_assert_cmpint (sonde_common_ring_check_wanted (&self), ==, -ECHILD);
      g_assert_cmpint (sonde_common_ring_reserve (&self, 48, &place), ==, -ECHILD);
      sonde_common_ring_lose (&self, 48);
      sonde_common_ring_leave (&self);
      g_assert_cmpint (sonde_common_ring_join (&self, SONDE_PRODUCER_MEMORY, &answer), ==, 0);
      g_assert_cmpint (make_event (&self, 3, 4), ==, 0);
      read_all ();
      _exit (profiler.seen[3] == 1 ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  sonde_common_ring_leave (&self);
}

/* A process keeps its common rings, so each case is one of its own. */
static void
run_alone (gconstpointer data)
{
  void (*const *test) (void) = data;
  int status;
  pid_t child = fork ();

  if (child == 0)
    {
      (*test) ();
      _exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const char *name;
    void (*test) (void);
  } cases[] = {
    { "/common-ring/refuses-who-finds-none", refuses_who_finds_none },
    { "/common-ring/counts-what-it-loses", counts_what_it_loses },
    { "/common-ring/goes-round-a-ring-that-stays-taken", goes_round_a_ring_that_stays_taken },
    { "/common-ring/waits-for-who-is-kept-off-its-processor",
      waits_for_who_is_kept_off_its_processor },
    { "/common-ring/waits-for-nobody-behind-the-end", waits_for_nobody_behind_the_end },
    { "/common-ring/moves-to-the-next-ring-what-means-the-same-there",
      moves_to_the_next_ring_what_means_the_same_there },
    { "/common-ring/gives-a-child-rings-of-its-own", gives_a_child_rings_of_its_own },
    { "/common-ring/takes-all-through-one", takes_all_through_one },
    { "/common-ring/takes-all-through-three", takes_all_through_three },
    { "/common-ring/takes-all-through-as-many-as-there-may-be",
      takes_all_through_as_many_as_there_may_be },
    { "/common-ring/takes-all-through-rings-that-grow", takes_all_through_rings_that_grow },
    { "/common-ring/takes-all-in-short", takes_all_in_short },
    { "/common-ring/waits-for-a-ring-that-is-being-made", waits_for_a_ring_that_is_being_made },
    { "/common-ring/waits-once-for-a-ring-that-never-comes",
      waits_once_for_a_ring_that_never_comes },
  };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_test_add_data_func (cases[i].name, &cases[i].test, run_alone);
  return g_test_run ();
}
