/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The options of sondectl heap. */
#include "client/heap/heap-options.h"

#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/report/profile-text.h"
#include "client/base/text.h"

static const struct
{
  const char *option;
  const char *title;
} views[SONDE_HEAP_N_METRICS] = {
  [SONDE_HEAP_ALLOCATED] = { NULL, "Allocated" },
  [SONDE_HEAP_PEAK] = { "--peak", "Live at the peak" },
  [SONDE_HEAP_LEFT] = { "--leaks", "Never freed" },
  [SONDE_HEAP_TEMPORARY] = { "--temporary", "Temporary" },
  [SONDE_HEAP_CROSS_THREAD] = { "--cross-thread", "Freed by another thread" },
  [SONDE_HEAP_AT_FIRST] = { NULL, "Live at the first moment" },
  [SONDE_HEAP_AT_SECOND] = { NULL, "Live at the second moment" },
};

const char *
sonde_heap_metric_title (SondeHeapMetric metric)
{
  return views[metric].title;
}

static gboolean
choose_view (SondeHeapCommand *self, SondeHeapMetric metric, GError **error)
{
  if (self->is_view && self->metric != metric)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, "%s and %s exclude each other",
                   views[self->metric].option, views[metric].option);
      return FALSE;
    }
  self->is_view = TRUE;
  self->metric = metric;
  return TRUE;
}

static gboolean
parse_view (const char *name, const char *value, gpointer user_data, GError **error)
{
  for (SondeHeapMetric i = 0; i < SONDE_HEAP_N_METRICS; i++)
    if (g_strcmp0 (views[i].option, name) == 0)
      return choose_view (user_data, i, error);
  g_assert_not_reached ();
}

static gboolean
parse_temporary (const char *name, const char *value, gpointer user_data, GError **error)
{
  SondeHeapCommand *self = user_data;

  if (value == NULL || sonde_text_parse_duration (value, &self->heap.temporary_ns))
    return choose_view (self, SONDE_HEAP_TEMPORARY, error);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "%s takes a duration such as 10us or 1.5ms, not \"%s\"", name, value);
  return FALSE;
}

static gboolean
parse_unit (const char *name, const char *value, gpointer user_data, GError **error)
{
  static const char *const units[] = { "bytes", "count", NULL };
  SondeHeapCommand *self = user_data;
  int index = sonde_choice_find (name, value, units, error);

  self->unit = index == 1 ? SONDE_UNIT_BLOCKS : SONDE_UNIT_BYTES;
  return index >= 0;
}

static gboolean
parse_options (SondeHeapCommand *self, int *argc, char ***argv)
{
  const GOptionEntry entries[] = {
    { "peak", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_view,
      "What was live when that was most", NULL },
    { "leaks", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_view,
      "What was never freed", NULL },
    { "temporary", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_temporary,
      "Freed before the next allocation, or lived shorter", "DURATION" },
    { "cross-thread", 0, G_OPTION_FLAG_NO_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_view,
      "What another thread freed", NULL },
    { "by", 0, 0, G_OPTION_ARG_CALLBACK, (gpointer) parse_unit, "bytes (the default) or count",
      "UNIT" },
    { "bottom-up", 'b', 0, G_OPTION_ARG_NONE, &self->bottom_up, "Functions, their callers below",
      NULL },
    { "callers", 0, 0, G_OPTION_ARG_STRING, &self->callers, "Only FUNCTION and its callers",
      "FUNCTION" },
    { "flat", 'f', 0, G_OPTION_ARG_NONE, &self->flat, "Functions by their own share", NULL },
    { "inline", 'i', 0, G_OPTION_ARG_NONE, &self->symbols.inlines, "Show inlined functions, too",
      NULL },
    { "lines", 0, 0, G_OPTION_ARG_NONE, &self->symbols.lines, "Show source lines", NULL },
    { "graph", 'g', 0, G_OPTION_ARG_NONE, &self->graph, "The heap over time", NULL },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &self->svg, "Draw it into FILE", "FILE" },
    { "diff", 0, 0, G_OPTION_ARG_NONE, &self->diff, "What grew and shrank", NULL },
    { "pid", 'p', 0, G_OPTION_ARG_INT64, &self->heap.filter.pid, "Only this process", "PID" },
    { "comm", 'c', 0, G_OPTION_ARG_STRING, &self->comm, "Only processes of this name", "NAME" },
    { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &self->percent_limit,
      "Sum up what is lighter (0.5)", "PERCENT" },
    { "max-depth", 0, 0, G_OPTION_ARG_INT, &self->max_depth, "Show at most N frames (512)", "N" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &self->json, "For programs", NULL },
    { "no-pager", 0, 0, G_OPTION_ARG_NONE, &self->no_pager, "Do not start $PAGER", NULL },
    G_OPTION_ENTRY_NULL
  };

  return sonde_cli_parse (
      argc, argv, "FILE | --diff FROM TO FILE | --diff A B",
      "Shows how a capture's heap was used, and who allocated what. FROM and TO are\n"
      "moments of one: a time (10s, 1min), peak or end. FILE may be - (standard input).",
      NULL, entries, FALSE, self);
}

static gboolean
parse_files (SondeHeapCommand *self, int argc, char **argv)
{
  if (argc < 2 || argc > (self->diff ? 4 : 2) || (self->diff && argc < 3))
    {
      sonde_cli_complain (self->diff ? "--diff needs BEFORE and AFTER, or two moments and one FILE"
                                     : "heap needs one FILE; see sondectl heap --help");
      return FALSE;
    }
  self->path = argv[argc == 4 ? 3 : 1];
  if (argc == 3)
    self->other_path = argv[2];
  if (argc < 4)
    return TRUE;
  for (guint i = 0; i < SONDE_HEAP_N_MOMENTS; i++)
    {
      const char *text = argv[1 + i];

      if (g_str_equal (text, "peak"))
        self->moments_ns[i] = SONDE_HEAP_MOMENT_PEAK;
      else if (g_str_equal (text, "end"))
        self->moments_ns[i] = SONDE_HEAP_MOMENT_END;
      else if (!sonde_text_parse_duration (text, &self->moments_ns[i]))
        {
          g_autofree char *shown = sonde_text_escape (text, -1);

          sonde_cli_complain ("a moment is a time such as 10s or 1.5ms, peak or end, not \"%s\"",
                              shown);
          return FALSE;
        }
      /* one that is no time is taken early and not looked at */
      self->heap.moments_ns[i] = i == 0                     ? MAX (self->moments_ns[i], 0)
                                 : self->moments_ns[i] >= 0 ? self->moments_ns[i]
                                                            : G_MAXINT64;
    }
  if (self->moments_ns[0] >= 0 && self->moments_ns[1] >= 0
      && self->moments_ns[0] > self->moments_ns[1])
    {
      sonde_cli_complain ("the first moment of --diff is the earlier one");
      return FALSE;
    }
  return TRUE;
}

static gboolean
check (const SondeHeapCommand *self)
{
  if (self->bottom_up + self->flat + (self->callers != NULL) > 1)
    sonde_cli_complain ("only one of --bottom-up, --flat and --callers at a time");
  else if (self->diff && self->other_path == NULL && self->is_view)
    sonde_cli_complain ("two moments are compared by what was live: no %s",
                        views[self->metric].option);
  else if (self->diff && (self->graph || self->svg != NULL))
    sonde_cli_complain ("--diff has no graph");
  else if (self->percent_limit < 0 || self->percent_limit > 100)
    sonde_cli_complain ("--percent-limit goes from 0 to 100");
  else if (self->max_depth < 1 || self->max_depth > 1024)
    sonde_cli_complain ("--max-depth goes from 1 to 1024");
  else
    return TRUE;
  return FALSE;
}

gboolean
sonde_heap_command_parse (SondeHeapCommand *self, int *argc, char ***argv)
{
  *self = (SondeHeapCommand){ .unit = SONDE_UNIT_BYTES,
                              .percent_limit = SONDE_PROFILE_PERCENT_LIMIT,
                              .max_depth = SONDE_PROFILE_MAX_DEPTH,
                              .heap = SONDE_HEAP_OPTIONS_INIT };
  if (!parse_options (self, argc, argv) || !parse_files (self, *argc, *argv) || !check (self))
    return FALSE;
  self->heap.filter.comm = self->comm;
  return TRUE;
}

void
sonde_heap_command_clear (SondeHeapCommand *self)
{
  g_clear_pointer (&self->callers, g_free);
  g_clear_pointer (&self->svg, g_free);
  g_clear_pointer (&self->comm, g_free);
}
