/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/live-profile.h"

typedef struct
{
  SondeCallTree *functions;
  GArray *nodes; /* guint32: by node of the locations: its node; 0: none yet, but for the root */
} LiveTree;

/* Samples of one stack that are not in the tree, or are there as the root's own. */
typedef struct
{
  guint process;
  guint32 node; /* of the locations */
  guint64 weight;
  gboolean is_of_root;
} Fresh;

struct SondeLiveProfile
{
  const SondeCaptureModel *model;
  const SondeSamples *samples;
  SondeSymbolResolver *resolver; /* NULL: nothing had to be named yet */
  GPtrArray *trees;              /* LiveTree, or NULL */
  GArray *fresh;
  GArray *path; /* guint32: room for nodes without one here, innermost first */
};

static void
live_tree_free (LiveTree *self)
{
  if (self == NULL)
    return;
  sonde_call_tree_free (self->functions);
  g_array_unref (self->nodes);
  g_free (self);
}

static void
add_fresh (SondeLiveProfile *self, guint process, guint32 node, guint64 weight)
{
  Fresh fresh = { .process = process, .node = node, .weight = weight };

  g_array_append_val (self->fresh, fresh);
}

SondeLiveProfile *
sonde_live_profile_new (const SondeCaptureModel *model, const SondeSamples *samples)
{
  SondeLiveProfile *self = g_new0 (SondeLiveProfile, 1);

  self->model = model;
  self->samples = samples;
  self->trees = g_ptr_array_new_with_free_func ((GDestroyNotify) live_tree_free);
  self->fresh = g_array_new (FALSE, FALSE, sizeof (Fresh));
  self->path = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint i = 0; i < samples->trees->len; i++)
    {
      const SondeCallTree *locations = sonde_samples_tree (samples, i);

      for (guint32 k = 0; locations != NULL && k < sonde_call_tree_n_nodes (locations); k++)
        if (sonde_call_tree_node (locations, k)->self > 0)
          add_fresh (self, i, k, sonde_call_tree_node (locations, k)->self);
    }
  return self;
}

void
sonde_live_profile_free (SondeLiveProfile *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->trees);
  g_array_unref (self->fresh);
  g_array_unref (self->path);
  sonde_symbol_resolver_free (self->resolver);
  g_free (self);
}

void
sonde_live_profile_add (SondeLiveProfile *self, const SondeSamplePlace *place)
{
  add_fresh (self, sonde_samples_thread (self->samples, place->thread)->process, place->node, 1);
}

static LiveTree *
ensure_tree (SondeLiveProfile *self, guint process)
{
  LiveTree *tree;

  if (process >= self->trees->len)
    g_ptr_array_set_size (self->trees, (gint) process + 1);
  tree = g_ptr_array_index (self->trees, process);
  if (tree == NULL)
    {
      tree = g_new0 (LiveTree, 1);
      tree->functions = sonde_call_tree_new (NULL);
      tree->nodes = g_array_new (FALSE, TRUE, sizeof (guint32));
      g_ptr_array_index (self->trees, process) = tree;
    }
  return tree;
}

/* FALSE: a name on the way to it was not looked up for want of time. */
static gboolean
ensure_node (SondeLiveProfile *self,
             LiveTree *tree,
             const SondeCallTree *locations,
             guint32 node,
             gint64 end_us)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (locations);
  guint32 function;

  if (tree->nodes->len < n_nodes)
    g_array_set_size (tree->nodes, n_nodes);
  g_array_set_size (self->path, 0);
  for (; g_array_index (tree->nodes, guint32, node) == 0 && node != 0;
       node = sonde_call_tree_node (locations, node)->parent)
    g_array_append_val (self->path, node);
  for (guint i = self->path->len; i > 0; i--)
    {
      const SondeCallNode *at;

      node = g_array_index (self->path, guint32, i - 1);
      at = sonde_call_tree_node (locations, node);
      if (!sonde_symbol_resolver_find (self->resolver, at->id, end_us, &function))
        return FALSE;
      g_array_index (tree->nodes, guint32, node) = sonde_call_tree_ensure_child (
          tree->functions, g_array_index (tree->nodes, guint32, at->parent), function);
    }
  return TRUE;
}

/* Returns: whether it is in its place */
static gboolean
take (SondeLiveProfile *self, Fresh *fresh, gint64 end_us)
{
  const SondeCallTree *locations = sonde_samples_tree (self->samples, fresh->process);
  LiveTree *tree = ensure_tree (self, fresh->process);
  gboolean has_names = ensure_node (self, tree, locations, fresh->node, end_us);
  gint64 weight = (gint64) fresh->weight;

  if (has_names)
    sonde_call_tree_add_weight (tree->functions, g_array_index (tree->nodes, guint32, fresh->node),
                                weight);
  if (has_names == fresh->is_of_root)
    sonde_call_tree_add_weight (tree->functions, 0, has_names ? -weight : weight);
  fresh->is_of_root = !has_names;
  return has_names;
}

gboolean
sonde_live_profile_update (SondeLiveProfile *self, gint64 end_us)
{
  guint n_left = 0;

  /* not before the capture has said what runs there */
  if (self->resolver == NULL && self->fresh->len > 0)
    self->resolver = sonde_symbol_resolver_new (self->model, NULL);
  for (guint i = 0; i < self->fresh->len; i++)
    {
      Fresh *fresh = &g_array_index (self->fresh, Fresh, i);

      if (!take (self, fresh, end_us))
        g_array_index (self->fresh, Fresh, n_left++) = *fresh;
    }
  g_array_set_size (self->fresh, n_left);
  return n_left == 0;
}

guint
sonde_live_profile_n_trees (const SondeLiveProfile *self)
{
  return self->trees->len;
}

const SondeCallTree *
sonde_live_profile_tree (const SondeLiveProfile *self, guint process)
{
  const LiveTree *tree
      = process < self->trees->len ? g_ptr_array_index (self->trees, process) : NULL;

  return tree != NULL ? tree->functions : NULL;
}

const SondeFunction *
sonde_live_profile_function (const SondeLiveProfile *self, guint32 function)
{
  return sonde_symbol_resolver_function (self->resolver, function);
}
