/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The graph of who calls whom, for Graphviz. Source: graphviz.org/doc/info/lang.html */
#include "client/export/export.h"

#include <stdlib.h>

#include "base/hash.h"
#include "client/base/text.h"
#include "client/report/profile-sums.h"

/* Per cent of all: what is lighter is left out, for a graph of everything is none to look at. */
#define LIMIT_PERCENT 0.5

typedef struct
{
  guint64 weight;     /* of the stacks with that call, however often */
  guint64 last_stack; /* the one that was counted last */
} Edge;

typedef struct
{
  const SondeProfile *profile;
  GHashTable *calls; /* caller << 32 | callee, in boxes → Edge */
  guint64 n_stacks;
} Graph;

static void
add_calls (const guint32 *ids, gsize n_ids, guint32 node, guint64 weight, gpointer user_data)
{
  Graph *self = user_data;

  self->n_stacks++;
  for (gsize i = 1; i < n_ids; i++)
    {
      gint64 key = (gint64) ((guint64) ids[i - 1] << 32 | ids[i]);
      Edge *call = g_hash_table_lookup (self->calls, &key);

      if (call == NULL)
        {
          call = g_new0 (Edge, 1);
          g_hash_table_insert (self->calls, g_memdup2 (&key, sizeof key), call);
        }
      if (call->last_stack != self->n_stacks)
        call->weight += weight;
      call->last_stack = self->n_stacks;
    }
}

/* Within double quotes; names are escaped already, so a backslash is one. */
static void
append_label (GString *out, const char *text)
{
  for (const char *at = text; *at != '\0'; at++)
    {
      if (*at == '"' || *at == '\\')
        g_string_append_c (out, '\\');
      g_string_append_c (out, *at);
    }
}

static gboolean
is_shown (const SondeProfile *profile, guint64 weight)
{
  return weight > 0 && sonde_text_percent (weight, sonde_profile_total (profile)) >= LIMIT_PERCENT;
}

static int
compare_keys (gconstpointer a, gconstpointer b)
{
  const gint64 *x = *(const gint64 *const *) a;
  const gint64 *y = *(const gint64 *const *) b;

  return (*x > *y) - (*x < *y);
}

gboolean
sonde_export_dot (SondeExportSource *source,
                  SondeUnit unit,
                  SondeExportOutput *output,
                  GError **error)
{
  g_autoptr (SondeProfile) profile = sonde_export_source_dup_profile (source, unit, error);
  g_autoptr (GHashTable) calls
      = g_hash_table_new_full (sonde_hash_number, g_int64_equal, g_free, g_free);
  g_auto (SondeProfileSums) sums = { 0 };
  Graph graph = { profile, calls, 0 };
  guint n_keys;
  g_autofree gint64 **keys = NULL;
  GString *out;

  if (profile == NULL)
    return FALSE;
  sonde_profile_sums_init (&sums, profile);
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    sonde_export_foreach_stack (sonde_profile_process (profile, i)->tree, add_calls, &graph);

  sonde_export_output_printf (output, "digraph sonde {\n"
                                      "  node [shape=box, style=filled, fontname=\"sans\"];\n"
                                      "  edge [fontname=\"sans\"];\n");
  out = output->text;
  for (guint32 i = 0; i < sonde_profile_n_functions (profile); i++)
    {
      const SondeFunction *function = sonde_profile_function (profile, i);
      double share = sonde_text_percent (sums.total[i], sonde_profile_total (profile));
      double own = sonde_text_percent (sums.self[i], sonde_profile_total (profile));

      if (!is_shown (profile, sums.total[i]))
        continue;
      g_string_append_printf (out, "  f%u [label=\"", i);
      append_label (out, function->name);
      g_string_append (out, "\\n");
      append_label (out, function->module);
      /* From white to red with its own share. */
      g_string_append_printf (
          out, "\\n%.1f%% (self %.1f%%, %" G_GUINT64_FORMAT ")\", fillcolor=\"0.05 %.2f 1.0\"];\n",
          share, own, sums.self[i], MIN (own / 30, 0.9));
      sonde_export_output_pass (output);
    }
  keys = (gint64 **) g_hash_table_get_keys_as_array (graph.calls, &n_keys);
  qsort (keys, n_keys, sizeof *keys, compare_keys);
  for (guint i = 0; i < n_keys; i++)
    {
      const Edge *call = g_hash_table_lookup (graph.calls, keys[i]);
      guint32 caller = (guint32) ((guint64) *keys[i] >> 32);
      guint32 callee = (guint32) *keys[i];
      double share = sonde_text_percent (call->weight, sonde_profile_total (graph.profile));

      if (is_shown (graph.profile, call->weight) && is_shown (graph.profile, sums.total[caller])
          && is_shown (graph.profile, sums.total[callee]))
        sonde_export_output_printf (output,
                                    "  f%u -> f%u [label=\"%.1f%%\", penwidth=%.1f, weight=%u];\n",
                                    caller, callee, share, 0.5 + share / 20, 1 + (guint) share);
    }
  sonde_export_output_printf (output, "}\n");
  return TRUE;
}
