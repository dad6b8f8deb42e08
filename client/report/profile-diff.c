/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile-diff.h"

#include <math.h>

#include "client/report/profile-sums.h"
#include "client/base/text.h"
#include "client/names/short-name.h"
#include "client/report/profile.h"

#define SHARES_WIDTH 25 /* columns of a row before its text */

/* The functions of both profiles, equal ones once: name, module and source line are the same. */
typedef struct
{
  GPtrArray *functions; /* const SondeFunction */
  GHashTable *by_name;  /* "NAME\nMODULE\nSOURCE", without other newlines → number */
} FunctionSet;

static FunctionSet
function_set_make (void)
{
  return (FunctionSet){ .functions = g_ptr_array_new (),
                        .by_name
                        = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL) };
}

static void
function_set_clear (FunctionSet *self)
{
  g_ptr_array_unref (self->functions);
  g_hash_table_unref (self->by_name);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FunctionSet, function_set_clear)

/**
 * function_set_add:
 * @profile: (transfer none): kept by the caller as long as the set
 *
 * Returns: (transfer full): by function of @profile its number in the set
 */
static guint32 *
function_set_add (FunctionSet *self, const SondeProfile *profile)
{
  guint32 n = sonde_profile_n_functions (profile);
  guint32 *numbers = g_new (guint32, n);

  for (guint32 i = 0; i < n; i++)
    {
      const SondeFunction *function = sonde_profile_function (profile, i);
      g_autofree char *key
          = g_strdup_printf ("%s\n%s\n%s", function->name, function->module, function->source);
      gpointer found;

      if (!g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
        {
          found = GUINT_TO_POINTER (self->functions->len);
          g_hash_table_insert (self->by_name, g_steal_pointer (&key), found);
          g_ptr_array_add (self->functions, (gpointer) function);
        }
      numbers[i] = GPOINTER_TO_UINT (found);
    }
  return numbers;
}

/* The processes of one name, in both profiles. */
typedef struct
{
  SondeCallTree *before;
  SondeCallTree *both; /* its first nodes are those of before */
} Group;

static void
group_free (gpointer data)
{
  Group *group = data;

  sonde_call_tree_free (group->before);
  sonde_call_tree_free (group->both);
  g_free (group);
}

static void
add_profile (GHashTable *groups,
             const SondeProfile *profile,
             const guint32 *numbers,
             gboolean is_before)
{
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      Group *group = g_hash_table_lookup (groups, process->process.comm);

      if (group == NULL)
        {
          group = g_new0 (Group, 1);
          group->before = sonde_call_tree_new (NULL);
          group->both = sonde_call_tree_new (NULL);
          g_hash_table_insert (groups, g_strdup (process->process.comm), group);
        }
      if (is_before)
        sonde_call_tree_add_tree (group->before, process->tree, numbers);
      sonde_call_tree_add_tree (group->both, process->tree, numbers);
    }
}

/* (transfer full): NULL if nothing grew */
static SondeCallTree *
dup_grown (const Group *group)
{
  g_autoptr (SondeCallTree) grown = sonde_call_tree_new (NULL);
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 n_before = sonde_call_tree_n_nodes (group->before);

  for (guint32 i = 0; i < sonde_call_tree_n_nodes (group->both); i++)
    {
      guint64 before = i < n_before ? sonde_call_tree_node (group->before, i)->self : 0;
      guint64 after = sonde_call_tree_node (group->both, i)->self - before;
      guint n = 0;

      if (after <= before)
        continue;
      /* The path has the ids from the root to the node. */
      for (guint32 at = i; at != 0; at = sonde_call_tree_node (group->both, at)->parent)
        n++;
      g_array_set_size (path, n);
      for (guint32 at = i; at != 0; at = sonde_call_tree_node (group->both, at)->parent)
        g_array_index (path, guint32, --n) = sonde_call_tree_node (group->both, at)->id;
      sonde_call_tree_add (grown, (const guint32 *) (void *) path->data, path->len, after - before);
    }
  return sonde_call_tree_node (grown, 0)->total > 0 ? g_steal_pointer (&grown) : NULL;
}

SondeProfile *
sonde_profile_dup_growth (const SondeProfile *before, const SondeProfile *after)
{
  SondeProfile *growth = sonde_profile_new (sonde_profile_unit (after), NULL);
  g_auto (FunctionSet) set = function_set_make ();
  g_autofree guint32 *old_numbers = function_set_add (&set, before);
  g_autofree guint32 *new_numbers = function_set_add (&set, after);
  g_autoptr (GHashTable) groups
      = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, group_free);
  GHashTableIter iter;
  gpointer comm;
  gpointer group;

  for (guint32 i = 0; i < set.functions->len; i++)
    sonde_profile_add_function (growth, g_ptr_array_index (set.functions, i));
  add_profile (groups, before, old_numbers, TRUE);
  add_profile (groups, after, new_numbers, FALSE);

  g_hash_table_iter_init (&iter, groups);
  while (g_hash_table_iter_next (&iter, &comm, &group))
    {
      SondeModelProcess process = { .pid = -1, .comm = comm, .cmdline = comm };
      SondeCallTree *grown = dup_grown (group);

      if (grown != NULL)
        sonde_profile_add_process (growth, &process, SONDE_TID_ALL, grown, NULL);
    }
  sonde_profile_sort (growth);
  return growth;
}

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
  FunctionSet set; /* of both profiles */
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
  SondeShortNames *names;
  guint n_lines;
} DiffPrinter;

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

  self->set = function_set_make ();
  self->tree = sonde_call_tree_new (NULL);
  old_numbers = function_set_add (&self->set, before);
  new_numbers = function_set_add (&self->set, after);
  self->functions_self = g_new0 (Shares, self->set.functions->len);
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
  function_set_clear (&self->set);
  g_free (self->functions_self);
  sonde_call_tree_free (self->tree);
  g_free (self->nodes);
  g_free (self);
}

static int
compare_names (const SondeProfileDiff *self, guint32 a, guint32 b)
{
  return sonde_function_compare (g_ptr_array_index (self->set.functions, a),
                                 g_ptr_array_index (self->set.functions, b));
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

/* What stands behind the shares: no wider than the terminal. */
static void
append_row (GString *out, const SondeProfileStyle *style, const char *text, const char *module)
{
  g_autofree char *whole
      = module[0] != '\0' ? g_strdup_printf ("%-40s  %s", text, module) : g_strdup (text);
  g_autofree char *fit
      = style->width > 0 ? sonde_short_name_fit (
            whole, MAX (style->width, SHARES_WIDTH + 1) - SHARES_WIDTH, style->utf8)
                         : g_strdup (whole);

  g_string_append_printf (out, "%s\n", fit);
}

void
sonde_profile_diff_append_functions (GString *out,
                                     const SondeProfileDiff *self,
                                     const SondeProfileStyle *style)
{
  guint n = self->set.functions->len;
  g_autofree guint32 *order = g_new (guint32, n);
  gboolean is_any = FALSE;
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);

  for (guint32 i = 0; i < n; i++)
    {
      order[i] = i;
      if (has_changed (&self->functions_self[i], style))
        sonde_short_names_add (names,
                               ((const SondeFunction *) self->set.functions->pdata[i])->name);
    }
  g_qsort_with_data (order, (int) n, sizeof *order, compare_functions, (gpointer) self);

  g_string_append_printf (out, "\n Before   After  Change  %-40s  Module\n", "Function (self)");
  for (guint i = 0; i < n; i++)
    {
      const SondeFunction *function = g_ptr_array_index (self->set.functions, order[i]);

      if (!has_changed (&self->functions_self[order[i]], style))
        continue;
      is_any = TRUE;
      append_shares (out, &self->functions_self[order[i]], style);
      append_row (out, style, sonde_short_names_get (names, function->name), function->module);
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
dup_shown (const DiffPrinter *printer, guint32 node)
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
append_node (DiffPrinter *printer, guint32 node, const char *branch)
{
  const SondeFunction *function = g_ptr_array_index (
      printer->diff->set.functions, sonde_call_tree_node (printer->diff->tree, node)->id);
  g_autofree char *text = NULL;

  printer->n_lines++;
  append_shares (printer->out, &printer->diff->nodes[node], printer->style);
  text = g_strconcat (printer->prefix->str, branch,
                      sonde_short_names_get (printer->names, function->name), NULL);
  append_row (printer->out, printer->style, text, "");
}

/* Recursion is bounded by max_depth; a path without branches stays in one column. */
static void
append_below (DiffPrinter *printer, guint32 node, guint depth)
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
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);
  DiffPrinter printer = { out, prefix, self, style, is_shown, names, 0 };

  /* children have larger numbers than their parents */
  for (guint32 i = n_nodes - 1; i > 0; i--)
    {
      is_shown[i] = is_shown[i] || has_changed (&self->nodes[i], style);
      if (is_shown[i])
        is_shown[sonde_call_tree_node (self->tree, i)->parent] = TRUE;
    }

  for (guint32 i = 1; i < n_nodes; i++)
    if (is_shown[i])
      {
        const SondeFunction *function
            = self->set.functions->pdata[sonde_call_tree_node (self->tree, i)->id];

        sonde_short_names_add (names, function->name);
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
