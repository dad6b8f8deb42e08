/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps stacks as a tree of callers, in which each is a number. */
#pragma once

#include <glib.h>
#include <stdint.h>

#include "base/table.h"

/**
 * SECTION: stack-tree
 *
 * Node 0 is what nobody called; its children are outermost frames. Nodes and pcs stay what they
 * are. Where there is no room for another node a stack ends at the last caller that it has, and one
 * that is too deep begins later; both are counted. Open to be read.
 */
#define SONDE_STACK_TREE_MAX_DEPTH 1024

typedef struct
{
  uint32_t caller; /* a node */
  uint32_t pc;     /* its number in pcs */
} SondeStackNode;

typedef struct
{
  GArray *nodes; /* SondeStackNode; the first is node 0 */
  GArray *pcs;   /* uint64_t */
  SondeTable node_numbers;
  SondeTable pc_numbers;
  guint max_nodes;
  guint64 n_cut; /* stacks that had no room */

  /* of the stack that was added last, outermost first: the next one shares most callers with it */
  guint n_last;
  uint64_t last_addrs[SONDE_STACK_TREE_MAX_DEPTH];
  uint32_t last_nodes[SONDE_STACK_TREE_MAX_DEPTH];
} SondeStackTree;

/* @max_nodes: at least 1 */
SondeStackTree *sonde_stack_tree_new (guint max_nodes);
void sonde_stack_tree_free (SondeStackTree *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeStackTree, sonde_stack_tree_free)

/* @addrs: leaf first. Returns: the leaf's node; 0: there are none, or no room for the first */
uint32_t sonde_stack_tree_add (SondeStackTree *self, const uint64_t *addrs, guint n_addrs);

/* Who is at @address, called by the node @caller; @caller if there is no room. */
uint32_t sonde_stack_tree_add_child (SondeStackTree *self, uint32_t caller, uint64_t address);

static inline const SondeStackNode *
sonde_stack_tree_node (const SondeStackTree *self, uint32_t node)
{
  return &g_array_index (self->nodes, SondeStackNode, node);
}
