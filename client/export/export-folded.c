/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Folded stacks: a line for each stack, "COMM-PID;OUTERMOST;…;LEAF WEIGHT", of several
 * processes "COMM", as FlameGraph's tools read them. Source: github.com/brendangregg/FlameGraph,
 * "Fold stacks" */
#include "client/export/export.h"

#include "client/base/text.h"

typedef struct
{
  const SondeProfile *profile;
  const SondeModelProcess *process;
  SondeExportOutput *output;
} Lines;

/* The separator in a name would make two of it. */
static void
append_name (GString *out, const char *name)
{
  sonde_export_append_replaced (out, name, ";", ':');
}

static void
write_stack (const guint32 *ids, gsize n_ids, guint32 node, guint64 weight, gpointer user_data)
{
  const Lines *self = user_data;
  GString *out = self->output->text;
  g_autofree char *comm = sonde_text_escape (self->process->comm, -1);

  append_name (out, comm);
  if (self->process->pid >= 0)
    g_string_append_printf (out, "-%d", self->process->pid);
  for (gsize i = 0; i < n_ids; i++)
    {
      g_string_append_c (out, ';');
      append_name (out, sonde_profile_function (self->profile, ids[i])->name);
    }
  g_string_append_printf (out, " %" G_GUINT64_FORMAT "\n", weight);
  sonde_export_output_pass (self->output);
}

gboolean
sonde_export_folded (SondeExportSource *source,
                     SondeUnit unit,
                     SondeExportOutput *output,
                     GError **error)
{
  g_autoptr (SondeProfile) profile = sonde_export_source_dup_profile (source, unit, error);

  if (profile == NULL)
    return FALSE;
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      Lines lines = { profile, &process->process, output };

      sonde_export_foreach_stack (process->tree, write_stack, &lines);
    }
  return TRUE;
}
