/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ring-writer: when it wants a larger ring, and how it goes on in one. */
#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"
#include "tests/lib/ring-fixture.h"

#define SIZE      SONDE_RING_MIN_BYTES
#define MAX_RINGS 8

/* Rings with their readers, as a profiler has them: each continues the one before. */
static struct
{
  SondeRingReader *readers[MAX_RINGS];
  int fds[MAX_RINGS];
  guint n_rings;
  guint32 wait_us;
  guint32 features;
  guint n_asked;
  int error;            /* what the next requests get; 0: a ring */
  pthread_mutex_t lock; /* whose order ThreadSanitizer knows */
} profiler = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int
make_ring (gsize size_bytes)
{
  const SondeRingOptions options
      = { SONDE_RING_NATIVE, size_bytes, profiler.wait_us, profiler.features };
  const SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, RING_PID };
  guint n = profiler.n_rings++;
  SondeRingMemory memory;

  g_assert_cmpuint (n, <, MAX_RINGS);
  g_assert_cmpint (sonde_ring_memory_create (&options, &memory, &profiler.fds[n]), ==, 0);
  g_assert_cmpint (sonde_ring_reader_new (&memory, &rights, &profiler.readers[n]), ==, 0);
  return profiler.fds[n];
}

static int
give_larger (uint32_t number, size_t size_bytes, int *ring_fd, uint32_t *new_number)
{
  profiler.n_asked++;
  if (profiler.error != 0)
    return profiler.error;
  pthread_mutex_lock (&profiler.lock);
  g_assert_cmpuint (number, ==, profiler.n_rings);
  *ring_fd = dup (make_ring (MIN (size_bytes, SONDE_RING_MAX_BYTES)));
  *new_number = profiler.n_rings;
  pthread_mutex_unlock (&profiler.lock);
  return 0;
}

/* Number 1, of the smallest size. */
static SondeRingWriter *
open_first (guint32 wait_us, guint32 features)
{
  SondeRingWriter *writer;

  for (guint i = 0; i < profiler.n_rings; i++)
    {
      sonde_ring_reader_free (profiler.readers[i]);
      close (profiler.fds[i]);
    }
  profiler.n_rings = profiler.n_asked = 0;
  profiler.wait_us = wait_us;
  profiler.features = features;
  profiler.error = 0;
  g_assert_cmpint (sonde_ring_writer_open (make_ring (SIZE), -1, &writer), ==, 0);
  sonde_ring_writer_let_grow (writer, 1, give_larger);
  return writer;
}

static int
write_number (SondeRingWriter *writer, guint64 number)
{
  gpointer place;
  int r = sonde_ring_writer_reserve (writer, 72, &place);

  if (r < 0)
    return r;
  ring_fixture_fill (place, 72, 0);
  ((SondeFrame *) place)->time_ns = (gint64) number;
  sonde_ring_writer_commit (writer);
  return 0;
}

/* What all rings have, each read to its end before the next: numbers that only grow. */
static guint64
read_numbers (gint64 *last)
{
  const SondeFrame *frame;
  guint64 n = 0;

  for (guint i = 0; i < profiler.n_rings; i++)
    {
      SondeRingReader *reader = profiler.readers[i];

      if (sonde_ring_reader_begin (reader, SIZE_MAX) == 0)
        while (sonde_ring_reader_next (reader, &frame) == 1)
          {
            g_assert_cmpint (frame->time_ns, >, *last);
            *last = frame->time_ns;
            n++;
          }
      sonde_ring_reader_release (reader);
      if (sonde_ring_reader_state (reader) == SONDE_RING_IS_OPEN)
        break;
      g_assert_cmpint (sonde_ring_reader_state (reader), ==, SONDE_RING_HAS_ENDED);
    }
  return n;
}

#ifndef IS_EMULATED /* by an emulator that doubles no mapping */
/* Nobody reads: each ring is full until the largest is. What does not fit is counted. */
static void
grows_until_it_is_as_large_as_can_be (void)
{
  SondeRingWriter *writer = open_first (0, SONDE_RING_MAY_GROW);
  const uint32_t *pause_word = sonde_ring_writer_pause_word (writer);
  const guint64 n_events = 400000;
  guint64 n_written = 0, n_frames;
  SondeRingLosses losses;
  SondeRingCounts counts;
  gint64 last = -1;

  for (guint64 i = 0; i < n_events; i++)
    n_written += write_number (writer, i) == 0;
  g_assert_cmpuint (profiler.n_rings, ==, 5); /* 128 KiB, 512, 2 MiB, 8, 16 */
  g_assert_cmpuint (profiler.n_asked, ==, 4);
  g_assert_cmpuint (sonde_ring_writer_size (writer), ==, SONDE_RING_MAX_BYTES);
  sonde_ring_writer_count (writer, &n_frames, &losses);
  g_assert_cmpuint (n_frames, ==, n_written);
  g_assert_cmpuint (losses.lost_events, ==, n_events - n_written);

  g_assert_true (sonde_ring_writer_pause_word (writer) == pause_word);
  sonde_ring_reader_pause (profiler.readers[0], TRUE);
  g_assert_cmpint (sonde_ring_writer_check_wanted (writer), ==, 0);
  sonde_ring_reader_pause (profiler.readers[4], TRUE);
  g_assert_cmpint (sonde_ring_writer_check_wanted (writer), ==, -EAGAIN);
  g_assert_cmpuint (*pause_word, ==, SONDE_RING_IS_PAUSED);
  sonde_ring_writer_close (writer);

  g_assert_cmpuint (read_numbers (&last), ==, n_written);
  for (guint i = 0; i < profiler.n_rings; i++)
    {
      g_assert_cmpint (sonde_ring_reader_state (profiler.readers[i]), ==, SONDE_RING_HAS_ENDED);
      g_assert_cmpuint (sonde_ring_reader_continued_in (profiler.readers[i]), ==,
                        i < 4 ? i + 2 : 0);
      sonde_ring_reader_count (profiler.readers[i], &counts);
      g_assert_cmpuint (counts.produced, ==, counts.frames + counts.claimed.lost_events);
      losses.lost_events -= counts.claimed.lost_events;
    }
  g_assert_cmpuint (losses.lost_events, ==, 0);
}
#endif

typedef struct
{
  gint is_over;
  guint64 n_read;
} Reader;

/* Slowly: a part of a ring in 2 ms. */
static gpointer
read_slowly (gpointer data)
{
  Reader *self = data;
  gint64 last = -1;

  while (!g_atomic_int_get (&self->is_over))
    {
      pthread_mutex_lock (&profiler.lock);
      self->n_read += read_numbers (&last);
      pthread_mutex_unlock (&profiler.lock);
      g_usleep (2000);
    }
  self->n_read += read_numbers (&last);
  return NULL;
}

/* Who waits grows, too, and loses nothing. */
static void
grows_when_it_waits (void)
{
  SondeRingWriter *writer = open_first (30 * 1000000, SONDE_RING_MAY_GROW);
  Reader reader = { 0 };
  GThread *thread = g_thread_new ("reader", read_slowly, &reader);
  SondeRingLosses losses;

  for (guint64 i = 0; i < 200000; i++)
    g_assert_cmpint (write_number (writer, i), ==, 0);
  sonde_ring_writer_count (writer, NULL, &losses);
  g_assert_cmpuint (losses.lost_events, ==, 0);
  g_assert_cmpuint (losses.blocked_events, >, 0);
  g_assert_cmpuint (profiler.n_rings, >, 1);
  sonde_ring_writer_close (writer);
  g_atomic_int_set (&reader.is_over, TRUE);
  g_thread_join (thread);
  g_assert_cmpuint (reader.n_read, ==, 200000);
}

#ifndef IS_EMULATED /* by an emulator that doubles no mapping */
/* Stacks have numbers of one ring: in the next they are defined again. */
static void
defines_stacks_in_each_ring (void)
{
  SondeRingWriter *writer = open_first (0, SONDE_RING_MAY_GROW | SONDE_RING_COMPACT_HEAP);
  guint64 n_written = 0, n_read = 0;
  const SondeFrame *frame;

  for (guint64 i = 0; i < 100000; i++)
    {
      const SondeCompactEvent event = {
        .address = (i + 1) * 8, .size_bytes = 8, .time_ns = (gint64) i, .stack_hash = i % 10
      };
      SondeCompactWriter *compact;
      gpointer place;

      if (sonde_ring_writer_reserve (writer, SONDE_HEAP_BLOCK_ROOM (1), &place) < 0)
        continue;
      compact = sonde_ring_writer_compact (writer);
      g_assert_nonnull (compact);
      *(guint64 *) (gpointer) ((guint8 *) place + SONDE_COMPACT_ADDRS_AT) = 0x1000 + i % 10;
      sonde_ring_writer_commit_records (writer,
                                        sonde_compact_writer_block (compact, place, &event, 1));
      n_written++;
    }
  g_assert_cmpuint (profiler.n_rings, >, 2);
  sonde_ring_writer_close (writer);
  for (guint i = 0; i < profiler.n_rings; i++)
    {
      g_assert_cmpint (sonde_ring_reader_begin (profiler.readers[i], SIZE_MAX), ==, 0);
      while (sonde_ring_reader_next (profiler.readers[i], &frame) == 1)
        {
          const SondeFrameAllocation *block = (gconstpointer) frame;

          g_assert_cmpuint (block->n_addrs, ==, 1);
          g_assert_cmpuint (block->addrs[0], ==, 0x1000 + (block->address / 8 - 1) % 10);
          n_read++;
        }
      g_assert_cmpint (sonde_ring_reader_state (profiler.readers[i]), ==, SONDE_RING_HAS_ENDED);
    }
  g_assert_cmpuint (n_read, ==, n_written);
}
#endif

/* Who is refused goes on where he is, and asks again a second later, then after two. */
static void
asks_rarely_if_it_is_refused (void)
{
  SondeRingWriter *writer = open_first (0, SONDE_RING_MAY_GROW);

  profiler.error = -EDQUOT;
  for (guint64 i = 0; i < 1000000; i++)
    write_number (writer, i);
  g_assert_cmpuint (profiler.n_asked, >=, 1);
  g_assert_cmpuint (profiler.n_asked, <=, 8);
  g_assert_cmpuint (sonde_ring_writer_size (writer), ==, SIZE);
  sonde_ring_writer_close (writer);
  g_assert_cmpuint (sonde_ring_reader_continued_in (profiler.readers[0]), ==, 0);
}

static int
give_nonsense (uint32_t number, size_t size_bytes, int *ring_fd, uint32_t *new_number)
{
  profiler.n_asked++;
  *ring_fd = dup (profiler.n_asked % 2 == 0 ? STDERR_FILENO : profiler.fds[0]);
  *new_number = 2;
  return 0;
}

/* What is no ring, or none that is larger and new, is none. */
static void
stays_where_it_is_if_it_gets_no_ring (void)
{
  SondeRingWriter *writer = open_first (0, SONDE_RING_MAY_GROW);
  gint64 last = -1;
  guint64 n = 0;

  sonde_ring_writer_let_grow (writer, 1, give_nonsense);
  while (profiler.n_asked < 2)
    write_number (writer, n++);
  g_assert_cmpuint (sonde_ring_writer_size (writer), ==, SIZE);
  read_numbers (&last);
  g_assert_cmpint (write_number (writer, n), ==, 0);
  g_assert_cmpuint (read_numbers (&last), ==, 1);
  sonde_ring_writer_close (writer);
}

static void
asks_nobody_who_does_not_offer_it (void)
{
  SondeRingWriter *writer = open_first (0, 0);

  for (guint64 i = 0; i < 100000; i++)
    write_number (writer, i);
  g_assert_cmpuint (profiler.n_asked, ==, 0);
  sonde_ring_writer_close (writer);
}

/* A child has none of its parent's rings, wherever these are by now. */
static void
keeps_a_child_out (void)
{
  SondeRingWriter *writer = open_first (0, SONDE_RING_MAY_GROW);
  int status;
  pid_t child;

  for (guint64 i = 0; i < 5000; i++)
    write_number (writer, i);
  g_assert_cmpuint (profiler.n_rings, >, 1);
  child = fork ();
  if (child == 0)
    {
      int r = write_number (writer, 5000);

      sonde_ring_writer_close (writer);
      _exit (r == -ECHILD ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  sonde_ring_writer_close (writer);
}

#define TEST(name, function) g_test_add_func ("/ring-growth/" name, function)

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#ifndef IS_EMULATED
  TEST ("grows-until-it-is-as-large-as-can-be", grows_until_it_is_as_large_as_can_be);
#endif
  TEST ("grows-when-it-waits", grows_when_it_waits);
#ifndef IS_EMULATED
  TEST ("defines-stacks-in-each-ring", defines_stacks_in_each_ring);
#endif
  TEST ("asks-rarely-if-it-is-refused", asks_rarely_if_it_is_refused);
  TEST ("stays-where-it-is-if-it-gets-no-ring", stays_where_it_is_if_it_gets_no_ring);
  TEST ("asks-nobody-who-does-not-offer-it", asks_nobody_who_does_not_offer_it);
  TEST ("keeps-a-child-out", keeps_a_child_out);

  return g_test_run ();
}
