/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A writer and a reader on threads of their own: every frame arrives whole, in order, or is
 * counted. */
#include <errno.h>
#include <glib.h>
#include <poll.h>

#include "shared-ring/ring-schedule.h"
#include "tests/lib/ring-fixture.h"

#ifdef IS_EMULATED
#define N_FRAMES 20000
#else
#define N_FRAMES 200000
#endif

/* Of different lengths, so that frames wrap everywhere; their content follows from their number. */
static gsize
frame_size (guint n)
{
  return 64 + 8 * (1 + n % 61);
}

static gpointer
write_all (gpointer data)
{
  RingFixture *ring = data;

  for (guint n = 0; n < N_FRAMES; n++)
    {
      gpointer place;
      SondeFrameLog *log;

      if (sonde_ring_writer_reserve (ring->writer, frame_size (n), &place) < 0)
        continue;
      ring_fixture_fill (place, frame_size (n), (guint16) n);
      log = place;
      log->frame.time_ns = n;
      log->message[frame_size (n) - sizeof *log - 8] = (char) n;
      sonde_ring_writer_commit (ring->writer);
    }
  sonde_ring_writer_close (g_steal_pointer (&ring->writer));

  return NULL;
}

static void
assert_whole (const SondeFrame *frame, gint64 *last)
{
  const SondeFrameLog *log = (const SondeFrameLog *) frame;
  guint n = (guint) frame->time_ns;

  g_assert_cmpint (frame->time_ns, >, *last);
  g_assert_cmpuint (frame->len, ==, frame_size (n));
  g_assert_cmpuint (log->severity, ==, (guint16) n);
  g_assert_cmpint (log->message[frame->len - sizeof *log - 8], ==, (char) n);
  *last = frame->time_ns;
}

/* When the writer gets room back, beside the end of each turn. */
typedef enum
{
  RELEASE_TURNS,
  RELEASE_PIECES, /* as a worker does it */
  RELEASE_FRAMES,
} Release;

/* As a worker does it: a turn with a budget, then a sleep that the schedule and the ring agree on.
 */
static void
read_all (RingFixture *ring, Release release)
{
  SondeRingSchedule schedule;
  gint64 last = -1;
  int r = 0;

  sonde_ring_schedule_init (&schedule);
  while (r == 0)
    {
      struct pollfd link = { ring->link[0], POLLIN, 0 };
      const SondeFrame *frame;
      gint64 wait_us;
      gsize watermark;

      r = sonde_ring_reader_begin (ring->reader, 32768);
      if (r == 0)
        sonde_ring_schedule_observe (&schedule, sonde_ring_reader_fill (ring->reader),
                                     sonde_ring_reader_size (ring->reader), true);
      while (r == 0 && (r = sonde_ring_reader_next (ring->reader, &frame)) == 1)
        {
          assert_whole (frame, &last);
          r = 0;
          if (release == RELEASE_FRAMES)
            sonde_ring_reader_release (ring->reader);
          else if (release == RELEASE_PIECES)
            sonde_ring_reader_release_piece (ring->reader);
        }
      sonde_ring_reader_release (ring->reader);
      wait_us = sonde_ring_schedule_next (&schedule);
      watermark = sonde_ring_schedule_watermark (&schedule, sonde_ring_reader_size (ring->reader));
      if (r == 0 && sonde_ring_reader_sleep (ring->reader, watermark))
        poll (&link, 1, wait_us < 0 ? -1 : (int) (wait_us / 1000));
      ring_fixture_n_bells (ring);
    }
  g_assert_cmpint (r, ==, -ESHUTDOWN);
}

static void
check_all (SondeRingKind kind, guint32 wait_us, Release release)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (kind, wait_us, RING_SAME_MAPPING);
  GThread *thread = g_thread_new ("writer", write_all, ring);
  SondeRingCounts counts;

  read_all (ring, release);
  g_thread_join (thread);
  sonde_ring_reader_count (ring->reader, &counts);
  g_test_message ("%" G_GUINT64_FORMAT " of %u taken, %" G_GUINT64_FORMAT " lost", counts.frames,
                  N_FRAMES, counts.claimed.lost_events);
  g_assert_cmpuint (counts.frames, >, 0);
  if (kind == SONDE_RING_NATIVE)
    g_assert_cmpuint (counts.frames + counts.claimed.lost_events, ==, N_FRAMES);
  if (wait_us > 0)
    g_assert_cmpuint (counts.claimed.lost_events, ==, 0);
}

static void
arrive_or_are_counted (void)
{
  check_all (SONDE_RING_NATIVE, 0, RELEASE_TURNS);
  check_all (SONDE_RING_NATIVE, 0, RELEASE_PIECES);
  check_all (SONDE_RING_NATIVE, 0, RELEASE_FRAMES);
}

static void
all_arrive_where_the_writer_may_wait (void)
{
  check_all (SONDE_RING_NATIVE, 60 * 1000000, RELEASE_TURNS);
  check_all (SONDE_RING_NATIVE, 60 * 1000000, RELEASE_PIECES);
}

static void
arrive_from_a_sysprof_writer (void)
{
  check_all (SONDE_RING_SYSPROF, 0, RELEASE_PIECES);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/ring-threads/frames-arrive-or-are-counted", arrive_or_are_counted);
  g_test_add_func ("/ring-threads/all-arrive-where-the-writer-may-wait",
                   all_arrive_where_the_writer_may_wait);
  g_test_add_func ("/ring-threads/frames-arrive-from-a-sysprof-writer",
                   arrive_from_a_sysprof_writer);

  return g_test_run ();
}
