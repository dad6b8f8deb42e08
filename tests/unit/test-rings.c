/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Several rings, one order of time. */
#include "daemon/capture/perf/rings.h"

#include <string.h>

#define RING_SIZE 4096u
#define N_RINGS   3
#define NOW       INT64_C (1000000000)

typedef struct
{
  struct perf_event_header header;
  int64_t time_ns;
} Record;

typedef struct
{
  struct perf_event_mmap_page page;
  _Alignas(8) uint8_t data[RING_SIZE];
} FakeRing;

typedef struct
{
  FakeRing *fakes[N_RINGS];
  SondeRings *rings;
  GArray *times;    /* int64_t, as handed on */
  GArray *foreseen; /* int64_t, as shown before */
  guint n_damaged;
  gboolean wait;
  gboolean pressed;
} Fixture;

static int64_t
record_time (const struct perf_event_header *record, gpointer user_data)
{
  return ((const Record *) (const void *) record)->time_ns;
}

static SondeRingsAnswer
take_record (const struct perf_event_header *record,
             unsigned kind,
             gboolean pressed,
             gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->pressed = pressed;
  if (fixture->wait)
    return SONDE_RINGS_WAIT;
  g_array_append_val (fixture->times, ((const Record *) (const void *) record)->time_ns);

  return SONDE_RINGS_TAKEN;
}

static void
ring_damaged (unsigned kind, gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->n_damaged++;
}

static void
foresee_record (const struct perf_event_header *record, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_array_append_val (fixture->foreseen, ((const Record *) (const void *) record)->time_ns);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  static const SondeMessageSetup setup;
  static const SondeRingsHandler handler
      = { record_time, take_record, ring_damaged, foresee_record, NULL };

  fixture->foreseen = g_array_new (FALSE, FALSE, sizeof (int64_t));
  fixture->times = g_array_new (FALSE, FALSE, sizeof (int64_t));
  fixture->rings = sonde_rings_new (&setup, &handler, fixture);
  for (guint i = 0; i < N_RINGS; i++)
    {
      fixture->fakes[i] = g_new0 (FakeRing, 1);
      sonde_rings_add (fixture->rings,
                       sonde_perf_ring_new_for_memory (&fixture->fakes[i]->page,
                                                       fixture->fakes[i]->data, RING_SIZE),
                       i);
    }
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_rings_free (fixture->rings);
  for (guint i = 0; i < N_RINGS; i++)
    g_free (fixture->fakes[i]);
  g_array_unref (fixture->times);
  g_array_unref (fixture->foreseen);
}

static void
write_record (Fixture *fixture, guint ring, int64_t time_ns)
{
  FakeRing *fake = fixture->fakes[ring];
  Record record = { { .type = PERF_RECORD_SAMPLE, .size = sizeof record }, time_ns };

  memcpy (fake->data + fake->page.data_head % RING_SIZE, &record, sizeof record);
  fake->page.data_head += sizeof record;
}

static void
assert_times (Fixture *fixture, const int64_t *times, guint n_times)
{
  g_assert_cmpmem (fixture->times->data, fixture->times->len * sizeof (int64_t), times,
                   n_times * sizeof (int64_t));
}

static void
orders_records_of_all_rings (Fixture *fixture, gconstpointer data)
{
  static const int64_t expected[] = { 1, 2, 3, 4, 5, 6, 7 };

  write_record (fixture, 0, 3);
  write_record (fixture, 0, 6);
  write_record (fixture, 1, 1);
  write_record (fixture, 1, 2);
  write_record (fixture, 1, 7);
  write_record (fixture, 2, 4);
  write_record (fixture, 2, 5);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 100), ==, SONDE_RINGS_EMPTY);
  assert_times (fixture, expected, G_N_ELEMENTS (expected));
  g_assert_cmpuint (sonde_rings_n_late (fixture->rings), ==, 0);
  g_assert_cmpuint (fixture->fakes[1]->page.data_tail, ==, 3 * sizeof (Record));
}

static void
keeps_what_is_within_the_window (Fixture *fixture, gconstpointer data)
{
  const int64_t young = NOW - SONDE_RINGS_WINDOW_NS + 1;
  const int64_t old = NOW - SONDE_RINGS_WINDOW_NS;

  write_record (fixture, 0, old);
  write_record (fixture, 1, young);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 100), ==, SONDE_RINGS_YOUNG);
  assert_times (fixture, &old, 1);
  /* An older one that comes later still goes first. */
  write_record (fixture, 2, young - 1);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW + 10, FALSE, 100), ==, SONDE_RINGS_EMPTY);
  assert_times (fixture, (const int64_t[]){ old, young - 1, young }, 3);
}

static void
hands_all_on_when_draining (Fixture *fixture, gconstpointer data)
{
  const int64_t later = NOW + 5;

  write_record (fixture, 0, later);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, TRUE, 100), ==, SONDE_RINGS_EMPTY);
  assert_times (fixture, &later, 1);
}

static void
does_not_wait_when_a_ring_is_half_full (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i <= RING_SIZE / 2 / sizeof (Record); i++)
    write_record (fixture, 1, NOW);
  write_record (fixture, 0, NOW - 1);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 1), ==, SONDE_RINGS_BUDGET);
  g_assert_true (fixture->pressed);
  assert_times (fixture, (const int64_t[]){ NOW - 1 }, 1);
}

static void
counts_a_late_record_and_uses_it (Fixture *fixture, gconstpointer data)
{
  write_record (fixture, 0, 100);
  sonde_rings_run (fixture->rings, NOW, FALSE, 100);
  write_record (fixture, 1, 50);
  sonde_rings_run (fixture->rings, NOW, FALSE, 100);
  assert_times (fixture, (const int64_t[]){ 100, 50 }, 2);
  g_assert_cmpuint (sonde_rings_n_late (fixture->rings), ==, 1);
}

static void
stops_at_the_budget (Fixture *fixture, gconstpointer data)
{
  for (int64_t i = 0; i < 5; i++)
    write_record (fixture, 0, i);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 2), ==, SONDE_RINGS_BUDGET);
  g_assert_cmpuint (fixture->times->len, ==, 2);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 3), ==, SONDE_RINGS_EMPTY);
  g_assert_cmpuint (sonde_rings_n_handed_on (fixture->rings), ==, 5);
}

static void
keeps_a_record_that_its_successor_waits_with (Fixture *fixture, gconstpointer data)
{
  write_record (fixture, 0, 1);
  write_record (fixture, 1, 2);
  fixture->wait = TRUE;
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 100), ==, SONDE_RINGS_WAITING);
  g_assert_cmpuint (fixture->fakes[0]->page.data_tail, ==, 0);
  fixture->wait = FALSE;
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 100), ==, SONDE_RINGS_EMPTY);
  assert_times (fixture, (const int64_t[]){ 1, 2 }, 2);
}

static void
tells_of_a_damaged_ring_and_goes_on (Fixture *fixture, gconstpointer data)
{
  write_record (fixture, 0, 1);
  ((Record *) (void *) fixture->fakes[0]->data)->header.size = 0;
  write_record (fixture, 1, 2);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, FALSE, 100), ==, SONDE_RINGS_EMPTY);
  g_assert_cmpuint (fixture->n_damaged, ==, 1);
  write_record (fixture, 0, 3);
  sonde_rings_run (fixture->rings, NOW, FALSE, 100);
  assert_times (fixture, (const int64_t[]){ 2, 3 }, 2);
}

#define ADD(name, function) g_test_add ("/rings/" name, Fixture, NULL, set_up, function, tear_down)

static void
shows_young_records_of_one_kind_before_their_time (Fixture *fixture, gconstpointer data)
{
  write_record (fixture, 0, NOW);
  write_record (fixture, 1, NOW + 2);
  write_record (fixture, 1, NOW + 1);
  write_record (fixture, 1, NOW + 3);
  sonde_rings_foresee (fixture->rings, 1, 2);
  g_assert_cmpuint (fixture->foreseen->len, ==, 2);
  sonde_rings_foresee (fixture->rings, 1, 2);
  sonde_rings_foresee (fixture->rings, 1, 2);
  g_assert_cmpmem (fixture->foreseen->data, fixture->foreseen->len * sizeof (int64_t),
                   ((const int64_t[]){ NOW + 2, NOW + 1, NOW + 3 }), 3 * sizeof (int64_t));
  g_assert_cmpuint (fixture->times->len, ==, 0);
  g_assert_cmpint (sonde_rings_run (fixture->rings, NOW, TRUE, 100), ==, SONDE_RINGS_EMPTY);
  g_assert_cmpuint (fixture->times->len, ==, 4);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("tells-of-a-damaged-ring-and-goes-on", tells_of_a_damaged_ring_and_goes_on);
  ADD ("orders-records-of-all-rings", orders_records_of_all_rings);
  ADD ("keeps-what-is-within-the-window", keeps_what_is_within_the_window);
  ADD ("shows-young-records-of-one-kind-before-their-time",
       shows_young_records_of_one_kind_before_their_time);
  ADD ("hands-all-on-when-draining", hands_all_on_when_draining);
  ADD ("does-not-wait-when-a-ring-is-half-full", does_not_wait_when_a_ring_is_half_full);
  ADD ("counts-a-late-record-and-uses-it", counts_a_late_record_and_uses_it);
  ADD ("stops-at-the-budget", stops_at_the_budget);
  ADD ("keeps-a-record-that-its-successor-waits-with",
       keeps_a_record_that_its_successor_waits_with);
  return g_test_run ();
}
