/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processors that were off, and what events show of them. An event that is switched off stands
 * still as those of such a processor do. */
#include "daemon/broker/event-set.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/base/error.h"

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* Returns: NULL: skipped */
static SondeEventSet *
set_new (void)
{
  const SondeAsked asked = { .scope = SONDE_SCOPE_SYSTEM, .event = SONDE_EVENT_NONE };
  g_autoptr (GError) error = NULL;
  SondeEventSet *set = sonde_event_set_new (&asked, 0, &error);

  if (g_error_matches (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED))
    {
      g_test_skip ("needs the right to events of whole processors");
      return NULL;
    }
  g_assert_no_error (error);
  return set;
}

static int
first_cpu (const SondeEventSet *set)
{
  return g_array_index (sonde_event_set_cpus (set), int, 0);
}

/* All perf events of this program. */
static void
stop_events (void)
{
  g_autoptr (GDir) dir = g_dir_open ("/proc/self/fd", 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename ("/proc/self/fd", name, NULL);
      g_autofree char *what = g_file_read_link (path, NULL);

      if (what != NULL && strstr (what, "perf_event") != NULL)
        g_assert_cmpint (ioctl (atoi (name), PERF_EVENT_IOC_DISABLE, 0), ==, 0);
    }
}

/* --- cases --- */

static void
those_of_a_processor_that_was_on_count (void)
{
  g_autoptr (SondeEventSet) set = set_new ();

  if (set == NULL)
    return;
  g_assert_true (sonde_event_set_is_counting (set, first_cpu (set)));
  g_usleep (1);
  g_assert_true (sonde_event_set_is_counting (set, first_cpu (set)));
}

static void
those_of_one_that_was_off_do_not_until_they_are_new (void)
{
  gint64 start_ns = now_ns ();
  g_autoptr (SondeEventSet) set = set_new ();
  gint64 end_ns;
  gint64 until_ns;
  int cpu;

  if (set == NULL)
    return;
  cpu = first_cpu (set);
  if (sonde_event_set_counted_until_ns (set, cpu) == 0)
    {
      g_test_skip ("needs the right to events of whole processors, by which it is told");
      return;
    }
  stop_events ();
  end_ns = now_ns ();
  g_assert_true (sonde_event_set_is_counting (set, cpu)); /* until just now */
  g_assert_false (sonde_event_set_is_counting (set, cpu));
  until_ns = sonde_event_set_counted_until_ns (set, cpu);
  g_assert_cmpint (until_ns, >=, start_ns);
  /* Two clocks: microseconds of each second. */
  g_assert_cmpint (until_ns, <=, end_ns + G_USEC_PER_SEC);

  sonde_event_set_revive (set, cpu);
  g_assert_true (sonde_event_set_is_counting (set, cpu));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/event-set/those-of-a-processor-that-was-on-count",
                   those_of_a_processor_that_was_on_count);
  g_test_add_func ("/event-set/those-of-one-that-was-off-do-not-until-they-are-new",
                   those_of_one_that_was_off_do_not_until_they_are_new);
  return g_test_run ();
}
