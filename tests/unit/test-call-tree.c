/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call trees: merging, sums, order. */
#include "client/model/call-tree.h"

#define ADD_PATH(tree, ...)                                                                        \
  sonde_call_tree_add (tree, (const guint32[]){ __VA_ARGS__ },                                     \
                       G_N_ELEMENTS (((const guint32[]){ __VA_ARGS__ })), 1)

static int
compare_ids (gconstpointer a, gconstpointer b, gpointer user_data)
{
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  return left < right ? -1 : left > right;
}

static const SondeCallNode *
child (const SondeCallTree *tree, guint32 node, guint index)
{
  g_autoptr (GArray) children = sonde_call_tree_dup_children (tree, node, compare_ids, NULL);

  g_assert_cmpuint (index, <, children->len);
  return sonde_call_tree_node (tree, g_array_index (children, guint32, index));
}

static guint
n_children (const SondeCallTree *tree, guint32 node)
{
  g_autoptr (GArray) children = sonde_call_tree_dup_children (tree, node, compare_ids, NULL);

  return children->len;
}

static void
equal_stacks_share_nodes (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);

  for (guint i = 0; i < 1000; i++)
    ADD_PATH (tree, 1, 2, 3);
  g_assert_cmpuint (sonde_call_tree_n_nodes (tree), ==, 4);
  g_assert_cmpuint (sonde_call_tree_node (tree, 3)->self, ==, 1000);
  g_assert_cmpuint (sonde_call_tree_node (tree, 1)->self, ==, 0);
  g_assert_cmpuint (sonde_call_tree_node (tree, 1)->total, ==, 1000);
  g_assert_cmpuint (sonde_call_tree_node (tree, 0)->total, ==, 1000);
}

static void
an_empty_stack_counts_at_the_root (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);

  sonde_call_tree_add (tree, NULL, 0, 5);
  g_assert_cmpuint (sonde_call_tree_node (tree, 0)->self, ==, 5);
  g_assert_cmpuint (sonde_call_tree_node (tree, 0)->total, ==, 5);
  g_assert_cmpuint (n_children (tree, 0), ==, 0);
}

static void
siblings_come_heaviest_first_then_in_order_of_name (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);

  ADD_PATH (tree, 9);
  ADD_PATH (tree, 4);
  ADD_PATH (tree, 7);
  ADD_PATH (tree, 7);
  g_assert_cmpuint (child (tree, 0, 0)->id, ==, 7);
  g_assert_cmpuint (child (tree, 0, 1)->id, ==, 4);
  g_assert_cmpuint (child (tree, 0, 2)->id, ==, 9);
}

static void
remapping_merges_siblings_and_what_is_below (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);
  g_autoptr (SondeCallTree) mapped = NULL;
  const guint32 new_ids[] = { 0, 10, 20, 20, 30 };

  ADD_PATH (tree, 1, 2, 4);
  ADD_PATH (tree, 1, 3, 4);
  ADD_PATH (tree, 1, 3);
  mapped = sonde_call_tree_remap (tree, new_ids);

  g_assert_cmpuint (sonde_call_tree_n_nodes (mapped), ==, 4);
  g_assert_cmpuint (sonde_call_tree_node (mapped, 0)->total, ==, 3);
  g_assert_cmpuint (child (mapped, 1, 0)->id, ==, 20);
  g_assert_cmpuint (child (mapped, 1, 0)->total, ==, 3);
  g_assert_cmpuint (child (mapped, 1, 0)->self, ==, 1);
  g_assert_cmpuint (child (mapped, 2, 0)->id, ==, 30);
  g_assert_cmpuint (child (mapped, 2, 0)->self, ==, 2);
}

static void
flat_counts_recursion_once_a_stack (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);
  guint64 self_sums[4] = { 0 };
  guint64 total_sums[4] = { 0 };
  guint32 on_path[4] = { 0 };

  ADD_PATH (tree, 1, 2, 1, 2);
  ADD_PATH (tree, 1, 2, 3);
  ADD_PATH (tree, 3);
  sonde_call_tree_sum_flat (tree, self_sums, total_sums, on_path, 4);

  g_assert_cmpuint (total_sums[1], ==, 2);
  g_assert_cmpuint (total_sums[2], ==, 2);
  g_assert_cmpuint (total_sums[3], ==, 2);
  g_assert_cmpuint (self_sums[1], ==, 0);
  g_assert_cmpuint (self_sums[2], ==, 1);
  g_assert_cmpuint (self_sums[3], ==, 2);
}

static void
flat_walks_stacks_of_any_depth (void)
{
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (NULL);
  g_autofree guint32 *path = g_new (guint32, 100000);
  guint64 self_sums[2] = { 0 };
  guint64 total_sums[2] = { 0 };
  guint32 on_path[2] = { 0 };

  for (guint i = 0; i < 100000; i++)
    path[i] = i % 2;
  sonde_call_tree_add (tree, path, 100000, 1);
  sonde_call_tree_sum_flat (tree, self_sums, total_sums, on_path, 2);
  g_assert_cmpuint (total_sums[0], ==, 1);
  g_assert_cmpuint (self_sums[1], ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/call-tree/equal-stacks-share-nodes", equal_stacks_share_nodes);
  g_test_add_func ("/call-tree/an-empty-stack-counts-at-the-root",
                   an_empty_stack_counts_at_the_root);
  g_test_add_func ("/call-tree/siblings-come-heaviest-first-then-in-order-of-name",
                   siblings_come_heaviest_first_then_in_order_of_name);
  g_test_add_func ("/call-tree/remapping-merges-siblings-and-what-is-below",
                   remapping_merges_siblings_and_what_is_below);
  g_test_add_func ("/call-tree/flat-counts-recursion-once-a-stack",
                   flat_counts_recursion_once_a_stack);
  g_test_add_func ("/call-tree/flat-walks-stacks-of-any-depth", flat_walks_stacks_of_any_depth);
  return g_test_run ();
}
