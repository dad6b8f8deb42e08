/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads foreign bytes as a capture and shows them in every way that sondectl has. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/calls/calls.h"
#include "client/model/capture-file.h"
#include "client/flame/flame-data.h"
#include "client/flame/flame-svg.h"
#include "client/model/frame-text.h"
#include "client/model/ledger.h"
#include "client/report/profile-text.h"
#include "client/report/profile-diff.h"
#include "client/report/profile-view.h"
#include "client/report/report.h"
#include "client/report/report-text.h"
#include "client/report/waits-report.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/printed.h"

#define N_TIMES    200u
#define MAX_DEPTH  16
#define MAX_WORDS  8u
#define MAX_NODES  8
#define MAX_POINTS 4
#define MAX_RUNS   32

static void
check_findings (const SondeLedgerCheck *ledger)
{
  g_autoptr (GPtrArray) findings = sonde_ledger_check_dup_findings (ledger);

  for (guint i = 0; i < findings->len; i++)
    {
      const SondeFinding *finding = g_ptr_array_index (findings, i);
      g_autoptr (GString) text = g_string_new (finding->text);

      fuzz_check_text (text);
      if (sonde_verdict_to_string (finding->verdict)[0] == '?')
        abort ();
    }
}

/* What is chosen, of which there may be nothing, is shown in both ways, and for programs. */
static void
check_view (const SondeReport *report, SondeProfile *view)
{
  const SondeProfileStyle style
      = { .percent_limit = 1, .max_depth = MAX_DEPTH, .utf8 = TRUE, .width = 60 };
  g_autoptr (SondeProfile) owned = view;
  g_autoptr (GString) text = g_string_new (NULL);

  if (owned == NULL)
    return;
  sonde_profile_append_tree (text, owned, &style);
  sonde_profile_append_flat (text, owned, &style);
  fuzz_check_text (text);
  for (int as_rows = FALSE; as_rows <= TRUE; as_rows++)
    fuzz_check_json (sonde_report_dup_json (report, owned, as_rows, 0));
}

static void
check_views (const SondeReport *report)
{
  const SondeProfile *profile = report->profile;
  const SondeProfileStyle style = { .max_depth = MAX_DEPTH, .full_names = TRUE };
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (SondeProfileDiff) diff = NULL;
  /* any times, and functions that there may not be */
  const gint64 when_ns[] = { 1, G_MAXINT64, G_MININT64, 7, 8, 9, 10, 11 };
  g_autofree gint64 *times_ns = g_new (gint64, N_TIMES);
  g_autofree guint32 *functions = g_new (guint32, N_TIMES);
  const SondeProfileSide side = { .profile = profile };
  const SondeProfileTimes times = { .times_ns = times_ns,
                                    .functions = functions,
                                    .n = N_TIMES,
                                    .from_ns = G_MININT64,
                                    .to_ns = G_MAXINT64 };

  for (guint i = 0; i < N_TIMES; i++)
    {
      times_ns[i] = when_ns[i % G_N_ELEMENTS (when_ns)];
      functions[i] = i % 5 == 0 ? G_MAXUINT32 : i % 3;
    }
  check_view (report, sonde_profile_view_bottom_up (profile));
  check_view (report, sonde_profile_view_callers (profile, "*a*"));
  check_view (report, sonde_profile_view_by_module (profile));
  check_view (report, sonde_profile_view_by_process (profile));
  check_view (report, sonde_profile_view_by (report->profile, SONDE_BY_THREAD));
  if (sonde_profile_total (profile) == 0)
    return;
  diff = sonde_profile_diff_new (&side, &side);
  sonde_profile_diff_judge (diff, &times, &times, 0);
  sonde_profile_diff_append_chance (text, diff, &style, FALSE);
  sonde_profile_diff_append_functions (text, diff, &style);
  sonde_profile_diff_append_chance (text, diff, &style, TRUE);
  sonde_profile_diff_append_markdown (text, diff, &style);
  sonde_profile_diff_append_paths (text, diff, &style);
  fuzz_check_text (text);
}

static void
check_report (SondeReport *report)
{
  const SondeProfileStyle styles[] = { { .max_depth = MAX_DEPTH, .utf8 = TRUE },
                                       { .percent_limit = 20, .max_depth = 2, .width = 40 } };

  sonde_report_finish (report, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (styles); i++)
    {
      g_autoptr (GString) text = g_string_new (NULL);

      sonde_report_append_header (text, report);
      sonde_profile_append_tree (text, report->profile, &styles[i]);
      sonde_profile_append_flat (text, report->profile, &styles[i]);
      fuzz_check_text (text);
    }
  check_views (report);
}

static void
check_waits (SondeWaitsReport *report)
{
  const SondeSampleFilter filter = SONDE_SAMPLE_FILTER_INIT;
  g_autoptr (GString) text = g_string_new (NULL);
  guint64 sum = 0;

  sonde_waits_report_finish (report, SONDE_BY_THREAD, &filter);
  sonde_waits_report_append (text, report);
  fuzz_check_text (text);
  for (guint i = SONDE_TIME_ON; i <= SONDE_TIME_UNKNOWN; i++)
    sum += report->times[i];
  if (sum != report->times[SONDE_TIME_LIFE])
    abort ();
  text = (g_string_free (text, TRUE), g_string_new (NULL));
  sonde_waits_report_append_json (text, report);
  fuzz_check_json (g_steal_pointer (&text));
}

static void
check_pictures (const SondeSampleLog *log)
{
  const SondeFlameSource source
      = { .log = log, .other = log, .title = "title", .other_title = "other", .start = "start" };
  g_autoptr (SondeFlameGraph) graph = sonde_flame_graph_new (&source, MAX_NODES);
  const SondeFlameSource alone = { .log = log, .title = "title" };
  g_autoptr (GByteArray) data = NULL;
  GString *svg;

  if (log->samples.places->len == 0)
    return;
  data = sonde_flame_data_new (&source, graph, MAX_POINTS, MAX_RUNS);
  svg = sonde_flame_svg_new (&alone);
  fuzz_check_text (svg);
  g_string_free (svg, TRUE);
}

static void
check_pictures_of_calls (const SondeCalls *calls)
{
  for (guint unit = SONDE_FLAME_CALLS; unit <= SONDE_FLAME_SELF; unit++)
    {
      const SondeFlameSource source
          = { .calls = calls, .unit = (SondeFlameUnit) unit, .title = "title", .start = "start" };
      g_autoptr (SondeFlameGraph) graph = sonde_flame_graph_new (&source, MAX_NODES);
      GByteArray *data = sonde_flame_data_new (&source, graph, MAX_POINTS, MAX_RUNS);
      GString *svg = sonde_flame_svg_new (&source);

      g_byte_array_unref (data);
      fuzz_check_text (svg);
      g_string_free (svg, TRUE);
    }
}

/* Names are safe to show, whatever the paths are; and percentiles are within what they are. */
static void
check_calls (SondeCalls *calls)
{
  g_autoptr (GString) text = g_string_new (NULL);

  sonde_calls_finish (calls);
  for (guint i = 0; i < calls->rows->len; i++)
    {
      const SondeCallsRow *row = &g_array_index (calls->rows, SondeCallsRow, i);
      double median = sonde_calls_quantile (row, 0.5);
      SondeCallsEstimate estimate;

      if (median > sonde_calls_quantile (row, 0.99) || row->sum.self_ns < 0)
        abort ();
      g_string_append (text, sonde_calls_function (calls, row->function)->name);
      if (sonde_calls_estimate (row, 0.99, &estimate)
          && (estimate.low_ns > estimate.ns || estimate.high_ns < estimate.ns))
        abort ();
    }
  if (calls->rows->len > 0)
    check_pictures_of_calls (calls);
  for (guint i = 0; i < sonde_calls_reader_n_programs (calls->reader); i++)
    {
      const SondeCallsProgram *program = sonde_calls_reader_program (calls->reader, i);

      sonde_calls_program_check (program);
      for (guint j = 0; j < program->words->len && j < MAX_WORDS; j++)
        {
          g_autofree char *path = sonde_calls_dup_path (
              calls, i, g_array_index (program->words, SondeCallsWords, j).path);

          g_string_append (text, path);
        }
    }
  if (sonde_calls_reader_fault (calls->reader) != NULL)
    g_string_append (text, sonde_calls_reader_fault (calls->reader));
  fuzz_check_text (text);
}

static void
show (SondeCaptureFile *file)
{
  g_autoptr (SondeCalls) calls = sonde_calls_new (-1);
  g_autoptr (SondeSampleLog) log = sonde_sample_log_new ();
  g_autoptr (SondeLedgerCheck) ledger = sonde_ledger_check_new ();
  g_autoptr (SondeReport) report = sonde_report_new (NULL, 0);
  g_autoptr (SondeWaitsReport) waits = sonde_waits_report_new ();
  g_autoptr (SondeFrameText) frame_text = sonde_frame_text_new ();
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  const SondeFrame *frame;

  sonde_frame_text_append_header (text, sonde_capture_file_header (file));
  while (sonde_capture_file_next (file, &frame, &error))
    {
      sonde_frame_text_append (frame_text, text, frame);
      sonde_ledger_check_add_frame (ledger, frame);
      sonde_report_add_frame (report, frame);
      sonde_calls_add_frame (calls, frame);
      sonde_waits_report_add_frame (waits, frame);
      sonde_capture_model_add_frame (log->model, frame);
    }
  fuzz_check_text (text);
  check_findings (ledger);
  check_report (report);
  check_pictures (log);
  check_calls (calls);
  check_waits (waits);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  int fd = memfd_create ("capture", MFD_CLOEXEC);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (GError) error = NULL;

  if (fd < 0 || (size > 0 && pwrite (fd, data, size, 0) != (ssize_t) size))
    abort ();
  sonde_capture_file_probe (path);
  file = sonde_capture_file_open (path, &error);
  if (file != NULL)
    show (file);
  else if (error == NULL)
    abort ();
  close (fd);

  return 0;
}
