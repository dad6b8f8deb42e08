/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a capture is of and what is missing from it, as lines above a report. */
#include "client/capture-text.h"

#include "client/text.h"

void
sonde_capture_text_append_labelled (GString *out, const char *label, const char *text)
{
  g_string_append_printf (out, "%-10s%s\n", label, text);
}

/* What was recorded, by the heaviest process if it is not everything. */
void
sonde_capture_text_append_subject (GString *out, const SondeProfile *profile, GKeyFile *settings)
{
  g_autofree char *scope = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "scope", NULL);
  g_autofree char *cmdline = NULL;

  if (g_strcmp0 (scope, "system") == 0)
    {
      sonde_capture_text_append_labelled (out, "Scope", "whole machine");
      return;
    }
  if (sonde_profile_n_processes (profile) == 0)
    return;
  cmdline = sonde_text_escape (sonde_profile_process (profile, 0)->process.cmdline, -1);
  sonde_capture_text_append_labelled (out, g_strcmp0 (scope, "launch") == 0 ? "Command" : "Process",
                                      cmdline);
}

void
sonde_capture_text_append_losses (GString *out, const SondeCaptureModel *model)
{
  static const SondeLedger stages[] = { SONDE_LEDGER_LOST_KERNEL, SONDE_LEDGER_LOST_RING,
                                        SONDE_LEDGER_LOST_QUEUE, SONDE_LEDGER_STREAM_SAMPLES_LOST };
  g_autoptr (GString) detail = g_string_new (NULL);
  g_autofree char *lost_text = NULL;
  g_autofree char *line = NULL;
  guint64 produced = 0;
  guint64 lost = 0;

  if (!sonde_capture_model_ledger (model, SONDE_LEDGER_PRODUCED, &produced))
    {
      sonde_capture_text_append_labelled (out, "Lost", "unknown: the capture has no ledger");
      return;
    }
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
    {
      sonde_capture_text_append_labelled (out, "Lost", "nothing");
      return;
    }
  lost_text = sonde_text_plural (lost, "sample", "samples");
  line = g_strdup_printf ("%s, %.1f%% (%s)", lost_text, sonde_text_percent (lost, produced),
                          detail->str);
  sonde_capture_text_append_labelled (out, "Lost", line);
}
