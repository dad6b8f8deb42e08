/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/waits-report.h"

#include "client/base/id-map.h"
#include "client/base/json.h"
#include "client/base/text.h"
#include "client/report/report-text.h"

#define OTHERS           "[other threads]"
#define MIN_TOLD_PERCENT 0.05 /* of a sentence on what is not known */

/* In the order in which they are shown. */
static const struct
{
  SondeWaitsTime time;
  const char *title;
} columns[] = {
  { SONDE_TIME_ON, "on" },           { SONDE_TIME_RUNNABLE, "runnable" },
  { SONDE_TIME_BLOCKED, "blocked" }, { SONDE_TIME_SWITCHING, "switching" },
  { SONDE_TIME_UNKNOWN, "unknown" },
};

SondeWaitsReport *
sonde_waits_report_new (void)
{
  SondeWaitsReport *self = g_new0 (SondeWaitsReport, 1);
  const SondeModelFuncs funcs = { 0 };

  self->model = sonde_capture_model_new (&funcs, NULL);
  self->reader = sonde_waits_reader_new ();
  return self;
}

void
sonde_waits_report_free (SondeWaitsReport *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->groups, g_array_unref);
  sonde_waits_reader_free (self->reader);
  sonde_capture_model_free (self->model);
  g_free (self);
}

void
sonde_waits_report_add_frame (SondeWaitsReport *self, const SondeFrame *frame)
{
  sonde_capture_model_add_frame (self->model, frame);
  sonde_waits_reader_add (self->reader, frame);
}

/* --- groups --- */

static void
clear_group (gpointer data)
{
  g_free (((SondeWaitsGroup *) data)->name);
}

static int
compare_groups (gconstpointer a, gconstpointer b)
{
  const SondeWaitsGroup *one = a;
  const SondeWaitsGroup *other = b;

  if (one->times[SONDE_TIME_LIFE] != other->times[SONDE_TIME_LIFE])
    return one->times[SONDE_TIME_LIFE] > other->times[SONDE_TIME_LIFE] ? -1 : 1;
  if (one->pid != other->pid)
    return one->pid < other->pid ? -1 : 1;
  return one->tid < other->tid ? -1 : one->tid > other->tid;
}

/* pid → number of its last name. (transfer full) */
static SondeIdMap *
map_processes (const SondeCaptureModel *model)
{
  SondeIdMap *map = sonde_id_map_new ();

  for (guint i = 0; i < sonde_capture_model_n_processes (model); i++)
    sonde_id_map_set (map, (guint32) sonde_capture_model_process (model, i)->pid, i);
  return map;
}

static void
add_row (SondeWaitsGroup *group, const SondeWaitsRow *row)
{
  group->n_threads++;
  for (guint i = 0; i < SONDE_N_TIMES; i++)
    group->times[i] += row->times[i];
  for (guint i = 0; i < SONDE_N_WAITS_COUNTS; i++)
    group->counts[i] += row->counts[i];
}

/* The number is that of the grouping. */
static SondeWaitsGroup *
ensure_group (SondeWaitsReport *self, guint number)
{
  const SondeWaitsGroup none = { .pid = -1, .tid = -1 };

  while (self->groups->len <= number)
    g_array_append_val (self->groups, none);
  return &g_array_index (self->groups, SondeWaitsGroup, number);
}

void
sonde_waits_report_finish (SondeWaitsReport *self, SondeBy by, const SondeSampleFilter *filter)
{
  g_autoptr (SondeGrouping) grouping = sonde_grouping_new (by, self->model);
  SondeIdMap *processes = map_processes (self->model);
  SondeIdMap *seen = sonde_id_map_new ();
  gboolean is_all = filter->pid < 0 && filter->tid < 0 && filter->comm == NULL
                    && filter->thread == NULL && filter->unit == NULL && filter->container == NULL;

  self->groups = g_array_new (FALSE, FALSE, sizeof (SondeWaitsGroup));
  g_array_set_clear_func (self->groups, clear_group);
  for (guint i = 0; i < sonde_waits_reader_n_rows (self->reader); i++)
    {
      const SondeWaitsRow *row = sonde_waits_reader_row (self->reader, i);
      SondeModelProcess process = { row->pid, "[unknown]", "[unknown]" };
      SondeWaitsGroup *group;
      guint32 number;

      if (sonde_id_map_lookup (processes, (guint32) row->pid, &number))
        process = *sonde_capture_model_process (self->model, number);
      if (!sonde_sample_filter_matches (filter, self->model, &process, row->tid))
        continue;
      number = sonde_grouping_find (grouping, &process, row->tid);
      group = ensure_group (self, number);
      if (group->name == NULL)
        {
          group->name = g_strdup (sonde_grouping_name (grouping, number));
          group->pid = by == SONDE_BY_PROCESS || by == SONDE_BY_THREAD ? row->pid : -1;
          group->tid = by == SONDE_BY_THREAD ? row->tid : -1;
        }
      add_row (group, row);
      self->n_threads++;
      if (!sonde_id_map_lookup (seen, (guint32) row->pid, &number))
        self->n_processes++;
      sonde_id_map_set (seen, (guint32) row->pid, 1);
    }
  self->has_others = is_all && sonde_waits_reader_n_others (self->reader) > 0;
  if (self->has_others)
    {
      SondeWaitsGroup *group = ensure_group (self, self->groups->len);

      group->name = g_strdup (OTHERS);
      group->n_threads = (guint) MIN (sonde_waits_reader_n_others (self->reader), G_MAXUINT);
      for (guint i = 0; i < SONDE_N_TIMES; i++)
        group->times[i] = sonde_waits_reader_others (self->reader)[i];
      self->n_threads += group->n_threads;
    }
  for (guint i = 0; i < self->groups->len; i++)
    for (guint j = 0; j < SONDE_N_TIMES; j++)
      self->times[j] += g_array_index (self->groups, SondeWaitsGroup, i).times[j];
  g_array_sort (self->groups, compare_groups);
  sonde_id_map_free (processes);
  sonde_id_map_free (seen);
}

/* --- text --- */

/* "812 us", "3.42 ms", "12.1 s" */
static char *
dup_time (guint64 ns)
{
  static const struct
  {
    const char *unit;
    guint64 ns;
  } units[] = { { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 } };
  guint i = 0;
  double value;

  while (i + 1 < G_N_ELEMENTS (units) && ns < units[i].ns)
    i++;
  value = (double) ns / (double) units[i].ns;
  return g_strdup_printf (units[i].ns == 1 || value >= 100 ? "%.0f %s"
                          : value >= 10                    ? "%.1f %s"
                                                           : "%.2f %s",
                          value, units[i].unit);
}

static void
append_sum (GString *out, const SondeWaitsReport *self)
{
  guint64 life_ns = self->times[SONDE_TIME_LIFE];
  g_autofree char *threads = sonde_text_plural (self->n_threads, "thread", "threads");
  g_autofree char *processes = sonde_text_plural (self->n_processes, "process", "processes");
  g_autofree char *life = dup_time (life_ns);

  g_string_append_printf (out, "%-10s%s of %s, which lived for %s together\n", "Threads", threads,
                          processes, life);
  g_string_append_printf (out, "%-10s%s =", "Sum", life);
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    {
      g_autofree char *time = dup_time (self->times[columns[i].time]);

      g_string_append_printf (out, " %s%s %s (%.1f%%)", i > 0 ? "+ " : "", columns[i].title, time,
                              sonde_text_percent (self->times[columns[i].time], life_ns));
    }
  g_string_append_c (out, '\n');
}

/* What the sum cannot tell. */
static void
append_doubts (GString *out, const SondeWaitsReport *self)
{
  guint64 unsplit_ns = self->times[SONDE_TIME_UNSPLIT];
  g_autofree char *unsplit = dup_time (unsplit_ns);
  g_autofree char *blocked = dup_time (self->times[SONDE_TIME_BLOCKED]);
  g_autofree char *beyond = sonde_text_plural (sonde_waits_reader_n_beyond (self->reader)
                                                   + sonde_waits_reader_n_left_out (self->reader),
                                               "more thread is", "more threads are");

  if (sonde_text_percent (unsplit_ns, self->times[SONDE_TIME_LIFE]) >= MIN_TOLD_PERCENT)
    g_string_append_printf (out,
                            "%-10s%s of the %s blocked were behind the last look at a thread: in "
                            "them may be waits for a processor\n",
                            "Doubt", unsplit, blocked);
  if (self->times[SONDE_TIME_UNKNOWN] > 0)
    g_string_append_printf (out, "%-10s%s\n", "Lost",
                            "records of switches, or the recording was paused: what threads did "
                            "then is unknown");
  if (sonde_waits_reader_n_beyond (self->reader) + sonde_waits_reader_n_left_out (self->reader) > 0)
    g_string_append_printf (out, "%-10s%s not in it: there were too many\n", "Left out", beyond);
}

/* "  12.1 s  3.4%" */
static void
append_time (GString *out, guint64 ns, guint64 life_ns)
{
  g_autofree char *time = dup_time (ns);

  g_string_append_printf (out, " %8s %5.1f%%", time, sonde_text_percent (ns, life_ns));
}

static void
append_group (GString *out, const SondeWaitsReport *self, const SondeWaitsGroup *group)
{
  g_autofree char *life = dup_time (group->times[SONDE_TIME_LIFE]);
  g_autofree char *name = sonde_text_escape (group->name, -1);
  guint n_columns
      = self->times[SONDE_TIME_UNKNOWN] > 0 ? G_N_ELEMENTS (columns) : G_N_ELEMENTS (columns) - 1;

  g_string_append_printf (out, "%9s", life);
  for (guint i = 0; i < n_columns; i++)
    append_time (out, group->times[columns[i].time], group->times[SONDE_TIME_LIFE]);
  g_string_append_printf (out, "  %s", name);
  if (group->tid >= 0)
    g_string_append_printf (out, " (%d/%d)", group->pid, group->tid);
  else if (group->pid >= 0)
    g_string_append_printf (out, " (pid %d)", group->pid);
  if (group->n_threads > 1)
    g_string_append_printf (out, ", %u threads", group->n_threads);
  g_string_append_c (out, '\n');
}

void
sonde_waits_report_append (GString *out, const SondeWaitsReport *self)
{
  guint n_columns
      = self->times[SONDE_TIME_UNKNOWN] > 0 ? G_N_ELEMENTS (columns) : G_N_ELEMENTS (columns) - 1;

  append_sum (out, self);
  append_doubts (out, self);
  g_string_append_printf (out, "\n%9s", "life");
  for (guint i = 0; i < n_columns; i++)
    g_string_append_printf (out, " %8s  share", columns[i].title);
  g_string_append (out, "  what\n");
  for (guint i = 0; i < self->groups->len; i++)
    append_group (out, self, &g_array_index (self->groups, SondeWaitsGroup, i));
}

/* --- JSON --- */

static void
add_times (SondeJson *json, const guint64 times[SONDE_N_TIMES])
{
  for (guint i = 0; i < SONDE_N_TIMES; i++)
    {
      g_autofree char *member = g_strdup_printf ("%s-ns", sonde_waits_time_name (i));

      sonde_json_add_number (json, member, (gint64) times[i]);
    }
}

void
sonde_waits_report_append_json (GString *out, const SondeWaitsReport *self)
{
  SondeJson json = SONDE_JSON_INIT (out);

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SONDE_WAITS_JSON_VERSION);
  sonde_json_add_number (&json, "threads", self->n_threads);
  sonde_json_add_number (&json, "processes", self->n_processes);
  sonde_json_add_number (&json, "threads-beyond",
                         (gint64) (sonde_waits_reader_n_beyond (self->reader)
                                   + sonde_waits_reader_n_left_out (self->reader)));
  sonde_json_add_number (&json, "switch-ns", (gint64) sonde_waits_reader_switch_ns (self->reader));
  add_times (&json, self->times);
  sonde_json_begin_array (&json, "groups");
  for (guint i = 0; i < self->groups->len; i++)
    {
      const SondeWaitsGroup *group = &g_array_index (self->groups, SondeWaitsGroup, i);

      sonde_json_begin_object (&json, NULL);
      sonde_json_add_escaped (&json, "name", group->name);
      sonde_json_add_number (&json, "pid", group->pid);
      sonde_json_add_number (&json, "tid", group->tid);
      sonde_json_add_number (&json, "threads", group->n_threads);
      add_times (&json, group->times);
      sonde_json_add_number (&json, "switches", (gint64) group->counts[SONDE_WAITS_SWITCHES]);
      sonde_json_add_number (&json, "preempted", (gint64) group->counts[SONDE_WAITS_PREEMPTED]);
      sonde_json_end_object (&json);
    }
  sonde_json_end_array (&json);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
}
