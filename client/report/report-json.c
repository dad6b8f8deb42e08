/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A report as JSON for programs: docs/sondectl.1.rst has its members. */
#include "client/report/report-json.h"

#include "client/report/profile-json.h"
#include "client/base/text.h"

GString *
sonde_report_dup_json (const SondeReport *report,
                       const SondeProfile *shown,
                       gboolean as_rows,
                       double percent_limit)
{
  const SondeCaptureModel *model = sonde_report_model (report);
  GString *out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);
  g_autoptr (GKeyFile) file = NULL;
  g_auto (GStrv) keys = NULL;

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SONDE_REPORT_JSON_VERSION);
  file = sonde_capture_model_dup_settings (model);
  if (file != NULL)
    keys = g_key_file_get_keys (file, SONDE_CAPTURE_SETTINGS, NULL, NULL);

  sonde_json_begin_object (&json, "settings");
  for (guint i = 0; keys != NULL && keys[i] != NULL; i++)
    {
      g_autofree char *value = g_key_file_get_value (file, SONDE_CAPTURE_SETTINGS, keys[i], NULL);
      g_autofree char *key = sonde_text_escape (keys[i], -1);
      g_autofree char *text = sonde_text_escape (value != NULL ? value : "", -1);

      sonde_json_add_text (&json, key, text);
    }
  sonde_json_end_object (&json);
  sonde_json_begin_object (&json, "ledger");
  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    {
      guint64 value;

      if (sonde_capture_model_ledger (model, i, &value))
        sonde_json_add_number (&json, sonde_ledger_name (i), (gint64) value);
    }
  sonde_json_end_object (&json);
  sonde_json_add_number (&json, "duration-ns", sonde_capture_model_duration_ns (model));
  sonde_json_add_number (&json, "samples", (gint64) sonde_capture_model_n_samples (model));
  sonde_profile_json_add_truncated (&json, model);
  sonde_json_add_number (&json, "total", (gint64) sonde_profile_total (shown));
  if (as_rows)
    sonde_profile_json_add_rows (&json, "rows", shown, percent_limit);
  else
    sonde_profile_json_add_tree (&json, shown, percent_limit);
  sonde_json_end_object (&json);

  g_string_append_c (out, '\n');
  return out;
}
