/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The model of a capture, and the report that is made of it. */
#include <malloc.h>

#include "client/report/profile-text.h"
#include "client/report/report-text.h"
#include "tests/unit/capture-builder.h"

static void
feed_report (gpointer receiver, const SondeFrame *frame)
{
  sonde_report_add_frame (receiver, frame);
}

static SondeReport *
make_report (CaptureBuilder *capture, const SondeReportOptions *options)
{
  SondeReport *report = sonde_report_new (options, 0);

  capture_foreach (capture, feed_report, report);
  sonde_report_finish (report, NULL);
  return report;
}

static char *
make_tree (CaptureBuilder *capture, double percent_limit)
{
  g_autoptr (SondeReport) report = make_report (capture, NULL);
  SondeProfileStyle style = { .percent_limit = percent_limit, .max_depth = 512, .utf8 = TRUE };
  GString *out = g_string_new (NULL);

  sonde_profile_append_tree (out, report->profile, &style);
  return g_string_free (out, FALSE);
}

static void
names_of_foreign_origin_are_escaped (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *tree = NULL;

  add_process (capture, 5, "evil\033[2J");
  add_jit_name (capture, JIT (1), "name\nwith newline\xff");
  add_sample (capture, 5, JIT (1));
  tree = make_tree (capture, 0);
  assert_has (tree, "evil\\x1b[2J (pid 5)\n");
  assert_has (tree, "name\\nwith newline\\xff\n");
}

static void
symbols_that_point_outside_are_left_out (void)
{
  SondeSymbolRecord records[4] = {
    { .begin = 0x1000, .end = 0x1fff, .pid = 5, .name_offset = 200 },
    { .begin = 0x2000, .end = 0x1fff, .pid = 5, .name_offset = 128 },
    { .begin = 0x3000, .end = 0x3fff, .pid = 5, .name_offset = 128, .tag_offset = 9999 },
  };
  GByteArray *bytes = g_byte_array_new ();
  g_autoptr (SondeEmbeddedSymbols) symbols = NULL;
  const char *name = NULL;
  const char *tag = NULL;

  g_byte_array_append (bytes, (const guint8 *) records, sizeof records);
  g_byte_array_append (bytes, (const guint8 *) "good", 5);
  g_byte_array_append (bytes, (const guint8 *) "open", 4);
  symbols = sonde_embedded_symbols_new (bytes);

  g_assert_cmpuint (sonde_embedded_symbols_size (symbols), ==, 1);
  g_assert_false (sonde_embedded_symbols_lookup (symbols, 5, 0x1800, &name, &tag));
  g_assert_false (sonde_embedded_symbols_lookup (symbols, 6, 0x3000, &name, &tag));
  g_assert_false (sonde_embedded_symbols_lookup (symbols, 5, 0x4000, &name, &tag));
  g_assert_true (sonde_embedded_symbols_lookup (symbols, 5, 0x3fff, &name, &tag));
  g_assert_cmpstr (name, ==, "good");
  g_assert_null (tag);
}

static void
symbols_cut_anywhere_are_safe (void)
{
  SondeSymbolRecord records[2] = { { .begin = 1, .end = 2, .pid = 5, .name_offset = 64 } };
  guint8 whole[sizeof records + 2] = { 0 };

  memcpy (whole, records, sizeof records);
  whole[sizeof records] = 'x';
  for (guint size = 0; size <= sizeof whole; size++)
    {
      GByteArray *bytes = g_byte_array_new ();
      g_autoptr (SondeEmbeddedSymbols) symbols = NULL;

      g_byte_array_append (bytes, whole, size);
      symbols = sonde_embedded_symbols_new (bytes);
      g_assert_cmpuint (sonde_embedded_symbols_size (symbols), ==, size == sizeof whole ? 1 : 0);
    }
}

static void
a_stack_reads_from_the_outermost_frame_down (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *tree = NULL;

  add_process (capture, 5, "/usr/bin/prog --flag");
  add_jit_name (capture, JIT (1), "leaf");
  add_jit_name (capture, JIT (2), "middle");
  add_jit_name (capture, JIT (3), "main");
  add_sample (capture, 5, SONDE_CONTEXT_USER, JIT (1), JIT (2), JIT (3));
  tree = make_tree (capture, 0);
  assert_has (tree, "100.0%          prog (pid 5)\n"
                    " 100.0%          main\n"
                    " 100.0%          middle\n"
                    " 100.0%  100.0%  leaf\n");
}

static void
branches_indent_and_light_ones_are_summed_up (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *tree = NULL;

  add_process (capture, 5, "prog");
  add_jit_name (capture, JIT (1), "main");
  add_jit_name (capture, JIT (2), "heavy");
  add_jit_name (capture, JIT (3), "half");
  add_jit_name (capture, JIT (4), "light");
  add_jit_name (capture, JIT (5), "lighter");
  for (guint i = 0; i < 50; i++)
    add_sample (capture, 5, JIT (2), JIT (1));
  for (guint i = 0; i < 46; i++)
    add_sample (capture, 5, JIT (3), JIT (1));
  for (guint i = 0; i < 3; i++)
    add_sample (capture, 5, JIT (4), JIT (1));
  add_sample (capture, 5, JIT (5), JIT (1));
  tree = make_tree (capture, 5);
  assert_has (tree, " 100.0%          main\n"
                    "  50.0%   50.0%  ├─ heavy\n"
                    "  46.0%   46.0%  ├─ half\n"
                    "   4.0%          └─ [2 more, 4.0%]\n");
}

static void
a_heavy_callee_goes_on_in_its_column (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *tree = NULL;

  add_process (capture, 5, "prog");
  add_jit_name (capture, JIT (1), "main");
  add_jit_name (capture, JIT (2), "heavy");
  add_jit_name (capture, JIT (3), "light");
  add_jit_name (capture, JIT (4), "leaf");
  for (guint i = 0; i < 98; i++)
    add_sample (capture, 5, JIT (4), JIT (2), JIT (1));
  add_sample (capture, 5, JIT (3), JIT (1));
  add_sample (capture, 5, JIT (1));
  tree = make_tree (capture, 5);
  assert_has (tree, " 100.0%    1.0%  main\n"
                    "   1.0%          ╶ [1 more, 1.0%]\n"
                    "  98.0%          heavy\n"
                    "  98.0%   98.0%  leaf\n");
}

static void
return_addresses_are_looked_up_inside_the_call (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *tree = NULL;

  add_process (capture, 5, "prog");
  add_map (capture, 5, 0x1000, 0x2000, "/lib/one.so");
  add_map (capture, 5, 0x2000, 0x3000, "/lib/two.so");
  add_sample (capture, 5, SONDE_CONTEXT_USER, 0x2000, 0x2000);
  tree = make_tree (capture, 0);
  assert_has (tree, "one.so+0xfff\n 100.0%  100.0%  two.so+0x0\n");
}

static void
a_new_mapping_hides_the_old_one_from_then_on (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autofree char *tree = NULL;

  add_process (capture, 5, "prog");
  add_map (capture, 5, 0x1000, 0x2000, "/lib/old.so");
  add_sample (capture, 5, 0x1800);
  add_map (capture, 5, 0x1000, 0x2000, "/lib/new.so");
  add_sample (capture, 5, 0x1800);
  add_map (capture, 5, 0x1000, 0x2000, "/lib/new.so");
  add_sample (capture, 5, 0x1800);
  tree = make_tree (capture, 0);
  assert_has (tree, "33.3%   33.3%  └─ old.so+0x800");
  assert_has (tree, "66.7%   66.7%  ├─ new.so+0x800");
}

static void
a_forked_child_has_its_parents_mappings (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  SondeFrameOrigin parent = at (5, 1500);
  g_autofree char *tree = NULL;

  add_process (capture, 5, "prog");
  add_map (capture, 5, 0x1000, 0x2000, "/lib/one.so");
  ADD (sonde_writer_add_fork (capture->writer, &parent, 6));
  add_map (capture, 5, 0x1000, 0x2000, "/lib/two.so");
  add_sample (capture, 6, 0x1800);
  tree = make_tree (capture, 0);
  assert_has (tree, "prog (pid 6)\n 100.0%  100.0%  one.so+0x800\n");
}

static void
feed_model (gpointer receiver, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (receiver, frame);
}

/* Each with a mapping of its own: a small capture must not become a large model. */
static void
children_share_what_they_have_from_their_parents (void)
{
  enum
  {
    N = 3000
  };
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeCaptureModel) model
      = sonde_capture_model_new (&(SondeModelFuncs){ .sample = NULL }, NULL);
  SondeFrameOrigin parent = at (5, 1500);
  gsize before_bytes;

  for (guint64 i = 1; i <= N; i++)
    add_map (capture, 5, i << 12, (i + 1) << 12, "/lib/one.so");
  for (gint32 i = 0; i < N; i++)
    {
      ADD (sonde_writer_add_fork (capture->writer, &parent, 10 + i));
      add_map (capture, 10 + i, 1u << 30, 2u << 30, "/lib/two.so");
    }
  capture_bytes (capture);
  before_bytes = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
  capture_foreach (capture, feed_model, model);
  g_assert_cmpuint (sonde_capture_model_n_mappings (model), ==, 2 * N);
  g_assert_cmpuint (mallinfo2 ().uordblks + mallinfo2 ().hblkhd - before_bytes, <, 16u << 20);
}

static void
embedded_symbols_name_what_was_sampled_before (void)
{
  SondeSymbolRecord records[2]
      = { { .begin = 0x1800, .end = 0x18ff, .pid = 5, .name_offset = 64, .tag_offset = 75 } };
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeReport) report = NULL;
  g_autoptr (GString) flat = g_string_new (NULL);
  g_autoptr (GByteArray) file = g_byte_array_new ();
  SondeProfileStyle style = { .percent_limit = 0, .max_depth = 512 };
  SondeFrameOrigin origin = at (-1, 3000);

  g_byte_array_append (file, (const guint8 *) records, sizeof records);
  g_byte_array_append (file, (const guint8 *) "_Z3foov\0\0\0\0one.so", 18);
  add_process (capture, 5, "prog");
  add_sample (capture, 5, 0x1880);
  ADD (
      sonde_writer_add_file_chunk (capture->writer, &origin, "__symbols__", file->data, 40, false));
  ADD (sonde_writer_add_file_chunk (capture->writer, &origin, "__symbols__", file->data + 40,
                                    file->len - 40, true));
  report = make_report (capture, NULL);
  sonde_profile_append_flat (flat, report->profile, &style);
  assert_has (flat->str, "100.0%  100.0%  foo ");
  assert_has (flat->str, "one.so\n");
}

static void
filters_choose_by_pid_and_by_name (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeReport) by_pid = NULL;
  g_autoptr (SondeReport) by_name = NULL;
  SondeReportOptions of_pid = { .filter = SONDE_SAMPLE_FILTER_INIT };
  SondeReportOptions of_name = { .filter = SONDE_SAMPLE_FILTER_INIT };
  char two[] = "two";

  add_process (capture, 5, "one");
  add_process (capture, 6, "two");
  add_sample (capture, 5, 0x1000);
  add_sample (capture, 6, 0x1000);
  add_sample (capture, 6, 0x1000);
  of_pid.filter.pid = 5;
  of_name.filter.comm = two;
  by_pid = make_report (capture, &of_pid);
  by_name = make_report (capture, &of_name);
  g_assert_cmpuint (sonde_profile_total (by_pid->profile), ==, 1);
  g_assert_cmpuint (sonde_profile_total (by_name->profile), ==, 2);
}

static void
the_header_tells_losses_and_cut_stacks (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeReport) report = NULL;
  g_autoptr (GString) header = g_string_new (NULL);

  add_process (capture, 5, "prog");
  add_jit_name (capture, JIT (1), "[stack truncated]");
  define_ledger (capture);
  add_sample (capture, 5, 0x1000, JIT (1));
  add_sample (capture, 5, 0x1000);
  set_ledger (capture,
              (const gint64[SONDE_N_LEDGER]){ [SONDE_LEDGER_PRODUCED] = 14,
                                              [SONDE_LEDGER_RECORDED] = 12,
                                              [SONDE_LEDGER_LOST_KERNEL] = 2,
                                              [SONDE_LEDGER_STREAM_SAMPLES] = 2,
                                              [SONDE_LEDGER_STREAM_SAMPLES_FILTERED] = 3,
                                              [SONDE_LEDGER_STREAM_SAMPLES_BEFORE] = 7 },
              SONDE_N_LEDGER);
  report = make_report (capture, NULL);
  sonde_report_append_header (header, report);
  assert_has (header->str, "Lost      2 samples, 14.3% (lost-kernel 2)\n");
  assert_has (header->str,
              "Left out  7 samples before this capture began, 3 that it did not ask for\n");
  assert_has (header->str,
              "Stacks    50.0% complete; 1 (50.0%) end at the copied part of the stack");
}

static void
times_may_be_any (void)
{
  const gint64 times_ns[] = { G_MININT64, G_MAXINT64 };
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeReport) report = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (times_ns); i++)
    {
      SondeFrameOrigin origin = at (5, times_ns[i]);

      ADD (sonde_writer_add_sample (capture->writer, &origin, 5, NULL, 0));
    }
  report = make_report (capture, NULL);
  g_assert_cmpint (sonde_capture_model_duration_ns (report->model), ==, G_MAXINT64);
}

static void
append_mark (const SondeModelMark *mark, gpointer user_data)
{
  g_string_append_printf (user_data, "%d %s %s %s %d+%d\n", mark->pid, mark->group, mark->name,
                          mark->message, (int) mark->time_ns, (int) mark->duration_ns);
}

static void
append_value (const SondeModelValue *value, gpointer user_data)
{
  g_string_append_printf (user_data, "%u %d\n", value->counter, (int) value->value.v64);
}

static void
marks_are_told (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (GString) marks = g_string_new (NULL);
  g_autoptr (SondeCaptureModel) model
      = sonde_capture_model_new (&(SondeModelFuncs){ .mark = append_mark }, marks);
  SondeFrameOrigin origin = at (5, 1500);

  add_sample (capture, 5, 0x1000);
  ADD (sonde_writer_add_mark (capture->writer, &origin, 20, "group", "name", "text"));
  capture_foreach (capture, feed_model, model);
  g_assert_cmpstr (marks->str, ==, "5 group name text 1500+20\n");
}

static void
counters_keep_their_number_while_they_are_the_same (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (GString) values = g_string_new (NULL);
  g_autoptr (SondeCaptureModel) model
      = sonde_capture_model_new (&(SondeModelFuncs){ .value = append_value }, values);
  SondeFrameOrigin origin = at (-1, 1500);
  SondeCounter first = { "CPU", "Total", "", 9, SONDE_COUNTER_INT64, { 0 } };
  SondeCounter other = { "CPU", "User", "", 9, SONDE_COUNTER_INT64, { 0 } };
  const uint32_t ids[] = { 9, 10 }; /* nobody defines 10 */
  const SondeCounterValue set[] = { { 70 }, { 80 } };

  for (guint i = 0; i < 2; i++)
    {
      ADD (sonde_writer_add_counter_define (capture->writer, &origin, &first, 1));
      ADD (sonde_writer_add_counter_set (capture->writer, &origin, ids, set, 2));
    }
  ADD (sonde_writer_add_counter_define (capture->writer, &origin, &other, 1));
  ADD (sonde_writer_add_counter_set (capture->writer, &origin, ids, set, 1));
  capture_foreach (capture, feed_model, model);
  g_assert_cmpstr (values->str, ==, "0 70\n0 70\n1 70\n");
  g_assert_cmpuint (sonde_capture_model_n_counters (model), ==, 2);
  g_assert_cmpstr (sonde_capture_model_counter (model, 0)->name, ==, "Total");
  g_assert_cmpstr (sonde_capture_model_counter (model, 1)->name, ==, "User");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/capture-model/names-of-foreign-origin-are-escaped",
                   names_of_foreign_origin_are_escaped);
  g_test_add_func ("/capture-model/symbols-that-point-outside-are-left-out",
                   symbols_that_point_outside_are_left_out);
  g_test_add_func ("/capture-model/symbols-cut-anywhere-are-safe", symbols_cut_anywhere_are_safe);
  g_test_add_func ("/capture-model/times-may-be-any", times_may_be_any);
  g_test_add_func ("/capture-model/a-stack-reads-from-the-outermost-frame-down",
                   a_stack_reads_from_the_outermost_frame_down);
  g_test_add_func ("/capture-model/branches-indent-and-light-ones-are-summed-up",
                   branches_indent_and_light_ones_are_summed_up);
  g_test_add_func ("/capture-model/a-heavy-callee-goes-on-in-its-column",
                   a_heavy_callee_goes_on_in_its_column);
  g_test_add_func ("/capture-model/return-addresses-are-looked-up-inside-the-call",
                   return_addresses_are_looked_up_inside_the_call);
  g_test_add_func ("/capture-model/a-new-mapping-hides-the-old-one-from-then-on",
                   a_new_mapping_hides_the_old_one_from_then_on);
  g_test_add_func ("/capture-model/a-forked-child-has-its-parents-mappings",
                   a_forked_child_has_its_parents_mappings);
  g_test_add_func ("/capture-model/children-share-what-they-have-from-their-parents",
                   children_share_what_they_have_from_their_parents);
  g_test_add_func ("/capture-model/embedded-symbols-name-what-was-sampled-before",
                   embedded_symbols_name_what_was_sampled_before);
  g_test_add_func ("/capture-model/filters-choose-by-pid-and-by-name",
                   filters_choose_by_pid_and_by_name);
  g_test_add_func ("/capture-model/the-header-tells-losses-and-cut-stacks",
                   the_header_tells_losses_and_cut_stacks);
  g_test_add_func ("/capture-model/marks-are-told", marks_are_told);
  g_test_add_func ("/capture-model/counters-keep-their-number-while-they-are-the-same",
                   counters_keep_their_number_while_they_are_the_same);
  return g_test_run ();
}
