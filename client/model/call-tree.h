/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sums stacks into a tree whose size depends on the distinct stacks, not on the samples. */
#pragma once

#include "client/base/budget.h"

/**
 * SECTION: call-tree
 *
 * Node 0 is the root and stands for no frame. A node's children come after it, so that walking the
 * numbers downwards visits children before parents. What an id stands for is the caller's business,
 * but for SONDE_CALL_TRUNCATED.
 */
typedef struct SondeCallTree SondeCallTree;

typedef struct
{
  guint32 id;           /* as given; 0 for the root */
  guint32 parent;       /* node */
  guint32 first_child;  /* node, the oldest; 0: none */
  guint32 next_sibling; /* node, of the first the newest, then older ones; 0: none */
  guint64 self;         /* weight of the stacks that end here */
  guint64 total;        /* self and all below */
} SondeCallNode;

/* The id of what stands for frames that were cut off: of locations and functions of a model this is
 * the one that is called SONDE_TRUNCATED. */
#define SONDE_CALL_TRUNCATED 0u

/* @budget: (nullable): of which SONDE_LIMIT_NODES is taken by sonde_call_tree_add(); kept by the
 * caller as long as the tree */
SondeCallTree *sonde_call_tree_new (SondeBudget *budget);
/* With room for as much as @other has, so that it need not grow; without a budget. */
SondeCallTree *sonde_call_tree_new_like (const SondeCallTree *other);
void sonde_call_tree_free (SondeCallTree *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCallTree, sonde_call_tree_free)

/**
 * sonde_call_tree_add:
 * @path: ids, outermost first
 * @weight: samples
 *
 * A stack that has no room is added as one of one frame, SONDE_CALL_TRUNCATED.
 *
 * Returns: the node where @path ends
 */
guint32
sonde_call_tree_add (SondeCallTree *self, const guint32 *path, gsize n_path, guint64 weight);

/* The child of @parent with @id, which is added without weight if there is none. */
guint32 sonde_call_tree_ensure_child (SondeCallTree *self, guint32 parent, guint32 id);

/* The same of one that there is not, without a look. */
guint32 sonde_call_tree_add_child (SondeCallTree *self, guint32 parent, guint32 id);

/* More, or less, ends in @node. */
void sonde_call_tree_add_weight (SondeCallTree *self, guint32 node, gint64 weight);

/* @weights: by node: what ends there, in the place of what did; totals follow. */
void sonde_call_tree_set_weights (SondeCallTree *self, const guint64 *weights);

/* Keeps the nodes and takes their weights away. */
void sonde_call_tree_reset (SondeCallTree *self);

guint32 sonde_call_tree_n_nodes (const SondeCallTree *self);

/* Valid until the next sonde_call_tree_add(). */
const SondeCallNode *sonde_call_tree_node (const SondeCallTree *self, guint32 node);

/* Adds all stacks of @source, each id replaced by @new_ids[id]. @new_ids: NULL: ids stay. */
void
sonde_call_tree_add_tree (SondeCallTree *self, const SondeCallTree *source, const guint32 *new_ids);

/* A new tree where each id is replaced by @new_ids[id]; siblings that become equal are merged. */
SondeCallTree *sonde_call_tree_remap (const SondeCallTree *self, const guint32 *new_ids);

/**
 * sonde_call_tree_reweigh:
 * @weights: by node: what ends there
 * @n_weights: nodes from there on have none
 *
 * Returns: (transfer full): a new tree of those paths that have weight
 */
SondeCallTree *
sonde_call_tree_reweigh (const SondeCallTree *self, const guint64 *weights, gsize n_weights);

/**
 * sonde_call_tree_expand:
 * @starts: by id, and one more: where its new ids begin in @new_ids; each has at least one
 * @new_ids: outermost first
 *
 * Returns: (transfer full): a new tree where each node became as many, one below the other;
 * siblings that become equal are merged
 */
SondeCallTree *
sonde_call_tree_expand (const SondeCallTree *self, const guint32 *starts, const guint32 *new_ids);

/**
 * sonde_call_tree_add_inverted:
 *
 * Adds each stack of @source with its leaf first, so that the children of a node are its callers.
 * Nothing ends anywhere: only totals are added. Callers that have no room are
 * SONDE_CALL_TRUNCATED.
 */
void sonde_call_tree_add_inverted (SondeCallTree *self, const SondeCallTree *source);

/**
 * sonde_call_tree_add_callers:
 * @is_wanted: by id
 *
 * The same of those stacks of @source that contain a wanted id, from the innermost one outwards.
 */
void sonde_call_tree_add_callers (SondeCallTree *self,
                                  const SondeCallTree *source,
                                  const gboolean *is_wanted);

/**
 * sonde_call_tree_sum_flat:
 * @self_sums: (inout): per id, weight where the id was the leaf
 * @total_sums: (inout): per id, weight of the stacks that contain it, recursion counted once
 * @on_path: (inout): per id 0, before and after
 */
void sonde_call_tree_sum_flat (const SondeCallTree *self,
                               guint64 *self_sums,
                               guint64 *total_sums,
                               guint32 *on_path,
                               gsize n_ids);

/* The children of @node, heaviest first, equal ones in the order of @compare (of ids). Elements are
 * guint32 nodes. */
GArray *sonde_call_tree_dup_children (const SondeCallTree *self,
                                      guint32 node,
                                      GCompareDataFunc compare,
                                      gpointer user_data);
