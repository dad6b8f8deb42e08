/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A writer and a reader on threads of their own: every frame arrives whole, in order, or is
 * counted. */
#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <pthread.h>

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

/* Threads that share a ring; its reservation is theirs in turn. Of GLib's locks ThreadSanitizer
 * knows nothing. */
typedef struct
{
  RingFixture *ring;
  pthread_mutex_t lock;
  guint n_made;
} Shared;

/* More stacks than such a ring may have at a time. */
#define N_STACKS 5000

static gsize
event_depth (guint n)
{
  return n % N_STACKS % 20;
}

static guint64
event_addr (guint n, gsize i)
{
  return (n % N_STACKS + 1) * G_GUINT64_CONSTANT (0x10000) + i;
}

/* An event in short; each third is a free. */
static void
write_event (SondeRingWriter *writer, guint n, gint32 tid)
{
  const SondeCompactEvent event
      = { .address = (n + 1) * 16,
          .size_bytes = n + 1,
          .time_ns = n,
          .stack_hash = (n % N_STACKS + 1) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15),
          .tid = tid };
  gsize depth = event_depth (n);
  guint64 *addrs;
  gpointer place;
  gsize size_bytes;

  if (sonde_ring_writer_reserve (writer, SONDE_HEAP_BLOCK_ROOM (depth), &place) < 0)
    return;
  addrs = (gpointer) ((guint8 *) place + SONDE_COMPACT_ADDRS_AT);
  for (gsize i = 0; i < depth; i++)
    addrs[i] = event_addr (n, i);
  if (n % 3 == 0)
    size_bytes = sonde_compact_writer_free (sonde_ring_writer_compact (writer), place, &event);
  else
    size_bytes
        = sonde_compact_writer_block (sonde_ring_writer_compact (writer), place, &event, depth);
  sonde_ring_writer_commit_records (writer, size_bytes);
}

static gpointer
share_ring (gpointer data)
{
  static gint last_tid;
  Shared *shared = data;
  SondeRingWriter *writer = shared->ring->writer;
  gint32 tid = g_atomic_int_add (&last_tid, 1) % 2;
  gboolean is_done = FALSE;

  while (!is_done)
    {
      pthread_mutex_lock (&shared->lock);
      is_done = shared->n_made == N_FRAMES;
      if (!is_done && shared->n_made % 16 == 15)
        {
          gpointer place;

          if (sonde_ring_writer_reserve (writer, 72, &place) == 0)
            {
              ring_fixture_fill (place, 72, 0);
              ((SondeFrame *) place)->time_ns = shared->n_made;
              sonde_ring_writer_commit (writer);
            }
        }
      else if (!is_done)
        write_event (writer, shared->n_made, tid);
      shared->n_made += !is_done;
      pthread_mutex_unlock (&shared->lock);
    }
  return NULL;
}

static gpointer
share_and_close (gpointer data)
{
  Shared *shared = data;
  GThread *other = g_thread_new ("other", share_ring, shared);

  share_ring (shared);
  g_thread_join (other);
  sonde_ring_writer_close (g_steal_pointer (&shared->ring->writer));
  return NULL;
}

static void
assert_event (const SondeFrameAllocation *got, gint64 *last)
{
  guint n = (guint) got->frame.time_ns;

  g_assert_cmpint (got->frame.time_ns, >, *last);
  g_assert_cmpuint (got->address, ==, (n + 1) * 16);
  g_assert_cmpint (got->size_bytes, ==, n % 3 == 0 ? 0 : n + 1);
  g_assert_cmpint (got->tid, >=, 0);
  g_assert_cmpint (got->tid, <=, 1);
  g_assert_cmpuint (got->n_addrs, ==, n % 3 == 0 ? 0 : event_depth (n));
  for (guint i = 0; i < got->n_addrs; i++)
    g_assert_cmpuint (got->addrs[i], ==, event_addr (n, i));
  *last = got->frame.time_ns;
}

static void
assert_whole (const SondeFrame *frame, gint64 *last)
{
  const SondeFrameLog *log = (const SondeFrameLog *) frame;
  guint n = (guint) frame->time_ns;

  if (frame->type == SONDE_FRAME_ALLOCATION)
    {
      assert_event ((const SondeFrameAllocation *) frame, last);
      return;
    }
  g_assert_cmpint (frame->time_ns, >, *last);
  if (frame->len == 72 && log->severity == 0)
    {
      *last = frame->time_ns;
      return;
    }
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

/* @wait_us: 0: what has no room is dropped, and with it what it would have defined */
static void
check_shared (guint32 wait_us)
{
  const SondeRingOptions options
      = { SONDE_RING_NATIVE, SONDE_RING_MIN_BYTES, wait_us, SONDE_RING_COMPACT_HEAP };
  g_autoptr (RingFixture) ring = ring_fixture_new_with (&options, RING_SAME_MAPPING);
  Shared shared = { .ring = ring, .lock = PTHREAD_MUTEX_INITIALIZER };
  SondeRingCounts counts;
  GThread *thread;

  thread = g_thread_new ("writer", share_and_close, &shared);
  read_all (ring, FALSE);
  g_thread_join (thread);
  sonde_ring_reader_count (ring->reader, &counts);
  g_test_message ("%" G_GUINT64_FORMAT " of %u taken, %.1f bytes each", counts.frames, N_FRAMES,
                  (double) counts.bytes / (double) counts.frames);
  g_assert_cmpuint (counts.frames, >, 0);
  g_assert_cmpuint (counts.frames + counts.claimed.lost_events, ==, N_FRAMES);
  if (wait_us > 0)
    g_assert_cmpuint (counts.claimed.lost_events, ==, 0);
}

static void
events_in_short_arrive_or_are_counted (void)
{
  check_shared (0);
  check_shared (60 * 1000000);
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

  g_test_add_func ("/ring-threads/events-in-short-arrive-or-are-counted",
                   events_in_short_arrive_or_are_counted);

  return g_test_run ();
}
