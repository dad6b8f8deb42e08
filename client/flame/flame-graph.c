/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/flame/flame-graph.h"

#include <string.h>

#include "client/base/text.h"
#include "client/names/short-name.h"

#define N_LOGS 2

typedef struct SondeFlameDraft
{
  guint64 self[N_LOGS];
  guint64 total[N_LOGS];
  guint64 light[N_LOGS]; /* of children that are summed up */
  guint32 first_child;   /* of those that stay, heaviest first; 0: none */
  guint32 next_sibling;
  guint32 place; /* in the graph: its own, or where it is summed up */
} Draft;

typedef struct
{
  SondeFlameGraph *graph;
  const SondeFlameSource *source;
  GArray *source_weights; /* guint64, by function: samples at the line that is its source */
  GHashTable *by_name;    /* "KIND NAME\nMODULE" → number of a function */
  GByteArray *fold_kinds; /* SondeFoldKind, by function */
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
  g_free (function->shown);
  g_free (function);
}

static guint32
ensure_function (Builder *self, SondeFlameKind kind, const char *name, const char *module)
{
  g_autofree char *key = g_strdup_printf ("%d %s\n%s", kind, name, module);
  GPtrArray *functions = self->graph->all;
  const guint64 no_weight = 0;
  const SondeFunction of_fold = { .name = name, .module = module, .source = "", .file = "" };
  guint8 fold_kind;
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
  fold_kind = (guint8) (kind == SONDE_FLAME_USER ? sonde_fold_kind (&of_fold) : 0);
  g_byte_array_append (self->fold_kinds, &fold_kind, 1);
  g_hash_table_insert (self->by_name, g_steal_pointer (&key), GUINT_TO_POINTER (functions->len));
  g_ptr_array_add (functions, function);
  return functions->len - 1;
}

/* The samples of each location, callers included. */
static guint64 *
dup_location_weights (const SondeSampleLog *log)
{
  const SondeCaptureModel *model = log->model;
  guint64 *weights = g_new0 (guint64, sonde_capture_model_n_locations (model));

  for (guint number = 0; number < log->samples.trees->len; number++)
    {
      const SondeCallTree *tree = sonde_samples_tree (&log->samples, number);

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
  /* why a stack does not reach its outermost frame; docs/protocol.md has the names */
  static const char *const incomplete[] = { "[stack truncated]",
                                            "[frame pointers end]",
                                            "[no unwind data]",
                                            "[unwind error]",
                                            "[depth limit]",
                                            SONDE_TRUNCATED,
                                            NULL };
  SondeFlameKind kind = SONDE_FLAME_USER;
  SondeFlameFunction *taken;
  guint64 *weight;
  guint32 number;

  if (in_kernel)
    kind = SONDE_FLAME_KERNEL;
  else if (g_strv_contains (incomplete, function->name))
    kind = SONDE_FLAME_INCOMPLETE;
  number = ensure_function (self, kind, function->name, function->module);
  taken = g_ptr_array_index (self->graph->all, number);
  weight = &g_array_index (self->source_weights, guint64, number);
  if (*function->source != '\0' && weight_of_line > *weight)
    {
      g_free (taken->source);
      taken->source = g_strdup (function->source);
      *weight = weight_of_line;
    }
  return number;
}

/* (transfer full): of whose locations the functions are those of the graph. */
static SondeSymbolResolver *
look_up_names (Builder *self, const SondeSampleLog *log)
{
  const SondeCaptureModel *model = log->model;
  g_autofree guint64 *weights = dup_location_weights (log);
  SondeSymbolResolver *names = sonde_symbol_resolver_new (model, self->source->symbols);

  sonde_symbol_resolver_find_all (names);
  for (guint i = 0; i < log->samples.trees->len; i++)
    if (sonde_samples_tree (&log->samples, i) != NULL)
      sonde_symbol_resolver_make_room (names, sonde_samples_tree (&log->samples, i));
  for (guint32 i = 0; i < sonde_capture_model_n_locations (model); i++)
    {
      gboolean in_kernel = sonde_capture_model_location (model, i)->in_kernel;
      guint32 n;
      guint32 *numbers = sonde_symbol_resolver_get (names, i, &n);

      for (guint32 k = 0; k < n; k++)
        numbers[k] = take_function (self, sonde_symbol_resolver_function (names, numbers[k]),
                                    in_kernel, weights[i]);
    }
  return names;
}

/* What a tree of the graph is of. */
typedef struct
{
  SondeModelProcess process; /* its texts are the model's */
  gint32 tid;
  gboolean is_there; /* else there is no tree */
} Task;

/* What is the outermost frame of each tree: its group, as reports call it. (transfer full): NULL of
 * what is not there */
static GPtrArray *
dup_labels (const Builder *self, const SondeCaptureModel *model, const GArray *tasks)
{
  GPtrArray *labels = g_ptr_array_new_with_free_func (g_free);
  SondeGrouping *grouping = sonde_grouping_new (self->source->by, model);
  g_autoptr (SondeProfile) groups = sonde_profile_new (SONDE_UNIT_SAMPLES, NULL);

  sonde_profile_group (groups, grouping);
  for (guint i = 0; i < tasks->len; i++)
    {
      const Task *task = &g_array_index (tasks, Task, i);

      if (task->is_there)
        sonde_profile_add_process (groups, &task->process, task->tid, sonde_call_tree_new (NULL),
                                   NULL);
    }
  for (guint i = 0; i < tasks->len; i++)
    {
      const Task *task = &g_array_index (tasks, Task, i);
      const SondeProfileProcess *group;

      g_ptr_array_add (labels, NULL);
      if (!task->is_there)
        continue;
      group = sonde_profile_process (groups,
                                     sonde_grouping_find (grouping, &task->process, task->tid));
      labels->pdata[i] = self->is_compared ? sonde_text_escape (group->process.comm, -1)
                                           : sonde_profile_process_dup_label (group);
    }
  return labels;
}

static guint32
ensure_root (Builder *self, const GPtrArray *labels, guint number)
{
  return sonde_call_tree_ensure_child (
      self->graph->tree, 0,
      ensure_function (self, SONDE_FLAME_PROCESS, g_ptr_array_index (labels, number), ""));
}

static GPtrArray *
dup_sample_labels (const Builder *self, const SondeSampleLog *log)
{
  const SondeSamples *samples = &log->samples;
  g_autoptr (GArray) tasks = g_array_new (FALSE, TRUE, sizeof (Task));

  g_array_set_size (tasks, samples->trees->len);
  for (guint i = 0; i < tasks->len; i++)
    {
      Task *task = &g_array_index (tasks, Task, i);

      task->is_there = sonde_samples_tree (samples, i) != NULL;
      if (task->is_there)
        task->process = *sonde_capture_model_process (
            log->model, sonde_samples_process_of (samples, i, &task->tid));
    }
  return dup_labels (self, log->model, tasks);
}

/* Adds @log's trees to that of all. Returns: by tree, where each of its nodes went */
static GPtrArray *
merge_log (Builder *self, const SondeSampleLog *log)
{
  static const SondeFolding nothing
      = { .recursion = SONDE_RECURSION_NONE, .shows_internals = TRUE };
  GPtrArray *places = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (SondeSymbolResolver) names = look_up_names (self, log);
  g_autoptr (GPtrArray) labels = dup_sample_labels (self, log);
  g_autoptr (GArray) folded = g_array_new (FALSE, FALSE, sizeof (SondeFoldPlace));
  SondeFolder folder
      = { .folding = self->source->folding != NULL ? *self->source->folding : nothing,
          .tree = self->graph->tree };

  for (guint number = 0; number < labels->len; number++)
    {
      const SondeCallTree *tree = sonde_samples_tree (&log->samples, number);
      guint32 *place;
      guint32 root;

      g_ptr_array_add (places, NULL);
      if (tree == NULL)
        continue;
      root = ensure_root (self, labels, number);
      folder.kinds = self->fold_kinds->data;
      place = g_new (guint32, sonde_call_tree_n_nodes (tree));
      g_array_set_size (folded, sonde_call_tree_n_nodes (tree));
      place[0] = root;
      g_array_index (folded, SondeFoldPlace, 0) = (SondeFoldPlace){ root, root, 0 };
      for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
        {
          const SondeCallNode *node = sonde_call_tree_node (tree, i);
          SondeFoldPlace at = g_array_index (folded, SondeFoldPlace, node->parent);
          guint32 n;
          const guint32 *functions = sonde_symbol_resolver_get (names, node->id, &n);

          for (guint32 k = 0; k < n; k++)
            at = sonde_folder_step (&folder, at, functions[k]);
          g_array_index (folded, SondeFoldPlace, i) = at;
          place[i] = at.all;
        }
      g_ptr_array_index (places, number) = place;
    }
  g_clear_pointer (&folder.depths, g_array_unref);
  return places;
}

/* Adds all paths to the tree, processes above them. Returns: by program, where each of its paths
 * went
 */
static GPtrArray *
merge_calls (Builder *self, const SondeCalls *calls)
{
  GPtrArray *places = g_ptr_array_new_with_free_func (g_free);
  const SondeCallsNode *nodes = (const SondeCallsNode *) (const void *) calls->nodes->data;
  g_autoptr (GArray) tasks = g_array_new (FALSE, TRUE, sizeof (Task));
  g_autoptr (GPtrArray) labels = NULL;
  guint at = 0;

  for (guint program = 0; program < sonde_calls_reader_n_programs (calls->reader); program++)
    {
      const Task task = { sonde_calls_process (calls, program), 0, TRUE };

      g_array_append_val (tasks, task);
    }
  labels = dup_labels (self, calls->model, tasks);
  for (guint program = 0; program < tasks->len; program++)
    {
      guint n = sonde_calls_reader_program (calls->reader, program)->paths->len;
      guint32 *place = g_new (guint32, n + 1);
      guint32 root = ensure_root (self, labels, program);

      for (guint i = 0; i < n; i++)
        {
          const SondeCallsNode *node = &nodes[at + i];
          const SondeFunction *function = sonde_calls_function (calls, node->function);

          place[i]
              = node->parent == 0
                    ? root
                    : sonde_call_tree_ensure_child (
                        self->graph->tree, place[node->parent - 1 - at],
                        ensure_function (self, SONDE_FLAME_USER, function->name, function->module));
        }
      g_ptr_array_add (places, place);
      at += n;
    }
  return places;
}

static void
add_calls (SondeFlameGraph *self, const SondeCalls *calls, SondeFlameUnit unit)
{
  guint at = 0;

  for (guint program = 0; program < self->places->len; program++)
    {
      const guint32 *place = g_ptr_array_index (self->places, program);
      guint n = sonde_calls_reader_program (calls->reader, program)->paths->len;

      for (guint i = 0; i < n; i++)
        {
          const SondeCallsNode *node = &g_array_index (calls->nodes, SondeCallsNode, at + i);

          if (node->parent != 0)
            self->drafts[place[i]].self[0]
                += unit == SONDE_FLAME_SELF ? (guint64) node->sum.self_ns : node->sum.calls;
        }
      at += n;
    }
}

static void
add_weights (SondeFlameGraph *self, const SondeSampleLog *log, const GPtrArray *places, guint which)
{
  for (guint number = 0; number < places->len; number++)
    {
      const guint32 *place = g_ptr_array_index (places, number);
      const SondeCallTree *tree = sonde_samples_tree (&log->samples, number);

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

static guint64
choose_threshold (const SondeFlameGraph *self, guint32 max_nodes)
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
  const SondeFlameGraph *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  guint64 left_weight = weight (&self->drafts[left]);
  guint64 right_weight = weight (&self->drafts[right]);

  if (left_weight != right_weight)
    return left_weight < right_weight ? -1 : 1;
  return left < right ? 1 : -1;
}

static void
append_light (SondeFlameGraph *self, const Draft *draft, guint32 depth)
{
  SondeFlameNode node = { .function = self->light_function, .depth = depth };

  if (draft->light[0] + draft->light[1] == 0)
    return;
  memcpy (node.self, draft->light, sizeof node.self);
  memcpy (node.total, draft->light, sizeof node.total);
  g_array_append_val (self->nodes, node);
}

/* Depth first without recursion: a capture decides how deep the tree is. What is light below a node
 * comes first, so that it is found without a place of its own: right behind the node. */
static void
append_nodes (SondeFlameGraph *self)
{
  guint32 node = self->drafts[0].first_child;
  guint32 depth = 0;

  self->drafts[0].place = G_MAXUINT32; /* what is behind it is at 0 */
  append_light (self, &self->drafts[0], 0);
  while (node != 0)
    {
      Draft *draft = &self->drafts[node];
      SondeFlameNode entry
          = { .function = sonde_call_tree_node (self->tree, node)->id, .depth = depth };

      memcpy (entry.self, draft->self, sizeof entry.self);
      memcpy (entry.total, draft->total, sizeof entry.total);
      draft->place = self->nodes->len;
      g_array_append_val (self->nodes, entry);
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

static void
shorten_names (SondeFlameGraph *self)
{
  g_autoptr (SondeShortNames) names = sonde_short_names_new (self->full_names);

  for (guint i = 0; i < self->functions->len; i++)
    if (sonde_flame_graph_function (self, i)->kind != SONDE_FLAME_PROCESS)
      sonde_short_names_add (names, sonde_flame_graph_function (self, i)->name);
  for (guint i = 0; i < self->functions->len; i++)
    {
      SondeFlameFunction *function = g_ptr_array_index (self->functions, i);

      g_free (function->shown);
      function->shown = g_strdup (sonde_short_names_get (names, function->name));
    }
}

void
sonde_flame_graph_limit (SondeFlameGraph *self, guint32 max_nodes)
{
  g_autofree guint32 *numbers = NULL; /* in functions, + 1 */
  g_autoptr (GArray) kept = NULL;

  g_ptr_array_set_size (self->functions, 0);
  g_array_set_size (self->nodes, 0);
  for (guint32 i = 0; i < sonde_call_tree_n_nodes (self->tree); i++)
    {
      Draft *draft = &self->drafts[i];

      memset (draft->light, 0, sizeof draft->light);
      draft->first_child = draft->next_sibling = 0;
    }
  self->threshold = choose_threshold (self, max_nodes);
  /* Threads the nodes that stay into lists below their parents; the others become weight there. */
  kept = g_array_new (FALSE, FALSE, sizeof (guint32));
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
  append_nodes (self);
  /* What is light is summed up where the frame above it is, or right behind it. Parents have
   * smaller numbers than their children. */
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (self->tree); i++)
    {
      guint32 parent = sonde_call_tree_node (self->tree, i)->parent;
      gboolean is_below_light = parent != 0 && weight (&self->drafts[parent]) < self->threshold;

      if (weight (&self->drafts[i]) < self->threshold)
        self->drafts[i].place = self->drafts[parent].place + !is_below_light;
    }
  /* Leaves out functions that only frames had which were summed up. */
  numbers = g_new0 (guint32, self->all->len);
  for (guint i = 0; i < self->nodes->len; i++)
    {
      SondeFlameNode *node = &g_array_index (self->nodes, SondeFlameNode, i);

      if (numbers[node->function] == 0)
        {
          g_ptr_array_add (self->functions, self->all->pdata[node->function]);
          numbers[node->function] = self->functions->len;
        }
      node->function = numbers[node->function] - 1;
    }
  shorten_names (self);
}

SondeFlameGraph *
sonde_flame_graph_new (const SondeFlameSource *source, guint32 max_nodes)
{
  const SondeSampleLog *other = source->other;
  SondeFlameGraph *graph = g_new0 (SondeFlameGraph, 1);
  g_autoptr (GHashTable) by_name
      = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  g_autoptr (GArray) source_weights = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GPtrArray) other_places = NULL;
  g_autoptr (GByteArray) fold_kinds = g_byte_array_new ();
  Builder builder = { graph, source, source_weights, by_name, fold_kinds, other != NULL };

  graph->full_names = source->full_names;
  graph->all = g_ptr_array_new_with_free_func (function_free);
  graph->tree = sonde_call_tree_new (NULL);
  graph->functions = g_ptr_array_new ();
  graph->nodes = g_array_new (FALSE, FALSE, sizeof (SondeFlameNode));
  graph->light_function = ensure_function (&builder, SONDE_FLAME_LIGHT, "[lighter frames]", "");
  graph->places = source->calls != NULL ? merge_calls (&builder, source->calls)
                                        : merge_log (&builder, source->log);
  if (other != NULL)
    other_places = merge_log (&builder, other);

  graph->drafts = g_new0 (Draft, sonde_call_tree_n_nodes (graph->tree));
  if (source->calls != NULL)
    add_calls (graph, source->calls, source->unit);
  else
    add_weights (graph, source->log, graph->places, 0);
  if (other != NULL)
    add_weights (graph, other, other_places, 1);
  /* Totals from the leaves up: children have larger numbers than their parents. */
  for (guint32 i = sonde_call_tree_n_nodes (graph->tree); i-- > 0;)
    {
      Draft *draft = &graph->drafts[i];
      Draft *parent = &graph->drafts[sonde_call_tree_node (graph->tree, i)->parent];

      for (guint which = 0; which < N_LOGS; which++)
        {
          draft->total[which] += draft->self[which];
          if (i > 0)
            parent->total[which] += draft->total[which];
        }
    }
  memcpy (graph->total, graph->drafts[0].total, sizeof graph->total);
  sonde_flame_graph_limit (graph, max_nodes);
  return graph;
}

char *
sonde_flame_unit_dup_text (SondeFlameUnit unit, guint64 weight)
{
  if (unit == SONDE_FLAME_SELF)
    return sonde_text_duration ((gint64) MIN (weight, G_MAXINT64));
  return unit == SONDE_FLAME_CALLS ? sonde_text_plural (weight, "call", "calls")
                                   : sonde_text_plural (weight, "sample", "samples");
}

void
sonde_flame_graph_free (SondeFlameGraph *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->functions);
  g_array_unref (self->nodes);
  g_ptr_array_unref (self->places);
  sonde_call_tree_free (self->tree);
  g_free (self->drafts);
  g_ptr_array_unref (self->all);
  g_free (self);
}

const SondeFlameFunction *
sonde_flame_graph_function (const SondeFlameGraph *self, guint32 function)
{
  return g_ptr_array_index (self->functions, function);
}

const SondeFlameNode *
sonde_flame_graph_node (const SondeFlameGraph *self, guint32 node)
{
  return &g_array_index (self->nodes, SondeFlameNode, node);
}

guint32
sonde_flame_graph_locate (const SondeFlameGraph *self, guint tree, guint32 node)
{
  const guint32 *place = g_ptr_array_index (self->places, tree);
  const Draft *draft = &self->drafts[place[node]];

  return weight (draft) > 0 ? draft->place : SONDE_FLAME_NOWHERE;
}
