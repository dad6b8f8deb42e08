/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The kernel's ring, played by a piece of memory. */
#include "daemon/capture/perf/perf-ring.h"

#include <errno.h>
#include <string.h>

#define RING_SIZE 4096u

/* What the kernel maps, and a kernel that writes into it. */
typedef struct
{
  struct perf_event_mmap_page page;
  _Alignas(8) uint8_t data[RING_SIZE];
  uint64_t head;
  SondePerfRing *ring;
} Fake;

static Fake *
fake_new (uint64_t start)
{
  Fake *fake = g_new0 (Fake, 1);

  fake->head = start;
  fake->page.data_head = fake->page.data_tail = start;
  fake->ring = sonde_perf_ring_new_for_memory (&fake->page, fake->data, RING_SIZE);

  return fake;
}

static void
fake_free (Fake *fake)
{
  sonde_perf_ring_close (fake->ring);
  g_free (fake);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Fake, fake_free)

static void
write_bytes (Fake *fake, const void *bytes, size_t size_bytes)
{
  for (size_t i = 0; i < size_bytes; i++)
    fake->data[(fake->head + i) % RING_SIZE] = ((const uint8_t *) bytes)[i];
  fake->head += size_bytes;
  fake->page.data_head = fake->head;
}

/* A record of @size_bytes whose payload is @fill, saying that it is @claimed long. */
static void
write_record (Fake *fake, uint16_t size_bytes, uint16_t claimed, uint8_t fill)
{
  g_autofree uint8_t *bytes = g_malloc (size_bytes);
  struct perf_event_header header = { .type = PERF_RECORD_SAMPLE, .size = claimed };

  memset (bytes, fill, size_bytes);
  memcpy (bytes, &header, sizeof header);
  write_bytes (fake, bytes, size_bytes);
}

static void
assert_damaged (uint16_t claimed)
{
  g_autoptr (Fake) fake = fake_new (0);
  const struct perf_event_header *record;

  write_record (fake, 64, claimed, 1);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, -EBADMSG);
  g_assert_cmpuint (fake->page.data_tail, ==, 64);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 0);

  /* It goes on with what comes behind. */
  write_record (fake, 16, 16, 2);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
}

static void
refuses_length_zero (void)
{
  assert_damaged (0);
}

static void
refuses_length_below_a_header (void)
{
  assert_damaged (7);
}

static void
refuses_unaligned_length (void)
{
  assert_damaged (29);
}

static void
refuses_length_past_head (void)
{
  assert_damaged (72);
  assert_damaged (65528);
}

static void
refuses_head_beyond_the_ring (void)
{
  g_autoptr (Fake) fake = fake_new (0);
  const struct perf_event_header *record;

  write_record (fake, 16, 16, 1);
  fake->page.data_head = RING_SIZE + 8;
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, -EBADMSG);
  g_assert_cmpuint (sonde_perf_ring_fill (fake->ring), ==, 0);
}

static void
refuses_head_behind_tail (void)
{
  g_autoptr (Fake) fake = fake_new (4096);
  const struct perf_event_header *record;

  fake->page.data_head = 4088;
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, -EBADMSG);
}

/* And what comes behind it: records are given at words only. */
static void
refuses_head_between_two_words (void)
{
  g_autoptr (Fake) fake = fake_new (0);
  const struct perf_event_header *record;
  uint64_t position = 0;

  fake->page.data_head = 12;
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, -EBADMSG);
  fake->page.data_head = 28;
  g_assert_false (sonde_perf_ring_peek (fake->ring, &position, &record));
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, -EBADMSG);
  fake->page.data_head = 32;
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, -EBADMSG);
  fake->head = 32;
  write_record (fake, 16, 16, 1);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
}

static void
gives_nothing_when_empty (void)
{
  g_autoptr (Fake) fake = fake_new (123 * 8);
  const struct perf_event_header *record;

  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 0);
  g_assert_cmpuint (sonde_perf_ring_fill (fake->ring), ==, 0);
}

static void
gives_records_in_place (void)
{
  g_autoptr (Fake) fake = fake_new (0);
  const struct perf_event_header *record;

  write_record (fake, 24, 24, 1);
  write_record (fake, 32, 32, 2);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
  g_assert_true ((const void *) record == fake->data);
  /* Looking twice changes nothing. */
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
  g_assert_true ((const void *) record == fake->data);
  g_assert_cmpuint (fake->page.data_tail, ==, 0);
  g_assert_cmpuint (sonde_perf_ring_fill (fake->ring), ==, 56);

  sonde_perf_ring_pop (fake->ring);
  g_assert_cmpuint (fake->page.data_tail, ==, 24);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
  g_assert_true ((const void *) record == fake->data + 24);
}

static void
joins_a_record_that_wraps (void)
{
  /* At each place where it can wrap. */
  for (uint64_t before = 8; before < 64; before += 8)
    {
      g_autoptr (Fake) fake = fake_new (RING_SIZE - before);
      const struct perf_event_header *record;
      uint8_t expected[64];

      memset (expected, 7, sizeof expected);
      write_record (fake, 64, 64, 7);
      g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
      g_assert_cmpuint (record->size, ==, 64);
      g_assert_cmpmem (record + 1, 56, expected, 56);
      sonde_perf_ring_pop (fake->ring);
      g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 0);
      g_assert_cmpuint (fake->page.data_tail, ==, RING_SIZE - before + 64);
    }
}

static void
works_past_the_wrap_of_its_counters (void)
{
  g_autoptr (Fake) fake = fake_new (UINT64_MAX - 31);
  const struct perf_event_header *record;

  write_record (fake, 64, 64, 3);
  g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
  sonde_perf_ring_pop (fake->ring);
  g_assert_cmpuint (fake->page.data_tail, ==, 32);
}

static void
shows_each_record_once_and_takes_none (void)
{
  g_autoptr (Fake) fake = fake_new (UINT64_MAX - 47);
  const struct perf_event_header *record;
  uint64_t position = 0;

  g_assert_false (sonde_perf_ring_peek (fake->ring, &position, &record));
  write_record (fake, 16, 16, 1);
  write_record (fake, 32, 32, 2);
  g_assert_true (sonde_perf_ring_peek (fake->ring, &position, &record));
  g_assert_cmpuint (record->size, ==, 16);
  g_assert_true (sonde_perf_ring_peek (fake->ring, &position, &record));
  g_assert_cmpuint (record->size, ==, 32);
  g_assert_false (sonde_perf_ring_peek (fake->ring, &position, &record));

  /* What was taken unseen is not shown. */
  write_record (fake, 64, 64, 3);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpint (sonde_perf_ring_front (fake->ring, &record), ==, 1);
      sonde_perf_ring_pop (fake->ring);
    }
  write_record (fake, 24, 24, 4);
  g_assert_true (sonde_perf_ring_peek (fake->ring, &position, &record));
  g_assert_cmpuint (record->size, ==, 24);
}

static void
shows_no_record_that_wraps_or_is_damaged (void)
{
  g_autoptr (Fake) fake = fake_new (RING_SIZE - 16);
  const struct perf_event_header *record;
  uint64_t position = 0;

  write_record (fake, 32, 32, 1);
  write_record (fake, 16, 16, 2);
  g_assert_true (sonde_perf_ring_peek (fake->ring, &position, &record));
  g_assert_cmpuint (record->size, ==, 16);
  write_record (fake, 16, 7, 3);
  write_record (fake, 16, 16, 4);
  g_assert_false (sonde_perf_ring_peek (fake->ring, &position, &record));
  fake->page.data_head = 8;
  g_assert_false (sonde_perf_ring_peek (fake->ring, &position, &record));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/perf-ring/refuses-length-zero", refuses_length_zero);
  g_test_add_func ("/perf-ring/refuses-length-below-a-header", refuses_length_below_a_header);
  g_test_add_func ("/perf-ring/refuses-unaligned-length", refuses_unaligned_length);
  g_test_add_func ("/perf-ring/refuses-length-past-head", refuses_length_past_head);
  g_test_add_func ("/perf-ring/refuses-head-beyond-the-ring", refuses_head_beyond_the_ring);
  g_test_add_func ("/perf-ring/refuses-head-behind-tail", refuses_head_behind_tail);
  g_test_add_func ("/perf-ring/refuses-head-between-two-words", refuses_head_between_two_words);
  g_test_add_func ("/perf-ring/shows-no-record-that-wraps-or-is-damaged",
                   shows_no_record_that_wraps_or_is_damaged);
  g_test_add_func ("/perf-ring/shows-each-record-once-and-takes-none",
                   shows_each_record_once_and_takes_none);
  g_test_add_func ("/perf-ring/gives-nothing-when-empty", gives_nothing_when_empty);
  g_test_add_func ("/perf-ring/gives-records-in-place", gives_records_in_place);
  g_test_add_func ("/perf-ring/joins-a-record-that-wraps", joins_a_record_that_wraps);
  g_test_add_func ("/perf-ring/works-past-the-wrap-of-its-counters",
                   works_past_the_wrap_of_its_counters);
  return g_test_run ();
}
