/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A profile as JSON for programs. */
#include "client/report/profile-json.h"

#include "client/report/profile-sums.h"
#include "client/base/text.h"

#define ABSENT G_MAXUINT32

typedef struct
{
  JsonBuilder *builder;
  const SondeProfile *profile;
  double percent_limit;
  guint32 *number_of; /* by function: its index in "functions", ABSENT before its first use */
  GArray *used;       /* guint32: functions by that index */
} Writer;

static void
add_number (JsonBuilder *builder, const char *member, guint64 value)
{
  json_builder_set_member_name (builder, member);
  json_builder_add_int_value (builder, (gint64) value);
}

static void
add_text (JsonBuilder *builder, const char *member, const char *text)
{
  json_builder_set_member_name (builder, member);
  json_builder_add_string_value (builder, text);
}

static void
add_escaped (JsonBuilder *builder, const char *member, const char *foreign)
{
  g_autofree char *text = sonde_text_escape (foreign, -1);

  add_text (builder, member, text);
}

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
  json_builder_set_member_name (self->builder, "nodes");
  json_builder_begin_array (self->builder);
  for (guint32 i = 1; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);

      if (!is_shown (self, node->total))
        continue;
      number_of[i] = n_shown++;
      json_builder_begin_object (self->builder);
      add_number (self->builder, "function", number_function (self, node->id));
      add_number (self->builder, "parent", (guint64) number_of[node->parent]);
      add_number (self->builder, "total", node->total);
      add_number (self->builder, "self", node->self);
      if (process->beside != NULL)
        add_number (self->builder, "beside", sonde_call_tree_node (process->beside, i)->total);
      json_builder_end_object (self->builder);
    }
  json_builder_end_array (self->builder);
}

static void
add_process (Writer *self, const SondeProfileProcess *process)
{
  guint64 total = sonde_call_tree_node (process->tree, 0)->total;

  if (!is_shown (self, total))
    return;
  json_builder_begin_object (self->builder);
  add_number (self->builder, "pid", (guint64) (gint64) process->process.pid);
  add_escaped (self->builder, "comm", process->process.comm);
  add_escaped (self->builder, "cmdline", process->process.cmdline);
  add_number (self->builder, "total", total);
  add_nodes (self, process);
  json_builder_end_object (self->builder);
}

static void
add_functions (const Writer *self)
{
  json_builder_set_member_name (self->builder, "functions");
  json_builder_begin_array (self->builder);
  for (guint i = 0; i < self->used->len; i++)
    {
      guint32 id = g_array_index (self->used, guint32, i);
      const SondeFunction *function = sonde_profile_function (self->profile, id);

      json_builder_begin_object (self->builder);
      add_text (self->builder, "name", function->name);
      add_text (self->builder, "module", function->module);
      add_text (self->builder, "source", function->source);
      json_builder_end_object (self->builder);
    }
  json_builder_end_array (self->builder);
}

void
sonde_profile_json_add_tree (JsonBuilder *builder,
                             const SondeProfile *profile,
                             double percent_limit)
{
  guint32 n_functions = sonde_profile_n_functions (profile);
  g_autofree guint32 *number_of = g_new (guint32, n_functions);
  g_autoptr (GArray) used = g_array_new (FALSE, FALSE, sizeof (guint32));
  Writer self = { builder, profile, percent_limit, number_of, used };

  for (guint32 i = 0; i < n_functions; i++)
    number_of[i] = ABSENT;
  json_builder_set_member_name (builder, "processes");
  json_builder_begin_array (builder);
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    add_process (&self, sonde_profile_process (profile, i));
  json_builder_end_array (builder);
  add_functions (&self);
}

void
sonde_profile_json_add_rows (JsonBuilder *builder,
                             const char *member,
                             const SondeProfile *profile,
                             double percent_limit)
{
  g_auto (SondeProfileSums) sums = { 0 };
  Writer self = { builder, profile, percent_limit, NULL, NULL };

  sonde_profile_sums_init (&sums, profile);
  json_builder_set_member_name (builder, member);
  json_builder_begin_array (builder);
  for (guint32 i = 0; i < sums.n_functions; i++)
    {
      guint32 id = sums.order[i];
      const SondeFunction *function = sonde_profile_function (profile, id);

      if (!is_shown (&self, sums.self[id]))
        continue;
      json_builder_begin_object (builder);
      add_text (builder, "name", function->name);
      add_text (builder, "module", function->module);
      add_text (builder, "source", function->source);
      add_number (builder, "self", sums.self[id]);
      add_number (builder, "total", sums.total[id]);
      if (sonde_profile_has_beside (profile))
        add_number (builder, "beside", sums.beside[id]);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}
