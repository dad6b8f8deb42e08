/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ring-reader: what a hostile writer may do to it, and what it takes and tells. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/lib/ring-fixture.h"

#define SIZE SONDE_RING_MIN_BYTES

static const SondeRingKind kinds[] = { SONDE_RING_NATIVE, SONDE_RING_SYSPROF };

/* A writer without manners: what it likes, at the start of the body, and this position. */
static void
publish (RingFixture *self, SondeRingKind kind, guint64 position)
{
  SondeRingHeader *header = ring_fixture_header (self);

  if (kind == SONDE_RING_NATIVE)
    header->tail = position;
  else
    header->tail_index = (guint32) position;
}

static SondeFrameLog *
put (RingFixture *self, gsize offset, gsize size_bytes)
{
  gpointer place = ring_fixture_body (self) + offset;

  ring_fixture_fill (place, size_bytes, 1);
  return place;
}

/* Takes all that there is; returns what the reader said in the end. */
static int
drain (RingFixture *self, guint *n_frames)
{
  const SondeFrame *frame;
  int r = sonde_ring_reader_begin (self->reader, SIZE_MAX);

  *n_frames = 0;
  while (r == 0 && (r = sonde_ring_reader_next (self->reader, &frame)) == 1)
    {
      g_assert_cmpint (frame->pid, ==, RING_PID);
      ++*n_frames;
      r = 0;
    }
  sonde_ring_reader_release (self->reader);

  return r;
}

/* That the ring is closed for good, with this sentence. */
static void
assert_closed (RingFixture *self, SondeRingState state, const char *sentence)
{
  const SondeFrame *frame;
  char text[256];

  g_assert_cmpint (sonde_ring_reader_state (self->reader), ==, state);
  g_assert_cmpstr (sonde_ring_reader_explain (self->reader, text, sizeof text), ==, sentence);
  g_assert_cmpint (sonde_ring_reader_begin (self->reader, SIZE_MAX), ==, -EBADMSG);
  g_assert_cmpint (sonde_ring_reader_next (self->reader, &frame), ==, -EBADMSG);
  g_assert_false (sonde_ring_reader_sleep (self->reader, 1));
}

static void
refuses_lengths_that_no_frame_has (void)
{
  static const struct
  {
    guint16 len;
    SondeFrameFault fault;
    const char *sentence;
  } cases[] = {
    { 0, SONDE_FRAME_FAULT_LENGTH_SMALL,
      "frame 1 (LOG, type 12), byte 72 of the ring: its length is too small for its type" },
    { 29, SONDE_FRAME_FAULT_LENGTH_ALIGN,
      "frame 1 (LOG, type 12), byte 72 of the ring: its length is not a multiple of 8" },
    { 65535, SONDE_FRAME_FAULT_LENGTH_ALIGN,
      "frame 1 (LOG, type 12), byte 72 of the ring: its length is not a multiple of 8" },
    { 65528, SONDE_FRAME_FAULT_LENGTH_PAST_END,
      "frame 1 (LOG, type 12), byte 72 of the ring: its length reaches past the end" },
    { 80, SONDE_FRAME_FAULT_LENGTH_PAST_END,
      "frame 1 (LOG, type 12), byte 72 of the ring: its length reaches past the end" },
    { 64, SONDE_FRAME_FAULT_LENGTH_SMALL,
      "frame 1 (LOG, type 12), byte 72 of the ring: its length is too small for its type" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases) * 2; i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i % 2], 0, RING_NO_WRITER);
      guint n;

      put (ring, 0, 72);
      put (ring, 72, 72)->frame.len = cases[i / 2].len;
      publish (ring, kinds[i % 2], 144);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      g_assert_cmpuint (n, ==, 1);
      assert_closed (ring, SONDE_RING_FAULT_FRAME, cases[i / 2].sentence);
      g_assert_cmpint (sonde_ring_reader_frame_fault (ring->reader), ==, cases[i / 2].fault);
    }
}

static void
refuses_a_part_of_a_header (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_NO_WRITER);
      guint n;

      put (ring, 0, 72);
      publish (ring, kinds[i], 16);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      assert_closed (ring, SONDE_RING_FAULT_FRAME,
                     "frame 0 (?, type 0), byte 0 of the ring: it ends within the 24 bytes of its "
                     "header");
    }
}

static void
refuses_positions_outside_of_the_ring (void)
{
  static const guint64 native[] = { SIZE + 8, SIZE + 1, UINT64_MAX, G_MAXINT64, 0xfffffff0 };
  static const guint64 sysprof[] = { SIZE, SIZE + 8, 0xfffffff0, UINT32_MAX };
  guint n;

  for (guint i = 0; i < G_N_ELEMENTS (native); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);
      g_autofree char *sentence = g_strdup_printf (
          "the writer's position is outside of the ring: %" G_GUINT64_FORMAT ", after 0",
          native[i]);

      publish (ring, SONDE_RING_NATIVE, native[i]);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      assert_closed (ring, SONDE_RING_FAULT_RANGE, sentence);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sysprof); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_SYSPROF, 0, RING_NO_WRITER);

      publish (ring, SONDE_RING_SYSPROF, sysprof[i]);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_FAULT_RANGE);
    }
}

static void
refuses_a_position_that_is_not_aligned (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_NO_WRITER);
      guint n;

      publish (ring, kinds[i], 29);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      assert_closed (ring, SONDE_RING_FAULT_ALIGN,
                     "the writer's position is no multiple of 8: 29, after 0");
    }
}

static void
refuses_a_position_that_moves_backwards (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_NO_WRITER);
      const SondeFrame *frame;
      guint n;

      put (ring, 0, 72);
      put (ring, 72, 72);
      publish (ring, kinds[i], 144);
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 1), ==, 0);
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
      publish (ring, kinds[i], 72);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      g_assert_cmpuint (n, ==, 0);
      assert_closed (ring, SONDE_RING_FAULT_BACKWARDS,
                     "the writer's position moved backwards: 72, after 144");
    }
}

static void
refuses_types_that_this_writer_may_not_send (void)
{
  static const guint8 refused[]
      = { SONDE_FRAME_MAP,      SONDE_FRAME_PROCESS, SONDE_FRAME_EXIT,        SONDE_FRAME_FORK,
          SONDE_FRAME_METADATA, SONDE_FRAME_TRACE,   SONDE_FRAME_DBUS_MESSAGE };
  static const guint8 foreign[] = { 0, SONDE_FRAME_N_READ, 31, 32, 200, 254 };
  guint n;

  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);

      put (ring, 0, 72)->frame.type = refused[i];
      publish (ring, SONDE_RING_NATIVE, 72);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      g_assert_cmpint (sonde_ring_reader_state (ring->reader), !=, SONDE_RING_IS_OPEN);
      if (i == 1)
        assert_closed (ring, SONDE_RING_FAULT_REFUSED,
                       "frame 0 (PROCESS, type 4), byte 0 of the ring: this producer may not send "
                       "it");
    }
  for (guint i = 0; i < G_N_ELEMENTS (foreign); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);

      put (ring, 0, 72)->frame.type = foreign[i];
      publish (ring, SONDE_RING_NATIVE, 72);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      g_assert_cmpint (sonde_ring_reader_frame_fault (ring->reader), ==, SONDE_FRAME_FAULT_TYPE);
    }
}

/* An end frame is 24 bytes long. */
static void
refuses_an_end_that_is_none (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);
  guint n;

  put (ring, 0, 72)->frame.type = SONDE_RING_END;
  publish (ring, SONDE_RING_NATIVE, 72);
  g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
  g_assert_cmpint (sonde_ring_reader_frame_fault (ring->reader), ==, SONDE_FRAME_FAULT_TYPE);
}

/* Neither its own position nor the geometry is read back. */
static void
believes_no_header (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);

      for (guint16 n = 0; n < 500; n++)
        {
          SondeRingHeader *header = ring_fixture_header (ring);

          g_assert_cmpint (ring_fixture_write (ring, 4096, n), ==, 0);
          header->offset_bytes = 0xfffffff8;
          header->size_bytes = n;
          header->magic = 0;
          header->version = 99;
          header->wait_us = UINT32_MAX;
          if (kinds[i] == SONDE_RING_NATIVE)
            header->head_index = header->tail_index = 0xfffffff0;
          else
            header->head = header->tail = UINT64_MAX;
          g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, n);
        }
    }
}

static void
gives_frames_the_pid_that_is_true (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);
  SondeRingCounts counts;
  guint n;

  put (ring, 0, 72)->frame.pid = 1;
  put (ring, 72, 72);
  publish (ring, SONDE_RING_NATIVE, 144);
  g_assert_cmpint (drain (ring, &n), ==, 0);
  g_assert_cmpuint (n, ==, 2);
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.foreign_pids, ==, 1);
  g_assert_cmpuint (counts.bytes, ==, 144);
}

/* The copy stays as it was judged. */
static void
gives_copies (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  const SondeFrameLog *log;

  g_assert_cmpint (ring_fixture_write (ring, 4096, 7), ==, 0);
  log = ring_fixture_take (ring);
  memset (ring_fixture_body (ring), 0xff, SIZE);
  g_assert_cmpuint (log->severity, ==, 7);
  g_assert_cmpuint (log->frame.len, ==, 4096);
}

static void
believes_no_account_that_shrinks (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  SondeRingHeader *header = ring_fixture_header (ring);
  SondeRingCounts counts;

  for (guint n = 0; n < 3; n++)
    {
      g_assert_cmpint (ring_fixture_write (ring, 72, 0), ==, 0);
      ring_fixture_take (ring);
    }
  header->sequence = 1;
  header->losses.lost_events = 10;
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.produced, ==, 13);
  header->losses.lost_events = 5;
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 10);
  g_assert_cmpuint (counts.produced, ==, 13);
  header->losses.lost_events = UINT64_MAX;
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.produced, ==, UINT64_MAX);
}

static void
keeps_to_its_budget (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  const SondeFrame *frame;

  for (guint16 n = 0; n < 10; n++)
    g_assert_cmpint (ring_fixture_write (ring, 72, n), ==, 0);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 100), ==, 0);
  g_assert_cmpuint (sonde_ring_reader_fill (ring->reader), ==, 720);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 0), ==, 0);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
  g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 2);
}

/* What is written in a turn is of the next one, so that a turn ends. */
static void
takes_in_a_turn_what_was_there_at_its_beginning (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      const SondeFrame *frame;

      g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, 0);
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
      g_assert_cmpint (ring_fixture_write (ring, 72, 2), ==, 0);
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
      g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 2);
    }
}

/* Room is given back when the reader says so, for all that it took. */
static void
releases_a_turn_in_one_go (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_OWN_MAPPING);
  const SondeFrame *frame;
  guint n = 0;

  while (ring_fixture_write (ring, 4096, 0) == 0)
    n++;
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpint (ring_fixture_write (ring, 4096, 0), ==, -ENOBUFS);
  sonde_ring_reader_release (ring->reader);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (ring_fixture_write (ring, 4096, 0), ==, 0);
}

/* Each 4 KiB; each frame while the writer says that it waits, be that true or not. */
static void
releases_in_pieces (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      SondeRingHeader *header = ring_fixture_header (ring);
      gboolean is_native = kinds[i] == SONDE_RING_NATIVE;
      const SondeFrame *frame;

      for (guint n = 0; n < 200; n++)
        g_assert_cmpint (ring_fixture_write (ring, 72, 0), ==, 0);
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
      for (guint n = 1; n <= 100; n++)
        {
          g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
          sonde_ring_reader_release_piece (ring->reader);
          g_assert_cmpuint (is_native ? header->head : header->head_index, ==, n / 57 * 57 * 72);
        }
      header->is_waiting = UINT32_MAX;
      for (guint n = 101; n <= 113; n++)
        {
          g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
          sonde_ring_reader_release_piece (ring->reader);
          g_assert_cmpuint (is_native ? header->head : header->head_index, ==,
                            is_native ? n * 72 : 57 * 72);
        }
      sonde_ring_reader_release (ring->reader);
      g_assert_cmpuint (is_native ? header->head : header->head_index, ==, 113 * 72);
    }
}

static void
ends_at_the_end_frame (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_OWN_MAPPING);
      char text[64];
      guint n;

      g_assert_cmpint (ring_fixture_write (ring, 72, 1), ==, 0);
      sonde_ring_writer_close (g_steal_pointer (&ring->writer));
      put (ring, 96, 72)->frame.len = 0;
      g_assert_cmpint (drain (ring, &n), ==, -ESHUTDOWN);
      g_assert_cmpuint (n, ==, 1);
      g_assert_cmpstr (sonde_ring_reader_explain (ring->reader, text, sizeof text), ==,
                       "the ring has ended");
      publish (ring, kinds[i], 1);
      g_assert_cmpint (drain (ring, &n), ==, -ESHUTDOWN);
    }
}

/* Killed between reserve and commit; what it had committed is there, whole. */
static void
drains_a_writer_that_died (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (RingFixture) ring = ring_fixture_new (kinds[i], 0, RING_NO_WRITER);
      pid_t child = fork ();
      int status;
      guint n;

      if (child == 0)
        {
          gpointer place;

          if (sonde_ring_writer_open (ring->ring_fd, ring->link[1], &ring->writer) < 0)
            _exit (1);
          for (guint16 k = 0; k < 100; k++)
            ring_fixture_write (ring, 72, k);
          if (sonde_ring_writer_reserve (ring->writer, 4096, &place) == 0)
            memset (place, 0xff, 2000);
          raise (SIGKILL);
        }
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_true (WIFSIGNALED (status));
      g_assert_cmpint (drain (ring, &n), ==, 0);
      g_assert_cmpuint (n, ==, 100);
      g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_IS_OPEN);
    }
}

typedef struct
{
  RingFixture *ring;
  gint is_done;
} Scribbler;

#define FRAME_BYTES 64
#define N_BAD       16 /* frames that are spoilt at a time */

static guint32
next_random (guint32 *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void
scribble_frame (RingFixture *ring, guint n, guint16 len, guint8 type, guint16 n_addrs)
{
  volatile SondeFrameAllocation *allocation
      = (gpointer) (ring_fixture_body (ring) + (gsize) n * FRAME_BYTES);

  allocation->frame.len = len;
  allocation->frame.type = type;
  allocation->n_addrs = n_addrs;
}

/* Spoils lengths, types and counts of frames while they are read, and mends them. */
static gpointer
scribble (gpointer data)
{
  Scribbler *self = data;
  guint bad[N_BAD] = { 0 };
  guint32 state = 1;

  while (!g_atomic_int_get (&self->is_done))
    for (guint i = 0; i < N_BAD; i++)
      {
        guint32 random = next_random (&state);

        scribble_frame (self->ring, bad[i], FRAME_BYTES, SONDE_FRAME_ALLOCATION, 2);
        bad[i] = random % (SIZE / FRAME_BYTES);
        scribble_frame (self->ring, bad[i], (guint16) (random & 1 ? FRAME_BYTES : random >> 2),
                        (guint8) (random & 2 ? SONDE_FRAME_ALLOCATION : random >> 3),
                        (guint16) (random & 4 ? 2 : random >> 5));
      }

  return NULL;
}

/* A new reader, because one that met a bad frame is closed. Adds what it took. */
static gboolean
read_once (RingFixture *ring, guint *n_taken)
{
  SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, RING_PID };
  SondeRingMemory memory;
  SondeRingReader *reader;
  const SondeFrame *frame;
  gboolean is_closed;
  int r;

  g_assert_cmpint (sonde_ring_memory_map (ring->ring_fd, &memory), ==, 0);
  g_assert_cmpint (sonde_ring_reader_new (&memory, &rights, &reader), ==, 0);
  r = sonde_ring_reader_begin (reader, SIZE_MAX);
  while (r == 0 && (r = sonde_ring_reader_next (reader, &frame)) == 1)
    {
      g_assert_cmpint (sonde_frame_check (frame, frame->len), ==, SONDE_FRAME_OK);
      ++*n_taken;
      r = 0;
    }
  is_closed = sonde_ring_reader_state (reader) != SONDE_RING_IS_OPEN;
  sonde_ring_reader_free (reader);

  return is_closed;
}

/* Whatever it meets, what it gives is whole and stays so. */
static void
survives_a_thread_that_scribbles (void)
{
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_SYSPROF, 0, RING_NO_WRITER);
  gint64 deadline_us = g_get_monotonic_time () + 300 * G_USEC_PER_SEC;
  Scribbler scribbler = { ring, 0 };
  guint n_closed = 0, n_taken = 0;
  GThread *thread;

  for (guint n = 0; n < SIZE / FRAME_BYTES; n++)
    scribble_frame (ring, n, FRAME_BYTES, SONDE_FRAME_ALLOCATION, 2);
  publish (ring, SONDE_RING_SYSPROF, SIZE - FRAME_BYTES);

  thread = g_thread_new ("scribble", scribble, &scribbler);
  while ((n_closed < 500 || n_taken < 5000) && g_get_monotonic_time () < deadline_us)
    n_closed += read_once (ring, &n_taken) ? 1 : 0;
  g_atomic_int_set (&scribbler.is_done, 1);
  g_thread_join (thread);
  g_assert_cmpuint (n_closed, >=, 500);
  g_assert_cmpuint (n_taken, >=, 5000);
}

/* --- events in short --- */

static RingFixture *
new_compact (RingFixtureWriter writer)
{
  const SondeRingOptions options = { SONDE_RING_NATIVE, SIZE, 0, SONDE_RING_COMPACT_HEAP };

  return ring_fixture_new_with (&options, writer);
}

/* A block of this many addresses. */
static int
write_block (RingFixture *self, guint64 number, gsize depth)
{
  const SondeCompactEvent event = { number * 16, 24, (gint64) number, depth, 4243 };
  guint64 *addrs;
  gpointer place;
  int r = sonde_ring_writer_reserve (self->writer, SONDE_HEAP_BLOCK_ROOM (depth), &place);

  if (r < 0)
    return r;
  addrs = (gpointer) ((guint8 *) place + SONDE_COMPACT_ADDRS_AT);
  for (gsize i = 0; i < depth; i++)
    addrs[i] = 0x401000 + i;
  sonde_ring_writer_commit_records (
      self->writer,
      sonde_compact_writer_block (sonde_ring_writer_compact (self->writer), place, &event, depth));
  return 0;
}

static const guint64 good_records[]
    = { 1000 << 3 | SONDE_HEAP_CLOCK, 4243, 0x5000 | SONDE_HEAP_FREE, 1 };

/* The records go into the ring as they stand. */
static void
put_records (RingFixture *self, const guint64 *words, gsize size_bytes)
{
  memcpy (ring_fixture_body (self), good_records, sizeof good_records);
  memcpy (ring_fixture_body (self) + sizeof good_records, words, size_bytes);
  publish (self, SONDE_RING_NATIVE, sizeof good_records + size_bytes);
}

static void
closes_a_ring_for_an_impossible_record (void)
{
  static const struct
  {
    guint64 words[3];
    gsize size_bytes;
    SondeHeapFault fault;
    const char *sentence;
  } cases[] = {
    { { 0x5000 | SONDE_HEAP_BLOCK, G_GUINT64_CONSTANT (1) << 32, 8 },
      24,
      SONDE_HEAP_FAULT_UNDEFINED,
      "event 1 (block in short), byte 32 of the ring: its stack is not defined" },
    { { 0x5000 | 6, 0, 0 },
      24,
      SONDE_HEAP_FAULT_KIND,
      "event 1 (? in short), byte 32 of the ring: there is no such record" },
    { { 999 << 3 | SONDE_HEAP_CLOCK, 4243 },
      16,
      SONDE_HEAP_FAULT_TIME,
      "event 1 (clock in short), byte 32 of the ring: its time is before the last one, or out of "
      "range" },
    { { G_GUINT64_CONSTANT (1) << 32 | 1000 << 16 | SONDE_HEAP_STACK, 1, 2 },
      24,
      SONDE_HEAP_FAULT_SHORT,
      "event 1 (stack in short), byte 32 of the ring: it reaches past the end" },
    { { 0x5000 | SONDE_HEAP_FREE },
      8,
      SONDE_HEAP_FAULT_SHORT,
      "event 1 (free in short), byte 32 of the ring: it reaches past the end" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (RingFixture) ring = new_compact (RING_NO_WRITER);
      guint n;

      put_records (ring, cases[i].words, cases[i].size_bytes);
      g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
      g_assert_cmpuint (n, ==, 1);
      assert_closed (ring, SONDE_RING_FAULT_RECORD, cases[i].sentence);
      g_assert_cmpint (sonde_ring_reader_record_fault (ring->reader), ==, cases[i].fault);
      g_assert_cmpint (sonde_ring_reader_frame_fault (ring->reader), ==, SONDE_FRAME_OK);
    }
}

/* Where none were offered, and where heap events are not this producer's. */
static void
refuses_records_that_are_not_allowed (void)
{
  const SondeRingRights rights = { SONDE_RING_TYPE (SONDE_FRAME_LOG), RING_PID };
  g_autoptr (RingFixture) ring = ring_fixture_new (SONDE_RING_NATIVE, 0, RING_NO_WRITER);
  g_autoptr (RingFixture) other = new_compact (RING_NO_WRITER);
  SondeRingMemory memory;
  guint n;

  put_records (ring, good_records, sizeof good_records);
  g_assert_cmpint (drain (ring, &n), ==, -EBADMSG);
  g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_FAULT_FRAME);

  sonde_ring_reader_free (other->reader);
  g_assert_cmpint (sonde_ring_memory_map (other->ring_fd, &memory), ==, 0);
  g_assert_cmpuint (memory.features, ==, SONDE_RING_COMPACT_HEAP);
  g_assert_cmpint (sonde_ring_reader_new (&memory, &rights, &other->reader), ==, 0);
  put_records (other, good_records, sizeof good_records);
  g_assert_cmpint (drain (other, &n), ==, -EBADMSG);
  g_assert_cmpint (sonde_ring_reader_state (other->reader), ==, SONDE_RING_FAULT_FRAME);
}

/* Between frames, and through all of the ring's wraps. */
static void
gives_records_out_as_frames (void)
{
  g_autoptr (RingFixture) ring = new_compact (RING_OWN_MAPPING);
  const SondeFrame *frame;
  SondeRingCounts counts;
  const guint n_turns = 3 * SIZE / 64;

  for (guint i = 1; i <= n_turns; i++)
    {
      const SondeFrameAllocation *got;

      g_assert_cmpint (write_block (ring, i, i % 9), ==, 0);
      g_assert_cmpint (ring_fixture_write (ring, 72, 7), ==, 0);
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
      got = (const SondeFrameAllocation *) frame;
      g_assert_cmpuint (frame->type, ==, SONDE_FRAME_ALLOCATION);
      g_assert_cmpint (frame->pid, ==, RING_PID);
      g_assert_cmpint (sonde_frame_check (frame, frame->len), ==, SONDE_FRAME_OK);
      g_assert_cmpuint (got->address, ==, i * 16);
      g_assert_cmpint (got->tid, ==, 4243);
      g_assert_cmpint (frame->time_ns, ==, i);
      g_assert_cmpuint (got->n_addrs, ==, i % 9);
      for (guint k = 0; k < got->n_addrs; k++)
        g_assert_cmpuint (got->addrs[k], ==, 0x401000 + k);
      g_assert_cmpuint (ring_fixture_take (ring)->severity, ==, 7);
    }
  sonde_ring_reader_count (ring->reader, &counts);
  g_assert_cmpuint (counts.frames, ==, 2 * n_turns);
  g_assert_cmpuint (counts.produced, ==, 2 * n_turns);
  g_assert_cmpuint (counts.foreign_pids, ==, 0);
  /* A clock, and eight stacks of 1 to 8 addresses, once each, of which two have a word. */
  g_assert_cmpuint (counts.bytes, ==, n_turns * (24 + 72) + 16 + 8 * 8 + 20 * 8);
}

/* By what is given out, which may be much more than what lies there. */
static void
keeps_to_its_budget_with_records (void)
{
  g_autoptr (RingFixture) ring = new_compact (RING_OWN_MAPPING);
  const SondeFrame *frame;

  for (guint i = 1; i <= 20; i++)
    g_assert_cmpint (write_block (ring, i, 100), ==, 0);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 16 + 808 + 2 * 848), ==, 0);
  /* The first one comes with its clock and its stack. */
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpuint (frame->len, ==, 848);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
  g_assert_true (sonde_ring_reader_has_more (ring->reader));
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 17 * 848 + 1), ==, 0);
  for (guint i = 0; i < 18; i++)
    g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
  g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
  g_assert_false (sonde_ring_reader_has_more (ring->reader));
}

/* A stack that shares all that it has is 8 bytes there, and much to copy. */
static void
keeps_to_its_budget_with_shared_stacks (void)
{
  g_autoptr (RingFixture) ring = new_compact (RING_OWN_MAPPING);
  SondeHeapStack stack = { SONDE_HEAP_STACK, 1000, 1 };
  guint64 words[1001 + 19] = { 0 };
  const SondeFrame *frame;

  memcpy (words, &stack, sizeof stack);
  stack.kind |= 1000u << SONDE_HEAP_SHARED_SHIFT;
  for (stack.id = 2; stack.id <= 20; stack.id++)
    memcpy (&words[999 + stack.id], &stack, sizeof stack);
  put_records (ring, words, sizeof words);
  /* A clock and a free are before them. */
  for (guint i = 0; i < 5; i++)
    {
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 4 * 8008 + 1), ==, 0);
      if (i == 0)
        g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 1);
      g_assert_cmpint (sonde_ring_reader_next (ring->reader, &frame), ==, 0);
      g_assert_cmpint (sonde_ring_reader_has_more (ring->reader), ==, i < 4);
    }
}

/* A note stays with its stack until there is another era. */
static void
gives_records_out_in_short (void)
{
  g_autoptr (RingFixture) ring = new_compact (RING_OWN_MAPPING);
  const SondeShortEvent *event;
  const SondeFrame *frame;

  for (guint i = 1; i <= 20; i++)
    {
      const SondeFrameAllocation *made;
      guint depth = i % 3;

      g_assert_cmpint (write_block (ring, i, depth), ==, 0);
      g_assert_cmpint (ring_fixture_write (ring, 72, 7), ==, 0);
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
      g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 1);
      g_assert_null (frame);
      g_assert_cmpuint (event->address, ==, i * 16);
      g_assert_cmpuint (event->size_bytes, ==, 24);
      g_assert_cmpint (event->time_ns, ==, i);
      g_assert_cmpint (event->tid, ==, 4243);
      g_assert_cmpuint (event->stack > 0, ==, depth > 0);
      if (depth > 0)
        {
          guint32 *note = sonde_ring_reader_note (ring->reader, i < 10 ? 1 : 2);

          g_assert_cmpuint (*note, ==, i <= 2 || i == 10 || i == 11 ? 0 : depth);
          *note = depth;
        }
      made = (const SondeFrameAllocation *) sonde_ring_reader_make_frame (ring->reader);
      g_assert_cmpint (made->frame.pid, ==, RING_PID);
      g_assert_cmpint (sonde_frame_check (made, made->frame.len), ==, SONDE_FRAME_OK);
      g_assert_cmpuint (made->address, ==, i * 16);
      g_assert_cmpuint (made->n_addrs, ==, depth);
      g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 1);
      g_assert_cmpuint (frame->type, ==, SONDE_FRAME_LOG);
      g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 0);
      sonde_ring_reader_release (ring->reader);
    }
}

/* As if each were the least frame, until one is made. */
static void
keeps_to_its_budget_in_short (void)
{
  g_autoptr (RingFixture) ring = new_compact (RING_OWN_MAPPING);
  const SondeShortEvent *event;
  const SondeFrame *frame;

  for (guint i = 1; i <= 20; i++)
    g_assert_cmpint (write_block (ring, i, 100), ==, 0);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 16 + 808 + 2 * 48 + 1), ==, 0);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 1);
  g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 0);
  g_assert_cmpint (sonde_ring_reader_begin (ring->reader, 2 * 848), ==, 0);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 1);
      g_assert_cmpuint (sonde_ring_reader_make_frame (ring->reader)->len, ==, 848);
    }
  g_assert_cmpint (sonde_ring_reader_next_short (ring->reader, &frame, &event), ==, 0);
  g_assert_true (sonde_ring_reader_has_more (ring->reader));
}

/* Turns, frames, records and stacks that begin and end anywhere in what is copied at a time, and
 * some that are longer. */
static void
copies_in_batches (void)
{
  static const SondeRingOptions options
      = { SONDE_RING_NATIVE, 4 * SONDE_RING_MIN_BYTES, 0, SONDE_RING_COMPACT_HEAP };
  g_autoptr (RingFixture) ring = ring_fixture_new_with (&options, RING_OWN_MAPPING);
  SondeCompactWriter *compact = sonde_ring_writer_compact (ring->writer);
  guint64 n_read = 0;

  for (guint n = 0; n < 4000; n++)
    {
      gboolean is_short = n % 3 != 0;
      gsize depth = n % 7 == 0 ? 1000 : n % 61 + 1;
      const SondeCompactEvent event
          = { .address = (n + 1) * 8, .size_bytes = n + 1, .stack_hash = n, .tid = 1 };
      gsize size_bytes = sizeof (SondeFrameLog) + n * 8 % (n % 5 == 0 ? 9000 : 200) / 8 * 8;
      const SondeFrame *frame;
      gpointer place;

      if (!is_short)
        g_assert_cmpint (ring_fixture_write (ring, (size_bytes + 8) / 8 * 8, (guint16) n), ==, 0);
      else
        {
          g_assert_cmpint (
              sonde_ring_writer_reserve (ring->writer, SONDE_HEAP_BLOCK_ROOM (depth), &place), ==,
              0);
          for (gsize i = 0; i < depth; i++)
            ((guint64 *) (gpointer) ((guint8 *) place + SONDE_COMPACT_ADDRS_AT))[i] = n * 1000 + i;
          sonde_ring_writer_commit_records (
              ring->writer, sonde_compact_writer_block (compact, place, &event, depth));
        }
      if (n % 17 != 16)
        continue;
      g_assert_cmpint (sonde_ring_reader_begin (ring->reader, SIZE_MAX), ==, 0);
      while (sonde_ring_reader_next (ring->reader, &frame) == 1)
        {
          const SondeFrameAllocation *block = (gconstpointer) frame;

          g_assert_cmpuint (frame->type, ==,
                            n_read % 3 != 0 ? SONDE_FRAME_ALLOCATION : SONDE_FRAME_LOG);
          if (n_read % 3 == 0)
            g_assert_cmpuint (((const SondeFrameLog *) frame)->severity, ==, (guint16) n_read);
          else
            {
              g_assert_cmpuint (block->address, ==, (n_read + 1) * 8);
              g_assert_cmpuint (block->n_addrs, ==, n_read % 7 == 0 ? 1000 : n_read % 61 + 1);
              for (guint i = 0; i < block->n_addrs; i++)
                g_assert_cmpuint (block->addrs[i], ==, n_read * 1000 + i);
            }
          sonde_ring_reader_release_piece (ring->reader);
          n_read++;
        }
      sonde_ring_reader_release (ring->reader);
      g_assert_cmpuint (n_read, ==, n + 1);
    }
  g_assert_cmpint (sonde_ring_reader_state (ring->reader), ==, SONDE_RING_IS_OPEN);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define TEST(name, function) g_test_add_func ("/ring-reader/" name, function)
  TEST ("refuses-lengths-that-no-frame-has", refuses_lengths_that_no_frame_has);
  TEST ("refuses-a-part-of-a-header", refuses_a_part_of_a_header);
  TEST ("refuses-positions-outside-of-the-ring", refuses_positions_outside_of_the_ring);
  TEST ("refuses-a-position-that-is-not-aligned", refuses_a_position_that_is_not_aligned);
  TEST ("refuses-a-position-that-moves-backwards", refuses_a_position_that_moves_backwards);
  TEST ("refuses-types-that-this-writer-may-not-send", refuses_types_that_this_writer_may_not_send);
  TEST ("refuses-an-end-that-is-none", refuses_an_end_that_is_none);
  TEST ("believes-no-header", believes_no_header);
  TEST ("believes-no-account-that-shrinks", believes_no_account_that_shrinks);
  TEST ("gives-frames-the-pid-that-is-true", gives_frames_the_pid_that_is_true);
  TEST ("gives-copies", gives_copies);
  TEST ("keeps-to-its-budget", keeps_to_its_budget);
  TEST ("takes-in-a-turn-what-was-there-at-its-beginning",
        takes_in_a_turn_what_was_there_at_its_beginning);
  TEST ("releases-a-turn-in-one-go", releases_a_turn_in_one_go);
  TEST ("releases-in-pieces", releases_in_pieces);
  TEST ("ends-at-the-end-frame", ends_at_the_end_frame);
  TEST ("drains-a-writer-that-died", drains_a_writer_that_died);
  TEST ("survives-a-thread-that-scribbles", survives_a_thread_that_scribbles);
  TEST ("closes-a-ring-for-an-impossible-record", closes_a_ring_for_an_impossible_record);
  TEST ("refuses-records-that-are-not-allowed", refuses_records_that_are_not_allowed);
  TEST ("gives-records-out-as-frames", gives_records_out_as_frames);
  TEST ("keeps-to-its-budget-with-records", keeps_to_its_budget_with_records);
  TEST ("keeps-to-its-budget-with-shared-stacks", keeps_to_its_budget_with_shared_stacks);
  TEST ("gives-records-out-in-short", gives_records_out_in_short);
  TEST ("keeps-to-its-budget-in-short", keeps_to_its_budget_in_short);
  TEST ("copies-in-batches", copies_in_batches);

  return g_test_run ();
}
