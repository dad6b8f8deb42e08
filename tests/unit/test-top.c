/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A live view: what it keeps, shows, and does when keys are pressed. */
#include <inttypes.h>

#include "client/report/profile-text.h"
#include "client/report/profile-view.h"
#include "client/report/report.h"
#include "tests/unit/top-fixture.h"

#define MEMORY_BYTES (2u << 20) /* what a history may take where that is tested */

/* "name,name,..." of the rows. */
static char *
dup_names (const SondeTopView *view)
{
  const SondeTopRows *rows = view->rows;
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < rows->list->len; i++)
    g_string_append_printf (out, "%s%s", i > 0 ? "," : "", sonde_top_rows_get (rows, i)->name);
  return g_string_free (out, FALSE);
}

#define assert_names(view, expected)                                                               \
  do                                                                                               \
    {                                                                                              \
      g_autofree char *names_ = dup_names (view);                                                  \
      g_assert_cmpstr (names_, ==, (expected));                                                    \
    }                                                                                              \
  while (0)

static char *
dup_text (const SondeProfile *profile, gboolean as_rows)
{
  const SondeProfileStyle style
      = { .percent_limit = 0, .max_depth = SONDE_PROFILE_MAX_DEPTH, .utf8 = TRUE };
  GString *out = g_string_new (NULL);

  if (as_rows)
    sonde_profile_append_flat (out, profile, &style);
  else
    sonde_profile_append_tree (out, profile, &style);
  return g_string_free (out, FALSE);
}

static void
add_report (gpointer receiver, const SondeFrame *frame)
{
  sonde_report_add_frame (receiver, frame);
}

/* Names of a history whose capture has this program's own code, recorded at that wall clock. */
static char *
dup_own_names (gint64 recorded_ns)
{
  g_autoptr (CaptureBuilder) builder = capture_builder_new ();
  SondeFrameOrigin origin = at (10, 1000);
  guint64 here = (guintptr) dup_own_names;
  g_autofree char *settings
      = g_strdup_printf ("[sonde]\nstart=1000\nstart-realtime=%" G_GINT64_FORMAT "\n", recorded_ns);
  g_autofree char *maps = NULL;
  g_autoptr (SondeTopHistory) history = new_history (SONDE_TOP_MAX_BYTES);
  Live live = { history, SECOND_NS / 2 };
  g_autoptr (SondeTopView) view = NULL;
  g_auto (GStrv) lines = NULL;

  ADD (sonde_writer_add_metadata (builder->writer, &origin, "sonde", settings, strlen (settings)));
  add_process (builder, 10, "test");
  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  lines = g_strsplit (maps, "\n", 0);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      guint64 start, end, offset, inode;
      char path[1024];

      if (sscanf (lines[i], "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64 " %1023s",
                  &start, &end, &offset, &inode, path)
              == 5
          && here >= start && here < end)
        ADD (
            sonde_writer_add_map (builder->writer, &origin, start, end, offset, inode, path, NULL));
    }
  add_sample (builder, 10, here);
  capture_foreach (builder, add_live, &live);
  view = new_view (history, SONDE_TOP_FLAT, SECOND_NS);
  return dup_names (view);
}

/* The capture says when it began only after the history is there. */
static void
test_a_file_that_was_changed_since_has_no_names (void)
{
  g_autofree char *names = dup_own_names (g_get_real_time () * 1000);
  g_autofree char *names_of_changed = dup_own_names (1);

  g_assert_cmpstr (names, ==, "dup_own_names");
  g_assert_nonnull (strstr (names_of_changed, "+0x"));
}

static void
test_history_says_what_the_report_says (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopSnapshot) last
      = sonde_top_history_snapshot (history, SECOND_NS, FALSE, FOREVER_US);
  g_autoptr (SondeTopSnapshot) all
      = sonde_top_history_snapshot (history, SECOND_NS, TRUE, FOREVER_US);
  const SondeReportOptions by_thread
      = { .filter = SONDE_SAMPLE_FILTER_INIT, .by = SONDE_BY_THREAD };
  g_autoptr (SondeReport) report = sonde_report_new (NULL, 0);
  g_autoptr (SondeReport) of_threads = sonde_report_new (&by_thread, 0);
  g_autoptr (SondeProfile) threads = NULL;
  g_autofree char *expected_threads = NULL;
  g_autofree char *text_of_threads = dup_text (last->threads, TRUE);

  capture_foreach (builder, add_report, report);
  sonde_report_finish (report, NULL);
  capture_foreach (builder, add_report, of_threads);
  sonde_report_finish (of_threads, NULL);
  threads = sonde_profile_view_by (of_threads->profile, SONDE_BY_THREAD);
  expected_threads = dup_text (threads, TRUE);
  g_assert_cmpstr (text_of_threads, ==, expected_threads);
  for (gboolean as_rows = FALSE; as_rows <= TRUE; as_rows++)
    {
      g_autofree char *expected = dup_text (report->profile, as_rows);
      g_autofree char *text = dup_text (last->profile, as_rows);
      g_autofree char *text_of_all = dup_text (all->profile, as_rows);

      g_assert_nonnull (strstr (expected, "hot"));
      g_assert_cmpstr (text, ==, expected);
      g_assert_cmpstr (text_of_all, ==, expected);
    }
  g_assert_cmpuint (last->n_seen, ==, 10);
  g_assert_cmpint (last->covered_ns, ==, SECOND_NS);
}

static void
test_history_leaves_out_what_is_older (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  Live later = { history, 8 * SECOND_NS };
  static const struct
  {
    gint64 now_ns;
    guint64 n_samples;
  } expected[] = { { 9 * SECOND_NS, 20 }, { 11 * SECOND_NS, 10 }, { 19 * SECOND_NS, 0 } };

  capture_foreach (builder, add_live, &later);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_autoptr (SondeTopSnapshot) last
          = sonde_top_history_snapshot (history, expected[i].now_ns, FALSE, FOREVER_US);
      g_autoptr (SondeTopSnapshot) all
          = sonde_top_history_snapshot (history, expected[i].now_ns, TRUE, FOREVER_US);

      g_assert_cmpuint (sonde_profile_total (last->profile), ==, expected[i].n_samples);
      g_assert_cmpint (last->covered_ns, ==, MIN (SPAN_NS, expected[i].now_ns));
      g_assert_cmpuint (sonde_profile_total (all->profile), ==, 20);
      g_assert_cmpint (all->covered_ns, ==, expected[i].now_ns);
    }
}

static void
test_history_forgets_at_a_reset (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  Live later = { history, 3 * SECOND_NS };

  sonde_top_history_reset (history, 2 * SECOND_NS);
  for (guint64 n = 0; n <= 10; n += 10)
    {
      g_autoptr (SondeTopSnapshot) last
          = sonde_top_history_snapshot (history, 4 * SECOND_NS, FALSE, FOREVER_US);
      g_autoptr (SondeTopSnapshot) all
          = sonde_top_history_snapshot (history, 4 * SECOND_NS, TRUE, FOREVER_US);

      g_assert_cmpuint (sonde_profile_total (last->profile), ==, n);
      g_assert_cmpuint (sonde_profile_total (all->profile), ==, n);
      g_assert_cmpuint (sonde_profile_total (all->threads), ==, n);
      g_assert_cmpint (all->covered_ns, ==, 2 * SECOND_NS);
      capture_foreach (builder, add_live, &later);
    }
  g_assert_cmpuint (sonde_top_history_n_seen (history), ==, 30);
}

/* The oldest sample goes; the time that is told is that of those which are there. */
static void
test_history_has_room_for_so_many_samples (void)
{
  g_autoptr (CaptureBuilder) builder = capture_builder_new ();
  g_autoptr (SondeTopHistory) history = new_history (SONDE_TOP_MAX_BYTES);
  g_autoptr (SondeTopSnapshot) snapshot = NULL;
  const SondeFrame *frame;

  add_sample (builder, 10, 0x1000);
  frame = (const SondeFrame *) (const void *) (capture_bytes (builder)->data
                                               + sizeof (SondeFileHeader));
  for (guint i = 0; i < SONDE_TOP_MAX_SAMPLES + 1000; i++)
    sonde_top_history_add_frame (history, frame, i < 1000 ? SECOND_NS : 2 * SECOND_NS);
  snapshot = sonde_top_history_snapshot (history, 3 * SECOND_NS, FALSE, FOREVER_US);
  g_assert_cmpuint (sonde_profile_total (snapshot->profile), ==, SONDE_TOP_MAX_SAMPLES);
  g_assert_cmpint (snapshot->covered_ns, ==, 2 * SECOND_NS);
  g_assert_cmpuint (snapshot->n_seen, ==, SONDE_TOP_MAX_SAMPLES + 1000);
}

/* Processes come and go for ever; one stays. */
static void
test_history_keeps_within_its_memory (void)
{
  g_autoptr (SondeTopHistory) history = new_history (MEMORY_BYTES);
  g_autoptr (CaptureBuilder) first = build_capture ();
  static const gint64 ledger[SONDE_N_LEDGER]
      = { [SONDE_LEDGER_PRODUCED] = 50, [SONDE_LEDGER_LOST_KERNEL] = 5 };
  Live live = { history, 0 };
  g_autoptr (SondeTopSnapshot) snapshot = NULL;
  g_autofree char *text = NULL;
  gsize most = 0;

  add_map (first, 10, 0x1000, 0x9000, "/opt/libstays.so");
  define_ledger (first);
  set_ledger (first, ledger, SONDE_N_LEDGER);
  capture_foreach (first, add_live, &live);
  for (gint32 pid = 1000; pid < 6000; pid++)
    {
      g_autoptr (CaptureBuilder) builder = capture_builder_new ();

      add_process (builder, pid, "cc1 x.c");
      add_map (builder, pid, 0x1000, 0x9000, "/opt/libgoes.so");
      add_sample (builder, pid, 0x2000 + (guint) pid);
      add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 2, 0x2001);
      live.now_ns += SECOND_NS / 100;
      capture_foreach (builder, add_live, &live);
      most = MAX (most, sonde_top_history_size_bytes (history));
    }
  g_assert_cmpuint (most, >, MEMORY_BYTES / 2); /* or this says nothing */
  g_assert_cmpuint (most, <=, MEMORY_BYTES * 5 / 4);

  snapshot = sonde_top_history_snapshot (history, live.now_ns, FALSE, FOREVER_US);
  text = dup_text (snapshot->profile, FALSE);
  g_assert_nonnull (strstr (text, "hot"));
  g_assert_nonnull (strstr (text, "libstays.so+0x1000"));
  g_assert_cmpstr (snapshot->losses, ==, "5 samples, 10.0% (lost-kernel 5)");
  g_assert_cmpuint (snapshot->n_seen, ==, 10 + 2 * 5000);
  g_assert_cmpint (snapshot->covered_ns, >, 0);
  g_assert_cmpint (snapshot->covered_ns, <=, SPAN_NS);
}

/* A place that the time did not suffice for has a name at the next look. */
static void
test_history_looks_for_names_within_its_budget (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopSnapshot) none = sonde_top_history_snapshot (history, SECOND_NS, FALSE, 0);
  g_autoptr (SondeTopSnapshot) all
      = sonde_top_history_snapshot (history, SECOND_NS, FALSE, FOREVER_US);
  g_autofree char *unnamed = dup_text (none->profile, TRUE);

  g_assert_true (none->is_unnamed_yet);
  g_assert_false (all->is_unnamed_yet);
  g_assert_nonnull (strstr (unnamed, "[looking for names]"));
  g_assert_cmpuint (sonde_profile_total (none->profile), ==, sonde_profile_total (all->profile));
}

static void
test_view_filters_by_name (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_FLAT, SECOND_NS);

  assert_names (view, "hot,main,cold,évil\\x1b[2J\\n名,middle");
  press (view, "/O");
  g_assert_true (view->is_typing);
  assert_names (view, "hot,cold");
  press (view, "l");
  assert_names (view, "cold");
  g_assert_cmpuint (view->rows->matched, ==, 1);
  sonde_top_view_press (view, SONDE_TOP_KEY_BACKSPACE, PAGE_ROWS);
  assert_names (view, "hot,cold");
  g_assert_cmpuint (view->rows->matched, ==, 8);

  /* the filter stays when it is no longer typed */
  sonde_top_view_press (view, SONDE_TOP_KEY_ENTER, PAGE_ROWS);
  g_assert_false (view->is_typing);
  press (view, "b");
  assert_names (view, "hot,cold");
  sonde_top_view_press (view, SONDE_TOP_KEY_ESCAPE, PAGE_ROWS);
  press (view, "f");
  assert_names (view, "hot,main,cold,évil\\x1b[2J\\n名,middle");
}

/* Those above a match are there, those beside it are not. */
static void
test_view_filters_a_tree (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_TREE, SECOND_NS);

  press (view, "/hot");
  assert_names (view, "python3 (pid 10),main,middle,hot");
  press (view, "zzz");
  assert_names (view, "");
  g_assert_cmpuint (view->rows->matched, ==, 0);
}

static void
test_view_expands_what_has_nearly_all (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_TREE, SECOND_NS);

  assert_names (view, "python3 (pid 10),main,bad\\x1b[2J\\x9b (pid 20),évil\\x1b[2J\\n名");
  sonde_top_view_press (view, SONDE_TOP_KEY_DOWN, PAGE_ROWS);
  sonde_top_view_press (view, SONDE_TOP_KEY_RIGHT, PAGE_ROWS);
  assert_names (view, "python3 (pid 10),main,middle,cold,bad\\x1b[2J\\x9b (pid 20),"
                      "évil\\x1b[2J\\n名");
  g_assert_cmpuint (sonde_top_rows_get (view->rows, 1)->total, ==, 9);
  g_assert_cmpuint (sonde_top_rows_get (view->rows, 1)->self, ==, 1);

  /* a new moment leaves it open */
  sonde_top_view_take (view, sonde_top_history_snapshot (history, SECOND_NS, FALSE, FOREVER_US));
  g_assert_true (sonde_top_rows_get (view->rows, 1)->is_expanded);
  g_assert_cmpuint (view->cursor, ==, 1);
  sonde_top_view_press (view, SONDE_TOP_KEY_LEFT, PAGE_ROWS);
  g_assert_false (sonde_top_rows_get (view->rows, 1)->is_expanded);
  sonde_top_view_press (view, SONDE_TOP_KEY_LEFT, PAGE_ROWS);
  g_assert_cmpuint (view->cursor, ==, 0);
}

static void
test_view_opens_an_only_callee_along (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_BOTTOM_UP, SECOND_NS);

  sonde_top_view_press (view, SONDE_TOP_KEY_ENTER, PAGE_ROWS);
  assert_names (view, "hot,middle,main,cold,main,évil\\x1b[2J\\n名");
  press (view, "c");
  assert_names (view, "hot,cold,main,évil\\x1b[2J\\n名");
}

static void
test_view_is_still_while_paused (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_FLAT, SECOND_NS);
  Live later = { history, SECOND_NS };

  press (view, "p");
  capture_foreach (builder, add_live, &later);
  sonde_top_view_take (view,
                       sonde_top_history_snapshot (history, 2 * SECOND_NS, FALSE, FOREVER_US));
  g_assert_cmpuint (sonde_profile_total (sonde_top_view_profile (view)), ==, 10);
  g_assert_cmpuint (sonde_top_history_n_seen (history), ==, 20);

  /* what is still can be looked at in other ways */
  press (view, "P");
  assert_names (view, "python3 (pid 10),bad\\x1b[2J\\x9b (pid 20)");
  g_assert_cmpint (sonde_top_view_press (view, 'p', PAGE_ROWS), ==, SONDE_TOP_SNAPSHOT);
  sonde_top_view_take (view,
                       sonde_top_history_snapshot (history, 2 * SECOND_NS, FALSE, FOREVER_US));
  g_assert_cmpuint (sonde_profile_total (sonde_top_view_profile (view)), ==, 20);
}

/* What was shown outlives the memory that it came from. */
static void
test_view_keeps_what_the_history_gave_back (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_FLAT, SECOND_NS);

  g_clear_pointer (&history, sonde_top_history_free);
  press (view, "M");
  press (view, "f");
  assert_names (view, "hot,main,cold,évil\\x1b[2J\\n名,middle");
}

static void
test_view_keeps_the_cursor_with_its_function (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_FLAT, SECOND_NS);
  Live later = { history, SECOND_NS };

  press (view, "jj");
  g_assert_cmpstr (sonde_top_rows_get (view->rows, 2)->name, ==, "cold");
  for (guint i = 0; i < 20; i++)
    add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 3);
  capture_foreach (builder, add_live, &later);
  sonde_top_view_take (view,
                       sonde_top_history_snapshot (history, 2 * SECOND_NS, FALSE, FOREVER_US));
  g_assert_cmpstr (sonde_top_rows_get (view->rows, 0)->name, ==, "cold");
  g_assert_cmpuint (view->cursor, ==, 0);

  sonde_top_view_press (view, SONDE_TOP_KEY_END, PAGE_ROWS);
  g_assert_cmpuint (view->cursor, ==, 4);
  g_assert_cmpuint (sonde_top_view_scroll (view, 2), ==, 3);
  press (view, "g");
  g_assert_cmpuint (sonde_top_view_scroll (view, 2), ==, 0);
}

/* "name:calls:self,..." of the rows, in us. */
static char *
dup_calls (const SondeTopView *view)
{
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < view->rows->list->len; i++)
    {
      const SondeTopRow *row = sonde_top_rows_get (view->rows, i);

      g_string_append_printf (out, "%s%s:%" G_GUINT64_FORMAT ":%.1f", i > 0 ? "," : "", row->name,
                              row->calls->sum.calls, row->calls->sum.self_ns / 1000);
    }
  return g_string_free (out, FALSE);
}

#define assert_calls(history, is_all, now_s, expected)                                             \
  do                                                                                               \
    {                                                                                              \
      g_autoptr (SondeTopView) view_ = sonde_top_view_new (SONDE_TOP_CALLS);                       \
      g_autofree char *calls_ = NULL;                                                              \
      sonde_top_view_take (view_, sonde_top_history_snapshot ((history), (now_s) *SECOND_NS,       \
                                                              (is_all), FOREVER_US));              \
      calls_ = dup_calls (view_);                                                                  \
      g_assert_cmpstr (calls_, ==, (expected));                                                    \
    }                                                                                              \
  while (0)

static void
test_calls_are_of_the_last_seconds (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();

  assert_calls (history, FALSE, 1, "");
  for (guint i = 1; i <= 20; i++)
    tell_calls (history, i, (i - 1) * SECOND_NS, i * SECOND_NS);
  /* 11 to 20 */
  assert_calls (history, FALSE, 20, "middle:155:93.0,hot:155:62.0");
  assert_calls (history, TRUE, 20, "middle:210:126.0,hot:210:84.0");
  assert_calls (history, FALSE, 29, "middle:20:12.0,hot:20:8.0");
  assert_calls (history, FALSE, 31, "");
  sonde_top_history_reset (history, 31 * SECOND_NS);
  assert_calls (history, TRUE, 31, "");
  tell_calls (history, 7, 20 * SECOND_NS, 32 * SECOND_NS);
  assert_calls (history, TRUE, 32, "middle:7:4.2,hot:7:2.8");
  assert_calls (history, FALSE, 33, "middle:7:4.2,hot:7:2.8");
}

static void
test_calls_before_the_view_are_not_of_it (void)
{
  const SondeTopHistoryOptions options
      = { .span_ns = SPAN_NS, .max_bytes = SONDE_TOP_MAX_BYTES, .is_alive = is_below_1000 };
  g_autoptr (SondeTopHistory) history = sonde_top_history_new (&options, 100 * SECOND_NS);
  g_autoptr (CaptureBuilder) builder = build_capture ();
  Live live = { history, 100 * SECOND_NS };

  capture_foreach (builder, add_live, &live);
  tell_calls (history, 1000000, SECOND_NS, 101 * SECOND_NS);
  assert_calls (history, FALSE, 101, "");
  assert_calls (history, TRUE, 101, "");
  tell_calls (history, 5, 101 * SECOND_NS, 102 * SECOND_NS);
  assert_calls (history, FALSE, 102, "middle:5:3.0,hot:5:2.0");
  /* some were missed: then all is told again */
  tell_calls (history, 1000012, SECOND_NS, 103 * SECOND_NS);
  assert_calls (history, FALSE, 103, "middle:12:7.2,hot:12:4.8");
  assert_calls (history, TRUE, 103, "middle:12:7.2,hot:12:4.8");
}

static void
test_calls_are_named_within_a_budget (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = sonde_top_view_new (SONDE_TOP_CALLS);

  tell_calls (history, 5, 0, SECOND_NS);
  sonde_top_view_take (view, sonde_top_history_snapshot (history, SECOND_NS, FALSE, 0));
  g_assert_true (view->snapshot->is_unnamed_yet);
  assert_names (view, "[looking for names]");
  assert_calls (history, FALSE, 1, "middle:5:3.0,hot:5:2.0");
}

static void
test_view_of_calls_filters_and_sorts (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = NULL;

  tell_calls (history, 5, 0, SECOND_NS);
  view = new_view (history, SONDE_TOP_FLAT, SECOND_NS);
  press (view, "C");
  assert_names (view, "middle,hot");
  g_assert_cmpuint (sonde_top_view_total (view), ==, 10);
  press (view, "/OT");
  assert_names (view, "hot");
  g_assert_cmpuint (view->rows->matched, ==, 5);
  sonde_top_view_press (view, SONDE_TOP_KEY_ESCAPE, PAGE_ROWS);
  press (view, "s");
  assert_names (view, "middle,hot");
  press (view, "sf");
  g_assert_cmpstr (sonde_top_rows_get (view->rows, 0)->name, ==, "hot");
}

static void
test_view_tells_what_its_owner_has_to_do (void)
{
  g_autoptr (SondeTopView) view = sonde_top_view_new (SONDE_TOP_FLAT);

  /* without a snapshot every key is harmless */
  for (guint key = 0; key < 0x80; key++)
    sonde_top_view_press (view, key, PAGE_ROWS);
  for (guint key = SONDE_TOP_KEY_UP; key <= SONDE_TOP_KEY_ESCAPE; key++)
    sonde_top_view_press (view, key, PAGE_ROWS);
  g_assert_cmpint (sonde_top_view_press (view, 'q', PAGE_ROWS), ==, SONDE_TOP_QUIT);
  g_assert_cmpint (sonde_top_view_press (view, 'r', PAGE_ROWS), ==, SONDE_TOP_RESET);
  g_assert_cmpint (sonde_top_view_press (view, 'a', PAGE_ROWS), ==, SONDE_TOP_SNAPSHOT);
  g_assert_cmpint (sonde_top_view_press (view, '?', PAGE_ROWS), ==, SONDE_TOP_SHOW);
  g_assert_true (view->is_help);
  g_assert_cmpint (sonde_top_view_press (view, 'r', PAGE_ROWS), ==, SONDE_TOP_SHOW);
  g_assert_false (view->is_help);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/top/history/has-no-names-of-a-file-that-was-changed-since",
                   test_a_file_that_was_changed_since_has_no_names);
  g_test_add_func ("/top/history/says-what-the-report-says",
                   test_history_says_what_the_report_says);
  g_test_add_func ("/top/history/leaves-out-what-is-older", test_history_leaves_out_what_is_older);
  g_test_add_func ("/top/history/forgets-at-a-reset", test_history_forgets_at_a_reset);
  g_test_add_func ("/top/history/has-room-for-so-many-samples",
                   test_history_has_room_for_so_many_samples);
  g_test_add_func ("/top/history/keeps-within-its-memory", test_history_keeps_within_its_memory);
  g_test_add_func ("/top/history/looks-for-names-within-its-budget",
                   test_history_looks_for_names_within_its_budget);
  g_test_add_func ("/top/view/filters-by-name", test_view_filters_by_name);
  g_test_add_func ("/top/view/filters-a-tree", test_view_filters_a_tree);
  g_test_add_func ("/top/view/expands-what-has-nearly-all", test_view_expands_what_has_nearly_all);
  g_test_add_func ("/top/view/opens-an-only-callee-along", test_view_opens_an_only_callee_along);
  g_test_add_func ("/top/view/is-still-while-paused", test_view_is_still_while_paused);
  g_test_add_func ("/top/view/keeps-what-the-history-gave-back",
                   test_view_keeps_what_the_history_gave_back);
  g_test_add_func ("/top/view/keeps-the-cursor-with-its-function",
                   test_view_keeps_the_cursor_with_its_function);
  g_test_add_func ("/top/calls/are-of-the-last-seconds", test_calls_are_of_the_last_seconds);
  g_test_add_func ("/top/calls/before-the-view-are-not-of-it",
                   test_calls_before_the_view_are_not_of_it);
  g_test_add_func ("/top/calls/are-named-within-a-budget", test_calls_are_named_within_a_budget);
  g_test_add_func ("/top/view/of-calls-filters-and-sorts", test_view_of_calls_filters_and_sorts);
  g_test_add_func ("/top/view/tells-what-its-owner-has-to-do",
                   test_view_tells_what_its_owner_has_to_do);
  return g_test_run ();
}
