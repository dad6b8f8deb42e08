/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a live view keeps, shows and does when keys are pressed. */
#include "client/report/profile-text.h"
#include "client/report/report.h"
#include "client/top/top-layout.h"
#include "tests/unit/capture-builder.h"

#define SECOND_NS    G_GINT64_CONSTANT (1000000000)
#define SPAN_NS      (10 * SECOND_NS)
#define FOREVER_US   G_MAXINT32
#define PAGE_ROWS    20
#define MEMORY_BYTES (2u << 20) /* what a history may take where that is tested */

typedef struct
{
  SondeTopHistory *history;
  gint64 now_ns;
} Live;

static void
add_live (gpointer receiver, const SondeFrame *frame)
{
  Live *self = receiver;

  sonde_top_history_add_frame (self->history, frame, self->now_ns);
}

static gboolean
is_below_1000 (gint32 pid)
{
  return pid < 1000;
}

static SondeTopHistory *
new_history (gsize max_bytes)
{
  const SondeTopHistoryOptions options
      = { .span_ns = SPAN_NS, .max_bytes = max_bytes, .is_alive = is_below_1000 };

  return sonde_top_history_new (&options, 0);
}

/* Two processes; of python3 7 of 10 samples lie in "hot", called by "main" through "middle". */
static CaptureBuilder *
build_capture (void)
{
  static const char *const names[] = { "main", "middle", "hot", "cold", "évil\033[2J\n名" };
  CaptureBuilder *builder = capture_builder_new ();

  add_process (builder, 10, "python3 work.py");
  add_process (builder, 20, "bad\033[2J\x9b name");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    add_jit_name (builder, SONDE_JIT_ADDRESS_BASE + i, names[i]);
  for (guint i = 0; i < 7; i++)
    add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 2, SONDE_JIT_ADDRESS_BASE + 1,
                SONDE_JIT_ADDRESS_BASE);
  add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 3, SONDE_JIT_ADDRESS_BASE);
  add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE);
  add_sample (builder, 20, SONDE_JIT_ADDRESS_BASE + 4);
  return builder;
}

static SondeTopView *
new_view (SondeTopHistory *history, SondeTopMode mode, gint64 now_ns)
{
  SondeTopView *view = sonde_top_view_new (mode);

  sonde_top_view_take (view, sonde_top_history_snapshot (history, now_ns, FALSE, FOREVER_US));
  return view;
}

/* The history of build_capture(), read within the first second. */
static SondeTopHistory *
new_filled (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  Live live = { new_history (SONDE_TOP_MAX_BYTES), SECOND_NS / 2 };

  capture_foreach (builder, add_live, &live);
  return live.history;
}

static void
press (SondeTopView *view, const char *keys)
{
  for (; *keys != '\0'; keys++)
    g_assert_cmpint (sonde_top_view_press (view, (guchar) *keys, PAGE_ROWS), !=, SONDE_TOP_QUIT);
}

/* "name,name,..." of the rows. */
static char *
dup_names (const SondeTopView *view)
{
  const SondeTopRows *rows = sonde_top_view_rows (view);
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < sonde_top_rows_size (rows); i++)
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

static void
test_history_says_what_the_report_says (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopSnapshot) last
      = sonde_top_history_snapshot (history, SECOND_NS, FALSE, FOREVER_US);
  g_autoptr (SondeTopSnapshot) all
      = sonde_top_history_snapshot (history, SECOND_NS, TRUE, FOREVER_US);
  g_autoptr (SondeReport) report = sonde_report_new (NULL);
  g_autoptr (SondeProfile) threads = NULL;

  capture_foreach (builder, add_report, report);
  sonde_report_finish (report, NULL);
  threads = sonde_report_by_thread (report);
  for (gboolean as_rows = FALSE; as_rows <= TRUE; as_rows++)
    {
      g_autofree char *expected = dup_text (sonde_report_profile (report), as_rows);
      g_autofree char *text = dup_text (last->profile, as_rows);
      g_autofree char *text_of_all = dup_text (all->profile, as_rows);
      g_autofree char *expected_threads = dup_text (threads, as_rows);
      g_autofree char *text_of_threads = dup_text (last->threads, as_rows);

      g_assert_nonnull (strstr (expected, "hot"));
      g_assert_cmpstr (text, ==, expected);
      g_assert_cmpstr (text_of_all, ==, expected);
      g_assert_cmpstr (text_of_threads, ==, expected_threads);
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
  g_assert_true (sonde_top_view_is_typing (view));
  assert_names (view, "hot,cold");
  press (view, "l");
  assert_names (view, "cold");
  g_assert_cmpuint (sonde_top_rows_matched (sonde_top_view_rows (view)), ==, 1);
  sonde_top_view_press (view, SONDE_TOP_KEY_BACKSPACE, PAGE_ROWS);
  assert_names (view, "hot,cold");
  g_assert_cmpuint (sonde_top_rows_matched (sonde_top_view_rows (view)), ==, 8);

  /* the filter stays when it is no longer typed */
  sonde_top_view_press (view, SONDE_TOP_KEY_ENTER, PAGE_ROWS);
  g_assert_false (sonde_top_view_is_typing (view));
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
  g_assert_cmpuint (sonde_top_rows_matched (sonde_top_view_rows (view)), ==, 0);
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
  g_assert_cmpuint (sonde_top_rows_get (sonde_top_view_rows (view), 1)->total, ==, 9);
  g_assert_cmpuint (sonde_top_rows_get (sonde_top_view_rows (view), 1)->self, ==, 1);

  /* a new moment leaves it open */
  sonde_top_view_take (view, sonde_top_history_snapshot (history, SECOND_NS, FALSE, FOREVER_US));
  g_assert_true (sonde_top_rows_get (sonde_top_view_rows (view), 1)->is_expanded);
  g_assert_cmpuint (sonde_top_view_cursor (view), ==, 1);
  sonde_top_view_press (view, SONDE_TOP_KEY_LEFT, PAGE_ROWS);
  g_assert_false (sonde_top_rows_get (sonde_top_view_rows (view), 1)->is_expanded);
  sonde_top_view_press (view, SONDE_TOP_KEY_LEFT, PAGE_ROWS);
  g_assert_cmpuint (sonde_top_view_cursor (view), ==, 0);
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
  g_assert_cmpstr (sonde_top_rows_get (sonde_top_view_rows (view), 2)->name, ==, "cold");
  for (guint i = 0; i < 20; i++)
    add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 3);
  capture_foreach (builder, add_live, &later);
  sonde_top_view_take (view,
                       sonde_top_history_snapshot (history, 2 * SECOND_NS, FALSE, FOREVER_US));
  g_assert_cmpstr (sonde_top_rows_get (sonde_top_view_rows (view), 0)->name, ==, "cold");
  g_assert_cmpuint (sonde_top_view_cursor (view), ==, 0);

  sonde_top_view_press (view, SONDE_TOP_KEY_END, PAGE_ROWS);
  g_assert_cmpuint (sonde_top_view_cursor (view), ==, 4);
  g_assert_cmpuint (sonde_top_view_scroll (view, 2), ==, 3);
  press (view, "g");
  g_assert_cmpuint (sonde_top_view_scroll (view, 2), ==, 0);
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
  g_assert_true (sonde_top_view_is_help (view));
  g_assert_cmpint (sonde_top_view_press (view, 'r', PAGE_ROWS), ==, SONDE_TOP_SHOW);
  g_assert_false (sonde_top_view_is_help (view));
}

/* The text of a line, and that it moves no cursor and is as wide as it says. */
static char *
dup_line (const SondeTopPage *page, guint line)
{
  const GArray *spans = sonde_top_page_line (page, line);
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < spans->len; i++)
    g_string_append (out, g_array_index (spans, SondeTopSpan, i).text);
  g_assert_true (g_utf8_validate (out->str, -1, NULL));
  for (const char *at = out->str; *at != '\0'; at = g_utf8_next_char (at))
    g_assert_false (g_unichar_iscntrl (g_utf8_get_char (at)));
  g_assert_cmpuint (sonde_top_text_width (out->str), ==, sonde_top_page_width (page, line));
  g_assert_cmpuint (sonde_top_page_width (page, line), <=, sonde_top_page_n_columns (page));
  return g_string_free (out, FALSE);
}

static void
test_page_lets_nothing_through_that_moves_the_cursor (void)
{
  static const struct
  {
    const char *text;
    gboolean is_utf8;
    const char *expected;
  } cases[] = {
    { "plain", TRUE, "plain" },
    { "a\033[2Jb\n\r\t\x7f\x9b\xc2\x9b", TRUE, "a[2Jb\xef\xbf\xbd" },
    { "just enough.", TRUE, "just enough." },
    { "more than enough", TRUE, "more than e…" },
    { "名名名名名名", TRUE, "名名名名名名" },
    { "名名名名名名名", TRUE, "名名名名名…" },
    { "é名", FALSE, "??" },
    { "more than enough", FALSE, "more than e~" },
    { "e\u0301", TRUE, "e\u0301" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (SondeTopPage) page = sonde_top_page_new (1, 12, cases[i].is_utf8);
      g_autofree char *line = NULL;

      sonde_top_page_add (page, 0, SONDE_TOP_PLAIN, cases[i].text);
      line = dup_line (page, 0);
      g_assert_cmpstr (line, ==, cases[i].expected);
    }
}

static void
test_layout_fits_a_screen_of_any_size (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();

  for (guint mode = SONDE_TOP_FLAT; mode <= SONDE_TOP_MODULES; mode++)
    for (guint n_lines = 1; n_lines < 30; n_lines += 4)
      for (guint n_columns = 1; n_columns < 140; n_columns += 9)
        {
          g_autoptr (SondeTopView) view = new_view (history, mode, SECOND_NS);
          g_autoptr (SondeTopPage) page = sonde_top_page_new (n_lines, n_columns, TRUE);

          press (view, n_columns % 2 == 0 ? "/o" : "G");
          sonde_top_layout_fill (page, view, 10, n_lines % 3 == 0 ? "gone" : NULL);
          for (guint i = 0; i < n_lines; i++)
            g_free (dup_line (page, i));
        }
}

/* All lines of a page of 80 columns, a newline behind each. */
static char *
dup_screen (SondeTopView *view, guint64 n_seen, const char *end)
{
  g_autoptr (SondeTopPage) page = sonde_top_page_new (24, 80, TRUE);
  GString *out = g_string_new (NULL);

  sonde_top_layout_fill (page, view, n_seen, end);
  for (guint i = 0; i < 24; i++)
    {
      g_autofree char *line = dup_line (page, i);

      g_string_append_printf (out, "%s\n", line);
    }
  return g_string_free (out, FALSE);
}

#define assert_on_screen(view, n_seen, end, text)                                                  \
  do                                                                                               \
    {                                                                                              \
      g_autofree char *screen_ = dup_screen ((view), (n_seen), (end));                             \
      if (strstr (screen_, (text)) == NULL)                                                        \
        g_error ("\"%s\" is not on the screen:\n%s", (text), screen_);                             \
    }                                                                                              \
  while (0)

static void
test_layout_says_what_is_shown (void)
{
  static const gint64 ledger[SONDE_N_LEDGER]
      = { [SONDE_LEDGER_PRODUCED] = 20, [SONDE_LEDGER_LOST_RING] = 2 };
  g_autoptr (CaptureBuilder) builder = capture_builder_new ();
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = NULL;
  static const char settings[] = "[sonde]\nevent=cpu-clock\nfrequency=10\nscope=targets\n";
  SondeFrameOrigin origin = at (-1, 1000);
  Live live = { history, SECOND_NS / 2 };

  ADD (sonde_writer_add_metadata (builder->writer, &origin, "sonde", settings, strlen (settings)));
  define_ledger (builder);
  set_ledger (builder, ledger, SONDE_N_LEDGER);
  capture_foreach (builder, add_live, &live);
  view = new_view (history, SONDE_TOP_FLAT, 2 * SECOND_NS);

  assert_on_screen (view, 10, NULL, "python3 work.py");
  assert_on_screen (view, 10, NULL, "last 2 s");
  assert_on_screen (view, 10, NULL, "cpu-clock at 10 Hz   10 samples, 5/s");
  assert_on_screen (view, 10, NULL, "lost: 2 samples, 10.0% (lost-ring 2)");
  assert_on_screen (view, 10, NULL, "CPU 50%   python3 (10) 45%   bad\\x1b[2J\\x9b (20) 5%");
  assert_on_screen (view, 10, NULL, "  70.0%   70.0%  hot");
  assert_on_screen (view, 10, "the session is over", "ENDED: the session is over");
  press (view, "/hot");
  assert_on_screen (view, 10, NULL, "/hot   in 70.0% of the samples");
  sonde_top_view_press (view, SONDE_TOP_KEY_ESCAPE, PAGE_ROWS);
  press (view, "p");
  assert_on_screen (view, 4711, NULL, "PAUSED, 4,701 samples since");
  press (view, "?");
  assert_on_screen (view, 10, NULL, "q   quit");
}

static void
test_layout_says_that_nothing_runs (void)
{
  g_autoptr (SondeTopHistory) history = new_history (SONDE_TOP_MAX_BYTES);
  g_autoptr (SondeTopView) empty = sonde_top_view_new (SONDE_TOP_FLAT);
  g_autoptr (SondeTopView) view = new_view (history, SONDE_TOP_TREE, SECOND_NS);

  assert_on_screen (empty, 0, NULL, "Starting");
  assert_on_screen (view, 0, NULL, "No samples");
  assert_on_screen (view, 0, NULL, "not known yet");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
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
  g_test_add_func ("/top/view/tells-what-its-owner-has-to-do",
                   test_view_tells_what_its_owner_has_to_do);
  g_test_add_func ("/top/page/lets-nothing-through-that-moves-the-cursor",
                   test_page_lets_nothing_through_that_moves_the_cursor);
  g_test_add_func ("/top/layout/fits-a-screen-of-any-size", test_layout_fits_a_screen_of_any_size);
  g_test_add_func ("/top/layout/says-what-is-shown", test_layout_says_what_is_shown);
  g_test_add_func ("/top/layout/says-that-nothing-runs", test_layout_says_that_nothing_runs);
  return g_test_run ();
}
