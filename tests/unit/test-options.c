/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every way to ask for something that does not exist. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/action.h"
#include "daemon/control/options.h"

static GUnixFDList *
make_fds (guint n_fds)
{
  GUnixFDList *fds = g_unix_fd_list_new ();

  for (guint i = 0; i < n_fds; i++)
    {
      int fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

      g_assert_cmpint (g_unix_fd_list_append (fds, fd, NULL), >=, 0);
      close (fd);
    }
  return fds;
}

static guint
count_open_fds (void)
{
  g_autoptr (GDir) directory = g_dir_open ("/proc/self/fd", 0, NULL);
  guint n_open = 0;

  while (g_dir_read_name (directory) != NULL)
    n_open++;
  return n_open;
}

static SondeOptions *
parse (const char *text, guint n_fds, GError **error)
{
  g_autoptr (GVariant) dict
      = g_variant_ref_sink (g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, NULL));
  g_autoptr (GUnixFDList) fds = n_fds > 0 ? make_fds (n_fds) : NULL;

  g_assert_nonnull (dict);
  return sonde_options_parse (dict, fds, error);
}

/* Refused, with @key in the message, and no descriptor kept. */
static void
assert_refused (const char *text, guint n_fds, const char *key)
{
  guint n_open = count_open_fds ();
  g_autoptr (GError) error = NULL;
  SondeOptions *options = parse (text, n_fds, &error);

  g_test_message ("%s: %s", text, error != NULL ? error->message : "taken");
  g_assert_null (options);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION);
  g_assert_nonnull (strstr (error->message, key));
  g_assert_cmpuint (count_open_fds (), ==, n_open);
}

static void
test_unknown (void)
{
  g_autofree char *long_key = g_strnfill (5000, 'x');
  g_autofree char *text = g_strdup_printf ("{'system': <true>, '%s': <1>}", long_key);
  g_autoptr (GError) error = NULL;

  assert_refused ("{'system': <true>, 'colour': <'red'>}", 0, "colour");
  assert_refused ("{'system': <true>, 'Frequency': <uint32 99>}", 0, "Frequency");
  assert_refused ("{'system': <true>, '': <uint32 99>}", 0, "not known");
  assert_refused ("{'system': <true>, 'ä\xc3\xa4': <1>}", 0, "ää");
  g_assert_null (parse (text, 0, &error));
  g_assert_cmpuint (strlen (error->message), <, 200);
}

static void
test_types (void)
{
  assert_refused ("{'targets': <'1'>}", 0, "targets");
  assert_refused ("{'launch': <1>}", 0, "launch");
  assert_refused ("{'pids': <[1]>}", 0, "pids");
  assert_refused ("{'system': <'yes'>}", 0, "system");
  assert_refused ("{'system': <true>, 'event': <1>}", 0, "event");
  assert_refused ("{'system': <true>, 'frequency': <99>}", 0, "frequency");
  assert_refused ("{'system': <true>, 'period': <uint32 1000000>}", 0, "period");
  assert_refused ("{'system': <true>, 'kernel': <'true'>}", 0, "kernel");
  assert_refused ("{'system': <true>, 'children': <1>}", 0, "children");
  assert_refused ("{'system': <true>, 'unwind': <true>}", 0, "unwind");
  assert_refused ("{'system': <true>, 'stack-size': <16384>}", 0, "stack-size");
  assert_refused ("{'system': <true>, 'max-depth': <256>}", 0, "max-depth");
  assert_refused ("{'system': <true>, 'duration': <5>}", 0, "duration");
  assert_refused ("{'system': <true>, 'symbols': <false>}", 0, "symbols");
}

static void
test_ranges (void)
{
  assert_refused ("{'system': <true>, 'frequency': <uint32 0>}", 0, "frequency");
  assert_refused ("{'system': <true>, 'frequency': <uint32 20001>}", 0, "frequency");
  assert_refused ("{'system': <true>, 'period': <uint64 99999>}", 0, "period");
  assert_refused ("{'system': <true>, 'period': <uint64 10000000001>}", 0, "period");
  assert_refused ("{'system': <true>, 'stack-size': <uint32 1016>}", 0, "stack-size");
  assert_refused ("{'system': <true>, 'stack-size': <uint32 65288>}", 0, "stack-size");
  assert_refused ("{'system': <true>, 'stack-size': <uint32 16383>}", 0, "stack-size");
  assert_refused ("{'system': <true>, 'max-depth': <uint32 0>}", 0, "max-depth");
  assert_refused ("{'system': <true>, 'max-depth': <uint32 1025>}", 0, "max-depth");
  assert_refused ("{'system': <true>, 'duration': <uint64 18446744073709551615>}", 0, "duration");
  assert_refused ("{'system': <true>, 'event': <'branch-misses'>}", 0, "event");
  assert_refused ("{'system': <true>, 'event': <''>}", 0, "event");
  assert_refused ("{'system': <true>, 'unwind': <'orc'>}", 0, "unwind");
  assert_refused ("{'system': <true>, 'symbols': <'start'>}", 0, "symbols");
}

static void
test_scopes (void)
{
  assert_refused ("{}", 0, "targets, launch, pids, unit and system");
  assert_refused ("{'launch': <false>, 'system': <false>}", 0,
                  "targets, launch, pids, unit and system");
  assert_refused ("{'launch': <true>, 'system': <true>}", 0, "launch");
  assert_refused ("{'pids': <[uint32 1]>, 'system': <true>}", 0, "pids");
  assert_refused ("{'targets': <@a(uh) [(1, 0)]>, 'pids': <[uint32 1]>}", 1, "targets");
}

static void
test_unit (void)
{
  g_autofree char *longest = g_strnfill (255 - strlen (".service"), 'u');
  g_autofree char *too_long = g_strdup_printf ("{'unit': <'u%s.service'>}", longest);
  g_autofree char *long_enough = g_strdup_printf ("{'unit': <'%s.service'>}", longest);
  g_autoptr (SondeOptions) options = NULL;

  assert_refused ("{'unit': <''>}", 0, "unit");
  assert_refused ("{'unit': <'cron'>}", 0, "unit");
  assert_refused ("{'unit': <'.service'>}", 0, "unit");
  assert_refused ("{'unit': <'cron.timer'>}", 0, "unit");
  assert_refused ("{'unit': <'../cron.service'>}", 0, "unit");
  assert_refused ("{'unit': <'a b.service'>}", 0, "unit");
  assert_refused ("{'unit': <'ä.service'>}", 0, "unit");
  assert_refused ("{'unit': <'-.slice'>}", 0, "system");
  assert_refused (too_long, 0, "unit");
  assert_refused ("{'unit': <'cron.service'>, 'system': <true>}", 0, "system");
  assert_refused ("{'unit': <'cron.service'>, 'start-on-exec': <true>}", 0, "start-on-exec");
  options = parse (long_enough, 0, NULL);
  g_assert_nonnull (options);
  g_assert_cmpint (options->scope, ==, SONDE_SCOPE_UNIT);
  g_assert_cmpint (sonde_action_to_start (options, 2), ==, SONDE_ACTION_PROFILE_OTHERS);
}

static void
test_tracepoint (void)
{
  g_autoptr (SondeOptions) options
      = parse ("{'launch': <true>, 'event': <'sched:sched_switch'>}", 0, NULL);
  g_autoptr (SondeOptions) seldom = parse (
      "{'period': <uint64 100>, 'launch': <true>, 'event': <'sched:sched_switch'>}", 0, NULL);

  assert_refused ("{'system': <true>, 'event': <'sched:sched_kthread_stop'>}", 0, "event");
  assert_refused ("{'system': <true>, 'event': <'sched:../sched_switch'>}", 0, "event");
  g_assert_cmpint (options->event, ==, SONDE_EVENT_TRACEPOINT);
  g_assert_cmpuint (options->period, ==, 1);
  g_assert_cmpuint (options->frequency_hz, ==, 0);
  g_assert_cmpuint (seldom->period, ==, 100);
  g_assert_cmpint (sonde_action_to_start (options, 2), ==, SONDE_ACTION_PROFILE_SYSTEM);
}

static void
test_raw (void)
{
  g_autoptr (SondeOptions) options = parse ("{'launch': <true>, 'raw': <true>}", 0, NULL);

  assert_refused ("{'launch': <true>, 'raw': <1>}", 0, "raw");
  g_assert_true (options->raw && options->kernel);
  g_assert_cmpint (sonde_action_to_start (options, 2), ==, SONDE_ACTION_RAW_DATA);
}

static void
test_frequency_and_period (void)
{
  assert_refused ("{'system': <true>, 'frequency': <uint32 99>, 'period': <uint64 1000000>}", 0,
                  "period");
}

static void
test_key_twice (void)
{
  assert_refused ("{'system': <true>, 'kernel': <true>, 'kernel': <false>}", 0, "kernel");
}

static void
test_pids (void)
{
  assert_refused ("{'pids': <@au []>}", 0, "pids");
  assert_refused ("{'pids': <[uint32 0]>}", 0, "pids");
  assert_refused ("{'pids': <[uint32 2147483648]>}", 0, "pids");
  assert_refused ("{'pids': <@au [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]>}", 0, "pids");
}

static void
test_descriptors (void)
{
  assert_refused ("{'targets': <@a(uh) []>}", 0, "targets");
  assert_refused ("{'targets': <@a(uh) [(1, 0)]>}", 0, "targets");
  assert_refused ("{'targets': <@a(uh) [(1, 0)]>}", 2, "targets");
  assert_refused ("{'targets': <@a(uh) [(1, 1)]>}", 1, "targets");
  assert_refused ("{'targets': <@a(uh) [(1, -1)]>}", 1, "targets");
  assert_refused ("{'targets': <@a(uh) [(1, 0), (2, 0)]>}", 2, "targets");
  assert_refused ("{'targets': <@a(uh) [(0, 0)]>}", 1, "targets");
  assert_refused ("{'targets': <@a(uh) [(1, 0)]>, 'colour': <1>}", 1, "colour");
  assert_refused ("{'system': <true>}", 1, "targets");
}

/* Understood, but nobody could serve it. */
static void
test_collectors (void)
{
  assert_refused ("{'system': <true>, 'memory': <'some'>}", 0, "memory");
  assert_refused ("{'system': <true>, 'memory': <true>}", 0, "memory");
  assert_refused ("{'system': <true>, 'memory-interval': <uint64 0>}", 0, "memory-interval");
  assert_refused ("{'system': <true>, 'memory-interval': <uint64 1099511627777>}", 0,
                  "memory-interval");
  assert_refused ("{'system': <true>, 'memory-wait': <uint32 1000001>}", 0, "memory-wait");
  assert_refused ("{'system': <true>, 'memory-wait': <uint64 1>}", 0, "memory-wait");
  assert_refused ("{'system': <true>, 'counters': <['cpu', 'gpu']>}", 0, "counters");
  assert_refused ("{'system': <true>, 'counters': <'cpu'>}", 0, "counters");
  assert_refused ("{'system': <true>, 'counters': <['process']>}", 0, "counters");
  assert_refused ("{'unit': <'a.service'>, 'counters': <['cpu', 'process']>}", 0, "counters");
}

static void
test_counters (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOptions) machine = parse (
      "{'system': <true>, 'counters': <['disk', 'cpu', 'network', 'memory', 'cpu']>}", 0, &error);
  g_autoptr (SondeOptions) launch
      = parse ("{'launch': <true>, 'counters': <['process']>}", 0, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (machine->counters, ==,
                    SONDE_COUNTERS_CPU | SONDE_COUNTERS_MEMORY | SONDE_COUNTERS_NETWORK
                        | SONDE_COUNTERS_DISK);
  g_assert_cmpuint (launch->counters, ==, SONDE_COUNTERS_PROCESS);
}

static void
test_streams (void)
{
  g_autofree char *long_label = g_strnfill (65, 'x');
  g_autofree char *too_long = g_strdup_printf ("{'system': <true>, 'label': <'%s'>}", long_label);

  assert_refused ("{'system': <true>, 'format': <'perfetto'>}", 0, "format");
  assert_refused ("{'system': <true>, 'format': <1>}", 0, "format");
  assert_refused ("{'system': <true>, 'buffer-size': <uint32 65535>}", 0, "buffer-size");
  assert_refused ("{'system': <true>, 'buffer-size': <uint32 8388609>}", 0, "buffer-size");
  assert_refused ("{'system': <true>, 'buffer-size': <uint64 65536>}", 0, "buffer-size");
  assert_refused ("{'system': <true>, 'label': <''>}", 0, "label");
  assert_refused ("{'system': <true>, 'label': <'a/b'>}", 0, "label");
  assert_refused ("{'system': <true>, 'label': <'a b'>}", 0, "label");
  assert_refused ("{'system': <true>, 'label': <'\xc3\xa4'>}", 0, "label");
  assert_refused (too_long, 0, "label");
}

static void
test_defaults (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOptions) options = parse ("{'system': <true>}", 0, &error);

  g_assert_no_error (error);
  g_assert_cmpint (options->scope, ==, SONDE_SCOPE_SYSTEM);
  g_assert_cmpuint (options->targets->len, ==, 0);
  g_assert_cmpint (options->event, ==, SONDE_EVENT_AUTO);
  g_assert_cmpuint (options->frequency_hz, ==, 1000);
  g_assert_cmpuint (options->period, ==, 0);
  g_assert_false (options->kernel);
  g_assert_true (options->children);
  g_assert_true (options->symbols);
  g_assert_cmpint (options->unwind, ==, SONDE_UNWIND_DWARF);
  g_assert_cmpuint (options->stack_size_bytes, ==, 16384);
  g_assert_cmpuint (options->max_depth, ==, 256);
  g_assert_cmpuint (options->duration_us, ==, 0);
  g_assert_cmpint (options->memory, ==, SONDE_MEMORY_OFF);
  g_assert_cmpuint (options->memory_interval_bytes, ==, 512 * 1024);
  g_assert_cmpuint (options->memory_wait_us, ==, 0);
  g_assert_cmpuint (options->counters, ==, 0);
  g_assert_cmpuint (options->buffer_size_bytes, ==, 4 * 1024 * 1024);
  g_assert_cmpstr (options->label, ==, "session");
}

static void
test_all_keys (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOptions) options = parse (
      "{'targets': <@a(uh) [(7, 1), (8, 0)]>, 'event': <'cpu-clock'>, 'period': <uint64 100000>,"
      " 'kernel': <true>, 'children': <false>, 'unwind': <'frame-pointer'>,"
      " 'stack-size': <uint32 65280>, 'max-depth': <uint32 1024>, 'duration': <uint64 5>,"
      " 'symbols': <'none'>, 'memory': <'sampled'>, 'memory-interval': <uint64 4096>,"
      " 'memory-wait': <uint32 50>, 'counters': <@as []>, 'format': <'syscap'>,"
      " 'buffer-size': <uint32 65536>, 'label': <'a-B_3.c'>}",
      2, &error);

  g_assert_no_error (error);
  g_assert_cmpint (options->scope, ==, SONDE_SCOPE_TARGETS);
  g_assert_cmpuint (options->targets->len, ==, 2);
  g_assert_cmpint (sonde_target_pid (g_ptr_array_index (options->targets, 0)), ==, 7);
  g_assert_cmpint (options->event, ==, SONDE_EVENT_CPU_CLOCK);
  g_assert_cmpuint (options->frequency_hz, ==, 0);
  g_assert_cmpuint (options->period, ==, 100000);
  g_assert_true (options->kernel);
  g_assert_false (options->children);
  g_assert_false (options->symbols);
  g_assert_cmpint (options->unwind, ==, SONDE_UNWIND_FRAME_POINTER);
  g_assert_cmpuint (options->stack_size_bytes, ==, 65280);
  g_assert_cmpuint (options->max_depth, ==, 1024);
  g_assert_cmpuint (options->duration_us, ==, 5);
  g_assert_cmpint (options->memory, ==, SONDE_MEMORY_SAMPLED);
  g_assert_cmpuint (options->memory_interval_bytes, ==, 4096);
  g_assert_cmpuint (options->memory_wait_us, ==, 50);
  g_assert_cmpuint (options->buffer_size_bytes, ==, 65536);
  g_assert_cmpstr (options->label, ==, "a-B_3.c");
}

static void
assert_action (const char *text, gint64 paranoid, const char *to_start, const char *to_use)
{
  g_autoptr (SondeOptions) options = parse (text, 0, NULL);
  g_autofree char *start = g_strconcat ("org.sonde.profiler1.", to_start, NULL);
  g_autofree char *use = g_strconcat ("org.sonde.profiler1.", to_use, NULL);

  g_assert_cmpstr (sonde_action_id (sonde_action_to_start (options, paranoid)), ==, start);
  g_assert_cmpstr (sonde_action_id (sonde_action_to_use (options)), ==, use);
}

/* To start, and for somebody else's session: never an action that everybody has. */
static void
test_actions (void)
{
  assert_action ("{'launch': <true>}", 2, "profile-own", "profile-others");
  assert_action ("{'launch': <true>}", -1, "profile-own", "profile-others");
  assert_action ("{'launch': <true>}", 3, "profile-own-restricted", "profile-others");
  assert_action ("{'launch': <true>, 'kernel': <true>}", 2, "profile-own-kernel", "profile-others");
  assert_action ("{'launch': <true>, 'kernel': <true>}", 4, "profile-own-kernel", "profile-others");
  assert_action ("{'pids': <[uint32 1]>}", -1, "profile-others", "profile-others");
  assert_action ("{'pids': <[uint32 1]>, 'kernel': <true>}", 2, "profile-others", "profile-others");
  assert_action ("{'system': <true>}", -1, "profile-system", "profile-system");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/options/refuses-an-unknown-key-by-name", test_unknown);
  g_test_add_func ("/options/refuses-a-wrong-type-by-name", test_types);
  g_test_add_func ("/options/refuses-what-is-out-of-range", test_ranges);
  g_test_add_func ("/options/refuses-no-or-two-scopes", test_scopes);
  g_test_add_func ("/options/unit/takes-whole-names-alone", test_unit);
  g_test_add_func ("/options/event/takes-listed-tracepoints", test_tracepoint);
  g_test_add_func ("/options/raw/means-kernel-and-needs-its-own-right", test_raw);
  g_test_add_func ("/options/refuses-frequency-with-period", test_frequency_and_period);
  g_test_add_func ("/options/refuses-a-key-given-twice", test_key_twice);
  g_test_add_func ("/options/refuses-what-is-no-process-number", test_pids);
  g_test_add_func ("/options/refuses-descriptors-that-do-not-match", test_descriptors);
  g_test_add_func ("/options/judges-what-collectors-are-asked-for", test_collectors);
  g_test_add_func ("/options/takes-counters-in-any-order", test_counters);
  g_test_add_func ("/options/refuses-bad-words-for-streams", test_streams);
  g_test_add_func ("/options/takes-the-documented-defaults", test_defaults);
  g_test_add_func ("/options/takes-every-key", test_all_keys);
  g_test_add_func ("/options/asks-for-the-action-that-fits", test_actions);
  return g_test_run ();
}
