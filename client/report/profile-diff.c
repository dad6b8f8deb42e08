/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What became slower from one profile to another. */
#include "client/report/profile-diff.h"

#include <math.h>
#include <string.h>

#include "client/report/function-set.h"
#include "client/report/profile-sums.h"
#include "client/base/text.h"

enum
{
  BEFORE,
  AFTER,
  N_SIDES
};

typedef struct
{
  double share[N_SIDES]; /* percent */
} Shares;

struct SondeProfileDiff
{
  SondeFunctionSet *functions; /* of both profiles */
  Shares *functions_self;
  SondeCallTree *tree; /* of both */
  Shares *nodes;       /* by node: share of its total */
};

typedef struct
{
  GString *out;
  GString *prefix;
  const SondeProfileDiff *diff;
  const SondeProfileStyle *style;
  const gboolean *is_shown; /* by node */
  guint n_lines;
} Printer;

static double
change_of (const Shares *shares)
{
  return shares->share[AFTER] - shares->share[BEFORE];
}

static void
share_functions (SondeProfileDiff *self,
                 guint side,
                 const SondeProfile *profile,
                 const guint32 *numbers)
{
  g_auto (SondeProfileSums) sums = { 0 };

  sonde_profile_sums_init (&sums, profile);
  for (guint32 i = 0; i < sums.n_functions; i++)
    self->functions_self[numbers[i]].share[side]
        += sonde_text_percent (sums.self[i], sonde_profile_total (profile));
}

static void
add_trees (SondeProfileDiff *self, const SondeProfile *profile, const guint32 *numbers)
{
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    sonde_call_tree_add_tree (self->tree, sonde_profile_process (profile, i)->tree, numbers);
}

SondeProfileDiff *
sonde_profile_diff_new (const SondeProfile *before, const SondeProfile *after)
{
  SondeProfileDiff *self = g_new0 (SondeProfileDiff, 1);
  const SondeProfile *profiles[N_SIDES] = { before, after };
  g_autofree guint32 *old_numbers = NULL;
  g_autofree guint32 *new_numbers = NULL;
  g_autofree guint64 *old_totals = NULL;
  guint32 n_old;
  guint32 n_nodes;

  self->functions = sonde_function_set_new ();
  self->tree = sonde_call_tree_new (NULL);
  old_numbers = sonde_function_set_add (self->functions, before);
  new_numbers = sonde_function_set_add (self->functions, after);
  self->functions_self = g_new0 (Shares, sonde_function_set_size (self->functions));
  share_functions (self, BEFORE, before, old_numbers);
  share_functions (self, AFTER, after, new_numbers);

  add_trees (self, before, old_numbers);
  n_old = sonde_call_tree_n_nodes (self->tree);
  old_totals = g_new (guint64, n_old);
  for (guint32 i = 0; i < n_old; i++)
    old_totals[i] = sonde_call_tree_node (self->tree, i)->total;
  add_trees (self, after, new_numbers);
  /* A node of the tree weighs what both profiles added; n_old of them had weight before. */
  n_nodes = sonde_call_tree_n_nodes (self->tree);
  self->nodes = g_new0 (Shares, n_nodes);
  for (guint32 i = 0; i < n_nodes; i++)
    {
      guint64 total = sonde_call_tree_node (self->tree, i)->total;
      guint64 old = i < n_old ? old_totals[i] : 0;

      self->nodes[i].share[BEFORE]
          = sonde_text_percent (old, sonde_profile_total (profiles[BEFORE]));
      self->nodes[i].share[AFTER]
          = sonde_text_percent (total - old, sonde_profile_total (profiles[AFTER]));
    }
  return self;
}

void
sonde_profile_diff_free (SondeProfileDiff *self)
{
  if (self == NULL)
    return;
  sonde_function_set_free (self->functions);
  g_free (self->functions_self);
  sonde_call_tree_free (self->tree);
  g_free (self->nodes);
  g_free (self);
}

static int
compare_names (const SondeProfileDiff *self, guint32 a, guint32 b)
{
  const SondeFunction *left = sonde_function_set_get (self->functions, a);
  const SondeFunction *right = sonde_function_set_get (self->functions, b);
  int order = strcmp (left->name, right->name);

  return order != 0 ? order : strcmp (left->module, right->module);
}

static int
compare_functions (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileDiff *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  double difference
      = change_of (&self->functions_self[right]) - change_of (&self->functions_self[left]);

  return difference > 0 ? 1 : difference < 0 ? -1 : compare_names (self, left, right);
}

static void
append_shares (GString *out, const Shares *shares, const SondeProfileStyle *style)
{
  double change = change_of (shares);
  const char *colour = change > 0 ? "\033[31m" : "\033[32m";
  gboolean is_coloured = style->colours && fabs (change) >= style->percent_limit;

  g_string_append_printf (out, "%6.1f%% %6.1f%% %s%+7.1f%s  ", shares->share[BEFORE],
                          shares->share[AFTER], is_coloured ? colour : "", change,
                          is_coloured ? "\033[m" : "");
}

static gboolean
has_changed (const Shares *shares, const SondeProfileStyle *style)
{
  double change = fabs (change_of (shares));

  return change > 0 && change >= style->percent_limit;
}

void
sonde_profile_diff_append_functions (GString *out,
                                     const SondeProfileDiff *self,
                                     const SondeProfileStyle *style)
{
  guint n = sonde_function_set_size (self->functions);
  g_autofree guint32 *order = g_new (guint32, n);
  gboolean is_any = FALSE;

  for (guint32 i = 0; i < n; i++)
    order[i] = i;
  g_qsort_with_data (order, (int) n, sizeof *order, compare_functions, (gpointer) self);

  g_string_append_printf (out, "\n Before   After  Change  %-40s  Module\n", "Function (self)");
  for (guint i = 0; i < n; i++)
    {
      const SondeFunction *function = sonde_function_set_get (self->functions, order[i]);

      if (!has_changed (&self->functions_self[order[i]], style))
        continue;
      is_any = TRUE;
      append_shares (out, &self->functions_self[order[i]], style);
      g_string_append_printf (out, "%-40s  %s\n", function->name, function->module);
    }
  if (!is_any)
    g_string_append_printf (out, "No function changed by %.1f%% or more.\n", style->percent_limit);
}

static int
compare_nodes (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileDiff *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  double difference = change_of (&self->nodes[right]) - change_of (&self->nodes[left]);

  if (difference > 0 || difference < 0)
    return difference > 0 ? 1 : -1;
  return compare_names (self, sonde_call_tree_node (self->tree, left)->id,
                        sonde_call_tree_node (self->tree, right)->id);
}

/* (transfer full): guint32 nodes: the callees of @node that are shown, those that became slower
 * first. */
static GArray *
dup_shown (const Printer *printer, guint32 node)
{
  const SondeCallTree *tree = printer->diff->tree;
  GArray *shown = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 child = sonde_call_tree_node (tree, node)->first_child;

  for (; child != 0; child = sonde_call_tree_node (tree, child)->next_sibling)
    if (printer->is_shown[child])
      g_array_append_val (shown, child);
  g_array_sort_with_data (shown, compare_nodes, (gpointer) printer->diff);
  return shown;
}

static void
append_node (Printer *printer, guint32 node, const char *branch)
{
  const SondeFunction *function = sonde_function_set_get (
      printer->diff->functions, sonde_call_tree_node (printer->diff->tree, node)->id);

  printer->n_lines++;
  append_shares (printer->out, &printer->diff->nodes[node], printer->style);
  g_string_append_printf (printer->out, "%s%s%s\n", printer->prefix->str, branch, function->name);
}

/* Recursion is bounded by max_depth; a path without branches stays in one column. */
static void
append_below (Printer *printer, guint32 node, guint depth)
{
  gboolean utf8 = printer->style->utf8;

  for (; depth < printer->style->max_depth; depth++)
    {
      g_autoptr (GArray) shown = dup_shown (printer, node);
      gsize prefix_len = printer->prefix->len;

      if (printer->n_lines >= SONDE_MAX_LINES)
        return;
      if (shown->len == 1)
        {
          node = g_array_index (shown, guint32, 0);
          append_node (printer, node, "");
          continue;
        }
      for (guint i = 0; i < shown->len; i++)
        {
          gboolean is_last = i + 1 == shown->len;
          guint32 child = g_array_index (shown, guint32, i);

          append_node (printer, child, is_last ? (utf8 ? "└─ " : "`- ") : (utf8 ? "├─ " : "|- "));
          g_string_append (printer->prefix, is_last ? "   " : (utf8 ? "│  " : "|  "));
          append_below (printer, child, depth + 1);
          g_string_truncate (printer->prefix, prefix_len);
        }
      return;
    }
}

void
sonde_profile_diff_append_paths (GString *out,
                                 const SondeProfileDiff *self,
                                 const SondeProfileStyle *style)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (self->tree);
  g_autofree gboolean *is_shown = g_new0 (gboolean, n_nodes);
  g_autoptr (GString) prefix = g_string_new (NULL);
  Printer printer = { out, prefix, self, style, is_shown, 0 };

  /* children have larger numbers than their parents */
  for (guint32 i = n_nodes - 1; i > 0; i--)
    {
      is_shown[i] = is_shown[i] || has_changed (&self->nodes[i], style);
      if (is_shown[i])
        is_shown[sonde_call_tree_node (self->tree, i)->parent] = TRUE;
    }

  g_string_append (out, "\n Before   After  Change  Path (with callees)\n");
  if (is_shown[0])
    append_below (&printer, 0, 0);
  if (printer.n_lines >= SONDE_MAX_LINES)
    g_string_append_printf (out, "[more than %u lines: --percent-limit has fewer]\n",
                            SONDE_MAX_LINES);
  if (!is_shown[0])
    g_string_append_printf (out, "No path changed by %.1f%% or more.\n", style->percent_limit);
}
