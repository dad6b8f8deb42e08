/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl flamegraph: a capture as a picture. */
#include "client/commands.h"

#include <string.h>

#include "client/model/capture-file.h"
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
  g_free (self->by);
  sonde_sample_filter_clear (&self->report.filter);
  sonde_folding_clear (&self->report.folding);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FlameOptions, flame_options_clear)

/* A break in the capture is told, and what came before it is drawn all the same. */
static SondeSampleLog *
read_log (const char *path, const SondeReportOptions *options, char **start, gboolean *is_whole)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeSampleLog) log = sonde_sample_log_new ();
  g_autoptr (SondeProgress) progress = NULL;
  const SondeFrame *frame;

  if (file == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return NULL;
    }
  *start = g_strndup (sonde_capture_file_header (file)->capture_time,
                      sizeof sonde_capture_file_header (file)->capture_time);
  log->filter = options->filter;
  log->samples.by_thread = options->by == SONDE_BY_THREAD;
  sonde_sample_filter_range (&options->filter, sonde_capture_file_header (file)->time_ns,
                             &log->from_ns, &log->to_ns);
  progress = sonde_progress_new ();
  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &error))
    sonde_capture_model_add_frame (log->model, frame);
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    sonde_cli_complain ("%s; drawing what came before", error->message);
  *is_whole = *is_whole && error == NULL;

  if (log->samples.places->len > 0)
    return g_steal_pointer (&log);
  sonde_cli_complain ("%s has no samples to draw; sondectl dump --counts shows what it has", path);
  return NULL;
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
draw (const SondeSampleLog *log,
      const SondeSampleLog *other,
      const char *start,
      const char *const paths[2],
      const FlameOptions *options)
{
  g_autofree char *title = dup_title (paths[0]);
  g_autofree char *other_title = other != NULL ? dup_title (paths[1]) : NULL;
  SondeFlameSource source = { .log = log,
                              .other = other,
                              .symbols = &options->symbols,
                              .by = options->report.by,
                              .folding = &options->report.folding,
                              .full_names = options->full_names,
                              .title = title,
                              .other_title = other_title,
                              .start = start };
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

int
sonde_cmd_flamegraph (int argc, char **argv)
{
  g_auto (FlameOptions) options = { .report.filter = SONDE_SAMPLE_FILTER_INIT };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
      "Where it goes (FILE's name with .html or .svg here); - is standard output", "FILE" },
    { "diff", 0, 0, G_OPTION_ARG_FILENAME, &options.other,
      "Colour what takes more or less than in this capture", "OTHER" },
    { "svg", 0, 0, G_OPTION_ARG_NONE, &options.svg, "A still picture for documents", NULL },
    { "inline", 'i', 0, G_OPTION_ARG_NONE, &options.symbols.inlines, "Show inlined functions, too",
      NULL },
    { "lines", 0, 0, G_OPTION_ARG_NONE, &options.symbols.lines, "Tell source lines", NULL },
    { "by", 0, 0, G_OPTION_ARG_STRING, &options.by,
      "command (the default), unit, container, process, thread or none", "GROUP" },
    SONDE_SAMPLE_FILTER_OPTIONS (&options.report.filter, "in-unit"),
    SONDE_FOLDING_OPTIONS (&options.report.folding),
    { "full-names", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &options.full_names, "", NULL },
    G_OPTION_ENTRY_NULL,
  };
  g_autofree char *cache_folder
      = g_build_filename (g_get_user_cache_dir (), "sonde", "lines", NULL);
  g_autofree char *start = NULL;
  g_autofree char *other_start = NULL;
  g_autoptr (SondeSampleLog) log = NULL;
  g_autoptr (SondeSampleLog) other = NULL;
  gboolean is_whole = TRUE;
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
  options.symbols.cache_folder = cache_folder;
  if (options.output == NULL)
    options.output = dup_default_output (path, options.svg);

  log = read_log (path, &options.report, &start, &is_whole);
  if (log == NULL)
    return 1;
  if (options.other != NULL)
    {
      other = read_log (options.other, &options.report, &other_start, &is_whole);
      if (other == NULL)
        return 1;
    }
  text = draw (log, other, start, (const char *const[]){ path, options.other }, &options);
  if (text == NULL)
    return 1;
  sonde_cli_tell_truncated (path, sonde_capture_model_budget (log->model));
  if (other != NULL)
    sonde_cli_tell_truncated (options.other, sonde_capture_model_budget (other->model));
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
