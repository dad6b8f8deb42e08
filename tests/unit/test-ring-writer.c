/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ring-writer: what it refuses, drops, waits for and counts, and when it rings. */
#include <errno.h>
#include <glib.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"
#include "tests/lib/ring-fixture.h"

#define SIZE SONDE_RING_MIN_BYTES

static const SondeRingKind kinds[] = { SONDE_RING_NATIVE, SONDE_RING_SYSPROF };

static void
refuses_sizes_that_no_frame_has (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  static const gsize sizes[] = { 0, 8, 16, 29, 25, 65535, 65536, SIZE_MAX, SIZE_MAX - 7 };
  SondeRingLosses losses;
  gpointer place;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, sizes[i], &place), ==, -EMSGSIZE);
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 0);
}

static void
refuses_a_ring_that_was_written_to (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      SondeRingWriter *second = NULL;

      g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, 0);
      g_assert_cmpint (sonde_ring_writer_open (ring->ring_fd, -1, &second), ==, -EUCLEAN);
      g_assert_null (second);
    }
}

static void
refuses_a_link_that_is_none (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);

  g_assert_cmpint (sonde_ring_writer_open (ring->ring_fd, ring->ring_fd, &ring->writer), ==,
                   -ENOTSOCK);
  g_assert_cmpint (sonde_ring_writer_open (ring->link[1], -1, &ring->writer), ==, -EBADMSG);
}

/* Until it is full to the last byte that is not the end frame's; then takes and writes in turn. */
static void
wraps_and_drops_what_has_no_room (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      const gsize kept = kinds[i] == SONDE_RING_NATIVE ? 24 : 32;
      guint16 first = 0, next = 0;
      SondeRingLosses losses;
      guint64 n_frames;

      for (; (next + 2u) * 1040 <= SIZE - kept; next++)
        g_assert_cmpint (ring_fixture_write (ring, 1040, next), ==, 0);
      g_assert_cmpint (ring_fixture_write (ring, SIZE - kept - next * 1040u, 9999), ==, 0);
      g_assert_cmpint (ring_fixture_write (ring, 72, 7777), ==, -ENOBUFS);
      g_assert_cmpint (ring_fixture_write (ring, 24, 7777), ==, -ENOBUFS);

      for (; first < next; first++)
        g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, first);
      g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 9999);
      /* 1,040 divides no power of two: in 200 rounds the wrap falls inside of frames. */
      for (guint16 round = 0; round < 200; round++)
        {
          g_assert_cmpint (ring_fixture_write (ring, 65000, round), ==, 0);
          g_assert_cmpint (ring_fixture_write (ring, 1040, round), ==, 0);
          g_assert_cmpuint (ring_fixture_take (ring)->frame.len, ==, 65000);
          g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, round);
        }

      sonde_ring_writer_count (ring->writer, &n_frames, &losses);
      g_assert_cmpuint (n_frames, ==, next + 1u + 400);
      g_assert_cmpuint (losses.lost_events, ==, 2);
      g_assert_cmpuint (losses.lost_bytes, ==, 96);
      g_assert_cmpuint (losses.blocked_events, ==, 0);
    }
}

static void
counts_in_the_ring_what_the_reader_reports (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  SondeRingCounts counts;
  guint n = 0;

  while (ring_fixture_write (ring, 4096, 0) == 0)
    n++;
  ring_fixture_take (ring);
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.frames, ==, 1);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 1);
  g_assert_cmpuint (counts.claimed.lost_bytes, ==, 4096);
  g_assert_cmpuint (counts.produced, ==, n + 1);
}

static void
discards_without_a_trace (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  SondeRingLosses losses;
  const SondeFrame *frame;
  guint64 n_frames;
  gpointer place;

  sonde_ring_writer_discard (ring->writer);
  sonde_ring_writer_commit (ring->writer);
  g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, 4096, &place), ==, 0);
  sonde_ring_writer_discard (ring->writer);
  sonde_ring_writer_commit (ring->writer);

  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
  sonde_ring_writer_count (ring->writer, &n_frames, &losses);
  g_assert_cmpuint (n_frames + losses.lost_events, ==, 0);
}

static void
commits_less_than_it_reserved (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  gpointer place;

  g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, 4096, &place), ==, 0);
  ring_fixture_fill (place, 72, 5);
  sonde_ring_writer_commit (ring->writer);
  g_assert_cmpint (ring_fixture_write (ring, 80, 6), ==, 0);

  g_assert_cmpuint (ring_fixture_take (ring)->frame.len, ==, 72);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 6);
}

/* A mistake of the caller costs its frame, and neither the ring nor the program. */
static void
drops_a_frame_with_an_impossible_length (void)
{
  static const guint16 lengths[] = { 0, 8, 29, 4104, 65528 };
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  SondeRingLosses losses;

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      gpointer place;

      g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, 4096, &place), ==, 0);
      ring_fixture_fill (place, 72, 5);
      ((SondeFrame *) place)->len = lengths[i];
      sonde_ring_writer_commit (ring->writer);
    }
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, G_N_ELEMENTS (lengths));
  g_assert_cmpint (ring_fixture_write (ring, 72, 6), ==, 0);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 6);
}

static void
builds_frames_in_the_ring (void)
{
  static const SondeFrameOrigin origin = { 1000, -1, RING_PID };
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  SondeWriter *frames = sonde_ring_writer_frames (ring->writer);
  g_autofree char *text = g_strnfill (30000, 'x');
  const SondeFrame *frame;
  guint n = 0;

  memset (ring_fixture_body (ring), 0xff, SIZE);
  g_assert_cmpint (sonde_writer_add_mark (frames, &origin, 5, "group", "name", "message"), ==, 0);
  g_assert_cmpint (sonde_writer_add_log (frames, &origin, 1, "domain", "text"), ==, -EBUSY);
  sonde_ring_writer_commit (ring->writer);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpuint (frame->type, ==, SONDE_FRAME_MARK);
  g_assert_cmpstr (((const SondeFrameMark *) frame)->message, ==, "message");

  while (sonde_writer_add_log (frames, &origin, 1, "domain", text) == 0)
    {
      sonde_ring_writer_commit (ring->writer);
      n++;
    }
  g_assert_cmpuint (n, ==, 4);
  g_assert_cmpint (sonde_writer_add_log (frames, &origin, 1, "domain", text), ==, -ENOBUFS);
}

static RingFixture *handler_ring;
static int handler_result;

static void
write_in_handler (int number)
{
  handler_result = ring_fixture_write (handler_ring, 72, 2);
}

static void
refuses_a_handler_between_reserve_and_commit (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  struct sigaction action = { .sa_handler = write_in_handler }, before;
  SondeRingLosses losses;
  gpointer place;

  handler_ring = ring;
  g_assert_cmpint (sigaction (SIGUSR1, &action, &before), ==, 0);
  g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, 72, &place), ==, 0);
  raise (SIGUSR1);
  g_assert_cmpint (handler_result, ==, -EBUSY);
  ring_fixture_fill (place, 72, 1);
  sonde_ring_writer_commit (ring->writer);
  raise (SIGUSR1);
  g_assert_cmpint (handler_result, ==, 0);
  sigaction (SIGUSR1, &before, NULL);

  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 1);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 2);
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 1);
}

/* Whatever way the child was made. */
static int
write_in_child (gpointer data)
{
  RingFixture *ring = data;
  gboolean is_refused = ring_fixture_write (ring, 72, 9) == -ECHILD
                        && sonde_ring_writer_check_wanted (ring->writer) == -ECHILD;

  sonde_ring_writer_discard (ring->writer);
  sonde_ring_writer_commit (ring->writer);
  sonde_ring_writer_count (ring->writer, NULL, NULL);
  sonde_ring_writer_close (ring->writer);
  _exit (is_refused ? 0 : 1);
}

#ifndef IS_EMULATED /* by an emulator that empties no pages */
static int
open_in_child (gpointer data)
{
  RingFixture *ring = data;
  SondeRingWriter *second;

  if (sonde_ring_writer_open (ring->ring_fd, -1, &second) != -ECHILD)
    _exit (2);
  return write_in_child (data);
}
#endif

static void
assert_child_succeeds (pid_t child)
{
  int status = -1;

  g_assert_cmpint (child, >, 0);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
}

static void
refuses_a_child (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      guint32 generation = sonde_fork_guard_generation ();
      pid_t child;

      g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, 0);
      child = fork ();
      if (child == 0)
        {
          if (sonde_fork_guard_generation () != generation + 1)
            _exit (2);
          write_in_child (ring);
        }
      assert_child_succeeds (child);
      g_assert_cmpint (ring_fixture_write (ring, 72, 2), ==, 0);
      g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 1);
      g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 2);
    }
}

#ifndef IS_EMULATED
static void
refuses_a_child_that_no_handler_saw (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  g_autofree guint8 *stack = g_malloc (65536);

  assert_child_succeeds (clone (open_in_child, stack + 65536, SIGCHLD, ring));
}
#endif

static void
says_when_the_session_is_paused (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  SondeRingLosses losses;

  g_assert_cmpint (sonde_ring_writer_check_wanted (ring->writer), ==, 0);
  sonde_ring_reader_pause (ring->reader, true);
  g_assert_cmpint (sonde_ring_writer_check_wanted (ring->writer), ==, -EAGAIN);
  g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, -EAGAIN);
  sonde_ring_reader_pause (ring->reader, false);
  g_assert_cmpint (ring_fixture_write (ring, 72, 2), ==, 0);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 2);
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 0);
}

static void
says_when_its_ring_was_left (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  g_autoptr (RingFixture) other = ring_fixture_new (SONDE_RING_SYSPROF, 0, RING_OWN_MAPPING);

  sonde_ring_reader_pause (ring->reader, true);
  g_assert_false (sonde_ring_writer_is_left (ring->writer));
  sonde_ring_reader_leave (ring->reader);
  g_assert_true (sonde_ring_writer_is_left (ring->writer));
  g_assert_cmpint (sonde_ring_writer_check_wanted (ring->writer), ==, -ECHILD);
  g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, -ECHILD);
  sonde_ring_reader_leave (other->reader);
  g_assert_false (sonde_ring_writer_is_left (other->writer));
  g_assert_cmpint (ring_fixture_write (other, 72, 1), ==, 0);
}

static void
takes_no_impossible_position (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  g_autoptr (RingFixture) other = ring_fixture_new (SONDE_RING_SYSPROF, 0, RING_OWN_MAPPING);

  while (ring_fixture_write (ring, 4096, 0) == 0 && ring_fixture_write (other, 4096, 0) == 0)
    ;
  ring_fixture_header (ring)->head = SIZE * 2;
  ring_fixture_header (other)->head_index = SIZE;
  while (ring_fixture_write (other, 4096, 0) == 0)
    ;
  g_assert_cmpint (ring_fixture_write (ring, 4096, 0), ==, -EPIPE);
  g_assert_cmpint (ring_fixture_write (other, 4096, 0), ==, -EPIPE);
  g_assert_cmpint (sonde_ring_writer_check_wanted (ring->writer), ==, -EPIPE);
}

static void
rings_at_the_watermark_once (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);

  g_assert_cmpint (ring_fixture_write (ring, 72, 0), ==, 0);
  g_assert_cmpuint (ring_fixture_n_bells (ring), ==, 1);
  g_assert_cmpint (ring_fixture_write (ring, 72, 0), ==, 0);
  g_assert_cmpuint (ring_fixture_n_bells (ring), ==, 0);
  ring_fixture_take (ring);
  ring_fixture_take (ring);

  g_assert_true (sonde_ring_reader_sleep (ring->reader, 4096));
  for (guint n = 1; n <= 100; n++)
    {
      g_assert_cmpint (ring_fixture_write (ring, 128, 0), ==, 0);
      g_assert_cmpuint (ring_fixture_n_bells (ring), ==, n == 32 ? 1 : 0);
    }
  g_assert_false (sonde_ring_reader_sleep (ring->reader, 4096));
}

/* The number may stand for a file of the program by now. */
static void
rings_no_descriptor_that_became_another (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  int others[2];
  char byte;

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, others), ==, 0);
  g_assert_cmpint (dup2 (others[1], ring->link[1]), ==, ring->link[1]);
  errno = 12345;
  g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, 0);
  g_assert_cmpint (errno, ==, 12345);
  g_assert_cmpint (recv (others[0], &byte, 1, MSG_DONTWAIT), ==, -1);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 1);
  close (others[0]);
  close (others[1]);
}

static void
stops_when_the_profiler_is_gone (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);

  shutdown (ring->link[0], SHUT_RDWR);
  errno = 12345;
  g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, 0);
  g_assert_cmpint (errno, ==, 12345);
  g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, -EPIPE);
  g_assert_cmpint (sonde_ring_writer_check_wanted (ring->writer), ==, -EPIPE);
}

/* A full socket means that the reader was called often enough. */
static void
does_not_block_on_a_reader_that_never_looks (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);

  for (guint n = 0; n < 20000; n++)
    {
      ring_fixture_header (ring)->wake_at = sonde_ring_reader_fill (ring->reader) + 72 * (n + 1);
      g_assert_cmpint (ring_fixture_write (ring, 72, 0), ==, 0);
      ring_fixture_take (ring);
    }
  g_assert_cmpuint (ring_fixture_n_bells (ring), >, 1);
}

/* Fills it without asking for more than there is. */
static void
fill_up (RingFixture *ring)
{
  g_assert_cmpint (ring_fixture_write (ring, 65528, 1), ==, 0);
  g_assert_cmpint (ring_fixture_write (ring, 65512, 2), ==, 0);
  ring_fixture_n_bells (ring);
}

static guint64
n_blocked (RingFixture *ring)
{
  SondeRingLosses losses;

  sonde_ring_writer_count (ring->writer, NULL, &losses);
  return losses.blocked_events;
}

static gpointer
take_later (gpointer data)
{
  RingFixture *ring = data;
  char byte;

  /* The writer says so and rings before it waits. */
  while (recv (ring->link[0], &byte, 1, 0) < 0 && errno == EINTR)
    ;
  g_assert_cmpuint (sonde_ring_load_relaxed (&ring_fixture_header (ring)->is_waiting), ==, 1);
  ring_fixture_take (ring);

  return NULL;
}

static void
waits_for_room (void)
{
  g_autoptr (RingFixture) ring
      = ring_fixture_new (SONDE_RING_NATIVE, 60 * 1000000, RING_OWN_MAPPING);
  SondeRingLosses losses;
  GThread *thread;

  fill_up (ring);
  thread = g_thread_new ("take", take_later, ring);
  errno = 12345;
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, 0);
  g_assert_cmpint (errno, ==, 12345);
  g_thread_join (thread);

  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 0);
  g_assert_cmpuint (losses.blocked_events, ==, 1);
  g_assert_cmpuint (losses.blocked_bytes, ==, 4096);
  g_assert_cmpuint (losses.blocked_ns, >, 0);
  g_assert_cmpuint (ring_fixture_header (ring)->is_waiting, ==, 0);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 2);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 3);
}

/* Else a program with a profiler that hangs would hang, too. */
static void
waits_in_vain_only_once (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 2000, RING_OWN_MAPPING);
  SondeRingLosses losses;

  while (ring_fixture_write (ring, 4096, 1) == 0)
    ;
  for (guint n = 0; n < 100; n++)
    g_assert_cmpint (ring_fixture_write (ring, 4096, 1), ==, -ENOBUFS);
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 101);
  g_assert_cmpuint (losses.blocked_events, ==, 1);
  g_assert_cmpuint (losses.blocked_ns, >=, 2000 * 1000);

  ring_fixture_take (ring);
  while (ring_fixture_write (ring, 4096, 1) == 0)
    ;
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.blocked_events, ==, 2);
}

/* Writes until there is no room, and takes a frame then: a wait in vain is none if there is room
 * again. Returns what was counted by then. */
static SondeRingLosses
run_full (RingFixture *ring)
{
  SondeRingLosses losses;

  while (ring_fixture_write (ring, 4096, 1) == 0)
    ;
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  ring_fixture_take (ring);

  return losses;
}

/* That this thread waited for a processor: no part of what it may sleep. */
static gint64
run_delay_ns (void)
{
  g_autofree char *text = NULL;
  guint64 delay_ns = 0;

  if (g_file_get_contents ("/proc/thread-self/schedstat", &text, NULL, NULL))
    g_assert_cmpint (sscanf (text, "%*u %" G_GUINT64_FORMAT, &delay_ns), ==, 1);
  return (gint64) delay_ns;
}

/* Whenever a wait begins, no more was slept before than a second's share and a fifth of the time; a
 * tenth of that is for what else delays a thread. */
static void
waits_for_a_fifth_of_the_time (void)
{
  const gint64 opened_ns = sonde_ring_now_ns ();
  const gint64 delay_ns = run_delay_ns ();
  g_autoptr (RingFixture) ring
      = ring_fixture_new (SONDE_RING_NATIVE, SONDE_RING_FAIR_WAIT_US, RING_OWN_MAPPING);
  SondeRingLosses before = { 0 }, after = { 0 };

  while (sonde_ring_now_ns () - opened_ns < 600000000 || after.blocked_events < 10)
    {
      gint64 slept_ns = (gint64) before.blocked_ns - (run_delay_ns () - delay_ns);
      gint64 age_ns;

      after = run_full (ring);
      age_ns = sonde_ring_now_ns () - opened_ns - (gint64) (after.blocked_ns - before.blocked_ns);
      if (after.blocked_events > before.blocked_events)
        g_assert_cmpint (slept_ns, <=, (200000000 + age_ns / 5) * 11 / 10);
      before = after;
    }
  g_assert_cmpuint (after.blocked_ns, >=, 200000000);
  /* Who hardly gets a processor does not use its share up. */
  if (run_delay_ns () - delay_ns < 100000000)
    g_assert_cmpuint (after.lost_events, >, after.blocked_events);
  g_test_message ("%.3f s waited in %.3f s", (double) after.blocked_ns / 1e9,
                  (double) (sonde_ring_now_ns () - opened_ns) / 1e9);
}

static void
waits_as_often_as_it_takes_if_it_may_for_long (void)
{
  g_autoptr (RingFixture) ring
      = ring_fixture_new (SONDE_RING_NATIVE, SONDE_RING_FAIR_WAIT_US + 20000, RING_OWN_MAPPING);
  SondeRingLosses losses;

  for (guint i = 0; i < 4; i++)
    losses = run_full (ring);
  g_assert_cmpuint (losses.blocked_events, ==, 4);
  g_assert_cmpuint (losses.blocked_ns, >=, 4 * UINT64_C (120000000));
}

static void
waits_in_no_signal_handler (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 2000, RING_OWN_MAPPING);
  const struct sigaction action = { .sa_handler = write_in_handler };
  sigset_t first, second;

  sigemptyset (&first);
  sigaddset (&first, SIGUSR1);
  sigemptyset (&second);
  sigaddset (&second, SIGUSR2);
  handler_ring = ring;
  g_assert_cmpint (sigaction (SIGUSR1, &action, NULL), ==, 0);
  fill_up (ring);
  raise (SIGUSR1);
  g_assert_cmpint (handler_result, ==, -ENOBUFS);
  g_assert_cmpuint (n_blocked (ring), ==, 0);

  /* Who blocks a signal without a handler is in none. */
  pthread_sigmask (SIG_BLOCK, &second, NULL);
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, -ENOBUFS);
  g_assert_cmpuint (n_blocked (ring), ==, 1);
  /* Nor is who blocked it when there was room. */
  pthread_sigmask (SIG_BLOCK, &first, NULL);
  ring_fixture_take (ring);
  g_assert_cmpint (ring_fixture_write (ring, 65528, 1), ==, 0);
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, -ENOBUFS);
  g_assert_cmpuint (n_blocked (ring), ==, 2);

  pthread_sigmask (SIG_UNBLOCK, &first, NULL);
  pthread_sigmask (SIG_UNBLOCK, &second, NULL);
  signal (SIGUSR1, SIG_DFL);
}

/* Which has the memory of its parent, who stands still. Where vfork() is fork() the ring is another
 * process's. */
static void
waits_in_no_child_of_vfork (void)
{
  g_autoptr (RingFixture) ring
      = ring_fixture_new (SONDE_RING_NATIVE, 60 * 1000000, RING_OWN_MAPPING);
  int status;
  pid_t child;

  fill_up (ring);
  child = vfork ();
  if (child == 0)
    {
      int r = ring_fixture_write (ring, 4096, 3);

      _exit (r == -ENOBUFS || r == -ECHILD ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  g_assert_cmpuint (n_blocked (ring), ==, 0);
}

static gpointer
pause_later (gpointer data)
{
  RingFixture *ring = data;
  char byte;

  while (recv (ring->link[0], &byte, 1, 0) < 0 && errno == EINTR)
    ;
  sonde_ring_reader_pause (ring->reader, true);

  return NULL;
}

/* It is no loss either. */
static void
waits_no_more_once_it_is_paused (void)
{
  g_autoptr (RingFixture) ring
      = ring_fixture_new (SONDE_RING_NATIVE, 60 * 1000000, RING_OWN_MAPPING);
  SondeRingLosses losses;
  GThread *thread;

  fill_up (ring);
  thread = g_thread_new ("pause", pause_later, ring);
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, -EAGAIN);
  g_thread_join (thread);
  sonde_ring_writer_count (ring->writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 0);
  g_assert_cmpuint (losses.blocked_events, ==, 1);
  sonde_ring_reader_pause (ring->reader, false);
  ring_fixture_take (ring);
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, 0);
}

static gpointer
go_later (gpointer data)
{
  RingFixture *ring = data;
  char byte;

  while (recv (ring->link[0], &byte, 1, 0) < 0 && errno == EINTR)
    ;
  shutdown (ring->link[0], SHUT_RDWR);

  return NULL;
}

static void
waits_no_more_once_the_profiler_is_gone (void)
{
  g_autoptr (RingFixture) ring
      = ring_fixture_new (SONDE_RING_NATIVE, 60 * 1000000, RING_OWN_MAPPING);
  GThread *thread;

  fill_up (ring);
  thread = g_thread_new ("go", go_later, ring);
  errno = 12345;
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, -EPIPE);
  g_assert_cmpint (errno, ==, 12345);
  g_assert_cmpint (ring_fixture_write (ring, 4096, 3), ==, -EPIPE);
  g_thread_join (thread);
}

/* For the end there is always room. */
static void
ends_a_full_ring (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      SondeRingCounts counts;
      const SondeFrame *frame;
      guint n = 0;
      int r;

      while (ring_fixture_write (ring, 24 + 48, 0) == 0)
        n++;
      sonde_ring_writer_close (g_steal_pointer (&ring->writer));

      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
      while ((r = sonde_ring_reader_next (ring->reader, &frame)) == 1)
        n--;
      g_assert_cmpint (r, ==, -ESHUTDOWN);
      g_assert_cmpuint (n, ==, 0);
      g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_HAS_ENDED);
      sonde_ring_reader_count (ring->reader, &counts);
      g_assert_cmpuint (counts.produced, ==, counts.frames + counts.claimed.lost_events);
    }
}

/* --- events in short --- */

static RingFixture *
new_compact (void)
{
  const SondeRingOptions options
      = { SONDE_RING_NATIVE, SONDE_RING_MIN_BYTES, 0, SONDE_RING_COMPACT_HEAP };

  return ring_fixture_new_with (&options, RING_OWN_MAPPING);
}

static void
writes_records_where_the_reader_takes_them (void)
{
  SondeRingOptions options = { SONDE_RING_SYSPROF, SONDE_RING_MIN_BYTES, 0, UINT32_MAX };
  g_autoptr (RingFixture) sysprof = ring_fixture_new_with (&options, RING_OWN_MAPPING);
  g_autoptr (RingFixture) native = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  g_autoptr (RingFixture) compact = new_compact ();

  g_assert_null (sonde_ring_writer_compact (sysprof->writer));
  g_assert_null (sonde_ring_writer_compact (native->writer));
  g_assert_nonnull (sonde_ring_writer_compact (compact->writer));
  g_assert_cmpuint (ring_fixture_header (native)->features, ==, 0);
  g_assert_cmpuint (ring_fixture_header (compact)->features, ==, SONDE_RING_COMPACT_HEAP);
}

static void
drops_records_of_an_impossible_length (void)
{
  static const gsize lengths[] = { 0, 12, 56, SIZE_MAX - 7 };
  g_autoptr (RingFixture) ring = new_compact ();
  SondeRingLosses losses;
  guint64 n_frames;
  gpointer place;

  sonde_ring_writer_commit_records (ring->writer, 16);
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, 48, &place), ==, 0);
      sonde_ring_writer_commit_records (ring->writer, lengths[i]);
    }
  sonde_ring_writer_count (ring->writer, &n_frames, &losses);
  g_assert_cmpuint (n_frames, ==, 0);
  g_assert_cmpuint (losses.lost_events, ==, G_N_ELEMENTS (lengths));
  g_assert_cmpuint (ring_fixture_header (ring)->tail, ==, 0);
}

/* A child of fork() has a copy of its parent's table, which is its own to free, and writes nothing.
 */
static void
keeps_a_child_out_of_its_records (void)
{
  g_autoptr (RingFixture) ring = new_compact ();
  SondeCompactWriter *compact = sonde_ring_writer_compact (ring->writer);
  SondeCompactEvent event = { 16, 24, 1000, 4711, 4243 };
  const SondeFrame *frame;
  gpointer place;
  int status;
  pid_t child;

  for (guint i = 0; i < 2; i++)
    {
      gsize n;

      g_assert_cmpint (sonde_ring_writer_reserve (ring->writer, 64, &place), ==, 0);
      memset ((guint8 *) place + SONDE_COMPACT_ADDRS_AT, 1, 16);
      if (i == 0)
        {
          child = fork ();
          if (child == 0)
            {
              sonde_ring_writer_commit_records (ring->writer, 24);
              sonde_ring_writer_close (ring->writer);
              _exit (0);
            }
          g_assert_cmpint (waitpid (child, &status, 0), ==, child);
          g_assert_cmpint (status, ==, 0);
        }
      n = sonde_compact_writer_block (compact, place, &event, 2);
      g_assert_cmpuint (n, ==, i == 0 ? 64 : 24);
      sonde_ring_writer_commit_records (ring->writer, n);
    }
  g_assert_cmpuint (ring_fixture_header (ring)->tail, ==, 64 + 24);
  g_assert_cmpuint (ring_fixture_header (ring)->sequence, ==, 2);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
      g_assert_cmpuint (((const SondeFrameAllocation *) frame)->n_addrs, ==, 2);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define TEST(name, function) g_test_add_func ("/ring-writer/" name, function)
  TEST ("refuses-sizes-that-no-frame-has", refuses_sizes_that_no_frame_has);
  TEST ("refuses-a-ring-that-was-written-to", refuses_a_ring_that_was_written_to);
  TEST ("refuses-a-link-that-is-none", refuses_a_link_that_is_none);
  TEST ("refuses-a-handler-between-reserve-and-commit",
        refuses_a_handler_between_reserve_and_commit);
  TEST ("refuses-a-child", refuses_a_child);
#ifndef IS_EMULATED
  TEST ("refuses-a-child-that-no-handler-saw", refuses_a_child_that_no_handler_saw);
#endif
  TEST ("takes-no-impossible-position", takes_no_impossible_position);
  TEST ("wraps-and-drops-what-has-no-room", wraps_and_drops_what_has_no_room);
  TEST ("drops-a-frame-with-an-impossible-length", drops_a_frame_with_an_impossible_length);
  TEST ("counts-in-the-ring-what-the-reader-reports", counts_in_the_ring_what_the_reader_reports);
  TEST ("discards-without-a-trace", discards_without_a_trace);
  TEST ("commits-less-than-it-reserved", commits_less_than_it_reserved);
  TEST ("builds-frames-in-the-ring", builds_frames_in_the_ring);
  TEST ("says-when-the-session-is-paused", says_when_the_session_is_paused);
  TEST ("says-when-its-ring-was-left", says_when_its_ring_was_left);
  TEST ("rings-at-the-watermark-once", rings_at_the_watermark_once);
  TEST ("rings-no-descriptor-that-became-another", rings_no_descriptor_that_became_another);
  TEST ("does-not-block-on-a-reader-that-never-looks", does_not_block_on_a_reader_that_never_looks);
  TEST ("stops-when-the-profiler-is-gone", stops_when_the_profiler_is_gone);
  TEST ("waits-for-room", waits_for_room);
  TEST ("waits-in-vain-only-once", waits_in_vain_only_once);
  TEST ("waits-for-a-fifth-of-the-time", waits_for_a_fifth_of_the_time);
  TEST ("waits-as-often-as-it-takes-if-it-may-for-long",
        waits_as_often_as_it_takes_if_it_may_for_long);
  TEST ("waits-in-no-signal-handler", waits_in_no_signal_handler);
  TEST ("waits-in-no-child-of-vfork", waits_in_no_child_of_vfork);
  TEST ("waits-no-more-once-it-is-paused", waits_no_more_once_it_is_paused);
  TEST ("waits-no-more-once-the-profiler-is-gone", waits_no_more_once_the_profiler_is_gone);
  TEST ("ends-a-full-ring", ends_a_full_ring);
  TEST ("writes-records-where-the-reader-takes-them", writes_records_where_the_reader_takes_them);
  TEST ("drops-records-of-an-impossible-length", drops_records_of_an_impossible_length);
  TEST ("keeps-a-child-out-of-its-records", keeps_a_child_out_of_its_records);

  return g_test_run ();
}
