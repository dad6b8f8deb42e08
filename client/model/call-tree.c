/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/call-tree.h"

#include "client/base/id-map.h"

struct SondeCallTree
{
  SondeBudget *budget;  /* NULL: none */
  GArray *nodes;        /* SondeCallNode */
  SondeIdMap *children; /* parent node << 32 | id → node, of all but the first child; NULL: none */
  GArray *last;         /* guint32: the nodes of the path that came last */
};

/* Of a tree with the leaf outermost: as many as a capture's own trees have. */
#define MAX_INVERTED  (1u << 21)

#define NODE(tree, i) (&g_array_index ((tree)->nodes, SondeCallNode, (i)))

SondeCallTree *
sonde_call_tree_new (SondeBudget *budget)
{
  SondeCallTree *self = g_new0 (SondeCallTree, 1);
  SondeCallNode root = { 0 };

  self->budget = budget;
  self->nodes = g_array_new (FALSE, FALSE, sizeof (SondeCallNode));
  self->last = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val (self->nodes, root);
  return self;
}

SondeCallTree *
sonde_call_tree_new_like (const SondeCallTree *other)
{
  SondeCallTree *self = sonde_call_tree_new (NULL);

  g_array_set_size (self->nodes, other->nodes->len);
  g_array_set_size (self->nodes, 1);
  if (other->children != NULL)
    self->children = sonde_id_map_new_sized (sonde_id_map_size (other->children));
  return self;
}

void
sonde_call_tree_free (SondeCallTree *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->nodes);
  sonde_id_map_free (self->children);
  g_array_unref (self->last);
  g_free (self);
}

/* The oldest child stays the first one, and is mostly the one that is wanted. */
static guint32
append_child (SondeCallTree *self, guint32 parent, guint32 id)
{
  guint32 node = self->nodes->len;
  guint32 first = NODE (self, parent)->first_child;
  SondeCallNode child = { .id = id, .parent = parent };

  if (first == 0)
    NODE (self, parent)->first_child = node;
  else
    {
      child.next_sibling = NODE (self, first)->next_sibling;
      NODE (self, first)->next_sibling = node;
    }
  g_array_append_val (self->nodes, child);
  return node;
}

static guint64
key_of (guint32 parent, guint32 id)
{
  return (guint64) parent << 32 | id;
}

/* 0 if there is none. */
static guint32
find_child (const SondeCallTree *self, guint32 parent, guint32 id)
{
  guint32 node = NODE (self, parent)->first_child;

  if (node == 0 || NODE (self, node)->id == id)
    return node;
  if (self->children != NULL && sonde_id_map_lookup (self->children, key_of (parent, id), &node))
    return node;
  return 0;
}

guint32
sonde_call_tree_ensure_child (SondeCallTree *self, guint32 parent, guint32 id)
{
  guint32 node = find_child (self, parent, id);

  return node != 0 ? node : sonde_call_tree_add_child (self, parent, id);
}

guint32
sonde_call_tree_add_child (SondeCallTree *self, guint32 parent, guint32 id)
{
  guint32 node = append_child (self, parent, id);

  if (NODE (self, parent)->first_child == node)
    return node;
  if (self->children == NULL) /* a capture may have very many trees of one path */
    self->children = sonde_id_map_new ();
  sonde_id_map_add (self->children, key_of (parent, id), node);
  return node;
}

/* Whether what @path lacks is within the budget. */
static gboolean
has_room (const SondeCallTree *self, const guint32 *path, gsize n_path)
{
  guint32 node = 0;

  for (; n_path > self->budget->left[SONDE_LIMIT_NODES]; path++, n_path--)
    {
      node = find_child (self, node, *path);
      if (node == 0)
        return FALSE;
    }
  return TRUE;
}

/* Paths that follow one another mostly begin with the same ids: these need no look-up. */
guint32
sonde_call_tree_add (SondeCallTree *self, const guint32 *path, gsize n_path, guint64 weight)
{
  gsize n_known = MIN (n_path, self->last->len);
  guint32 n_nodes = self->nodes->len;
  gsize n_common = 0;
  guint32 node = 0;
  guint32 *last;

  if (self->budget != NULL && !has_room (self, path, n_path))
    {
      guint32 truncated = sonde_call_tree_ensure_child (self, 0, SONDE_CALL_TRUNCATED);

      /* The stack goes below the root as one frame, so that its process keeps its total. */
      self->budget->n_cut[SONDE_LIMIT_NODES]++;
      g_array_set_size (self->last, 0);
      NODE (self, 0)->total += weight;
      NODE (self, truncated)->total += weight;
      NODE (self, truncated)->self += weight;
      return truncated;
    }
  g_array_set_size (self->last, (guint) n_path);
  last = (guint32 *) (void *) self->last->data;
  NODE (self, 0)->total += weight;
  for (; n_common < n_known && NODE (self, last[n_common])->id == path[n_common]; n_common++)
    {
      node = last[n_common];
      NODE (self, node)->total += weight;
    }
  for (gsize i = n_common; i < n_path; i++)
    {
      node = last[i] = sonde_call_tree_ensure_child (self, node, path[i]);
      NODE (self, node)->total += weight;
    }
  NODE (self, node)->self += weight;
  if (self->budget != NULL)
    self->budget->left[SONDE_LIMIT_NODES] -= self->nodes->len - n_nodes;
  return node;
}

void
sonde_call_tree_add_weight (SondeCallTree *self, guint32 node, gint64 weight)
{
  NODE (self, node)->self += (guint64) weight;
  for (; node != 0; node = NODE (self, node)->parent)
    NODE (self, node)->total += (guint64) weight;
  NODE (self, 0)->total += (guint64) weight;
}

void
sonde_call_tree_set_weights (SondeCallTree *self, const guint64 *weights)
{
  for (guint32 i = 0; i < self->nodes->len; i++)
    NODE (self, i)->self = NODE (self, i)->total = weights[i];
  for (guint32 i = self->nodes->len - 1; i > 0; i--)
    NODE (self, NODE (self, i)->parent)->total += NODE (self, i)->total;
}

void
sonde_call_tree_reset (SondeCallTree *self)
{
  for (guint32 i = 0; i < self->nodes->len; i++)
    NODE (self, i)->self = NODE (self, i)->total = 0;
}

guint32
sonde_call_tree_n_nodes (const SondeCallTree *self)
{
  return self->nodes->len;
}

const SondeCallNode *
sonde_call_tree_node (const SondeCallTree *self, guint32 node)
{
  g_assert (node < self->nodes->len);
  return NODE (self, node);
}

void
sonde_call_tree_add_tree (SondeCallTree *self, const SondeCallTree *source, const guint32 *new_ids)
{
  g_autofree guint32 *new_nodes = g_new0 (guint32, source->nodes->len);

  /* parents have smaller numbers than their children, so theirs is known already */
  for (guint32 i = 0; i < source->nodes->len; i++)
    {
      const SondeCallNode *node = NODE (source, i);

      if (i > 0)
        new_nodes[i] = sonde_call_tree_ensure_child (
            self, new_nodes[node->parent], new_ids != NULL ? new_ids[node->id] : node->id);
      NODE (self, new_nodes[i])->self += node->self;
      NODE (self, new_nodes[i])->total += node->total;
    }
}

SondeCallTree *
sonde_call_tree_remap (const SondeCallTree *self, const guint32 *new_ids)
{
  SondeCallTree *mapped = sonde_call_tree_new_like (self);

  sonde_call_tree_add_tree (mapped, self, new_ids);
  return mapped;
}

SondeCallTree *
sonde_call_tree_reweigh (const SondeCallTree *self, const guint64 *weights, gsize n_weights)
{
  SondeCallTree *weighed = sonde_call_tree_new (NULL);
  gsize n_nodes = MIN (n_weights, self->nodes->len);
  g_autofree guint64 *totals = g_memdup2 (weights, n_nodes * sizeof *weights);
  g_autofree guint32 *new_nodes = g_new0 (guint32, n_nodes);

  for (gsize i = n_nodes; i > 1; i--)
    totals[NODE (self, i - 1)->parent] += totals[i - 1];
  for (gsize i = 0; i < n_nodes; i++)
    {
      const SondeCallNode *node = NODE (self, i);

      if (totals[i] == 0)
        continue;
      if (i > 0)
        new_nodes[i] = sonde_call_tree_ensure_child (weighed, new_nodes[node->parent], node->id);
      NODE (weighed, new_nodes[i])->self = weights[i];
      NODE (weighed, new_nodes[i])->total = totals[i];
    }
  return weighed;
}

SondeCallTree *
sonde_call_tree_expand (const SondeCallTree *self, const guint32 *starts, const guint32 *new_ids)
{
  SondeCallTree *expanded = sonde_call_tree_new (NULL);
  g_autofree guint32 *new_nodes = g_new0 (guint32, self->nodes->len);

  NODE (expanded, 0)->self = NODE (self, 0)->self;
  NODE (expanded, 0)->total = NODE (self, 0)->total;
  for (guint32 i = 1; i < self->nodes->len; i++)
    {
      const SondeCallNode *node = NODE (self, i);
      guint32 at = new_nodes[node->parent];

      for (guint32 k = starts[node->id]; k < starts[node->id + 1]; k++)
        {
          at = sonde_call_tree_ensure_child (expanded, at, new_ids[k]);
          NODE (expanded, at)->total += node->total;
        }
      NODE (expanded, at)->self += node->self;
      new_nodes[i] = at;
    }
  return expanded;
}

/* Adds @weight to the path from @node of @source to its root. */
static void
add_outwards (SondeCallTree *self, const SondeCallTree *source, guint32 node, guint64 weight)
{
  guint32 added = 0;

  NODE (self, 0)->total += weight;
  for (; node != 0; node = NODE (source, node)->parent)
    {
      gboolean has_room = added == 0 || self->nodes->len < MAX_INVERTED;

      added = sonde_call_tree_ensure_child (
          self, added, has_room ? NODE (source, node)->id : SONDE_CALL_TRUNCATED);
      NODE (self, added)->total += weight;
      if (!has_room)
        break;
    }
}

void
sonde_call_tree_add_inverted (SondeCallTree *self, const SondeCallTree *source)
{
  for (guint32 i = 0; i < source->nodes->len; i++)
    if (NODE (source, i)->self > 0)
      add_outwards (self, source, i, NODE (source, i)->self);
}

void
sonde_call_tree_add_callers (SondeCallTree *self,
                             const SondeCallTree *source,
                             const gboolean *is_wanted)
{
  /* of the stacks through a node those that have a wanted id further in */
  g_autofree guint64 *below = g_new0 (guint64, source->nodes->len);

  for (guint32 i = source->nodes->len - 1; i > 0; i--)
    {
      const SondeCallNode *node = NODE (source, i);

      if (is_wanted[node->id] && node->total > below[i])
        add_outwards (self, source, i, node->total - below[i]);
      below[node->parent] += is_wanted[node->id] ? node->total : below[i];
    }
}

void
sonde_call_tree_sum_flat (const SondeCallTree *self,
                          guint64 *self_sums,
                          guint64 *total_sums,
                          guint32 *on_path,
                          gsize n_ids)
{
  guint32 node = NODE (self, 0)->first_child;

  /* depth first without recursion: a capture decides how deep the tree is */
  while (node != 0)
    {
      const SondeCallNode *n = NODE (self, node);

      g_assert (n->id < n_ids);
      self_sums[n->id] += n->self;
      if (on_path[n->id]++ == 0)
        total_sums[n->id] += n->total;

      if (n->first_child != 0)
        {
          node = n->first_child;
          continue;
        }
      for (; node != 0; node = NODE (self, node)->parent)
        {
          on_path[NODE (self, node)->id]--;
          if (NODE (self, node)->next_sibling != 0)
            {
              node = NODE (self, node)->next_sibling;
              break;
            }
        }
    }
}

typedef struct
{
  const SondeCallTree *tree;
  GCompareDataFunc compare;
  gpointer user_data;
} SortContext;

static int
compare_nodes (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SortContext *context = user_data;
  const SondeCallNode *left = NODE (context->tree, *(const guint32 *) a);
  const SondeCallNode *right = NODE (context->tree, *(const guint32 *) b);

  if (left->total != right->total)
    return left->total > right->total ? -1 : 1;
  return context->compare (&left->id, &right->id, context->user_data);
}

GArray *
sonde_call_tree_dup_children (const SondeCallTree *self,
                              guint32 node,
                              GCompareDataFunc compare,
                              gpointer user_data)
{
  GArray *children = g_array_new (FALSE, FALSE, sizeof (guint32));
  SortContext context = { self, compare, user_data };

  for (guint32 i = NODE (self, node)->first_child; i != 0; i = NODE (self, i)->next_sibling)
    g_array_append_val (children, i);
  g_array_sort_with_data (children, compare_nodes, &context);
  return children;
}
