/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/report-text.h"

#include <string.h>

#include "client/base/text.h"

/* How a stack may end before its outermost function, and the option that would help. */
static const struct
{
  const char *name;
  const char *text;
} ends[] = {
  { "[stack truncated]", "end at the copied part of the stack (record --stack-size)" },
  { "[frame pointers end]", "end where frame pointers do (record --stack-size)" },
  { "[depth limit]", "end at the depth limit (record --max-depth)" },
  { "[no unwind data]", "end in code without unwind data" },
  { "[unwind error]", "end in an unwind error" },
  { SONDE_TRUNCATED, "had no room in this report" },
};

static char *
describe_event (GKeyFile *settings)
{
  g_autofree char *event = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "event", NULL);
  g_autofree char *shown = sonde_text_escape (event != NULL ? event : "unknown", -1);
  guint64 frequency = g_key_file_get_uint64 (settings, SONDE_CAPTURE_SETTINGS, "frequency", NULL);
  guint64 period = g_key_file_get_uint64 (settings, SONDE_CAPTURE_SETTINGS, "period", NULL);

  if (g_strcmp0 (event, "none") == 0)
    return g_strdup ("none: what programs and counters tell");
  if (frequency > 0)
    return g_strdup_printf ("%s at %" G_GUINT64_FORMAT " Hz", shown, frequency);
  if (period > 0)
    return g_strdup_printf ("%s, one sample every %" G_GUINT64_FORMAT, shown, period);
  return g_steal_pointer (&shown);
}

char *
sonde_report_describe_event (const SondeCaptureModel *model)
{
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (model);

  return settings != NULL ? describe_event (settings) : NULL;
}

static void
append_part (GString *line, const char *text)
{
  if (text != NULL && text[0] != '\0')
    g_string_append_printf (line, "%s%s", line->len > 0 ? ", " : "", text);
}

/* Where and when, as far as the capture says: host, date, kernel; what computes there. */
static void
append_machine (GString *out, const SondeCaptureModel *model, GKeyFile *settings)
{
  const char *group = SONDE_CAPTURE_SETTINGS;
  g_autofree char *host = g_key_file_get_string (settings, group, "host", NULL);
  g_autofree char *release = g_key_file_get_string (settings, group, "kernel-release", NULL);
  g_autofree char *kernel = release != NULL ? g_strdup_printf ("Linux %s", release) : NULL;
  gint64 start_ns = g_key_file_get_int64 (settings, group, "start-realtime", NULL);
  g_autoptr (GDateTime) start
      = start_ns > 0 ? g_date_time_new_from_unix_local (start_ns / 1000000000) : NULL;
  g_autofree char *date = start != NULL ? g_date_time_format (start, "%Y-%m-%d %H:%M:%S") : NULL;
  guint64 n_processors = g_key_file_get_uint64 (settings, group, "processors", NULL);
  g_autofree char *processors
      = n_processors > 0 ? sonde_text_plural (n_processors, "processor", "processors") : NULL;
  const char *cpu_model = sonde_embedded_files_cpu_model (sonde_capture_model_files (model));
  g_autoptr (GString) where = g_string_new (NULL);
  g_autoptr (GString) what = g_string_new (NULL);
  g_autofree char *shown_where = NULL;
  g_autofree char *shown_what = NULL;

  append_part (where, host);
  append_part (where, date);
  append_part (where, kernel);
  append_part (what, cpu_model);
  append_part (what, processors);
  shown_where = sonde_text_escape (where->str, -1);
  shown_what = sonde_text_escape (what->str, -1);
  if (where->len > 0)
    sonde_text_append_labelled (out, "Host", shown_where);
  if (what->len > 0)
    sonde_text_append_labelled (out, "CPU", shown_what);
}

/* "system": everything was recorded; else the heaviest process is what a reader knows it by. */
static char *
dup_scope (const SondeCaptureModel *model)
{
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (model);

  return settings != NULL ? g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "scope", NULL)
                          : NULL;
}

char *
sonde_report_describe_subject (const SondeCaptureModel *model, const SondeModelProcess *heaviest)
{
  g_autofree char *scope = dup_scope (model);

  if (g_strcmp0 (scope, "system") == 0)
    return g_strdup ("whole machine");
  return sonde_text_escape (heaviest->cmdline, -1);
}

void
sonde_report_append_subject (GString *out,
                             const SondeCaptureModel *model,
                             const SondeProfile *profile)
{
  g_autofree char *scope = dup_scope (model);
  g_autofree char *cmdline = NULL;

  if (g_strcmp0 (scope, "system") == 0)
    {
      sonde_text_append_labelled (out, "Scope", "whole machine");
      return;
    }
  if (sonde_profile_n_processes (profile) == 0)
    return;
  cmdline = sonde_text_escape (sonde_profile_process (profile, 0)->process.cmdline, -1);
  sonde_text_append_labelled (out, g_strcmp0 (scope, "launch") == 0 ? "Command" : "Process",
                              cmdline);
}

char *
sonde_report_describe_losses (const SondeCaptureModel *model)
{
  static const SondeLedger stages[] = { SONDE_LEDGER_LOST_KERNEL, SONDE_LEDGER_LOST_RING,
                                        SONDE_LEDGER_LOST_QUEUE, SONDE_LEDGER_STREAM_SAMPLES_LOST };
  g_autoptr (GString) detail = g_string_new (NULL);
  g_autofree char *lost_text = NULL;
  guint64 produced = 0;
  guint64 lost = 0;

  if (!sonde_capture_model_ledger (model, SONDE_LEDGER_PRODUCED, &produced))
    return g_strdup ("unknown: the capture has no ledger");
  for (guint i = 0; i < G_N_ELEMENTS (stages); i++)
    {
      guint64 n = 0;

      if (!sonde_capture_model_ledger (model, stages[i], &n) || n == 0)
        continue;
      lost += n;
      g_string_append_printf (detail, "%s%s %" G_GUINT64_FORMAT, detail->len > 0 ? ", " : "",
                              sonde_ledger_name (stages[i]), n);
    }
  if (lost == 0)
    return g_strdup ("nothing");
  lost_text = sonde_text_plural (lost, "sample", "samples");
  return g_strdup_printf ("%s, %.1f%% (%s)", lost_text, sonde_text_percent (lost, produced),
                          detail->str);
}

/* What a reader who came late, or asked for less, knowingly did without. */
static void
append_left_out (GString *out, const SondeCaptureModel *model)
{
  guint64 before = 0;
  guint64 filtered = 0;
  g_autofree char *line = NULL;

  sonde_capture_model_ledger (model, SONDE_LEDGER_STREAM_SAMPLES_BEFORE, &before);
  sonde_capture_model_ledger (model, SONDE_LEDGER_STREAM_SAMPLES_FILTERED, &filtered);
  if (before == 0 && filtered == 0)
    return;
  line = g_strdup_printf ("%" G_GUINT64_FORMAT
                          " samples before this capture began, %" G_GUINT64_FORMAT
                          " that it did not ask for",
                          before, filtered);
  sonde_text_append_labelled (out, "Left out", line);
}

void
sonde_report_append_truncated (GString *out, const SondeCaptureModel *model)
{
  g_autofree char *cut = sonde_budget_describe (sonde_capture_model_budget (model));

  if (cut != NULL)
    sonde_text_append_labelled (out, "Truncated", cut);
}

void
sonde_report_append_header (GString *out, const SondeReport *report)
{
  const SondeCaptureModel *model = report->model;
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (model);
  g_autofree char *duration = sonde_text_duration (sonde_capture_model_duration_ns (model));
  g_autofree char *samples = sonde_text_count (sonde_capture_model_n_samples (model));
  const SondeProfile *profile = report->profile;
  guint64 n_shown = sonde_profile_total (profile);
  g_autofree char *losses = NULL;

  sonde_report_append_subject (out, model, profile);
  if (settings != NULL)
    {
      g_autofree char *name = NULL;
      g_autofree char *event = NULL;
      g_autofree char *kernel_time = NULL;
      g_autofree char *line = NULL;

      append_machine (out, model, settings);
      name = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "event", NULL);
      event = describe_event (settings);
      kernel_time = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "kernel-time", NULL);
      line = g_strdup_printf ("%s, %s", event,
                              g_strcmp0 (kernel_time, "yes") == 0 ? "user and kernel time"
                                                                  : "user time only");
      sonde_text_append_labelled (out, "Event", g_strcmp0 (name, "none") == 0 ? event : line);
    }
  g_string_append_printf (out, "%-10s%s in %s\n", "Samples", samples, duration);
  if (n_shown < sonde_capture_model_n_samples (model))
    g_string_append_printf (out, "%-10s%" G_GUINT64_FORMAT " of them match\n", "Filter", n_shown);
  losses = sonde_report_describe_losses (model);
  sonde_text_append_labelled (out, "Lost", losses);
  append_left_out (out, model);
  sonde_report_append_truncated (out, model);
  if (n_shown > 0)
    {
      guint64 n_samples = sonde_profile_total (profile);
      guint64 n_complete = n_samples;
      g_autoptr (GString) detail = g_string_new (NULL);

      for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
        {
          guint64 n = sonde_profile_outermost (profile, ends[i].name);

          if (n == 0)
            continue;
          n_complete -= n;
          g_string_append_printf (detail, "; %" G_GUINT64_FORMAT " (%.1f%%) %s", n,
                                  sonde_text_percent (n, n_samples), ends[i].text);
        }
      g_string_append_printf (out, "%-10s%.1f%% complete%s\n", "Stacks",
                              sonde_text_percent (n_complete, n_samples), detail->str);
    }
}
