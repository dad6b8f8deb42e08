/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The data that the pictures of a capture are made of. */
#include "client/flame/flame-graph.h"

#include "client/flame/flame-data.h"
#include "client/flame/flame-page.h"
#include "client/flame/flame-svg.h"
#include "tests/unit/capture-builder.h"

static void
feed (gpointer receiver, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (((SondeSampleLog *) receiver)->model, frame);
}

static SondeSampleLog *
make_log (CaptureBuilder *capture)
{
  SondeSampleLog *log = sonde_sample_log_new ();

  capture_foreach (capture, feed, log);
  return log;
}

static SondeFlameGraph *
new_graph (const SondeSampleLog *log, const SondeSampleLog *other, guint32 max_nodes)
{
  const SondeFlameSource source = { .log = log, .other = other, .by = SONDE_BY_PROCESS };

  return sonde_flame_graph_new (&source, max_nodes);
}

/* "one two": two processes, of which the second is heavier. */
static SondeSampleLog *
make_two_processes (guint n_light)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();

  add_process (capture, 5, "one");
  add_process (capture, 6, "two");
  add_jit_name (capture, JIT (1), "main");
  add_jit_name (capture, JIT (2), "light");
  add_jit_name (capture, JIT (3), "heavy");
  add_jit_name (capture, JIT (4), "[stack truncated]");
  for (guint i = 0; i < n_light; i++)
    add_sample (capture, 5, JIT (2), JIT (1));
  for (guint i = 0; i < 20; i++)
    add_sample (capture, 6, JIT (3), JIT (1));
  add_sample (capture, 6, JIT (2), JIT (1));
  add_sample (capture, 6, JIT (1), JIT (4));
  return make_log (capture);
}

/* "depth name self/total" of each node. */
static char *
describe (const SondeFlameGraph *graph)
{
  GString *out = g_string_new (NULL);

  for (guint32 i = 0; i < graph->nodes->len; i++)
    {
      const SondeFlameNode *node = sonde_flame_graph_node (graph, i);

      g_string_append_printf (out, "%u %s %d/%d\n", node->depth,
                              sonde_flame_graph_function (graph, node->function)->name,
                              (int) node->self[0], (int) node->total[0]);
    }
  return g_string_free (out, FALSE);
}

static void
frames_hang_below_their_processes_heaviest_first (void)
{
  g_autoptr (SondeSampleLog) log = make_two_processes (2);
  g_autoptr (SondeFlameGraph) graph = new_graph (log, NULL, 100);
  g_autofree char *nodes = describe (graph);

  g_assert_cmpstr (nodes, ==,
                   "0 two (pid 6) 0/22\n1 main 0/21\n2 heavy 20/20\n2 light 1/1\n"
                   "1 [stack truncated] 0/1\n2 main 1/1\n"
                   "0 one (pid 5) 0/2\n1 main 0/2\n2 light 2/2\n");
  g_assert_cmpuint (graph->total[0], ==, 24);
  g_assert_cmpuint (graph->threshold, ==, 1);
}

static void
light_frames_are_summed_up_by_their_callers (void)
{
  g_autoptr (SondeSampleLog) log = make_two_processes (2);
  g_autoptr (SondeFlameGraph) graph = new_graph (log, NULL, 3);
  g_autofree char *nodes = describe (graph);

  g_assert_cmpstr (nodes, ==,
                   "0 [lighter frames] 2/2\n0 two (pid 6) 0/22\n1 [lighter frames] 1/1\n"
                   "1 main 0/21\n2 [lighter frames] 1/1\n2 heavy 20/20\n");
  g_assert_cmpuint (graph->threshold, ==, 4);
  g_assert_cmpuint (graph->functions->len, ==, 4);

  /* each sample counts where the graph shows it */
  for (guint i = 0; i < log->samples.places->len; i++)
    {
      const SondeSamplePlace *place = &g_array_index (log->samples.places, SondeSamplePlace, i);
      guint process = sonde_samples_thread (&log->samples, place->thread)->process;
      guint32 node = sonde_flame_graph_locate (graph, process, place->node);

      g_assert_cmpuint (sonde_flame_graph_node (graph, node)->self[0], >, 0);
    }
}

static void
compared_captures_meet_by_name (void)
{
  g_autoptr (SondeSampleLog) log = make_two_processes (2);
  g_autoptr (SondeSampleLog) other = make_two_processes (60);
  g_autoptr (SondeFlameGraph) graph = new_graph (log, other, 100);
  const SondeFlameNode *first = sonde_flame_graph_node (graph, 0);

  g_assert_cmpstr (sonde_flame_graph_function (graph, first->function)->name, ==, "one");
  g_assert_cmpuint (first->total[0], ==, 2);
  g_assert_cmpuint (first->total[1], ==, 60);
  g_assert_cmpuint (graph->total[1], ==, 82);
}

static void
numbers_are_packed_and_signed_ones_zigzag (void)
{
  const guint8 expected[] = { 0x7f, 0x80, 0x01, 0x01, 0x04, 0x02, 'h',  'i',  0xff,
                              0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 };
  g_autoptr (GByteArray) out = g_byte_array_new ();

  sonde_flame_data_append_number (out, 127);
  sonde_flame_data_append_number (out, 128);
  sonde_flame_data_append_signed (out, -1);
  sonde_flame_data_append_signed (out, 2);
  sonde_flame_data_append_text (out, "hi");
  sonde_flame_data_append_signed (out, G_MININT64);
  g_assert_cmpmem (out->data, out->len, expected, sizeof expected);
}

static void
times_may_be_any (void)
{
  const gint64 times_ns[] = { G_MAXINT64, 0, G_MININT64 };
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeSampleLog) log = NULL;
  g_autoptr (SondeFlameGraph) graph = NULL;
  g_autoptr (GByteArray) data = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (times_ns); i++)
    {
      SondeFrameOrigin origin = at (5, times_ns[i]);

      ADD (sonde_writer_add_sample (capture->writer, &origin, -1, NULL, 0));
      ADD (sonde_writer_add_mark (capture->writer, &origin, -5, "", "", ""));
    }
  log = make_log (capture);
  graph = new_graph (log, NULL, 100);
  data = sonde_flame_data_new (&(SondeFlameSource){ .log = log, .title = "", .start = "" }, graph,
                               1, 16);
  g_assert_cmpuint (data->len, >, 0);
}

/* Of one thread a sample each millisecond, in turn at two nodes like "aab", and one of a late
 * moment. */
static SondeSampleLog *
make_turns (guint n, gint64 late_ms)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();

  add_process (capture, 5, "one");
  for (guint i = 0; i <= n; i++)
    {
      SondeFrameOrigin origin = at (5, (i < n ? i : late_ms) * G_GINT64_CONSTANT (1000000));
      guint64 address = JIT (1 + (i % 3 == 2));

      ADD (sonde_writer_add_sample (capture->writer, &origin, 5, &address, 1));
    }
  return make_log (capture);
}

/* The runs are what the data ends with. */
static void
check_runs (const SondeSampleLog *log, guint max_runs, const guint64 *numbers, guint n)
{
  g_autoptr (SondeFlameGraph) graph = new_graph (log, NULL, 100);
  g_autoptr (GByteArray) data = sonde_flame_data_new (
      &(SondeFlameSource){ .log = log, .title = "", .start = "" }, graph, 100, max_runs);
  g_autoptr (GByteArray) expected = g_byte_array_new ();

  for (guint i = 0; i < n; i++)
    sonde_flame_data_append_number (expected, numbers[i]);
  g_assert_cmpuint (data->len, >, expected->len);
  g_assert_cmpmem (data->data + data->len - expected->len, expected->len, expected->data,
                   expected->len);
}

static void
samples_at_one_node_are_a_run (void)
{
  g_autoptr (SondeSampleLog) log = make_turns (5, 50);
  /* how many, a quarter of a millisecond, not merged, of the thread; from each to the next; how
   * long; nodes 1, 2, 1, 2: the process is 0 */
  const guint64 numbers[] = { 4, 250000, 0, 4, 0, 0, 0, 180, 8, 4, 8, 4, 2, 2, 1, 2 };

  check_runs (log, 100, numbers, G_N_ELEMENTS (numbers));
}

static void
many_runs_are_merged_into_what_has_most_samples (void)
{
  g_autoptr (SondeSampleLog) log = make_turns (99, 99);
  /* one, a fourteenth of 99 ms each, merged, of the thread: at node 1 from the first to the last */
  const guint64 numbers[] = { 1, 99000000 / 14 + 1, 1, 1, 0, 14, 2 };

  check_runs (log, 16, numbers, G_N_ELEMENTS (numbers));
}

static void
of_too_many_threads_there_are_no_runs (void)
{
  g_autoptr (SondeSampleLog) log = make_turns (99, 99);
  const guint64 numbers[] = { 0, 250000, 0 };

  check_runs (log, 4, numbers, G_N_ELEMENTS (numbers));
}

static GString *
make_page (const SondeSampleLog *log, gsize max_bytes, GError **error)
{
  SondeFlameSource source = { .log = log, .title = "</script><b>", .start = "<!--\033]0;bell\a" };

  return sonde_flame_page_new (&source, max_bytes, error);
}

static void
a_title_stays_text (void)
{
  g_autoptr (SondeSampleLog) log = make_two_processes (2);
  GString *page = make_page (log, SONDE_FLAME_PAGE_MAX_BYTES, NULL);
  GString *svg = sonde_flame_svg_new (&(SondeFlameSource){ .log = log, .title = "</script><b>" });

  g_assert_nonnull (strstr (page->str, "<title>&lt;/script&gt;&lt;b&gt; "));
  g_assert_null (strstr (page->str, "</script><b>"));
  g_assert_null (strstr (svg->str, "</script><b>"));
  g_string_free (page, TRUE);
  g_string_free (svg, TRUE);
}

static void
what_does_not_fit_is_refused (void)
{
  g_autoptr (SondeSampleLog) log = make_two_processes (2);
  g_autoptr (GError) error = NULL;

  g_assert_null (make_page (log, 1000, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/flame-graph/samples-at-one-node-are-a-run", samples_at_one_node_are_a_run);
  g_test_add_func ("/flame-graph/many-runs-are-merged-into-what-has-most-samples",
                   many_runs_are_merged_into_what_has_most_samples);
  g_test_add_func ("/flame-graph/of-too-many-threads-there-are-no-runs",
                   of_too_many_threads_there_are_no_runs);
  g_test_add_func ("/flame-graph/frames-hang-below-their-processes-heaviest-first",
                   frames_hang_below_their_processes_heaviest_first);
  g_test_add_func ("/flame-graph/light-frames-are-summed-up-by-their-callers",
                   light_frames_are_summed_up_by_their_callers);
  g_test_add_func ("/flame-graph/compared-captures-meet-by-name", compared_captures_meet_by_name);
  g_test_add_func ("/flame-data/numbers-are-packed-and-signed-ones-zigzag",
                   numbers_are_packed_and_signed_ones_zigzag);
  g_test_add_func ("/flame-data/times-may-be-any", times_may_be_any);
  g_test_add_func ("/flame-page/a-title-stays-text", a_title_stays_text);
  g_test_add_func ("/flame-page/what-does-not-fit-is-refused", what_does_not_fit_is_refused);
  return g_test_run ();
}
