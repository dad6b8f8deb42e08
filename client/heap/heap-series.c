/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a quantity changed over time, in a fixed number of intervals. */
#include "client/heap/heap-series.h"

struct SondeHeapSeries
{
  gint64 start_ns;
  gint64 newest_ns;    /* since the start */
  guint64 interval_ns; /* a power of two */
  guint n_used;        /* intervals up to the newest */
  double value;        /* now */
  double maxima[SONDE_HEAP_SERIES_SIZE];
};

SondeHeapSeries *
sonde_heap_series_new (gint64 start_ns)
{
  SondeHeapSeries *self = g_new0 (SondeHeapSeries, 1);

  self->start_ns = start_ns;
  self->interval_ns = 1;
  self->n_used = 1;
  return self;
}

void
sonde_heap_series_free (SondeHeapSeries *self)
{
  g_free (self);
}

/* Times of foreign frames: any. */
static gint64
since_start (const SondeHeapSeries *self, gint64 time_ns)
{
  gint64 since_ns;

  if (__builtin_sub_overflow (time_ns, self->start_ns, &since_ns))
    return time_ns < 0 ? 0 : G_MAXINT64;
  return since_ns;
}

void
sonde_heap_series_add (SondeHeapSeries *self, gint64 time_ns, double value)
{
  guint64 index;

  self->newest_ns = MAX (self->newest_ns, since_start (self, time_ns));
  while ((index = (guint64) self->newest_ns / self->interval_ns) >= SONDE_HEAP_SERIES_SIZE)
    {
      for (guint i = 0; i < SONDE_HEAP_SERIES_SIZE; i++)
        {
          guint first = 2 * i;

          if (first >= self->n_used)
            self->maxima[i] = 0;
          else if (first + 1 >= self->n_used)
            self->maxima[i] = self->maxima[first];
          else
            self->maxima[i] = MAX (self->maxima[first], self->maxima[first + 1]);
        }
      self->n_used = (self->n_used + 1) / 2;
      self->interval_ns *= 2;
    }

  /* it has not changed since the interval before */
  for (; self->n_used <= index; self->n_used++)
    self->maxima[self->n_used] = self->value;
  self->value = value;
  self->maxima[index] = MAX (self->maxima[index], value);
}

gint64
sonde_heap_series_duration_ns (const SondeHeapSeries *self)
{
  return self->newest_ns;
}

void
sonde_heap_series_sample (const SondeHeapSeries *self, double *maxima, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      guint first = (guint) ((guint64) i * self->n_used / n);
      guint last = (guint) (((guint64) (i + 1) * self->n_used - 1) / n);

      maxima[i] = 0;
      for (guint j = first; j <= last && j < self->n_used; j++)
        maxima[i] = MAX (maxima[i], self->maxima[j]);
    }
}
