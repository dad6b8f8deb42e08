/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl flamegraph: a capture as a picture. */
#include "client/commands.h"

#include <string.h>

#include "client/model/capture-file.h"
#include "client/base/browser.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/base/text.h"
#include "client/flame/flame-page.h"
#include "client/flame/flame-svg.h"
#include "client/report/report.h"

typedef struct
{
  char *output;
  char *other;
  char *unit_name;
  SondeFlameUnit unit;
  gboolean svg;
  gboolean full_names;
  char *by;
  SondeReportOptions report;
  SondeSymbolOptions symbols;
} FlameOptions;

static void
flame_options_clear (FlameOptions *self)
{
  g_free (self->output);
  g_free (self->other);
  g_free (self->unit_name);
  g_free (self->by);
  sonde_sample_filter_clear (&self->report.filter);
  sonde_folding_clear (&self->report.folding);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FlameOptions, flame_options_clear)

static const char *const units[] = { [SONDE_FLAME_SAMPLES] = "samples",
                                     [SONDE_FLAME_CALLS] = "calls",
                                     [SONDE_FLAME_SELF] = "self",
                                     NULL };

/* One reading of a capture: samples, or calls, as is wanted of it. */
typedef struct
{
  SondeSampleLog *log;
  SondeCalls *calls;
  char *start;
} Read;

static void
read_clear (Read *self)
{
  sonde_sample_log_free (self->log);
  sonde_calls_free (self->calls);
  g_free (self->start);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Read, read_clear)

static gboolean
check_samples (const char *path, const SondeSampleLog *log, gboolean has_calls)
{
  if (log->samples.places->len > 0)
    return TRUE;
  if (has_calls)
    sonde_cli_complain (
        "%s has no samples to draw; it has calls of functions: --unit self or calls", path);
  else
    sonde_cli_complain ("%s has no samples to draw; sondectl dump --counts shows what it has",
                        path);
  return FALSE;
}

/* Calls may have been counted alone, or by a clock that is not known. */
static gboolean
has_own_time (const SondeCalls *calls)
{
  for (guint i = 0; i < calls->rows->len; i++)
    if (g_array_index (calls->rows, SondeCallsRow, i).sum.self_ns >= 1)
      return TRUE;
  return FALSE;
}

static gboolean
check_calls (const char *path, SondeCalls *calls, SondeFlameUnit unit)
{
  sonde_calls_finish (calls);
  if (calls->rows->len == 0)
    sonde_cli_complain ("%s tells nothing of calls: sondectl record --trace does", path);
  else if (unit == SONDE_FLAME_SELF && !has_own_time (calls))
    sonde_cli_complain ("no call of %s was timed; calls were counted: --unit calls", path);
  else
    return TRUE;
  return FALSE;
}

/* A break in the capture is told, and what came before it is drawn all the same. */
static gboolean
read_capture (const char *path, const FlameOptions *options, Read *read, gboolean *is_whole)
{
  const gboolean is_of_calls = options->unit != SONDE_FLAME_SAMPLES;
  gboolean has_calls = FALSE;
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeProgress) progress = NULL;
  const SondeFrame *frame;

  if (file == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return FALSE;
    }
  if (is_of_calls)
    read->calls = sonde_calls_new (-1);
  else
    {
      read->log = sonde_sample_log_new ();
      read->log->filter = options->report.filter;
      read->log->samples.by_thread = options->report.by == SONDE_BY_THREAD;
      sonde_sample_filter_range (&options->report.filter, sonde_capture_file_header (file)->time_ns,
                                 &read->log->from_ns, &read->log->to_ns);
    }
  read->start = g_strndup (sonde_capture_file_header (file)->capture_time,
                           sizeof sonde_capture_file_header (file)->capture_time);
  progress = sonde_progress_new ();
  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &error))
    {
      has_calls = has_calls || sonde_calls_is_chunk (frame);
      if (is_of_calls)
        sonde_calls_add_frame (read->calls, frame);
      else
        sonde_capture_model_add_frame (read->log->model, frame);
    }
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    sonde_cli_complain ("%s; drawing what came before", error->message);
  *is_whole = *is_whole && error == NULL;

  return is_of_calls ? check_calls (path, read->calls, options->unit)
                     : check_samples (path, read->log, has_calls);
}

static char *
dup_title (const char *path)
{
  return g_str_equal (path, "-") ? g_strdup ("standard input") : g_filename_display_basename (path);
}

/* "slow.html" of "/tmp/slow.syscap" */
static char *
dup_default_output (const char *path, gboolean svg)
{
  g_autofree char *name
      = g_str_equal (path, "-") ? g_strdup ("flamegraph") : g_path_get_basename (path);

  if (g_str_has_suffix (name, ".syscap"))
    name[strlen (name) - strlen (".syscap")] = '\0';
  return g_strconcat (name, svg ? ".svg" : ".html", NULL);
}

static GString *
draw (const Read *read,
      const SondeSampleLog *other,
      const char *const paths[2],
      const FlameOptions *options)
{
  g_autofree char *title = dup_title (paths[0]);
  g_autofree char *other_title = other != NULL ? dup_title (paths[1]) : NULL;
  SondeFlameSource source = { .log = read->log,
                              .calls = read->calls,
                              .unit = options->unit,
                              .other = other,
                              .symbols = &options->symbols,
                              .by = options->report.by,
                              .folding = &options->report.folding,
                              .full_names = options->full_names,
                              .title = title,
                              .other_title = other_title,
                              .start = read->start };
  g_autoptr (SondeProgress) progress = sonde_progress_new ();
  g_autoptr (GError) error = NULL;
  GString *text;

  sonde_progress_begin (progress, "Drawing", 0);
  if (options->svg)
    return sonde_flame_svg_new (&source);
  text = sonde_flame_page_new (&source, SONDE_FLAME_PAGE_MAX_BYTES, &error);
  g_clear_pointer (&progress, sonde_progress_free);
  if (text == NULL)
    sonde_cli_complain ("%s", error->message);
  return text;
}

static gboolean
check (FlameOptions *self)
{
  int by = SONDE_BY_COMMAND;
  int unit = SONDE_FLAME_SAMPLES;

  if (self->unit_name != NULL)
    unit = sonde_choice_find_or_complain ("--unit", self->unit_name, units);
  if (unit < 0)
    return FALSE;
  self->unit = (SondeFlameUnit) unit;
  if (self->unit != SONDE_FLAME_SAMPLES && self->other != NULL)
    {
      sonde_cli_complain ("--diff is of samples; sondectl calls --diff compares calls");
      return FALSE;
    }
  if (self->by != NULL)
    by = sonde_choice_find_or_complain ("--by", self->by, sonde_by_words);
  if (by < 0 || !sonde_sample_filter_check (&self->report.filter)
      || !sonde_folding_check (&self->report.folding, SONDE_RECURSION_NONE))
    return FALSE;
  self->report.by = (SondeBy) by;
  if (!sonde_by_is_of_functions (self->report.by))
    return TRUE;
  sonde_cli_complain ("a flame graph has functions: --by says which processes are one");
  return FALSE;
}

/* What the page and the picture have in common. */
#define FLAME_OPTIONS(options)                                                                     \
  { "diff",                                                                                        \
    0,                                                                                             \
    0,                                                                                             \
    G_OPTION_ARG_FILENAME,                                                                         \
    &(options)->other,                                                                             \
    "Colour what takes more or less than in that earlier capture",                                 \
    "OTHER" },                                                                                     \
      { "unit",                                                                                    \
        0,                                                                                         \
        0,                                                                                         \
        G_OPTION_ARG_STRING,                                                                       \
        &(options)->unit_name,                                                                     \
        "Draw samples (the default), or calls of functions, or self: their own time",              \
        "UNIT" },                                                                                  \
      { "inline",                                                                                  \
        'i',                                                                                       \
        0,                                                                                         \
        G_OPTION_ARG_NONE,                                                                         \
        &(options)->symbols.inlines,                                                               \
        "Show inlined functions, too",                                                             \
        NULL },                                                                                    \
      { "lines", 0, 0, G_OPTION_ARG_NONE, &(options)->symbols.lines, "Tell source lines", NULL },  \
      { "by",                                                                                      \
        0,                                                                                         \
        0,                                                                                         \
        G_OPTION_ARG_STRING,                                                                       \
        &(options)->by,                                                                            \
        "command (the default), unit, container, process, thread or none",                         \
        "GROUP" },                                                                                 \
      SONDE_SAMPLE_FILTER_OPTIONS (&(options)->report.filter, "in-unit"),                          \
      SONDE_FOLDING_OPTIONS (&(options)->report.folding),                                          \
  {                                                                                                \
    "full-names", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &(options)->full_names, "", NULL     \
  }

/* NULL, having complained, if there is nothing to draw. @is_whole: (out) */
static GString *
draw_file (const char *path, FlameOptions *options, gboolean *is_whole)
{
  g_autofree char *cache_folder
      = g_build_filename (g_get_user_cache_dir (), "sonde", "lines", NULL);
  g_auto (Read) first = { 0 };
  g_auto (Read) other = { 0 };
  GString *text;

  options->symbols.cache_folder = cache_folder;
  *is_whole = TRUE;
  if (!read_capture (path, options, &first, is_whole)
      || (options->other != NULL && !read_capture (options->other, options, &other, is_whole)))
    return NULL;
  text = draw (&first, other.log, (const char *const[]){ path, options->other }, options);
  if (text == NULL)
    return NULL;
  sonde_cli_tell_truncated (
      path, sonde_capture_model_budget (first.log != NULL ? first.log->model : first.calls->model));
  if (other.log != NULL)
    sonde_cli_tell_truncated (options->other, sonde_capture_model_budget (other.log->model));
  return text;
}

int
sonde_cmd_flamegraph (int argc, char **argv)
{
  g_auto (FlameOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
      "Where it goes (FILE's name with .html or .svg here); - is standard output", "FILE" },
    { "svg", 0, 0, G_OPTION_ARG_NONE, &options.svg, "A still picture for documents", NULL },
    FLAME_OPTIONS (&options),
    G_OPTION_ENTRY_NULL,
  };
  gboolean is_whole;
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) text = NULL;
  const char *path;

  path = sonde_cli_parse_file (
      argc, argv,
      "Draws a capture as a flame graph: one page for a browser, which needs no network.\n"
      "FILE may be - (standard input).",
      SONDE_SAMPLE_FILTER_HELP "\nExample:\n  sondectl flamegraph slow.syscap -o slow.html",
      entries);
  if (path == NULL || !check (&options))
    return 1;
  if (options.output == NULL)
    options.output = dup_default_output (path, options.svg);
  text = draw_file (path, &options, &is_whole);
  if (text == NULL)
    return 1;
  if (!sonde_output_put (options.output, text, &error))
    return sonde_cli_fail (error);
  if (!g_str_equal (options.output, "-"))
    {
      g_autofree char *size = sonde_text_size (text->len);
      g_autofree char *shown = sonde_text_escape (options.output, -1);

      g_printerr ("Wrote %s (%s)\n", shown, size);
    }
  return is_whole ? 0 : 1;
}

/* Says where the page is even if nobody opens it. */
static gboolean
view (const char *path, FlameOptions *options, gboolean *is_whole)
{
  g_autoptr (GString) text = draw_file (path, options, is_whole);
  g_autofree char *name = NULL;
  g_autofree char *shown = NULL;
  g_autofree char *size = NULL;
  g_autoptr (GError) error = NULL;
  gboolean is_shown;

  if (text == NULL)
    return FALSE;
  name = dup_default_output (path, FALSE);
  name[strlen (name) - strlen (".html")] = '\0';
  is_shown = sonde_browser_show (name, text, &shown, &error);
  size = sonde_text_size (text->len);
  if (shown != NULL)
    g_printerr ("Wrote %s (%s), until the next view\n", shown, size);
  if (!is_shown)
    sonde_cli_complain ("%s", error->message);
  return is_shown;
}

int
sonde_cmd_view (int argc, char **argv)
{
  g_auto (FlameOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  const GOptionEntry entries[] = { FLAME_OPTIONS (&options), G_OPTION_ENTRY_NULL };
  gboolean is_whole;
  const char *path;

  path = sonde_cli_parse_file (argc, argv,
                               "Draws a capture as flamegraph does, and opens the page in the "
                               "browser.\nFILE may be - (standard input).",
                               SONDE_SAMPLE_FILTER_HELP "\nExample:\n  sondectl view slow.syscap",
                               entries);
  return path != NULL && check (&options) && view (path, &options, &is_whole) && is_whole ? 0 : 1;
}

gboolean
sonde_view_capture (const char *path)
{
  g_auto (FlameOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  gboolean is_whole;

  return check (&options) && view (path, &options, &is_whole);
}
