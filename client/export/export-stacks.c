/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/export/export-stacks.h"

/* The node after @node and all below it; 0: there is none. @ids loses what is left. */
static guint32
leave (const SondeCallTree *tree, guint32 node, GArray *ids)
{
  while (node != 0)
    {
      const SondeCallNode *at = sonde_call_tree_node (tree, node);

      g_array_set_size (ids, ids->len - 1);
      if (at->next_sibling != 0)
        return at->next_sibling;
      node = at->parent;
    }
  return 0;
}

void
sonde_export_foreach_stack (const SondeCallTree *tree,
                            SondeExportStackFunc func,
                            gpointer user_data)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 node = 0;

  do
    {
      const SondeCallNode *at = sonde_call_tree_node (tree, node);

      if (node != 0)
        g_array_append_val (ids, at->id);
      if (at->self > 0)
        func ((const guint32 *) (void *) ids->data, ids->len, at->self, user_data);
      node = at->first_child != 0 ? at->first_child : leave (tree, node, ids);
    }
  while (node != 0);
}
