/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sums of heap events: that they are those of the events, in bounded memory; and their bytes.
 */
#include <malloc.h>
#include <string.h>
#include <zstd.h>

#include "client/heap/heap.h"
#include "client/model/heap-log-reader.h"
#include "client/model/heap-sums-reader.h"
#include "base/fd.h"
#include "daemon/base/socket.h"
#include "daemon/capture/program/heap-writer.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)

/* --- what both say of the same events --- */

typedef struct
{
  SondeHeapBook *book;
  SondeHeap *heap;
  const char *path;
  GPtrArray *segments; /* GByteArray; NULL: not kept */
  guint64 n_bytes;
  guint n_segments;
} Side;

/* So many random events, of few addresses: blocks are freed by others, replaced, and freed when
 * they are not there. */
typedef struct
{
  Side sides[2]; /* the log, and sums */
  SondeHeapBookProcess *processes[2][2];
} Pair;

static void
add_chunks (SondeHeap *heap, const char *path, const guint8 *bytes, gsize size_bytes)
{
  g_autofree guint64 *words = g_new0 (guint64, 4096);
  SondeFrameFileChunk *chunk = (SondeFrameFileChunk *) (void *) words;

  for (gsize at = 0, piece; at < size_bytes; at += piece)
    {
      piece = MIN (size_bytes - at, 16000);
      chunk->frame.type = SONDE_FRAME_FILE_CHUNK;
      g_strlcpy (chunk->path, path, sizeof chunk->path);
      chunk->data_len = (uint16_t) piece;
      memcpy (chunk->data, bytes + at, piece);
      sonde_heap_add_frame (heap, &chunk->frame);
    }
}

static void
take_segment (const uint8_t *bytes, gsize size_bytes, guint n_events, gpointer user_data)
{
  Side *self = user_data;

  self->n_bytes += size_bytes;
  self->n_segments++;
  if (self->segments != NULL)
    {
      GByteArray *copy = g_byte_array_new ();

      g_byte_array_append (copy, bytes, (guint) size_bytes);
      g_ptr_array_add (self->segments, copy);
    }
  if (self->heap != NULL)
    add_chunks (self->heap, self->path, bytes, size_bytes);
}

static SondeHeap *
new_heap (void)
{
  const SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;

  return sonde_heap_new (&options, 0);
}

static void
side_init (Side *self, gboolean is_sums, guint64 interval_bytes)
{
  *self = (Side){ .heap = new_heap (), .path = SONDE_HEAP_LOG_PATH };
  if (is_sums)
    {
      self->path = SONDE_HEAP_SUMS_PATH;
      self->book = sonde_heap_book_new_sums (interval_bytes, take_segment, self);
    }
  else
    self->book = sonde_heap_book_new (1, take_segment, self);
}

static void
side_clear (Side *self)
{
  sonde_heap_book_free (self->book);
  sonde_heap_free (self->heap);
  g_clear_pointer (&self->segments, g_ptr_array_unref);
}

static void
side_finish (Side *self)
{
  sonde_heap_book_turn (self->book, G_MAXINT64);
  sonde_heap_book_flush (self->book, G_MAXINT64);
  sonde_heap_finish (self->heap, NULL);
}

static void
tell (SondeHeapBook *book,
      SondeHeapBookProcess *process,
      gint32 tid,
      gint64 time_ns,
      guint64 address,
      guint64 size_bytes,
      guint stack)
{
  const guint64 addrs[] = { 0x1000 + stack, 0x2000 + stack % 7, 0x3000 };
  SondeHeapBookEvent event
      = { .time_ns = time_ns, .address = address, .size_bytes = size_bytes, .tid = tid };

  if (size_bytes > 0 && !sonde_heap_book_find_stack (book, stack + 1, &event.node))
    event.node = sonde_heap_book_add_stack (book, stack + 1, addrs, G_N_ELEMENTS (addrs));
  sonde_heap_book_add (book, process, &event);
}

static void
assert_amount (const SondeHeapAmount *one, const SondeHeapAmount *other, gboolean is_sampled)
{
  const double part = is_sampled ? 2e-3 : 0;

  g_assert_cmpfloat_with_epsilon (one->bytes, other->bytes, part * other->bytes + 1e-6);
  g_assert_cmpfloat_with_epsilon (one->blocks, other->blocks, part * other->blocks + 1e-6);
}

/* Of all stacks in both. Estimates are rounded for each block, so that another moment may be the
 * peak of them. */
static void
assert_same (const Pair *self, gboolean is_sampled)
{
  const SondeHeap *log = self->sides[0].heap;
  const SondeHeap *sums = self->sides[1].heap;
  const SondeHeapTotals *one = &log->tracker->totals;
  const SondeHeapTotals *other = &sums->tracker->totals;

  g_assert_cmpstr (sonde_heap_sums_reader_check (sums->sums), ==, NULL);
  g_assert_cmpstr (sonde_heap_log_reader_counts (log->log)->fault, ==, NULL);
  g_assert_cmpuint (sonde_heap_n_unreadable (sums), ==, 0);
  g_assert_cmpuint (sonde_heap_n_events (log), ==, sonde_heap_n_events (sums));
  g_assert_cmpuint (log->ends->len, ==, sums->ends->len);
  for (SondeHeapMetric i = 0; i < SONDE_HEAP_AT_FIRST; i++)
    assert_amount (&other->amounts[i], &one->amounts[i], is_sampled);
  assert_amount (&other->freed, &one->freed, is_sampled);
  if (!is_sampled)
    g_assert_cmpint (other->peak_ns, ==, one->peak_ns);
  g_assert_cmpuint (other->n_unknown_freed, ==, one->n_unknown_freed);
  g_assert_cmpuint (other->n_frees_missing, ==, one->n_frees_missing);
  for (guint32 i = 0; i < log->ends->len; i++)
    for (SondeHeapMetric metric = 0; metric < SONDE_HEAP_AT_FIRST; metric++)
      {
        g_assert_cmpuint (g_array_index (log->ends, guint32, i), ==,
                          g_array_index (sums->ends, guint32, i));
        if (metric != SONDE_HEAP_PEAK || !is_sampled)
          assert_amount (sonde_heap_tracker_amount (sums->tracker, i, metric),
                         sonde_heap_tracker_amount (log->tracker, i, metric), is_sampled);
      }
}

static void
tell_some (Pair *self, guint n)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);

  for (guint i = 0; i < n; i++)
    {
      gint64 time_ns = (gint64) i * SECOND_NS / 100;
      guint who = (guint) g_rand_int_range (random, 0, 2);
      gint32 tid = 10 * ((gint32) who + 1) + g_rand_int_range (random, 0, 3);
      guint64 address = 0x10000 + (guint64) g_rand_int_range (random, 0, 300) * 32;
      gint32 size = g_rand_int_range (random, -500, 1000);
      guint64 size_bytes = (guint64) MAX (size, 0);
      guint stack = (guint) g_rand_int_range (random, 0, 50);
      gboolean is_freed = g_rand_boolean (random);

      for (guint j = 0; j < 2; j++)
        {
          SondeHeapBook *book = self->sides[j].book;
          SondeHeapBookProcess *process = self->processes[j][who];

          tell (book, process, tid, time_ns, address, size_bytes, stack);
          if (is_freed)
            tell (book, process, tid, time_ns + 1, address, 0, 0);
          sonde_heap_book_turn (book, time_ns);
          sonde_heap_book_flush (book, time_ns);
          if (i % 1999 == 1998)
            sonde_heap_book_restart (book, time_ns);
        }
    }
}

static void
compare_sums (guint64 interval_bytes)
{
  Pair self;

  for (guint i = 0; i < 2; i++)
    {
      side_init (&self.sides[i], i == 1, interval_bytes);
      for (guint who = 0; who < 2; who++)
        self.processes[i][who]
            = sonde_heap_book_add_process (self.sides[i].book, 10 * ((gint32) who + 1));
    }
  if (interval_bytes > 0)
    sonde_heap_tracker_set_interval (self.sides[0].heap->tracker, interval_bytes);
  tell_some (&self, 20000);
  for (guint i = 0; i < 2; i++)
    side_finish (&self.sides[i]);
  assert_same (&self, interval_bytes > 0);
  g_assert_cmpfloat (self.sides[1].heap->tracker->totals.amounts[SONDE_HEAP_TEMPORARY].blocks, >,
                     0);
  g_assert_cmpfloat (self.sides[1].heap->tracker->totals.amounts[SONDE_HEAP_CROSS_THREAD].blocks, >,
                     0);
  for (guint i = 0; i < 2; i++)
    side_clear (&self.sides[i]);
}

static void
test_sums_are_those_of_events (void)
{
  compare_sums (0);
}

static void
test_sums_of_samples_are_estimates (void)
{
  compare_sums (300);
}

/* Sums tell no times and no threads: nobody may think that they were chosen by these. */
static void
test_sums_cannot_be_cut (void)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;

  options.filter.from_s = 1;
  for (guint i = 0; i < 2; i++)
    {
      SondeHeapBookProcess *process;
      Side self;

      side_init (&self, i == 1, 0);
      sonde_heap_free (self.heap);
      self.heap = sonde_heap_new (&options, 0);
      process = sonde_heap_book_add_process (self.book, 10);
      tell (self.book, process, 10, SECOND_NS, 0x1000, 100, 1);
      side_finish (&self);
      g_assert_true (sonde_heap_has_sums (self.heap) == (i == 1));
      g_assert_true (sonde_heap_cannot_be_cut (self.heap) == (i == 1));
      side_clear (&self);
    }
}

/* --- what becomes of processes --- */

static const SondeHeapSumsSegment *
header_of (const Side *self)
{
  return &sonde_heap_sums_reader_counts (self->heap->sums)->header;
}

static void
test_ended_processes_leave_their_sums (void)
{
  SondeHeapBookProcess *first, *second;
  const SondeHeapAmount *amounts;
  Side self;

  side_init (&self, TRUE, 0);
  first = sonde_heap_book_add_process (self.book, 10);
  tell (self.book, first, 10, 1000, 0x1000, 100, 1);
  tell (self.book, first, 10, 2000, 0x2000, 50, 1);
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_end_process (self.book, first);
  second = sonde_heap_book_add_process (self.book, 20);
  tell (self.book, second, 20, 3000, 0x1000, 200, 2);
  tell (self.book, second, 20, 4000, 0x1000, 0, 0);
  side_finish (&self);
  amounts = self.heap->tracker->totals.amounts;

  g_assert_cmpstr (sonde_heap_sums_reader_check (self.heap->sums), ==, NULL);
  g_assert_cmpuint ((guint64) amounts[SONDE_HEAP_ALLOCATED].bytes, ==, 350);
  g_assert_cmpuint ((guint64) amounts[SONDE_HEAP_LEFT].bytes, ==, 150);
  g_assert_cmpuint ((guint64) amounts[SONDE_HEAP_PEAK].bytes, ==, 200);
  g_assert_cmpuint (
      (guint64) sonde_heap_tracker_amount (self.heap->tracker, 0, SONDE_HEAP_PEAK)->bytes, ==, 0);
  g_assert_cmpint (self.heap->tracker->totals.peak_ns, ==, 3000);
  side_clear (&self);
}

static void
test_children_inherit (void)
{
  SondeHeapBookProcess *parent, *child;
  Side self;

  side_init (&self, TRUE, 0);
  parent = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 1; i <= 3; i++)
    tell (self.book, parent, 10, i, i * 0x1000, 10, 1);
  tell (self.book, parent, 10, 2000, 0x4000, 10, 1); /* behind the fork */
  sonde_heap_book_fork (self.book, 10, 20, 1000);
  child = sonde_heap_book_add_process (self.book, 20);
  tell (self.book, child, 20, 3000, 0x1000, 0, 0);
  tell (self.book, child, 20, 3001, 0x1000, 64, 2);
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_end_process (self.book, child);
  side_finish (&self);

  g_assert_cmpuint (header_of (&self)->n_inherited_freed, ==, 1);
  g_assert_cmpuint (header_of (&self)->inherited.blocks, ==, 2);
  g_assert_cmpuint (header_of (&self)->inherited.bytes, ==, 20);
  g_assert_cmpuint (header_of (&self)->left.bytes, ==, 64);
  g_assert_cmpuint (header_of (&self)->live.blocks, ==, 4);
  g_assert_cmpstr (sonde_heap_sums_reader_check (self.heap->sums), ==, NULL);
  side_clear (&self);
}

/* A child that executes a program has nothing of its parent's any more, whether it was told of the
 * fork by then or not; nor has who gets its pid. */
static void
test_programs_that_are_executed_inherit_nothing (void)
{
  for (guint is_waiting = 0; is_waiting < 2; is_waiting++)
    {
      SondeHeapBookProcess *parent, *executed;
      Side self;

      side_init (&self, TRUE, 0);
      parent = sonde_heap_book_add_process (self.book, 10);
      tell (self.book, parent, 10, 1, 0x1000, 10, 1);
      sonde_heap_book_fork (self.book, 10, 20, 1000);
      if (!is_waiting)
        sonde_heap_book_turn (self.book, 2000);
      sonde_heap_book_end_program (self.book, 20);
      executed = sonde_heap_book_add_process (self.book, 20);
      tell (self.book, executed, 20, 3000, 0x5000, 64, 2);
      sonde_heap_book_turn (self.book, G_MAXINT64);
      sonde_heap_book_end_process (self.book, executed);
      side_finish (&self);

      g_assert_cmpuint (header_of (&self)->inherited.blocks, ==, 0);
      g_assert_cmpuint (header_of (&self)->left.bytes, ==, 64);
      side_clear (&self);
    }
}

static void
test_addresses_that_mean_something_else_have_other_sums (void)
{
  SondeHeapBookProcess *process;
  Side self;

  side_init (&self, TRUE, 0);
  process = sonde_heap_book_add_process (self.book, 10);
  tell (self.book, process, 10, 1000, 0x1000, 8, 1);
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_remap (self.book, 10);
  g_assert_cmpuint (self.n_segments, ==, 1); /* it is known before what is mapped then */
  tell (self.book, process, 10, 2000, 0x2000, 8, 1);
  tell (self.book, process, 10, 3000, 0x1000, 0, 0);
  side_finish (&self);

  g_assert_cmpuint (sonde_heap_sums_reader_n_sums (self.heap->sums), ==, 2);
  for (guint32 i = 0; i < 2; i++)
    g_assert_cmpuint (sonde_heap_sum_live (sonde_heap_sums_reader_sum (self.heap->sums, i)).blocks,
                      ==, i);
  g_assert_cmpstr (sonde_heap_sums_reader_check (self.heap->sums), ==, NULL);
  side_clear (&self);
}

/* --- who reads them --- */

static void
test_a_late_reader_has_sums_from_the_beginning (void)
{
  SondeHeapBookProcess *process;
  const SondeHeapSumsCounts *counts;
  const SondeHeapAmount *amounts;
  Side self;

  side_init (&self, TRUE, 0);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 1; i <= 10; i++)
    tell (self.book, process, 10, i, i * 0x1000, 10, i);
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_restart (self.book, 50);
  sonde_heap_free (self.heap);
  self.heap = new_heap ();
  tell (self.book, process, 10, 100, 0x1000, 0, 0);
  tell (self.book, process, 10, 101, 0x1000, 30, 3);
  side_finish (&self);
  counts = sonde_heap_sums_reader_counts (self.heap->sums);
  amounts = self.heap->tracker->totals.amounts;

  g_assert_cmpuint (counts->log.n_events, ==, 2);
  g_assert_cmpuint (counts->log.n_told, ==, 2);
  g_assert_cmpuint (counts->n_before, ==, 10);
  g_assert_false (counts->is_complete);
  g_assert_cmpstr (sonde_heap_sums_reader_check (self.heap->sums), ==, NULL);
  g_assert_cmpuint (sonde_heap_sums_reader_n_sums (self.heap->sums), ==, 10);
  g_assert_cmpuint ((guint64) amounts[SONDE_HEAP_ALLOCATED].bytes, ==, 130);
  g_assert_cmpuint ((guint64) amounts[SONDE_HEAP_LEFT].bytes, ==, 120);
  g_assert_cmpuint ((guint64) amounts[SONDE_HEAP_PEAK].bytes, ==, 120);
  g_assert_cmpuint (self.heap->order.n_late, ==, 0);
  side_clear (&self);
}

static void
test_what_was_missed_is_made_good (void)
{
  SondeHeapBookProcess *process;
  const SondeHeapSumsCounts *counts;
  SondeHeap *heap;
  Side self;

  side_init (&self, TRUE, 0);
  heap = self.heap;
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 0; i < 4; i++)
    {
      tell (self.book, process, 10, i, 0x1000 * (i + 1), 10, i);
      sonde_heap_book_turn (self.book, G_MAXINT64);
      self.heap = i == 1 ? NULL : heap;
      if (i == 3)
        sonde_heap_book_restart (self.book, 5);
      else
        sonde_heap_book_flush (self.book, G_MAXINT64);
    }
  side_finish (&self);
  counts = sonde_heap_sums_reader_counts (heap->sums);

  g_assert_cmpstr (counts->log.fault, ==, "one before it is missing");
  g_assert_cmpuint (counts->log.n_told, <, counts->log.n_events);
  g_assert_cmpuint ((guint64) heap->tracker->totals.amounts[SONDE_HEAP_LEFT].bytes, ==, 40);
  side_clear (&self);
}

/* What no segment has yet is counted all the same. */
static void
test_events_count_before_they_are_told (void)
{
  SondeHeapBookProcess *process;
  Side self;

  side_init (&self, TRUE, 0);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 1; i <= 3; i++)
    tell (self.book, process, 10, i, i * 0x1000, 10, 1);
  g_assert_cmpuint (sonde_heap_book_n_untold (self.book), ==, 0);
  sonde_heap_book_turn (self.book, 2);
  g_assert_cmpuint (sonde_heap_book_n_untold (self.book), ==, 2);
  side_finish (&self);
  g_assert_cmpuint (sonde_heap_book_n_untold (self.book), ==, 0);
  side_clear (&self);
}

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  g_assert_cmpint (reason, ==, 0);
}

/* Until a frame finds no room, as nobody reads. */
static void
fill_stream (SondeRecorder *recorder)
{
  g_autofree guint8 *bytes = g_malloc0 (100000);
  guint64 n_missed = sonde_recorder_n_missed (recorder);

  while (sonde_recorder_n_missed (recorder) == n_missed)
    {
      sonde_recorder_segment (recorder, "other", bytes, 100000, 0);
      sonde_recorder_flush (recorder);
    }
}

static SondeHeap *
read_stream (GByteArray *stream)
{
  SondeHeap *heap = new_heap ();
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  g_assert_cmpint (sonde_reader_new (stream_source, stream, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    sonde_heap_add_frame (heap, frame);
  sonde_reader_free (reader);
  sonde_heap_finish (heap, NULL);
  return heap;
}

/* There is no time any more to wait for the next time that sums begin anew. */
static void
test_what_was_missed_before_the_end_is_made_good (void)
{
  const SondeMessageSink sink = { .sink_id = 1,
                                  .kind = SONDE_SINK_STREAM,
                                  .buffer_size_bytes = 1 << 20,
                                  .frames = SONDE_SINK_FRAMES_ALL };
  const SondeAsked asked
      = { .memory = SONDE_MEMORY_ALL, .memory_detail = SONDE_MEMORY_DETAIL_SUMS };
  g_autoptr (GByteArray) stream = g_byte_array_new ();
  g_autoptr (SondeHeapWriter) writer = NULL;
  RecorderFixture fixture;
  SondeHeapBookProcess *process;
  SondeHeap *heap;
  int fds[2];

  recorder_fixture_init (&fixture, sink_closed, NULL);
  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture.recorder, fds[0], &sink), ==, 0);
  writer = sonde_heap_writer_new (fixture.recorder, &asked);
  process = sonde_heap_book_add_process (sonde_heap_writer_book (writer), 10);
  for (guint i = 1; i <= 3; i++)
    {
      tell (sonde_heap_writer_book (writer), process, 10, i, i * 0x1000, 10, i);
      if (i == 3)
        break;
      fill_stream (fixture.recorder);
      sonde_heap_writer_turn (writer, i, (100 + i) * SECOND_NS);
    }
  stream_receive (fds[1], stream);
  sonde_recorder_flush (fixture.recorder);
  sonde_heap_writer_end (writer);
  sonde_recorder_finish (fixture.recorder, NULL);
  while (!stream_receive (fds[1], stream))
    g_main_context_iteration (NULL, FALSE);
  heap = read_stream (stream);

  g_assert_cmpuint (sonde_heap_sums_reader_counts (heap->sums)->header.n_allocated, ==, 3);
  g_assert_cmpuint (sonde_heap_sums_reader_n_sums (heap->sums), ==, 3);
  g_assert_cmpuint ((guint64) heap->tracker->totals.amounts[SONDE_HEAP_LEFT].bytes, ==, 30);
  sonde_heap_free (heap);
  recorder_fixture_clear (&fixture);
  sonde_clear_fd (&fds[1]);
}

/* --- what they cost --- */

/* Eight hours at a million events a second have as many stacks, addresses, threads and processes as
 * some minutes: what counts is how often each comes again. */
static void
test_memory_is_flat (void)
{
  enum
  {
    ROUNDS = 60,
    BLOCKS = 4000,
    STACKS = 3000,
  };
  SondeHeapBookProcess *process;
  gsize used_bytes[ROUNDS];
  guint64 n_bytes = 0;
  gint64 time_ns = 0;
  Side self;

  side_init (&self, TRUE, 0);
  g_clear_pointer (&self.heap, sonde_heap_free);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint round = 0; round < ROUNDS; round++)
    {
      SondeHeapBookProcess *passing
          = sonde_heap_book_add_process (self.book, 1000 + (gint32) round % 7);

      for (guint i = 0; i < BLOCKS; i++, time_ns += SECOND_NS / 200)
        {
          guint64 address = 0x100000 + i * 48;

          tell (self.book, process, 10 + (gint32) (i % 50), time_ns, address, 1 + i % 100,
                (round * 37 + i) % STACKS);
          tell (self.book, passing, 1000 + (gint32) round % 7, time_ns, address, 16, i % STACKS);
          tell (self.book, process, 10 + (gint32) (i % 30), time_ns + 1, address, 0, 0);
          sonde_heap_book_turn (self.book, time_ns + 1);
          if (i % 200 == 0)
            sonde_heap_book_flush (self.book, time_ns);
        }
      sonde_heap_book_end_process (self.book, passing);
      sonde_heap_book_flush (self.book, time_ns);
      used_bytes[round] = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
      if (round == ROUNDS / 10)
        n_bytes = self.n_bytes;
    }
  g_test_message ("%zu bytes after a tenth, %zu at the end; %" G_GUINT64_FORMAT
                  " bytes of segments in the rest",
                  used_bytes[ROUNDS / 10], used_bytes[ROUNDS - 1], self.n_bytes - n_bytes);
  /* What one round has more than another, of arrays that grow by doubling. */
  g_assert_cmpuint (used_bytes[ROUNDS - 1], <=, used_bytes[ROUNDS / 10] * 11 / 10);
  side_clear (&self);
}

/* Stacks without end: those without room count for callers, and nothing is missing in the sums. */
static void
test_stacks_without_room_count_for_callers (void)
{
  const guint n = SONDE_HEAP_SUMS_MAX_SUMS + 5000;
  SondeHeapBookProcess *process;
  Side self;

  side_init (&self, TRUE, 0);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 0; i < n; i++)
    {
      const guint64 addrs[] = { 0x100000 + i, 0x2000 };
      const SondeHeapBookEvent event
          = { .time_ns = i,
              .address = 0x1000,
              .size_bytes = 8,
              .tid = 10,
              .node = sonde_heap_book_add_stack (self.book, i + 1, addrs, 2) };

      sonde_heap_book_add (self.book, process, &event);
      tell (self.book, process, 10, i, 0x1000, 0, 0);
      sonde_heap_book_turn (self.book, i);
      if (i % 10000 == 0)
        sonde_heap_book_flush (self.book, i);
    }
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_flush (self.book, G_MAXINT64);
  g_assert_cmpuint (sonde_heap_book_losses (self.book).n_cut, >=, 5000 - 1);
  g_assert_cmpuint (sonde_heap_sums_reader_n_sums (self.heap->sums), <=,
                    SONDE_HEAP_SUMS_MAX_SUMS + SONDE_HEAP_SUMS_MAX_OTHERS);
  g_assert_cmpuint (header_of (&self)->n_allocated, ==, n);
  g_assert_cmpstr (sonde_heap_sums_reader_check (self.heap->sums), ==, NULL);
  side_clear (&self);
}

/* Processes that come and go, each with stacks of its own, as address spaces are random: the tree
 * is made anew when it is nearly full, and those who stay have all of their sums. */
static void
test_stacks_of_the_past_are_forgotten (void)
{
  enum
  {
    PROCESSES = 450,
    STACKS = 2000,
  };
  SondeHeapBookProcess *staying;
  guint64 seed;
  Side self;

  side_init (&self, TRUE, 0);
  staying = sonde_heap_book_add_process (self.book, 1);
  seed = sonde_heap_book_seed (self.book);
  for (gint32 i = 0; i < PROCESSES; i++)
    {
      SondeHeapBookProcess *passing = sonde_heap_book_add_process (self.book, 100 + i);
      gint64 time_ns = i * SECOND_NS;

      tell (self.book, staying, 1, time_ns, 0x1000 * ((guint64) i + 1), 100, (guint) i % 3);
      for (guint j = 0; j < STACKS; j++)
        {
          const guint64 addrs[] = { ((guint64) i + 1) << 32 | j, (guint64) i << 16 };
          const SondeHeapBookEvent event
              = { .time_ns = time_ns,
                  .address = 0x1000 * ((guint64) j + 1),
                  .size_bytes = 8,
                  .tid = 100 + i,
                  .node = sonde_heap_book_add_stack (self.book, (guint64) i << 32 | j, addrs, 2) };

          sonde_heap_book_add (self.book, passing, &event);
        }
      sonde_heap_book_turn (self.book, time_ns);
      sonde_heap_book_end_process (self.book, passing);
      for (guint j = 0; j < 5; j++)
        sonde_heap_book_flush (self.book, time_ns);
    }
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_flush (self.book, G_MAXINT64);
  g_assert_cmpuint (sonde_heap_book_seed (self.book), !=, seed);
  g_assert_cmpuint (sonde_heap_book_losses (self.book).n_cut, ==, 0);
  g_assert_cmpuint (header_of (&self)->live.bytes, ==, PROCESSES * 100);
  g_assert_cmpuint (header_of (&self)->left.blocks, ==, PROCESSES * STACKS);
  side_clear (&self);
}

/* One program that has nearly all of the tree: there is nothing to forget, however often it is
 * looked. */
static void
test_stacks_that_somebody_has_are_not_looked_at_again_and_again (void)
{
  enum
  {
    STACKS = 220000,
    DEPTH = 5,
  };
  SondeHeapBookProcess *process;
  uint64_t seed;
  Side self;

  side_init (&self, TRUE, 0);
  g_clear_pointer (&self.heap, sonde_heap_free);
  process = sonde_heap_book_add_process (self.book, 1);
  for (guint i = 0; i < STACKS; i++)
    {
      guint64 addrs[DEPTH];
      SondeHeapBookEvent event
          = { .time_ns = i, .address = 0x1000 * ((guint64) i + 1), .size_bytes = 8, .tid = 1 };

      for (guint j = 0; j < DEPTH; j++)
        addrs[j] = 0x100000 + i;
      event.node = sonde_heap_book_add_stack (self.book, i + 1, addrs, DEPTH);
      sonde_heap_book_add (self.book, process, &event);
    }
  sonde_heap_book_turn (self.book, STACKS);
  sonde_heap_book_flush (self.book, STACKS);
  seed = sonde_heap_book_seed (self.book);
  for (guint i = 0; i < 20; i++)
    sonde_heap_book_flush (self.book, STACKS + i);
  g_assert_cmpuint (sonde_heap_book_seed (self.book), ==, seed);
  g_assert_cmpuint (sonde_heap_book_losses (self.book).n_cut, >, 0);
  side_clear (&self);
}

/* --- hostile bytes --- */

/* The segments that one side wrote. */
static GPtrArray *
make_segments (void)
{
  SondeHeapBookProcess *process;
  GPtrArray *segments;
  Side self;

  side_init (&self, TRUE, 0);
  self.segments = g_ptr_array_new_with_free_func ((GDestroyNotify) g_byte_array_unref);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 0; i < 40; i++)
    {
      tell (self.book, process, 10, i, 0x1000 * (i + 1), 10 + i, i % 6);
      if (i % 10 == 9)
        {
          sonde_heap_book_turn (self.book, G_MAXINT64);
          sonde_heap_book_flush (self.book, G_MAXINT64);
        }
    }
  segments = g_steal_pointer (&self.segments);
  side_clear (&self);
  g_assert_cmpuint (segments->len, ==, 4);
  return segments;
}

/* Unpacked, changed and packed again. */
static GByteArray *
repack (const GByteArray *segment, gsize at, const void *bytes, gsize n, guint32 n_events)
{
  g_autofree guint8 *plain = g_malloc (SONDE_HEAP_SUMS_MAX_BYTES);
  gsize plain_bytes
      = ZSTD_decompress (plain, SONDE_HEAP_SUMS_MAX_BYTES, segment->data + 16, segment->len - 16);
  gsize bound = ZSTD_compressBound (plain_bytes);
  GByteArray *made = g_byte_array_new ();
  SondeHeapLabel label;

  g_assert_false (ZSTD_isError (plain_bytes));
  g_assert_cmpuint (at + n, <=, plain_bytes);
  memcpy (plain + at, bytes, n);
  memcpy (&label, segment->data, sizeof label);
  g_byte_array_set_size (made, (guint) (sizeof label + bound));
  label.packed_bytes
      = (guint32) ZSTD_compress (made->data + sizeof label, bound, plain, plain_bytes, 1);
  label.n_events = n_events > 0 ? n_events : label.n_events;
  memcpy (made->data, &label, sizeof label);
  g_byte_array_set_size (made, (guint) sizeof label + label.packed_bytes);
  return made;
}

static const char *
fault_of (const GByteArray *segment, guint64 *n_unreadable)
{
  const SondeHeapSumsFuncs funcs = { NULL, NULL };
  g_autoptr (SondeHeapSumsReader) reader = sonde_heap_sums_reader_new (&funcs, NULL);
  g_autofree guint64 *words = g_new0 (guint64, 8192);
  SondeFrameFileChunk *chunk = (SondeFrameFileChunk *) (void *) words;

  chunk->frame.type = SONDE_FRAME_FILE_CHUNK;
  g_strlcpy (chunk->path, SONDE_HEAP_SUMS_PATH, sizeof chunk->path);
  chunk->data_len = (uint16_t) segment->len;
  memcpy (chunk->data, segment->data, segment->len);
  sonde_heap_sums_reader_add (reader, &chunk->frame);
  *n_unreadable = sonde_heap_sums_reader_counts (reader)->log.n_unreadable;
  return sonde_heap_sums_reader_counts (reader)->log.fault;
}

static void
test_refuses_what_cannot_be (void)
{
  static const struct
  {
    gsize at;
    guint64 value;
    gsize n;
    guint32 n_events;
    const char *fault;
  } rows[] = {
    { 0, SONDE_HEAP_SUMS_VERSION, 4, 0, NULL },
    { 0, 2, 4, 0, "it has another version" },
    { 12, 2, 4, 0, "its header is wrong" }, /* whole? */
    { 16, 0, 4, 0, "its header is wrong" }, /* scale */
    { 16, SONDE_HEAP_SUMS_MAX_SCALE + 1, 4, 0, "its header is wrong" },
    { 20, 1, 4, 0, "its header is wrong" },     /* padding */
    { 8, 1, 4, 0, "one before it is missing" }, /* sequence */
    { 32, 0, 8, 0, "it counts fewer events than it says" },
    { 0, SONDE_HEAP_SUMS_VERSION, 4, 1000, "it counts fewer events than it says" },
    { 168, 0x7FFFFFFF, 4, 0, "a column reaches past its end" },
    { 180, 1, 4, 0, "something is behind its columns" },
    { 184, 0xFFFFFFFFFFFFFFFF, 8, 0, "an address or a node is wrong" },
  };
  g_autoptr (GPtrArray) segments = make_segments ();

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 value = GUINT64_TO_LE (rows[i].value);
      g_autoptr (GByteArray) made = repack (g_ptr_array_index (segments, 0), rows[i].at, &value,
                                            rows[i].n, rows[i].n_events);
      guint64 n_unreadable;

      g_test_message ("row %u", i);
      g_assert_cmpstr (fault_of (made, &n_unreadable), ==, rows[i].fault);
      g_assert_cmpuint (n_unreadable, ==,
                        rows[i].fault == NULL  ? 0
                        : rows[i].n_events > 0 ? rows[i].n_events
                                               : 10);
    }
}

/* A column of numbers that are out of range. */
static void
test_refuses_stacks_and_values_that_cannot_be (void)
{
  g_autoptr (GPtrArray) segments = make_segments ();
  GByteArray *segment = g_ptr_array_index (segments, 0);
  g_autofree guint8 *plain = g_malloc (SONDE_HEAP_SUMS_MAX_BYTES);
  SondeHeapSumsSegment header;
  gsize at_stacks, at_values;
  guint64 n_unreadable;
  const guint8 far = 0x7E, flags = 2, never = 0x80;

  g_assert_false (ZSTD_isError (
      ZSTD_decompress (plain, SONDE_HEAP_SUMS_MAX_BYTES, segment->data + 16, segment->len - 16)));
  memcpy (&header, plain, sizeof header);
  at_stacks = sizeof header + header.column_bytes[0] + header.column_bytes[1];
  at_values = at_stacks + header.column_bytes[2];
  {
    g_autoptr (GByteArray) made = repack (segment, at_stacks + 2, &far, 1, 0); /* node */

    g_assert_cmpstr (fault_of (made, &n_unreadable), ==,
                     "a stack is wrong, or its frames are more than it has bytes for");
  }
  {
    g_autoptr (GByteArray) made = repack (segment, at_values, &far, 1, 0); /* stack */

    g_assert_cmpstr (fault_of (made, &n_unreadable), ==, "a stack's sums are wrong");
  }
  {
    g_autoptr (GByteArray) made = repack (segment, at_values + 1, &flags, 1, 0);

    g_assert_cmpstr (fault_of (made, &n_unreadable), ==, "a stack's sums are wrong");
  }
  {
    g_autoptr (GByteArray) made
        = repack (segment, at_values + header.column_bytes[3] - 1, &never, 1, 0);

    g_assert_cmpstr (fault_of (made, &n_unreadable), ==, "a stack's sums are wrong");
  }
}

/* A reader's work is bounded by the bytes that it gets. */
static void
test_refuses_what_is_too_dense (void)
{
  g_autofree guint8 *plain = g_malloc0 (SONDE_HEAP_SUMS_MAX_BYTES);
  gsize bound = ZSTD_compressBound (SONDE_HEAP_SUMS_MAX_BYTES);
  g_autoptr (GByteArray) made = g_byte_array_new ();
  SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, 5, 0 };
  guint64 n_unreadable;

  g_byte_array_set_size (made, (guint) (sizeof label + bound));
  label.packed_bytes = (guint32) ZSTD_compress (made->data + sizeof label, bound, plain,
                                                SONDE_HEAP_SUMS_MAX_BYTES, 3);
  memcpy (made->data, &label, sizeof label);
  g_byte_array_set_size (made, (guint) sizeof label + label.packed_bytes);
  g_assert_cmpstr (fault_of (made, &n_unreadable), ==, "it is more than it has bytes for");
  g_assert_cmpuint (n_unreadable, ==, 5);
  made->data[12] = 0;
  g_assert_cmpstr (fault_of (made, &n_unreadable), ==, "it is longer than it says");
}

static void
test_survives_any_flip_and_any_end (void)
{
  g_autoptr (GPtrArray) segments = make_segments ();

  for (guint i = 0; i < segments->len; i++)
    {
      GByteArray *segment = g_ptr_array_index (segments, i);

      for (guint bit = 0; bit < segment->len * 8; bit++)
        {
          SondeHeap *heap = new_heap ();

          for (guint j = 0; j < segments->len; j++)
            {
              GByteArray *other = g_ptr_array_index (segments, j);

              if (j == i)
                other->data[bit / 8] ^= (guint8) (1u << bit % 8);
              add_chunks (heap, SONDE_HEAP_SUMS_PATH, other->data,
                          j == i && bit % 3 == 0 ? bit / 8 : other->len);
              if (j == i)
                other->data[bit / 8] ^= (guint8) (1u << bit % 8);
            }
          sonde_heap_finish (heap, NULL);
          sonde_heap_sums_reader_check (heap->sums);
          sonde_heap_free (heap);
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap-sums/cannot-be-cut", test_sums_cannot_be_cut);
  g_test_add_func ("/heap-sums/are-those-of-events", test_sums_are_those_of_events);
  g_test_add_func ("/heap-sums/of-samples-are-estimates", test_sums_of_samples_are_estimates);
  g_test_add_func ("/heap-sums/of-ended-processes-stay", test_ended_processes_leave_their_sums);
  g_test_add_func ("/heap-sums/children-inherit", test_children_inherit);
  g_test_add_func ("/heap-sums/programs-that-are-executed-inherit-nothing",
                   test_programs_that_are_executed_inherit_nothing);
  g_test_add_func ("/heap-sums/addresses-that-mean-something-else",
                   test_addresses_that_mean_something_else_have_other_sums);
  g_test_add_func ("/heap-sums/a-late-reader-has-them-from-the-beginning",
                   test_a_late_reader_has_sums_from_the_beginning);
  g_test_add_func ("/heap-sums/what-was-missed-is-made-good", test_what_was_missed_is_made_good);
  g_test_add_func ("/heap-sums/what-was-missed-before-the-end-is-made-good",
                   test_what_was_missed_before_the_end_is_made_good);
  g_test_add_func ("/heap-sums/events-count-before-they-are-told",
                   test_events_count_before_they_are_told);
  g_test_add_func ("/heap-sums/memory-is-flat", test_memory_is_flat);
  g_test_add_func ("/heap-sums/stacks-without-room-count-for-callers",
                   test_stacks_without_room_count_for_callers);
  g_test_add_func ("/heap-sums/stacks-of-the-past-are-forgotten",
                   test_stacks_of_the_past_are_forgotten);
  g_test_add_func ("/heap-sums/stacks-that-somebody-has-are-not-looked-at-again-and-again",
                   test_stacks_that_somebody_has_are_not_looked_at_again_and_again);
  g_test_add_func ("/heap-sums/refuses-what-cannot-be", test_refuses_what_cannot_be);
  g_test_add_func ("/heap-sums/refuses-stacks-and-values-that-cannot-be",
                   test_refuses_stacks_and_values_that_cannot_be);
  g_test_add_func ("/heap-sums/refuses-what-is-too-dense", test_refuses_what_is_too_dense);
  g_test_add_func ("/heap-sums/survives-any-flip-and-any-end", test_survives_any_flip_and_any_end);
  return g_test_run ();
}
