/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-collector against a profiler in the test: who listens, what arrives, and what a program
 * may do to it. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/beacon-layout.h"
#include "shared-ring/collector/sonde-collector.h"
#include "tests/lib/control-server.h"

#define N_THREADS 3
#define N_EVENTS  100000

/* MAX_RINGS of common-ring.c; more threads than that */
#define N_COMMON_RINGS  8
#define N_SHARING       100
#define N_SHARED_EVENTS 1000

static const ControlServerOptions defaults = { .socket_type = SOCK_SEQPACKET };

/* What a client tells the test. */
static struct
{
  guint64 n_produced;
  guint64 n_lost;
} * told;

static int
mark (void)
{
  return sonde_collector_mark (1000, 5, "group", "name", "message");
}

static int
find_nobody (void)
{
  uint64_t address, n_events = 1, n_lost = 1;
  int id = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "c", "n", "d");

  g_assert_cmpint (id, ==, 1);
  g_assert_false (sonde_collector_is_wanted ());
  g_assert_false (sonde_collector_is_active ());
  g_assert_cmpint (sonde_collector_prepare_thread (), ==, -ENODEV);
  errno = 12345;
  g_assert_cmpint (mark (), ==, -ENODEV);
  g_assert_cmpint (sonde_collector_mark_printf (0, 0, "g", "n", "%d", 1), ==, -ENODEV);
  g_assert_cmpint (sonde_collector_log (16, "d", "m"), ==, -ENODEV);
  g_assert_cmpint (sonde_collector_set_int64 (id, 1), ==, -ENODEV);
  g_assert_cmpint (sonde_collector_allocation (1, 1, NULL, 0), ==, -ENODEV);
  g_assert_cmpint (sonde_collector_sample (NULL, 0), ==, -ENODEV);
  g_assert_cmpint (sonde_collector_name_address ("f", &address), ==, -ENODEV);
  g_assert_cmpint (errno, ==, 12345);
  sonde_collector_count (&n_events, &n_lost);
  g_assert_cmpuint (n_events + n_lost, ==, 0);

  return 0;
}

static void
finds_nobody_without_the_environment (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);

  g_assert_cmpint (control_server_run (server, find_nobody, "UNRELATED"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 0);
}

static int
find_nobody_by_number (void)
{
  static const char *const numbers[] = { "", "x", "-1", "1", "12345", "99999999999", "7x" };
  int file = open ("/dev/null", O_RDWR | O_CLOEXEC);

  for (guint i = 0; i <= G_N_ELEMENTS (numbers); i++)
    {
      g_autofree char *number = g_strdup_printf ("%d", file);
      int status;
      pid_t child;

      g_setenv ("SONDE_CONTROL_FD", i < G_N_ELEMENTS (numbers) ? numbers[i] : number, TRUE);
      child = fork ();
      if (child == 0)
        _exit (find_nobody ());
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_cmpint (status, ==, 0);
    }

  return 0;
}

static void
refuses_numbers_that_are_no_socket (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);

  g_assert_cmpint (control_server_run (server, find_nobody_by_number, "UNRELATED"), ==, 0);
}

static gpointer
find_no_ring (gpointer data)
{
  g_assert_cmpint (mark (), ==, -ENODEV);
  return NULL;
}

static int
meet_a_mute_profiler (void)
{
  for (guint i = 0; i < 100; i++)
    g_thread_join (g_thread_new ("mute", find_no_ring, NULL));

  return 0;
}

static void
asks_a_mute_profiler_once (void)
{
  const ControlServerOptions mute = { .socket_type = SOCK_SEQPACKET, .is_mute = TRUE };
  g_autoptr (ControlServer) server = control_server_new (&mute);

  g_assert_cmpint (control_server_run (server, meet_a_mute_profiler, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 0);
  g_assert_cmpuint (server->n_ignored, ==, 1);
}

static int
exceed_the_quota (void)
{
  g_assert_cmpint (mark (), ==, 0);
  meet_a_mute_profiler ();
  g_assert_cmpint (mark (), ==, 0);

  return 0;
}

static void
goes_without_a_ring_that_is_refused (void)
{
  const ControlServerOptions one = { .socket_type = SOCK_SEQPACKET, .n_max_rings = 1 };
  g_autoptr (ControlServer) server = control_server_new (&one);

  g_assert_cmpint (control_server_run (server, exceed_the_quota, "SONDE_CONTROL_FD"), ==, 0);
  /* Each for a ring of its own, and for one in common. */
  g_assert_cmpuint (server->n_refused, ==, 200);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 2);
}

static int
make_each (void)
{
  static const uint64_t addrs[] = { 0x401000, 0x402000 };
  int ids[2], unknown = 3;
  SondeCollectorValue values[2] = { { .v64 = 7 }, { .vdbl = 0.5 } };
  uint64_t address = 0;

  ids[0] = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "category", "first", "text");
  ids[1] = sonde_collector_define_counter (SONDE_COLLECTOR_DOUBLE, "category", "second", "text");
  errno = 12345;
  g_assert_true (sonde_collector_is_wanted ());
  g_assert_true (sonde_collector_is_active ());
  g_assert_cmpint (mark (), ==, 0);
  g_assert_cmpint (sonde_collector_mark_printf (1, 2, "g", "n", "%d of %s", 3, "x"), ==, 0);
  g_assert_cmpint (sonde_collector_log (16, "domain", "a line"), ==, 0);
  g_assert_cmpint (sonde_collector_set_counters (ids, values, 2), ==, 0);
  g_assert_cmpint (sonde_collector_set_int64 (ids[0], 8), ==, 0);
  g_assert_cmpint (sonde_collector_set_double (ids[1], 1.5), ==, 0);
  g_assert_cmpint (sonde_collector_allocation (0x5000, 64, addrs, 2), ==, 0);
  g_assert_cmpint (sonde_collector_name_address ("function", &address), ==, 0);
  g_assert_cmpuint (address, >, SONDE_JIT_ADDRESS_BASE);
  g_assert_cmpint (sonde_collector_sample (&address, 1), ==, 0);

  g_assert_cmpint (sonde_collector_set_int64 (unknown, 8), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_set_int64 (0, 8), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_set_counters (ids, values, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_set_counters (ids, values, SIZE_MAX), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_define_counter (2, "c", "n", "d"), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_log (65536, "d", "m"), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_mark (0, -1, "g", "n", "m"), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_allocation (1, -1, NULL, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_collector_allocation (1, 1, addrs, SIZE_MAX), ==, -EMSGSIZE);
  g_assert_cmpint (sonde_collector_sample (addrs, 8001), ==, -EMSGSIZE);
  g_assert_cmpint (sonde_collector_name_address ("", &address), ==, -EINVAL);
  g_assert_cmpint (errno, ==, 12345);

  return 0;
}

static void
assert_each (const ControlServer *server)
{
  const SondeFrameMark *found = control_server_find (server, SONDE_FRAME_MARK);
  const SondeFrameCounterDefine *define = control_server_find (server, SONDE_FRAME_CTRDEF);
  const SondeFrameCounterSet *set = control_server_find (server, SONDE_FRAME_CTRSET);
  const SondeFrameSample *sample = control_server_find (server, SONDE_FRAME_SAMPLE);
  const SondeFrameJitmap *names = control_server_find (server, SONDE_FRAME_JITMAP);

  g_assert_cmpuint (server->rings->len, ==, 1);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 2);
  g_assert_cmpint (found->frame.time_ns, ==, 1000);
  g_assert_cmpint (found->duration_ns, ==, 5);
  g_assert_cmpstr (found->message, ==, "message");
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_LOG), ==, 1);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_CTRDEF), ==, 1);
  g_assert_cmpuint (define->n_counters, ==, 2);
  g_assert_cmpstr (define->counters[1].name, ==, "second");
  g_assert_cmpuint (sonde_counter_type (define->counters[1].id_type), ==, SONDE_COUNTER_DOUBLE);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_CTRSET), ==, 3);
  g_assert_cmpuint (set->groups[0].ids[1], ==, 2);
  g_assert_cmpint (set->groups[0].values[0].v64, ==, 7);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_ALLOCATION), ==, 1);
  g_assert_cmpint (memcmp (names->data, sample->addrs, sizeof *sample->addrs), ==, 0);
}

static void
delivers_each_kind_of_event (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);
  const ControlRing *ring;

  g_assert_cmpint (control_server_run (server, make_each, "SONDE_CONTROL_FD"), ==, 0);
  assert_each (server);
  ring = server->rings->pdata[0];
  g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_HAS_ENDED);
  g_assert_cmpint (ring->tid, ==, ring->pid);
  g_assert_cmpuint (ring->producer, ==, SONDE_PRODUCER_APPLICATION);
  g_assert_cmpuint (server->n_bells, >, 0);
  g_assert_cmpuint (server->n_ignored, ==, 0);
}

/* A profiler that speaks the older protocol alone. */
static void
delivers_to_a_sysprof_profiler (void)
{
  static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      const ControlServerOptions options = { .socket_type = types[i] };
      g_autoptr (ControlServer) server = control_server_new (&options);

      g_assert_cmpint (control_server_run (server, make_each, "SYSPROF_CONTROL_FD"), ==, 0);
      assert_each (server);
    }
}

static gpointer
make_many (gpointer data)
{
  uint64_t n_events, n_lost;

  for (guint i = 0; i < N_EVENTS; i++)
    {
      int r = mark ();

      g_assert_true (r == 0 || r == -ENOBUFS);
    }
  sonde_collector_count (&n_events, &n_lost);
  g_assert_cmpuint (n_events + n_lost, ==, N_EVENTS);
  __atomic_fetch_add (&told->n_lost, n_lost, __ATOMIC_RELAXED);
  __atomic_fetch_add (&told->n_produced, N_EVENTS, __ATOMIC_RELAXED);

  return NULL;
}

static int
make_many_in_threads (void)
{
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("many", make_many, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  return 0;
}

static void
counts_what_threads_lose (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);
  guint64 n_lost = 0;

  memset (told, 0, sizeof *told);
  g_assert_cmpint (control_server_run (server, make_many_in_threads, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, N_THREADS);
  for (guint i = 0; i < N_THREADS; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];
      SondeRingCounts counts;

      g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_HAS_ENDED);
      g_assert_cmpint (ring->tid, !=, ring->pid);
      sonde_ring_reader_count (ring->reader, &counts);
      g_assert_cmpuint (counts.produced, ==, N_EVENTS);
      n_lost += counts.claimed.lost_events;
    }
  g_assert_cmpuint (n_lost, ==, told->n_lost);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK) + n_lost, ==, told->n_produced);
}

static void
loses_nothing_where_it_may_wait (void)
{
  const ControlServerOptions patient = { .socket_type = SOCK_SEQPACKET, .wait_us = 60 * 1000000 };
  g_autoptr (ControlServer) server = control_server_new (&patient);

  memset (told, 0, sizeof *told);
  g_assert_cmpint (control_server_run (server, make_many_in_threads, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (told->n_lost, ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, told->n_produced);
}

/* Where nothing may wait, all that had no room is counted. */
static int
make_many_in_sharing_threads (void)
{
  g_assert_cmpint (sonde_collector_prepare_thread (), ==, 0);
  return make_many_in_threads ();
}

/* It shares a ring with others later, in which its losses of before are told. */
static gpointer
mark_without_descriptors (gpointer data)
{
  struct rlimit limit, few;

  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  few = (struct rlimit){ 3, limit.rlim_max };
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &few), ==, 0);
  for (guint i = 0; i < 5; i++)
    g_assert_cmpint (mark (), <, 0);
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  g_assert_cmpint (mark (), ==, 0);
  return NULL;
}

static int
mark_in_a_full_program (void)
{
  g_assert_cmpint (mark (), ==, 0);
  g_thread_join (g_thread_new ("full", mark_without_descriptors, NULL));
  return 0;
}

static void
counts_what_it_had_no_descriptors_for (void)
{
  const ControlServerOptions sharing = { .socket_type = SOCK_SEQPACKET, .n_max_own = 1 };
  g_autoptr (ControlServer) server = control_server_new (&sharing);
  guint64 n_lost = 0;

  g_assert_cmpint (control_server_run (server, mark_in_a_full_program, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 2);
  for (guint i = 0; i < server->rings->len; i++)
    {
      SondeRingCounts counts;

      sonde_ring_reader_count (((const ControlRing *) server->rings->pdata[i])->reader, &counts);
      n_lost += counts.claimed.lost_events;
    }
  g_assert_cmpuint (n_lost, ==, 5);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 2);
}

#ifndef IS_EMULATED /* by an emulator that doubles no mapping */
/* Threads that make more than their rings hold get larger ones, of their own or shared. */
static void
goes_on_in_larger_rings (gconstpointer is_sharing)
{
  const ControlServerOptions growing = { .socket_type = SOCK_SEQPACKET,
                                         .n_max_own = is_sharing != NULL ? 1 : 0,
                                         .wait_us = 60 * 1000000,
                                         .may_grow = TRUE };
  g_autoptr (ControlServer) server = control_server_new (&growing);
  guint n_grown = 0;

  memset (told, 0, sizeof *told);
  g_assert_cmpint (
      control_server_run (server,
                          is_sharing != NULL ? make_many_in_sharing_threads : make_many_in_threads,
                          "SONDE_CONTROL_FD"),
      ==, 0);
  g_assert_cmpuint (told->n_lost, ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, told->n_produced);
  for (guint i = 0; i < server->rings->len; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];

      if (ring->before == NULL)
        continue;
      n_grown++;
      g_assert_cmpint (sonde_ring_reader_state (ring->before->reader), ==, SONDE_RING_HAS_ENDED);
      g_assert_cmpuint (sonde_ring_reader_continued_in (ring->before->reader), ==, ring->number);
      g_assert_cmpuint (sonde_ring_reader_size (ring->reader), >,
                        sonde_ring_reader_size (ring->before->reader));
    }
  g_assert_cmpuint (n_grown, >, 0);
}
#endif

/* A thread's events, whose numbers and names are defined before them. */
static gpointer
make_in_order (gpointer data)
{
  const int id = GPOINTER_TO_INT (data);
  uint64_t address = 0, n_events, n_lost;
  int own_id;

  for (guint i = 0; i < N_SHARED_EVENTS; i++)
    {
      g_assert_cmpint (mark (), ==, 0);
      g_assert_cmpint (sonde_collector_set_int64 (id, i), ==, 0);
    }
  own_id = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "c", "own", "d");
  g_assert_cmpint (sonde_collector_set_int64 (own_id, 1), ==, 0);
  g_assert_cmpint (sonde_collector_name_address ("function", &address), ==, 0);
  g_assert_cmpint (sonde_collector_sample (&address, 1), ==, 0);
  sonde_collector_count (&n_events, &n_lost);
  g_assert_cmpuint (n_events, >=, 2 * N_SHARED_EVENTS + 3);
  __atomic_fetch_add (&told->n_produced, n_events, __ATOMIC_RELAXED);
  __atomic_fetch_add (&told->n_lost, n_lost, __ATOMIC_RELAXED);
  return NULL;
}

static int
make_in_sharing_threads (void)
{
  GThread *threads[N_SHARING];
  int id = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "c", "n", "d");

  g_assert_cmpint (sonde_collector_prepare_thread (), ==, 0);
  for (guint i = 0; i < N_SHARING; i++)
    threads[i] = g_thread_new ("sharing", make_in_order, GINT_TO_POINTER (id));
  for (guint i = 0; i < N_SHARING; i++)
    g_thread_join (threads[i]);
  return 0;
}

/* What is set, or stands for a name, was defined before in the same ring. */
static void
assert_order (const ControlRing *ring)
{
  guint32 n_defined = 0;
  g_autoptr (GHashTable) named = g_hash_table_new (g_int64_hash, g_int64_equal);

  for (guint i = 0; i < ring->frames->len; i++)
    {
      const SondeFrame *frame = ring->frames->pdata[i];

      if (frame->type == SONDE_FRAME_CTRDEF)
        {
          const SondeFrameCounterDefine *define = ring->frames->pdata[i];
          const guint last = define->n_counters - 1u;

          n_defined = MAX (n_defined, sonde_counter_id (define->counters[last].id_type));
        }
      else if (frame->type == SONDE_FRAME_CTRSET)
        g_assert_cmpuint (((const SondeFrameCounterSet *) ring->frames->pdata[i])->groups[0].ids[0],
                          <=, n_defined);
      else if (frame->type == SONDE_FRAME_JITMAP)
        g_hash_table_add (named, ((SondeFrameJitmap *) ring->frames->pdata[i])->data);
      else if (frame->type == SONDE_FRAME_SAMPLE)
        g_assert_true (g_hash_table_contains (
            named, ((const SondeFrameSample *) ring->frames->pdata[i])->addrs));
    }
}

static void
shares_rings_where_not_each_has_its_own (void)
{
  const ControlServerOptions one
      = { .socket_type = SOCK_SEQPACKET, .n_max_own = 1, .wait_us = 60 * 1000000 };
  g_autoptr (ControlServer) server = control_server_new (&one);
  SondeRingCounts counts;

  memset (told, 0, sizeof *told);
  g_assert_cmpint (control_server_run (server, make_in_sharing_threads, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 1 + N_COMMON_RINGS);
  g_assert_cmpuint (told->n_lost, ==, 0);
  control_server_account (server, &counts);
  g_assert_cmpuint (counts.frames, ==, told->n_produced);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==,
                    N_SHARING * N_SHARED_EVENTS);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_CTRSET), ==,
                    N_SHARING * (N_SHARED_EVENTS + 1));
  for (guint i = 0; i < server->rings->len; i++)
    assert_order (server->rings->pdata[i]);
}

static void
counts_what_sharing_threads_lose (void)
{
  const ControlServerOptions one
      = { .socket_type = SOCK_SEQPACKET, .n_max_own = 1, .n_max_rings = 2, .ring_bytes = 131072 };
  g_autoptr (ControlServer) server = control_server_new (&one);
  SondeRingCounts counts;

  memset (told, 0, sizeof *told);
  g_assert_cmpint (control_server_run (server, make_many_in_sharing_threads, "SONDE_CONTROL_FD"),
                   ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 2);
  control_server_account (server, &counts);
  g_assert_cmpuint (counts.frames + counts.claimed.lost_events, ==, told->n_produced);
  g_assert_cmpuint (counts.claimed.lost_events, ==, told->n_lost);
}

static gpointer
fork_while_others_write (gpointer data)
{
  int status;
  pid_t child;

  g_assert_cmpint (mark (), ==, 0);
  for (guint i = 0; i < 20; i++)
    {
      child = fork ();
      if (child == 0)
        {
          for (guint k = 0; k < 10; k++)
            g_assert_cmpint (mark (), ==, 0);
          _exit (0);
        }
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_cmpint (status, ==, 0);
    }
  g_atomic_int_set ((int *) data, TRUE);
  return NULL;
}

static gpointer
write_until (gpointer data)
{
  while (!g_atomic_int_get ((int *) data))
    g_assert_cmpint (mark (), ==, 0);
  return NULL;
}

static int
fork_in_a_sharing_thread (void)
{
  GThread *threads[N_THREADS];
  int is_over = FALSE;

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("writing", write_until, &is_over);
  g_thread_join (g_thread_new ("forking", fork_while_others_write, &is_over));
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  return 0;
}

/* The words of its parent's rings are in any state there. */
static void
gives_a_child_of_a_sharing_thread_rings_of_its_own (void)
{
  const ControlServerOptions one
      = { .socket_type = SOCK_SEQPACKET, .n_max_own = 1, .wait_us = 60 * 1000000 };
  g_autoptr (ControlServer) server = control_server_new (&one);
  guint n_of_children = 0;
  gint32 parent;

  g_assert_cmpint (control_server_run (server, fork_in_a_sharing_thread, "SONDE_CONTROL_FD"), ==,
                   0);
  parent = ((const ControlRing *) server->rings->pdata[0])->pid;
  for (guint i = 0; i < server->rings->len; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];

      if (ring->pid != parent)
        n_of_children += ring->frames->len;
    }
  g_assert_cmpuint (n_of_children, ==, 20 * 10);
}

static int
fork_with_a_ring (void)
{
  int id = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "c", "n", "d");
  int status;
  pid_t child;

  g_assert_cmpint (sonde_collector_set_int64 (id, 1), ==, 0);
  child = fork ();
  if (child == 0)
    {
      g_assert_cmpint (sonde_collector_set_int64 (id, 2), ==, 0);
      exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (sonde_collector_set_int64 (id, 3), ==, 0);

  return status;
}

static void
gives_a_child_a_ring_of_its_own (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);
  const ControlRing *first, *second;

  g_assert_cmpint (control_server_run (server, fork_with_a_ring, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 2);
  g_assert_cmpuint (server->n_links, ==, 2);
  first = server->rings->pdata[0];
  second = server->rings->pdata[1];
  g_assert_cmpint (first->pid, !=, second->pid);
  /* Each has a definition, then its own values. */
  g_assert_cmpuint (first->frames->len, ==, 3);
  g_assert_cmpuint (second->frames->len, ==, 2);
  g_assert_cmpint (sonde_ring_reader_state (second->reader), ==, SONDE_RING_HAS_ENDED);
}

#ifndef IS_EMULATED /* by an emulator that empties no pages */
static int
mark_in_clone (gpointer data)
{
  for (guint i = 0; i < 100; i++)
    if (mark () != -ENODEV)
      _exit (1);
  _exit (0);
}

static int
clone_with_a_ring (void)
{
  g_autofree guint8 *stack = g_malloc (65536);
  int status;
  pid_t child;

  g_assert_cmpint (mark (), ==, 0);
  child = clone (mark_in_clone, stack + 65536, SIGCHLD, NULL);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);

  return status;
}

static void
gives_no_ring_to_a_child_that_no_handler_saw (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);

  g_assert_cmpint (control_server_run (server, clone_with_a_ring, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 1);
}
#endif

#ifndef IS_EMULATED /* by an emulator whose vfork() is fork() */
static int
mark_in_a_child_of_vfork (void)
{
  int status;
  pid_t child;

  told->n_produced = 0;
  child = vfork ();
  if (child == 0)
    {
      for (guint i = 0; i < 3; i++)
        told->n_produced += mark () == -EBUSY;
      _exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  return 0;
}

static int
vfork_and_mark (void)
{
  int r = mark_in_a_child_of_vfork ();

  g_assert_cmpint (mark (), ==, 0);
  return r;
}

static int
mark_and_vfork (void)
{
  g_assert_cmpint (mark (), ==, 0);
  return vfork_and_mark ();
}

/* It would be the child's, in its parent's memory. */
static void
gives_no_ring_to_a_child_of_vfork (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);
  const ControlRing *ring;
  SondeRingCounts counts;

  g_assert_cmpint (control_server_run (server, vfork_and_mark, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (told->n_produced, ==, 3);
  g_assert_cmpuint (server->n_links, ==, 1);
  g_assert_cmpuint (server->rings->len, ==, 1);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 1);
  ring = server->rings->pdata[0];
  g_assert_cmpint (ring->tid, ==, ring->pid);
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 3);
}

/* Who has it waits for the child. */
static void
lets_a_child_of_vfork_write_to_its_parents_ring (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);
  const ControlRing *ring;

  g_assert_cmpint (control_server_run (server, mark_and_vfork, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (told->n_produced, ==, 0);
  g_assert_cmpuint (server->rings->len, ==, 1);
  ring = server->rings->pdata[0];
  g_assert_cmpuint (ring->frames->len, ==, 5);
  for (guint i = 0; i < ring->frames->len; i++)
    g_assert_cmpint (((const SondeFrame *) ring->frames->pdata[i])->pid, ==, ring->pid);
}
#endif

static int
be_paused (void)
{
  g_assert_cmpint (sonde_collector_prepare_thread (), ==, -EAGAIN);
  g_assert_false (sonde_collector_is_active ());
  g_assert_cmpint (mark (), ==, -EAGAIN);

  return 0;
}

static void
makes_nothing_while_paused (void)
{
  const ControlServerOptions paused = { .socket_type = SOCK_SEQPACKET, .is_paused = TRUE };
  g_autoptr (ControlServer) server = control_server_new (&paused);

  g_assert_cmpint (control_server_run (server, be_paused, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 0);
}

static void
mark_in_handler (int number)
{
  mark ();
}

static int
handle_signals (void)
{
  struct sigaction action = { .sa_handler = mark_in_handler };

  g_assert_cmpint (sonde_collector_prepare_thread (), ==, 0);
  g_assert_cmpint (sigaction (SIGUSR1, &action, NULL), ==, 0);
  raise (SIGUSR1);
  raise (SIGUSR1);

  return 0;
}

static void
works_in_signal_handlers (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);

  g_assert_cmpint (control_server_run (server, handle_signals, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 2);
}

/* As programs do that become daemons; then the numbers are files of their own. */
static int
close_everything (void)
{
  int file = memfd_create ("file", MFD_CLOEXEC);
  uint64_t n_events, n_lost;

  g_assert_cmpint (mark (), ==, 0);
  for (int fd = 3; fd < 256; fd++)
    if (fd != file)
      dup2 (file, fd);
  for (guint i = 0; i < 10000; i++)
    mark ();
  g_thread_join (g_thread_new ("late", find_no_ring, NULL));
  g_assert_cmpint (lseek (file, 0, SEEK_END), ==, 0);
  sonde_collector_count (&n_events, &n_lost);
  g_assert_cmpuint (n_events + n_lost, ==, 10001);
  for (int fd = 3; fd < 256; fd++)
    close (fd);

  return 0;
}

static void
writes_to_no_file_of_the_program (void)
{
  g_autoptr (ControlServer) server = control_server_new (&defaults);

  g_assert_cmpint (control_server_run (server, close_everything, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), >, 0);
}

/* --- the rendezvous --- */

#define KEY "000102030405060708090a0b0c0d0e0f"

/* What a profiler does there: of each connection in turn, in letters. */
static struct
{
  int listener;
  const char *script;  /* a: accepts; r: refuses; e: ends it; w: sends what is no nonce; d: accepts,
                          and ends it then; then a */
  gboolean is_calling; /* programs have no key */
  guint n_met;
  int held; /* of the programs' end, until one has come; -1: none */
} place = { .held = -1 };

static void
say_at_once (int fd, gconstpointer bytes, gsize size_bytes)
{
  g_assert_cmpint (send (fd, bytes, size_bytes, MSG_NOSIGNAL), ==, size_bytes);
}

static void
send_descriptors (int fd, gpointer bytes, gsize size_bytes)
{
  const int fds[] = { fd, fd, fd };
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof fds)];
  } control = { .header = { .cmsg_len = CMSG_LEN (sizeof fds),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS } };
  struct iovec iov = { bytes, size_bytes };
  const struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };

  memcpy (CMSG_DATA (&control.header), fds, sizeof fds);
  g_assert_cmpint (sendmsg (fd, &message, MSG_NOSIGNAL), ==, size_bytes);
}

/* Returns: whether it is the program's link now */
static gboolean
meet (int fd, char how)
{
  SondeControlNonce nonce = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION,
                                          how == 'w' ? 77 : SONDE_CONTROL_NONCE },
                              .nonce = { 5, 6, 7 } };
  SondeControlJoinAnswer answer
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_JOIN },
          .error = how == 'r' ? -EPERM : 0 };
  SondeControlJoin join;

  if (how == 'e')
    return FALSE;
  if (how == 'm')
    send_descriptors (fd, &nonce, sizeof nonce);
  else
    say_at_once (fd, &nonce, sizeof nonce);
  if (how == 'w')
    return FALSE;
  g_assert_cmpint (recv (fd, &join, sizeof join, 0), ==, sizeof join);
  g_assert_cmpuint (join.header.type, ==, SONDE_CONTROL_JOIN);
  g_assert_cmpmem (join.nonce, sizeof join.nonce, nonce.nonce, sizeof nonce.nonce);
  g_assert_cmpuint (join.key[15], ==, place.is_calling ? 0 : 15);
  say_at_once (fd, &answer, sizeof answer);
  return how != 'r' && how != 'd';
}

static void
meet_programs (gpointer data)
{
  ControlServer *server = data;
  const int on = 1;
  int fd;

  while ((fd = accept4 (place.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
    {
      char how = place.n_met < strlen (place.script) ? place.script[place.n_met] : 'a';

      place.n_met++;
      g_assert_cmpint (setsockopt (fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), ==, 0);
      if (meet (fd, how))
        g_array_append_val (server->links, fd);
      else
        close (fd);
      if (place.held >= 0)
        close (place.held);
      place.held = -1;
    }
  for (guint i = 0; told->n_lost > 0 && i < server->rings->len; i++)
    sonde_ring_reader_leave (((ControlRing *) server->rings->pdata[i])->reader);
  told->n_lost = 0;
}

static ControlServer *
open_rendezvous (const char *script)
{
  ControlServerOptions options = defaults;
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  g_autofree char *name = g_strdup_printf ("sonde/test-%d", (int) getpid ());
  g_autofree char *variable = g_strdup_printf ("@%s:" KEY, name);

  options.turn = meet_programs;
  place.listener = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  place.script = script;
  place.n_met = 0;
  told->n_lost = 0;
  memcpy (address.sun_path + 1, name, strlen (name));
  g_assert_cmpint (bind (place.listener, (struct sockaddr *) &address,
                         (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + strlen (name))),
                   ==, 0);
  g_assert_cmpint (listen (place.listener, 8), ==, 0);
  g_setenv ("SONDE_RENDEZVOUS", variable, TRUE);
  return control_server_new (&options);
}

static void
close_rendezvous (void)
{
  g_unsetenv ("SONDE_RENDEZVOUS");
  close (place.listener);
}

static int
mark_once (void)
{
  g_assert_cmpint (mark (), ==, 0);
  return 0;
}

static void
comes_to_the_rendezvous (void)
{
  static const char *const scripts[] = { "a", "e", "eee" };

  for (guint i = 0; i < G_N_ELEMENTS (scripts); i++)
    {
      g_autoptr (ControlServer) server = open_rendezvous (scripts[i]);

      g_assert_cmpint (control_server_run (server, mark_once, "UNRELATED"), ==, 0);
      g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 1);
      close_rendezvous ();
    }
}

#ifndef IS_EMULATED /* by an emulator that makes room of its own for descriptors */
static guint
count_descriptors (void)
{
  guint n = 0;

  for (int fd = 0; fd < 1024; fd++)
    n += fcntl (fd, F_GETFD) >= 0;
  return n;
}

static int
mark_and_count_descriptors (void)
{
  guint n_before = count_descriptors ();

  g_assert_cmpint (mark (), ==, 0);
  g_assert_cmpuint (count_descriptors (), ==, n_before + 1);
  return 0;
}

static void
keeps_no_descriptor_that_it_did_not_ask_for (void)
{
  g_autoptr (ControlServer) server = open_rendezvous ("m");

  g_assert_cmpint (control_server_run (server, mark_and_count_descriptors, "UNRELATED"), ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 1);
  close_rendezvous ();
}
#endif

static int
mark_for_nobody (void)
{
  g_assert_cmpint (mark (), ==, -ENODEV);
  g_assert_cmpint (mark (), ==, -ENODEV);
  g_thread_join (g_thread_new ("late", find_no_ring, NULL));
  return 0;
}

static void
asks_once_who_refuses_it (void)
{
  static const char *const scripts[] = { "r", "w" };

  for (guint i = 0; i < G_N_ELEMENTS (scripts); i++)
    {
      g_autoptr (ControlServer) server = open_rendezvous (scripts[i]);

      g_assert_cmpint (control_server_run (server, mark_for_nobody, "UNRELATED"), ==, 0);
      g_assert_cmpuint (place.n_met, ==, 1);
      close_rendezvous ();
    }
}

static void
finds_no_rendezvous_in_rubbish (void)
{
  static const char *const values[] = { "",
                                        ":",
                                        "@:" KEY,
                                        "@sonde/nobody:" KEY,
                                        "/nonexistent:" KEY,
                                        "x:" KEY,
                                        "@x:0",
                                        "@x:" KEY "0",
                                        "@x:0001020304050607_8090a0b0c0d0e0f" };
  g_autofree char *longest = g_strdup_printf ("/%0200d:" KEY, 0);

  for (guint i = 0; i <= G_N_ELEMENTS (values); i++)
    {
      g_autoptr (ControlServer) server = control_server_new (&defaults);

      g_setenv ("SONDE_RENDEZVOUS", i < G_N_ELEMENTS (values) ? values[i] : longest, TRUE);
      g_assert_cmpint (control_server_run (server, mark_for_nobody, "UNRELATED"), ==, 0);
    }
  g_unsetenv ("SONDE_RENDEZVOUS");
}

/* Its parent's inode: another socket has that number here. */
static int
mark_with_another_socket (void)
{
  g_setenv ("SONDE_CONTROL_INODE", "1", TRUE);
  return mark_once ();
}

static void
asks_no_socket_but_its_own (void)
{
  g_autoptr (ControlServer) server = open_rendezvous ("a");

  g_assert_cmpint (control_server_run (server, mark_with_another_socket, "SONDE_CONTROL_FD"), ==,
                   0);
  g_assert_cmpuint (server->n_links, ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 1);
  close_rendezvous ();
}

/* The profiler leaves the ring, as it has seen the link go. */
static int
lose_the_link (void)
{
  g_assert_cmpint (mark (), ==, 0);
  for (int fd = 3; fd < 1024; fd++)
    close (fd);
  g_assert_cmpint (mark (), ==, 0);
  told->n_lost = 1;
  while (*(volatile guint64 *) &told->n_lost > 0)
    g_usleep (1000);
  g_assert_cmpint (mark (), ==, 0);
  return 0;
}

static void
gets_another_ring_for_one_that_was_left (void)
{
  g_autoptr (ControlServer) server = open_rendezvous ("a");

  /* So that the server goes on when the program has closed all. */
  place.held = fcntl (server->client, F_DUPFD_CLOEXEC, 0);
  g_assert_cmpint (control_server_run (server, lose_the_link, "SONDE_CONTROL_FD"), ==, 0);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, 3);
  g_assert_cmpuint (server->rings->len, ==, 2);
  close_rendezvous ();
}

/* --- the beacon --- */

#ifndef IS_EMULATED
#define BEACON_WAKES 20000
#define BEACON_REST  (G_USEC_PER_SEC / 50) /* REST_NS of beacon-watch.c */

/* What this program is to do once it is another process's, which has the beacon. */
static const char *role;

static int
become_called (void)
{
  char *const arguments[] = { (char *) (uintptr_t) "called", (char *) (uintptr_t) role, NULL };

  execv ("/proc/self/exe", arguments);
  return 127;
}

/* Runs it with a page of @producers that are called to the rendezvous. */
static void
run_with_beacon (const char *what, const char *script, guint32 producers)
{
  static char bytes[SONDE_BEACON_BYTES];
  SondeBeacon page = { .generation = 1,
                       .magic = SONDE_BEACON_MAGIC,
                       .version = SONDE_BEACON_VERSION,
                       .all = sonde_beacon_make_call (1, producers) };
  g_autofree char *folder = g_dir_make_tmp ("sonde-beacon-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "beacon", NULL);
  g_autoptr (ControlServer) server = open_rendezvous (script);

  g_snprintf (page.address, sizeof page.address, "@sonde/test-%d", (int) getpid ());
  memcpy (bytes, &page, sizeof page);
  g_assert_true (g_file_set_contents (path, bytes, sizeof bytes, NULL));
  g_unsetenv ("SONDE_RENDEZVOUS");
  g_setenv ("SONDE_BEACON", path, TRUE);
  place.is_calling = TRUE;
  role = what;
  g_assert_cmpint (control_server_run (server, become_called, "UNRELATED"), ==, 0);
  place.is_calling = FALSE;
  g_unsetenv ("SONDE_BEACON");
  close_rendezvous ();
  g_unlink (path);
  g_rmdir (folder);
}

static int
mark_in_threads (void)
{
  g_assert_cmpint (mark (), ==, -ENODEV);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (g_thread_new ("called", find_no_ring, NULL));
  return 0;
}

/* Each thread would come again, and wait as long. */
static void
comes_once_to_a_caller_who_does_not_stay (void)
{
  run_with_beacon ("threads", "dddddddd", 1u << SONDE_PRODUCER_APPLICATION);
  g_assert_cmpuint (place.n_met, ==, 1);
}

static int
mark_and_be_woken (void)
{
  int fd = open (g_getenv ("SONDE_BEACON"), O_RDONLY | O_CLOEXEC);
  const uint32_t *word = mmap (NULL, SONDE_BEACON_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  gint64 start_us = g_get_monotonic_time ();
  gint64 n_woken = 0;

  g_assert_true (word != MAP_FAILED);
  g_assert_cmpint (mark (), ==, -ENODEV);
  while (n_woken == 0)
    n_woken += syscall (SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
  for (guint i = 0; i < BEACON_WAKES; i++)
    {
      n_woken += syscall (SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
      sched_yield ();
    }
  g_assert_cmpint (n_woken, <=, 2 + (g_get_monotonic_time () - start_us) / BEACON_REST);
  close (fd);
  return 0;
}

/* Of the process that is called. */
static guint
count_threads (void)
{
  g_autoptr (GDir) folder = g_dir_open ("/proc/self/task", 0, NULL);
  guint n = 0;

  while (g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

static int
vfork_while_called (void)
{
  int status;
  pid_t child = vfork ();

  if (child == 0)
    {
      int r = mark ();

      sonde_collector_is_wanted ();
      _exit (r == -EBUSY ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  g_assert_cmpuint (count_threads (), ==, 1);
  g_assert_cmpint (mark (), ==, 0);
  g_assert_cmpuint (count_threads (), ==, 2);
  return 0;
}

/* Its parent comes, and has a thread that watches. */
static void
calls_no_child_of_vfork (void)
{
  run_with_beacon ("vfork", "a", 1u << SONDE_PRODUCER_APPLICATION);
  g_assert_cmpuint (place.n_met, ==, 1);
}

/* Writes a call of everybody into the page. */
static void
call_all (SondeBeacon *page, guint32 generation, guint32 producers)
{
  __atomic_store_n (&page->all, sonde_beacon_make_call (generation, producers), __ATOMIC_RELAXED);
  __atomic_store_n (&page->generation, generation, __ATOMIC_RELEASE);
  syscall (SYS_futex, &page->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void
wait_until_wanted (bool is_wanted)
{
  while (sonde_collector_is_wanted () != is_wanted)
    g_usleep (1000);
}

/* It has come before it ends, if it is called. */
static int
ask_in_a_child (bool is_wanted)
{
  int status;
  pid_t child = fork ();

  if (child == 0)
    _exit (sonde_collector_is_wanted () == is_wanted && (mark () == 0) == is_wanted ? 0 : 1);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  return status;
}

static gpointer
ask_until_wanted (gpointer data)
{
  wait_until_wanted (true);
  return NULL;
}

/* Nothing but the question is asked, by which nobody comes. */
static int
ask_whether_it_is_wanted (void)
{
  int fd = open (g_getenv ("SONDE_BEACON"), O_RDWR | O_CLOEXEC);
  SondeBeacon *page = mmap (NULL, SONDE_BEACON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  GThread *thread;

  g_assert_true (page != MAP_FAILED);
  g_assert_false (sonde_collector_is_wanted ());
  g_assert_cmpint (ask_in_a_child (false), ==, 0);
  thread = g_thread_new ("asks", ask_until_wanted, NULL);
  call_all (page, 2, 1u << SONDE_PRODUCER_APPLICATION);
  wait_until_wanted (true);
  g_thread_join (thread);
  g_assert_cmpint (ask_in_a_child (true), ==, 0);
  g_assert_cmpint (mark (), ==, 0);
  close (fd);
  return 0;
}

static void
knows_when_it_is_wanted (void)
{
  run_with_beacon ("asks", "aaa", 0);
  g_assert_cmpuint (place.n_met, >, 0);
}

/* Any user can do that, and the program has the work. */
static void
rests_if_it_is_woken_for_nothing (void)
{
  run_with_beacon ("wakes", "", 0);
  g_assert_cmpuint (place.n_met, ==, 0);
}
#endif

#ifndef IS_EMULATED
static int
become_one_of (const char *name)
{
  static const struct
  {
    const char *name;
    int (*function) (void);
  } roles[] = { { "threads", mark_in_threads },
                { "wakes", mark_and_be_woken },
                { "vfork", vfork_while_called },
                { "asks", ask_whether_it_is_wanted } };

  told = mmap (NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (guint i = 0; i < G_N_ELEMENTS (roles); i++)
    if (g_str_equal (name, roles[i].name))
      return roles[i].function ();
  return 127;
}
#endif

int
main (int argc, char *argv[])
{
#ifndef IS_EMULATED
  if (argc == 2 && g_str_equal (argv[0], "called"))
    return become_one_of (argv[1]);
#endif
  g_test_init (&argc, &argv, NULL);
  told = mmap (NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true (told != MAP_FAILED);

#define TEST(name, function) g_test_add_func ("/collector/" name, function)
  TEST ("finds-nobody-without-the-environment", finds_nobody_without_the_environment);
  TEST ("refuses-numbers-that-are-no-socket", refuses_numbers_that_are_no_socket);
  TEST ("asks-a-mute-profiler-once", asks_a_mute_profiler_once);
  TEST ("goes-without-a-ring-that-is-refused", goes_without_a_ring_that_is_refused);
  TEST ("delivers-each-kind-of-event", delivers_each_kind_of_event);
  TEST ("delivers-to-a-sysprof-profiler", delivers_to_a_sysprof_profiler);
  TEST ("counts-what-threads-lose", counts_what_threads_lose);
  TEST ("counts-what-it-had-no-descriptors-for", counts_what_it_had_no_descriptors_for);
  TEST ("loses-nothing-where-it-may-wait", loses_nothing_where_it_may_wait);
  TEST ("shares-rings-where-not-each-has-its-own", shares_rings_where_not_each_has_its_own);
  TEST ("counts-what-sharing-threads-lose", counts_what_sharing_threads_lose);
  TEST ("gives-a-child-a-ring-of-its-own", gives_a_child_a_ring_of_its_own);
  TEST ("gives-a-child-of-a-sharing-thread-rings-of-its-own",
        gives_a_child_of_a_sharing_thread_rings_of_its_own);
#ifndef IS_EMULATED
  TEST ("gives-no-ring-to-a-child-that-no-handler-saw",
        gives_no_ring_to_a_child_that_no_handler_saw);
#endif
#ifndef IS_EMULATED
  TEST ("gives-no-ring-to-a-child-of-vfork", gives_no_ring_to_a_child_of_vfork);
  TEST ("lets-a-child-of-vfork-write-to-its-parents-ring",
        lets_a_child_of_vfork_write_to_its_parents_ring);
  TEST ("calls-no-child-of-vfork", calls_no_child_of_vfork);
#endif
  TEST ("makes-nothing-while-paused", makes_nothing_while_paused);
  TEST ("works-in-signal-handlers", works_in_signal_handlers);
  TEST ("writes-to-no-file-of-the-program", writes_to_no_file_of_the_program);
  TEST ("finds-no-rendezvous-in-rubbish", finds_no_rendezvous_in_rubbish);
  TEST ("asks-once-who-refuses-it", asks_once_who_refuses_it);
  TEST ("asks-no-socket-but-its-own", asks_no_socket_but_its_own);
  TEST ("comes-to-the-rendezvous", comes_to_the_rendezvous);
#ifndef IS_EMULATED
  TEST ("keeps-no-descriptor-that-it-did-not-ask-for", keeps_no_descriptor_that_it_did_not_ask_for);
#endif
  TEST ("gets-another-ring-for-one-that-was-left", gets_another_ring_for_one_that_was_left);
#ifndef IS_EMULATED
  TEST ("comes-once-to-a-caller-who-does-not-stay", comes_once_to_a_caller_who_does_not_stay);
  TEST ("knows-when-it-is-wanted", knows_when_it_is_wanted);
  TEST ("rests-if-it-is-woken-for-nothing", rests_if_it_is_woken_for_nothing);
  g_test_add_data_func ("/collector/goes-on-in-larger-rings", NULL, goes_on_in_larger_rings);
  g_test_add_data_func ("/collector/goes-on-in-larger-rings-that-are-shared", "sharing",
                        goes_on_in_larger_rings);
#endif

  return g_test_run ();
}
