/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The frames of a flame graph: one tree of functions below the processes of one or two captures. */
#include "client/flame/flame-graph.h"

#include <string.h>

#include "client/base/text.h"

#define N_LOGS 2

struct SondeFlameGraph
{
  GPtrArray *functions; /* SondeFlameFunction */
  GArray *nodes;        /* SondeFlameNode */
  GPtrArray *places;    /* guint32[] or NULL, by process: node of the log's tree → node */
  guint64 totals[N_LOGS];
  guint64 threshold;
};

/* A node while the graph is built, by its number in the tree of all. */
typedef struct
{
  guint64 self[N_LOGS];
  guint64 total[N_LOGS];
  guint64 light[N_LOGS]; /* of children that are summed up */
  guint32 first_child;   /* of those that stay, heaviest first; 0: none */
  guint32 next_sibling;
  guint32 place; /* in the graph */
} Draft;

/* The functions of each location of a log, outermost first: several where some are inlined. */
typedef struct
{
  GArray *functions; /* guint32 */
  guint32 *starts;   /* by location, and one more: indices of functions */
} Names;

typedef struct
{
  SondeFlameGraph *graph;
  const SondeSymbolOptions *symbols;
  GArray *source_weights; /* guint64, by function: samples at the line that is its source */
  GHashTable *by_name;    /* "KIND NAME\nMODULE" → number of a function */
  SondeCallTree *tree;    /* of functions, processes being the outermost */
  Draft *drafts;
  guint64 threshold;
  guint32 light_function;
  gboolean is_compared;
} Builder;

static void
function_free (gpointer data)
{
  SondeFlameFunction *function = data;

  if (function == NULL)
    return;
  g_free (function->name);
  g_free (function->module);
  g_free (function->source);
  g_free (function);
}

static guint32
ensure_function (Builder *self, SondeFlameKind kind, const char *name, const char *module)
{
  g_autofree char *key = g_strdup_printf ("%d %s\n%s", kind, name, module);
  GPtrArray *functions = self->graph->functions;
  const guint64 no_weight = 0;
  SondeFlameFunction *function;
  gpointer found;

  if (g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
    return GPOINTER_TO_UINT (found);
  function = g_new0 (SondeFlameFunction, 1);
  function->name = g_strdup (name);
  function->module = g_strdup (module);
  function->source = g_strdup ("");
  function->kind = kind;
  g_array_append_val (self->source_weights, no_weight);
  g_hash_table_insert (self->by_name, g_steal_pointer (&key), GUINT_TO_POINTER (functions->len));
  g_ptr_array_add (functions, function);
  return functions->len - 1;
}

/* Why a stack does not reach its outermost frame; docs/protocol.md has the names. */
static gboolean
is_incomplete (const char *name)
{
  static const char *const names[]
      = { "[stack truncated]", "[no unwind data]", "[unwind error]", "[depth limit]", NULL };

  return g_strv_contains (names, name);
}

/* The samples of each location, callers included. */
static guint64 *
dup_location_weights (const SondeSampleLog *log)
{
  const SondeCaptureModel *model = sonde_sample_log_model (log);
  guint64 *weights = g_new0 (guint64, sonde_capture_model_n_locations (model));

  for (guint process = 0; process < sonde_capture_model_n_processes (model); process++)
    {
      const SondeCallTree *tree = sonde_sample_log_tree (log, process);

      for (guint32 i = 1; tree != NULL && i < sonde_call_tree_n_nodes (tree); i++)
        weights[sonde_call_tree_node (tree, i)->id] += sonde_call_tree_node (tree, i)->total;
    }
  return weights;
}

/* The number of @function, whose line is that of a location with @weight samples. */
static guint32
take_function (Builder *self,
               const SondeFunction *function,
               gboolean in_kernel,
               guint64 weight_of_line)
{
  SondeFlameKind kind = SONDE_FLAME_USER;
  SondeFlameFunction *taken;
  guint64 *weight;
  guint32 number;

  if (in_kernel)
    kind = SONDE_FLAME_KERNEL;
  else if (is_incomplete (function->name))
    kind = SONDE_FLAME_INCOMPLETE;
  number = ensure_function (self, kind, function->name, function->module);
  taken = g_ptr_array_index (self->graph->functions, number);
  weight = &g_array_index (self->source_weights, guint64, number);
  if (*function->source != '\0' && weight_of_line > *weight)
    {
      g_free (taken->source);
      taken->source = g_strdup (function->source);
      *weight = weight_of_line;
    }
  return number;
}

static void
look_up_names (Builder *self, const SondeSampleLog *log, Names *names)
{
  const SondeCaptureModel *model = sonde_sample_log_model (log);
  g_autoptr (SondeSymbolResolver) resolver = sonde_symbol_resolver_new (model, self->symbols);
  g_autofree guint64 *weights = dup_location_weights (log);
  guint32 n_locations = sonde_capture_model_n_locations (model);

  names->functions = g_array_new (FALSE, FALSE, sizeof (guint32));
  names->starts = g_new (guint32, n_locations + 1);
  for (guint32 i = 0; i < n_locations; i++)
    {
      gboolean in_kernel = sonde_capture_model_location (model, i)->in_kernel;

      names->starts[i] = names->functions->len;
      sonde_symbol_resolver_resolve_all (resolver, i, names->functions);
      for (guint at = names->starts[i]; at < names->functions->len; at++)
        {
          guint32 *number = &g_array_index (names->functions, guint32, at);

          *number = take_function (self, sonde_symbol_resolver_function (resolver, *number),
                                   in_kernel, weights[i]);
        }
    }
  names->starts[n_locations] = names->functions->len;
}

static void
names_clear (Names *names)
{
  g_array_unref (names->functions);
  g_free (names->starts);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Names, names_clear)

static guint32
ensure_process (Builder *self, const SondeModelProcess *process)
{
  g_autofree char *comm = sonde_text_escape (process->comm, -1);
  g_autofree char *name = self->is_compared ? g_steal_pointer (&comm)
                                            : g_strdup_printf ("%s (%d)", comm, process->pid);

  return sonde_call_tree_ensure_child (self->tree, 0,
                                       ensure_function (self, SONDE_FLAME_PROCESS, name, ""));
}

/* Adds @log's trees to that of all. Returns: by process, where each of its nodes went */
static GPtrArray *
merge_log (Builder *self, const SondeSampleLog *log)
{
  const SondeCaptureModel *model = sonde_sample_log_model (log);
  GPtrArray *places = g_ptr_array_new_with_free_func (g_free);
  g_auto (Names) names = { 0 };

  look_up_names (self, log, &names);
  for (guint process = 0; process < sonde_capture_model_n_processes (model); process++)
    {
      const SondeCallTree *tree = sonde_sample_log_tree (log, process);
      guint32 *place;

      g_ptr_array_add (places, NULL);
      if (tree == NULL)
        continue;
      place = g_new (guint32, sonde_call_tree_n_nodes (tree));
      place[0] = ensure_process (self, sonde_capture_model_process (model, process));
      for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
        {
          const SondeCallNode *node = sonde_call_tree_node (tree, i);

          place[i] = place[node->parent];
          for (guint32 at = names.starts[node->id]; at < names.starts[node->id + 1]; at++)
            place[i] = sonde_call_tree_ensure_child (self->tree, place[i],
                                                     g_array_index (names.functions, guint32, at));
        }
      g_ptr_array_index (places, process) = place;
    }
  return places;
}

static void
add_weights (Builder *self, const SondeSampleLog *log, const GPtrArray *places, guint which)
{
  for (guint process = 0; process < places->len; process++)
    {
      const guint32 *place = g_ptr_array_index (places, process);
      const SondeCallTree *tree = sonde_sample_log_tree (log, process);

      if (place == NULL)
        continue;
      for (guint32 i = 0; i < sonde_call_tree_n_nodes (tree); i++)
        self->drafts[place[i]].self[which] += sonde_call_tree_node (tree, i)->self;
    }
}

static guint64
weight (const Draft *draft)
{
  return draft->total[0] + draft->total[1];
}

/* Totals from the leaves up: children have larger numbers than their parents. */
static void
sum_up (Builder *self)
{
  for (guint32 i = sonde_call_tree_n_nodes (self->tree); i-- > 0;)
    {
      Draft *draft = &self->drafts[i];
      Draft *parent = &self->drafts[sonde_call_tree_node (self->tree, i)->parent];

      for (guint which = 0; which < N_LOGS; which++)
        {
          draft->total[which] += draft->self[which];
          if (i > 0)
            parent->total[which] += draft->total[which];
        }
    }
}

static guint64
choose_threshold (const Builder *self, guint32 max_nodes)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (self->tree);

  for (guint64 threshold = 1;; threshold *= 2)
    {
      guint32 n_kept = 0;

      for (guint32 i = 1; i < n_nodes; i++)
        n_kept += weight (&self->drafts[i]) >= threshold;
      if (n_kept <= max_nodes)
        return threshold;
    }
}

static int
compare_weights (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Builder *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  guint64 left_weight = weight (&self->drafts[left]);
  guint64 right_weight = weight (&self->drafts[right]);

  if (left_weight != right_weight)
    return left_weight < right_weight ? -1 : 1;
  return left < right ? 1 : -1;
}

/* Threads the nodes that stay into lists below their parents; the others become weight there. */
static void
link_children (Builder *self)
{
  g_autoptr (GArray) kept = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint32 i = 1; i < sonde_call_tree_n_nodes (self->tree); i++)
    {
      Draft *parent = &self->drafts[sonde_call_tree_node (self->tree, i)->parent];

      if (weight (&self->drafts[i]) >= self->threshold)
        g_array_append_val (kept, i);
      else if (parent == &self->drafts[0] || weight (parent) >= self->threshold)
        for (guint which = 0; which < N_LOGS; which++)
          parent->light[which] += self->drafts[i].total[which];
    }

  /* lightest first, each put in front of the others: heaviest first */
  g_array_sort_with_data (kept, compare_weights, self);
  for (guint i = 0; i < kept->len; i++)
    {
      guint32 node = g_array_index (kept, guint32, i);
      Draft *parent = &self->drafts[sonde_call_tree_node (self->tree, node)->parent];

      self->drafts[node].next_sibling = parent->first_child;
      parent->first_child = node;
    }
}

static void
append_node (Builder *self, guint32 number, guint32 depth)
{
  Draft *draft = &self->drafts[number];
  SondeFlameNode node
      = { .function = sonde_call_tree_node (self->tree, number)->id, .depth = depth };

  memcpy (node.self, draft->self, sizeof node.self);
  memcpy (node.total, draft->total, sizeof node.total);
  draft->place = self->graph->nodes->len;
  g_array_append_val (self->graph->nodes, node);
}

static void
append_light (Builder *self, const Draft *draft, guint32 depth)
{
  SondeFlameNode node = { .function = self->light_function, .depth = depth };

  if (draft->light[0] + draft->light[1] == 0)
    return;
  memcpy (node.self, draft->light, sizeof node.self);
  memcpy (node.total, draft->light, sizeof node.total);
  g_array_append_val (self->graph->nodes, node);
}

/* Depth first without recursion: a capture decides how deep the tree is. What is light below a node
 * comes first, so that it is found without a place of its own: right behind the node. */
static void
append_nodes (Builder *self)
{
  guint32 node = self->drafts[0].first_child;
  guint32 depth = 0;

  self->drafts[0].place = G_MAXUINT32; /* what is behind it is at 0 */
  append_light (self, &self->drafts[0], 0);
  while (node != 0)
    {
      append_node (self, node, depth);
      append_light (self, &self->drafts[node], depth + 1);
      if (self->drafts[node].first_child != 0)
        {
          node = self->drafts[node].first_child;
          depth++;
          continue;
        }
      while (node != 0 && self->drafts[node].next_sibling == 0)
        {
          node = sonde_call_tree_node (self->tree, node)->parent;
          depth--;
        }
      if (node != 0)
        node = self->drafts[node].next_sibling;
    }
}

/* Leaves out functions that only frames had which were summed up. */
static void
drop_unused_functions (SondeFlameGraph *graph)
{
  g_autofree guint32 *numbers = g_new0 (guint32, graph->functions->len); /* new ones + 1 */
  g_autoptr (GPtrArray) all = graph->functions;

  graph->functions = g_ptr_array_new_with_free_func (function_free);
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SondeFlameNode *node = &g_array_index (graph->nodes, SondeFlameNode, i);

      if (numbers[node->function] == 0)
        {
          g_ptr_array_add (graph->functions, all->pdata[node->function]);
          all->pdata[node->function] = NULL;
          numbers[node->function] = graph->functions->len;
        }
      node->function = numbers[node->function] - 1;
    }
}

/* From the numbers of the tree of all to those of the graph. */
static void
finish_places (Builder *self, GPtrArray *places, const SondeSampleLog *log)
{
  for (guint process = 0; process < places->len; process++)
    {
      guint32 *place = g_ptr_array_index (places, process);

      if (place == NULL)
        continue;
      for (guint32 i = 0; i < sonde_call_tree_n_nodes (sonde_sample_log_tree (log, process)); i++)
        {
          guint32 node = place[i];
          gboolean is_light = weight (&self->drafts[node]) < self->threshold;

          while (node != 0 && weight (&self->drafts[node]) < self->threshold)
            node = sonde_call_tree_node (self->tree, node)->parent;
          place[i] = self->drafts[node].place + is_light;
        }
    }
}

SondeFlameGraph *
sonde_flame_graph_new (const SondeSampleLog *log,
                       const SondeSampleLog *other,
                       const SondeSymbolOptions *symbols,
                       guint32 max_nodes)
{
  SondeFlameGraph *graph = g_new0 (SondeFlameGraph, 1);
  g_autoptr (GHashTable) by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new ();
  g_autoptr (GArray) source_weights = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GPtrArray) other_places = NULL;
  g_autofree Draft *drafts = NULL;
  Builder builder = { .graph = graph,
                      .symbols = symbols,
                      .source_weights = source_weights,
                      .by_name = by_name,
                      .tree = tree,
                      .is_compared = other != NULL };

  graph->functions = g_ptr_array_new_with_free_func (function_free);
  graph->nodes = g_array_new (FALSE, FALSE, sizeof (SondeFlameNode));
  builder.light_function = ensure_function (&builder, SONDE_FLAME_LIGHT, "[lighter frames]", "");
  graph->places = merge_log (&builder, log);
  if (other != NULL)
    other_places = merge_log (&builder, other);

  builder.drafts = drafts = g_new0 (Draft, sonde_call_tree_n_nodes (tree));
  add_weights (&builder, log, graph->places, 0);
  if (other != NULL)
    add_weights (&builder, other, other_places, 1);
  sum_up (&builder);
  memcpy (graph->totals, drafts[0].total, sizeof graph->totals);

  graph->threshold = builder.threshold = choose_threshold (&builder, max_nodes);
  link_children (&builder);
  append_nodes (&builder);
  drop_unused_functions (graph);
  finish_places (&builder, graph->places, log);
  return graph;
}

void
sonde_flame_graph_free (SondeFlameGraph *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->functions);
  g_array_unref (self->nodes);
  g_ptr_array_unref (self->places);
  g_free (self);
}

guint32
sonde_flame_graph_n_functions (const SondeFlameGraph *self)
{
  return self->functions->len;
}

const SondeFlameFunction *
sonde_flame_graph_function (const SondeFlameGraph *self, guint32 function)
{
  return g_ptr_array_index (self->functions, function);
}

guint32
sonde_flame_graph_n_nodes (const SondeFlameGraph *self)
{
  return self->nodes->len;
}

const SondeFlameNode *
sonde_flame_graph_node (const SondeFlameGraph *self, guint32 node)
{
  return &g_array_index (self->nodes, SondeFlameNode, node);
}

guint64
sonde_flame_graph_total (const SondeFlameGraph *self, guint which)
{
  return self->totals[which];
}

guint32
sonde_flame_graph_locate (const SondeFlameGraph *self, guint process, guint32 node)
{
  const guint32 *place = g_ptr_array_index (self->places, process);

  return place[node];
}

guint64
sonde_flame_graph_threshold (const SondeFlameGraph *self)
{
  return self->threshold;
}
