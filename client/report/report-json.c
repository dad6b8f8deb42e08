/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A report as JSON for programs: docs/sondectl.1.rst has its members. */
#include "client/report/report-json.h"

#include "client/report/profile-json.h"
#include "client/base/text.h"

static void
add_number (JsonBuilder *builder, const char *member, gint64 value)
{
  json_builder_set_member_name (builder, member);
  json_builder_add_int_value (builder, value);
}

static void
add_settings (JsonBuilder *builder, const SondeCaptureModel *model)
{
  g_autoptr (GKeyFile) file = sonde_capture_model_dup_settings (model);
  g_auto (GStrv) keys = NULL;

  if (file != NULL)
    keys = g_key_file_get_keys (file, SONDE_CAPTURE_SETTINGS, NULL, NULL);

  json_builder_set_member_name (builder, "settings");
  json_builder_begin_object (builder);
  for (guint i = 0; keys != NULL && keys[i] != NULL; i++)
    {
      g_autofree char *value = g_key_file_get_value (file, SONDE_CAPTURE_SETTINGS, keys[i], NULL);
      g_autofree char *key = sonde_text_escape (keys[i], -1);
      g_autofree char *text = sonde_text_escape (value != NULL ? value : "", -1);

      json_builder_set_member_name (builder, key);
      json_builder_add_string_value (builder, text);
    }
  json_builder_end_object (builder);
}

static void
add_ledger (JsonBuilder *builder, const SondeCaptureModel *model)
{
  json_builder_set_member_name (builder, "ledger");
  json_builder_begin_object (builder);
  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    {
      guint64 value;

      if (sonde_capture_model_ledger (model, i, &value))
        add_number (builder, sonde_ledger_name (i), (gint64) value);
    }
  json_builder_end_object (builder);
}

GString *
sonde_report_dup_json (const SondeReport *report,
                       const SondeProfile *shown,
                       gboolean as_rows,
                       double percent_limit)
{
  const SondeCaptureModel *model = sonde_report_model (report);
  g_autoptr (JsonBuilder) builder = json_builder_new_immutable ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = NULL;
  GString *out = g_string_new (NULL);

  json_builder_begin_object (builder);
  add_number (builder, "version", SONDE_REPORT_JSON_VERSION);
  add_settings (builder, model);
  add_ledger (builder, model);
  add_number (builder, "duration-ns", sonde_capture_model_duration_ns (model));
  add_number (builder, "samples", (gint64) sonde_capture_model_n_samples (model));
  add_number (builder, "total", (gint64) sonde_profile_total (shown));
  if (as_rows)
    sonde_profile_json_add_rows (builder, "rows", shown, percent_limit);
  else
    sonde_profile_json_add_tree (builder, shown, percent_limit);
  json_builder_end_object (builder);

  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_to_gstring (generator, out);
  g_string_append_c (out, '\n');
  return out;
}
