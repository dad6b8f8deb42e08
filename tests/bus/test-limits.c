/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every limit of the property Limits is reached, and says its name. test-limits TARGET-PROGRAM */
#include <string.h>

#include "tests/bus/limit-rows.h"
#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"

const char *limit_target_program;

typedef struct
{
  const char *name;
  void (*reach) (const char *name); /* NULL: reached together with the one before */
} Row;

guint64
limit_lookup (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) limits
      = bus_get (bus, "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager", "Limits", &error);
  g_autoptr (GVariant) value = NULL;

  g_assert_no_error (error);
  value = g_variant_lookup_value (limits, name, NULL);
  g_assert_nonnull (value);
  return g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32) ? g_variant_get_uint32 (value)
                                                             : g_variant_get_uint64 (value);
}

void
limit_assert_refusal (const GError *error, const char *name)
{
  g_autofree char *words = g_strdup_printf ("Limit %s:", name);

  bus_assert_error (error, "LimitExceeded");
  g_assert_nonnull (strstr (error->message, words));
}

void
limit_assert_option (GVariant *options, const char *key)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture;

  g_assert_false (bus_profile (bus, options, NULL, &session, &capture, &error));
  bus_assert_error (error, "InvalidOption");
  g_assert_nonnull (strstr (error->message, key));
}

static const Row rows[] = {
  { "sessions", limit_reach_sessions },
  { "sessions-root", limit_reach_sessions_of_root },
  { "sessions-machine", limit_reach_sessions_of_all },
  { "brokers", NULL }, /* tests/bus/test-waits.c */
  { "starts", limit_reach_starts },
  { "start-interval", NULL },
  { "calls", limit_reach_calls },
  { "message-entries", limit_reach_message_entries },
  { "message-text", limit_reach_message_text },
  { "closers", NULL }, /* tests/bus/test-waits.c */
  { "targets", limit_reach_targets },
  { "session-targets", limit_reach_session_targets },
  { "events", limit_reach_events },
  { "unit-groups", limit_reach_unit_groups },
  { "sinks", limit_reach_sinks },
  { "snapshots", limit_reach_snapshots },
  { "snapshots-at-once", limit_reach_snapshots_at_once },
  { "snapshot-calls", limit_reach_snapshot_calls },
  { "snapshot-interval", NULL },
  { "snapshot-bytes", NULL }, /* tests/unit/test-snapshots.c */
  { "recorder", limit_reach_option },
  { "recorder-bytes", limit_reach_option },
  { "subscribers", limit_reach_subscribers },
  { "buffer-size", limit_reach_option },
  { "perf-rings", limit_reach_perf_rings },
  { "frequency", limit_reach_option },
  { "stack-size", limit_reach_option },
  { "max-depth", limit_reach_option },
  { "duration", limit_reach_option },
  { "sink-pids", limit_reach_sink_pids },
  { "descriptors", limit_reach_descriptors },
  { "controls", limit_reach_controls },
  { "rings", limit_reach_rings },
  { "ring-memory", NULL },
  { "additions", limit_reach_additions },
  { "addition-interval", NULL },
  { "kept-sessions", limit_reach_kept_sessions },
  { "kept", NULL },
  { "capture-bytes", limit_reach_capture_bytes },
  { "capture-uid-bytes", limit_reach_capture_uid_bytes },
  { "capture-files", limit_reach_capture_files },
  { "capture-free-percent", limit_reach_capture_free },
  /* Nobody is refused for these: tests/bus/test-budget.py, tests/systemd/test-workers.py. */
  { "uid-cpu-percent", NULL },
  { "uid-memory-bytes", NULL },
  /* Nor for these: tests/unit/test-capture-store.c, tests/bus/test-captures.c. */
  { "capture-machine-bytes", NULL },
  { "capture-machine-files", NULL },
  { "capture-days", NULL },
};

static gboolean
has_row (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (g_str_equal (rows[i].name, name))
      return TRUE;
  return FALSE;
}

static void
test_rows (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autoptr (GVariant) limits
      = bus_get (bus, "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager", "Limits", NULL);
  GVariantIter iter;
  const char *name;

  g_variant_iter_init (&iter, limits);
  while (g_variant_iter_next (&iter, "{&sv}", &name, NULL))
    if (!has_row (name))
      {
        g_test_message ("the limit %s has no row in this test", name);
        g_test_fail ();
      }
}

static void
test_limit (gconstpointer user_data)
{
  const Row *row = user_data;
  g_autoptr (GDBusConnection) bus = bus_connect (0);

  row->reach (row->name);
  bus_wait_at_rest (bus_service_pid (bus));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  limit_target_program = argv[1];
  g_test_add_func ("/limits/every-limit-has-a-row", test_rows);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = NULL;

      if (rows[i].reach == NULL)
        continue;
      path = g_strconcat ("/limits/", rows[i].name, NULL);

      g_test_add_data_func (path, &rows[i], test_limit);
    }
  g_test_add_func ("/limits/starts-by-refusals", limit_reach_starts_by_refusals);
  return g_test_run ();
}
