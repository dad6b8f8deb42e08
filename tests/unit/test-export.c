/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture in the formats of other viewers. */
#include <json-glib/json-glib.h>
#include <string.h>
#include <zstd.h>

#include "client/export/export.h"
#include "perfetto.pb-c.h"
#include "pprof.pb-c.h"
#include "protocol/heap-log.h"
#include "tests/unit/capture-builder.h"

#define FIRST_NS 1000000000
#define STEP_NS  1000000

static void
sample_at (CaptureBuilder *self, gint64 time_ns, guint64 leaf)
{
  SondeFrameOrigin origin = at (10, time_ns);
  const uint64_t addrs[] = { SONDE_CONTEXT_USER, leaf, SONDE_JIT_ADDRESS_BASE + 1 };

  ADD (sonde_writer_add_sample (self->writer, &origin, 11, addrs, G_N_ELEMENTS (addrs)));
}

/* Two processes, with names that come after their samples, as in most captures. */
static CaptureBuilder *
make_capture (void)
{
  CaptureBuilder *self = capture_builder_new ();
  SondeFrameOrigin origin = at (10, FIRST_NS);
  SondeCounter counters[]
      = { { "Memory", "Used", "", SONDE_N_LEDGER + 1, SONDE_COUNTER_INT64, { .v64 = 0 } },
          { "CPU \"%\"", "All", "", SONDE_N_LEDGER + 2, SONDE_COUNTER_DOUBLE, { .v64 = 0 } } };
  const uint32_t ids[] = { SONDE_N_LEDGER + 1, SONDE_N_LEDGER + 2 };
  SondeCounterValue values[] = { { .v64 = 4096 }, { .vdbl = 12.5 } };
  const uint64_t allocator[] = { SONDE_JIT_ADDRESS_BASE + 2, SONDE_JIT_ADDRESS_BASE + 1 };

  define_ledger (self);
  ADD (sonde_writer_add_counter_define (self->writer, &origin, counters, 2));
  add_process (self, 10, "a;b\nc\x1b[31m --secret");
  sample_at (self, FIRST_NS, SONDE_JIT_ADDRESS_BASE + 2);
  sample_at (self, FIRST_NS + STEP_NS, SONDE_JIT_ADDRESS_BASE + 2);
  sample_at (self, FIRST_NS + 2 * STEP_NS, SONDE_JIT_ADDRESS_BASE + 3);
  add_process (self, 20, "other");
  add_sample (self, 20, SONDE_CONTEXT_USER, 0x1234);
  ADD (sonde_writer_add_allocation (self->writer, &origin, 11, 0x5000, 100, allocator, 2));
  ADD (sonde_writer_add_allocation (self->writer, &origin, 11, 0x6000, 28, allocator, 2));
  ADD (sonde_writer_add_allocation (self->writer, &origin, 11, 0x5000, 0, NULL, 0));
  ADD (sonde_writer_add_mark (self->writer, &origin, 500, "group", "long \"mark\"", "text\n"));
  ADD (sonde_writer_add_mark (self->writer, &origin, 0, "", "instant", ""));
  ADD (sonde_writer_add_counter_set (self->writer, &origin, ids, values, 2));
  values[1].vdbl = __builtin_nan ("");
  ADD (sonde_writer_add_counter_set (self->writer, &origin, ids, values, 2));
  add_jit_name (self, SONDE_JIT_ADDRESS_BASE + 1, "main");
  add_jit_name (self, SONDE_JIT_ADDRESS_BASE + 2, "f;\"x\"");
  add_jit_name (self, SONDE_JIT_ADDRESS_BASE + 3, "g (int)");
  return self;
}

/* With places, where @by is not SONDE_BY_NONE. */
static char *
export_process_as (CaptureBuilder *capture,
                   SondeExportFunc *func,
                   SondeUnit unit,
                   gint64 pid,
                   SondeBy by,
                   gsize *size_bytes)
{
  char *path = write_file (capture, -1);
  g_autofree char *out_path = g_strconcat (path, ".out", NULL);
  g_autoptr (GError) error = NULL;
  const SondeReportOptions options
      = { .filter = { .pid = pid, .tid = -1, .to_s = INFINITY },
          .by = by != SONDE_BY_NONE ? by : SONDE_BY_PROCESS,
          .folding = { .recursion = SONDE_RECURSION_NONE, .shows_internals = TRUE } };
  g_autoptr (SondeExportSource) source
      = func == sonde_export_heaptrack ? sonde_export_source_new_heap (path, &options, NULL, &error)
        : by != SONDE_BY_NONE ? sonde_export_source_new_frames (path, &options, NULL, &error)
                              : sonde_export_source_new (path, NULL, NULL, &error);
  g_autoptr (SondeExportOutput) output = sonde_export_output_new (out_path, FALSE, &error);
  char *text = NULL;

  g_assert_no_error (error);
  g_assert_null (source->fault);
  g_assert_true (func (source, unit, output, &error));
  g_assert_no_error (error);
  g_assert_true (sonde_export_output_close (output, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (out_path, &text, size_bytes, &error));
  g_unlink (out_path);
  remove_file (path);
  return text;
}

static char *
export_as (CaptureBuilder *capture, SondeExportFunc *func, SondeUnit unit, gsize *size_bytes)
{
  return export_process_as (capture, func, unit, -1, SONDE_BY_NONE, size_bytes);
}

static void
folds_stacks (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autofree char *samples = export_as (capture, sonde_export_folded, SONDE_UNIT_SAMPLES, NULL);
  g_autofree char *bytes = export_as (capture, sonde_export_folded, SONDE_UNIT_BYTES, NULL);
  g_autofree char *blocks = export_as (capture, sonde_export_folded, SONDE_UNIT_BLOCKS, NULL);

  g_assert_cmpstr (samples, ==,
                   "a:b\\nc\\x1b[31m-10;main;f:\"x\" 2\n"
                   "a:b\\nc\\x1b[31m-10;main;g (int) 1\n"
                   "other-20;0x1234 1\n");
  g_assert_cmpstr (bytes, ==, "a:b\\nc\\x1b[31m-10;main;f:\"x\" 128\n");
  g_assert_cmpstr (blocks, ==, "a:b\\nc\\x1b[31m-10;main;f:\"x\" 2\n");
}

static void
prints_what_scripts_for_perf_read (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autofree char *text = export_as (capture, sonde_export_perf_script, SONDE_UNIT_SAMPLES, NULL);

  g_assert_true (g_str_has_prefix (text, "a;b\\nc\\x1b[31m 10/11 1.000000: 1 samples: \n"
                                         "\te000000000000002 f;\"x\" ([unknown])\n"
                                         "\te000000000000001 main ([unknown])\n\n"
                                         "a;b\\nc\\x1b[31m 10/11 1.001000: 1 samples: \n"));
  g_assert_nonnull (strstr (text, " 10/11 1.000000: 100 allocation: \n"));
  g_assert_nonnull (strstr (text, " 10/11 1.000000: 28 allocation: \n"));
}

static JsonNode *
parse_json (const char *text, gsize size_bytes)
{
  g_autoptr (GError) error = NULL;
  JsonNode *node;

  g_assert_true (g_utf8_validate_len (text, size_bytes, NULL));
  node = json_from_string (text, &error);
  g_assert_no_error (error);
  return node;
}

static gint64
sum_weights (JsonObject *profile)
{
  JsonArray *weights = json_object_get_array_member (profile, "weights");
  gint64 sum = 0;

  g_assert_cmpuint (json_array_get_length (weights), ==,
                    json_array_get_length (json_object_get_array_member (profile, "samples")));
  for (guint i = 0; i < json_array_get_length (weights); i++)
    sum += json_array_get_int_element (weights, i);
  g_assert_cmpint (sum, ==, json_object_get_int_member (profile, "endValue"));
  return sum;
}

static void
fills_speedscope (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  gsize size_bytes;
  g_autofree char *text
      = export_as (capture, sonde_export_speedscope, SONDE_UNIT_SAMPLES, &size_bytes);
  g_autoptr (JsonNode) node = parse_json (text, size_bytes);
  JsonArray *profiles = json_object_get_array_member (json_node_get_object (node), "profiles");
  JsonObject *last;

  g_assert_cmpuint (json_array_get_length (profiles), ==, 3);
  g_assert_cmpint (sum_weights (json_array_get_object_element (profiles, 0)), ==, 3);
  g_assert_cmpint (sum_weights (json_array_get_object_element (profiles, 1)), ==, 1);
  last = json_array_get_object_element (profiles, 2);
  g_assert_cmpint (sum_weights (last), ==, 128);
  g_assert_cmpstr (json_object_get_string_member (last, "unit"), ==, "bytes");
}

static guint
count_events (JsonArray *events, const char *phase, const char *name)
{
  guint n = 0;

  for (guint i = 0; i < json_array_get_length (events); i++)
    {
      JsonObject *event = json_array_get_object_element (events, i);

      n += g_str_equal (json_object_get_string_member (event, "ph"), phase)
           && (name == NULL || g_str_equal (json_object_get_string_member (event, "name"), name));
    }
  return n;
}

static void
tells_chrome_of_everything (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  gsize size_bytes;
  g_autofree char *text = export_as (capture, sonde_export_chrome, SONDE_UNIT_SAMPLES, &size_bytes);
  g_autoptr (JsonNode) node = parse_json (text, size_bytes);
  JsonObject *root = json_node_get_object (node);
  JsonArray *events = json_object_get_array_member (root, "traceEvents");
  JsonObject *frames = json_object_get_object_member (root, "stackFrames");

  g_assert_cmpuint (count_events (events, "P", "sample"), ==, 4);
  g_assert_cmpuint (count_events (events, "i", "allocation"), ==, 2);
  g_assert_cmpuint (count_events (events, "b", "long \"mark\""), ==, 1);
  g_assert_cmpuint (count_events (events, "e", "long \"mark\""), ==, 1);
  g_assert_cmpuint (count_events (events, "i", "instant"), ==, 1);
  g_assert_cmpuint (count_events (events, "C", "Memory/Used"), ==, 2);
  g_assert_cmpuint (count_events (events, "C", "CPU \"%\"/All"), ==,
                    1); /* the other is no number */
  g_assert_cmpuint (count_events (events, "B", "main"), ==, 1);
  g_assert_cmpuint (count_events (events, "B", NULL), ==, 4);
  g_assert_cmpuint (count_events (events, "E", NULL), ==, 4);
  /* main, two below it, and the other process's */
  g_assert_cmpuint (json_object_get_size (frames), ==, 4);
  g_assert_cmpstr (
      json_object_get_string_member (json_object_get_object_member (frames, "1"), "name"), ==,
      "main");
  g_assert_cmpint (
      json_object_get_int_member (json_object_get_object_member (frames, "2"), "parent"), ==, 1);
}

/* What Chrome is told of slices: "TID:NAME START-", "TID:NAME -END", in microseconds. */
static char *
dup_slices (CaptureBuilder *capture)
{
  gsize size_bytes;
  g_autofree char *text = export_as (capture, sonde_export_chrome, SONDE_UNIT_SAMPLES, &size_bytes);
  g_autoptr (JsonNode) node = parse_json (text, size_bytes);
  JsonArray *events = json_object_get_array_member (json_node_get_object (node), "traceEvents");
  g_autoptr (GString) slices = g_string_new (NULL);

  for (guint i = 0; i < json_array_get_length (events); i++)
    {
      JsonObject *event = json_array_get_object_element (events, i);
      const char *phase = json_object_get_string_member (event, "ph");

      if (g_str_equal (phase, "B") || g_str_equal (phase, "E"))
        g_string_append_printf (slices, *phase == 'E' ? "%d:%s -%.0f\n" : "%d:%s %.0f-\n",
                                (int) json_object_get_int_member (event, "tid"),
                                json_object_get_string_member (event, "name"),
                                json_object_get_double_member (event, "ts"));
    }
  return g_strdup (slices->str);
}

static void
add_stack (CaptureBuilder *self, gint32 tid, gint64 time_ns, guint outer, guint inner)
{
  SondeFrameOrigin origin = at (10, time_ns);
  const uint64_t addrs[] = { SONDE_CONTEXT_USER, JIT (inner), JIT (outer) };

  ADD (sonde_writer_add_sample (self->writer, &origin, tid, addrs, G_N_ELEMENTS (addrs)));
}

static CaptureBuilder *
make_stacks (void)
{
  CaptureBuilder *self = capture_builder_new ();

  define_ledger (self);
  add_process (self, 10, "a");
  add_jit_name (self, JIT (1), "main");
  add_jit_name (self, JIT (2), "f");
  add_jit_name (self, JIT (3), "g");
  return self;
}

static void
makes_slices_of_samples (void)
{
  g_autoptr (CaptureBuilder) capture = make_stacks ();
  g_autofree char *slices = NULL;

  add_stack (capture, 1, 10 * STEP_NS, 1, 2);
  add_stack (capture, 2, 10 * STEP_NS, 1, 2);
  add_stack (capture, 1, 11 * STEP_NS, 1, 3);
  add_stack (capture, 1, 10 * STEP_NS + STEP_NS / 2, 1, 2); /* a little late */
  add_stack (capture, 1, 50 * STEP_NS, 1, 2);               /* it was away */
  slices = dup_slices (capture);
  g_assert_cmpstr (slices, ==,
                   "1:main 10000-\n1:f 10000-\n"
                   "2:main 10000-\n2:f 10000-\n"
                   "1:f -11000\n1:g 11000-\n"
                   "1:g -11000\n1:f 11000-\n"
                   "1:f -12000\n1:main -12000\n"
                   "1:main 50000-\n1:f 50000-\n"
                   "1:f -51000\n1:main -51000\n"
                   "2:f -11000\n2:main -11000\n");
}

static void
survives_any_time (void)
{
  static const gint64 times[] = { G_MININT64, 0, G_MAXINT64, -1, G_MAXINT64, G_MININT64 };
  g_autoptr (CaptureBuilder) capture = make_stacks ();
  g_autofree char *slices = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    add_stack (capture, 1, times[i], 1, 2 + i % 2);
  slices = dup_slices (capture);
  g_assert_true (g_str_has_prefix (slices, "1:main -9223372036854776-\n"));
}

static void
draws_calls (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autofree char *text = export_as (capture, sonde_export_dot, SONDE_UNIT_SAMPLES, NULL);

  g_assert_true (g_str_has_prefix (text, "digraph sonde {\n"));
  g_assert_nonnull (strstr (text, "label=\"f;\\\"x\\\"\\n\\n50.0% (self 50.0%, 2)\""));
  g_assert_nonnull (strstr (text, "label=\"main\\n\\n75.0% (self 0.0%, 0)\""));
  g_assert_nonnull (strstr (text, " [label=\"50.0%\", "));
  g_assert_nonnull (strstr (text, " [label=\"25.0%\", "));
}

#define LIBRARY  "/usr/lib/libone.so"
#define BUILD_ID "abcdef0123456789abcdef0123456789abcd01"

/* Two threads of a process and another process, which has the same library elsewhere. */
static CaptureBuilder *
make_places (void)
{
  static const char tasks[]
      = "thread 10 11 1000 first worker\ncgroup 10 /system.slice/web.service\n";
  CaptureBuilder *self = capture_builder_new ();
  SondeFrameOrigin origin = at (10, 1000);
  SondeFrameOrigin other = at (20, 1000);

  define_ledger (self);
  add_process (self, 10, "one");
  add_process (self, 20, "two");
  ADD (sonde_writer_add_file_chunk (self->writer, &origin, "sonde/tasks", (const guint8 *) tasks,
                                    sizeof tasks - 1, FALSE));
  ADD (sonde_writer_add_map (self->writer, &origin, 0x7000000, 0x7010000, 0x1000, 5, LIBRARY,
                             BUILD_ID));
  ADD (sonde_writer_add_map (self->writer, &origin, 0x400000, 0x410000, 0, 6, "/usr/bin/one",
                             "ab12"));
  ADD (sonde_writer_add_map (self->writer, &other, 0x9000000, 0x9010000, 0x1000, 5, LIBRARY,
                             BUILD_ID));
  for (int i = 0; i < 3; i++)
    {
      const uint64_t addrs[] = { SONDE_CONTEXT_USER, 0x7000123, 0x400201 };
      SondeFrameOrigin now = at (10, FIRST_NS + i * STEP_NS);

      ADD (sonde_writer_add_sample (self->writer, &now, 10 + (i > 0), addrs, 3));
    }
  add_sample (self, 20, SONDE_CONTEXT_USER, 0x9000123);
  return self;
}

static void
writes_threads_for_firefox (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  gsize size_bytes;
  g_autofree char *text
      = export_as (capture, sonde_export_firefox, SONDE_UNIT_SAMPLES, &size_bytes);
  g_autoptr (JsonNode) node = parse_json (text, size_bytes);
  JsonObject *root = json_node_get_object (node);
  JsonArray *threads = json_object_get_array_member (root, "threads");
  JsonArray *counters = json_object_get_array_member (root, "counters");
  JsonObject *first, *second, *allocations, *last;
  JsonArray *weights;
  gint64 sum = 0;

  /* That of the marks, which have none, the one that was sampled, and the other process's. */
  g_assert_cmpuint (json_array_get_length (threads), ==, 3);
  first = json_array_get_object_element (threads, 0);
  second = json_array_get_object_element (threads, 1);
  g_assert_cmpint (
      json_object_get_int_member (json_object_get_object_member (first, "markers"), "length"), ==,
      2);
  g_assert_cmpint (
      json_object_get_int_member (json_object_get_object_member (second, "samples"), "length"), ==,
      3);
  g_assert_cmpstr (json_object_get_string_member (second, "pid"), ==, "10");
  g_assert_cmpint (json_object_get_int_member (second, "tid"), ==, 11);
  allocations = json_object_get_object_member (second, "nativeAllocations");
  /* what is freed is less of what was allocated */
  g_assert_cmpint (json_object_get_int_member (allocations, "length"), ==, 3);
  weights = json_object_get_array_member (allocations, "weight");
  for (guint i = 0; i < 3; i++)
    sum += json_array_get_int_element (weights, i);
  g_assert_cmpint (sum, ==, 28);
  g_assert_cmpuint (json_array_get_length (counters), ==, 3);
  last = json_array_get_object_element (counters, 2);
  g_assert_cmpstr (json_object_get_string_member (last, "category"), ==, "Memory");
  g_assert_cmpstr (json_object_get_string_member (last, "name"), ==, "malloc");
  g_assert_cmpstr (json_object_get_string_member (last, "pid"), ==, "10");
}

static JsonNode *
export_places_for_firefox (SondeBy by)
{
  g_autoptr (CaptureBuilder) capture = make_places ();
  gsize size_bytes;
  g_autofree char *text
      = export_process_as (capture, sonde_export_firefox, SONDE_UNIT_SAMPLES, -1, by, &size_bytes);

  return parse_json (text, size_bytes);
}

static gint64
number_at (JsonObject *table, const char *column, guint row)
{
  return json_array_get_int_element (json_object_get_array_member (table, column), row);
}

static void
tells_firefox_of_places (void)
{
  g_autoptr (JsonNode) node = export_places_for_firefox (SONDE_BY_THREAD);
  JsonObject *root = json_node_get_object (node);
  JsonObject *shared = json_object_get_object_member (root, "shared");
  JsonObject *frames = json_object_get_object_member (shared, "frameTable");
  JsonArray *libraries = json_object_get_array_member (root, "libs");
  JsonObject *library;
  guint n_at = 0;

  g_assert_cmpuint (json_array_get_length (libraries), ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      library = json_array_get_object_element (libraries, i);
      if (!g_str_equal (json_object_get_string_member (library, "path"), LIBRARY))
        continue;
      g_assert_cmpstr (json_object_get_string_member (library, "name"), ==, "libone.so");
      g_assert_cmpstr (json_object_get_string_member (library, "codeId"), ==, BUILD_ID);
      g_assert_cmpstr (json_object_get_string_member (library, "breakpadId"), ==,
                       "01EFCDAB45238967ABCDEF01234567890");
      n_at++;
    }
  g_assert_cmpuint (n_at, ==, 1);
  g_assert_cmpint (json_object_get_int_member (frames, "length"), ==, 2);
  /* in the file: that begins 0x1000 before what is mapped */
  g_assert_cmphex (number_at (frames, "address", 0) + number_at (frames, "address", 1), ==,
                   0x1123 + 0x200);
}

/* Of several processes as of one; each sample stays. */
static void
groups_threads_for_firefox (void)
{
  static const struct
  {
    SondeBy by;
    guint n_threads;
    const char *first;
  } rows[] = {
    { SONDE_BY_THREAD, 3, "one" },
    { SONDE_BY_PROCESS, 2, "one" },
    { SONDE_BY_UNIT, 2, "web.service" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (JsonNode) node = export_places_for_firefox (rows[i].by);
      JsonArray *threads = json_object_get_array_member (json_node_get_object (node), "threads");
      gint64 n_samples = 0;

      g_assert_cmpuint (json_array_get_length (threads), ==, rows[i].n_threads);
      g_assert_cmpstr (
          json_object_get_string_member (json_array_get_object_element (threads, 0), "name"), ==,
          rows[i].first);
      for (guint k = 0; k < rows[i].n_threads; k++)
        n_samples += json_object_get_int_member (
            json_object_get_object_member (json_array_get_object_element (threads, k), "samples"),
            "length");
      g_assert_cmpint (n_samples, ==, 4);
    }
}

/* The commands of several processes have a number that no process has. */
static void
merges_commands_for_firefox (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *text = NULL;
  g_autoptr (JsonNode) node = NULL;
  JsonObject *thread;
  gsize size_bytes;

  for (int i = 0; i < 3; i++)
    {
      add_process (capture, 100 + i, "cc1");
      add_sample (capture, 100 + i, SONDE_CONTEXT_USER, 0x1000);
    }
  text = export_process_as (capture, sonde_export_firefox, SONDE_UNIT_SAMPLES, -1, SONDE_BY_COMMAND,
                            &size_bytes);
  node = parse_json (text, size_bytes);
  thread = json_array_get_object_element (
      json_object_get_array_member (json_node_get_object (node), "threads"), 0);
  g_assert_cmpstr (json_object_get_string_member (thread, "name"), ==, "cc1");
  g_assert_cmpstr (json_object_get_string_member (thread, "pid"), ==, "-2");
  g_assert_cmpint (
      json_object_get_int_member (json_object_get_object_member (thread, "samples"), "length"), ==,
      3);
}

/* More threads than the viewers can show: the lightest are one, and no sample is missing. */
static void
merges_what_viewers_have_no_room_for (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  const uint64_t addrs[] = { SONDE_CONTEXT_USER, 0x1000 };
  gsize size_bytes;
  gint64 n_samples = 0;
  JsonArray *threads, *profiles;
  const char *name;

  define_ledger (capture);
  for (int i = 0; i < 300; i++)
    {
      SondeFrameOrigin origin = at (1000 + i, FIRST_NS + i * STEP_NS);
      g_autofree char *command = g_strdup_printf ("program-%d", i);

      add_process (capture, 1000 + i, command);
      for (int k = 0; k <= (i < 100); k++)
        ADD (sonde_writer_add_sample (capture->writer, &origin, 1000 + i, addrs, 2));
    }
  {
    g_autofree char *text
        = export_as (capture, sonde_export_firefox, SONDE_UNIT_SAMPLES, &size_bytes);
    g_autoptr (JsonNode) node = parse_json (text, size_bytes);

    threads = json_object_get_array_member (json_node_get_object (node), "threads");
    g_assert_cmpuint (json_array_get_length (threads), ==, 200);
    name = json_object_get_string_member (json_array_get_object_element (threads, 0), "name");
    g_assert_cmpstr (name, ==, "[101 more groups]");
    for (guint i = 0; i < json_array_get_length (threads); i++)
      n_samples += json_object_get_int_member (
          json_object_get_object_member (json_array_get_object_element (threads, i), "samples"),
          "length");
    g_assert_cmpint (n_samples, ==, 400);
  }
  {
    g_autofree char *text
        = export_as (capture, sonde_export_speedscope, SONDE_UNIT_SAMPLES, &size_bytes);
    g_autoptr (JsonNode) node = parse_json (text, size_bytes);

    profiles = json_object_get_array_member (json_node_get_object (node), "profiles");
    g_assert_cmpuint (json_array_get_length (profiles), ==, 50);
    n_samples = 0;
    for (guint i = 0; i < json_array_get_length (profiles); i++)
      n_samples += sum_weights (json_array_get_object_element (profiles, i));
    g_assert_cmpint (n_samples, ==, 400);
  }
}

static guint
count_packets (const Sonde__Perfetto__Trace *trace, int event_type)
{
  guint n = 0;

  for (gsize i = 0; i < trace->n_packet; i++)
    n += trace->packet[i]->track_event != NULL && trace->packet[i]->track_event->type == event_type;
  return n;
}

/* What is used was told before. */
static void
writes_packets_for_perfetto (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  gsize size_bytes;
  g_autofree char *text
      = export_as (capture, sonde_export_perfetto, SONDE_UNIT_SAMPLES, &size_bytes);
  Sonde__Perfetto__Trace *trace
      = sonde__perfetto__trace__unpack (NULL, size_bytes, (const uint8_t *) text);
  g_autoptr (GHashTable) stacks = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) frames = g_hash_table_new (NULL, NULL);
  guint n_samples = 0;

  g_assert_nonnull (trace);
  for (gsize i = 0; i < trace->n_packet; i++)
    {
      const Sonde__Perfetto__InternedData *interned = trace->packet[i]->interned_data;
      const Sonde__Perfetto__PerfSample *sample = trace->packet[i]->perf_sample;

      for (gsize k = 0; interned != NULL && k < interned->n_frames; k++)
        g_assert_true (g_hash_table_add (frames, GSIZE_TO_POINTER (interned->frames[k]->iid)));
      for (gsize k = 0; interned != NULL && k < interned->n_callstacks; k++)
        {
          const Sonde__Perfetto__Callstack *stack = interned->callstacks[k];

          g_assert_true (g_hash_table_add (stacks, GSIZE_TO_POINTER (stack->iid)));
          for (gsize n = 0; n < stack->n_frame_ids; n++)
            g_assert_true (g_hash_table_contains (frames, GSIZE_TO_POINTER (stack->frame_ids[n])));
        }
      if (sample == NULL)
        continue;
      n_samples++;
      g_assert_true (g_hash_table_contains (stacks, GSIZE_TO_POINTER (sample->callstack_iid)));
    }
  g_assert_cmpuint (n_samples, ==, 4);
  g_assert_cmpuint (g_hash_table_size (stacks), ==, 3);
  g_assert_cmpuint (count_packets (trace, 1), ==, 1);
  g_assert_cmpuint (count_packets (trace, 2), ==, 1);
  g_assert_cmpuint (count_packets (trace, 3), ==, 3); /* two allocations and a mark */
  g_assert_cmpuint (count_packets (trace, 4), ==, 3);
  sonde__perfetto__trace__free_unpacked (trace, NULL);
}

static gboolean
has_location (const Sonde__Pprof__Profile *profile, guint64 id)
{
  for (gsize i = 0; i < profile->n_location; i++)
    if (profile->location[i]->id == id)
      return TRUE;
  return FALSE;
}

/* Names of the types, and the sums of their values. */
static void
profiles_for_pprof (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  gsize size_bytes;
  g_autofree char *text = export_as (capture, sonde_export_pprof, SONDE_UNIT_SAMPLES, &size_bytes);
  Sonde__Pprof__Profile *profile
      = sonde__pprof__profile__unpack (NULL, size_bytes, (const uint8_t *) text);
  gint64 sums[3] = { 0 };

  g_assert_nonnull (profile);
  g_assert_cmpuint (profile->n_sample_type, ==, 3);
  g_assert_cmpstr (profile->string_table[0], ==, "");
  g_assert_cmpstr (profile->string_table[profile->sample_type[0]->type], ==, "samples");
  g_assert_cmpstr (profile->string_table[profile->sample_type[1]->type], ==, "alloc_objects");
  g_assert_cmpstr (profile->string_table[profile->sample_type[2]->unit], ==, "bytes");
  for (gsize i = 0; i < profile->n_sample; i++)
    {
      g_assert_cmpuint (profile->sample[i]->n_value, ==, 3);
      for (gsize k = 0; k < 3; k++)
        sums[k] += profile->sample[i]->value[k];
      for (gsize k = 0; k < profile->sample[i]->n_location_id; k++)
        g_assert_true (has_location (profile, profile->sample[i]->location_id[k]));
    }
  g_assert_cmpint (sums[0], ==, 4);
  g_assert_cmpint (sums[1], ==, 2);
  g_assert_cmpint (sums[2], ==, 128);
  sonde__pprof__profile__free_unpacked (profile, NULL);
}

static const char *
label_of (const Sonde__Pprof__Profile *profile, const Sonde__Pprof__Sample *sample, const char *key)
{
  for (gsize i = 0; i < sample->n_label; i++)
    if (g_str_equal (profile->string_table[sample->label[i]->key], key))
      return profile->string_table[sample->label[i]->str];
  return NULL;
}

static Sonde__Pprof__Profile *
export_places_as_pprof (SondeBy by)
{
  g_autoptr (CaptureBuilder) capture = make_places ();
  gsize size_bytes;
  g_autofree char *text
      = export_process_as (capture, sonde_export_pprof, SONDE_UNIT_SAMPLES, -1, by, &size_bytes);
  Sonde__Pprof__Profile *profile
      = sonde__pprof__profile__unpack (NULL, size_bytes, (const uint8_t *) text);

  g_assert_nonnull (profile);
  return profile;
}

static void
tells_pprof_of_places (void)
{
  Sonde__Pprof__Profile *profile = export_places_as_pprof (SONDE_BY_THREAD);
  char **texts = profile->string_table;
  guint n_at = 0;

  g_assert_cmpuint (profile->n_mapping, ==, 2);
  g_assert_cmpstr (texts[profile->mapping[0]->filename], ==, "/usr/bin/one");
  g_assert_cmpstr (texts[profile->mapping[1]->filename], ==, LIBRARY);
  g_assert_cmpstr (texts[profile->mapping[1]->build_id], ==, BUILD_ID);
  g_assert_cmphex (profile->mapping[1]->memory_start, ==, 0x7000000);
  g_assert_cmphex (profile->mapping[1]->memory_limit, ==, 0x7010000);
  g_assert_cmphex (profile->mapping[1]->file_offset, ==, 0x1000);
  g_assert_true (profile->mapping[1]->has_functions && profile->mapping[1]->has_filenames
                 && profile->mapping[1]->has_line_numbers
                 && profile->mapping[1]->has_inline_frames);
  /* The library's address is one, wherever it lies; a caller is at its call. */
  g_assert_cmpuint (profile->n_location, ==, 2);
  for (gsize i = 0; i < profile->n_location; i++)
    n_at += profile->location[i]->address
            == (profile->location[i]->mapping_id == 1 ? 0x7000123 : 0x400200);
  g_assert_cmpuint (n_at, ==, 2);
  g_assert_cmpuint (profile->n_sample, ==, 3);
  g_assert_cmpint (profile->sample[0]->value[0], ==, 2);
  g_assert_cmpstr (label_of (profile, profile->sample[0], "thread"), ==, "first worker");
  g_assert_cmpstr (label_of (profile, profile->sample[0], "comm"), ==, "one");
  g_assert_cmpstr (label_of (profile, profile->sample[0], "unit"), ==, "web.service");
  g_assert_nonnull (label_of (profile, profile->sample[0], "pid"));
  g_assert_cmpuint (profile->n_comment, ==, 1);
  sonde__pprof__profile__free_unpacked (profile, NULL);
}

static void
labels_what_pprof_gets_by_its_group (void)
{
  static const struct
  {
    SondeBy by;
    gsize n_samples;
    const char *comm; /* of the first one, as is what follows */
    const char *unit;
    gboolean has_pid;
    gboolean has_tid;
  } rows[] = {
    { SONDE_BY_UNIT, 2, "one", "web.service", TRUE, FALSE },
    { SONDE_BY_COMMAND, 2, "one", "web.service", TRUE, FALSE },
    { SONDE_BY_PROCESS, 2, "one", "web.service", TRUE, FALSE },
    { SONDE_BY_THREAD, 3, "one", "web.service", TRUE, TRUE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      Sonde__Pprof__Profile *profile = export_places_as_pprof (rows[i].by);

      g_assert_cmpuint (profile->n_sample, ==, rows[i].n_samples);
      g_assert_cmpstr (label_of (profile, profile->sample[0], "comm"), ==, rows[i].comm);
      g_assert_cmpstr (label_of (profile, profile->sample[0], "unit"), ==, rows[i].unit);
      g_assert_cmpint (label_of (profile, profile->sample[0], "pid") != NULL, ==, rows[i].has_pid);
      g_assert_cmpint (label_of (profile, profile->sample[0], "tid") != NULL, ==, rows[i].has_tid);
      sonde__pprof__profile__free_unpacked (profile, NULL);
    }
}

/* What pprof shows of one beside the other: each stack has both. */
static void
tells_pprof_of_blocks_and_bytes_together (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  gsize size_bytes;
  g_autofree char *text = export_process_as (capture, sonde_export_pprof, SONDE_UNIT_SAMPLES, -1,
                                             SONDE_BY_THREAD, &size_bytes);
  Sonde__Pprof__Profile *profile
      = sonde__pprof__profile__unpack (NULL, size_bytes, (const uint8_t *) text);
  const Sonde__Pprof__Sample *last;

  g_assert_nonnull (profile);
  last = profile->sample[profile->n_sample - 1];
  g_assert_cmpint (last->value[0], ==, 0);
  g_assert_cmpint (last->value[1], ==, 2);
  g_assert_cmpint (last->value[2], ==, 128);
  sonde__pprof__profile__free_unpacked (profile, NULL);
}

/* Groups beyond the bound are one, which says how many. */
static void
bounds_what_pprof_gets (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *text = NULL;
  gsize size_bytes;
  Sonde__Pprof__Profile *profile;
  gint64 sum = 0;

  for (int i = 0; i < 4100; i++)
    {
      add_process (capture, 1000 + i, "many");
      add_sample (capture, 1000 + i, SONDE_CONTEXT_USER, 0x1000);
    }
  text = export_process_as (capture, sonde_export_pprof, SONDE_UNIT_SAMPLES, -1, SONDE_BY_THREAD,
                            &size_bytes);
  profile = sonde__pprof__profile__unpack (NULL, size_bytes, (const uint8_t *) text);
  g_assert_nonnull (profile);
  g_assert_cmpuint (profile->n_sample, ==, 4096);
  for (gsize i = 0; i < profile->n_sample; i++)
    sum += profile->sample[i]->value[0];
  g_assert_cmpint (sum, ==, 4100);
  g_assert_cmpstr (label_of (profile, profile->sample[4095], "comm"), ==, "[5 more]");
  g_assert_null (label_of (profile, profile->sample[4095], "pid"));
  sonde__pprof__profile__free_unpacked (profile, NULL);
}

static void
add_settings (CaptureBuilder *self, const char *settings)
{
  SondeFrameOrigin origin = at (-1, 1000);

  ADD (sonde_writer_add_metadata (self->writer, &origin, SONDE_CAPTURE_SETTINGS, settings,
                                  strlen (settings)));
}

/* Of cpu-clock samples are times. */
static void
measures_time_for_speedscope (void)
{
  g_autoptr (CaptureBuilder) capture = make_places ();
  g_autofree char *text = NULL;
  g_autoptr (JsonNode) node = NULL;
  JsonArray *profiles;
  JsonObject *first;
  gsize size_bytes;

  add_settings (capture, "[sonde]\nevent=cpu-clock\nfrequency=500\n");
  text = export_as (capture, sonde_export_speedscope, SONDE_UNIT_SAMPLES, &size_bytes);
  node = parse_json (text, size_bytes);
  profiles = json_object_get_array_member (json_node_get_object (node), "profiles");
  first = json_array_get_object_element (profiles, 0);
  g_assert_cmpstr (json_object_get_string_member (first, "unit"), ==, "nanoseconds");
  g_assert_cmpint (sum_weights (first), ==, 3 * 2000000);
}

static gint64
sum_of (JsonObject *object, const char *member)
{
  JsonArray *array = json_object_get_array_member (object, member);
  gint64 sum = 0;

  for (guint i = 0; i < json_array_get_length (array); i++)
    sum += json_array_get_int_element (array, i);
  return sum;
}

static void
keeps_the_times_of_one_thread (void)
{
  g_autoptr (CaptureBuilder) capture = make_stacks ();
  g_autofree char *text = NULL;
  g_autoptr (JsonNode) node = NULL;
  JsonObject *root;
  JsonArray *nodes, *samples;
  gint64 n_hits = 0;
  gsize size_bytes;

  add_stack (capture, 1, 10 * STEP_NS, 1, 2);
  add_stack (capture, 1, 11 * STEP_NS, 1, 2);
  add_stack (capture, 1, 50 * STEP_NS, 1, 3);
  text = export_process_as (capture, sonde_export_cpuprofile, SONDE_UNIT_SAMPLES, -1,
                            SONDE_BY_COMMAND, &size_bytes);
  node = parse_json (text, size_bytes);
  root = json_node_get_object (node);
  nodes = json_object_get_array_member (root, "nodes");
  samples = json_object_get_array_member (root, "samples");
  /* the root, main, f, g, and the two that stand for none */
  g_assert_cmpuint (json_array_get_length (nodes), ==, 6);
  for (guint i = 0; i < 6; i++)
    n_hits += json_object_get_int_member (json_array_get_object_element (nodes, i), "hitCount");
  g_assert_cmpint (n_hits, ==, 3);
  g_assert_cmpuint (json_array_get_length (samples), ==, 4); /* it was away once */
  g_assert_cmpint (sum_of (root, "timeDeltas"), ==, 40000);
  g_assert_cmpint (json_object_get_int_member (root, "startTime"), ==, 10000);
  g_assert_cmpint (json_object_get_int_member (root, "endTime"), ==, 51000);
}

static void
lets_several_threads_follow (void)
{
  g_autoptr (CaptureBuilder) capture = make_places ();
  gsize size_bytes;
  g_autofree char *text = export_process_as (capture, sonde_export_cpuprofile, SONDE_UNIT_SAMPLES,
                                             -1, SONDE_BY_COMMAND, &size_bytes);
  g_autoptr (JsonNode) node = parse_json (text, size_bytes);
  JsonObject *root = json_node_get_object (node);
  JsonArray *nodes = json_object_get_array_member (root, "nodes");
  guint n_named = 0;

  for (guint i = 0; i < json_array_get_length (nodes); i++)
    {
      const char *name = json_object_get_string_member (
          json_object_get_object_member (json_array_get_object_element (nodes, i), "callFrame"),
          "functionName");

      n_named += g_str_equal (name, "one") || g_str_equal (name, "two");
    }
  g_assert_cmpuint (n_named, ==, 2);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (root, "samples")), ==, 4);
  g_assert_cmpint (sum_of (root, "timeDeltas"), ==, 3000);
}

static void
survives_any_time_in_a_cpuprofile (void)
{
  static const gint64 times[] = { G_MININT64, 0, G_MAXINT64, -1, G_MAXINT64, G_MININT64 };
  g_autoptr (CaptureBuilder) capture = make_stacks ();
  g_autofree char *text = NULL;
  g_autoptr (JsonNode) node = NULL;
  JsonArray *deltas;
  gsize size_bytes;

  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    add_stack (capture, 1, times[i], 1, 2 + i % 2);
  text = export_process_as (capture, sonde_export_cpuprofile, SONDE_UNIT_SAMPLES, -1,
                            SONDE_BY_COMMAND, &size_bytes);
  node = parse_json (text, size_bytes);
  deltas = json_object_get_array_member (json_node_get_object (node), "timeDeltas");
  for (guint i = 0; i < json_array_get_length (deltas); i++)
    g_assert_cmpint (json_array_get_int_element (deltas, i), >=, 0);
}

/* Frees one of two blocks, so that the peak is both. */
static void
shows_the_peak_in_a_heapprofile (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autofree char *path = write_file (capture, -1);
  g_autofree char *out_path = g_strconcat (path, ".out", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeExportSource) source = sonde_export_source_new_heap (path, NULL, NULL, &error);
  g_autoptr (SondeExportOutput) output = sonde_export_output_new (out_path, FALSE, &error);
  g_autofree char *text = NULL;
  g_autoptr (JsonNode) node = NULL;
  JsonObject *head, *main_function, *leaf;
  gsize size_bytes;

  g_assert_no_error (error);
  g_assert_true (sonde_export_heapprofile (source, SONDE_UNIT_BYTES, output, &error));
  g_assert_true (sonde_export_output_close (output, &error));
  g_assert_true (g_file_get_contents (out_path, &text, &size_bytes, &error));
  node = parse_json (text, size_bytes);
  head = json_object_get_object_member (json_node_get_object (node), "head");
  main_function
      = json_array_get_object_element (json_object_get_array_member (head, "children"), 0);
  leaf
      = json_array_get_object_element (json_object_get_array_member (main_function, "children"), 0);
  g_assert_cmpstr (json_object_get_string_member (
                       json_object_get_object_member (main_function, "callFrame"), "functionName"),
                   ==, "main");
  g_assert_cmpint (json_object_get_int_member (leaf, "selfSize"), ==, 128);
  g_unlink (out_path);
  g_unlink (path);
}

static void
refuses_what_cannot_be_read_twice (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (sonde_export_source_new ("/dev/null", NULL, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE);
}

static void
exports_what_comes_before_a_break (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autoptr (GError) error = NULL;
  char *path = write_file (capture, capture_bytes (capture)->len - 8);
  g_autoptr (SondeExportSource) source = sonde_export_source_new (path, NULL, NULL, &error);
  g_autoptr (SondeProfile) profile = NULL;

  g_assert_no_error (error);
  g_assert_nonnull (source->fault);
  profile = sonde_export_source_dup_profile (source, SONDE_UNIT_SAMPLES, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (sonde_profile_total (profile), ==, 4);
  remove_file (path);
}

#define DEEP 1000

/* A log that takes one more byte for each hundred blocks of a deep stack. */
static void
add_dense_log (CaptureBuilder *self)
{
  const SondeFrameOrigin origin = at (10, FIRST_NS);
  g_autoptr (GByteArray) plain = g_byte_array_new ();
  SondeHeapSegment header
      = { .version = SONDE_HEAP_LOG_VERSION,
          .tick_ns = 1000,
          .column_bytes = { 2 * DEEP, 3 * DEEP, 3, 2, 1 + SONDE_HEAP_LOG_MAX_EVENTS, 0 } };
  SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, SONDE_HEAP_LOG_MAX_EVENTS, 0 };
  guint8 packed[8192];

  g_byte_array_append (plain, (const guint8 *) &header, sizeof header);
  for (guint i = 0; i < DEEP; i++)
    {
      const guint8 pc[] = { (guint8) (i * 37 & 127) | 128, (guint8) (i * i & 127) };

      g_byte_array_append (plain, pc, sizeof pc);
    }
  for (guint i = 0; i < DEEP; i++)
    {
      const guint8 node[] = { 0, (guint8) (i & 127) | 128, (guint8) (i >> 7) };

      g_byte_array_append (plain, node, sizeof node);
    }
  g_byte_array_append (plain, (const guint8 *) "\xd0\x0f\x09\x0a\x0b\x03", 6);
  g_byte_array_set_size (plain, plain->len + SONDE_HEAP_LOG_MAX_EVENTS);
  memset (plain->data + plain->len - SONDE_HEAP_LOG_MAX_EVENTS, 0, SONDE_HEAP_LOG_MAX_EVENTS);
  label.packed_bytes = (uint32_t) ZSTD_compress (
      packed + sizeof label, sizeof packed - sizeof label, plain->data, plain->len, 1);
  g_assert_cmpuint (label.packed_bytes, <, sizeof packed - sizeof label);
  memcpy (packed, &label, sizeof label);
  ADD (sonde_writer_add_file_chunk (self->writer, &origin, SONDE_HEAP_LOG_PATH, packed,
                                    sizeof label + label.packed_bytes, FALSE));
}

/* 262 million frames in a few KiB. */
static void
tells_no_more_stacks_than_a_log_has_bytes_for (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autoptr (SondeExportSource) source = NULL;
  g_autoptr (SondeProfile) profile = NULL;
  g_autoptr (GError) error = NULL;
  char *path;

  add_dense_log (capture);
  path = write_file (capture, -1);
  source = sonde_export_source_new (path, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_null (source->fault);
  g_assert_cmpuint (source->n_allocated, ==, SONDE_HEAP_LOG_MAX_EVENTS + 2);
  profile = sonde_export_source_dup_profile (source, SONDE_UNIT_BLOCKS, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (sonde_profile_total (profile), >, SONDE_HEAP_LOG_FREE_MADE / DEEP);
  g_assert_cmpuint (sonde_profile_total (profile), <, SONDE_HEAP_LOG_MAX_EVENTS);
  g_assert_error (source->fault, G_IO_ERROR, G_IO_ERROR_NO_SPACE);
  assert_has (source->fault->message, "has a heap log at offset ");
  remove_file (path);
}

static void
leaves_a_file_as_it_was (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  char *path = NULL;
  int fd = g_file_open_tmp ("sonde-test-XXXXXX", &path, &error);
  SondeExportOutput *output;

  g_assert_cmpint (write (fd, "old", 3), ==, 3);
  close (fd);
  output = sonde_export_output_new (path, FALSE, &error);
  sonde_export_output_printf (output, "%070000d", 1); /* more than the buffer */
  sonde_export_output_free (output);
  g_assert_true (g_file_get_contents (path, &text, NULL, &error));
  g_assert_cmpstr (text, ==, "old");
  remove_file (path);
}

/* --- stacks --- */

static void
append_ids (const guint32 *ids, gsize n_ids, guint32 node, guint64 weight, gpointer user_data)
{
  for (gsize i = 0; i < n_ids; i++)
    g_string_append_printf (user_data, "%u,", ids[i]);
  g_string_append_printf (user_data, "=%u\n", (guint) weight);
}

static void
walks_every_stack (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);
  g_autoptr (SondeCallTree) empty = sonde_call_tree_new (NULL);
  g_autoptr (GString) text = g_string_new (NULL);
  const guint32 path[] = { 1, 2, 3 };
  const guint32 other[] = { 4 };

  sonde_export_foreach_stack (empty, append_ids, text);
  g_assert_cmpstr (text->str, ==, "");
  sonde_call_tree_add (tree, path, 3, 5);
  sonde_call_tree_add (tree, path, 1, 2);
  sonde_call_tree_add (tree, other, 1, 3);
  sonde_call_tree_add (tree, NULL, 0, 7);
  sonde_export_foreach_stack (tree, append_ids, text);
  g_assert_nonnull (strstr (text->str, "=7\n"));
  g_assert_nonnull (strstr (text->str, "1,=2\n1,2,3,=5\n"));
  g_assert_nonnull (strstr (text->str, "4,=3\n"));
}

/* --- heaptrack --- */

#define HEAP_NS  10001000 /* 10 ms after the start */
#define BLOCK_NS 1000000

static void
allocate (CaptureBuilder *self, gint32 pid, gint32 tid, gint64 n, guint64 address, gint64 size)
{
  SondeFrameOrigin origin = at (pid, HEAP_NS + n * BLOCK_NS);
  const uint64_t addrs[] = { JIT (2), JIT (1) };

  ADD (sonde_writer_add_allocation (self->writer, &origin, tid, address, size, addrs,
                                    size > 0 ? G_N_ELEMENTS (addrs) : 0));
}

static CaptureBuilder *
begin_heap (void)
{
  CaptureBuilder *self = capture_builder_new ();

  add_process (self, 10, "prog --all\n");
  add_jit_name (self, JIT (1), "main");
  add_jit_name (self, JIT (2), "a_function_of_its_own");
  return self;
}

/* Lengths and numbers are hexadecimal; pair 0 has no blocks; times come in steps. */
static void
logs_blocks_for_heaptrack (void)
{
  g_autoptr (CaptureBuilder) capture = begin_heap ();
  g_autofree char *text = NULL;

  allocate (capture, 10, 11, 0, 0x5000, 32);
  allocate (capture, 10, 11, 5, 0x5000, 0);
  allocate (capture, 10, 11, 40, 0x6000, 48);
  allocate (capture, 10, 12, 1, 0x7000, 32); /* another thread's ring was read later */
  allocate (capture, 10, 12, 41, 0x7000, 0);
  allocate (capture, 10, 12, 42, 0x9000, 0); /* nothing is known of it */
  text = export_as (capture, sonde_export_heaptrack, SONDE_UNIT_SAMPLES, NULL);
  g_assert_cmpstr (text, ==,
                   "v 10400 3\nX prog --all\\n\n"
                   "s 4 main\ni e000000000000001 0 1 0 0\nt 1 0\n"
                   "s 15 a_function_of_its_own\ni e000000000000002 0 2 0 0\nt 2 1\n"
                   "a 0 2\na 20 2\nc a\n+ 1\n+ 1\n- 1\n"
                   "a 30 2\nc 32\n+ 2\n- 1\nc 33\n");
}

static void
tells_heaptrack_of_each_process (void)
{
  g_autoptr (CaptureBuilder) capture = begin_heap ();
  g_autofree char *text = NULL;
  g_autofree char *other = NULL;

  add_process (capture, 20, "other");
  allocate (capture, 10, 11, 0, 0x5000, 32);
  allocate (capture, 20, 20, 1, 0x5000, 32);
  allocate (capture, 20, 20, 2, 0x5000, 32); /* its free is missing */
  text = export_as (capture, sonde_export_heaptrack, SONDE_UNIT_SAMPLES, NULL);
  g_assert_cmpstr (text, ==,
                   "v 10400 3\nX prog --all\\n\n"
                   "s 7 prog-10\ni 0 0 1 0 0\nt 1 0\n"
                   "s 4 main\ni e000000000000001 0 2 0 0\nt 2 1\n"
                   "s 15 a_function_of_its_own\ni e000000000000002 0 3 0 0\nt 3 2\n"
                   "a 0 3\na 20 3\nc a\n+ 1\n"
                   "s 8 other-20\ni 0 0 4 0 0\nt 4 0\nt 2 4\nt 3 5\n"
                   "a 20 6\n+ 2\n- 2\n+ 2\nc c\n");
  other = export_process_as (capture, sonde_export_heaptrack, SONDE_UNIT_SAMPLES, 20, SONDE_BY_NONE,
                             NULL);
  g_assert_cmpstr (other, ==,
                   "v 10400 3\nX other\n"
                   "s 4 main\ni e000000000000001 0 1 0 0\nt 1 0\n"
                   "s 15 a_function_of_its_own\ni e000000000000002 0 2 0 0\nt 2 1\n"
                   "a 0 2\na 20 2\nc b\n+ 1\n- 1\n+ 1\nc c\n");
}

/* The table of stacks and sizes begins anew; what is told again counts the same. */
static void
tells_heaptrack_again_what_it_forgot (void)
{
  g_autoptr (CaptureBuilder) capture = begin_heap ();
  g_autofree char *text = NULL;
  const char *again;

  for (guint i = 1; i <= (1u << 18) + 1; i++)
    allocate (capture, 10, 11, 0, 0x5000 + 8 * (guint64) i, i);
  allocate (capture, 10, 11, 0, 0x5008, 0);
  text = export_as (capture, sonde_export_heaptrack, SONDE_UNIT_SAMPLES, NULL);
  again = strstr (text, "\na 1 2\n");
  g_assert_nonnull (again);
  g_assert_cmpstr (again, !=, "");
  g_assert_true (g_str_has_suffix (again + 1, "\na 40001 2\n+ 40001\na 1 2\n- 40002\n"));
}

/* A block of 32 bytes, sampled once in 4,096, stands for 128.5 of them. */
static void
tells_heaptrack_what_samples_stand_for (void)
{
  const char *settings = "[sonde]\nmemory=sampled\nmemory-interval=4096\n";
  g_autoptr (CaptureBuilder) capture = begin_heap ();
  SondeFrameOrigin origin = at (-1, 1000);
  g_autofree char *text = NULL;

  ADD (sonde_writer_add_metadata (capture->writer, &origin, SONDE_CAPTURE_SETTINGS, settings,
                                  strlen (settings)));
  allocate (capture, 10, 11, 0, 0x5000, 32);
  text = export_as (capture, sonde_export_heaptrack, SONDE_UNIT_SAMPLES, NULL);
  g_assert_nonnull (strstr (text, "once in 4096\n"));
  g_assert_true (g_str_has_suffix (text, "a 0 2\na 1010 2\nc a\n+ 1\n"));
}

/* Stacks are numbered in order of time, which what came since would change. */
static void
tells_heaptrack_of_no_more_than_was_named (void)
{
  g_autoptr (CaptureBuilder) capture = begin_heap ();
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeExportSource) source = NULL;
  g_autoptr (SondeExportOutput) output = NULL;
  const GByteArray *bytes;
  char *path;

  allocate (capture, 10, 11, 5, 0x5000, 32);
  path = write_file (capture, -1);
  source = sonde_export_source_new_heap (path, NULL, NULL, &error);
  g_assert_no_error (error);
  add_process (capture, 20, "other");
  allocate (capture, 20, 20, 1, 0x7000, 64);
  bytes = capture_bytes (capture);
  g_file_set_contents (path, (const char *) bytes->data, bytes->len, &error);
  g_assert_no_error (error);
  output = sonde_export_output_new ("/dev/null", FALSE, &error);
  g_assert_true (sonde_export_heaptrack (source, SONDE_UNIT_SAMPLES, output, &error));
  g_assert_true (g_str_has_suffix (output->text->str, "a 0 2\na 20 2\nc f\n+ 1\n"));
  remove_file (path);
}

static void
tells_heaptrack_nothing_of_no_heap (void)
{
  g_autoptr (CaptureBuilder) capture = begin_heap ();
  g_autofree char *text = export_as (capture, sonde_export_heaptrack, SONDE_UNIT_SAMPLES, NULL);

  g_assert_cmpstr (text, ==, "v 10400 3\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/export/source/refuses-what-cannot-be-read-twice",
                   refuses_what_cannot_be_read_twice);
  g_test_add_func ("/export/source/has-what-comes-before-a-break",
                   exports_what_comes_before_a_break);
  g_test_add_func ("/export/tells-no-more-stacks-than-a-log-has-bytes-for",
                   tells_no_more_stacks_than_a_log_has_bytes_for);
  g_test_add_func ("/export/output/leaves-a-file-as-it-was", leaves_a_file_as_it_was);
  g_test_add_func ("/export/chrome/slices-survive-any-time", survives_any_time);
  g_test_add_func ("/export/chrome/slices-are-made-of-samples", makes_slices_of_samples);
  g_test_add_func ("/export/stacks/are-all-walked", walks_every_stack);
  g_test_add_func ("/export/folded/folds-stacks", folds_stacks);
  g_test_add_func ("/export/dot/draws-calls", draws_calls);
  g_test_add_func ("/export/speedscope/is-filled", fills_speedscope);
  g_test_add_func ("/export/speedscope/is-told-of-times", measures_time_for_speedscope);
  g_test_add_func ("/export/cpuprofile/has-the-times-of-one-thread", keeps_the_times_of_one_thread);
  g_test_add_func ("/export/cpuprofile/has-one-thread-behind-the-other",
                   lets_several_threads_follow);
  g_test_add_func ("/export/cpuprofile/survives-any-time", survives_any_time_in_a_cpuprofile);
  g_test_add_func ("/export/heapprofile/is-of-the-peak", shows_the_peak_in_a_heapprofile);
  g_test_add_func ("/export/perf-script/prints-what-scripts-read",
                   prints_what_scripts_for_perf_read);
  g_test_add_func ("/export/firefox/gets-threads", writes_threads_for_firefox);
  g_test_add_func ("/export/firefox/gets-addresses-and-files", tells_firefox_of_places);
  g_test_add_func ("/export/firefox/has-the-lanes-of-groups", groups_threads_for_firefox);
  g_test_add_func ("/export/firefox/has-one-lane-for-a-command", merges_commands_for_firefox);
  g_test_add_func ("/export/caps/lose-no-sample", merges_what_viewers_have_no_room_for);
  g_test_add_func ("/export/perfetto/gets-packets", writes_packets_for_perfetto);
  g_test_add_func ("/export/pprof/is-profiled", profiles_for_pprof);
  g_test_add_func ("/export/pprof/gets-addresses-and-files", tells_pprof_of_places);
  g_test_add_func ("/export/pprof/has-the-labels-of-groups", labels_what_pprof_gets_by_its_group);
  g_test_add_func ("/export/pprof/has-blocks-beside-bytes",
                   tells_pprof_of_blocks_and_bytes_together);
  g_test_add_func ("/export/pprof/is-bounded", bounds_what_pprof_gets);
  g_test_add_func ("/export/chrome/is-told-of-everything", tells_chrome_of_everything);
  g_test_add_func ("/export/heaptrack/is-told-nothing-of-no-heap",
                   tells_heaptrack_nothing_of_no_heap);
  g_test_add_func ("/export/heaptrack/gets-a-log-of-blocks", logs_blocks_for_heaptrack);
  g_test_add_func ("/export/heaptrack/is-told-what-samples-stand-for",
                   tells_heaptrack_what_samples_stand_for);
  g_test_add_func ("/export/heaptrack/is-told-of-no-more-than-was-named",
                   tells_heaptrack_of_no_more_than_was_named);
  g_test_add_func ("/export/heaptrack/is-told-of-each-process", tells_heaptrack_of_each_process);
  g_test_add_func ("/export/heaptrack/is-told-again-what-was-forgotten",
                   tells_heaptrack_again_what_it_forgot);
  return g_test_run ();
}
