/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters and marks above a flame graph's time line. */
#include "client/flame/flame-track.h"

#include <math.h>
#include <string.h>

#include "client/flame/flame-data.h"
#include "client/base/text.h"

/* The values of a counter within one bucket. */
typedef struct
{
  guint bucket;
  double low;
  double high;
} Point;

typedef struct
{
  const SondeSampleLog *log;
  gint64 first_ns;
  gint64 last_ns;
  guint64 bucket_ns;
} Track;

static void
append_escaped (GByteArray *out, const char *text)
{
  g_autofree char *escaped = sonde_text_escape (text, -1);

  sonde_flame_data_append_text (out, escaped);
}

static void
append_double (GByteArray *out, double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  bits = GUINT64_TO_LE (bits);
  g_byte_array_append (out, (const guint8 *) &bits, sizeof bits);
}

/* Adds @value to the points of its counter; most values come in the order of time. */
static void
add_value (const Track *self, GPtrArray *counters, const SondeModelValue *value)
{
  const SondeCaptureModel *model = self->log->model;
  GArray *points = g_ptr_array_index (counters, value->counter);
  gboolean is_double = sonde_capture_model_counter (model, value->counter)->is_double;
  double number = is_double ? value->value.vdbl : (double) value->value.v64;
  Point point = { .low = number, .high = number };
  Point *last = points->len > 0 ? &g_array_index (points, Point, points->len - 1) : NULL;

  if (!isfinite (number) || value->time_ns < self->first_ns || value->time_ns > self->last_ns)
    return;
  point.bucket = (guint) (((guint64) value->time_ns - (guint64) self->first_ns) / self->bucket_ns);
  if (last == NULL || last->bucket < point.bucket)
    g_array_append_val (points, point);
  else if (last->bucket == point.bucket)
    {
      last->low = MIN (last->low, number);
      last->high = MAX (last->high, number);
    }
}

static void
append_counter (GByteArray *out, const SondeModelCounter *counter, const GArray *points)
{
  guint previous = G_MAXUINT; /* -1 */

  append_escaped (out, counter->category);
  append_escaped (out, counter->name);
  append_escaped (out, counter->description);
  sonde_flame_data_append_number (out, points->len);
  for (guint i = 0; i < points->len; i++)
    {
      const Point *point = &g_array_index (points, Point, i);

      sonde_flame_data_append_number (out, point->bucket - previous);
      append_double (out, point->low);
      append_double (out, point->high);
      previous = point->bucket;
    }
}

static void
points_free (gpointer data)
{
  g_array_unref (data);
}

static int
compare_durations (gconstpointer a, gconstpointer b)
{
  const SondeModelMark *left = *(const SondeModelMark *const *) a;
  const SondeModelMark *right = *(const SondeModelMark *const *) b;

  return left->duration_ns > right->duration_ns ? -1 : left->duration_ns < right->duration_ns;
}

static int
compare_starts (gconstpointer a, gconstpointer b)
{
  const SondeModelMark *left = *(const SondeModelMark *const *) a;
  const SondeModelMark *right = *(const SondeModelMark *const *) b;

  return left->time_ns < right->time_ns ? -1 : left->time_ns > right->time_ns;
}

static void
append_marks (const Track *self, GByteArray *out)
{
  g_autoptr (GPtrArray) shown = g_ptr_array_new ();
  guint n_left_out;

  for (guint i = 0; i < self->log->marks->len; i++)
    {
      const SondeModelMark *mark = &g_array_index (self->log->marks, SondeModelMark, i);

      if (mark->time_ns >= self->first_ns && mark->time_ns <= self->last_ns)
        g_ptr_array_add (shown, (gpointer) mark);
    }
  n_left_out = shown->len - MIN (shown->len, SONDE_FLAME_MAX_MARKS);
  if (n_left_out > 0)
    {
      g_ptr_array_sort (shown, compare_durations);
      g_ptr_array_set_size (shown, SONDE_FLAME_MAX_MARKS);
    }
  g_ptr_array_sort (shown, compare_starts);

  sonde_flame_data_append_number (out, shown->len);
  sonde_flame_data_append_number (out, n_left_out);
  for (guint i = 0; i < shown->len; i++)
    {
      const SondeModelMark *mark = g_ptr_array_index (shown, i);
      g_autofree char *escaped = NULL;

      sonde_flame_data_append_signed (out, mark->pid);
      append_escaped (out, mark->group);
      append_escaped (out, mark->name);
      escaped = sonde_text_escape (mark->message, -1);
      if (strlen (escaped) > SONDE_FLAME_MAX_MESSAGE_BYTES)
        strcpy (g_utf8_find_prev_char (escaped, escaped + SONDE_FLAME_MAX_MESSAGE_BYTES - 2), "…");
      sonde_flame_data_append_text (out, escaped);
      sonde_flame_data_append_number (out, (guint64) mark->time_ns - (guint64) self->first_ns);
      sonde_flame_data_append_number (out, (guint64) MAX (mark->duration_ns, 0));
    }
}

void
sonde_flame_track_append (GByteArray *out, const SondeSampleLog *log)
{
  Track self = { .log = log };
  const SondeCaptureModel *model;
  g_autoptr (GPtrArray) counters = NULL;
  const GArray *values;
  guint n_shown = 0;

  sonde_sample_log_range (log, &self.first_ns, &self.last_ns);
  self.bucket_ns = ((guint64) self.last_ns - (guint64) self.first_ns) / SONDE_FLAME_N_BUCKETS + 1;
  model = self.log->model;
  counters = g_ptr_array_new_with_free_func (points_free);
  values = self.log->values;
  for (guint i = 0; i < sonde_capture_model_n_counters (model); i++)
    g_ptr_array_add (counters, g_array_new (FALSE, FALSE, sizeof (Point)));
  for (guint i = 0; i < values->len; i++)
    {
      const SondeModelValue *value = &g_array_index (values, SondeModelValue, i);

      if (!g_str_equal (sonde_capture_model_counter (model, value->counter)->category,
                        SONDE_LEDGER_CATEGORY))
        add_value (&self, counters, value);
    }

  for (guint i = 0; i < counters->len; i++)
    n_shown += ((const GArray *) g_ptr_array_index (counters, i))->len > 0;
  sonde_flame_data_append_number (out, n_shown);
  for (guint i = 0; i < counters->len; i++)
    if (((const GArray *) g_ptr_array_index (counters, i))->len > 0)
      append_counter (out, sonde_capture_model_counter (model, i), g_ptr_array_index (counters, i));
  append_marks (&self, out);
}
