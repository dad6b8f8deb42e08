/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The text of perf script: what scripts for perf read. Marks and counters have no place in it.
 * Source: perf-script(1), of Linux 6.1 */
#include "client/export/export.h"

#include "client/base/text.h"

#define NS_PER_S  G_GINT64_CONSTANT (1000000000)
#define NS_PER_US 1000

typedef struct
{
  SondeExportSource *source;
  SondeExportOutput *output;
  char *event;
  guint64 period; /* of each sample, in counts of the event */
} Script;

/* Readers look for the last space, or the first bracket. */
static void
append_word (GString *out, const char *text)
{
  sonde_export_append_replaced (out, text, " ()", '_');
}

static void
append_head (const Script *self, const SondeExportStack *stack, const char *event, guint64 period)
{
  GString *out = self->output->text;
  const SondeModelProcess *process
      = sonde_capture_model_process (self->source->model, stack->process);
  g_autofree char *comm = sonde_text_escape (process->comm, -1);
  gint64 time_ns = MAX (stack->time_ns, 0);

  append_word (out, comm);
  g_string_append_printf (
      out, " %d/%d %" G_GINT64_FORMAT ".%06" G_GINT64_FORMAT ": %" G_GUINT64_FORMAT " %s: \n",
      stack->pid, stack->tid, time_ns / NS_PER_S, time_ns % NS_PER_S / NS_PER_US, period, event);
}

static void
append_stack (const Script *self, const SondeExportStack *stack)
{
  GString *out = self->output->text;

  for (gsize i = stack->n_frames; i > 0; i--)
    {
      const SondeFunction *function
          = sonde_export_source_function (self->source, stack->functions[i - 1]);
      const SondeLocation *location
          = sonde_capture_model_location (self->source->model, stack->locations[i - 1]);

      g_string_append_printf (out, "\t%16" G_GINT64_MODIFIER "x ", location->address);
      g_string_append (out, function->name);
      g_string_append (out, " (");
      append_word (out, function->module[0] != '\0' ? function->module : "[unknown]");
      g_string_append (out, ")\n");
    }
  g_string_append_c (out, '\n');
  sonde_export_output_pass (self->output);
}

static void
write_sample (const SondeExportStack *sample, gpointer user_data)
{
  const Script *self = user_data;

  append_head (self, sample, self->event, self->period);
  append_stack (self, sample);
}

/* As the probes that people set on malloc() look, with the bytes for a period. */
static void
write_allocation (const SondeExportStack *allocation, gpointer user_data)
{
  const Script *self = user_data;

  append_head (self, allocation, "allocation", (guint64) allocation->size_bytes);
  append_stack (self, allocation);
}

/* cpu-clock counts ns, of which a rate has so many; of other events it is not known. */
static guint64
guess_period (const SondeExportSource *source, const char *event)
{
  g_autofree char *period = sonde_export_source_describe (source, "period", "0");
  g_autofree char *frequency = sonde_export_source_describe (source, "frequency", "0");
  guint64 given = g_ascii_strtoull (period, NULL, 10);
  guint64 rate = g_ascii_strtoull (frequency, NULL, 10);

  if (given > 0)
    return given;
  return g_str_equal (event, "cpu-clock") && rate > 0 ? (guint64) NS_PER_S / rate : 1;
}

gboolean
sonde_export_perf_script (SondeExportSource *source,
                          SondeUnit unit,
                          SondeExportOutput *output,
                          GError **error)
{
  static const SondeExportFuncs funcs = { .sample = write_sample, .allocation = write_allocation };
  g_autofree char *given = sonde_export_source_describe (source, "event", "samples");
  g_autofree char *event = sonde_text_escape (given, -1);
  Script script = { source, output, event, guess_period (source, event) };

  g_strdelimit (event, " ", '_');
  return sonde_export_source_run (source, &funcs, &script, error);
}
