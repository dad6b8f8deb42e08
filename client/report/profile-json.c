/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile-json.h"

#include "client/report/profile-sums.h"
#include "client/base/text.h"

#define ABSENT G_MAXUINT32

typedef struct
{
  SondeJson *json;
  const SondeProfile *profile;
  double percent_limit;
  guint32 *number_of; /* by function: its index in "functions", ABSENT before its first use */
  GArray *used;       /* guint32: functions by that index */
} Writer;

static gboolean
is_shown (const Writer *self, guint64 weight)
{
  return weight > 0
         && sonde_text_percent (weight, sonde_profile_total (self->profile)) >= self->percent_limit;
}

static guint32
number_function (Writer *self, guint32 function)
{
  if (self->number_of[function] == ABSENT)
    {
      self->number_of[function] = self->used->len;
      g_array_append_val (self->used, function);
    }
  return self->number_of[function];
}

/* A child never weighs more than its parent, so the parent of what is shown is shown. */
static void
add_nodes (Writer *self, const SondeProfileProcess *process)
{
  const SondeCallTree *tree = process->tree;
  guint32 n_nodes = sonde_call_tree_n_nodes (tree);
  g_autofree gint64 *number_of = g_new (gint64, n_nodes);
  gint64 n_shown = 0;

  number_of[0] = -1;
  sonde_json_begin_array (self->json, "nodes");
  for (guint32 i = 1; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);

      if (!is_shown (self, node->total))
        continue;
      number_of[i] = n_shown++;
      sonde_json_begin_object (self->json, NULL);
      sonde_json_add_number (self->json, "function", number_function (self, node->id));
      sonde_json_add_number (self->json, "parent", number_of[node->parent]);
      sonde_json_add_number (self->json, "total", (gint64) node->total);
      sonde_json_add_number (self->json, "self", (gint64) node->self);
      if (process->beside != NULL)
        sonde_json_add_number (self->json, "beside",
                               (gint64) sonde_call_tree_node (process->beside, i)->total);
      sonde_json_end_object (self->json);
    }
  sonde_json_end_array (self->json);
}

void
sonde_profile_json_add_tree (SondeJson *json, const SondeProfile *profile, double percent_limit)
{
  guint32 n_functions = sonde_profile_n_functions (profile);
  g_autofree guint32 *number_of = g_new (guint32, n_functions);
  g_autoptr (GArray) used = g_array_new (FALSE, FALSE, sizeof (guint32));
  Writer self = { json, profile, percent_limit, number_of, used };

  for (guint32 i = 0; i < n_functions; i++)
    number_of[i] = ABSENT;
  sonde_json_begin_array (json, "processes");
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      guint64 total = sonde_call_tree_node (process->tree, 0)->total;

      if (!is_shown (&self, total))
        continue;
      sonde_json_begin_object (self.json, NULL);
      sonde_json_add_number (self.json, "pid", process->process.pid);
      sonde_json_add_escaped (self.json, "comm", process->process.comm);
      sonde_json_add_escaped (self.json, "cmdline", process->process.cmdline);
      sonde_json_add_number (self.json, "processes", process->n_processes);
      sonde_json_add_number (self.json, "total", (gint64) total);
      add_nodes (&self, process);
      sonde_json_end_object (self.json);
    }
  sonde_json_end_array (json);
  sonde_json_begin_array (self.json, "functions");
  for (guint i = 0; i < self.used->len; i++)
    {
      guint32 id = g_array_index (self.used, guint32, i);
      const SondeFunction *function = sonde_profile_function (self.profile, id);

      sonde_json_begin_object (self.json, NULL);
      sonde_json_add_text (self.json, "name", function->name);
      sonde_json_add_text (self.json, "module", function->module);
      sonde_json_add_text (self.json, "source", function->source);
      sonde_json_end_object (self.json);
    }
  sonde_json_end_array (self.json);
}

void
sonde_profile_json_add_rows (SondeJson *json,
                             const char *member,
                             const SondeProfile *profile,
                             double percent_limit)
{
  g_auto (SondeProfileSums) sums = { 0 };
  Writer self = { json, profile, percent_limit, NULL, NULL };

  sonde_profile_sums_init (&sums, profile);
  sonde_json_begin_array (json, member);
  for (guint32 i = 0; i < sums.n_functions; i++)
    {
      guint32 id = sums.order[i];
      const SondeFunction *function = sonde_profile_function (profile, id);

      if (!is_shown (&self, sums.self[id]))
        continue;
      sonde_json_begin_object (json, NULL);
      sonde_json_add_text (json, "name", function->name);
      sonde_json_add_text (json, "module", function->module);
      sonde_json_add_text (json, "source", function->source);
      sonde_json_add_number (json, "self", (gint64) sums.self[id]);
      sonde_json_add_number (json, "total", (gint64) sums.total[id]);
      if (sonde_profile_has_beside (profile))
        sonde_json_add_number (json, "beside", (gint64) sums.beside[id]);
      sonde_json_end_object (json);
    }
  sonde_json_end_array (json);
}

void
sonde_profile_json_add_truncated (SondeJson *json, const SondeCaptureModel *model)
{
  const SondeBudget *budget = sonde_capture_model_budget (model);

  sonde_json_begin_object (json, "truncated");
  for (guint i = 0; i < SONDE_N_LIMITS; i++)
    {
      g_autofree char *name = sonde_limit_dup_name (i);

      if (budget->n_cut[i] > 0)
        sonde_json_add_number (json, name, (gint64) budget->n_cut[i]);
    }
  sonde_json_end_object (json);
}
