/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The list of tracepoints, and what this machine has of it. */
#include <linux/perf_event.h>
#include <string.h>

#include "daemon/broker/perf-event.h"

static void
test_list (void)
{
  const char *name;
  guint index;
  guint n = 0;

  for (; (name = sonde_tracepoint_name (n)) != NULL; n++)
    {
      g_assert_true (g_regex_match_simple ("^[a-z0-9_]+:[a-z0-9_]+$", name, 0, 0));
      g_assert_true (sonde_tracepoint_find (name, &index));
      g_assert_cmpuint (index, ==, n);
      g_assert_cmpuint (strlen (name), <, sizeof (((SondeMessageSetup *) NULL)->event));
    }
  g_assert_cmpuint (n, >, 20);
  g_assert_null (sonde_tracepoint_name (n));
}

static void
test_not_listed (void)
{
  static const char *const names[] = { "",
                                       ":",
                                       "sched",
                                       "sched:",
                                       "sched:sched_switch ",
                                       "sched/sched_switch",
                                       "sched:../sched/sched_switch",
                                       "Sched:sched_switch",
                                       "kvm:kvm_entry" };
  guint index;

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    g_assert_false (sonde_tracepoint_find (names[i], &index));
}

static SondePerfPlan
plan_tracepoint (SondeAsked *asked)
{
  SondePerfPlan plan;
  guint tracepoint;

  g_assert_true (sonde_tracepoint_find ("sched:sched_switch", &tracepoint));
  *asked = (SondeAsked){ .scope = SONDE_SCOPE_SYSTEM,
                         .event = SONDE_EVENT_TRACEPOINT,
                         .tracepoint = tracepoint,
                         .period = 1,
                         .unwind = SONDE_UNWIND_DWARF,
                         .stack_size_bytes = 16384 };
  sonde_perf_plan_init (&plan, asked);
  return plan;
}

static void
test_attributes (void)
{
  SondeAsked asked;
  SondePerfPlan plan = plan_tracepoint (&asked);

  g_assert_cmpuint (plan.samples.type, ==, PERF_TYPE_TRACEPOINT);
  g_assert_cmpuint (plan.samples.sample_period, ==, 1);
  g_assert_false (plan.samples.freq || plan.samples.exclude_kernel || plan.may_fall_back);
  g_assert_true (plan.samples.sample_type & PERF_SAMPLE_STACK_USER);
  /* The payload tells of other users' files and processes. */
  g_assert_false (plan.samples.sample_type & PERF_SAMPLE_RAW);
  g_assert_false (plan.samples.sample_type & PERF_SAMPLE_PERIOD);
  g_assert_cmpstr (plan.event_name, ==, "sched:sched_switch");
}

static void
test_probe (void)
{
  SondeAsked asked;
  SondePerfPlan plan = plan_tracepoint (&asked);
  gint64 id = sonde_tracepoint_id ("sched:sched_switch");
  g_autoptr (GError) error = NULL;
  guint64 events;
  guint64 tracepoints;
  guint index;

  sonde_perf_event_look (&events, &tracepoints);
  g_assert_true (sonde_tracepoint_find ("sched:sched_switch", &index));
  g_assert_cmpuint (tracepoints >> index & 1, ==, id > 0);
  g_assert_cmpint (plan.tracepoint_id, ==, id);
  if (id > 0)
    g_assert_cmpuint (plan.samples.config, ==, (guint64) id);
  else
    {
      g_assert_false (sonde_perf_plan_probe (&plan, &asked, 0, &error));
      g_assert_nonnull (strstr (error->message, "event"));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tracepoint/refuses-what-is-not-listed", test_not_listed);
  g_test_add_func ("/tracepoint/lists-names-that-fit", test_list);
  g_test_add_func ("/tracepoint/asks-for-stacks-and-no-payload", test_attributes);
  g_test_add_func ("/tracepoint/is-offered-where-it-is", test_probe);
  return g_test_run ();
}
