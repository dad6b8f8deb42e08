/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that share rings, with a profiler of the test's own: nothing is mixed up or missing, and
 * who never gives a ring back keeps others from no more than that. */
#include <glib.h>
#include <pthread.h>
#include <sys/wait.h>

/* Whoever stops in the middle of a copy is played by what takes its ring. */
#include "shared-ring/collector/common-ring.c"
#include "shared-ring/ring-reader.h"

#define N_THREADS 32
#define N_EVENTS  4000

/* As of the control link: rings with their readers. */
static struct
{
  pthread_mutex_t lock; /* whose order ThreadSanitizer knows */
  guint n_max;
  guint32 wait_us;
  SondeRingReader *readers[MAX_RINGS];
  guint n_readers;
  guint64 seen[N_THREADS]; /* events */
  gboolean is_over;
} profiler = { .lock = PTHREAD_MUTEX_INITIALIZER };

int
sonde_control_link_get_ring (const SondeRingWish *wish, SondeRingGrant *grant)
{
  const SondeRingOptions options = { SONDE_RING_NATIVE, SONDE_RING_MIN_BYTES, profiler.wait_us };
  const SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, getpid () };
  SondeRingMemory memory;
  int r = -EDQUOT;

  g_assert_true (wish->is_common);
  pthread_mutex_lock (&profiler.lock);
  if (profiler.n_readers < profiler.n_max)
    {
      *grant = (SondeRingGrant){ .link_fd = -1, .answer.max_depth = 17 };
      g_assert_cmpint (sonde_ring_memory_create (&options, &memory, &grant->ring_fd), ==, 0);
      g_assert_cmpint (
          sonde_ring_reader_new (&memory, &rights, &profiler.readers[profiler.n_readers]), ==, 0);
      profiler.n_readers++;
      r = 0;
    }
  pthread_mutex_unlock (&profiler.lock);
  return r;
}

static void
begin (guint n_max, guint32 wait_us)
{
  g_assert_cmpint (sonde_fork_guard_init (), ==, 0);
  profiler.n_max = n_max;
  profiler.wait_us = wait_us;
}

/* As if no process had ever had one. */
static void
end (void)
{
  for (guint i = 0; i < MAX_RINGS; i++)
    {
      sonde_ring_writer_close (slots[i].writer);
      slots[i].writer = NULL;
      slots[i].word = 0;
      sonde_ring_reader_free (profiler.readers[i]);
      profiler.readers[i] = NULL;
    }
  profiler.n_readers = 0;
  memset (profiler.seen, 0, sizeof profiler.seen);
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

static int
make_event (SondeCommonRing *self, guint thread, guint n)
{
  gpointer place;
  int r = sonde_common_ring_reserve (self, sizeof (SondeFrameAllocation) + 61 * 8, &place);

  g_assert_cmpint (r, ==, 0);
  fill_event (place, thread, n);
  return sonde_common_ring_commit (self);
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
      g_assert_cmpint (sonde_ring_reader_begin (profiler.readers[i], SIZE_MAX), ==, 0);
      while (sonde_ring_reader_next (profiler.readers[i], &frame) == 1)
        see_event (frame);
      sonde_ring_reader_release (profiler.readers[i]);
    }
  pthread_mutex_unlock (&profiler.lock);
}

static gpointer
make_events (gpointer data)
{
  SondeControlRingAnswer answer;
  SondeCommonRing self = { 0 };
  guint thread = GPOINTER_TO_UINT (data);

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
takes_all_of_many_threads (void)
{
  static const guint counts[] = { 1, 3, MAX_RINGS };
  GThread *threads[N_THREADS];
  GThread *reader;

  for (guint n = 0; n < G_N_ELEMENTS (counts); n++)
    {
      begin (counts[n], 60 * 1000000);
      profiler.is_over = FALSE;
      reader = g_thread_new ("reader", read_until_over, NULL);
      for (guint i = 0; i < N_THREADS; i++)
        threads[i] = g_thread_new ("writer", make_events, GUINT_TO_POINTER (i));
      for (guint i = 0; i < N_THREADS; i++)
        g_thread_join (threads[i]);
      g_atomic_int_set (&profiler.is_over, TRUE);
      g_thread_join (reader);
      read_all ();
      g_assert_cmpuint (profiler.n_readers, ==, counts[n]);
      for (guint i = 0; i < N_THREADS; i++)
        g_assert_cmpuint (profiler.seen[i], ==, N_EVENTS);
      end ();
    }
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
  end ();
}

/* By a thread that never goes on. */
static void
goes_round_a_ring_that_stays_taken (void)
{
  SondeControlRingAnswer answer;
  SondeCommonRing roaming = { 0 }, pinned = { 0 };
  guint32 generation;
  SondeRingCounts counts;

  begin (2, 0);
  generation = sonde_fork_guard_generation ();
  g_assert_cmpint (sonde_common_ring_join (&roaming, SONDE_PRODUCER_MEMORY, &answer), ==, 0);
  g_assert_cmpint (sonde_common_ring_join (&pinned, SONDE_PRODUCER_APPLICATION, &answer), ==, 0);
  g_assert_true (take (&slots[roaming.home], generation));
  g_assert_false (take (&slots[roaming.home], generation));
  g_assert_cmpint (make_event (&roaming, 0, 1), ==, 0);
  g_assert_cmpint (make_event (&pinned, 1, 1), ==, 0);

  g_assert_true (take (&slots[pinned.home], generation));
  g_assert_cmpint (make_event (&pinned, 1, 2), ==, -ENOBUFS);
  g_assert_cmpint (make_event (&roaming, 0, 2), ==, -ENOBUFS);
  g_assert_cmpuint (roaming.n_lost + pinned.n_lost, ==, 2);
  set_state (&slots[pinned.home], generation, STATE_FREE);
  g_assert_cmpint (make_event (&pinned, 1, 3), ==, 0);
  read_all ();
  g_assert_cmpuint (profiler.seen[0], ==, 1);
  g_assert_cmpuint (profiler.seen[1], ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      sonde_ring_reader_count (profiler.readers[i], &counts);
      g_assert_cmpuint (counts.claimed.lost_events, ==, 1);
    }
  sonde_common_ring_leave (&roaming);
  sonde_common_ring_leave (&pinned);
  end ();
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
  end ();
}

/* Where its parent's words say that all are taken. */
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
  g_assert_true (take (&slots[self.home], sonde_fork_guard_generation ()));
  child = fork ();
  if (child == 0)
    {
      profiler.n_readers = 0;
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
  end ();
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/common-ring/refuses-who-finds-none", refuses_who_finds_none);
  g_test_add_func ("/common-ring/counts-what-it-loses", counts_what_it_loses);
  g_test_add_func ("/common-ring/goes-round-a-ring-that-stays-taken",
                   goes_round_a_ring_that_stays_taken);
  g_test_add_func ("/common-ring/gives-a-child-rings-of-its-own", gives_a_child_rings_of_its_own);
  g_test_add_func ("/common-ring/takes-all-of-many-threads", takes_all_of_many_threads);
  return g_test_run ();
}
