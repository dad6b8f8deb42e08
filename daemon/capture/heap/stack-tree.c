/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/stack-tree.h"

#include "daemon/capture/heap/number-table.h"

#define AHEAD 4 /* nodes before a slot is needed it is fetched */

/* Who is called by whom. */
typedef struct
{
  uint64_t address;
  uint32_t caller; /* a node */
  uint32_t number; /* of the node, + 1 */
} NodeSlot;

static uint64_t
hash_node (const void *slot, uint64_t seed)
{
  const NodeSlot *node = slot;

  return sonde_hash (sonde_hash (seed, node->caller), node->address);
}

static bool
is_node (const void *slot, uint64_t hash, const void *key)
{
  const NodeSlot *node = slot;
  const NodeSlot *wanted = key;

  return node->address == wanted->address && node->caller == wanted->caller;
}

static const SondeTableKind node_slots = { .slot_bytes = sizeof (NodeSlot),
                                           .used_at = offsetof (NodeSlot, caller),
                                           .n_first_slots = 256,
                                           .max_eighths = 6,
                                           .allocate = g_malloc0_n,
                                           .hash = hash_node,
                                           .has_key = is_node };

SondeStackTree *
sonde_stack_tree_new (guint max_nodes)
{
  SondeStackTree *self = g_new0 (SondeStackTree, 1);

  self->nodes = g_array_new (FALSE, TRUE, sizeof (SondeStackNode));
  self->pcs = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  self->node_numbers.seed = self->pc_numbers.seed = sonde_hash_seed ();
  self->max_nodes = max_nodes;
  g_array_set_size (self->nodes, 1);
  return self;
}

void
sonde_stack_tree_free (SondeStackTree *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->nodes);
  g_array_unref (self->pcs);
  sonde_table_clear (&self->node_numbers);
  sonde_table_clear (&self->pc_numbers);
  g_free (self);
}

/* There are no more pcs than nodes, as each new pc makes a node. */
static uint32_t
ensure_pc (SondeStackTree *self, uint64_t address)
{
  const SondeNumberSlot *known = sonde_number_table_find (&self->pc_numbers, address);
  SondeNumberSlot slot = { .key = address };

  if (known != NULL)
    return (uint32_t) (known->number - 1);
  g_array_append_val (self->pcs, address);
  slot.number = self->pcs->len;
  sonde_table_add (&sonde_number_slots, &self->pc_numbers, &slot);
  return self->pcs->len - 1;
}

/* Returns whether there is room for it. */
static gboolean
make_child (SondeStackTree *self, uint32_t caller, uint64_t address, uint32_t *node)
{
  SondeStackNode made = { .caller = caller };
  NodeSlot slot = { address, caller, 0 };

  if (self->nodes->len >= self->max_nodes)
    {
      self->n_cut++;
      return FALSE;
    }
  made.pc = ensure_pc (self, address);
  g_array_append_val (self->nodes, made);
  slot.number = self->nodes->len;
  sonde_table_add (&node_slots, &self->node_numbers, &slot);
  *node = slot.number - 1;
  return TRUE;
}

static gboolean
find_child (const SondeStackTree *self, uint32_t caller, uint64_t address, uint32_t *node)
{
  const NodeSlot slot = { address, caller, 0 };
  const NodeSlot *known = sonde_table_find (&node_slots, &self->node_numbers,
                                            hash_node (&slot, self->node_numbers.seed), &slot);

  if (known != NULL)
    *node = known->number - 1;
  return known != NULL;
}

/* Of a node that will be made: those of a new stack have numbers in a row. */
static void
fetch_slot (const SondeStackTree *self, uint32_t caller, uint64_t address)
{
  const NodeSlot slot = { address, caller, 0 };

  __builtin_prefetch (sonde_table_slot (&node_slots, &self->node_numbers,
                                        hash_node (&slot, self->node_numbers.seed)),
                      1);
}

uint32_t
sonde_stack_tree_add_child (SondeStackTree *self, uint32_t caller, uint64_t address)
{
  uint32_t node = caller;

  if (!find_child (self, caller, address, &node))
    make_child (self, caller, address, &node);
  return node;
}

uint32_t
sonde_stack_tree_add (SondeStackTree *self, const uint64_t *addrs, guint n_addrs)
{
  uint32_t node = 0;
  gboolean is_new = FALSE; /* nobody was called by it yet */
  guint n_same = 0;

  self->n_cut += n_addrs > SONDE_STACK_TREE_MAX_DEPTH;
  n_addrs = MIN (n_addrs, SONDE_STACK_TREE_MAX_DEPTH);
  while (n_same < MIN (self->n_last, n_addrs)
         && self->last_addrs[n_same] == addrs[n_addrs - 1 - n_same])
    node = self->last_nodes[n_same++];
  self->n_last = n_same;
  for (guint i = n_addrs - n_same; i > 0; i--)
    {
      if (is_new && i > AHEAD)
        fetch_slot (self, node + AHEAD, addrs[i - 1 - AHEAD]);
      is_new = is_new || !find_child (self, node, addrs[i - 1], &node);
      if (is_new && !make_child (self, node, addrs[i - 1], &node))
        return node;
      self->last_addrs[self->n_last] = addrs[i - 1];
      self->last_nodes[self->n_last++] = node;
    }
  return node;
}
