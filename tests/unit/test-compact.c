/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* compact-writer, compact-reader: what is said in short, what comes of it, and what is refused. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/resource.h>

#include "protocol/frame-check.h"
#include "shared-ring/compact-reader.h"
#include "shared-ring/compact-writer.h"

#define RING_BYTES (128 * 1024)
#define MAX_STACKS SONDE_HEAP_MAX_STACKS (RING_BYTES)
#define MAX_WORDS  SONDE_HEAP_MAX_STACK_WORDS (RING_BYTES)
#define TID        4243
#define NOW_NS     G_GINT64_CONSTANT (1000000000)
#define BLOCK      G_GUINT64_CONSTANT (0x55500000abc8)

typedef struct
{
  SondeCompactWriter writer;
  SondeCompactReader reader;
  SondeShortEvent event; /* of the last record */
  guint n_definitions;   /* of stacks, seen so far */
  guint64 place[(SONDE_HEAP_BLOCK_ROOM (SONDE_HEAP_MAX_DEPTH)) / 8];
  union
  {
    SondeFrame frame;
    SondeFrameAllocation allocation;
    guint64 words[SONDE_FRAME_MAX_SIZE / 8 + 1];
  };
} Pair;

static Pair *
pair_new (void)
{
  Pair *self = g_new0 (Pair, 1);

  sonde_compact_writer_init (&self->writer, RING_BYTES);
  g_assert_cmpint (sonde_compact_reader_init (&self->reader, RING_BYTES), ==, 0);
  return self;
}

static void
pair_free (Pair *self)
{
  sonde_compact_writer_clear (&self->writer);
  sonde_compact_reader_clear (&self->reader);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Pair, pair_free)

/* Reads what an event became: its frame is the last of them. */
static void
read_records (Pair *self, gsize size_bytes)
{
  const guint8 *at = (const guint8 *) self->place;
  gsize n_taken;

  self->event.address = 0;
  while (size_bytes > 0)
    {
      g_assert_cmpuint (self->event.address, ==, 0);
      self->n_definitions += (*at & SONDE_HEAP_KIND_MASK) == SONDE_HEAP_STACK;
      g_assert_cmpint (
          sonde_compact_reader_take (&self->reader, at, size_bytes, &n_taken, &self->event), ==,
          SONDE_HEAP_OK);
      g_assert_cmpuint (n_taken, <=, size_bytes);
      at += n_taken;
      size_bytes -= n_taken;
    }
  g_assert_cmpuint (self->event.address, !=, 0);
  sonde_compact_reader_make_frame (&self->reader, &self->event, &self->frame);
  g_assert_cmpint (sonde_frame_check (&self->frame, self->frame.len), ==, SONDE_FRAME_OK);
}

/* Its low bits, too, say something: a table looks at them first. */
static guint64
hash_stack (const guint64 *addrs, gsize depth)
{
  guint64 hash = depth;

  for (gsize i = 0; i < depth; i++)
    {
      hash = (hash ^ addrs[i]) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15);
      hash ^= hash >> 32;
    }
  return hash;
}

/* Writes an event, reads it, and compares. @addrs: NULL: a free. Returns: its bytes */
static gsize
pass (Pair *self, const SondeCompactEvent *wanted, const guint64 *addrs, gsize depth)
{
  SondeCompactEvent hashed = *wanted;
  const SondeCompactEvent *event = &hashed;
  SondeFrameAllocation *got = &self->allocation;
  gint64 before_ns = self->reader.now_ns;
  gsize size_bytes;

  if (addrs == NULL)
    size_bytes = sonde_compact_writer_free (&self->writer, self->place, event);
  else
    {
      memcpy ((guint8 *) self->place + SONDE_COMPACT_ADDRS_AT, addrs, depth * sizeof *addrs);
      hashed.stack_hash = hash_stack (addrs, depth);
      size_bytes = sonde_compact_writer_block (&self->writer, self->place, event, depth);
    }
  g_assert_cmpuint (size_bytes, <=,
                    addrs == NULL ? SONDE_HEAP_FREE_ROOM : SONDE_HEAP_BLOCK_ROOM (depth));
  read_records (self, size_bytes);
  g_assert_cmpuint (got->address, ==, event->address);
  g_assert_cmpint (got->size_bytes, ==, addrs != NULL ? (gint64) event->size_bytes : 0);
  g_assert_cmpint (got->tid, ==, event->tid);
  g_assert_cmpint (got->frame.time_ns, ==, MAX (event->time_ns, before_ns));
  g_assert_cmpuint (got->n_addrs, ==, depth);
  g_assert_cmpuint (got->frame.len, ==, sizeof *got + depth * sizeof *addrs);
  g_assert_cmpmem (got->addrs, depth * sizeof *addrs, addrs, depth * sizeof *addrs);
  return size_bytes;
}

/* A stack of its own for each number. */
static gsize
make_stack (guint number, guint64 *addrs)
{
  gsize depth = 1 + number % 37;

  for (gsize i = 0; i < depth; i++)
    addrs[i] = 0x401000 + 16 * i;
  addrs[number % depth] += (guint64) number << 8;
  return depth;
}

static void
tells_events_in_16_and_24_bytes (void)
{
  g_autoptr (Pair) pair = pair_new ();
  static const guint64 addrs[] = { 0x401136, 0x401180, 0x7f0012345678, 0 };
  SondeCompactEvent event = { BLOCK, 100, NOW_NS, 0, TID };

  g_assert_cmpuint (pass (pair, &event, addrs, 4), ==, 16 + 8 + 32 + 24);
  for (guint i = 0; i < 3; i++)
    {
      event.time_ns += i;
      g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 16);
      event.size_bytes = G_MAXINT64 - i;
      g_assert_cmpuint (pass (pair, &event, addrs, 4), ==, 24);
      g_assert_cmpuint (pass (pair, &event, addrs, 0), ==, 24);
    }
  /* Neither a part of a stack, nor one in another order, nor a longer one is the same. */
  g_assert_cmpuint (pass (pair, &event, addrs, 3), ==, 8 + 24 + 24);
  g_assert_cmpuint (pass (pair, &event, addrs + 1, 3), ==, 8 + 24 + 24);
  g_assert_cmpuint (pass (pair, &event, (guint64[]){ 0x401180, 0x401136 }, 2), ==, 8 + 8 + 24);
  g_assert_cmpuint (pass (pair, &event, (guint64[]){ 0x401136, 0x401180 }, 2), ==, 8 + 8 + 24);
  g_assert_cmpuint (pair->n_definitions, ==, 5);
}

/* What is below @addrs is as it was, and near addresses have four bytes. */
static void
tells_of_a_stack_what_is_new (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 100, NOW_NS, 0, TID };
  static const guint64 far = 0x7f0012345678;
  static const struct
  {
    guint64 addrs[5];
    guint depth;
    guint own_bytes;
  } stacks[] = {
    { { 0x401100, far, far + 1 }, 3, 24 },
    { { 0x401200, far, far + 1 }, 3, 8 },
    { { far - 3, far, far + 1 }, 3, 8 },
    { { far + 9, far - 3, far, far + 1 }, 4, 8 },
    { { far + 7, far - 3, far, far + 1 }, 4, 8 },
    { { 1, far - 3, far, far + 1 }, 4, 8 },
    { { far + G_MAXINT32 - 3, far - 3, far, far + 1 }, 4, 8 },
    { { far, far + 1 }, 2, 0 },
    { { far + 4, far + 3, far + 2, far, far + 1 }, 5, 16 },
    { { far - 1 + G_MININT32, far - 1, far, far + 1 }, 4, 8 },
    { { far, far - 1 + G_MAXINT32 + 1, far - 1, far, far + 1 }, 5, 16 },
    { { far, far, far + 1 }, 3, 8 },
    { { far, far, far, far + 1 }, 4, 8 },
    { { 5, 6 }, 2, 8 },
    { { 7, 5, 6 }, 3, 8 },
    { { UINT64_MAX }, 1, 8 },
  };

  pass (pair, &event, NULL, 0);
  for (guint i = 0; i < G_N_ELEMENTS (stacks); i++)
    {
      gsize bytes = pass (pair, &event, stacks[i].addrs, stacks[i].depth);

      g_test_message ("stack %u", i);
      g_assert_cmpuint (bytes, ==, 8 + stacks[i].own_bytes + 24);
    }
  g_assert_cmpuint (pair->n_definitions, ==, G_N_ELEMENTS (stacks));
}

static void
tells_clock_and_thread_when_they_change (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 0, NOW_NS, 0, TID };

  g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 32);
  event.time_ns += UINT32_MAX;
  g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 16);
  event.time_ns += G_GINT64_CONSTANT (1) << 32;
  g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 32);
  event.tid++;
  g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 32);
  /* Of two threads one may have looked at the clock before the other. */
  event.time_ns -= 77;
  g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 16);
  event.tid--;
  g_assert_cmpuint (pass (pair, &event, NULL, 0), ==, 32);
}

static void
takes_addresses_that_have_room_for_a_kind (void)
{
  g_assert_false (sonde_compact_writer_takes (0));
  g_assert_false (sonde_compact_writer_takes (4));
  g_assert_false (sonde_compact_writer_takes (BLOCK + 1));
  g_assert_false (sonde_compact_writer_takes (SONDE_HEAP_ADDRESS_END));
  g_assert_false (sonde_compact_writer_takes (UINT64_MAX - 7));
  g_assert_true (sonde_compact_writer_takes (8));
  g_assert_true (sonde_compact_writer_takes (BLOCK));
  g_assert_true (sonde_compact_writer_takes (SONDE_HEAP_ADDRESS_END - 8));
}

/* More than a table holds, and more than the ring may have: both sides begin anew together. */
static void
begins_anew_when_there_are_too_many_stacks (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 24, NOW_NS, 0, TID };
  guint64 addrs[64];
  guint32 most = 0;
  guint n_eras = 0;

  for (guint round = 0; round < 2; round++)
    for (guint i = 0; i < 5 * MAX_STACKS; i++)
      {
        gsize depth = make_stack (i, addrs);

        pass (pair, &event, addrs, depth);
        pass (pair, &event, addrs, depth);
        n_eras += pair->reader.n_stacks == 1 && most > 1;
        most = pair->reader.n_stacks;
        g_assert_cmpuint (pair->reader.n_stacks, ==, pair->writer.n_stacks);
        g_assert_cmpuint (pair->reader.n_words, ==, pair->writer.n_words);
        g_assert_cmpuint (pair->reader.n_words, <=, MAX_WORDS);
      }
  g_assert_cmpuint (n_eras, >, 8);
  g_assert_cmpuint (pair->n_definitions, ==, 10 * MAX_STACKS);
}

/* The numbers, and not the words, run out. */
static void
has_as_many_short_stacks_as_there_are_numbers (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 24, NOW_NS, 0, TID };

  for (guint64 i = 1; i <= MAX_STACKS; i++)
    pass (pair, &event, &i, 1);
  g_assert_cmpuint (pair->reader.n_stacks, ==, MAX_STACKS);
  for (guint64 i = 1; i <= MAX_STACKS; i++)
    g_assert_cmpuint (pass (pair, &event, &i, 1), ==, 24);
  g_assert_cmpuint (pair->n_definitions, ==, MAX_STACKS);
  pass (pair, &event, (guint64[]){ MAX_STACKS + 1 }, 1);
  g_assert_cmpuint (pair->reader.n_stacks, ==, 1);
}

static void
takes_the_deepest_stack (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 24, NOW_NS, 0, TID };
  guint64 addrs[SONDE_HEAP_MAX_DEPTH];

  for (guint i = 0; i < G_N_ELEMENTS (addrs); i++)
    addrs[i] = i % 3;
  pass (pair, &event, addrs, G_N_ELEMENTS (addrs));
  /* One that is different at its far end, in the middle, at the leaf. */
  for (guint i = 0; i < 3; i++)
    {
      addrs[i * (SONDE_HEAP_MAX_DEPTH - 1) / 2]++;
      pass (pair, &event, addrs, G_N_ELEMENTS (addrs));
      g_assert_cmpuint (pass (pair, &event, addrs, G_N_ELEMENTS (addrs)), ==, 24);
    }
  g_assert_cmpuint (pair->n_definitions, ==, 4);
}

#ifndef IS_EMULATED /* by an emulator that knows no limit of memory */
/* Each event brings its stack along until there is memory; errno stays as it was. */
static void
does_without_memory (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 24, NOW_NS, 0, TID };
  struct rlimit before, none;
  guint64 addrs[64];
  gsize depth = make_stack (5, addrs);

  g_assert_cmpint (getrlimit (RLIMIT_DATA, &before), ==, 0);
  none = (struct rlimit){ 1, before.rlim_max };
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &none), ==, 0);
  errno = EXDEV;
  for (guint i = 0; i < 3; i++)
    pass (pair, &event, addrs, depth);
  g_assert_cmpint (errno, ==, EXDEV);
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &before), ==, 0);
  g_assert_cmpuint (pair->n_definitions, ==, 3);

  pass (pair, &event, addrs, depth);
  g_assert_cmpuint (pass (pair, &event, addrs, depth), ==, 24);
  g_assert_cmpuint (pair->n_definitions, ==, 4);
}

/* A table that cannot grow is emptied. */
static void
begins_anew_when_its_table_cannot_grow (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 24, NOW_NS, 0, TID };
  struct rlimit before, none;

  g_assert_cmpint (getrlimit (RLIMIT_DATA, &before), ==, 0);
  none = (struct rlimit){ 1, before.rlim_max };
  pass (pair, &event, (guint64[]){ 1 }, 1);
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &none), ==, 0);
  for (guint64 i = 2; i < 1000; i++)
    {
      pass (pair, &event, &i, 1);
      g_assert_cmpuint (pass (pair, &event, &i, 1), ==, 24);
    }
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &before), ==, 0);
  g_assert_cmpuint (pair->writer.n_slots, ==, 512);
  g_assert_cmpuint (pair->writer.n_stacks, <=, 308);
  g_assert_cmpuint (pair->n_definitions, ==, 999);
}

#endif

/* The counter of eras begins again behind its last one; what is in the table is then forgotten. */
static void
survives_the_last_era (void)
{
  g_autoptr (Pair) pair = pair_new ();
  SondeCompactEvent event = { BLOCK, 24, NOW_NS, 0, TID };

  pass (pair, &event, (guint64[]){ 1 }, 1);
  pair->writer.era = UINT32_MAX;
  pair->writer.n_stacks = pair->writer.max_stacks;
  pass (pair, &event, (guint64[]){ 2 }, 1);
  g_assert_cmpuint (pair->writer.era, ==, 1);
  /* It has the era that the first one had, too. */
  pass (pair, &event, (guint64[]){ 1 }, 1);
  g_assert_cmpuint (pair->n_definitions, ==, 3);
  g_assert_cmpuint (pair->reader.n_stacks, ==, 2);
}

/* --- refusals --- */

#define CLOCK(time_ns)              (guint64) (time_ns) << 3 | SONDE_HEAP_CLOCK, TID
#define STACK(id, depth)            (guint64) (id) << 32 | (guint64) (depth) << 16 | SONDE_HEAP_STACK
#define NARROW                      SONDE_HEAP_STACK_NARROW
#define SHARED(n)                   (guint64) (n) << SONDE_HEAP_SHARED_SHIFT
#define FREE(address, dt)           (guint64) (address) | SONDE_HEAP_FREE, (dt)
#define ALLOC(address, stack, size) (address) | SONDE_HEAP_BLOCK, (guint64) (stack) << 32, (size)
#define WORDS(...)                  { __VA_ARGS__ }, sizeof ((guint64[]){ __VA_ARGS__ })

/* Whatever comes before the last record is right. */
static const struct
{
  const char *name;
  SondeHeapFault fault;
  guint64 words[12];
  gsize size_bytes;
} refusals[] = {
  { "kind 0", SONDE_HEAP_FAULT_KIND, WORDS (BLOCK, 0, 0) },
  { "kind 5", SONDE_HEAP_FAULT_KIND, WORDS (BLOCK | 5, 0, 0) },
  { "kind 7", SONDE_HEAP_FAULT_KIND, WORDS (UINT64_MAX, 0, 0) },
  { "half a clock", SONDE_HEAP_FAULT_SHORT, WORDS (NOW_NS << 3 | SONDE_HEAP_CLOCK) },
  { "half a free", SONDE_HEAP_FAULT_SHORT, WORDS (CLOCK (1), BLOCK | SONDE_HEAP_FREE) },
  { "half a block", SONDE_HEAP_FAULT_SHORT, WORDS (CLOCK (1), BLOCK | SONDE_HEAP_BLOCK, 0) },
  { "half a stack", SONDE_HEAP_FAULT_SHORT, WORDS (STACK (1, 3), 1, 2) },
  { "a free without a clock", SONDE_HEAP_FAULT_NO_CLOCK, WORDS (FREE (BLOCK, 0)) },
  { "a block without a clock", SONDE_HEAP_FAULT_NO_CLOCK, WORDS (ALLOC (BLOCK, 0, 1)) },
  { "a clock that goes back", SONDE_HEAP_FAULT_TIME, WORDS (CLOCK (9), CLOCK (8)) },
  { "a clock that goes back behind a free", SONDE_HEAP_FAULT_TIME,
    WORDS (CLOCK (9), FREE (BLOCK, UINT32_MAX), CLOCK (UINT32_MAX)) },
  { "a clock of more than a thread", SONDE_HEAP_FAULT_ZERO,
    WORDS (8 | SONDE_HEAP_CLOCK, G_GUINT64_CONSTANT (1) << 32) },
  { "a free of more than a time", SONDE_HEAP_FAULT_ZERO,
    WORDS (CLOCK (1), BLOCK | SONDE_HEAP_FREE, G_GUINT64_CONSTANT (1) << 32) },
  { "half a narrow stack", SONDE_HEAP_FAULT_SHORT, WORDS (STACK (1, 3) | NARROW, 1) },
  { "a narrow stack that is filled up with something", SONDE_HEAP_FAULT_ZERO,
    WORDS (STACK (1, 1) | NARROW, G_GUINT64_CONSTANT (1) << 32) },
  { "a first stack that shares", SONDE_HEAP_FAULT_SHARED, WORDS (STACK (1, 2) | SHARED (1), 7) },
  { "a stack that shares with what was forgotten", SONDE_HEAP_FAULT_SHARED,
    WORDS (STACK (1, 1), 7, STACK (1, 2) | SHARED (1), 7) },
  { "a stack that shares more than it has", SONDE_HEAP_FAULT_SHARED,
    WORDS (STACK (1, 3) | NARROW, 7, 8, STACK (2, 1) | SHARED (2)) },
  { "a stack that shares more than the one before has", SONDE_HEAP_FAULT_SHARED,
    WORDS (STACK (1, 1), 7, STACK (2, 3) | SHARED (2), 7) },
  { "a stack that shares as much as there may be", SONDE_HEAP_FAULT_SHARED,
    WORDS (STACK (1, 1), 7, STACK (2, 1) | SHARED (4095)) },
  { "a free at 0", SONDE_HEAP_FAULT_ADDRESS, WORDS (CLOCK (1), FREE (0, 1)) },
  { "a block at 0", SONDE_HEAP_FAULT_ADDRESS, WORDS (CLOCK (1), ALLOC (0, 0, 1)) },
  { "a free at 2^56", SONDE_HEAP_FAULT_ADDRESS,
    WORDS (CLOCK (1), FREE (SONDE_HEAP_ADDRESS_END, 1)) },
  { "a block at the end", SONDE_HEAP_FAULT_ADDRESS,
    WORDS (CLOCK (1), ALLOC (UINT64_MAX - 7, 0, 1)) },
  { "a block of 0 bytes", SONDE_HEAP_FAULT_SIZE, WORDS (CLOCK (1), ALLOC (BLOCK, 0, 0)) },
  { "a block of 2^63 bytes", SONDE_HEAP_FAULT_SIZE,
    WORDS (CLOCK (1), ALLOC (BLOCK, 0, G_GUINT64_CONSTANT (1) << 63)) },
  { "a stack that was never defined", SONDE_HEAP_FAULT_UNDEFINED,
    WORDS (CLOCK (1), ALLOC (BLOCK, 1, 1)) },
  { "a stack behind the last one", SONDE_HEAP_FAULT_UNDEFINED,
    WORDS (CLOCK (1), STACK (1, 1), 7, ALLOC (BLOCK, 2, 1)) },
  { "a stack far behind the last one", SONDE_HEAP_FAULT_UNDEFINED,
    WORDS (CLOCK (1), STACK (1, 1), 7, ALLOC (BLOCK, UINT32_MAX, 1)) },
  { "a stack that was forgotten", SONDE_HEAP_FAULT_UNDEFINED,
    WORDS (CLOCK (1), STACK (1, 1), 7, STACK (2, 1), 8, STACK (1, 1), 9, ALLOC (BLOCK, 2, 1)) },
  { "a stack of number 0", SONDE_HEAP_FAULT_NUMBER, WORDS (STACK (0, 1), 7) },
  { "a stack that leaves a gap", SONDE_HEAP_FAULT_NUMBER, WORDS (STACK (2, 1), 7) },
  { "a stack that is there already", SONDE_HEAP_FAULT_NUMBER,
    WORDS (STACK (1, 1), 7, STACK (2, 1), 8, STACK (2, 1), 9) },
  { "a stack without addresses", SONDE_HEAP_FAULT_DEPTH, WORDS (STACK (1, 0), 7) },
  { "a stack of too many addresses", SONDE_HEAP_FAULT_DEPTH,
    WORDS (STACK (1, SONDE_HEAP_MAX_DEPTH + 1), 7) },
};

static void
refuses_what_cannot_be (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autoptr (Pair) pair = pair_new ();
      const guint8 *at = (const guint8 *) refusals[i].words;
      gsize left_bytes = refusals[i].size_bytes;
      SondeHeapFault fault = SONDE_HEAP_OK;
      gsize n_taken;

      g_test_message ("%s", refusals[i].name);
      while (fault == SONDE_HEAP_OK)
        {
          g_assert_cmpuint (left_bytes, >, 0);
          fault = sonde_compact_reader_take (&pair->reader, at, left_bytes, &n_taken, &pair->event);
          at += n_taken;
          left_bytes -= n_taken;
        }
      g_assert_cmpint (fault, ==, refusals[i].fault);
      g_assert_cmpstr (sonde_heap_fault_to_string (fault), !=, "?");
    }
}

/* A number that is given again is another stack's. */
static void
keeps_notes_of_stacks (void)
{
  g_autoptr (Pair) pair = pair_new ();
  static const guint64 defined[] = { CLOCK (1), STACK (1, 1), 7, STACK (2, 1), 8 };
  static const guint64 anew[] = { STACK (1, 1), 9 };
  static const guint64 more[] = { STACK (2, 1), 7 };
  static const guint64 uses[][3] = { { ALLOC (BLOCK, 1, 1) }, { ALLOC (BLOCK, 2, 1) } };

  for (guint round = 0; round < 2; round++)
    {
      memcpy (pair->place, defined, sizeof defined);
      memcpy ((guint8 *) pair->place + sizeof defined, uses[1], sizeof uses[1]);
      read_records (pair, sizeof defined + sizeof uses[1]);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 1, 1), ==, 0);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 2, 1), ==, 0);
      *sonde_compact_reader_note (&pair->reader, 1, 1) = 11;
      *sonde_compact_reader_note (&pair->reader, 2, 1) = 12;
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 1, 1), ==, 11);

      memcpy (pair->place, anew, sizeof anew);
      memcpy ((guint8 *) pair->place + sizeof anew, uses[0], sizeof uses[0]);
      read_records (pair, sizeof anew + sizeof uses[0]);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 1, 1), ==, 0);
      *sonde_compact_reader_note (&pair->reader, 1, 1) = 13;
      memcpy (pair->place, more, sizeof more);
      memcpy ((guint8 *) pair->place + sizeof more, uses[1], sizeof uses[1]);
      read_records (pair, sizeof more + sizeof uses[1]);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 2, 1), ==, 0);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 1, 1), ==, 13);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 1, 2), ==, 0);
      g_assert_cmpuint (*sonde_compact_reader_note (&pair->reader, 1, 1), ==, 0);
    }
}

/* Times add up, as far as there are times. */
static void
refuses_times_that_run_over (void)
{
  g_autoptr (Pair) pair = pair_new ();
  const SondeHeapFree record = { BLOCK | SONDE_HEAP_FREE, UINT32_MAX, 0 };
  gsize n_taken;

  pair->reader.now_ns = G_MAXINT64 - UINT32_MAX;
  g_assert_cmpint (sonde_compact_reader_take (&pair->reader, (const guint8 *) &record,
                                              sizeof record, &n_taken, &pair->event),
                   ==, SONDE_HEAP_OK);
  g_assert_cmpint (pair->event.time_ns, ==, G_MAXINT64);
  g_assert_cmpint (sonde_compact_reader_take (&pair->reader, (const guint8 *) &record,
                                              sizeof record, &n_taken, &pair->event),
                   ==, SONDE_HEAP_FAULT_TIME);
}

/* Of as many numbers, and of as many words, as a ring of this size has; those that are shared
 * count, too. */
static void
refuses_more_stacks_than_a_ring_may_have (void)
{
  static const guint depths[] = { 1, 200, 200 };
  static const guint n_shared[] = { 0, 0, 200 };

  for (guint k = 0; k < G_N_ELEMENTS (depths); k++)
    {
      g_autoptr (Pair) pair = pair_new ();
      SondeHeapFault fault = SONDE_HEAP_OK;
      struct
      {
        SondeHeapStack stack;
        guint64 addrs[200];
      } record = { .stack = { SONDE_HEAP_STACK, (guint16) depths[k], 0 } };
      gsize n_taken;

      for (guint i = 1; fault == SONDE_HEAP_OK; i++)
        {
          g_assert_cmpuint (i, <=, MAX_STACKS + 1);
          record.stack.id = i;
          if (i > 1)
            record.stack.kind = (guint16) (SHARED (n_shared[k]) | SONDE_HEAP_STACK);
          fault = sonde_compact_reader_take (&pair->reader, (const guint8 *) &record, sizeof record,
                                             &n_taken, &pair->event);
        }
      g_assert_cmpint (fault, ==, SONDE_HEAP_FAULT_ROOM);
      g_assert_cmpuint (pair->reader.n_stacks, ==, depths[k] == 1 ? MAX_STACKS : MAX_WORDS / 201);
    }
}

static void
names_kinds_and_faults (void)
{
  g_assert_cmpstr (sonde_heap_kind_to_string (SONDE_HEAP_STACK), ==, "stack");
  g_assert_cmpstr (sonde_heap_kind_to_string (0), ==, "?");
  g_assert_cmpstr (sonde_heap_kind_to_string (7), ==, "?");
  g_assert_cmpstr (sonde_heap_kind_to_string (UINT32_MAX), ==, "?");
  g_assert_cmpstr (sonde_heap_fault_to_string (SONDE_HEAP_OK), ==, "it is whole");
  g_assert_cmpstr (sonde_heap_fault_to_string (SONDE_N_HEAP_FAULTS), ==, "?");
  for (guint i = 0; i < SONDE_N_HEAP_FAULTS; i++)
    g_assert_nonnull (sonde_heap_fault_to_string (i));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/compact-reader/refuses-what-cannot-be", refuses_what_cannot_be);
  g_test_add_func ("/compact-reader/keeps-notes-of-stacks", keeps_notes_of_stacks);
  g_test_add_func ("/compact-reader/refuses-times-that-run-over", refuses_times_that_run_over);
  g_test_add_func ("/compact-reader/refuses-more-stacks-than-a-ring-may-have",
                   refuses_more_stacks_than_a_ring_may_have);
  g_test_add_func ("/compact-reader/names-kinds-and-faults", names_kinds_and_faults);
  g_test_add_func ("/compact-writer/takes-addresses-that-have-room-for-a-kind",
                   takes_addresses_that_have_room_for_a_kind);
  g_test_add_func ("/compact-writer/tells-events-in-16-and-24-bytes",
                   tells_events_in_16_and_24_bytes);
  g_test_add_func ("/compact-writer/tells-of-a-stack-what-is-new", tells_of_a_stack_what_is_new);
  g_test_add_func ("/compact-writer/tells-clock-and-thread-when-they-change",
                   tells_clock_and_thread_when_they_change);
  g_test_add_func ("/compact-writer/begins-anew-when-there-are-too-many-stacks",
                   begins_anew_when_there_are_too_many_stacks);
  g_test_add_func ("/compact-writer/has-as-many-short-stacks-as-there-are-numbers",
                   has_as_many_short_stacks_as_there_are_numbers);
  g_test_add_func ("/compact-writer/takes-the-deepest-stack", takes_the_deepest_stack);
#ifndef IS_EMULATED
  g_test_add_func ("/compact-writer/does-without-memory", does_without_memory);
  g_test_add_func ("/compact-writer/begins-anew-when-its-table-cannot-grow",
                   begins_anew_when_its_table_cannot_grow);
#endif
  g_test_add_func ("/compact-writer/survives-the-last-era", survives_the_last_era);
  return g_test_run ();
}
