/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sums stacks into a tree whose size depends on the distinct stacks, not on the samples. */
#include "client/call-tree.h"

#include "client/id-map.h"

struct SondeCallTree
{
  GArray *nodes;        /* SondeCallNode */
  SondeIdMap *children; /* parent node << 32 | id → node */
};

#define NODE(tree, i) (&g_array_index ((tree)->nodes, SondeCallNode, (i)))

SondeCallTree *
sonde_call_tree_new (void)
{
  SondeCallTree *self = g_new0 (SondeCallTree, 1);
  SondeCallNode root = { 0 };

  self->nodes = g_array_new (FALSE, FALSE, sizeof (SondeCallNode));
  self->children = sonde_id_map_new ();
  g_array_append_val (self->nodes, root);
  return self;
}

void
sonde_call_tree_free (SondeCallTree *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->nodes);
  sonde_id_map_free (self->children);
  g_free (self);
}

guint32
sonde_call_tree_ensure_child (SondeCallTree *self, guint32 parent, guint32 id)
{
  guint64 key = (guint64) parent << 32 | id;
  SondeCallNode child = { .id = id, .parent = parent };
  guint32 node;

  if (sonde_id_map_lookup (self->children, key, &node))
    return node;

  node = self->nodes->len;
  child.next_sibling = NODE (self, parent)->first_child;
  NODE (self, parent)->first_child = node;
  g_array_append_val (self->nodes, child);
  sonde_id_map_set (self->children, key, node);
  return node;
}

guint32
sonde_call_tree_add (SondeCallTree *self, const guint32 *path, gsize n_path, guint64 weight)
{
  guint32 node = 0;

  NODE (self, 0)->total += weight;
  for (gsize i = 0; i < n_path; i++)
    {
      node = sonde_call_tree_ensure_child (self, node, path[i]);
      NODE (self, node)->total += weight;
    }
  NODE (self, node)->self += weight;
  return node;
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

SondeCallTree *
sonde_call_tree_remap (const SondeCallTree *self, const guint32 *new_ids)
{
  SondeCallTree *mapped = sonde_call_tree_new ();
  g_autofree guint32 *new_nodes = g_new0 (guint32, self->nodes->len);

  /* parents have smaller numbers than their children, so theirs is known already */
  for (guint32 i = 0; i < self->nodes->len; i++)
    {
      const SondeCallNode *node = NODE (self, i);

      if (i > 0)
        new_nodes[i]
            = sonde_call_tree_ensure_child (mapped, new_nodes[node->parent], new_ids[node->id]);
      NODE (mapped, new_nodes[i])->self += node->self;
      NODE (mapped, new_nodes[i])->total += node->total;
    }
  return mapped;
}

void
sonde_call_tree_sum_flat (const SondeCallTree *self,
                          guint64 *self_sums,
                          guint64 *total_sums,
                          gsize n_ids)
{
  g_autofree guint32 *on_path = g_new0 (guint32, n_ids);
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
