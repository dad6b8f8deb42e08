/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* speedscope's own format: for each group of processes a profile of its samples, of what it
 * allocated, or of its calls.
 * Source: www.speedscope.app/file-format-schema.json */
#include "client/export/export.h"

#include "client/base/json.h"
#include "config.h"

#define MAX_PROFILES 50 /* of which one is chosen from a list; the lightest are one together */

typedef struct
{
  SondeExportOutput *output;
  guint32 n_functions;
  gboolean is_truncated; /* whether SONDE_TRUNCATED stands in any stack */
  GArray *weights;       /* guint64: of the stacks of the process at hand */
  guint64 sample_ns;     /* of CPU time; 0: not known */
  guint64 scale;         /* of the weights at hand */
} SpeedscopeWriter;

/* Function 0, which few captures need, is the last frame. */
static guint32
frame_of (SpeedscopeWriter *self, guint32 function)
{
  if (function != SONDE_CALL_TRUNCATED)
    return function - 1;
  self->is_truncated = TRUE;
  return self->n_functions - 1;
}

static void
write_stack (const guint32 *ids, gsize n_ids, guint32 node, guint64 weight, gpointer user_data)
{
  SpeedscopeWriter *self = user_data;
  GString *out = self->output->text;

  g_string_append (out, self->weights->len > 0 ? ",\n[" : "[");
  for (gsize i = 0; i < n_ids; i++)
    g_string_append_printf (out, "%s%u", i > 0 ? "," : "", frame_of (self, ids[i]));
  g_string_append_c (out, ']');
  if (!g_uint64_checked_mul (&weight, weight, self->scale))
    weight = G_MAXUINT64;
  g_array_append_val (self->weights, weight);
  sonde_export_output_pass (self->output);
}

/* By unit. */
static const struct
{
  const char *unit;
  const char *suffix; /* of the process's name */
} views[] = {
  [SONDE_UNIT_SAMPLES] = { "none", "" },
  [SONDE_UNIT_BYTES] = { "bytes", ", allocated" },
  [SONDE_UNIT_CALLS] = { "none", ", calls" },
  [SONDE_UNIT_SELF] = { "nanoseconds", ", time of calls" },
};

static void
write_process (SpeedscopeWriter *self,
               const SondeProfileProcess *process,
               SondeUnit unit,
               gboolean is_first)
{
  SondeExportOutput *output = self->output;
  g_autofree char *label = sonde_profile_process_dup_label (process);
  g_autofree char *name = g_strconcat (label, views[unit].suffix, NULL);
  GString *out = output->text;

  gboolean is_time = unit == SONDE_UNIT_SAMPLES && self->sample_ns > 0;
  guint64 total;

  self->scale = is_time ? self->sample_ns : 1;
  if (!g_uint64_checked_mul (&total, sonde_call_tree_node (process->tree, 0)->total, self->scale))
    total = G_MAXUINT64;
  g_array_set_size (self->weights, 0);
  g_string_append_printf (out, "%s\n{\"type\":\"sampled\",\"name\":", is_first ? "" : ",");
  sonde_json_append_escaped (out, name);
  g_string_append_printf (
      out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" G_GUINT64_FORMAT ",\"samples\":[",
      is_time ? "nanoseconds" : views[unit].unit, total);
  sonde_export_foreach_stack (process->tree, write_stack, self);
  g_string_append (out, "],\n\"weights\":[");
  for (guint i = 0; i < self->weights->len; i++)
    sonde_export_output_printf (output, "%s%" G_GUINT64_FORMAT, i > 0 ? "," : "",
                                g_array_index (self->weights, guint64, i));
  sonde_export_output_printf (output, "]}");
}

static void
write_frames (const SpeedscopeWriter *self, const SondeExportSource *source)
{
  SondeExportOutput *output = self->output;
  GString *out = output->text;
  guint32 n_frames = self->n_functions - (self->is_truncated ? 0 : 1);

  for (guint32 i = 0; i < n_frames; i++)
    {
      const SondeFunction *function
          = sonde_export_source_function (source, (i + 1) % self->n_functions);

      g_string_append (out, i > 0 ? ",\n{\"name\":" : "\n{\"name\":");
      sonde_json_append_escaped (out, function->name);
      g_string_append (out, ",\"file\":");
      sonde_json_append_escaped (out, function->module);
      g_string_append_c (out, '}');
      sonde_export_output_pass (output);
    }
}

gboolean
sonde_export_speedscope (SondeExportSource *source,
                         SondeUnit unit,
                         SondeExportOutput *output,
                         GError **error)
{
  static const SondeUnit units[]
      = { SONDE_UNIT_SAMPLES, SONDE_UNIT_BYTES, SONDE_UNIT_SELF, SONDE_UNIT_CALLS };
  g_autoptr (GArray) weights = g_array_new (FALSE, FALSE, sizeof (guint64));
  SpeedscopeWriter receiver = { .output = output,
                                .n_functions = source->n_functions,
                                .weights = weights,
                                .sample_ns = sonde_export_source_sample_ns (source) };
  gboolean is_first = TRUE;
  guint n_units = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    n_units += sonde_export_source_count (source, units[i]) > 0;
  sonde_export_output_printf (output,
                              "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                              "\"exporter\":\"sondectl " SONDE_VERSION "\",\n\"profiles\":[");
  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    {
      g_autoptr (SondeProfile) profile = NULL;

      if (sonde_export_source_count (source, units[i]) == 0)
        continue;
      profile = sonde_export_source_dup_profile (source, units[i], error);
      if (profile == NULL)
        return FALSE;
      sonde_profile_limit (profile, MAX_PROFILES / n_units);
      for (guint k = 0; k < sonde_profile_n_processes (profile); k++)
        {
          write_process (&receiver, sonde_profile_process (profile, k), units[i], is_first);
          is_first = FALSE;
        }
    }
  sonde_export_output_printf (output, "],\n\"shared\":{\"frames\":[");
  write_frames (&receiver, source);
  sonde_export_output_printf (output, "]}}\n");
  return TRUE;
}
