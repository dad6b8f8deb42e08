/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-page.h"

#include "client/base/text.h"
#include "client/report/profile-text.h"

enum
{
  LINE_SUBJECT,
  LINE_FIGURES,
  LINE_CPU,
  LINE_COLUMNS,
  LINE_ROWS,
  N_FIXED_LINES = LINE_ROWS + 1, /* and one at the bottom */
};

enum
{
  NUMBER_COLUMNS = 17,     /* of the two shares and the gap behind them */
  CALLS_COLUMNS = 49,      /* of calls, their times and the gap */
  MODULE_COLUMNS = 22,     /* at most */
  MIN_NAME_COLUMNS = 40,   /* without them modules are left out */
  INDENT_COLUMNS = 2,      /* a step */
  MAX_INDENT_PART = 3,     /* of the name's columns: deeper rows are not indented any further */
  MAX_BUSY_PROCESSES = 16, /* of the line that says who is */
  MAX_TEXT_ROWS = 40,      /* of calls */
};

static const char *const mode_titles[] = {
  [SONDE_TOP_FLAT] = "Function",     [SONDE_TOP_TREE] = "Call tree",
  [SONDE_TOP_BOTTOM_UP] = "Callers", [SONDE_TOP_PROCESSES] = "Process",
  [SONDE_TOP_THREADS] = "Thread",    [SONDE_TOP_MODULES] = "Module",
  [SONDE_TOP_CALLS] = "Function",
};

static const char *const help[] = {
  "Shares are of the samples that are shown:",
  "Self is a function's own, Total has what it called with it.",
  "",
  "  Up Down PgUp PgDn Home End   move (also j k g G)",
  "  Right Enter Space            open a row of a tree, Left closes it",
  "  c                            close all rows",
  "",
  "  f   functions                P   processes",
  "  t   call tree                T   threads",
  "  b   functions and callers    M   modules",
  "  s   sort by Self or Total    C   calls, where they are traced",
  "",
  "  /   show only what has a text in its name or module; Esc ends that",
  "  p   pause: the picture stays, samples are still read",
  "  a   all samples since the last reset, or the last seconds",
  "  r   reset: forget the samples so far",
  "",
  "  ?   this help                q   quit",
};

/* --- text on a page --- */

static void
span_clear (gpointer data)
{
  g_free (((SondeTopSpan *) data)->text);
}

SondeTopPage *
sonde_top_page_new (guint n_lines, guint n_columns, gboolean is_utf8)
{
  SondeTopPage *self = g_new0 (SondeTopPage, 1);

  self->n_lines = n_lines;
  self->n_columns = n_columns;
  self->is_utf8 = is_utf8;
  self->caret_line = -1;
  self->lines = g_new0 (SondeTopLine, n_lines);
  for (guint i = 0; i < n_lines; i++)
    {
      self->lines[i].spans = g_array_new (FALSE, FALSE, sizeof (SondeTopSpan));
      g_array_set_clear_func (self->lines[i].spans, span_clear);
    }
  return self;
}

void
sonde_top_page_free (SondeTopPage *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n_lines; i++)
    g_array_unref (self->lines[i].spans);
  g_free (self->lines);
  g_free (self);
}

static guint
char_width (gunichar c)
{
  if (g_unichar_iszerowidth (c))
    return 0;
  return g_unichar_iswide (c) ? 2 : 1;
}

guint
sonde_top_text_width (const char *text)
{
  guint width = 0;

  for (; *text != '\0'; text = g_utf8_next_char (text))
    width += char_width (g_utf8_get_char (text));
  return width;
}

/* @text as it may be shown, at most @room columns of it. */
static GString *
fit (const SondeTopPage *self, const char *text, guint room, guint *width)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *out = g_string_new (NULL);
  gsize cut_len = 0; /* what leaves room for the "…" */
  guint cut_width = 0;

  *width = 0;
  for (const char *at = valid; *at != '\0'; at = g_utf8_next_char (at))
    {
      gunichar c = g_utf8_get_char (at);

      if (!g_unichar_isprint (c) && !g_unichar_iszerowidth (c))
        continue;
      if (!self->is_utf8 && c >= 0x80)
        c = '?';
      if (*width + char_width (c) > room)
        {
          g_string_truncate (out, cut_len);
          g_string_append (out, self->is_utf8 ? "…" : "~");
          *width = cut_width + 1;
          return out;
        }
      g_string_append_unichar (out, c);
      *width += char_width (c);
      if (*width < room)
        {
          cut_len = out->len;
          cut_width = *width;
        }
    }
  return out;
}

/* The same, in the room before @column. */
static void
add_until (SondeTopPage *self, guint line, SondeTopStyle style, guint column, const char *text)
{
  SondeTopSpan span = { .style = style };
  SondeTopLine *into;
  guint width;

  column = MIN (column, self->n_columns);
  if (line >= self->n_lines || self->lines[line].width >= column)
    return;
  into = &self->lines[line];
  span.text = g_string_free (fit (self, text, column - into->width, &width), FALSE);
  into->width += width;
  g_array_append_val (into->spans, span);
}

void
sonde_top_page_add (SondeTopPage *self, guint line, SondeTopStyle style, const char *text)
{
  add_until (self, line, style, self->n_columns, text);
}

static void G_GNUC_PRINTF (4, 5)
    add_format (SondeTopPage *self, guint line, SondeTopStyle style, const char *format, ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  sonde_top_page_add (self, line, style, text);
}

/* Blanks up to that column, unless the line is that long already. */
static void
pad (SondeTopPage *self, guint line, SondeTopStyle style, guint column)
{
  g_autofree char *blanks = NULL;

  column = MIN (column, self->n_columns);
  if (line >= self->n_lines || column <= self->lines[line].width)
    return;
  blanks = g_strnfill (column - self->lines[line].width, ' ');
  sonde_top_page_add (self, line, style, blanks);
}

/* --- the view on it --- */

guint
sonde_top_page_n_rows (guint n_lines)
{
  return n_lines > N_FIXED_LINES ? n_lines - N_FIXED_LINES : 1;
}

static char *
describe_span (const SondeTopSnapshot *snapshot)
{
  double seconds = (double) snapshot->covered_ns / 1e9;

  return g_strdup_printf (snapshot->is_all ? "all of %.0f s" : "last %.0f s", seconds);
}

static guint64
per_second (guint64 n, gint64 ns)
{
  return ns > 0 ? (guint64) ((double) n * 1e9 / (double) ns + 0.5) : 0;
}

/* "4,711 samples, 987/s" */
static char *
describe_samples (const SondeTopSnapshot *snapshot)
{
  g_autofree char *samples
      = sonde_text_plural (sonde_profile_total (snapshot->profile), "sample", "samples");
  g_autofree char *rate = sonde_text_count (
      per_second (sonde_profile_total (snapshot->profile), snapshot->covered_ns));

  return g_strdup_printf ("%s, %s/s", samples, rate);
}

/* @weight as part of a CPU, or of the samples where that cannot be said. */
static double
to_percent (const SondeTopSnapshot *snapshot, guint64 weight)
{
  double expected = (double) snapshot->frequency_hz * (double) snapshot->covered_ns / 1e9;

  if (snapshot->frequency_hz == 0)
    return sonde_text_percent (weight, sonde_profile_total (snapshot->profile));
  return expected > 0 ? 100.0 * (double) weight / expected : 0;
}

/* "CPU 198%  python3 (4711) 101%  node (4712) 97%" */
static char *
describe_busy (const SondeTopSnapshot *snapshot)
{
  const SondeProfile *profile = snapshot->profile;
  GString *out = g_string_new (NULL);

  if (snapshot->frequency_hz > 0)
    g_string_append_printf (out, "CPU %.0f%%",
                            to_percent (snapshot, sonde_profile_total (profile)));
  else
    g_string_append (out, "Shares");
  for (guint i = 0; i < MIN (sonde_profile_n_processes (profile), MAX_BUSY_PROCESSES); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      g_autofree char *comm = sonde_text_escape (process->process.comm, -1);
      double percent = to_percent (snapshot, sonde_call_tree_node (process->tree, 0)->total);

      if (percent < SONDE_PROFILE_WARM_PERCENT)
        break;
      g_string_append_printf (out, "   %s (%d) %.0f%%", comm, process->process.pid, percent);
    }
  return g_string_free (out, FALSE);
}

/* "4,711,000 calls/s, hooks 12% of a CPU, lost: nothing" */
static char *
describe_calls (const SondeTopView *view)
{
  const SondeTopSnapshot *snapshot = view->snapshot;
  const SondeCalls *calls = snapshot->calls;
  double seconds = (double) snapshot->calls_ns / 1e9;
  guint64 lost = 0;
  g_autofree char *rate = NULL;
  g_autofree char *n_lost = NULL;
  GString *out;

  if (calls == NULL)
    return g_strdup ("No program is traced; --trace does that to a COMMAND");
  for (guint i = SONDE_CALLS_ACCOUNT_LOST_BUDGET; i <= SONDE_CALLS_ACCOUNT_LOST_THREADS; i++)
    lost += calls->account[i];
  rate = sonde_text_count (per_second (sonde_top_view_total (view), snapshot->calls_ns));
  out = g_string_new (NULL);
  g_string_append_printf (out, "%s calls/s", rate);
  if (calls->hooks_ns > 0 && seconds > 0)
    g_string_append_printf (out, ", hooks %.0f%% of a CPU", calls->hooks_ns / 1e7 / seconds);
  n_lost = sonde_text_plural (lost, "call", "calls");
  g_string_append_printf (out, ", lost: %s", lost > 0 ? n_lost : "nothing");
  if (calls->n_partial > 0)
    g_string_append_printf (out, "; a part of %u of %u processes", calls->n_partial,
                            calls->n_programs);
  if (calls->n_left_out > 0)
    {
      g_autofree char *later
          = sonde_text_plural (calls->n_left_out, "later process", "later processes");

      g_string_append_printf (out, "; nothing of %s%s", later,
                              calls->n_left_out < SONDE_CALLS_READER_MAX_PROGRAMS ? ""
                                                                                  : " or more");
    }
  if (calls->n_refused > 0)
    g_string_append_printf (out, "; %" G_GUINT64_FORMAT " places could not be changed",
                            calls->n_refused);
  return g_string_free (out, FALSE);
}

/* What is below the line of samples. */
static char *
describe_third (const SondeTopView *view)
{
  return view->mode == SONDE_TOP_CALLS ? describe_calls (view) : describe_busy (view->snapshot);
}

void
sonde_top_page_append_header (GString *out, const SondeTopView *view)
{
  const SondeTopSnapshot *snapshot = view->snapshot;
  g_autofree char *span = describe_span (snapshot);
  g_autofree char *samples = describe_samples (snapshot);
  g_autofree char *busy = describe_third (view);

  g_string_append_printf (out, "%s, %s%s%s\n%s, lost: %s\n%s\n", snapshot->subject,
                          snapshot->event != NULL ? snapshot->event : "",
                          snapshot->event != NULL ? ", " : "", span, samples, snapshot->losses,
                          busy);
}

static void
fill_header (SondeTopPage *page, const SondeTopView *view, guint64 n_seen, const char *end)
{
  const SondeTopSnapshot *snapshot = view->snapshot;
  g_autofree char *span = describe_span (snapshot);
  g_autofree char *samples = describe_samples (snapshot);
  g_autofree char *busy = describe_third (view);
  g_autofree char *count
      = sonde_text_plural (n_seen - MIN (snapshot->n_seen, n_seen), "sample", "samples");
  g_autofree char *state = NULL;
  guint n_columns = page->n_columns;
  guint width;

  if (end != NULL)
    state = g_strdup_printf ("ENDED: %s", end);
  else if (view->is_paused)
    state = g_strdup_printf ("PAUSED, %s since", count);
  else
    state = g_strdup (span);
  add_until (page, LINE_SUBJECT, SONDE_TOP_TITLE,
             n_columns - MIN (sonde_top_text_width (state) + 1, n_columns), snapshot->subject);
  /* Right-aligned, so that it is there even if the left part is long. */
  width = sonde_top_text_width (state);
  pad (page, LINE_SUBJECT, SONDE_TOP_PLAIN, n_columns > width ? n_columns - width : 0);
  sonde_top_page_add (page, LINE_SUBJECT,
                      end != NULL || view->is_paused ? SONDE_TOP_ALERT : SONDE_TOP_TITLE, state);

  if (snapshot->event != NULL)
    add_format (page, LINE_FIGURES, SONDE_TOP_PLAIN, "%s   ", snapshot->event);
  add_format (page, LINE_FIGURES, SONDE_TOP_PLAIN, "%s   lost: ", samples);
  sonde_top_page_add (page, LINE_FIGURES,
                      g_ascii_isdigit (snapshot->losses[0]) ? SONDE_TOP_ALERT : SONDE_TOP_PLAIN,
                      snapshot->losses);
  sonde_top_page_add (page, LINE_CPU, SONDE_TOP_PLAIN, busy);
}

static guint
count_number_columns (const SondeTopView *view)
{
  return view->mode == SONDE_TOP_CALLS ? CALLS_COLUMNS : NUMBER_COLUMNS;
}

static guint
count_module_columns (const SondeTopPage *page, const SondeTopView *view)
{
  if (view->mode == SONDE_TOP_PROCESSES || view->mode == SONDE_TOP_THREADS
      || view->mode == SONDE_TOP_MODULES
      || page->n_columns < count_number_columns (view) + MIN_NAME_COLUMNS + MODULE_COLUMNS)
    return 0;
  return MODULE_COLUMNS;
}

/* "  1,234,567   3.10 s   2.05 s   812 ns  ~9.10 us" */
static char *
dup_call_figures (const SondeTopView *view, const SondeCallsRow *row)
{
  static const double parts[] = { 0.5, 0.99 };
  const SondeCallsSum *sum = &row->sum;
  g_autofree char *rate = sonde_text_count (per_second (sum->calls, view->snapshot->calls_ns));
  GString *out = g_string_new (NULL);

  g_string_append_printf (out, "%11s", rate);
  for (guint i = 0; i < 2 + G_N_ELEMENTS (parts); i++)
    {
      double ns = i == 0 ? sum->total_ns : i == 1 ? sum->self_ns : 0;
      gboolean is_rough = i >= 2 && sum->timed > 0 && sonde_calls_is_rough (sum, parts[i - 2]);
      g_autofree char *time = NULL;

      if (i >= 2)
        ns = sonde_calls_quantile (row, parts[i - 2]);
      time = sum->timed > 0 ? sonde_calls_dup_time (ns) : g_strdup ("-");
      g_string_append_printf (out, "%s%8s", is_rough ? "~" : " ", time);
    }
  g_string_append (out, "  ");
  return g_string_free (out, FALSE);
}

static const char *
call_titles (const SondeTopView *view)
{
  return view->by_total ? "    Calls/s  >Total     Self      p50      p99   "
                        : "    Calls/s    Total   >Self      p50      p99   ";
}

void
sonde_top_page_append_calls (GString *out, const SondeTopView *view)
{
  g_string_append_printf (out, "\n%s%s\n", call_titles (view), mode_titles[view->mode]);
  for (guint i = 0; i < view->rows->list->len && i < MAX_TEXT_ROWS; i++)
    {
      const SondeTopRow *row = sonde_top_rows_get (view->rows, i);
      g_autofree char *figures = dup_call_figures (view, row->calls);

      g_string_append_printf (out, "%s%s%s%s\n", figures, row->name,
                              row->module[0] != '\0' ? "  " : "", row->module);
    }
  if (view->rows->list->len > MAX_TEXT_ROWS)
    g_string_append_printf (out, "%11s [%u more]\n", "", view->rows->list->len - MAX_TEXT_ROWS);
}

static void
add_share (SondeTopPage *page, guint line, double percent, gboolean is_cursor)
{
  SondeTopStyle style = SONDE_TOP_PLAIN;

  if (percent >= SONDE_PROFILE_HOT_PERCENT)
    style = SONDE_TOP_HOT;
  else if (percent >= SONDE_PROFILE_WARM_PERCENT)
    style = SONDE_TOP_WARM;
  add_format (page, line, is_cursor ? SONDE_TOP_CURSOR : style, "%6.1f%% ", percent);
}

static void
fill_row (SondeTopPage *page, guint line, const SondeTopView *view, guint number)
{
  const SondeTopRow *row = sonde_top_rows_get (view->rows, number);
  guint64 total = sonde_top_view_total (view);
  guint n_columns = page->n_columns;
  guint n_numbers = count_number_columns (view);
  guint n_module = count_module_columns (page, view);
  guint n_name = n_columns > n_numbers + n_module ? n_columns - n_numbers - n_module : 1;
  gboolean is_cursor = number == view->cursor;
  SondeTopStyle style = row->is_rest ? SONDE_TOP_FAINT : SONDE_TOP_PLAIN;

  if (row->calls != NULL)
    {
      g_autofree char *figures = dup_call_figures (view, row->calls);

      sonde_top_page_add (page, line, is_cursor ? SONDE_TOP_CURSOR : style, figures);
    }
  else
    {
      if (!sonde_top_view_is_tree (view))
        add_share (page, line, sonde_text_percent (row->self, total), is_cursor);
      add_share (page, line, sonde_text_percent (row->total, total), is_cursor);
    }
  if (sonde_top_view_is_tree (view) && row->self > 0)
    add_share (page, line, sonde_text_percent (row->self, total), is_cursor);
  style = is_cursor ? SONDE_TOP_CURSOR : style;
  pad (page, line, style, n_numbers);
  if (sonde_top_view_is_tree (view))
    {
      g_autofree char *branch = NULL;
      guint n_indent = MIN (row->indent * INDENT_COLUMNS, n_name / MAX_INDENT_PART);
      const char *sign = "  ";

      /* What stands before a name of a tree: room for what is above, and whether it can be opened.
       */
      if (row->is_rest)
        sign = page->is_utf8 ? "╶ " : "- ";
      else if (row->is_expanded)
        sign = page->is_utf8 ? "▾ " : "v ";
      else if (row->has_children)
        sign = page->is_utf8 ? "▸ " : "> ";
      branch = g_strdup_printf ("%*s%s", (int) n_indent, "", sign);
      sonde_top_page_add (page, line, style, branch);
    }
  add_until (page, line, style, n_columns - n_module - (n_module > 0), row->name);
  if (n_module > 0)
    {
      pad (page, line, style, n_columns - n_module);
      sonde_top_page_add (page, line, is_cursor ? style : SONDE_TOP_FAINT, row->module);
    }
  pad (page, line, style, n_columns);
}

/* The filter while it is typed or holds, else the keys. */
static void
fill_footer (SondeTopPage *page, const SondeTopView *view)
{
  guint line = page->n_lines - 1;
  const char *filter = view->filter->str;

  if (view->is_typing || filter[0] != '\0')
    {
      add_format (page, line, SONDE_TOP_TITLE, "/%s", filter);
      if (view->is_typing)
        {
          page->caret_line = (int) line;
          page->caret_column = (int) MIN (page->lines[line].width, page->n_columns - 1);
        }
      add_format (page, line, SONDE_TOP_PLAIN, "   in %.1f%% of the %s; Esc shows all again",
                  sonde_text_percent (view->rows->matched, sonde_top_view_total (view)),
                  view->mode == SONDE_TOP_CALLS ? "calls" : "samples");
      return;
    }
  sonde_top_page_add (
      page, line, SONDE_TOP_BAR,
      " q quit ? help / filter p pause f flat t tree b callers PTM group s sort r reset");
  pad (page, line, SONDE_TOP_BAR, page->n_columns);
}

void
sonde_top_page_fill (SondeTopPage *page, SondeTopView *view, guint64 n_seen, const char *end)
{
  const SondeTopRows *rows;
  guint n_shown;
  guint first;
  guint n_module;

  if (view->is_help)
    {
      for (guint i = 0; i < G_N_ELEMENTS (help); i++)
        sonde_top_page_add (page, i, SONDE_TOP_PLAIN, help[i]);
      return;
    }
  if (view->snapshot == NULL)
    {
      sonde_top_page_add (page, LINE_SUBJECT, SONDE_TOP_TITLE, end != NULL ? end : "Starting …");
      return;
    }
  fill_header (page, view, n_seen, end);
  n_module = count_module_columns (page, view);
  sonde_top_page_add (page, LINE_COLUMNS, SONDE_TOP_BAR,
                      view->mode == SONDE_TOP_CALLS   ? call_titles (view)
                      : sonde_top_view_is_tree (view) ? "  Total    Self  "
                      : view->by_total                ? "   Self  >Total  "
                                                      : "  >Self   Total  ");
  sonde_top_page_add (page, LINE_COLUMNS, SONDE_TOP_BAR, mode_titles[view->mode]);
  if (n_module > 0)
    {
      pad (page, LINE_COLUMNS, SONDE_TOP_BAR, page->n_columns - n_module);
      sonde_top_page_add (page, LINE_COLUMNS, SONDE_TOP_BAR, "Module");
    }
  pad (page, LINE_COLUMNS, SONDE_TOP_BAR, page->n_columns);
  rows = view->rows;
  n_shown = sonde_top_page_n_rows (page->n_lines);
  first = sonde_top_view_scroll (view, n_shown);
  if (rows->list->len == 0)
    sonde_top_page_add (page, LINE_ROWS, SONDE_TOP_FAINT,
                        view->filter->str[0] != '\0'    ? "  Nothing has that in its name."
                        : view->mode == SONDE_TOP_CALLS ? "  No calls."
                                                        : "  No samples: nothing runs.");
  for (guint i = 0; i < n_shown && first + i < rows->list->len; i++)
    if (LINE_ROWS + i + 1 < page->n_lines)
      fill_row (page, LINE_ROWS + i, view, first + i);
  fill_footer (page, view);
}
