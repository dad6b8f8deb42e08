/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/heap/heap-chart.h"

#include <math.h>

#include "client/base/text.h"
#include "client/heap/heap-report.h"

#define N_ROWS        12u
#define ROWS_A_TICK   3u
#define LABEL_COLUMNS 11u /* "1250 MiB" and more, and a space */
#define MIN_COLUMNS   20u /* of the picture itself */
#define MAX_COLUMNS   1000u
#define TIME_COLUMNS  16u /* at least between two labels */
#define EIGHTHS       8u

/**
 * chart_step:
 * @n_most: steps
 * @base: 1000 or 1024: its powers, and round multiples of them, are round
 *
 * Returns: the smallest round step of which @n_most cover @span
 */
static double
chart_step (double span, guint n_most, double base)
{
  static const double round[] = { 1, 2, 2.5, 5, 10, 20, 25, 50, 100, 200, 250, 500 };
  double step = 1;

  for (double unit = 1; isfinite (unit); unit *= base)
    for (gsize i = 0; i < G_N_ELEMENTS (round); i++)
      {
        step = round[i] * unit;
        if (step * n_most >= span && fmod (step, 1) <= 0)
          return step;
      }
  return step;
}

static char *
label_in_unit (double value, double step, const char *const *units, guint n_units, double base)
{
  guint unit = 0;

  if (value <= 0)
    return g_strdup ("0");
  for (; step >= base && unit + 1 < n_units; unit++)
    {
      step /= base;
      value /= base;
    }
  return g_strdup_printf ("%g %s", value, units[unit]);
}

/* "750 MiB", "1250 MiB": a multiple of @step in the unit of @step; "0". */
static char *
dup_size (double bytes, double step)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };

  return label_in_unit (bytes, step, units, G_N_ELEMENTS (units), 1024);
}

/* "1.5 s", likewise. */
static char *
dup_time (double time_ns, double step_ns)
{
  static const char *const units[] = { "ns", "us", "ms", "s" };

  return label_in_unit (time_ns, step_ns, units, G_N_ELEMENTS (units), 1000);
}

/* The @row-th part from below of a column of @eighths. */
static const char *
block_of (guint eighths, guint row, gboolean utf8)
{
  static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
  guint part = eighths > row * EIGHTHS ? MIN (eighths - row * EIGHTHS, EIGHTHS) : 0;

  if (!utf8)
    return part >= EIGHTHS / 2 ? "#" : " ";
  return blocks[part];
}

/* The line below, and its labels. */
static void
append_times (GString *out, double duration_ns, guint n_columns, gboolean utf8)
{
  double step_ns = chart_step (duration_ns, MAX (n_columns / TIME_COLUMNS, 1), 1000);
  g_autoptr (GString) labels = g_string_new (NULL);
  guint next_tick = 0;

  g_string_append_printf (out, "%*s%s", (int) LABEL_COLUMNS, "", utf8 ? "└" : "+");
  for (guint column = 0; column < n_columns; column++)
    {
      double tick_ns = step_ns * next_tick;
      g_autofree char *label = NULL;

      if (column < (guint) (tick_ns / duration_ns * n_columns))
        {
          g_string_append (out, utf8 ? "─" : "-");
          continue;
        }
      g_string_append (out, utf8 ? "┬" : "+");
      label = dup_time (tick_ns, step_ns);
      g_string_append_printf (labels, "%*s%s",
                              (int) (LABEL_COLUMNS + 1 + column) - (int) labels->len, "", label);
      next_tick++;
    }
  g_string_append_printf (out, "\n%s\n", labels->str);
}

void
sonde_heap_append_chart (GString *out, const SondeHeap *heap, guint n_columns, gboolean utf8)
{
  double duration_ns = (double) heap->tracker->series->newest_ns;
  double peak = heap->tracker->totals.amounts[SONDE_HEAP_PEAK].bytes;
  guint n = CLAMP (n_columns, LABEL_COLUMNS + 1 + MIN_COLUMNS, MAX_COLUMNS) - LABEL_COLUMNS - 1;
  g_autofree double *maxima = g_new (double, n);
  double step;
  double top;
  g_autofree guint *eighths = NULL;

  sonde_heap_series_sample (heap->tracker->series, maxima, n);
  g_string_append (out, "\nLive bytes over time\n");
  step = chart_step (peak, N_ROWS / ROWS_A_TICK, 1024);
  top = step * (N_ROWS / ROWS_A_TICK);
  eighths = g_new (guint, n);
  for (guint i = 0; i < n; i++)
    eighths[i] = (guint) ceil (maxima[i] / top * N_ROWS * EIGHTHS);
  for (guint row = N_ROWS; row-- > 0;)
    {
      gboolean has_tick = (row + 1) % ROWS_A_TICK == 0;
      g_autofree char *label = dup_size (step * (row + 1) / ROWS_A_TICK, step);
      gsize start = out->len;

      g_string_append_printf (out, "%*s %s", (int) LABEL_COLUMNS - 1, has_tick ? label : "",
                              utf8 ? (has_tick ? "┤" : "│") : (has_tick ? "+" : "|"));
      for (guint i = 0; i < n; i++)
        g_string_append (out, block_of (eighths[i], row, utf8));
      while (out->len > start && out->str[out->len - 1] == ' ')
        g_string_truncate (out, out->len - 1);
      g_string_append_c (out, '\n');
    }
  append_times (out, MAX (duration_ns, 1), n, utf8);
}

/* All in pixels. */
#define WIDTH      960
#define HEIGHT     440
#define LEFT       92
#define TOP        84
#define PLOT_W     (WIDTH - LEFT - 40)
#define PLOT_H     (HEIGHT - TOP - 56)
#define SVG_POINTS 840u
#define SVG_ROWS   5u
#define SVG_TIMES  8u
#define LABEL_W    240 /* of the longest text beside the peak */

static const char style[]
    = "<style>\n"
      "text{font:13px system-ui,sans-serif;fill:#444}\n"
      ".title{font-size:16px;font-weight:600;fill:#222}\n"
      ".paper{fill:#fff}.grid{stroke:#ddd}.axis{stroke:#888}\n"
      ".area{fill:#3a78b5;fill-opacity:.22}.line{fill:none;stroke:#3a78b5;stroke-width:1.5}\n"
      ".peak{fill:#c2410c}\n"
      "@media(prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}.paper{fill:#1c1c1e}\n"
      ".grid{stroke:#3a3a3c}.area{fill:#6aa9e0}.line{stroke:#6aa9e0}.peak{fill:#fb923c}}\n"
      "</style>\n";

typedef struct
{
  GString *out;
  double top_bytes;   /* at the upper edge */
  double duration_ns; /* at the right one */
} Plot;

static double
x_of (const Plot *plot, double time_ns)
{
  return LEFT + time_ns / plot->duration_ns * PLOT_W;
}

static double
y_of (const Plot *plot, double bytes)
{
  return TOP + PLOT_H - bytes / plot->top_bytes * PLOT_H;
}

/* The outline goes from point to point in steps: the heap does not grow before it does. */
static void
append_area (const Plot *plot, const SondeHeapSeries *series)
{
  g_autofree double *maxima = g_new (double, SVG_POINTS);
  g_autoptr (GString) line = g_string_new (NULL);

  sonde_heap_series_sample (series, maxima, SVG_POINTS);
  for (guint i = 0; i < SVG_POINTS; i++)
    {
      double left = LEFT + (double) i / SVG_POINTS * PLOT_W;
      double right = LEFT + (double) (i + 1) / SVG_POINTS * PLOT_W;
      double y = y_of (plot, maxima[i]);

      g_string_append_printf (line, "%s%.1f,%.1f L%.1f,%.1f", i == 0 ? "M" : " L", left, y, right,
                              y);
    }
  g_string_append_printf (plot->out,
                          "<path class=\"area\" d=\"%s L%d,%d L%d,%dZ\"/>\n"
                          "<path class=\"line\" d=\"%s\"/>\n",
                          line->str, LEFT + PLOT_W, TOP + PLOT_H, LEFT, TOP + PLOT_H, line->str);
}

static void
append_peak (const Plot *plot, const SondeHeap *heap)
{
  const SondeHeapTotals *totals = &heap->tracker->totals;
  gint64 time_ns = sonde_heap_since_start (heap, totals->peak_ns);
  double bytes = totals->amounts[SONDE_HEAP_PEAK].bytes;
  double x = x_of (plot, CLAMP ((double) time_ns, 0, plot->duration_ns));
  gboolean is_right = x > LEFT + PLOT_W - LABEL_W;
  g_autofree char *size = sonde_text_size (sonde_heap_round (bytes));
  g_autofree char *time = sonde_heap_dup_time (time_ns);

  g_string_append_printf (plot->out,
                          "<circle class=\"peak\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>"
                          "<text class=\"peak\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">"
                          "%s at the peak, after %s</text>\n",
                          x, y_of (plot, bytes), is_right ? x - 9 : x + 9, y_of (plot, bytes) - 9,
                          is_right ? "end" : "start", size, time);
}

void
sonde_heap_append_svg (GString *out, const SondeHeap *heap, const char *title)
{
  const SondeHeapTotals *totals = &heap->tracker->totals;
  const SondeHeapSeries *series = heap->tracker->series;
  double step = chart_step (totals->amounts[SONDE_HEAP_PEAK].bytes, SVG_ROWS, 1024);
  Plot plot = { out, step * SVG_ROWS, (double) MAX (series->newest_ns, 1) };
  g_autoptr (GString) left = g_string_new (NULL);
  g_autofree char *text = NULL;
  g_autofree char *markup = NULL;
  double step_ns;

  sonde_heap_append_amount (left, &totals->amounts[SONDE_HEAP_LEFT]);
  g_string_append_printf (out,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                          "viewBox=\"0 0 %d %d\">\n",
                          WIDTH, HEIGHT, WIDTH, HEIGHT);
  g_string_append (out, style);
  g_string_append_printf (out, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", WIDTH,
                          HEIGHT);
  g_string_append_printf (out, "<text class=\"title\" x=\"%d\" y=\"28\">", LEFT);
  text = sonde_text_escape (title, -1);
  markup = g_markup_escape_text (text, -1);
  g_string_append (out, markup);
  g_string_append_printf (out,
                          "</text>\n<text x=\"%d\" y=\"48\">Live bytes over time; %s never "
                          "freed</text>\n",
                          LEFT, left->str);
  for (guint i = 0; i <= SVG_ROWS && step * i <= plot.top_bytes; i++)
    {
      double y = y_of (&plot, step * i);
      g_autofree char *label = dup_size (step * i, step);

      g_string_append_printf (plot.out,
                              "<line class=\"%s\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                              "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                              i == 0 ? "axis" : "grid", LEFT, y, LEFT + PLOT_W, y, LEFT - 10,
                              y + 4.5, i == 0 ? "0" : label);
    }
  step_ns = chart_step (plot.duration_ns, SVG_TIMES, 1000);
  for (guint i = 0; step_ns * i <= plot.duration_ns; i++)
    {
      double x = x_of (&plot, step_ns * i);
      g_autofree char *label = dup_time (step_ns * i, step_ns);

      g_string_append_printf (plot.out,
                              "<line class=\"axis\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>"
                              "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                              x, TOP + PLOT_H, x, TOP + PLOT_H + 5, x, TOP + PLOT_H + 22, label);
    }
  append_area (&plot, series);
  append_peak (&plot, heap);
  g_string_append (out, "</svg>\n");
}
