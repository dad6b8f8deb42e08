/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The live view on screens of any size. */
#include "client/top/top-page.h"
#include "tests/unit/top-fixture.h"

/* The text of a line, and that it moves no cursor and is as wide as it says. */
static char *
dup_line (const SondeTopPage *page, guint line)
{
  const GArray *spans = page->lines[line].spans;
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < spans->len; i++)
    g_string_append (out, g_array_index (spans, SondeTopSpan, i).text);
  g_assert_true (g_utf8_validate (out->str, -1, NULL));
  for (const char *at = out->str; *at != '\0'; at = g_utf8_next_char (at))
    g_assert_false (g_unichar_iscntrl (g_utf8_get_char (at)));
  g_assert_cmpuint (sonde_top_text_width (out->str), ==, page->lines[line].width);
  g_assert_cmpuint (page->lines[line].width, <=, page->n_columns);
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

  tell_calls (history, 5, 0, SECOND_NS);
  for (guint mode = SONDE_TOP_FLAT; mode <= SONDE_TOP_CALLS; mode++)
    for (guint n_lines = 1; n_lines < 30; n_lines += 4)
      for (guint n_columns = 1; n_columns < 140; n_columns += 9)
        {
          g_autoptr (SondeTopView) view = new_view (history, mode, SECOND_NS);
          g_autoptr (SondeTopPage) page = sonde_top_page_new (n_lines, n_columns, TRUE);

          press (view, n_columns % 2 == 0 ? "/o" : "G");
          sonde_top_page_fill (page, view, 10, n_lines % 3 == 0 ? "gone" : NULL);
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

  sonde_top_page_fill (page, view, n_seen, end);
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
test_layout_says_what_is_called (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) idle = new_view (history, SONDE_TOP_CALLS, SECOND_NS);
  g_autoptr (SondeTopView) view = NULL;
  g_autoptr (GString) text = g_string_new (NULL);

  assert_on_screen (idle, 10, NULL, "No program is traced");
  tell_calls (history, 5000, 0, SECOND_NS);
  view = new_view (history, SONDE_TOP_CALLS, 2 * SECOND_NS);
  assert_on_screen (view, 10, NULL, "5,000 calls/s, lost: nothing");
  assert_on_screen (view, 10, NULL, "    Calls/s    Total   >Self      p50      p99   Function");
  assert_on_screen (view, 10, NULL, "      2,500  5.00 ms  3.00 ms  1.00 us  1.00 us  middle");
  assert_on_screen (view, 10, NULL, "      2,500  2.00 ms  2.00 ms   400 ns   400 ns  hot");
  press (view, "/hot");
  assert_on_screen (view, 10, NULL, "/hot   in 50.0% of the calls");
  sonde_top_page_append_header (text, view);
  sonde_top_page_append_calls (text, view);
  g_assert_nonnull (strstr (text->str, "\n5,000 calls/s, lost: nothing\n"));
  g_assert_nonnull (strstr (text->str, "\n      2,500  2.00 ms  2.00 ms   400 ns   400 ns  hot\n"));
  g_assert_null (strstr (text->str, "middle"));
}

static void
test_layout_says_what_there_is_no_room_for (void)
{
  g_autoptr (SondeTopHistory) history = new_filled ();
  g_autoptr (SondeTopView) view = NULL;
  g_autoptr (GByteArray) file = new_file (0, 1);
  Live live = { history, SECOND_NS };

  end_file (file);
  tell_calls (history, 5000, 0, SECOND_NS);
  for (guint i = 1; i < SONDE_CALLS_READER_MAX_PROGRAMS + 2; i++)
    {
      g_autofree char *path = g_strdup_printf (SONDE_CALLS_FOLDER "%u-8/1", i);

      tell_file (path, file, 100, add_live, &live);
    }
  view = new_view (history, SONDE_TOP_CALLS, 2 * SECOND_NS);
  assert_on_screen (view, 10, NULL, "lost: nothing; nothing of 2 later processes");
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
  g_test_add_func ("/top/page/lets-nothing-through-that-moves-the-cursor",
                   test_page_lets_nothing_through_that_moves_the_cursor);
  g_test_add_func ("/top/layout/fits-a-screen-of-any-size", test_layout_fits_a_screen_of_any_size);
  g_test_add_func ("/top/layout/says-what-is-shown", test_layout_says_what_is_shown);
  g_test_add_func ("/top/layout/says-what-is-called", test_layout_says_what_is_called);
  g_test_add_func ("/top/layout/says-what-there-is-no-room-for",
                   test_layout_says_what_there_is_no_room_for);
  g_test_add_func ("/top/layout/says-that-nothing-runs", test_layout_says_that_nothing_runs);
  return g_test_run ();
}
