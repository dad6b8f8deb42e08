/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order in which heap events are told, the numbers of blocks, and bounds. */
#include "client/model/heap-log-reader.h"
#include "daemon/capture/heap/heap-book.h"

#include <string.h>

#define TICK_NS 100

/* What the log says of an event. */
typedef struct
{
  gint64 time_ns;
  guint64 address;
  gint64 size_bytes;
  gint32 pid;
  gint32 tid;
  guint n_addrs;
  guint64 leaf;
} Seen;

typedef struct
{
  SondeHeapBook *book;
  SondeHeapLogReader *reader;
  GArray *seen; /* Seen */
  guint64 n_told;
  guint64 n_live; /* by what was seen */
} Fixture;

static void
take_event (const SondeFrameAllocation *allocation, SondeHeapLogStack *stack, gpointer user_data)
{
  Fixture *self = user_data;
  Seen seen = { .time_ns = allocation->frame.time_ns,
                .address = allocation->address,
                .size_bytes = allocation->size_bytes,
                .pid = allocation->frame.pid,
                .tid = allocation->tid,
                .n_addrs = stack != NULL ? stack->n_addrs : 0,
                .leaf = stack != NULL && stack->n_addrs > 0 ? stack->addrs[0] : 0 };

  self->n_told++;
  self->n_live += allocation->size_bytes > 0 ? 1 : (guint64) -1;
  if (self->seen != NULL)
    g_array_append_val (self->seen, seen);
}

static void
take_segment (const uint8_t *bytes, gsize size_bytes, guint n_events, gpointer user_data)
{
  static guint64 words[4096];
  SondeFrameFileChunk *chunk = (SondeFrameFileChunk *) (void *) words;
  Fixture *self = user_data;

  for (gsize at = 0, piece; at < size_bytes; at += piece)
    {
      piece = MIN (size_bytes - at, 16000);
      chunk->frame.type = SONDE_FRAME_FILE_CHUNK;
      g_strlcpy (chunk->path, SONDE_HEAP_LOG_PATH, sizeof chunk->path);
      chunk->data_len = (uint16_t) piece;
      memcpy (chunk->data, bytes + at, piece);
      sonde_heap_log_reader_add (self->reader, &chunk->frame);
    }
}

static void
set_up (Fixture *self)
{
  *self = (Fixture){ .seen = g_array_new (FALSE, FALSE, sizeof (Seen)) };
  self->book = sonde_heap_book_new (TICK_NS, take_segment, self);
  self->reader = sonde_heap_log_reader_new (take_event, self);
}

static void
tear_down (Fixture *self)
{
  g_assert_null (sonde_heap_log_reader_counts (self->reader)->fault);
  sonde_heap_book_free (self->book);
  sonde_heap_log_reader_free (self->reader);
  g_clear_pointer (&self->seen, g_array_unref);
}

static void
tell (Fixture *self,
      SondeHeapBookProcess *process,
      gint32 tid,
      gint64 time_ns,
      guint64 address,
      guint64 size_bytes)
{
  const SondeHeapBookEvent event
      = { .time_ns = time_ns, .address = address, .size_bytes = size_bytes, .tid = tid };

  sonde_heap_book_add (self->book, process, &event);
}

static void
read_all (Fixture *self)
{
  sonde_heap_book_turn (self->book, G_MAXINT64);
  sonde_heap_book_flush (self->book, G_MAXINT64);
}

static const Seen *
seen_at (const Fixture *self, guint i)
{
  g_assert_cmpuint (i, <, self->seen->len);
  return &g_array_index (self->seen, Seen, i);
}

static void
assert_seen (const Fixture *self, guint i, gint32 tid, gint64 time_ns, guint64 address, gint64 size)
{
  g_assert_cmpint (seen_at (self, i)->tid, ==, tid);
  g_assert_cmpint (seen_at (self, i)->time_ns, ==, time_ns);
  g_assert_cmphex (seen_at (self, i)->address, ==, address);
  g_assert_cmpint (seen_at (self, i)->size_bytes, ==, size);
}

static void
test_waits_for_earlier_events (void)
{
  SondeHeapBookProcess *process;
  Fixture self;

  set_up (&self);
  process = sonde_heap_book_add_process (self.book, 10);
  /* another thread's ring was read first */
  tell (&self, process, 12, 2000, 0x1000, 0);
  tell (&self, process, 12, 5000, 0x2000, 8);
  g_assert_true (sonde_heap_book_has_waiting (self.book));
  tell (&self, process, 11, 1000, 0x1000, 64);
  tell (&self, process, 11, 3000, 0x1000, 32);
  sonde_heap_book_turn (self.book, 4000);
  g_assert_true (sonde_heap_book_has_waiting (self.book));
  tell (&self, process, 11, 4500, 0x1000, 0);
  read_all (&self);
  g_assert_false (sonde_heap_book_has_waiting (self.book));
  assert_seen (&self, 0, 11, 1000, SONDE_HEAP_LOG_ADDRESS (1), 64);
  assert_seen (&self, 1, 12, 2000, SONDE_HEAP_LOG_ADDRESS (1), 0);
  assert_seen (&self, 2, 11, 3000, SONDE_HEAP_LOG_ADDRESS (2), 32);
  assert_seen (&self, 3, 11, 4500, SONDE_HEAP_LOG_ADDRESS (2), 0);
  assert_seen (&self, 4, 12, 5000, SONDE_HEAP_LOG_ADDRESS (3), 8);
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

/* So many pages and sizes that it looks ahead for them. */
static void
test_knows_the_blocks_of_a_large_heap (void)
{
  const guint64 n_blocks = 60013;
  SondeHeapBookProcess *process;
  Fixture self;

  set_up (&self);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint64 i = 1; i < n_blocks; i++)
    tell (&self, process, 10, 1000, i << 12, 1 + i / 2);
  for (guint64 i = 1; i < n_blocks; i++)
    tell (&self, process, 10, 2000, (i * 7919 % n_blocks) << 12, 0);
  read_all (&self);
  g_assert_cmpuint (self.seen->len, ==, 2 * (n_blocks - 1));
  for (guint i = 1; i < n_blocks; i++)
    {
      assert_seen (&self, i - 1, 10, 1000, SONDE_HEAP_LOG_ADDRESS (i), 1 + i / 2);
      assert_seen (&self, (guint) n_blocks + i - 2, 10, 2000,
                   SONDE_HEAP_LOG_ADDRESS (i * UINT64_C (7919) % n_blocks), 0);
    }
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

static void
test_keeps_the_number_of_a_place (void)
{
  SondeHeapBookProcess *process;
  Fixture self;

  set_up (&self);
  process = sonde_heap_book_add_process (self.book, 10);
  tell (&self, process, 10, 1000, 0x1000, 64);
  tell (&self, process, 10, 1000, 0x1000, 32);
  tell (&self, process, 10, 1000, 0x1000, 0);
  tell (&self, process, 10, 1000, 0x1000, 0);
  read_all (&self);
  assert_seen (&self, 1, 10, 1000, SONDE_HEAP_LOG_ADDRESS (1), 32);
  assert_seen (&self, 2, 10, 1000, SONDE_HEAP_LOG_ADDRESS (1), 0);
  assert_seen (&self, 3, 10, 1000, 0x1000, 0);
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

/* What is told of one process is in the log when it ends, and the next program's addresses are
 * others; what is told of another waits on. */
static void
test_ends_heaps (void)
{
  SondeHeapBookProcess *process, *other, *next;
  Fixture self;

  set_up (&self);
  process = sonde_heap_book_add_process (self.book, 10);
  other = sonde_heap_book_add_process (self.book, 20);
  tell (&self, process, 10, 1000, 0x1000, 64);
  tell (&self, other, 20, 900, 0x1000, 32);
  sonde_heap_book_end_process (self.book, process);
  g_assert_cmpuint (self.seen->len, ==, 1);
  g_assert_cmpint (seen_at (&self, 0)->pid, ==, 10);
  next = sonde_heap_book_add_process (self.book, 10);
  tell (&self, next, 10, 2000, 0x1000, 0);
  read_all (&self);
  assert_seen (&self, 1, 20, 900, SONDE_HEAP_LOG_ADDRESS (2), 32);
  assert_seen (&self, 2, 10, 2000, 0x1000, 0);
  sonde_heap_book_end_process (self.book, other);
  sonde_heap_book_end_process (self.book, next);
  tear_down (&self);
}

/* Of a program that lost its link and came again. */
static void
test_knows_blocks_of_an_older_link (void)
{
  SondeHeapBookProcess *first, *second, *third;
  Fixture self;

  set_up (&self);
  first = sonde_heap_book_add_process (self.book, 10);
  tell (&self, first, 10, 1000, 0x1000, 64);
  tell (&self, first, 10, 1000, 0x2000, 64);
  tell (&self, first, 10, 1000, 0x3000, 64);
  sonde_heap_book_leave_process (self.book, first);
  second = sonde_heap_book_add_process (self.book, 10);
  tell (&self, second, 10, 2000, 0x1000, 0);
  third = sonde_heap_book_add_process (self.book, 10);
  tell (&self, third, 10, 3000, 0x2000, 32);
  read_all (&self);
  assert_seen (&self, 3, 10, 2000, SONDE_HEAP_LOG_ADDRESS (1), 0);
  assert_seen (&self, 4, 10, 3000, SONDE_HEAP_LOG_ADDRESS (2), 32);
  /* its end is known, and that of what it executed is not */
  sonde_heap_book_end_left (self.book, 10);
  sonde_heap_book_end_process (self.book, second);
  tell (&self, third, 10, 4000, 0x3000, 0);
  tell (&self, third, 10, 4000, 0x2000, 0);
  read_all (&self);
  assert_seen (&self, 5, 10, 4000, 0x3000, 0);
  assert_seen (&self, 6, 10, 4000, SONDE_HEAP_LOG_ADDRESS (2), 0);
  sonde_heap_book_end_process (self.book, third);
  /* more than it keeps */
  for (gint32 pid = 1; pid < 2 * SONDE_HEAP_BOOK_MAX_LEFT; pid++)
    sonde_heap_book_leave_process (self.book, sonde_heap_book_add_process (self.book, pid));
  tear_down (&self);
}

static void
test_knows_blocks_of_parents (void)
{
  SondeHeapBookProcess *parent, *child, *grandchild;
  Fixture self;

  set_up (&self);
  parent = sonde_heap_book_add_process (self.book, 10);
  tell (&self, parent, 10, 1000, 0x1000, 64);
  tell (&self, parent, 10, 1000, 0x2000, 64);
  sonde_heap_book_turn (self.book, G_MAXINT64);
  sonde_heap_book_fork (self.book, 10, 20, 0);
  sonde_heap_book_fork (self.book, 20, 30, 0);
  sonde_heap_book_fork (self.book, 99, 40, 0); /* whose heap is not known */
  child = sonde_heap_book_add_process (self.book, 20);
  grandchild = sonde_heap_book_add_process (self.book, 30);
  tell (&self, grandchild, 30, 2000, 0x1000, 0);
  tell (&self, child, 20, 3000, 0x2000, 0);
  tell (&self, parent, 10, 4000, 0x2000, 0);
  read_all (&self);
  assert_seen (&self, 2, 30, 2000, SONDE_HEAP_LOG_ADDRESS (1), 0);
  assert_seen (&self, 3, 20, 3000, SONDE_HEAP_LOG_ADDRESS (2), 0);
  assert_seen (&self, 4, 10, 4000, SONDE_HEAP_LOG_ADDRESS (2), 0);
  sonde_heap_book_end_process (self.book, grandchild);
  sonde_heap_book_end_process (self.book, child);
  sonde_heap_book_end_process (self.book, parent);
  tear_down (&self);
}

static void
test_knows_stacks_by_hash (void)
{
  const uint64_t addrs[] = { 0x300, 0x200, 0x100 };
  SondeHeapBookEvent event = { .time_ns = 1000, .address = 0x1000, .size_bytes = 8, .tid = 10 };
  SondeHeapBookProcess *process;
  uint32_t node;
  Fixture self;

  set_up (&self);
  process = sonde_heap_book_add_process (self.book, 10);
  g_assert_false (sonde_heap_book_find_stack (self.book, 5, &node));
  event.node = sonde_heap_book_add_stack (self.book, 5, addrs, 3);
  g_assert_true (sonde_heap_book_find_stack (self.book, 5, &node));
  g_assert_cmpuint (node, ==, event.node);
  sonde_heap_book_add (self.book, process, &event);
  /* a reader that comes now gets it again */
  read_all (&self);
  sonde_heap_book_restart (self.book, 0);
  sonde_heap_log_reader_free (self.reader);
  self.reader = sonde_heap_log_reader_new (take_event, &self);
  event.address = 0x2000;
  sonde_heap_book_add (self.book, process, &event);
  read_all (&self);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpuint (seen_at (&self, i)->n_addrs, ==, 3);
      g_assert_cmphex (seen_at (&self, i)->leaf, ==, 0x300);
    }
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

/* Threads that come and go take the place of others. */
static void
test_numbers_threads_anew (void)
{
  Fixture self;

  set_up (&self);
  for (gint32 pid = 1; pid < 2000; pid++)
    {
      SondeHeapBookProcess *process = sonde_heap_book_add_process (self.book, pid);

      tell (&self, process, pid, pid * 1000, 0x1000, 64);
      tell (&self, process, pid + 5000, pid * 1000, 0x1000, 0);
      if (pid % 3 == 0)
        read_all (&self);
      sonde_heap_book_end_process (self.book, process);
    }
  g_assert_cmpuint (self.seen->len, ==, 2 * 1999);
  for (guint i = 0; i < self.seen->len; i++)
    {
      gint32 pid = (gint32) i / 2 + 1;

      g_assert_cmpint (seen_at (&self, i)->pid, ==, pid);
      assert_seen (&self, i, i % 2 == 0 ? pid : pid + 5000, pid * 1000,
                   SONDE_HEAP_LOG_ADDRESS (pid), i % 2 == 0 ? 64 : 0);
    }
  tear_down (&self);
}

/* Whoever makes up threads. */
static void
test_has_so_many_threads (void)
{
  SondeHeapBookProcess *process;
  Fixture self;

  set_up (&self);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 0; i < SONDE_HEAP_BOOK_MAX_THREADS + 100; i++)
    tell (&self, process, (gint32) i - 50, i + 1, 0x1000, 0);
  read_all (&self);
  g_assert_cmpuint (self.seen->len, ==, SONDE_HEAP_BOOK_MAX_THREADS + 100);
  g_assert_cmpint (seen_at (&self, 0)->tid, ==, -50);
  g_assert_cmpint (seen_at (&self, 70)->tid, ==, 20);
  g_assert_cmpint (seen_at (&self, self.seen->len - 1)->tid, ==, 10);
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

/* What holds all others up does not make the book grow. */
static void
test_waits_with_a_bound (void)
{
  SondeHeapBookProcess *process;
  Fixture self;

  set_up (&self);
  g_clear_pointer (&self.seen, g_array_unref);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint i = 0; i < 2 * SONDE_HEAP_BOOK_MAX_WAITING; i++)
    tell (&self, process, 10, 1000 + i, 0x1000, i % 2 == 0 ? 16 : 0);
  sonde_heap_book_flush (self.book, G_MAXINT64);
  g_assert_cmpuint (self.n_told, >=, SONDE_HEAP_BOOK_MAX_WAITING);
  read_all (&self);
  g_assert_cmpuint (self.n_told, ==, 2 * SONDE_HEAP_BOOK_MAX_WAITING);
  g_assert_cmpuint (self.n_live, ==, 0);
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

/* More blocks than may be followed: each allocation is told, and the lack. */
static void
test_follows_so_many_blocks (void)
{
  const guint64 n_blocks = SONDE_HEAP_BOOK_LIVE_BYTES / 1024;
  SondeHeapBookProcess *process;
  Fixture self;

  set_up (&self);
  g_clear_pointer (&self.seen, g_array_unref);
  process = sonde_heap_book_add_process (self.book, 10);
  for (guint64 i = 1; i <= n_blocks; i++)
    tell (&self, process, 10, (gint64) i, i * 4096, 16);
  read_all (&self);
  g_assert_cmpuint (self.n_live, ==, n_blocks);
  g_assert_cmpuint (sonde_heap_book_losses (self.book).n_not_followed, >, 0);
  g_assert_cmpuint (sonde_heap_book_losses (self.book).n_not_followed, <, n_blocks / 8);
  g_assert_cmpuint (sonde_heap_book_losses (self.book).n_cut, ==, 0);
  sonde_heap_book_end_process (self.book, process);
  tear_down (&self);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap-book/waits-for-earlier-events", test_waits_for_earlier_events);
  g_test_add_func ("/heap-book/keeps-the-number-of-a-place", test_keeps_the_number_of_a_place);
  g_test_add_func ("/heap-book/ends-heaps", test_ends_heaps);
  g_test_add_func ("/heap-book/knows-blocks-of-an-older-link", test_knows_blocks_of_an_older_link);
  g_test_add_func ("/heap-book/knows-blocks-of-parents", test_knows_blocks_of_parents);
  g_test_add_func ("/heap-book/knows-stacks-by-hash", test_knows_stacks_by_hash);
  g_test_add_func ("/heap-book/numbers-threads-anew", test_numbers_threads_anew);
  g_test_add_func ("/heap-book/has-so-many-threads", test_has_so_many_threads);
  g_test_add_func ("/heap-book/knows-the-blocks-of-a-large-heap",
                   test_knows_the_blocks_of_a_large_heap);
  g_test_add_func ("/heap-book/waits-with-a-bound", test_waits_with_a_bound);
  g_test_add_func ("/heap-book/follows-so-many-blocks", test_follows_so_many_blocks);
  return g_test_run ();
}
