/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl report: where the time of a capture went. */
#include "client/commands.h"

#include "client/capture-file.h"
#include "client/cli.h"
#include "client/profile-text.h"
#include "client/report-text.h"

typedef struct
{
  gboolean flat;
  double percent_limit;
  int max_depth;
  gint64 pid;
  char *comm;
} ReportOptions;

static gboolean
parse (int *argc, char ***argv, ReportOptions *options)
{
  const GOptionEntry entries[] = {
    { "flat", 'f', 0, G_OPTION_ARG_NONE, &options->flat, "Functions by their own share", NULL },
    { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &options->percent_limit,
      "Sum up what is lighter (0.5)", "PERCENT" },
    { "pid", 'p', 0, G_OPTION_ARG_INT64, &options->pid, "Only this process", "PID" },
    { "comm", 'c', 0, G_OPTION_ARG_STRING, &options->comm, "Only processes of this name", "NAME" },
    { "max-depth", 0, 0, G_OPTION_ARG_INT, &options->max_depth, "Show at most N frames (512)",
      "N" },
    G_OPTION_ENTRY_NULL
  };

  if (!sonde_cli_parse (
          argc, argv, "FILE",
          "Shows the heaviest call tree of a capture. FILE may be - (standard input).", NULL,
          entries, FALSE, NULL))
    return FALSE;
  if (*argc != 2)
    sonde_cli_complain ("report needs one FILE; see sondectl report --help");
  else if (options->percent_limit < 0 || options->percent_limit > 100)
    sonde_cli_complain ("--percent-limit goes from 0 to 100");
  else if (options->max_depth < 1 || options->max_depth > 1024)
    sonde_cli_complain ("--max-depth goes from 1 to 1024");
  else
    return TRUE;
  return FALSE;
}

/* A break in the capture is told, and what came before it is shown all the same. */
static gboolean
read_capture (SondeCaptureFile *file, SondeReport *report)
{
  g_autoptr (GError) error = NULL;
  const SondeFrame *frame;

  while (sonde_capture_file_next (file, &frame, &error))
    sonde_report_add_frame (report, frame);
  sonde_report_finish (report);
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  return error == NULL;
}

static gboolean
print_report (const SondeReport *report, const ReportOptions *options)
{
  SondeProfileStyle style = {
    .percent_limit = options->percent_limit,
    .max_depth = (guint) options->max_depth,
    .utf8 = g_get_charset (NULL),
  };
  g_autoptr (GString) out = g_string_new (NULL);

  sonde_report_append_header (out, report);
  if (sonde_profile_total (sonde_report_profile (report)) == 0)
    g_string_append (out, "\nNo samples.\n");
  else if (options->flat)
    sonde_profile_append_flat (out, sonde_report_profile (report), &style);
  else
    sonde_profile_append_tree (out, sonde_report_profile (report), &style);
  return sonde_cli_print (out);
}

int
sonde_cmd_report (int argc, char **argv)
{
  ReportOptions options = { .percent_limit = SONDE_PROFILE_PERCENT_LIMIT,
                            .max_depth = SONDE_PROFILE_MAX_DEPTH,
                            .pid = -1 };
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (SondeReport) report = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *comm = NULL;
  gboolean is_whole;

  if (!parse (&argc, &argv, &options))
    return 1;
  comm = options.comm;
  file = sonde_capture_file_open (argv[1], &error);
  if (file == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return 1;
    }

  report = sonde_report_new (&(SondeReportFilter){ .pid = options.pid, .comm = comm });
  is_whole = read_capture (file, report);
  return print_report (report, &options) && is_whole ? 0 : 1;
}
