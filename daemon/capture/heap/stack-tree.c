/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/stack-tree.h"

#include "base/hash.h"

/* Of a node: caller << 32 | pc's number; of a pc: itself. */
typedef struct
{
  uint64_t key;
  uint64_t number; /* + 1 */
} NumberSlot;

static uint64_t
hash_key (const void *slot, uint64_t seed)
{
  return sonde_hash (seed, ((const NumberSlot *) slot)->key);
}

static bool
has_key (const void *slot, uint64_t hash, const void *key)
{
  return ((const NumberSlot *) slot)->key == *(const uint64_t *) key;
}

static const SondeTableKind numbers = { .slot_bytes = sizeof (NumberSlot),
                                        .used_at = offsetof (NumberSlot, number),
                                        .n_first_slots = 256,
                                        .max_eighths = 6,
                                        .allocate = g_malloc0_n,
                                        .hash = hash_key,
                                        .has_key = has_key };

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

static const NumberSlot *
find (const SondeTable *table, uint64_t key)
{
  return sonde_table_find (&numbers, table, sonde_hash (table->seed, key), &key);
}

/* There are no more pcs than nodes, as each new pc makes a node. */
static uint32_t
ensure_pc (SondeStackTree *self, uint64_t address)
{
  const NumberSlot *known = find (&self->pc_numbers, address);
  NumberSlot slot = { .key = address };

  if (known != NULL)
    return (uint32_t) (known->number - 1);
  g_array_append_val (self->pcs, address);
  slot.number = self->pcs->len;
  sonde_table_add (&numbers, &self->pc_numbers, &slot);
  return self->pcs->len - 1;
}

uint32_t
sonde_stack_tree_add (SondeStackTree *self, const uint64_t *addrs, guint n_addrs)
{
  uint32_t node = 0;

  self->n_cut += n_addrs > SONDE_STACK_TREE_MAX_DEPTH;
  n_addrs = MIN (n_addrs, SONDE_STACK_TREE_MAX_DEPTH);
  for (guint i = n_addrs; i > 0; i--)
    {
      const NumberSlot *pc = find (&self->pc_numbers, addrs[i - 1]);
      SondeStackNode made = { .caller = node };
      NumberSlot slot = { 0 };
      const NumberSlot *known = NULL;

      if (pc != NULL)
        {
          slot.key = (uint64_t) node << 32 | (pc->number - 1);
          known = find (&self->node_numbers, slot.key);
        }
      if (known == NULL && self->nodes->len >= self->max_nodes)
        {
          self->n_cut++;
          return node;
        }
      if (known == NULL)
        {
          made.pc = ensure_pc (self, addrs[i - 1]);
          slot.key = (uint64_t) node << 32 | made.pc;
          g_array_append_val (self->nodes, made);
          slot.number = self->nodes->len;
          sonde_table_add (&numbers, &self->node_numbers, &slot);
          known = &slot;
        }
      node = (uint32_t) (known->number - 1);
    }
  return node;
}
