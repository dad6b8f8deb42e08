/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-rows.h"

#include <string.h>

#include "client/base/text.h"
#include "client/report/profile-sums.h"
#include "client/report/profile-text.h"

#define FIRST_KEY 0xcbf29ce484222325u /* FNV-1a */
#define KEY_PRIME 0x100000001b3u

/* One tree of the profile, as it is walked. */
typedef struct
{
  SondeTopRows *rows;
  const SondeCallTree *tree;
  gboolean *has_match; /* by node: it, or something below it, is wanted */
  guint64 total;       /* of the whole profile */
} Walk;

/* Of a text below what has the key @key. Two with one key would only expand together. */
static guint64
hash_text (guint64 key, const char *text)
{
  for (; *text != '\0'; text++)
    key = (key ^ (guchar) *text) * KEY_PRIME;
  return (key ^ '\n') * KEY_PRIME;
}

static guint64
hash_function (guint64 key, const SondeFunction *function)
{
  return hash_text (hash_text (key, function->name), function->module);
}

static gboolean
is_filtered (const SondeTopRows *self)
{
  return self->options.filter[0] != '\0';
}

static SondeTopRows *
rows_new (const SondeProfile *profile, const SondeTopRowOptions *options)
{
  SondeTopRows *self = g_new0 (SondeTopRows, 1);
  guint32 n_functions = sonde_profile_n_functions (profile);

  self->profile = profile;
  self->options = *options;
  self->list = g_array_new (FALSE, FALSE, sizeof (SondeTopRow));
  self->texts = g_string_chunk_new (256);
  self->is_match = g_new (gboolean, n_functions);
  for (guint32 i = 0; i < n_functions; i++)
    {
      const SondeFunction *function = sonde_profile_function (profile, i);

      self->is_match[i] = strcasestr (function->name, options->filter) != NULL
                          || strcasestr (function->module, options->filter) != NULL;
    }
  return self;
}

void
sonde_top_rows_free (SondeTopRows *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->list);
  g_string_chunk_free (self->texts);
  g_free (self->is_match);
  g_free (self);
}

const SondeTopRow *
sonde_top_rows_get (const SondeTopRows *self, guint row)
{
  return &g_array_index (self->list, SondeTopRow, row);
}

/* Children come after their parents: downwards for what is below, upwards for what is above. */
static gboolean *
find_matches (SondeTopRows *self, const SondeCallTree *tree)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (tree);
  gboolean *has_match = g_new0 (gboolean, n_nodes);
  g_autofree gboolean *is_counted = g_new0 (gboolean, n_nodes);

  for (guint32 i = 1; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);

      has_match[i] = self->is_match[node->id];
      is_counted[i] = is_counted[node->parent] || has_match[i];
      if (has_match[i] && !is_counted[node->parent])
        self->matched += node->total;
    }
  for (guint32 i = n_nodes - 1; i > 0; i--)
    if (has_match[i])
      has_match[sonde_call_tree_node (tree, i)->parent] = TRUE;
  return has_match;
}

static int
compare_totals (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileSums *sums = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  if (sums->total[left] != sums->total[right])
    return sums->total[left] > sums->total[right] ? -1 : 1;
  if (sums->self[left] != sums->self[right])
    return sums->self[left] > sums->self[right] ? -1 : 1;
  return sonde_profile_compare_functions (a, b, (gpointer) sums->profile);
}

SondeTopRows *
sonde_top_rows_new_list (const SondeProfile *profile, const SondeTopRowOptions *options)
{
  SondeTopRows *self = rows_new (profile, options);
  g_auto (SondeProfileSums) sums = { 0 };

  sonde_profile_sums_init (&sums, profile);
  if (options->by_total)
    g_qsort_with_data (sums.order, (int) sums.n_functions, sizeof *sums.order, compare_totals,
                       &sums);
  for (guint32 i = 0; i < sums.n_functions; i++)
    {
      guint32 number = sums.order[i];
      const SondeFunction *function = sonde_profile_function (profile, number);
      SondeTopRow row = { .key = hash_function (FIRST_KEY, function),
                          .name = function->name,
                          .module = function->module,
                          .self = sums.self[number],
                          .total = sums.total[number] };

      if (row.total > 0 && self->is_match[number])
        g_array_append_val (self->list, row);
    }
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    g_free (find_matches (self, sonde_profile_process (profile, i)->tree));
  return self;
}

static gboolean
is_expanded (const SondeTopRows *self, guint64 key)
{
  return g_hash_table_contains ((GHashTable *) self->options.expanded, &key);
}

/* One row for all children from @first on. */
static void
append_rest (Walk *walk, const GArray *children, guint first, guint64 parent_key, guint indent)
{
  SondeTopRows *self = walk->rows;
  SondeTopRow row = { .key = hash_text (parent_key, ""), .module = "", .indent = indent };
  g_autofree char *text = g_strdup_printf ("[%u more]", children->len - first);

  for (guint i = first; i < children->len; i++)
    row.total += sonde_call_tree_node (walk->tree, g_array_index (children, guint32, i))->total;
  if (sonde_text_percent (row.total, walk->total) < SONDE_PROFILE_ASIDE_PERCENT)
    return;
  row.is_rest = TRUE;
  row.name = g_string_chunk_insert (self->texts, text);
  g_array_append_val (self->list, row);
}

/* Everything below @node, itself indented by @indent, that is to be seen; @is_wanted: because what
 * is above is what the filter looks for. Recursion is bounded by what reports show of a stack. */
static void
append_children (
    Walk *walk, guint32 node, guint64 parent_key, guint indent, guint depth, gboolean is_wanted)
{
  SondeTopRows *self = walk->rows;
  g_autoptr (GArray) children = sonde_call_tree_dup_children (
      walk->tree, node, sonde_profile_compare_functions, (gpointer) self->profile);
  guint n_heavy = 0;

  while (n_heavy < children->len
         && (is_filtered (walk->rows)
             || sonde_text_percent (
                    sonde_call_tree_node (walk->tree, g_array_index (children, guint32, n_heavy))
                        ->total,
                    walk->total)
                    >= SONDE_PROFILE_PERCENT_LIMIT))
    n_heavy++;
  /* what is the only one of weight goes on in the column of its caller, as in reports */
  if (depth > 0 && n_heavy > 1)
    indent++;
  if (n_heavy == 1 && children->len > 1)
    append_rest (walk, children, n_heavy, parent_key, indent);
  for (guint i = 0; i < n_heavy; i++)
    {
      guint32 child = g_array_index (children, guint32, i);
      const SondeCallNode *at = sonde_call_tree_node (walk->tree, child);
      const SondeFunction *function = sonde_profile_function (self->profile, at->id);
      gboolean is_match = self->is_match[at->id];
      SondeTopRow row = { .key = hash_function (parent_key, function),
                          .name = function->name,
                          .module = function->module,
                          .self = at->self,
                          .total = at->total,
                          .indent = indent,
                          .has_children = at->first_child != 0 };

      if (!is_wanted && !walk->has_match[child])
        continue;
      row.is_expanded
          = row.has_children && depth < SONDE_PROFILE_MAX_DEPTH
            && (is_expanded (self, row.key) || (is_filtered (self) && !is_match && !is_wanted));
      g_array_append_val (self->list, row);
      if (row.is_expanded)
        append_children (walk, child, row.key, indent, depth + 1, is_wanted || is_match);
    }
  if (n_heavy != 1 && n_heavy < children->len)
    append_rest (walk, children, n_heavy, parent_key, indent);
}

static void
append_process (SondeTopRows *self, const SondeProfileProcess *process)
{
  Walk walk = { .rows = self, .tree = process->tree, .total = sonde_profile_total (self->profile) };
  g_autofree gboolean *has_match = walk.has_match = find_matches (self, process->tree);
  g_autofree char *comm = sonde_text_escape (process->process.comm, -1);
  g_autofree char *name = g_strdup_printf ("%s (pid %d)", comm, process->process.pid);
  SondeTopRow row = { .key = hash_text (FIRST_KEY, name), .module = "", .has_children = TRUE };

  if (!has_match[0])
    return;
  if (process->process.pid < 0) /* of a view */
    {
      append_children (&walk, 0, FIRST_KEY, 0, 0, !is_filtered (self));
      return;
    }
  row.name = g_string_chunk_insert (self->texts, name);
  row.total = sonde_call_tree_node (process->tree, 0)->total;
  row.is_expanded = is_filtered (self) || !is_expanded (self, row.key);
  g_array_append_val (self->list, row);
  if (row.is_expanded)
    append_children (&walk, 0, row.key, 1, 0, !is_filtered (self));
}

SondeTopRows *
sonde_top_rows_new_tree (const SondeProfile *profile, const SondeTopRowOptions *options)
{
  SondeTopRows *self = rows_new (profile, options);
  guint64 total = sonde_profile_total (profile);
  guint n_processes = sonde_profile_n_processes (profile);
  guint n = 0;

  /* the heaviest process comes first */
  for (; n < n_processes; n++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, n);

      if (!is_filtered (self)
          && sonde_text_percent (sonde_call_tree_node (process->tree, 0)->total, total)
                 < SONDE_PROFILE_PERCENT_LIMIT)
        break;
      append_process (self, process);
    }
  if (n < n_processes)
    {
      g_autofree char *text = g_strdup_printf ("[%u more]", n_processes - n);
      SondeTopRow rest = { .key = hash_text (FIRST_KEY, ""), .module = "", .is_rest = TRUE };

      for (; n < n_processes; n++)
        rest.total += sonde_call_tree_node (sonde_profile_process (profile, n)->tree, 0)->total;
      rest.name = g_string_chunk_insert (self->texts, text);
      g_array_append_val (self->list, rest);
    }
  if (!is_filtered (self))
    self->matched = total;
  return self;
}
