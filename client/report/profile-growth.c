/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What weighs more in one profile than in another, in their unit. */
#include "client/report/profile-growth.h"

#include "client/base/text.h"
#include "client/report/function-set.h"

/* The processes of one name, in both profiles. */
typedef struct
{
  SondeCallTree *before;
  SondeCallTree *both; /* its first nodes are those of before */
} Group;

static void
group_free (gpointer data)
{
  Group *group = data;

  sonde_call_tree_free (group->before);
  sonde_call_tree_free (group->both);
  g_free (group);
}

static Group *
ensure_group (GHashTable *groups, const char *comm)
{
  Group *group = g_hash_table_lookup (groups, comm);

  if (group == NULL)
    {
      group = g_new0 (Group, 1);
      group->before = sonde_call_tree_new (NULL);
      group->both = sonde_call_tree_new (NULL);
      g_hash_table_insert (groups, g_strdup (comm), group);
    }
  return group;
}

static void
add_profile (GHashTable *groups,
             const SondeProfile *profile,
             const guint32 *numbers,
             gboolean is_before)
{
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      Group *group = ensure_group (groups, process->process.comm);

      if (is_before)
        sonde_call_tree_add_tree (group->before, process->tree, numbers);
      sonde_call_tree_add_tree (group->both, process->tree, numbers);
    }
}

/* (transfer full): NULL if nothing grew */
static SondeCallTree *
dup_grown (const Group *group)
{
  g_autoptr (SondeCallTree) grown = sonde_call_tree_new (NULL);
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 n_before = sonde_call_tree_n_nodes (group->before);

  for (guint32 i = 0; i < sonde_call_tree_n_nodes (group->both); i++)
    {
      guint64 before = i < n_before ? sonde_call_tree_node (group->before, i)->self : 0;
      guint64 after = sonde_call_tree_node (group->both, i)->self - before;
      guint n = 0;

      if (after <= before)
        continue;
      /* The path has the ids from the root to the node. */
      for (guint32 at = i; at != 0; at = sonde_call_tree_node (group->both, at)->parent)
        n++;
      g_array_set_size (path, n);
      for (guint32 at = i; at != 0; at = sonde_call_tree_node (group->both, at)->parent)
        g_array_index (path, guint32, --n) = sonde_call_tree_node (group->both, at)->id;
      sonde_call_tree_add (grown, (const guint32 *) (void *) path->data, path->len, after - before);
    }
  return sonde_call_tree_node (grown, 0)->total > 0 ? g_steal_pointer (&grown) : NULL;
}

SondeProfile *
sonde_profile_dup_growth (const SondeProfile *before, const SondeProfile *after)
{
  SondeProfile *growth = sonde_profile_new (sonde_profile_unit (after), NULL);
  g_autoptr (SondeFunctionSet) functions = sonde_function_set_new ();
  g_autofree guint32 *old_numbers = sonde_function_set_add (functions, before);
  g_autofree guint32 *new_numbers = sonde_function_set_add (functions, after);
  g_autoptr (GHashTable) groups
      = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, group_free);
  GHashTableIter iter;
  gpointer comm;
  gpointer group;

  for (guint32 i = 0; i < sonde_function_set_size (functions); i++)
    sonde_profile_add_function (growth, sonde_function_set_get (functions, i));
  add_profile (groups, before, old_numbers, TRUE);
  add_profile (groups, after, new_numbers, FALSE);

  g_hash_table_iter_init (&iter, groups);
  while (g_hash_table_iter_next (&iter, &comm, &group))
    {
      SondeModelProcess process = { .pid = -1, .comm = comm, .cmdline = comm };
      SondeCallTree *grown = dup_grown (group);

      if (grown != NULL)
        sonde_profile_add_process (growth, &process, grown, NULL);
    }
  sonde_profile_sort (growth);
  return growth;
}
