/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The log of heap events, from who writes it to who reads it, and what else it may be. */
#include "client/model/heap-log-reader.h"
#include "daemon/capture/heap/heap-log.h"

#include <string.h>
#include <zstd.h>

#define TICK_NS   1000
#define MAX_PIECE 5000 /* bytes of a FILE_CHUNK frame */
#define N_STACKS  40
#define MAX_DEPTH 12
#define START_NS  INT64_C (1000000000)

/* An event as it is told, and as it is to be read. */
typedef struct
{
  gint64 time_ns;
  guint64 address;
  gint64 size_bytes;
  gint32 pid;
  gint32 tid;
  guint n_addrs;
  guint64 addrs[MAX_DEPTH];
} Event;

typedef struct
{
  SondeStackTree *tree;
  GArray *threads;
  SondeHeapLog *log;
  GPtrArray *segments; /* GByteArray, with labels */
  GArray *wanted;      /* Event */
  GArray *seen;        /* Event */
  SondeHeapLogReader *reader;
} Fixture;

static void
take_segment (const uint8_t *bytes, gsize size_bytes, guint n_events, gpointer user_data)
{
  Fixture *self = user_data;
  GByteArray *segment = g_byte_array_new ();
  SondeHeapLabel label;

  g_byte_array_append (segment, bytes, (guint) size_bytes);
  memcpy (&label, bytes, sizeof label);
  g_assert_cmpuint (label.n_events, ==, n_events);
  g_ptr_array_add (self->segments, segment);
}

static void
take_event (const SondeFrameAllocation *allocation, SondeHeapLogStack *stack, gpointer user_data)
{
  Fixture *self = user_data;
  Event event = { .time_ns = allocation->frame.time_ns,
                  .address = allocation->address,
                  .size_bytes = allocation->size_bytes,
                  .pid = allocation->frame.pid,
                  .tid = allocation->tid,
                  .n_addrs = stack != NULL ? stack->n_addrs : 0 };

  g_assert_cmpuint (allocation->frame.type, ==, SONDE_FRAME_ALLOCATION);
  g_assert_cmpuint (allocation->frame.len, ==, sizeof *allocation);
  g_assert_cmpuint (allocation->n_addrs, ==, 0);
  g_assert_true ((stack != NULL) == (allocation->size_bytes > 0));
  if (stack != NULL)
    memcpy (event.addrs, stack->addrs, MIN (event.n_addrs, MAX_DEPTH) * 8);
  g_array_append_val (self->seen, event);
}

static void
ignore_event (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
}

static void
set_up (Fixture *self)
{
  memset (self, 0, sizeof *self);
  self->tree = sonde_stack_tree_new (SONDE_HEAP_LOG_MAX_NODES);
  self->threads = g_array_new (FALSE, FALSE, sizeof (SondeHeapLogThread));
  self->log = sonde_heap_log_new (self->tree, self->threads, TICK_NS, take_segment, self);
  self->segments = g_ptr_array_new_with_free_func ((GDestroyNotify) g_byte_array_unref);
  self->wanted = g_array_new (FALSE, TRUE, sizeof (Event));
  self->seen = g_array_new (FALSE, TRUE, sizeof (Event));
  self->reader = sonde_heap_log_reader_new (take_event, self);
  for (gint32 i = 0; i < 5; i++)
    {
      SondeHeapLogThread thread = { 100 + i / 2, 100 + i };

      g_array_append_val (self->threads, thread);
    }
}

static void
tear_down (Fixture *self)
{
  sonde_heap_log_free (self->log);
  sonde_stack_tree_free (self->tree);
  g_array_unref (self->threads);
  g_ptr_array_unref (self->segments);
  g_array_unref (self->wanted);
  g_array_unref (self->seen);
  sonde_heap_log_reader_free (self->reader);
}

static void
feed_bytes (SondeHeapLogReader *reader, const guint8 *bytes, gsize size_bytes)
{
  g_autofree guint64 *words = g_malloc0 (sizeof (SondeFrameFileChunk) + MAX_PIECE + 8);
  SondeFrameFileChunk *chunk = (SondeFrameFileChunk *) (void *) words;

  do
    {
      gsize piece = MIN (size_bytes, MAX_PIECE);

      chunk->frame.type = SONDE_FRAME_FILE_CHUNK;
      g_strlcpy (chunk->path, SONDE_HEAP_LOG_PATH, sizeof chunk->path);
      chunk->data_len = (uint16_t) piece;
      memcpy (chunk->data, bytes, piece);
      sonde_heap_log_reader_add (reader, &chunk->frame);
      bytes += piece;
      size_bytes -= piece;
    }
  while (size_bytes > 0);
}

static void
feed (Fixture *self, guint from)
{
  for (guint i = from; i < self->segments->len; i++)
    {
      const GByteArray *segment = g_ptr_array_index (self->segments, i);

      feed_bytes (self->reader, segment->data, segment->len);
    }
}

static void
want (Fixture *self, guint32 thread, gint64 time_ns, guint64 address, gint64 size_bytes)
{
  const SondeHeapLogThread *at = &g_array_index (self->threads, SondeHeapLogThread, thread);
  Event event = {
    .time_ns = time_ns, .address = address, .size_bytes = size_bytes, .pid = at->pid, .tid = at->tid
  };

  g_array_append_val (self->wanted, event);
}

/* Random events, of which frees are of any block that lives, and flushes and epochs between them.
 */
static void
write_events (Fixture *self, guint n)
{
  g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (guint64));
  guint64 stacks[N_STACKS][MAX_DEPTH];
  gint64 time_ns = START_NS;

  for (guint i = 0; i < N_STACKS; i++)
    for (guint j = 0; j < MAX_DEPTH; j++)
      stacks[i][j] = j > 5 ? 0x400000 + j : 0x7f0000000000 + (guint64) (i / 3 * 16 + j) * 64;
  for (guint i = 0; i < n; i++)
    {
      guint32 thread = (guint32) g_test_rand_int_range (0, 8) % self->threads->len;
      guint what = (guint) g_test_rand_int_range (0, 100);
      guint64 number;

      time_ns += g_test_rand_int_range (0, 3) * TICK_NS;
      if (what < 45 && live->len > 0)
        {
          guint at = (guint) g_test_rand_int_range (0, (gint32) live->len);

          number = g_array_index (live, guint64, at);
          g_array_remove_index_fast (live, at);
          sonde_heap_log_add_free (self->log, thread, time_ns, number);
          want (self, thread, time_ns, SONDE_HEAP_LOG_ADDRESS (number), 0);
        }
      else if (what < 47)
        {
          sonde_heap_log_add_other (self->log, thread, time_ns, 0x1000 + i * 8);
          want (self, thread, time_ns, 0x1000 + i * 8, 0);
        }
      else
        {
          guint stack = (guint) g_test_rand_int_range (0, N_STACKS);
          guint depth = stack % (MAX_DEPTH + 1);
          uint32_t node
              = sonde_stack_tree_add (self->tree, stacks[stack] + MAX_DEPTH - depth, depth);
          guint64 size_bytes = (guint64) g_test_rand_int_range (1, 10) << (stack % 50);
          guint64 replaced
              = what == 99 && live->len > 0 ? g_array_index (live, guint64, live->len - 1) : 0;
          Event *event;

          number
              = sonde_heap_log_add_block (self->log, thread, time_ns, node, size_bytes, replaced);
          if (replaced == 0)
            g_array_append_val (live, number);
          else
            g_assert_cmpuint (number, ==, replaced);
          want (self, thread, time_ns, SONDE_HEAP_LOG_ADDRESS (number), (gint64) size_bytes);
          event = &g_array_index (self->wanted, Event, self->wanted->len - 1);
          event->n_addrs = depth;
          memcpy (event->addrs, stacks[stack] + MAX_DEPTH - depth, depth * 8);
        }
      if (what == 98 && i % 7 == 0)
        sonde_heap_log_flush (self->log);
      if (what == 97 && i % 31 == 0)
        sonde_heap_log_restart (self->log);
    }
  sonde_heap_log_flush (self->log);
}

static void
assert_event (const Event *seen, const Event *wanted)
{
  g_assert_cmpint (seen->time_ns, ==, wanted->time_ns);
  g_assert_cmphex (seen->address, ==, wanted->address);
  g_assert_cmpint (seen->size_bytes, ==, wanted->size_bytes);
  g_assert_cmpint (seen->pid, ==, wanted->pid);
  g_assert_cmpint (seen->tid, ==, wanted->tid);
  g_assert_cmpmem (seen->addrs, seen->n_addrs * 8, wanted->addrs, wanted->n_addrs * 8);
}

/* --- what is right --- */

static void
test_reads_what_was_written (void)
{
  const SondeHeapLogCounts *counts;
  Fixture self;

  set_up (&self);
  write_events (&self, 50000);
  g_assert_cmpuint (self.segments->len, >, 20);
  feed (&self, 0);
  counts = sonde_heap_log_reader_counts (self.reader);
  g_assert_null (counts->fault);
  g_assert_cmpuint (counts->n_events, ==, 50000);
  g_assert_cmpuint (counts->n_told, ==, 50000);
  g_assert_cmpuint (counts->n_unreadable, ==, 0);
  g_assert_cmpuint (counts->n_segments, ==, self.segments->len);
  g_assert_cmpuint (self.seen->len, ==, self.wanted->len);
  for (guint i = 0; i < self.seen->len; i++)
    assert_event (&g_array_index (self.seen, Event, i), &g_array_index (self.wanted, Event, i));
  tear_down (&self);
}

static void
test_rounds_times_down (void)
{
  static const gint64 told[]
      = { 5, 5 + TICK_NS - 1, 5 + TICK_NS, 6, 5 + 9 * TICK_NS, 4, 5 - TICK_NS };
  static const gint64 wanted[]
      = { 5, 5, 5 + TICK_NS, 5, 5 + 9 * TICK_NS, 5 - TICK_NS, 5 - TICK_NS };
  Fixture self;

  set_up (&self);
  for (guint i = 0; i < G_N_ELEMENTS (told); i++)
    sonde_heap_log_add_block (self.log, 0, told[i], 0, 1, 0);
  sonde_heap_log_flush (self.log);
  feed (&self, 0);
  for (guint i = 0; i < G_N_ELEMENTS (told); i++)
    g_assert_cmpint (g_array_index (self.seen, Event, i).time_ns, ==, wanted[i]);
  tear_down (&self);
}

/* A segment ends before it is more than a reader takes. */
static void
test_writes_segments_that_may_be_read (void)
{
  Fixture self;

  set_up (&self);
  for (guint i = 0; i < SONDE_HEAP_LOG_MAX_EVENTS + 10; i++)
    sonde_heap_log_add_other (self.log, 0, 0, i);
  for (guint i = 0; i < 60000; i++)
    {
      guint64 addrs[MAX_DEPTH];

      for (guint j = 0; j < MAX_DEPTH; j++)
        addrs[j] = (guint64) g_test_rand_int () << 32 | (guint32) g_test_rand_int ();
      sonde_heap_log_add_block (self.log, 0, 0, sonde_stack_tree_add (self.tree, addrs, MAX_DEPTH),
                                i + 1, 0);
    }
  sonde_heap_log_flush (self.log);
  feed (&self, 0);
  g_assert_null (sonde_heap_log_reader_counts (self.reader)->fault);
  g_assert_cmpuint (self.seen->len, ==, SONDE_HEAP_LOG_MAX_EVENTS + 10 + 60000);
  tear_down (&self);
}

static void
test_cuts_stacks_without_room (void)
{
  const uint64_t addrs[] = { 1, 2, 3, 4 };
  uint64_t deep[SONDE_STACK_TREE_MAX_DEPTH + 5] = { 0 };
  g_autoptr (SondeStackTree) tree = sonde_stack_tree_new (4);
  g_autoptr (SondeStackTree) large = sonde_stack_tree_new (100000);
  uint32_t node = sonde_stack_tree_add (tree, addrs + 1, 3);

  g_assert_cmpuint (tree->n_cut, ==, 0);
  g_assert_cmpuint (sonde_stack_tree_add (tree, addrs, 4), ==, node);
  g_assert_cmpuint (sonde_stack_tree_add (tree, addrs, 2), ==, 0);
  g_assert_cmpuint (tree->n_cut, ==, 2);
  g_assert_cmpuint (tree->nodes->len, ==, 4);
  sonde_stack_tree_add (large, deep, G_N_ELEMENTS (deep));
  g_assert_cmpuint (large->nodes->len, ==, 1 + SONDE_STACK_TREE_MAX_DEPTH);
  g_assert_cmpuint (large->n_cut, ==, 1);
}

/* --- what is missing --- */

static void
test_reads_on_with_the_next_epoch (void)
{
  const SondeHeapLogCounts *counts;
  Fixture self;

  set_up (&self);
  for (guint epoch = 0; epoch < 3; epoch++)
    {
      for (guint i = 0; i < 3; i++)
        {
          sonde_heap_log_add_block (self.log, 0, 0, 0, 1 + i, 0);
          sonde_heap_log_flush (self.log);
        }
      sonde_heap_log_restart (self.log);
    }
  g_assert_cmpuint (self.segments->len, ==, 9);
  g_ptr_array_remove_index (self.segments, 1);
  feed (&self, 0);
  counts = sonde_heap_log_reader_counts (self.reader);
  g_assert_cmpuint (counts->n_events, ==, 8);
  g_assert_cmpuint (counts->n_told, ==, 7);
  g_assert_cmpuint (counts->n_unreadable, ==, 1);
  g_assert_cmpstr (counts->fault, ==, "one before it is missing");
  /* numbers of blocks go on */
  g_assert_cmphex (g_array_index (self.seen, Event, 6).address, ==, SONDE_HEAP_LOG_ADDRESS (9));
  tear_down (&self);
}

/* Each byte may be the last. */
static void
test_survives_any_end (void)
{
  const GByteArray *segment;
  Fixture self;

  set_up (&self);
  write_events (&self, 300);
  segment = g_ptr_array_index (self.segments, 0);
  for (guint n = 0; n < segment->len; n++)
    {
      g_autoptr (SondeHeapLogReader) reader = sonde_heap_log_reader_new (take_event, &self);
      const SondeHeapLogCounts *counts = sonde_heap_log_reader_counts (reader);
      const GByteArray *next = g_ptr_array_index (self.segments, self.segments->len > 1 ? 1 : 0);

      feed_bytes (reader, segment->data, n);
      g_assert_cmpuint (counts->n_told, ==, 0);
      /* and another behind it */
      feed_bytes (reader, next->data, next->len);
      g_assert_cmpuint (counts->n_told + counts->n_unreadable, ==, counts->n_events);
    }
  tear_down (&self);
}

/* --- what lies --- */

/* A segment of @n columns, by hand, packed. */
static GByteArray *
make_segment (const SondeHeapSegment *header,
              const char *const columns[SONDE_HEAP_N_COLUMNS],
              const gsize sizes[SONDE_HEAP_N_COLUMNS],
              guint n_events)
{
  g_autoptr (GByteArray) plain = g_byte_array_new ();
  GByteArray *segment = g_byte_array_new ();
  SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, n_events, 0 };

  g_byte_array_append (plain, (const guint8 *) header, sizeof *header);
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    g_byte_array_append (plain, (const guint8 *) columns[i], (guint) sizes[i]);
  g_byte_array_set_size (segment, (guint) (sizeof label + ZSTD_compressBound (plain->len)));
  label.packed_bytes = (guint32) ZSTD_compress (
      segment->data + sizeof label, segment->len - sizeof label, plain->data, plain->len, 19);
  memcpy (segment->data, &label, sizeof label);
  g_byte_array_set_size (segment, (guint) sizeof label + label.packed_bytes);
  return segment;
}

/* One pc, node, size and thread each; then @events and @times. */
static const char *
fault_of (const SondeHeapSegment *mended,
          const char *const *definitions,
          const char *events,
          const char *times,
          guint n_events)
{
  static const char *const plain[] = { "\x02", "_\x00", "\x02\x10", "\x05\x06" };
  static const gsize lengths[] = { 1, 2, 2, 2 };
  SondeHeapSegment header = { .version = 1, .tick_ns = 10, .time_ns = 5 };
  const char *columns[SONDE_HEAP_N_COLUMNS];
  gsize sizes[SONDE_HEAP_N_COLUMNS];
  g_autoptr (SondeHeapLogReader) reader = sonde_heap_log_reader_new (NULL, NULL);
  const SondeHeapLogCounts *counts = sonde_heap_log_reader_counts (reader);
  g_autoptr (GByteArray) segment = NULL;

  if (mended != NULL)
    header = *mended;
  for (guint i = 0; i < 4; i++)
    {
      columns[i] = definitions != NULL && definitions[i] != NULL ? definitions[i] : plain[i];
      sizes[i]
          = definitions != NULL && definitions[i] != NULL ? strlen (definitions[i]) : lengths[i];
    }
  columns[1] = definitions != NULL && definitions[1] != NULL ? definitions[1] : "\x00\x00";
  columns[SONDE_HEAP_COLUMN_EVENTS] = events;
  sizes[SONDE_HEAP_COLUMN_EVENTS] = events[0] == '\0' ? 0 : strlen (events);
  columns[SONDE_HEAP_COLUMN_TIMES] = times;
  sizes[SONDE_HEAP_COLUMN_TIMES] = strlen (times);
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    header.column_bytes[i] += (uint32_t) sizes[i];
  segment = make_segment (&header, columns, sizes, n_events);
  feed_bytes (reader, segment->data, segment->len);
  g_assert_cmpuint (counts->n_events, ==, n_events);
  g_assert_cmpuint (counts->n_told + counts->n_unreadable, ==, n_events);
  return counts->fault;
}

/* Numbers of events as text, so that none is 0: thread 0 is "\x83\x00" in two bytes, which ends a
 * C string. A thread of a longer number in its place: "\x83\x80\x00" does, too; so threads and
 * sizes are counted from 1 here. */
static void
test_refuses_what_cannot_be (void)
{
  const SondeHeapSegment header = { .version = 1, .tick_ns = 10 };
  SondeHeapSegment bad;
  static const char *const no_pc[] = { NULL, "\x01\x7f", NULL, NULL };
  static const char *const no_caller[] = { NULL, "\x09\x01", NULL, NULL };
  static const char *const half_node[] = { NULL, "\x01", NULL, NULL };
  static const char *const no_node[] = { NULL, NULL, "\x12\x01", NULL };
  static const char *const node_before_all[] = { NULL, NULL, "\x01\x01", NULL };
  static const char *const long_size[]
      = { NULL, NULL, "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", NULL };
  static const char *const longer_size[]
      = { NULL, NULL, "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", NULL };
  static const char *const long_thread[] = { NULL, NULL, NULL, "\xff\xff\xff\xff\x7f\x01" };
  static const char *const endless_pc[]
      = { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", NULL, NULL, NULL };

  bad = header;
  bad.version = 2;
  g_assert_cmpstr (fault_of (&bad, NULL, "", "", 0), ==, "it has another version");
  bad = header;
  bad.tick_ns = 1000000001;
  g_assert_cmpstr (fault_of (&bad, NULL, "", "", 0), ==, "its header is wrong");
  bad = header;
  bad.n_before = (UINT64_C (1) << 56) + 1;
  g_assert_cmpstr (fault_of (&bad, NULL, "", "", 0), ==, "its header is wrong");
  bad = header;
  bad.sequence = 1;
  g_assert_cmpstr (fault_of (&bad, NULL, "", "", 0), ==, "one before it is missing");
  bad = header;
  bad.column_bytes[0] = 1000;
  g_assert_cmpstr (fault_of (&bad, NULL, "", "", 0), ==, "a column reaches past its end");
  bad = header;
  bad.column_bytes[0] = UINT32_MAX;
  g_assert_cmpstr (fault_of (&bad, NULL, "", "", 0), ==, "something is behind its columns");
  g_assert_cmpstr (fault_of (NULL, no_pc, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, no_caller, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, half_node, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, no_node, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, node_before_all, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, long_size, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, longer_size, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, long_thread, "", "", 0), ==, "a definition is wrong");
  g_assert_cmpstr (fault_of (NULL, endless_pc, "", "", 0), ==, "a definition is wrong");
  /* 3: thread 0; 5: a free of the block before; 4: a block of size 1; 1b: of address 1 */
  g_assert_null (fault_of (NULL, NULL, "\x03\x1b\x2b", "\x01\x07", 2));
  g_assert_cmpstr (fault_of (NULL, NULL, "\x1b", "", 1), ==, "an event has no thread");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x13", "", 0), ==, "a thread is not defined");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x05", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x01", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x02", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x0a", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x06", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x17", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x07", "", 1), ==, "a block is not there");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x0f", "", 1), ==, "there is no such event");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x04", "", 1), ==, "a size is not defined");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x1b\x1b", "", 1), ==,
                   "it has more events than it says");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x1b\x1b", "", 3), ==,
                   "it has fewer events than it says");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x86", "", 1), ==, "a number is wrong");
  g_assert_cmpstr (fault_of (NULL, NULL, "\x03\x1b", "\x01", 1), ==, "its times are wrong");
  g_assert_cmpstr (
      fault_of (NULL, NULL, "\x03\x1b\x1b\x1b", "\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 3),
      ==, "its times are wrong");
}

static void
test_refuses_what_is_larger_than_it_says (void)
{
  g_autoptr (SondeHeapLogReader) reader = sonde_heap_log_reader_new (NULL, NULL);
  const SondeHeapLogCounts *counts = sonde_heap_log_reader_counts (reader);
  const gsize bomb_bytes = 64u << 20;
  g_autofree guint8 *zeros = g_malloc0 (bomb_bytes);
  g_autofree guint8 *packed = g_malloc (ZSTD_compressBound (bomb_bytes) + 16);
  SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, 7, 0 };
  gsize packed_bytes
      = ZSTD_compress (packed + 16, ZSTD_compressBound (bomb_bytes), zeros, bomb_bytes, 1);

  label.packed_bytes = (guint32) packed_bytes;
  memcpy (packed, &label, sizeof label);
  feed_bytes (reader, packed, packed_bytes + 16);
  g_assert_cmpstr (counts->fault, ==, "it cannot be unpacked");
  g_assert_cmpuint (counts->n_unreadable, ==, 7);
  /* longer than the label says */
  label.packed_bytes = 3;
  memcpy (packed, &label, sizeof label);
  feed_bytes (reader, packed, packed_bytes + 16);
  g_assert_cmpuint (counts->n_unreadable, ==, 14);
  /* a label that is too much is none */
  label.packed_bytes = UINT32_MAX;
  memcpy (packed, &label, sizeof label);
  feed_bytes (reader, packed, 1000);
  label.packed_bytes = 3;
  label.n_events = SONDE_HEAP_LOG_MAX_EVENTS + 1;
  memcpy (packed, &label, sizeof label);
  feed_bytes (reader, packed, 1000);
  g_assert_cmpuint (counts->n_events, ==, 14);
}

/* --- what is too much for its bytes --- */

/* The densest that there may be: a loop, of no time. */
static void
test_fills_up_what_is_dense (void)
{
  const SondeHeapLogCounts *counts;
  const GByteArray *segment;
  GByteArray *bare;
  SondeHeapLabel label;
  Fixture self;

  set_up (&self);
  for (guint i = 0; i < SONDE_HEAP_LOG_MAX_EVENTS / 2; i++)
    sonde_heap_log_add_free (self.log, 0, 0, sonde_heap_log_add_block (self.log, 0, 0, 0, 8, 0));
  sonde_heap_log_flush (self.log);
  g_assert_cmpuint (self.segments->len, ==, 1);
  segment = g_ptr_array_index (self.segments, 0);
  g_assert_cmpuint (segment->len, ==, SONDE_HEAP_LOG_MAX_EVENTS / SONDE_HEAP_LOG_MAX_DENSITY);
  feed (&self, 0);
  counts = sonde_heap_log_reader_counts (self.reader);
  g_assert_null (counts->fault);
  g_assert_cmpuint (counts->n_told, ==, SONDE_HEAP_LOG_MAX_EVENTS);

  /* one byte less of what fills it up */
  memcpy (&label, segment->data, sizeof label);
  bare = g_byte_array_new ();
  g_byte_array_append (bare, segment->data, segment->len - 1);
  label.packed_bytes--;
  memcpy (bare->data, &label, sizeof label);
  g_ptr_array_add (self.segments, bare);
  feed (&self, 1);
  g_assert_cmpstr (counts->fault, ==, "it says more events than it has bytes for");
  g_assert_cmpuint (counts->fault_at_bytes, ==, segment->len);
  g_assert_cmpuint (counts->n_told, ==, SONDE_HEAP_LOG_MAX_EVENTS);
  g_assert_cmpuint (counts->n_unreadable, ==, SONDE_HEAP_LOG_MAX_EVENTS);
  tear_down (&self);
}

/* Hundreds of processes that do the same, in stacks that are as deep as any: what one does is what
 * another one did, but for its number, and each has stacks of its own. */
static void
test_fills_up_for_stacks (void)
{
  const guint n_rounds = 3;
  const guint n_processes = 400;
  const guint n_stacks = 300;
  const SondeHeapLogCounts *counts;
  guint64 addrs[SONDE_STACK_TREE_MAX_DEPTH];
  uint32_t nodes[300];
  gsize size_bytes = 0;
  Fixture self;

  set_up (&self);
  sonde_heap_log_reader_free (self.reader);
  self.reader = sonde_heap_log_reader_new (ignore_event, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (addrs); i++)
    addrs[i] = 0x1000;
  for (guint i = 0; i < n_stacks; i++)
    {
      addrs[0] = 0x2000 + i;
      nodes[i] = sonde_stack_tree_add (self.tree, addrs, G_N_ELEMENTS (addrs));
    }
  g_array_set_size (self.threads, 0);
  for (guint i = 0; i < n_processes; i++)
    {
      SondeHeapLogThread thread = { 1 + (gint32) i, 1 };

      g_array_append_val (self.threads, thread);
    }
  for (guint round = 0; round < n_rounds; round++)
    {
      for (guint i = 0; i < n_processes * n_stacks; i++)
        sonde_heap_log_add_block (self.log, i / n_stacks, 0, nodes[i % n_stacks], 8, 0);
      sonde_heap_log_flush (self.log);
    }
  for (guint i = 0; i < self.segments->len; i++)
    size_bytes += ((const GByteArray *) g_ptr_array_index (self.segments, i))->len;
  g_test_message ("%" G_GSIZE_FORMAT " bytes", size_bytes);
  feed (&self, 0);
  counts = sonde_heap_log_reader_counts (self.reader);
  g_assert_null (counts->fault);
  g_assert_cmpuint (counts->n_told, ==, n_rounds * n_processes * n_stacks);
  tear_down (&self);
}

static void
append_number (GByteArray *column, guint64 number)
{
  guint8 byte;

  for (; number > 0x7F; number >>= 7)
    {
      byte = (guint8) (number | 0x80);
      g_byte_array_append (column, &byte, 1);
    }
  byte = (guint8) number;
  g_byte_array_append (column, &byte, 1);
}

/* Processes that each have the same stacks, of 1,024 frames. */
static GByteArray *
make_crowd (guint n_processes, guint n_stacks)
{
  SondeHeapSegment header = { .version = 1, .tick_ns = 10 };
  GByteArray *made[SONDE_HEAP_N_COLUMNS];
  const char *columns[SONDE_HEAP_N_COLUMNS];
  gsize sizes[SONDE_HEAP_N_COLUMNS];
  GByteArray *segment;

  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    made[i] = g_byte_array_new ();
  append_number (made[SONDE_HEAP_COLUMN_PCS], 2);
  for (guint i = 0; i < 1023 + n_stacks; i++)
    {
      append_number (made[SONDE_HEAP_COLUMN_NODES], i - MIN (i, 1023));
      append_number (made[SONDE_HEAP_COLUMN_NODES], 0);
    }
  for (guint i = 0; i < n_stacks; i++)
    {
      append_number (made[SONDE_HEAP_COLUMN_SIZES], i == 0 ? 2 * 1024 : 2);
      append_number (made[SONDE_HEAP_COLUMN_SIZES], 1);
    }
  for (guint i = 0; i < n_processes; i++)
    {
      append_number (made[SONDE_HEAP_COLUMN_THREADS], 1 + i);
      append_number (made[SONDE_HEAP_COLUMN_THREADS], 1);
      append_number (made[SONDE_HEAP_COLUMN_EVENTS], i << 4 | 3);
      for (guint j = 0; j < n_stacks; j++)
        append_number (made[SONDE_HEAP_COLUMN_EVENTS], j << 2);
    }
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    {
      columns[i] = (const char *) made[i]->data;
      sizes[i] = made[i]->len;
      header.column_bytes[i] = made[i]->len;
    }
  segment = make_segment (&header, columns, sizes, n_processes * n_stacks);
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    g_byte_array_unref (made[i]);
  return segment;
}

static void
count_new_stacks (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  guint64 *n = user_data;

  g_assert_cmpuint (stack->n_addrs, ==, 1024);
  *n += stack->n_told == 0;
}

static void
test_refuses_stacks_that_are_too_many_for_its_bytes (void)
{
  static const struct
  {
    guint n_processes;
    guint n_stacks;
    gboolean is_read;
  } crowds[] = { { 64, 250, TRUE }, { 1048, 250, FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (crowds); i++)
    {
      guint n_events = crowds[i].n_processes * crowds[i].n_stacks;
      g_autoptr (GByteArray) segment = make_crowd (crowds[i].n_processes, crowds[i].n_stacks);
      guint64 most = SONDE_HEAP_LOG_FREE_MADE + (guint64) segment->len * SONDE_HEAP_LOG_MAX_MADE;
      guint64 n_new = 0;
      g_autoptr (SondeHeapLogReader) reader = sonde_heap_log_reader_new (count_new_stacks, &n_new);
      const SondeHeapLogCounts *counts = sonde_heap_log_reader_counts (reader);
      g_autoptr (SondeHeapLogReader) counting = sonde_heap_log_reader_new (NULL, NULL);

      g_assert_true (crowds[i].is_read == ((guint64) n_events * 1024 <= most));
      feed_bytes (reader, segment->data, segment->len);
      g_assert_cmpuint (n_new, ==, crowds[i].is_read ? n_events : most / 1024);
      g_assert_cmpuint (counts->n_told, ==, n_new);
      g_assert_cmpuint (counts->n_told + counts->n_unreadable, ==, n_events);
      g_assert_cmpstr (counts->fault, ==,
                       crowds[i].is_read ? NULL : "its stacks are more than it has bytes for");
      /* who wants none need not refuse any */
      feed_bytes (counting, segment->data, segment->len);
      g_assert_cmpuint (sonde_heap_log_reader_counts (counting)->n_told, ==, n_events);
    }
}

/* Each process has its own, which come again by name. */
static void
take_stack (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  if (stack != NULL)
    g_ptr_array_add (user_data, sonde_heap_log_stack_ref (stack));
}

static void
test_makes_a_stack_once (void)
{
  const uint64_t addrs[] = { 5, 6 };
  g_autoptr (GPtrArray) seen
      = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_heap_log_stack_unref);
  Fixture self;
  uint32_t node;
  SondeHeapLogStack **stacks;

  set_up (&self);
  sonde_heap_log_reader_free (self.reader);
  self.reader = sonde_heap_log_reader_new (take_stack, seen);
  node = sonde_stack_tree_add (self.tree, addrs, 2);
  for (guint i = 0; i < 3; i++)
    for (guint32 thread = 0; thread < 4; thread++)
      sonde_heap_log_add_block (self.log, thread, 0, node, 1 + i, 0);
  sonde_heap_log_restart (self.log);
  sonde_heap_log_add_block (self.log, 0, 0, node, 1, 0);
  sonde_heap_log_flush (self.log);
  feed (&self, 0);
  g_assert_cmpuint (seen->len, ==, 13);
  stacks = (SondeHeapLogStack **) seen->pdata;
  for (guint i = 0; i < 12; i++)
    g_assert_true (stacks[i] == stacks[i / 2 % 2 * 2]);
  g_assert_cmpuint (stacks[0]->n_told, ==, 6);
  g_assert_cmpuint (stacks[0]->number, ==, 1);
  g_assert_cmpuint (stacks[2]->number, ==, 2);
  /* and another one in another epoch */
  g_assert_cmpuint (stacks[12]->number, ==, 3);
  g_assert_cmpmem (stacks[12]->addrs, 16, addrs, 16);
  tear_down (&self);
}

/* Bytes of what is packed, and of what is not. */
static void
test_survives_any_flip (void)
{
  Fixture self;

  set_up (&self);
  write_events (&self, 400);
  for (guint round = 0; round < 20000; round++)
    {
      g_autoptr (SondeHeapLogReader) reader = sonde_heap_log_reader_new (take_event, &self);
      const SondeHeapLogCounts *counts = sonde_heap_log_reader_counts (reader);
      const GByteArray *segment = g_ptr_array_index (self.segments, 0);
      guint8 plain[65536];
      g_autoptr (GByteArray) packed = g_byte_array_new ();
      SondeHeapLabel label;
      gsize n = ZSTD_decompress (plain, sizeof plain, segment->data + 16, segment->len - 16);

      g_assert_false (ZSTD_isError (n));
      memcpy (&label, segment->data, sizeof label);
      for (gint i = g_test_rand_int_range (0, 4); i >= 0; i--)
        plain[g_test_rand_int_range (0, (gint32) n)] = (guint8) g_test_rand_int ();
      g_byte_array_set_size (packed, (guint) ZSTD_compressBound (n) + 16);
      label.packed_bytes
          = (guint32) ZSTD_compress (packed->data + 16, packed->len - 16, plain, n, 1);
      memcpy (packed->data, &label, sizeof label);
      if (round % 4 == 0)
        packed->data[g_test_rand_int_range (0, (gint32) label.packed_bytes + 16)] ^= 0x10;
      g_array_set_size (self.seen, 0);
      feed_bytes (reader, packed->data, label.packed_bytes + 16);
      g_assert_cmpuint (counts->n_told + counts->n_unreadable, <=, counts->n_events);
    }
  tear_down (&self);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap-log/refuses-what-cannot-be", test_refuses_what_cannot_be);
  g_test_add_func ("/heap-log/refuses-what-is-larger-than-it-says",
                   test_refuses_what_is_larger_than_it_says);
  g_test_add_func ("/heap-log/fills-up-what-is-dense", test_fills_up_what_is_dense);
  g_test_add_func ("/heap-log/fills-up-for-stacks", test_fills_up_for_stacks);
  g_test_add_func ("/heap-log/refuses-stacks-that-are-too-many-for-its-bytes",
                   test_refuses_stacks_that_are_too_many_for_its_bytes);
  g_test_add_func ("/heap-log/makes-a-stack-once", test_makes_a_stack_once);
  g_test_add_func ("/heap-log/survives-any-end", test_survives_any_end);
  g_test_add_func ("/heap-log/survives-any-flip", test_survives_any_flip);
  g_test_add_func ("/heap-log/reads-on-with-the-next-epoch", test_reads_on_with_the_next_epoch);
  g_test_add_func ("/heap-log/reads-what-was-written", test_reads_what_was_written);
  g_test_add_func ("/heap-log/rounds-times-down", test_rounds_times_down);
  g_test_add_func ("/heap-log/writes-segments-that-may-be-read",
                   test_writes_segments_that_may_be_read);
  g_test_add_func ("/heap-log/cuts-stacks-without-room", test_cuts_stacks_without_room);
  return g_test_run ();
}
