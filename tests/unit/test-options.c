/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every way to ask for something that does not exist. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/request/options.h"
#include "shared-ring/ring-layout.h"

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
count_entries (const char *path)
{
  g_autoptr (GDir) directory = g_dir_open (path, 0, NULL);
  guint n_entries = 0;

  while (g_dir_read_name (directory) != NULL)
    n_entries++;
  return n_entries;
}

/* Once the closer, whose threads go when nothing is left to close, has closed what was refused. */
static guint
count_open_fds (void)
{
  for (guint i = 0; i < 10000 && count_entries ("/proc/self/task") > 1; i++)
    g_usleep (1000);
  return count_entries ("/proc/self/fd");
}

static SondeOptions *
parse (const char *text, guint n_fds, GError **error)
{
  g_autoptr (GVariant) dict
      = g_variant_ref_sink (g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, NULL));
  g_autoptr (GUnixFDList) fds = n_fds > 0 ? make_fds (n_fds) : NULL;

  g_assert_nonnull (dict);
  return sonde_options_parse (dict, fds, FALSE, error);
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

/* "frequency" of "frequncy", but not of what is something else. */
static void
test_nearest (void)
{
  assert_refused ("{'system': <true>, 'frequncy': <uint32 99>}", 0,
                  "Option frequncy: not known; did you mean frequency?");
  assert_refused ("{'pid': <[uint32 1]>}", 0, "did you mean pids?");
  assert_refused ("{'stak-sizes': <uint32 1>}", 0, "did you mean stack-size?");
  assert_refused ("{'system': <true>, 'colour': <'red'>}", 0, "Option colour: not known");
  assert_refused ("{'system': <true>, 'unwind': <'dwraf'>}", 0,
                  "Option unwind: not one of none, frame-pointer, dwarf, libdwfl");
  assert_refused ("{'system': <true>, 'unwind': <'dwarv'>}", 0, "did you mean dwarf?");
  assert_refused (
      "{'system': <true>, 'event': <'cpu-clok'>}", 0,
      "Option event: not one of auto, cycles, instructions, cpu-clock, none and the others "
      "of the property Events; did you mean cpu-clock?");
  assert_refused ("{'system': <true>, 'event': <'sched:sched_swich'>}", 0,
                  "did you mean sched:sched_switch?");
  assert_refused ("{'system': <true>, 'counters': <['cpus']>}", 0, "did you mean cpu?");
  assert_refused ("{'system': <true>, 'memory': <'some'>}", 0,
                  "Option memory: not one of off, all, sampled");
}

static void
assert_not_said (const char *text, const char *words)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (parse (text, 0, &error));
  g_assert_null (strstr (error->message, words));
}

static void
test_nothing_near (void)
{
  g_autofree char *long_word = g_strnfill (5000, 'x');
  g_autofree char *text = g_strdup_printf ("{'system': <true>, 'unwind': <'%s'>}", long_word);

  assert_not_said ("{'system': <true>, 'colour': <'red'>}", "did you mean");
  assert_not_said ("{'system': <true>, '': <1>}", "did you mean");
  assert_not_said ("{'system': <true>, 'memory': <'on'>}", "did you mean");
  assert_not_said (text, "xx");
  assert_not_said ("{'system': <true>, 'unwind': <'ääääääääääääääääääääääääääääääääääääääää'>}",
                   "did you mean");
}

/* With one option of @row beside a scope of its own. */
static GVariant *
make_dict (const SondeOptionRow *row, GVariant *value)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "launch", g_variant_new_boolean (TRUE));
  g_variant_builder_add (&builder, "{sv}", row->key, value);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static void
assert_row_refuses (const SondeOptionRow *row, GVariant *value, const char *what)
{
  g_autofree char *expected = g_strdup_printf ("Option %s: %s", row->key, what);
  g_autoptr (GVariant) dict = make_dict (row, value);
  g_autoptr (GError) error = NULL;

  g_assert_null (sonde_options_parse (dict, NULL, FALSE, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION);
  g_assert_true (g_str_has_prefix (error->message, expected));
}

static void
test_types (void)
{
  const SondeOptionRow *row;

  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    {
      g_autofree char *what = g_strdup_printf ("has type y, must be %s", row->type);

      if (!g_str_equal (row->key, "launch"))
        assert_row_refuses (row, g_variant_new_byte (1), what);
    }
  assert_refused ("{'launch': <1>}", 0, "Option launch: has type i, must be b");
  assert_refused ("{'pids': <[1]>}", 0, "Option pids: has type ai, must be au");
}

static GVariant *
new_number (const SondeOptionRow *row, guint64 number)
{
  return row->type[0] == 't' ? g_variant_new_uint64 (number)
                             : g_variant_new_uint32 ((guint32) number);
}

static void
test_ranges (void)
{
  const SondeOptionRow *row;

  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    {
      guint step = MAX (row->multiple_of, 1);
      g_autofree char *range = NULL;
      g_autoptr (GVariant) largest = NULL;
      g_autoptr (SondeOptions) options = NULL;

      if (row->max == 0)
        continue;
      range = g_strdup_printf ("must be from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, row->min,
                               row->max);
      assert_row_refuses (row, new_number (row, row->max + step), range);
      if (row->min > 0)
        assert_row_refuses (row, new_number (row, row->min - step), range);
      largest = make_dict (row, new_number (row, row->max));
      options = sonde_options_parse (largest, NULL, FALSE, NULL);
      g_assert_nonnull (options);
    }
  assert_refused ("{'system': <true>, 'period': <uint64 99999>}", 0, "below that only with");
  assert_refused ("{'system': <true>, 'stack-size': <uint32 16383>}", 0,
                  "Option stack-size: must be a multiple of 8 from 1024 to 65280");
}

/* What is asked for is the same, however long the session lasts. */
static void
refuses_recorders_that_cannot_be (void)
{
  assert_refused ("{'system': <true>, 'recorder': <uint64 999999>}", 0,
                  "Option recorder: must be from 1000000 to 86400000000");
  assert_refused ("{'system': <true>, 'recorder': <uint64 86400000001>}", 0, "Option recorder:");
  assert_refused ("{'system': <true>, 'recorder': <'30s'>}", 0, "has type s, must be t");
  assert_refused ("{'system': <true>, 'recorder-bytes': <uint64 1048575>}", 0,
                  "Option recorder-bytes: must be from 1048576 to 134217728");
  assert_refused ("{'launch': <true>, 'recorder': <uint64 1000000>, 'trace': <'auto'>}", 0,
                  "Option recorder: excludes option trace");
  assert_refused ("{'launch': <true>, 'recorder-bytes': <uint64 1048576>, 'trace': <'auto'>}", 0,
                  "Option recorder-bytes: excludes option trace");
}

static void
gives_recorders_room (void)
{
  g_autoptr (SondeOptions) options = NULL;
  g_autoptr (SondeOptions) restored = NULL;
  g_autoptr (GVariant) view = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) dict
      = g_variant_ref_sink (g_variant_new_parsed ("{'system': <true>, 'recorder': <%t>}",
                                                  G_GUINT64_CONSTANT (30000000)));

  options = sonde_options_parse (dict, NULL, FALSE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (options->asked.recorder_us, ==, 30000000);
  g_assert_cmpuint (options->asked.recorder_bytes, ==, SONDE_LIMIT_RECORDER_BYTES);
  /* As another sonded finds it. */
  view = g_variant_ref_sink (sonde_options_to_variant (options));
  restored = sonde_options_restore (view, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (restored->asked.recorder_us, ==, 30000000);
  g_assert_cmpuint (restored->asked.recorder_bytes, ==, SONDE_LIMIT_RECORDER_BYTES);
}

static void
test_lasting (void)
{
  g_autoptr (GVariant) dict
      = g_variant_ref_sink (g_variant_new_parsed ("{'system': <true>, 'memory': <'all'>}"));
  g_autoptr (GVariant) asked = g_variant_ref_sink (
      g_variant_new_parsed ("{'system': <true>, 'memory': <'all'>, 'memory-detail': <'events'>}"));
  g_autoptr (SondeOptions) usual = sonde_options_parse (dict, NULL, FALSE, NULL);
  g_autoptr (SondeOptions) lasting = sonde_options_parse (dict, NULL, TRUE, NULL);
  g_autoptr (SondeOptions) named = sonde_options_parse (asked, NULL, TRUE, NULL);

  g_assert_cmpuint (usual->asked.memory_detail, ==, SONDE_MEMORY_DETAIL_EVENTS);
  g_assert_cmpuint (lasting->asked.memory_detail, ==, SONDE_MEMORY_DETAIL_SUMS);
  g_assert_cmpuint (named->asked.memory_detail, ==, SONDE_MEMORY_DETAIL_EVENTS);
  g_assert_cmpuint (lasting->asked.memory_wait_us, ==, usual->asked.memory_wait_us);
}

/* Of one word, or of a list of them. */
static void
test_words (void)
{
  const SondeOptionRow *row;

  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    if (row->words != NULL && row->type[0] == 's')
      assert_row_refuses (row, g_variant_new_string ("branch-misses"), "not one of ");
    else if (row->words != NULL)
      assert_row_refuses (row, g_variant_new_parsed ("[%s, 'gpu']", row->words[0]), "not one of ");
  assert_refused ("{'system': <true>, 'event': <''>}", 0, "event");
}

static void
test_scopes (void)
{
  assert_refused ("{}", 0, "targets, launch, pids, unit, cgroup and system");
  assert_refused ("{'launch': <false>, 'system': <false>}", 0,
                  "targets, launch, pids, unit, cgroup and system");
  assert_refused ("{'launch': <true>, 'system': <true>}", 0, "launch");
  assert_refused ("{'pids': <[uint32 1]>, 'system': <true>}", 0, "pids");
  assert_refused ("{'targets': <@a(uh) [(1, 0)]>, 'pids': <[uint32 1]>}", 1, "targets");
}

static void
test_cgroup (void)
{
  g_autofree char *longest = g_strnfill (SONDE_MESSAGE_GROUP_BYTES - 2, 'g');
  g_autofree char *too_long = g_strdup_printf ("{'cgroup': <'/g%s'>}", longest);
  g_autofree char *long_enough = g_strdup_printf ("{'cgroup': <'/%s'>}", longest);
  g_autoptr (SondeOptions) options = NULL;
  g_autoptr (SondeOptions) again = NULL;
  g_autoptr (GVariant) view = NULL;
  g_autofree char *text = NULL;

  assert_refused ("{'cgroup': <''>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'machine.slice'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/machine.slice/'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'//machine.slice'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/machine.slice/..'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/./machine.slice'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/a of the administrator'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/ä'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/a\\nb'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/'>}", 0, "system");
  assert_refused (too_long, 0, "cgroup");
  assert_refused ("{'unit': <'cron.service'>, 'cgroup': <'/a'>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/a'>, 'system': <true>}", 0, "cgroup");
  assert_refused ("{'cgroup': <'/a'>, 'start-on-exec': <true>}", 0, "start-on-exec");
  assert_refused ("{'cgroup': <'/a'>, 'counters': <['process']>}", 0, "counters");
  options = parse (long_enough, 0, NULL);
  g_assert_nonnull (options);
  g_assert_cmpint (options->asked.scope, ==, SONDE_SCOPE_CGROUP);
  g_assert_cmpint (sonde_action_to_start (options, 2), ==, SONDE_ACTION_PROFILE_OTHERS);
  view = g_variant_ref_sink (sonde_options_to_variant (options));
  again = sonde_options_restore (view, NULL);
  g_assert_cmpstr (again->cgroup, ==, options->cgroup);
  text = sonde_options_describe_scope (again);
  g_assert_true (g_str_has_prefix (text, "control group /ggg"));
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
  g_assert_cmpint (options->asked.scope, ==, SONDE_SCOPE_UNIT);
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
  g_assert_cmpint (options->asked.event, ==, SONDE_EVENT_TRACEPOINT);
  g_assert_cmpuint (options->asked.period, ==, 1);
  g_assert_cmpuint (options->asked.frequency_hz, ==, 0);
  g_assert_cmpuint (seldom->asked.period, ==, 100);
  g_assert_cmpint (sonde_action_to_start (options, 2), ==, SONDE_ACTION_PROFILE_SYSTEM);
}

static void
test_raw (void)
{
  g_autoptr (SondeOptions) options = parse ("{'launch': <true>, 'raw': <true>}", 0, NULL);

  assert_refused ("{'launch': <true>, 'raw': <1>}", 0, "raw");
  g_assert_true (options->asked.raw && options->asked.kernel);
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

static void
test_counters (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOptions) machine = parse (
      "{'system': <true>, 'counters': <['disk', 'cpu', 'network', 'memory', 'cpu']>}", 0, &error);
  g_autoptr (SondeOptions) launch
      = parse ("{'launch': <true>, 'counters': <['process']>}", 0, &error);

  assert_refused ("{'system': <true>, 'counters': <['process']>}", 0, "counters");
  assert_refused ("{'unit': <'a.service'>, 'counters': <['cpu', 'process']>}", 0, "counters");
  g_assert_no_error (error);
  g_assert_cmpuint (machine->asked.counters, ==,
                    SONDE_COUNTERS_CPU | SONDE_COUNTERS_MEMORY | SONDE_COUNTERS_NETWORK
                        | SONDE_COUNTERS_DISK);
  g_assert_cmpuint (launch->asked.counters, ==, SONDE_COUNTERS_PROCESS);
}

/* For a while, and fairly, unless it is said that a program shall not, or for longer. */
static void
test_waiting (void)
{
  g_autoptr (SondeOptions) normal = parse ("{'launch': <true>}", 0, NULL);
  g_autoptr (SondeOptions) never = parse ("{'launch': <true>, 'memory-wait': <uint32 0>}", 0, NULL);
  g_autoptr (SondeOptions) longest
      = parse ("{'launch': <true>, 'memory-wait': <uint32 1000000>}", 0, NULL);

  g_assert_cmpuint (normal->asked.memory_wait_us, ==, SONDE_RING_FAIR_WAIT_US);
  g_assert_cmpuint (never->asked.memory_wait_us, ==, 0);
  g_assert_cmpuint (longest->asked.memory_wait_us, >, SONDE_RING_FAIR_WAIT_US);
}

/* What is traced is a text for programs: no line of it ends the one before, and none is no line. */
static void
test_trace (void)
{
  static const char *const refused[]
      = { "''", "'!'", "'lib:'", "'a\\nb'", "'size>=x'", "'size>='", "'size>=1234567890'" };
  g_autoptr (SondeOptions) normal = parse ("{'launch': <true>}", 0, NULL);
  g_autoptr (SondeOptions) exact = parse (
      "{'launch': <true>, 'trace': <'exact'>, 'trace-filter': <['*', '!libc.so*:m*', 'size>=64']>,"
      " 'trace-depth': <uint32 9>, 'trace-slow': <uint64 1500>, 'trace-budget': <12.5>}",
      0, NULL);
  g_autofree char *long_line = g_strnfill (sizeof normal->asked.trace_filter, 'x');
  g_autofree char *too_long
      = g_strdup_printf ("{'launch': <true>, 'trace-filter': <['%s']>}", long_line);
  g_autoptr (GString) many = g_string_new ("{'launch': <true>, 'trace-filter': <['a'");

  g_assert_cmpuint (normal->asked.trace, ==, SONDE_TRIE_OFF);
  g_assert_cmpuint (normal->asked.trace_depth, ==, SONDE_TRIE_MAX_DEPTH);
  g_assert_cmpuint (normal->asked.trace_budget, ==, 0);
  g_assert_cmpstr (normal->asked.trace_filter, ==, "");
  g_assert_cmpuint (exact->asked.trace, ==, SONDE_TRIE_EXACT);
  g_assert_cmpstr (exact->asked.trace_filter, ==, "*\n!libc.so*:m*\nsize>=64");
  g_assert_cmpuint (exact->asked.trace_depth, ==, 9);
  g_assert_cmpuint (exact->asked.trace_slow_us, ==, 1500);
  g_assert_cmpuint (exact->asked.trace_budget, ==, 1250);

  for (gsize i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autofree char *text
          = g_strdup_printf ("{'launch': <true>, 'trace-filter': <[%s]>}", refused[i]);

      assert_refused (text, 0, "Option trace-filter: a line must be");
    }
  for (guint i = 0; i < SONDE_LIMIT_TRACE_FILTERS; i++)
    g_string_append (many, ", 'a'");
  g_string_append (many, "]>}");
  assert_refused (many->str, 0, "Option trace-filter: at most 64 lines");
  assert_refused (too_long, 0, "Option trace-filter: at most 2047 bytes");
  assert_refused ("{'launch': <true>, 'trace-budget': <-1.0>}", 0, "Option trace-budget: must be");
  assert_refused ("{'launch': <true>, 'trace-budget': <0.001>}", 0, "Option trace-budget");
  assert_refused ("{'launch': <true>, 'trace-budget': <10001.0>}", 0, "Option trace-budget");
  assert_refused ("{'launch': <true>, 'trace-budget': <nan>}", 0, "Option trace-budget");
  assert_refused ("{'launch': <true>, 'trace': <'on'>}", 0,
                  "Option trace: not one of off, count, auto, exact");
}

static void
test_label (void)
{
  g_autofree char *long_label = g_strnfill (65, 'x');
  g_autofree char *too_long = g_strdup_printf ("{'system': <true>, 'label': <'%s'>}", long_label);

  assert_refused ("{'system': <true>, 'label': <''>}", 0, "label");
  assert_refused ("{'system': <true>, 'label': <'a/b'>}", 0, "label");
  assert_refused ("{'system': <true>, 'label': <'a b'>}", 0, "label");
  assert_refused ("{'system': <true>, 'label': <'\xc3\xa4'>}", 0, "label");
  assert_refused (too_long, 0, "label");
}

/* What a session was asked for comes back from its property Options, but for the processes. */
static void
test_restore (void)
{
  static const char *const texts[] = {
    "{'targets': <@a(uh) [(7, 0)]>, 'period': <uint64 100000>, 'children': <false>}",
    "{'launch': <true>, 'start-on-exec': <true>, 'event': <'sched:sched_switch'>}",
    "{'pids': <[uint32 7, 8]>, 'counters': <['cpu', 'process']>}",
    "{'launch': <true>, 'trace': <'auto'>, 'trace-filter': <['a*', '!b']>, 'trace-budget': <0.07>}",
    "{'unit': <'cron.service'>, 'symbols': <'none'>, 'unwind': <'none'>, 'raw': <true>}",
    "{'system': <true>, 'frequency': <uint32 99>, 'label': <'a'>, 'memory': <'all'>}",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (SondeOptions) options = parse (texts[i], i == 0 ? 1 : 0, NULL);
      g_autoptr (GVariant) view = g_variant_ref_sink (sonde_options_to_variant (options));
      g_autoptr (SondeOptions) restored = sonde_options_restore (view, NULL);
      g_autoptr (GVariant) again = NULL;

      g_assert_nonnull (restored);
      g_assert_cmpuint (restored->targets->len, ==, 0);
      g_ptr_array_unref (restored->targets);
      restored->targets = g_ptr_array_ref (options->targets);
      again = g_variant_ref_sink (sonde_options_to_variant (restored));
      g_assert_true (g_variant_equal (again, view));
    }
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
  g_assert_cmpint (options->asked.scope, ==, SONDE_SCOPE_TARGETS);
  g_assert_cmpuint (options->targets->len, ==, 2);
  g_assert_cmpint (((SondeAskedTarget *) g_ptr_array_index (options->targets, 0))->pid, ==, 7);
  g_assert_cmpint (options->asked.event, ==, SONDE_EVENT_CPU_CLOCK);
  g_assert_cmpuint (options->asked.frequency_hz, ==, 0);
  g_assert_cmpuint (options->asked.period, ==, 100000);
  g_assert_true (options->asked.kernel);
  g_assert_false (options->asked.children);
  g_assert_false (options->asked.symbols);
  g_assert_cmpint (options->asked.unwind, ==, SONDE_UNWIND_FRAME_POINTER);
  g_assert_cmpuint (options->asked.stack_size_bytes, ==, 65280);
  g_assert_cmpuint (options->asked.max_depth, ==, 1024);
  g_assert_cmpuint (options->asked.duration_us, ==, 5);
  g_assert_cmpint (options->asked.memory, ==, SONDE_MEMORY_SAMPLED);
  g_assert_cmpuint (options->asked.memory_interval_bytes, ==, 4096);
  g_assert_cmpuint (options->asked.memory_wait_us, ==, 50);
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
  g_test_add_func ("/options/refuses-recorders-that-cannot-be", refuses_recorders_that_cannot_be);
  g_test_add_func ("/options/gives-recorders-room", gives_recorders_room);
  g_test_add_func ("/options/refuses-an-unknown-key-by-name", test_unknown);
  g_test_add_func ("/options/names-the-nearest-key-or-word", test_nearest);
  g_test_add_func ("/options/names-none-that-is-not-near", test_nothing_near);
  g_test_add_func ("/options/refuses-a-wrong-type-by-name", test_types);
  g_test_add_func ("/options/refuses-what-is-out-of-range", test_ranges);
  g_test_add_func ("/options/refuses-what-is-none-of-its-words", test_words);
  g_test_add_func ("/options/sessions-that-last-add-heap-events-up", test_lasting);
  g_test_add_func ("/options/refuses-no-or-two-scopes", test_scopes);
  g_test_add_func ("/options/unit/takes-whole-names-alone", test_unit);
  g_test_add_func ("/options/cgroup/takes-paths-alone", test_cgroup);
  g_test_add_func ("/options/event/takes-listed-tracepoints", test_tracepoint);
  g_test_add_func ("/options/raw/means-kernel-and-needs-its-own-right", test_raw);
  g_test_add_func ("/options/refuses-frequency-with-period", test_frequency_and_period);
  g_test_add_func ("/options/refuses-a-key-given-twice", test_key_twice);
  g_test_add_func ("/options/refuses-what-is-no-process-number", test_pids);
  g_test_add_func ("/options/refuses-descriptors-that-do-not-match", test_descriptors);
  g_test_add_func ("/options/takes-counters-in-any-order", test_counters);
  g_test_add_func ("/options/lets-programs-wait-unless-told-not-to", test_waiting);
  g_test_add_func ("/options/take-what-is-traced-as-text-for-programs", test_trace);
  g_test_add_func ("/options/refuses-labels-that-are-no-part-of-a-file-name", test_label);
  g_test_add_func ("/options/come-back-from-the-property", test_restore);
  g_test_add_func ("/options/takes-every-key", test_all_keys);
  g_test_add_func ("/options/asks-for-the-action-that-fits", test_actions);
  return g_test_run ();
}
