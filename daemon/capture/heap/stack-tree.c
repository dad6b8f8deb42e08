/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/stack-tree.h"

#include "daemon/capture/heap/number-table.h"

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

uint32_t
sonde_stack_tree_add (SondeStackTree *self, const uint64_t *addrs, guint n_addrs)
{
  uint32_t node = 0;

  self->n_cut += n_addrs > SONDE_STACK_TREE_MAX_DEPTH;
  n_addrs = MIN (n_addrs, SONDE_STACK_TREE_MAX_DEPTH);
  for (guint i = n_addrs; i > 0; i--)
    {
      const SondeNumberSlot *pc = sonde_number_table_find (&self->pc_numbers, addrs[i - 1]);
      SondeStackNode made = { .caller = node };
      SondeNumberSlot slot = { 0 };
      const SondeNumberSlot *known = NULL;

      if (pc != NULL)
        {
          slot.key = (uint64_t) node << 32 | (pc->number - 1);
          known = sonde_number_table_find (&self->node_numbers, slot.key);
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
          sonde_table_add (&sonde_number_slots, &self->node_numbers, &slot);
          known = &slot;
        }
      node = (uint32_t) (known->number - 1);
    }
  return node;
}
