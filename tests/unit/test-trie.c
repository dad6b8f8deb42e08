/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls whose stack pointers and times are made up: what a trie says of them is known. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <math.h>
#include <sys/mman.h>

#include "shared-ring/trie-gaps.h"
#include "tests/lib/trie-fixture.h"

#define MIB (1024 * 1024)

/* What the clock of these tests says, and does each time that it is asked. */
static guint64 ticks;
static void (*on_clock) (void);

static guint64
read_ticks (void)
{
  void (*call) (void) = on_clock;

  if (call != NULL)
    call ();
  return ticks;
}

static const SondeTrieUser user = { .read_clock = read_ticks };

static TrieFixture *
make (gsize size_bytes, SondeTrieMode mode)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;

  ticks = 1000;
  on_clock = NULL;
  wish.mode = mode;
  return trie_fixture_new (size_bytes, &wish, &user, FALSE);
}

/* --- layout --- */

static void
a_bucket_has_what_is_between_its_bounds (void)
{
  for (guint64 i = 0; i < 2000000; i++)
    {
      guint64 value = i < 1000000 ? i : (i - 1000000) * (i - 1000000) / 4;
      guint bucket = sonde_calls_bucket (value);

      g_assert_cmpuint (bucket, <, SONDE_CALLS_N_BUCKETS);
      g_assert_cmpuint (sonde_calls_bucket_begin (bucket), <=, value);
      g_assert_cmpuint (sonde_calls_bucket_begin (bucket + 1), >, value);
      g_assert_cmpuint (sonde_calls_bucket_begin (bucket + 1) - sonde_calls_bucket_begin (bucket),
                        <=, MAX (1, value / 16));
    }
  g_assert_cmpuint (sonde_calls_bucket ((G_GUINT64_CONSTANT (1) << 38) - 1), ==,
                    SONDE_CALLS_N_BUCKETS - 1);
  g_assert_cmpuint (sonde_calls_bucket (G_MAXUINT64), ==, SONDE_CALLS_N_BUCKETS - 1);
}

static void
memory_refuses_what_is_out_of_range (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  SondeTrieMemory memory;
  int fd;

  g_assert_cmpint (sonde_trie_memory_create (0, &wish, &memory, &fd), ==, -EINVAL);
  g_assert_cmpint (sonde_trie_memory_create (SONDE_TRIE_MIN_BYTES - 1, &wish, &memory, &fd), ==,
                   -EINVAL);
  g_assert_cmpint (sonde_trie_memory_create (SONDE_TRIE_MAX_BYTES + (gsize) 1, &wish, &memory, &fd),
                   ==, -EINVAL);
  wish.sample_every = 48;
  g_assert_cmpint (sonde_trie_memory_create (MIB, &wish, &memory, &fd), ==, -EINVAL);
  wish.sample_every = 8192;
  g_assert_cmpint (sonde_trie_memory_create (MIB, &wish, &memory, &fd), ==, -EINVAL);
  wish = SONDE_TRIE_USUAL_WISH;
  wish.max_depth = SONDE_TRIE_MAX_DEPTH + 1;
  g_assert_cmpint (sonde_trie_memory_create (MIB, &wish, &memory, &fd), ==, -EINVAL);
  wish.max_depth = 0;
  g_assert_cmpint (sonde_trie_memory_create (MIB, &wish, &memory, &fd), ==, -EINVAL);
  wish = SONDE_TRIE_USUAL_WISH;
  wish.mode = (SondeTrieMode) 4;
  g_assert_cmpint (sonde_trie_memory_create (MIB, &wish, &memory, &fd), ==, -EINVAL);
}

/* @at: a word of the header that is another one. */
static int
map_with (gsize at, guint32 value, gsize size_bytes, gboolean is_sealed)
{
  g_autoptr (TrieFixture) whole = make (MIB, SONDE_TRIE_AUTO);
  SondeTrieMemory memory;
  guint8 header[SONDE_TRIE_HEADER_BYTES];
  int fd = memfd_create ("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int r;

  memcpy (header, whole->memory.base, sizeof header);
  memcpy (header + at, &value, sizeof value);
  g_assert_cmpint (pwrite (fd, header, sizeof header, 0), ==, sizeof header);
  g_assert_cmpint (ftruncate (fd, (off_t) size_bytes), ==, 0);
  if (is_sealed)
    fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  r = sonde_trie_memory_map (fd, &memory);
  if (r == 0)
    sonde_trie_memory_unmap (&memory);
  close (fd);
  return r;
}

static void
memory_refuses_what_is_no_region (void)
{
  const gsize epoch = offsetof (SondeTrieHeader, epoch);
  SondeTrieMemory memory;
  int pipes[2];

  g_assert_cmpint (map_with (epoch, 7, MIB, TRUE), ==, 0);
  g_assert_cmpint (map_with (epoch, 7, MIB, FALSE), ==, -EPERM);
  g_assert_cmpint (map_with (epoch, 7, MIB / 2, TRUE), ==, -EBADMSG);
  g_assert_cmpint (map_with (epoch, 7, MIB + 1, TRUE), ==, -EBADMSG);
  g_assert_cmpint (map_with (epoch, 7, SONDE_TRIE_HEADER_BYTES, TRUE), ==, -EBADMSG);
  g_assert_cmpint (map_with (0, 7, MIB, TRUE), ==, -EBADMSG);
  g_assert_cmpint (map_with (offsetof (SondeTrieHeader, version), 2, MIB, TRUE), ==,
                   -EPROTONOSUPPORT);
  g_assert_cmpint (map_with (offsetof (SondeTrieHeader, max_slots), 9, MIB, TRUE), ==, -EBADMSG);
  g_assert_cmpint (map_with (offsetof (SondeTrieHeader, slabs_at), 9, MIB, TRUE), ==, -EBADMSG);
  g_assert_cmpint (map_with (offsetof (SondeTrieHeader, max_slabs), 9999, MIB, TRUE), ==, -EBADMSG);
  g_assert_cmpint (pipe (pipes), ==, 0);
  g_assert_cmpint (sonde_trie_memory_map (pipes[0], &memory), ==, -EBADMSG);
  close (pipes[0]);
  close (pipes[1]);
}

/* --- paths --- */

#define SP(depth) (0x80000 - 0x100 * (guint64) (depth))

static void
each_path_has_its_own_count (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  sonde_trie_enter (writer, 'm', SP (1));
  for (guint i = 0; i < 5; i++)
    {
      sonde_trie_enter (writer, 'a', SP (2));
      sonde_trie_enter (writer, 'b', SP (3));
      sonde_trie_exit (writer, SP (3));
      sonde_trie_exit (writer, SP (2));
      sonde_trie_enter (writer, 'b', SP (2));
      sonde_trie_exit (writer, SP (2));
    }
  sonde_trie_exit (writer, SP (1));

  trie_fixture_assert_text (trie, "m 1\nm a 5\nm a b 5\nm b 5");
  g_assert_cmpuint (trie_fixture_count (trie).resynced, ==, 0);
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
}

static void
more_callees_than_the_table_has_are_told_apart (void)
{
  g_autoptr (TrieFixture) trie = make (16 * MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieCounts counts;

  sonde_trie_enter (writer, 'm', SP (1));
  for (guint i = 0; i < 30000; i++)
    {
      sonde_trie_enter (writer, 0x400000 + i % 10000 * 16, SP (2));
      sonde_trie_exit (writer, SP (2));
    }
  counts = trie_fixture_count (trie);
  g_assert_cmpuint (counts.n_nodes, ==, 10003);
  g_assert_cmpuint (counts.counted, ==, 30001);
}

static void
assert_untimed (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  g_assert_false (change->is_timed);
}

/* A program of @depth below @function, which has a frame of a size of its own: told with its ends
 * to one trie, and without to another. */
static void
call_at_random (
    GRand *random, SondeTrieWriter *whole, SondeTrieWriter *endless, guint64 sp, guint depth)
{
  guint n = depth > 0 ? (guint) g_rand_int_range (random, 0, 4) : 0;
  guint64 function = 'a' + (guint64) g_rand_int_range (random, 0, 5);

  sonde_trie_enter (whole, function, sp);
  sonde_trie_pass (endless, function, sp);
  for (guint i = 0; i < n; i++)
    call_at_random (random, whole, endless, sp - 16 * (function - 'a' + 1), depth - 1);
  sonde_trie_exit (whole, sp);
}

static void
calls_whose_end_nobody_tells_have_their_paths (void)
{
  static const SondeTrieMode modes[] = { SONDE_TRIE_COUNT, SONDE_TRIE_AUTO, SONDE_TRIE_EXACT };

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (TrieFixture) whole = make (64 * MIB, modes[i]);
      g_autoptr (TrieFixture) endless = make (64 * MIB, modes[i]);
      SondeTrieWriter *writers[] = { trie_fixture_take (whole, 1), trie_fixture_take (endless, 1) };
      g_autoptr (GRand) random = g_rand_new_with_seed (i);
      g_autofree char *expected = NULL;
      SondeTrieCounts counts;

      for (guint j = 0; j < 300; j++)
        call_at_random (random, writers[0], writers[1], 0x80000, 7);
      counts = trie_fixture_count (whole);
      g_assert_cmpuint (counts.calls, >, 3000);
      expected = trie_reader_print (whole->reader, trie_letter);
      trie_fixture_assert_text (endless, expected);
      counts = trie_fixture_count (endless);
      g_assert_cmpuint (counts.resynced, ==, 0);
      g_assert_cmpuint (counts.unmatched, ==, 0);
      g_assert_cmpuint (counts.lost_depth, ==, 0);
      sonde_trie_reader_tell_all (endless->reader, assert_untimed, NULL);
    }
}

static void
what_longjmp_left_is_dead_at_the_next_call (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_AUTO);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  sonde_trie_enter (writer, 'm', SP (1));
  for (guint i = 0; i < 100; i++)
    for (guint depth = 2; depth < 8; depth++)
      sonde_trie_enter (writer, 'a' + depth, SP (depth));
  sonde_trie_exit (writer, SP (1));

  trie_fixture_assert_text (
      trie,
      "m 1\nm c 100\nm c d 100\nm c d e 100\nm c d e f 100\nm c d e f g 100\nm c d e f g h 100");
  g_assert_cmpuint (trie_fixture_count (trie).resynced, ==, 600);
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
}

static void
the_target_of_a_tail_call_is_a_sibling (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  sonde_trie_enter (writer, 'm', SP (1));
  sonde_trie_enter (writer, 'a', SP (2));
  /* Without an exit of its own. */
  sonde_trie_enter (writer, 'b', SP (2));
  sonde_trie_exit (writer, SP (2));
  sonde_trie_exit (writer, SP (1));
  trie_fixture_assert_text (trie, "m 1\nm a 1\nm b 1");
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
}

static void
an_exit_without_its_call_is_counted (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  sonde_trie_enter (writer, 'm', SP (1));
  sonde_trie_exit (writer, SP (5));
  sonde_trie_exit (writer, SP (1) + 8);
  sonde_trie_exit_within (writer, 'm', SP (5), 77);
  sonde_trie_enter (writer, 'a', SP (2));
  trie_fixture_assert_text (trie, "a 1\nm 1");
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 3);
}

/* A function that another one was inlined into, with its own hooks, and a call of its own behind
 * alloca(). */
static void
inlined_functions_are_callees (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  sonde_trie_enter_within (writer, 'm', SP (1), 1);
  for (guint i = 0; i < 3; i++)
    {
      sonde_trie_enter_within (writer, 'a', SP (2), 2);
      sonde_trie_enter_within (writer, 'i', SP (2), 2);
      sonde_trie_enter_within (writer, 'b', SP (4), 3);
      sonde_trie_exit_within (writer, 'b', SP (4), 3);
      sonde_trie_exit_within (writer, 'i', SP (3), 2);
      sonde_trie_exit_within (writer, 'a', SP (3), 2);
    }
  /* One that never says that it ends, called again and again, and then from elsewhere. */
  for (guint i = 0; i < 3; i++)
    sonde_trie_enter_within (writer, 'n', SP (2), 5);
  sonde_trie_enter_within (writer, 'a', SP (2), 6);
  sonde_trie_exit_within (writer, 'm', SP (1), 1);
  trie_fixture_assert_text (trie, "m 1\nm a 4\nm a i 3\nm a i b 3\nm n 3");
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
}

static void
a_known_jump_ends_what_it_leaves (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  for (guint i = 0; i < 10; i++)
    {
      sonde_trie_enter_within (writer, 'm', SP (1), 1);
      for (guint depth = 2; depth < 6; depth++)
        sonde_trie_enter_within (writer, 'a', SP (depth), depth);
      sonde_trie_unwind (writer, SP (1));
      sonde_trie_enter_within (writer, 'b', SP (2), 9);
      sonde_trie_exit_within (writer, 'b', SP (2), 9);
      sonde_trie_exit_within (writer, 'm', SP (1), 1);
    }
  trie_fixture_assert_text (trie, "m 10\nm a 10\nm a a 10\nm a a a 10\nm a a a a 10\nm b 10");
  g_assert_cmpuint (trie_fixture_count (trie).resynced, ==, 40);
}

/* --- bounds --- */

static void
descend (SondeTrieWriter *writer, guint n, gboolean is_within)
{
  for (guint i = 1; i <= n; i++)
    if (is_within)
      sonde_trie_enter_within (writer, 'f', SP (0) - 16 * i, 1);
    else
      sonde_trie_enter (writer, 'f', SP (0) - 16 * i);
  for (guint i = n; i >= 1; i--)
    if (is_within)
      sonde_trie_exit_within (writer, 'f', SP (0) - 16 * i, 1);
    else
      sonde_trie_exit (writer, SP (0) - 16 * i);
}

static void
deep_calls_are_counted_as_lost (gconstpointer data)
{
  gboolean is_within = GPOINTER_TO_INT (data);

  for (guint depth = 1; depth < 800; depth += 127)
    {
      g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_EXACT);
      SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
      SondeTrieWriter *writer;
      SondeTrieCounts counts;

      wish.max_depth = depth;
      g_assert_cmpint (sonde_trie_memory_wish (&trie->memory, &wish), ==, 0);
      writer = trie_fixture_take (trie, 1);
      for (guint i = 0; i < 3; i++)
        descend (writer, 1000, is_within);
      counts = trie_fixture_count (trie);
      g_assert_cmpuint (counts.calls, ==, 3000);
      g_assert_cmpuint (counts.counted, ==, 3 * depth);
      g_assert_cmpuint (counts.lost_depth, ==, 3 * (1000 - depth));
      g_assert_cmpuint (counts.unmatched, ==, 0);
      g_assert_cmpuint (counts.resynced, ==, 0);
    }
}

static void
a_stack_takes_slabs_as_it_grows (void)
{
  g_autoptr (TrieFixture) trie = make (4 * MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieCounts counts;

  for (guint i = 0; i < 3; i++)
    descend (writer, 4200, FALSE);
  counts = trie_fixture_count (trie);
  g_assert_cmpuint (counts.lost_depth, ==, 3 * (4200 - SONDE_TRIE_MAX_DEPTH));
  g_assert_cmpuint (counts.counted, ==, 3 * SONDE_TRIE_MAX_DEPTH);
  g_assert_cmpuint (counts.unmatched, ==, 0);
}

static void
what_has_no_room_is_nobodys (void)
{
  for (gsize size_bytes = 64 * 1024; size_bytes <= MIB; size_bytes *= 2)
    {
      g_autoptr (TrieFixture) trie = make (size_bytes, SONDE_TRIE_EXACT);
      SondeTrieWriter *writer = trie_fixture_take (trie, 1);
      guint64 random = 1, n = 0, n_first = 0;
      SondeTrieCounts counts;

      g_assert_nonnull (writer);
      for (guint i = 0; i < 100000; i++)
        {
          random = random * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
          sonde_trie_enter (writer, 'm', SP (1));
          sonde_trie_enter (writer, 0x1000 + (random >> 50), SP (2));
          sonde_trie_enter (writer, 0x1000 + (random >> 60), SP (3));
          sonde_trie_exit (writer, SP (3));
          sonde_trie_exit (writer, SP (2));
          sonde_trie_exit (writer, SP (1));
          n += 3;
          n_first++;
        }
      counts = trie_fixture_count (trie);
      g_assert_cmpuint (counts.calls, ==, n);
      g_assert_cmpuint (counts.calls, ==, counts.counted + counts.lost_budget);
      g_assert_cmpuint (counts.lost_budget, >, 0);
      g_assert_cmpuint (counts.lost_timings, >, 0);
      g_assert_cmpuint (counts.unmatched, ==, 0);
      g_assert_cmpuint (counts.resynced, ==, 0);
      g_assert_cmpuint (trie->memory.header->n_slabs, <=, trie->memory.geometry.max_slabs);
      /* What was refused is not its caller's. */
      {
        g_autofree char *text = trie_reader_print (trie->reader, trie_letter);
        g_autofree char *first = g_strdup_printf ("m %" G_GUINT64_FORMAT, n_first);

        g_assert_nonnull (strstr (text, first));
      }
    }
}

static void
threads_without_room_are_counted (void)
{
  g_autoptr (TrieFixture) trie = make (64 * 1024, SONDE_TRIE_COUNT);
  guint n = 0;

  while (trie_fixture_take (trie, (gint32) n) != NULL)
    n++;
  g_assert_cmpuint (n, >=, 1);
  for (guint i = 0; i < 10; i++)
    sonde_trie_lose (trie->trie);
  g_assert_cmpuint (trie_fixture_count (trie).lost_threads, ==, 10);
  g_assert_cmpuint (trie->memory.header->n_slots, <=, trie->memory.geometry.max_slots);
}

/* --- threads and stacks --- */

static void
a_trie_that_was_left_is_adopted (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieCounts counts;

  for (gint32 i = 0; i < 10000; i++)
    {
      SondeTrieWriter *writer = trie_fixture_take (trie, i);

      /* The thread before ended in the middle. */
      sonde_trie_enter (writer, 't', SP (1));
      sonde_trie_enter (writer, 'a', SP (2));
      sonde_trie_leave_writer (writer);
    }
  trie_fixture_assert_text (trie, "t 10000\nt a 10000");
  counts = trie_fixture_count (trie);
  g_assert_cmpuint (counts.n_slots, ==, 2);
  g_assert_cmpuint (counts.n_slabs, ==, 4);
  g_assert_cmpuint (counts.n_threads, ==, 10000);
  g_assert_cmpuint (counts.lost_threads, ==, 0);
}

/* Of handlers that interrupt a hook: the clock is asked in the middle of one. */
static SondeTrieWriter *interrupted;
static guint n_handlers;
static guint handler_depth;

static void
handle (void)
{
  guint64 sp = SP (100) - 0x1000 * handler_depth;

  if (handler_depth == 3)
    return;
  handler_depth++;
  n_handlers++;
  sonde_trie_enter (interrupted, 'h', sp);
  sonde_trie_enter (interrupted, 'i', sp - 0x100);
  sonde_trie_exit (interrupted, sp - 0x100);
  sonde_trie_exit (interrupted, sp);
  handler_depth--;
}

static void
handlers_in_hooks_have_a_trie_of_their_own (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_EXACT);
  SondeTrieCounts counts;
  guint64 n_first = 0;

  interrupted = trie_fixture_take (trie, 1);
  for (guint i = 0; i < 100; i++)
    {
      on_clock = handle;
      sonde_trie_enter (interrupted, 'm', SP (1));
      sonde_trie_enter (interrupted, 'a', SP (2));
      sonde_trie_exit (interrupted, SP (2));
      sonde_trie_exit (interrupted, SP (1));
      on_clock = NULL;
      n_first += 2;
    }
  counts = trie_fixture_count (trie);
  {
    g_autofree char *text = trie_reader_print (trie->reader, trie_letter);

    g_test_message ("%s", text);
    g_assert_nonnull (strstr (text, "[signal] h "));
    g_assert_nonnull (strstr (text, "[signal] h i "));
    g_assert_nonnull (strstr (text, "m 100\nm a 100"));
  }
  g_assert_cmpuint (counts.counted, >, n_first);
  g_assert_cmpuint (counts.calls, ==, counts.counted);
  /* Handlers of handlers of hooks of handlers. */
  g_assert_cmpuint (counts.calls + counts.lost_interrupted, ==, n_first + 2 * n_handlers);
  g_assert_cmpuint (counts.lost_interrupted, >, 0);
  g_assert_cmpuint (counts.unmatched, ==, 0);
}

/* A handler that leaves a hook by longjmp() does not leave it busy for ever. */
static void
leave_hook (void)
{
  on_clock = NULL;
  sonde_trie_enter (interrupted, 'x', SP (0));
}

static void
a_hook_that_was_left_is_over (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_EXACT);

  interrupted = trie_fixture_take (trie, 1);
  on_clock = leave_hook;
  sonde_trie_enter (interrupted, 'm', SP (1));
  sonde_trie_enter (interrupted, 'b', SP (1));
  trie_fixture_count (trie);
  g_assert_cmpuint (trie_fixture_count (trie).lost_interrupted, ==, 0);
}

static gboolean knows_stacks;

static bool
find_stack (uint64_t sp, SondeTrieRange *range)
{
  *range = (SondeTrieRange){ sp & ~UINT64_C (0xfffff), 0x100000 };
  return knows_stacks;
}

#define STACK_SP(number, depth)                                                                    \
  (0x1000000 * ((guint64) (number) + 1) + 0x80000 - 0x100 * (guint64) (depth))

static void
a_coroutine_keeps_its_path (void)
{
  static const SondeTrieUser with_stacks = { .read_clock = read_ticks, .find_stack = find_stack };

  for (knows_stacks = FALSE; knows_stacks <= TRUE; knows_stacks++)
    {
      SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
      g_autoptr (TrieFixture) trie = trie_fixture_new (MIB, &wish, &with_stacks, FALSE);
      SondeTrieWriter *writer = trie_fixture_take (trie, 1);

      sonde_trie_enter (writer, 'm', SP (1));
      sonde_trie_enter (writer, 's', SP (2));
      sonde_trie_enter (writer, 'c', STACK_SP (1, 1));
      for (guint i = 0; i < 1000; i++)
        {
          /* It gives way in the middle of a function. */
          sonde_trie_enter (writer, 'd', STACK_SP (1, 2));
          sonde_trie_enter (writer, 'a', SP (3));
          sonde_trie_exit (writer, SP (3));
          sonde_trie_exit (writer, STACK_SP (1, 2));
        }
      sonde_trie_exit (writer, STACK_SP (1, 1));
      sonde_trie_exit (writer, SP (2));
      sonde_trie_exit (writer, SP (1));
      trie_fixture_assert_text (trie, "m 1\nm s 1\nm s a 1000\nm s c 1\nm s c d 1000");
      g_assert_cmpuint (trie_fixture_count (trie).resynced, ==, 0);
      g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
    }
}

static void
of_too_many_stacks_the_oldest_goes (void)
{
  static const SondeTrieUser with_stacks = { .read_clock = read_ticks, .find_stack = find_stack };
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_autoptr (TrieFixture) trie = trie_fixture_new (16 * MIB, &wish, &with_stacks, FALSE);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieCounts counts;

  knows_stacks = TRUE;
  sonde_trie_enter (writer, 'm', SP (1));
  for (guint i = 0; i < 200; i++)
    {
      sonde_trie_enter (writer, 'c', STACK_SP (i, 1));
      sonde_trie_exit (writer, STACK_SP (i, 1));
      sonde_trie_enter (writer, 'a', SP (2));
      sonde_trie_exit (writer, SP (2));
    }
  trie_fixture_assert_text (trie, "m 1\nm a 200\nm c 200");
  counts = trie_fixture_count (trie);
  g_assert_cmpuint (counts.lost_stacks, ==, 200 - 63);
  g_assert_cmpuint (counts.n_slabs, <=, 70);
}

static void
a_stack_that_grew_is_the_same (void)
{
  static const SondeTrieUser with_stacks = { .read_clock = read_ticks, .find_stack = find_stack };
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_autoptr (TrieFixture) trie = trie_fixture_new (MIB, &wish, &with_stacks, FALSE);
  const SondeTrieRange part = { 0x80000, 0x80000 };
  SondeTrieWriter *writer = sonde_trie_take_writer (trie->trie, 1, &part);

  knows_stacks = TRUE;
  sonde_trie_enter (writer, 'm', 0x90000);
  sonde_trie_enter (writer, 'a', 0x70000);
  sonde_trie_exit (writer, 0x70000);
  sonde_trie_exit (writer, 0x90000);
  sonde_trie_enter (writer, 'b', 0x90000);
  trie_fixture_assert_text (trie, "b 1\nm 1\nm a 1");
}

static void
another_wish_voids_the_stacks (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;

  sonde_trie_enter (writer, 'm', SP (1));
  wish.mode = SONDE_TRIE_OFF;
  sonde_trie_memory_wish (&trie->memory, &wish);
  sonde_trie_enter (writer, 'x', SP (2));
  sonde_trie_exit (writer, SP (2));
  wish.mode = SONDE_TRIE_AUTO;
  sonde_trie_memory_wish (&trie->memory, &wish);
  sonde_trie_enter (writer, 'a', SP (3));
  trie_fixture_assert_text (trie, "a 1\nm 1");
}

/* A function that is left out is not there for its callees, either. Calls that were under way are
 * found dead, or matched, and none is taken for another's. */
static void
what_is_left_out_is_not_counted (void)
{
  for (guint mode = SONDE_TRIE_COUNT; mode <= SONDE_TRIE_EXACT; mode++)
    {
      g_autoptr (TrieFixture) trie = make (MIB, (SondeTrieMode) mode);
      SondeTrieWriter *writer = trie_fixture_take (trie, 1);

      sonde_trie_enter_within (writer, 'm', SP (1), 1);
      for (guint i = 0; i < 200; i++)
        {
          if (i == 100)
            g_assert_cmpint (sonde_trie_memory_leave_out (&trie->memory, 0, 'a'), ==, 0);
          sonde_trie_enter_within (writer, 'a', SP (2), 2);
          sonde_trie_enter_within (writer, 'b', SP (3), 3);
          sonde_trie_exit_within (writer, 'b', SP (3), 3);
          sonde_trie_exit_within (writer, 'a', SP (2), 2);
        }
      sonde_trie_exit_within (writer, 'm', SP (1), 1);
      trie_fixture_assert_text (trie, "m 1\nm a 100\nm a b 100\nm b 100");
      g_assert_cmpuint (trie_fixture_count (trie).calls, ==, 301);
      g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
    }
}

static void
many_are_left_out (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);

  for (guint i = 0; i < SONDE_TRIE_MAX_LEFT_OUT; i++)
    g_assert_cmpint (sonde_trie_memory_leave_out (&trie->memory, i, 0x1000 + 16 * i), ==, 0);
  g_assert_cmpint (sonde_trie_memory_leave_out (&trie->memory, SONDE_TRIE_MAX_LEFT_OUT, 0x9000), ==,
                   -ENOSPC);
  for (guint i = 0; i <= SONDE_TRIE_MAX_LEFT_OUT; i++)
    {
      sonde_trie_enter (writer, 0x1000 + 16 * i, SP (1));
      sonde_trie_exit (writer, SP (1));
    }
  g_assert_cmpuint (trie_fixture_count (trie).calls, ==, 1);
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
}

/* Words of a stack, of which calls that stand have their return addresses in some. */
#define N_WORDS 64

static void
calls_that_stand_begin_a_path (void)
{
  for (guint mode = SONDE_TRIE_COUNT; mode <= SONDE_TRIE_EXACT; mode++)
    {
      g_autoptr (TrieFixture) trie = make (MIB, (SondeTrieMode) mode);
      guint64 stack[N_WORDS] = { [60] = 1, [50] = 2, [40] = 3 };
      const SondeTrieRange range = { GPOINTER_TO_SIZE (stack), sizeof stack };
      const guint64 base = GPOINTER_TO_SIZE (stack);
      const SondeTrieStanding standing[] = {
        { 'm', 1, base + 8 * 60, base + 8 * 51 },
        { 'u', 2, base + 8 * 50, base + 8 * 41 },
        { 'v', 3, base + 8 * 40, base + 8 * 31 },
      };
      SondeTrieWriter *writer = sonde_trie_take_writer (trie->trie, 1, &range);

      sonde_trie_seed (writer, standing, G_N_ELEMENTS (standing));
      for (guint i = 0; i < 20; i++)
        {
          sonde_trie_enter_within (writer, 'a', base + 8 * 20, 4);
          sonde_trie_exit_within (writer, 'a', base + 8 * 20, 4);
        }
      /* Has a hook, and returns. */
      sonde_trie_exit_within (writer, 'v', base + 8 * 31, 3);
      sonde_trie_enter_within (writer, 'b', base + 8 * 30, 5);
      sonde_trie_exit_within (writer, 'b', base + 8 * 30, 5);
      /* Has none; its caller calls another one, deeper than it was itself. */
      stack[50] = 7;
      sonde_trie_enter_within (writer, 'c', base + 8 * 30, 7);
      sonde_trie_exit_within (writer, 'c', base + 8 * 30, 7);
      sonde_trie_exit_within (writer, 'm', base + 8 * 51, 1);
      sonde_trie_enter_within (writer, 'd', base + 8 * 30, 8);
      sonde_trie_exit_within (writer, 'd', base + 8 * 30, 8);
      trie_fixture_assert_text (trie, "d 1\nm c 1\nm u b 1\nm u v a 20");
      g_assert_cmpuint (trie_fixture_count (trie).calls, ==, 23);
      g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
      g_assert_cmpuint (trie_fixture_count (trie).resynced, ==, 0);
    }
}

/* The same where hooks say where the return address is, and a longjmp() ends one. */
static void
calls_that_stand_end_by_their_stack (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_AUTO);
  guint64 stack[N_WORDS] = { [60] = 1, [50] = 2, [40] = 3 };
  const guint64 base = GPOINTER_TO_SIZE (stack);
  const SondeTrieRange range = { base, sizeof stack };
  const SondeTrieStanding standing[] = {
    { 'm', 1, base + 8 * 60, base + 8 * 51 },
    { 'u', 2, base + 8 * 50, base + 8 * 41 },
    { 'v', 3, base + 8 * 40, base + 8 * 31 },
    { 0, 4, base + 8 * 30, base + 8 * 21 }, /* nobody knows what */
  };
  SondeTrieWriter *writer = sonde_trie_take_writer (trie->trie, 1, &range);

  sonde_trie_seed (writer, standing, G_N_ELEMENTS (standing));
  sonde_trie_enter (writer, 'a', base + 8 * 20);
  sonde_trie_exit (writer, base + 8 * 20);
  sonde_trie_exit (writer, base + 8 * 40);
  sonde_trie_enter (writer, 'b', base + 8 * 40);
  sonde_trie_exit (writer, base + 8 * 40);
  sonde_trie_unwind (writer, base + 8 * 51);
  sonde_trie_enter (writer, 'c', base + 8 * 50);
  sonde_trie_exit (writer, base + 8 * 50);
  sonde_trie_exit (writer, base + 8 * 60);
  trie_fixture_assert_text (trie, "m c 1\nm u b 1\nm u v a 1");
  g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
}

static guint n_asked;

/* Of 'b' it is known from the second time on. */
static int
wants_no_b (guint64 function)
{
  n_asked++;
  if (function == 'b' && n_asked == 1)
    return -1;
  return function != 'b';
}

static void
what_is_not_wanted_is_nobodys (void)
{
  const SondeTrieUser choosy = { .read_clock = read_ticks, .is_wanted = wants_no_b };

  for (guint mode = SONDE_TRIE_COUNT; mode <= SONDE_TRIE_EXACT; mode++)
    {
      SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
      g_autoptr (TrieFixture) trie = NULL;
      SondeTrieWriter *writer;

      wish.mode = (SondeTrieMode) mode;
      wish.max_depth = 3;
      trie = trie_fixture_new (MIB, &wish, &choosy, FALSE);
      writer = trie_fixture_take (trie, 1);
      n_asked = 0;
      for (guint i = 0; i < 100; i++)
        {
          sonde_trie_enter_within (writer, 'b', SP (1), 1);
          sonde_trie_enter_within (writer, 'a', SP (2), 2);
          sonde_trie_enter_within (writer, 'b', SP (3), 3);
          sonde_trie_enter_within (writer, 'c', SP (4), 4);
          sonde_trie_enter_within (writer, 'd', SP (5), 5);
          sonde_trie_enter_within (writer, 'e', SP (6), 6); /* too deep, and what it calls */
          sonde_trie_enter_within (writer, 'b', SP (7), 7);
          sonde_trie_exit_within (writer, 'b', SP (7), 7);
          sonde_trie_exit_within (writer, 'e', SP (6), 6);
          sonde_trie_exit_within (writer, 'd', SP (5), 5);
          sonde_trie_exit_within (writer, 'c', SP (4), 4);
          sonde_trie_exit_within (writer, 'b', SP (3), 3);
          sonde_trie_exit_within (writer, 'a', SP (2), 2);
          sonde_trie_exit_within (writer, 'b', SP (1), 1);
        }
      trie_fixture_assert_text (trie, "a 100\na c 100\na c d 100");
      g_assert_cmpuint (trie_fixture_count (trie).lost_depth, ==, 100);
      g_assert_cmpuint (trie_fixture_count (trie).unmatched, ==, 0);
      g_assert_cmpuint (trie_fixture_count (trie).resynced, ==, 0);
      g_assert_cmpuint (n_asked, ==, 6); /* of each function, and of 'b' once more */
    }
}

/* --- time --- */

static void
gaps_have_their_mean (void)
{
  for (guint mean = 1; mean <= 4096; mean *= 2)
    {
      guint16 gaps[SONDE_TRIE_N_GAPS];
      gdouble sum = 0;

      sonde_trie_gaps_init (gaps, mean);
      for (guint i = 0; i < SONDE_TRIE_N_GAPS; i++)
        sum += gaps[i];
      g_assert_cmpuint (gaps[0], >=, 1);
      g_assert_cmpfloat (fabs (sum / SONDE_TRIE_N_GAPS / mean - 1), <, 0.01);
    }
}

typedef struct
{
  guint64 function;
  SondeTrieTimes times;
  guint64 calls;
} Wanted;

static void
find_function (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  Wanted *wanted = user_data;

  if (change->function == wanted->function)
    {
      wanted->times = *times;
      wanted->calls = change->calls;
    }
}

static Wanted
read_times (TrieFixture *trie, guint64 function)
{
  Wanted wanted = { .function = function };

  trie_fixture_count (trie);
  sonde_trie_reader_tell_all (trie->reader, find_function, &wanted);
  return wanted;
}

/* A number from 0 to 1 without its ends, from one to the next. */
static gdouble
draw (guint64 *state)
{
  *state = *state * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
  return ((gdouble) (*state >> 12) + 0.5) / 0x1p52;
}

static gint
compare_ticks (gconstpointer a, gconstpointer b)
{
  guint64 one = *(const guint64 *) a, other = *(const guint64 *) b;

  return (one > other) - (one < other);
}

/* @least: what the calls take at least: above 5,200 each is timed. Returns: the worst of relative
 * errors */
static void
check_distribution (SondeTrieMode mode, gdouble least, gdouble tolerance, gdouble tail_tolerance)
{
  enum
  {
    N_CALLS = 400000
  };
  static const gdouble parts[] = { 0.5, 0.9, 0.99, 0.999 };
  g_autoptr (TrieFixture) trie = make (4 * MIB, mode);
  g_autofree guint64 *all = g_new (guint64, N_CALLS);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  guint64 random = 12345, total = 0;
  Wanted got;

  for (guint i = 0; i < N_CALLS; i++)
    {
      /* Logistic of a logarithm: a long tail, without a normal distribution's functions. */
      gdouble u = draw (&random);

      all[i] = (guint64) (least * pow (u / (1 - u), 0.4) + least);
      sonde_trie_enter (writer, 'f', SP (1));
      ticks += all[i];
      sonde_trie_exit (writer, SP (1));
      total += all[i];
    }
  got = read_times (trie, 'f');
  qsort (all, N_CALLS, sizeof *all, compare_ticks);
  g_assert_cmpuint (got.calls, ==, N_CALLS);
  g_assert_cmpuint (got.times.min_ticks, >=, all[0]);
  g_assert_cmpuint (got.times.max_ticks, <=, all[N_CALLS - 1]);
  if (mode == SONDE_TRIE_EXACT)
    {
      g_assert_cmpuint (got.times.timed, ==, N_CALLS);
      g_assert_cmpuint (got.times.total_ticks, ==, total);
      g_assert_cmpuint (got.times.self_ticks, ==, total);
    }
  else
    {
      gdouble estimated = (gdouble) got.times.total_ticks * N_CALLS / (gdouble) got.times.timed;

      g_assert_cmpfloat (fabs (estimated / (gdouble) total - 1), <, tail_tolerance);
      g_assert_cmpfloat (fabs ((gdouble) got.times.timed / N_CALLS - 1), <, tail_tolerance);
    }
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      gdouble truth = (gdouble) all[(gsize) (parts[i] * N_CALLS)];
      gdouble error = sonde_trie_quantile (&got.times, parts[i]) / truth - 1;

      g_test_message ("p%g: %.0f, wrong by %.2f %%", parts[i] * 100, truth, error * 100);
      g_assert_cmpfloat (fabs (error), <, i < 2 ? tolerance : tail_tolerance);
    }
}

static void
percentiles_are_those_of_the_calls (void)
{
  check_distribution (SONDE_TRIE_EXACT, 300, 0.01, 0.01);
  check_distribution (SONDE_TRIE_AUTO, 6000, 0.01, 0.01);
  /* One in 64: what is far out is rare among them. */
  check_distribution (SONDE_TRIE_AUTO, 300, 0.05, 0.5);
}

static void
a_path_that_becomes_slow_has_each_call_timed (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_AUTO);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  guint64 timed = 0;

  for (guint i = 0; i < 30000; i++)
    {
      if (i == 20000)
        timed = read_times (trie, 'f').times.timed;
      sonde_trie_enter (writer, 'f', SP (1));
      ticks += i < 10000 ? 100 : 100000;
      sonde_trie_exit (writer, SP (1));
    }
  g_assert_cmpuint (read_times (trie, 'f').times.timed - timed, ==, 10000);
  /* And no longer, once it is fast again. */
  timed = read_times (trie, 'f').times.timed;
  for (guint i = 0; i < 64000; i++)
    {
      sonde_trie_enter (writer, 'f', SP (1));
      ticks += 100;
      sonde_trie_exit (writer, SP (1));
    }
  timed = read_times (trie, 'f').times.timed - timed;
  g_assert_cmpuint (timed, !=, 64000);
  g_assert_cmpuint (timed, >, 48000);
  g_assert_cmpuint (timed, <, 80000);
}

/* The first gap of a thread is drawn, too. */
static void
threads_do_not_count_their_first_call_as_many (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_AUTO);
  Wanted got;

  for (gint32 i = 0; i < 50000; i++)
    {
      SondeTrieWriter *writer = trie_fixture_take (trie, i);

      sonde_trie_enter (writer, 't', SP (1));
      ticks += 100;
      sonde_trie_exit (writer, SP (1));
      sonde_trie_leave_writer (writer);
    }
  got = read_times (trie, 't');
  g_assert_cmpuint (got.calls, ==, 50000);
  g_assert_cmpuint (got.times.timed, >, 40000);
  g_assert_cmpuint (got.times.timed, <, 60000);
}

static void
self_time_is_without_callees (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_EXACT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  Wanted got;

  for (guint i = 0; i < 300; i++)
    {
      sonde_trie_enter (writer, 'a', SP (i + 1));
      ticks += 10;
    }
  sonde_trie_enter (writer, 'b', SP (301));
  ticks += 1000;
  /* Left by longjmp(): time ends here. */
  sonde_trie_enter (writer, 'c', SP (300) + 8);
  ticks += 7;
  sonde_trie_exit (writer, SP (300) + 8);
  for (guint i = 299; i > 0; i--)
    sonde_trie_exit (writer, SP (i));

  got = read_times (trie, 'b');
  g_assert_cmpuint (got.times.total_ticks, ==, 1000);
  got = read_times (trie, 'c');
  g_assert_cmpuint (got.times.self_ticks, ==, 7);
  {
    Wanted outermost = { .function = 'a' };
    guint64 total = 0;

    /* The deepest of them is told last; all have 10 of their own. */
    sonde_trie_reader_tell_all (trie->reader, find_function, &outermost);
    total = outermost.times.total_ticks;
    g_assert_cmpuint (total, ==, 10 + 1000);
    g_assert_cmpuint (outermost.times.self_ticks, ==, 10);
    g_assert_cmpuint (outermost.times.nested, ==, 1);
  }
}

static void
hooks_are_timed_themselves (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_AUTO);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieCounts counts;

  for (guint i = 0; i < 6400; i++)
    {
      sonde_trie_enter (writer, 'a', SP (1));
      sonde_trie_exit (writer, SP (1));
    }
  counts = trie_fixture_count (trie);
  g_assert_cmpuint (counts.n_hooks, ==, 200);
}

/* --- the reader --- */

typedef struct
{
  guint64 calls;
  guint64 timed;
  guint64 total;
  guint64 in_buckets;
  guint n;
} Sum;

static void
add_change (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  Sum *sum = user_data;

  sum->n++;
  sum->calls += change->calls;
  if (change->is_timed)
    {
      sum->timed += times->timed;
      sum->total += times->total_ticks;
      for (guint i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
        sum->in_buckets += times->buckets[i];
    }
}

static void
call_much (SondeTrieWriter *writer, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      sonde_trie_enter (writer, 0x1000 + i % 700, SP (1));
      sonde_trie_enter (writer, 0x9000 + i % 3, SP (2));
      ticks += i % 1000;
      sonde_trie_exit (writer, SP (2));
      sonde_trie_exit (writer, SP (1));
    }
}

static void
a_turn_is_bounded_and_goes_on (void)
{
  g_autoptr (TrieFixture) trie = make (4 * MIB, SONDE_TRIE_EXACT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  Sum sum = { 0 }, all = { 0 }, none = { 0 };
  guint n_turns = 0;

  for (guint i = 0; i < 3; i++)
    {
      guint before = sum.n;
      int r;

      call_much (writer, 10000);
      while ((r = sonde_trie_reader_turn (trie->reader, 10, add_change, &sum)) == 1)
        {
          g_assert_cmpuint (sum.n - before, <=, 10);
          before = sum.n;
          n_turns++;
        }
      g_assert_cmpint (r, ==, 0);
      g_assert_cmpuint (sum.calls, ==, 20000 * (i + 1));
      g_assert_cmpuint (sum.timed, ==, 20000 * (i + 1));
      g_assert_cmpuint (sum.in_buckets, ==, 20000 * (i + 1));
    }
  g_assert_cmpuint (n_turns, >, 3 * 200);
  g_assert_cmpint (sonde_trie_reader_turn (trie->reader, G_MAXUINT32, add_change, &none), ==, 0);
  g_assert_cmpuint (none.n, ==, 0);
  /* Who comes late gets the sum. */
  sonde_trie_reader_tell_all (trie->reader, add_change, &all);
  g_assert_cmpuint (all.calls, ==, sum.calls);
  g_assert_cmpuint (all.timed, ==, sum.timed);
  g_assert_cmpuint (all.total, ==, sum.total);
  g_assert_cmpuint (all.in_buckets, ==, sum.in_buckets);
}

/* The bucket of the only call, which took 100 ticks. */
static guint32 *
find_bucket (const SondeTrieMemory *memory)
{
  for (guint32 i = 0; i < memory->geometry.max_slabs; i++)
    {
      guint8 *slab = memory->base + memory->geometry.slabs_at * 64u + i * SONDE_TRIE_SLAB_BYTES;

      if (((SondeTrieSlab *) (gpointer) slab)->kind == SONDE_TRIE_OCTAVES)
        return &((SondeTrieOctave *) (gpointer) (slab + 64))
                    ->buckets[sonde_calls_bucket (100) % 16];
    }
  g_assert_not_reached ();
}

static void
call_for_100 (SondeTrieWriter *writer)
{
  sonde_trie_enter (writer, 'a', SP (1));
  ticks += 100;
  sonde_trie_exit (writer, SP (1));
}

static void
buckets_may_come_round (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_EXACT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieMemory mapped;
  guint32 *bucket;
  Wanted got;

  g_assert_cmpint (sonde_trie_memory_map (trie->fd, &mapped), ==, 0);
  call_for_100 (writer);
  bucket = find_bucket (&mapped);
  g_assert_cmpuint (*bucket, ==, 1);
  *bucket = G_MAXUINT32 - 4;
  trie_fixture_count (trie);
  for (guint i = 0; i < 10; i++)
    call_for_100 (writer);
  got = read_times (trie, 'a');
  g_assert_cmpuint (got.times.buckets[sonde_calls_bucket (100)], ==,
                    (guint64) G_MAXUINT32 - 4 + 10);
  sonde_trie_memory_unmap (&mapped);
}

/* A call is in @timed before it is in its bucket, and the reader may look between the two. */
static void
the_bucket_of_a_last_call_is_not_missed (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_EXACT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 1);
  SondeTrieMemory mapped;
  guint32 *bucket;
  Wanted got;

  g_assert_cmpint (sonde_trie_memory_map (trie->fd, &mapped), ==, 0);
  call_for_100 (writer);
  bucket = find_bucket (&mapped);
  *bucket = 0;
  trie_fixture_count (trie);
  *bucket = 1;
  got = read_times (trie, 'a');
  g_assert_cmpuint (got.times.timed, ==, 1);
  g_assert_cmpuint (got.times.buckets[sonde_calls_bucket (100)], ==, 1);
  sonde_trie_memory_unmap (&mapped);
}

/* Slow calls, as they were told. */
typedef struct
{
  guint n;
  guint64 last_start, last_ticks;
  guint32 last_node;
} SlowCalls;

static void
note_slow (const SondeTrieSlowCall *call, void *user_data)
{
  SlowCalls *slow = user_data;

  g_assert_cmpuint (call->start_ticks, >, slow->last_start);
  slow->n++;
  slow->last_start = call->start_ticks;
  slow->last_ticks = call->ticks;
  slow->last_node = call->node;
}

static void
slow_calls_are_told_one_by_one (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_autoptr (TrieFixture) trie = NULL;
  SondeTrieWriter *writer;
  SlowCalls slow = { 0 };

  ticks = 1000;
  wish.mode = SONDE_TRIE_EXACT;
  wish.slow_ticks = 99;
  trie = trie_fixture_new (MIB, &wish, &user, FALSE);
  writer = trie_fixture_take (trie, 1);
  sonde_trie_enter (writer, 'b', SP (1));
  ticks += 99;
  sonde_trie_exit (writer, SP (1));
  g_assert_false (sonde_trie_reader_has_slow_calls (trie->reader));
  call_for_100 (writer);
  g_assert_true (sonde_trie_reader_has_slow_calls (trie->reader));

  /* Its path is not known yet. */
  g_assert_cmpuint (sonde_trie_reader_take_slow_calls (trie->reader, note_slow, &slow), ==, 0);
  g_assert_cmpuint (slow.n, ==, 0);
  trie_fixture_count (trie);
  g_assert_cmpuint (sonde_trie_reader_take_slow_calls (trie->reader, note_slow, &slow), ==, 0);
  g_assert_cmpuint (slow.n, ==, 1);
  g_assert_cmpuint (slow.last_start, ==, 1099);
  g_assert_cmpuint (slow.last_ticks, ==, 100);
  g_assert_false (sonde_trie_reader_has_slow_calls (trie->reader));

  for (guint i = 0; i < SONDE_TRIE_SLAB_SLOW_CALLS - 1; i++)
    call_for_100 (writer);
  g_assert_cmpuint (sonde_trie_reader_take_slow_calls (trie->reader, note_slow, &slow), ==, 0);
  g_assert_cmpuint (slow.n, ==, SONDE_TRIE_SLAB_SLOW_CALLS);

  /* Of more than there is room for the last ones are there. */
  for (guint i = 0; i < 1000; i++)
    call_for_100 (writer);
  slow.n = 0;
  g_assert_cmpuint (sonde_trie_reader_take_slow_calls (trie->reader, note_slow, &slow), ==,
                    1000 - (SONDE_TRIE_SLAB_SLOW_CALLS - 1));
  g_assert_cmpuint (slow.n, ==, SONDE_TRIE_SLAB_SLOW_CALLS - 1);
  g_assert_cmpuint (slow.last_start, ==, ticks - 100);
}

/* It goes on and counts. */
static void
slow_calls_without_room_are_counted (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_autoptr (TrieFixture) trie = NULL;
  SondeTrieWriter *writer;

  wish.mode = SONDE_TRIE_EXACT;
  wish.slow_ticks = 99;
  trie = trie_fixture_new (SONDE_TRIE_MIN_BYTES, &wish, &user, FALSE);
  writer = trie_fixture_take (trie, 1);
  g_assert_nonnull (writer);
  call_for_100 (writer);
  g_assert_cmpuint (trie_fixture_count (trie).lost_slow, ==, 1);
  g_assert_cmpuint (trie_fixture_count (trie).calls, ==, 1);
  g_assert_false (sonde_trie_reader_has_slow_calls (trie->reader));
}

static void
last_words_are_the_path (void)
{
  g_autoptr (TrieFixture) trie = make (MIB, SONDE_TRIE_COUNT);
  SondeTrieWriter *writer = trie_fixture_take (trie, 42);
  guint32 nodes[600];
  guint n_words = 0;
  gint32 tid = 0;

  for (guint i = 0; i < 300; i++)
    sonde_trie_enter (writer, 'a' + i % 20, SP (i + 1));
  trie_fixture_count (trie);
  for (guint slot = 0; slot < 2; slot++)
    {
      gsize n
          = sonde_trie_reader_last_words (trie->reader, slot, nodes, G_N_ELEMENTS (nodes), &tid);

      g_assert_cmpint (tid, ==, 42);
      for (gsize i = 0; i < n; i++)
        g_assert_cmpuint (nodes[i], !=, 0);
      for (gsize i = 1; i < n; i++)
        g_assert_cmpuint (nodes[i], <, nodes[i - 1]);
      n_words += n == 301;
    }
  g_assert_cmpuint (n_words, ==, 1);
  g_assert_cmpuint (sonde_trie_reader_last_words (trie->reader, 0, nodes, 5, &tid), <=, 5);
  g_assert_cmpuint (sonde_trie_reader_last_words (trie->reader, 99, nodes, 5, &tid), ==, 0);
  sonde_trie_leave_writer (writer);
  g_assert_cmpuint (sonde_trie_reader_last_words (trie->reader, 0, nodes, 600, &tid), ==, 0);
  g_assert_cmpuint (sonde_trie_reader_last_words (trie->reader, 1, nodes, 600, &tid), ==, 0);
}

/* --- what a program may do to its region --- */

typedef struct
{
  TrieFixture *trie;
  SondeTrieMemory mapped;                   /* to be written */
  SondeTrieSlab *slabs[SONDE_TRIE_N_KINDS]; /* the first of each kind of the slot 0 or 1 */
} Hostile;

/* Nodes: root, a, a b, all timed. */
static Hostile
make_hostile (void)
{
  Hostile hostile = { .trie = make (MIB, SONDE_TRIE_EXACT) };
  SondeTrieWriter *writer = trie_fixture_take (hostile.trie, 1);
  const SondeTrieGeometry *geometry = &hostile.trie->memory.geometry;

  for (guint i = 0; i < 2; i++)
    {
      sonde_trie_enter (writer, 'a', SP (1));
      sonde_trie_enter (writer, 'b', SP (2));
      ticks += 100;
      sonde_trie_exit (writer, SP (2));
      ticks += 1000;
      sonde_trie_exit (writer, SP (1));
    }
  g_assert_cmpint (sonde_trie_memory_map (hostile.trie->fd, &hostile.mapped), ==, 0);
  for (guint i = geometry->max_slabs; i > 0; i--)
    {
      SondeTrieSlab *slab
          = (gpointer) (hostile.mapped.base
                        + (geometry->slabs_at + (gsize) (i - 1) * SONDE_TRIE_SLAB_LINES) * 64);

      if (slab->kind != SONDE_TRIE_NODES || slab->n_used > 1)
        hostile.slabs[slab->kind] = slab;
    }
  return hostile;
}

static void
clear_hostile (Hostile *hostile)
{
  sonde_trie_memory_unmap (&hostile->mapped);
  trie_fixture_free (hostile->trie);
}

static SondeTrieNode *
node_of (Hostile *hostile, guint i)
{
  return (SondeTrieNode *) (gpointer) (hostile->slabs[SONDE_TRIE_NODES] + 1) + i;
}

static SondeTrieTiming *
timing_of (Hostile *hostile, guint i)
{
  return (SondeTrieTiming *) (gpointer) (hostile->slabs[SONDE_TRIE_TIMINGS] + 1) + i;
}

static guint32 *
octave_of (Hostile *hostile, guint i)
{
  return &timing_of (hostile, i)->octaves[sonde_calls_bucket (100) / SONDE_CALLS_OCTAVE_BUCKETS];
}

typedef struct
{
  const char *name;
  void (*spoil) (Hostile *hostile);
  SondeTrieFault fault;
  gboolean is_later; /* only once the reader knew it otherwise */
} Spoil;

static void
spoil_kind (Hostile *hostile)
{
  hostile->slabs[SONDE_TRIE_NODES]->kind = SONDE_TRIE_N_KINDS;
}

static void
spoil_kind_again (Hostile *hostile)
{
  hostile->slabs[SONDE_TRIE_TIMINGS]->kind = SONDE_TRIE_OCTAVES;
}

static void
spoil_slot (Hostile *hostile)
{
  hostile->slabs[SONDE_TRIE_NODES]->slot = hostile->mapped.geometry.max_slots;
}

static void
spoil_owner_slot (Hostile *hostile)
{
  hostile->slabs[SONDE_TRIE_TIMINGS]->slot ^= 1;
}

static void
spoil_used (Hostile *hostile)
{
  hostile->slabs[SONDE_TRIE_NODES]->n_used = SONDE_TRIE_SLAB_NODES + 1;
}

static void
spoil_used_again (Hostile *hostile)
{
  hostile->slabs[SONDE_TRIE_NODES]->n_used = 1;
}

static void
spoil_parent (Hostile *hostile)
{
  node_of (hostile, 1)->parent = node_of (hostile, 2)->parent;
}

static void
spoil_parent_outside (Hostile *hostile)
{
  node_of (hostile, 1)->parent = 3;
}

static void
spoil_parent_head (Hostile *hostile)
{
  node_of (hostile, 1)->parent -= 1;
}

static void
spoil_function (Hostile *hostile)
{
  node_of (hostile, 1)->function = 1;
}

static void
spoil_root (Hostile *hostile)
{
  node_of (hostile, 0)->function = 'r';
}

static void
spoil_timing (Hostile *hostile)
{
  node_of (hostile, 1)->timing = 1;
}

static void
spoil_timing_unaligned (Hostile *hostile)
{
  node_of (hostile, 1)->timing++;
}

static void
spoil_timing_unused (Hostile *hostile)
{
  node_of (hostile, 1)->timing += 6;
}

static void
spoil_timing_kind (Hostile *hostile)
{
  node_of (hostile, 1)->timing
      = (guint32) (((guint8 *) hostile->slabs[SONDE_TRIE_OCTAVES] - hostile->mapped.base) / 64 + 1);
}

static void
spoil_timing_end (Hostile *hostile)
{
  node_of (hostile, 1)->timing = SONDE_TRIE_IS_NEW - 1;
}

static void
spoil_timing_away (Hostile *hostile)
{
  node_of (hostile, 1)->timing = 0;
}

static void
spoil_timing_owner (Hostile *hostile)
{
  node_of (hostile, 1)->timing = node_of (hostile, 2)->timing;
}

static void
spoil_octave (Hostile *hostile)
{
  *octave_of (hostile, 0) = 7;
  timing_of (hostile, 0)->timed++;
}

static void
spoil_octave_owner (Hostile *hostile)
{
  timing_of (hostile, 1)->octaves[0] = *octave_of (hostile, 0);
  timing_of (hostile, 1)->timed++;
}

static void
spoil_octave_away (Hostile *hostile)
{
  *octave_of (hostile, 0) = 0;
  timing_of (hostile, 0)->timed++;
}

static void
spoil_calls (Hostile *hostile)
{
  node_of (hostile, 1)->calls--;
}

static void
spoil_timed (Hostile *hostile)
{
  timing_of (hostile, 0)->timed--;
}

static void
spoil_total (Hostile *hostile)
{
  timing_of (hostile, 0)->timed++;
  timing_of (hostile, 0)->total_ticks--;
}

static void
spoil_slabs (Hostile *hostile)
{
  hostile->mapped.header->n_slabs = 0;
}

static const Spoil spoils[] = {
  { "kind", spoil_kind, SONDE_TRIE_FAULT_KIND, FALSE },
  { "other kind", spoil_kind_again, SONDE_TRIE_FAULT_KIND, TRUE },
  { "slot", spoil_slot, SONDE_TRIE_FAULT_SLOT, FALSE },
  { "other slot", spoil_owner_slot, SONDE_TRIE_FAULT_SLOT, FALSE },
  { "other slot, later", spoil_owner_slot, SONDE_TRIE_FAULT_SLOT, TRUE },
  { "used", spoil_used, SONDE_TRIE_FAULT_USED, FALSE },
  { "used less", spoil_used_again, SONDE_TRIE_FAULT_USED, TRUE },
  { "parent is itself", spoil_parent, SONDE_TRIE_FAULT_PARENT, FALSE },
  { "parent is outside", spoil_parent_outside, SONDE_TRIE_FAULT_PARENT, FALSE },
  { "parent is a head", spoil_parent_head, SONDE_TRIE_FAULT_PARENT, FALSE },
  { "function", spoil_function, SONDE_TRIE_FAULT_FUNCTION, FALSE },
  { "root with a function", spoil_root, SONDE_TRIE_FAULT_FUNCTION, FALSE },
  { "timing", spoil_timing, SONDE_TRIE_FAULT_REFERENCE, FALSE },
  { "timing unaligned", spoil_timing_unaligned, SONDE_TRIE_FAULT_REFERENCE, FALSE },
  { "timing unused", spoil_timing_unused, SONDE_TRIE_FAULT_REFERENCE, FALSE },
  { "timing of another kind", spoil_timing_kind, SONDE_TRIE_FAULT_REFERENCE, FALSE },
  { "timing beyond", spoil_timing_end, SONDE_TRIE_FAULT_REFERENCE, FALSE },
  { "timing away", spoil_timing_away, SONDE_TRIE_FAULT_REFERENCE, TRUE },
  { "timing of two", spoil_timing_owner, SONDE_TRIE_FAULT_OWNER, FALSE },
  { "octave", spoil_octave, SONDE_TRIE_FAULT_REFERENCE, FALSE },
  { "octave of two", spoil_octave_owner, SONDE_TRIE_FAULT_OWNER, FALSE },
  { "octave away", spoil_octave_away, SONDE_TRIE_FAULT_REFERENCE, TRUE },
  { "calls", spoil_calls, SONDE_TRIE_FAULT_BACKWARDS, TRUE },
  { "timed", spoil_timed, SONDE_TRIE_FAULT_BACKWARDS, TRUE },
  { "total", spoil_total, SONDE_TRIE_FAULT_BACKWARDS, TRUE },
  { "slabs", spoil_slabs, SONDE_TRIE_FAULT_BACKWARDS, TRUE },
};

static void
what_cannot_be_ends_the_region (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (spoils); i++)
    {
      Hostile hostile = make_hostile ();
      SondeTrieReader *reader = hostile.trie->reader;
      int r;

      g_test_message ("%s", spoils[i].name);
      if (spoils[i].is_later)
        g_assert_cmpint (sonde_trie_reader_turn (reader, 100, trie_ignore, NULL), ==, 0);
      spoils[i].spoil (&hostile);
      r = sonde_trie_reader_turn (reader, 100, trie_ignore, NULL);
      g_assert_cmpint (r, ==, -EBADMSG);
      g_assert_cmpint (sonde_trie_reader_fault (reader), ==, spoils[i].fault);
      g_assert_cmpstr (sonde_trie_fault_to_string (spoils[i].fault), !=, "?");
      g_assert_cmpint (sonde_trie_reader_turn (reader, 100, trie_ignore, NULL), ==, -EBADMSG);
      clear_hostile (&hostile);
    }
}

static void
an_account_that_shrinks_is_refused (void)
{
  Hostile hostile = make_hostile ();
  SondeTrieSlot *slots = (gpointer) (hostile.mapped.base + SONDE_TRIE_HEADER_BYTES);
  SondeTrieCounts counts;

  trie_fixture_count (hostile.trie);
  slots[0].calls = slots[1].calls = 0;
  g_assert_cmpint (sonde_trie_reader_count (hostile.trie->reader, &counts), ==, -EBADMSG);
  clear_hostile (&hostile);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/trie/a-bucket-has-what-is-between-its-bounds",
                   a_bucket_has_what_is_between_its_bounds);
  g_test_add_func ("/trie/memory-refuses-what-is-out-of-range",
                   memory_refuses_what_is_out_of_range);
  g_test_add_func ("/trie/memory-refuses-what-is-no-region", memory_refuses_what_is_no_region);
  g_test_add_func ("/trie/what-cannot-be-ends-the-region", what_cannot_be_ends_the_region);
  g_test_add_func ("/trie/an-account-that-shrinks-is-refused", an_account_that_shrinks_is_refused);
  g_test_add_func ("/trie/each-path-has-its-own-count", each_path_has_its_own_count);
  g_test_add_func ("/trie/more-callees-than-the-table-has-are-told-apart",
                   more_callees_than_the_table_has_are_told_apart);
  g_test_add_func ("/trie/calls-whose-end-nobody-tells-have-their-paths",
                   calls_whose_end_nobody_tells_have_their_paths);
  g_test_add_func ("/trie/what-longjmp-left-is-dead-at-the-next-call",
                   what_longjmp_left_is_dead_at_the_next_call);
  g_test_add_func ("/trie/the-target-of-a-tail-call-is-a-sibling",
                   the_target_of_a_tail_call_is_a_sibling);
  g_test_add_func ("/trie/an-exit-without-its-call-is-counted",
                   an_exit_without_its_call_is_counted);
  g_test_add_func ("/trie/inlined-functions-are-callees", inlined_functions_are_callees);
  g_test_add_func ("/trie/a-known-jump-ends-what-it-leaves", a_known_jump_ends_what_it_leaves);
  g_test_add_data_func ("/trie/deep-calls-are-counted-as-lost", GINT_TO_POINTER (FALSE),
                        deep_calls_are_counted_as_lost);
  g_test_add_data_func ("/trie/deep-calls-with-inlined-ones-are-counted-as-lost",
                        GINT_TO_POINTER (TRUE), deep_calls_are_counted_as_lost);
  g_test_add_func ("/trie/a-stack-takes-slabs-as-it-grows", a_stack_takes_slabs_as_it_grows);
  g_test_add_func ("/trie/what-has-no-room-is-nobodys", what_has_no_room_is_nobodys);
  g_test_add_func ("/trie/threads-without-room-are-counted", threads_without_room_are_counted);
  g_test_add_func ("/trie/a-trie-that-was-left-is-adopted", a_trie_that_was_left_is_adopted);
  g_test_add_func ("/trie/handlers-in-hooks-have-a-trie-of-their-own",
                   handlers_in_hooks_have_a_trie_of_their_own);
  g_test_add_func ("/trie/a-hook-that-was-left-is-over", a_hook_that_was_left_is_over);
  g_test_add_func ("/trie/a-coroutine-keeps-its-path", a_coroutine_keeps_its_path);
  g_test_add_func ("/trie/of-too-many-stacks-the-oldest-goes", of_too_many_stacks_the_oldest_goes);
  g_test_add_func ("/trie/a-stack-that-grew-is-the-same", a_stack_that_grew_is_the_same);
  g_test_add_func ("/trie/another-wish-voids-the-stacks", another_wish_voids_the_stacks);
  g_test_add_func ("/trie/what-is-left-out-is-not-counted", what_is_left_out_is_not_counted);
  g_test_add_func ("/trie/many-are-left-out", many_are_left_out);
  g_test_add_func ("/trie/calls-that-stand-begin-a-path", calls_that_stand_begin_a_path);
  g_test_add_func ("/trie/calls-that-stand-end-by-their-stack",
                   calls_that_stand_end_by_their_stack);
  g_test_add_func ("/trie/what-is-not-wanted-is-nobodys", what_is_not_wanted_is_nobodys);
  g_test_add_func ("/trie/gaps-have-their-mean", gaps_have_their_mean);
  g_test_add_func ("/trie/percentiles-are-those-of-the-calls", percentiles_are_those_of_the_calls);
  g_test_add_func ("/trie/a-path-that-becomes-slow-has-each-call-timed",
                   a_path_that_becomes_slow_has_each_call_timed);
  g_test_add_func ("/trie/threads-do-not-count-their-first-call-as-many",
                   threads_do_not_count_their_first_call_as_many);
  g_test_add_func ("/trie/self-time-is-without-callees", self_time_is_without_callees);
  g_test_add_func ("/trie/hooks-are-timed-themselves", hooks_are_timed_themselves);
  g_test_add_func ("/trie/a-turn-is-bounded-and-goes-on", a_turn_is_bounded_and_goes_on);
  g_test_add_func ("/trie/buckets-may-come-round", buckets_may_come_round);
  g_test_add_func ("/trie/the-bucket-of-a-last-call-is-not-missed",
                   the_bucket_of_a_last_call_is_not_missed);
  g_test_add_func ("/trie/slow-calls-are-told-one-by-one", slow_calls_are_told_one_by_one);
  g_test_add_func ("/trie/slow-calls-without-room-are-counted",
                   slow_calls_without_room_are_counted);
  g_test_add_func ("/trie/last-words-are-the-path", last_words_are_the_path);

  return g_test_run ();
}
