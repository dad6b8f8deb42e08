/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a sonded that takes over sees of processors that were off meanwhile. An event that is
 * switched off stands still as those of such a processor do. */
#include "daemon/broker/event-set.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/base/error.h"

typedef struct
{
  SondeAsked asked;
  SondeEventSet *before; /* NULL: skipped */
  SondeBrokerRecord record;
  GArray *fds; /* int: of its rings, then of its pulses */
  guint n_rings;
  gint64 start_ns;
} Fixture;

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static void
append_duplicates (GArray *fds, GArray *borrowed)
{
  for (guint i = 0; i < borrowed->len; i++)
    {
      int fd = fcntl (g_array_index (borrowed, int, i), F_DUPFD_CLOEXEC, 3);

      g_assert_cmpint (fd, >=, 0);
      g_array_append_val (fds, fd);
    }
  g_array_unref (borrowed);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  fixture->asked = (SondeAsked){ .scope = SONDE_SCOPE_SYSTEM, .event = SONDE_EVENT_NONE };
  fixture->start_ns = now_ns ();
  sonde_broker_record_init (&fixture->record);
  fixture->fds = g_array_new (FALSE, FALSE, sizeof (int));
  fixture->before = sonde_event_set_new (&fixture->asked, 0, &error);
  if (g_error_matches (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED))
    return;
  g_assert_no_error (error);
  sonde_event_set_record (fixture->before, &fixture->record);
  append_duplicates (fixture->fds, sonde_event_set_ring_fds (fixture->before));
  fixture->n_rings = fixture->fds->len;
  append_duplicates (fixture->fds, sonde_event_set_pulse_fds (fixture->before));
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < fixture->fds->len; i++)
    if (g_array_index (fixture->fds, int, i) >= 0)
      close (g_array_index (fixture->fds, int, i));
  g_array_unref (fixture->fds);
  sonde_broker_record_clear (&fixture->record);
  sonde_event_set_free (fixture->before);
}

static gboolean
has_events (const Fixture *fixture)
{
  if (fixture->before != NULL && fixture->fds->len > fixture->n_rings)
    return TRUE;
  g_test_skip ("needs the right to events of whole processors");
  return FALSE;
}

static SondeEventSet *
take_over (Fixture *fixture)
{
  g_autoptr (GError) error = NULL;
  SondeEventSet *set
      = sonde_event_set_new_recorded (&fixture->asked, &fixture->record, fixture->fds, &error);

  g_assert_no_error (error);
  return set;
}

static int
first_cpu (const SondeEventSet *set)
{
  return g_array_index (sonde_event_set_cpus (set), int, 0);
}

/* --- cases --- */

static void
refuses_rings_that_are_others (Fixture *fixture, gconstpointer data)
{
  g_autoptr (SondeEventSet) set = NULL;
  g_autoptr (GError) error = NULL;

  if (!has_events (fixture))
    return;
  g_array_index (fixture->record.rings, SondeRecordRing, 0).id += G_MAXINT32; /* nobody has that */
  set = sonde_event_set_new_recorded (&fixture->asked, &fixture->record, fixture->fds, &error);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_null (set);
}

static void
those_of_a_processor_that_was_on_count (Fixture *fixture, gconstpointer data)
{
  g_autoptr (SondeEventSet) set = NULL;

  if (!has_events (fixture))
    return;
  set = take_over (fixture);
  g_usleep (1);
  g_assert_true (sonde_event_set_is_counting (set, first_cpu (set)));
}

static void
those_of_one_that_was_off_do_not_until_they_are_new (Fixture *fixture, gconstpointer data)
{
  int pulse;
  int cpu;
  gint64 end_ns;
  gint64 until_ns;
  g_autoptr (SondeEventSet) set = NULL;

  if (!has_events (fixture))
    return;
  pulse = g_array_index (fixture->fds, int, fixture->n_rings);
  g_assert_cmpint (ioctl (pulse, PERF_EVENT_IOC_DISABLE, 0), ==, 0);
  end_ns = now_ns ();
  set = take_over (fixture);
  cpu = first_cpu (set);
  g_assert_false (sonde_event_set_is_counting (set, cpu));
  until_ns = sonde_event_set_counted_until_ns (set, cpu);
  g_assert_cmpint (until_ns, >=, fixture->start_ns);
  /* Two clocks: microseconds of each second. */
  g_assert_cmpint (until_ns, <=, end_ns + G_USEC_PER_SEC);

  sonde_event_set_revive (set, cpu);
  g_assert_true (sonde_event_set_is_counting (set, cpu));
  for (guint i = 1; i < sonde_event_set_cpus (set)->len; i++)
    g_assert_true (
        sonde_event_set_is_counting (set, g_array_index (sonde_event_set_cpus (set), int, i)));
}

static void
what_is_not_there_any_more_is_taken_to_count (Fixture *fixture, gconstpointer data)
{
  g_autoptr (SondeEventSet) set = NULL;

  if (!has_events (fixture))
    return;
  g_array_index (fixture->record.pulses, SondeRecordPulse, 0).id += G_MAXINT32;
  set = take_over (fixture);
  g_assert_true (sonde_event_set_is_counting (set, first_cpu (set)));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
  g_test_add ("/event-set/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("refuses-rings-that-are-others", refuses_rings_that_are_others);
  ADD ("those-of-a-processor-that-was-on-count", those_of_a_processor_that_was_on_count);
  ADD ("those-of-one-that-was-off-do-not-until-they-are-new",
       those_of_one_that_was_off_do_not_until_they_are_new);
  ADD ("what-is-not-there-any-more-is-taken-to-count",
       what_is_not_there_any_more_is_taken_to_count);
#undef ADD
  return g_test_run ();
}
