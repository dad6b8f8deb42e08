/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap over time, drawn with characters. */
#include "client/heap/heap-chart.h"

#include <math.h>

#define N_ROWS        12u
#define ROWS_A_TICK   3u
#define LABEL_COLUMNS 11u /* "1250 MiB" and more, and a space */
#define MIN_COLUMNS   20u /* of the picture itself */
#define MAX_COLUMNS   1000u
#define TIME_COLUMNS  16u /* at least between two labels */
#define EIGHTHS       8u

double
sonde_heap_chart_step (double span, guint n_most, double base)
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

char *
sonde_heap_chart_size (double bytes, double step)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };

  return label_in_unit (bytes, step, units, G_N_ELEMENTS (units), 1024);
}

char *
sonde_heap_chart_time (double time_ns, double step_ns)
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
  double step_ns = sonde_heap_chart_step (duration_ns, MAX (n_columns / TIME_COLUMNS, 1), 1000);
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
      label = sonde_heap_chart_time (tick_ns, step_ns);
      g_string_append_printf (labels, "%*s%s",
                              (int) (LABEL_COLUMNS + 1 + column) - (int) labels->len, "", label);
      next_tick++;
    }
  g_string_append_printf (out, "\n%s\n", labels->str);
}

void
sonde_heap_append_chart (GString *out, const SondeHeap *heap, guint n_columns, gboolean utf8)
{
  double duration_ns = (double) sonde_heap_series_duration_ns (sonde_heap_series (heap));
  double peak = sonde_heap_totals (heap)->amounts[SONDE_HEAP_PEAK].bytes;
  guint n = CLAMP (n_columns, LABEL_COLUMNS + 1 + MIN_COLUMNS, MAX_COLUMNS) - LABEL_COLUMNS - 1;
  g_autofree double *maxima = g_new (double, n);
  double step;
  double top;
  g_autofree guint *eighths = NULL;

  sonde_heap_series_sample (sonde_heap_series (heap), maxima, n);
  g_string_append (out, "\nLive bytes over time\n");
  step = sonde_heap_chart_step (peak, N_ROWS / ROWS_A_TICK, 1024);
  top = step * (N_ROWS / ROWS_A_TICK);
  eighths = g_new (guint, n);
  for (guint i = 0; i < n; i++)
    eighths[i] = (guint) ceil (maxima[i] / top * N_ROWS * EIGHTHS);
  for (guint row = N_ROWS; row-- > 0;)
    {
      gboolean has_tick = (row + 1) % ROWS_A_TICK == 0;
      g_autofree char *label = sonde_heap_chart_size (step * (row + 1) / ROWS_A_TICK, step);
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
