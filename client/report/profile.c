/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile.h"

#include "client/base/text.h"

struct SondeProfile
{
  SondeUnit unit;
  SondeGrouping *grouping; /* NULL: each process is one */
  GPtrArray *functions;    /* const SondeFunction */
  GPtrArray *own;          /* those SondeFunction of them that are the profile's; texts in chunk */
  GStringChunk *chunk;
  GPtrArray *processes; /* SondeProfileProcess */
  guint64 total;
};

static void
process_free (gpointer data)
{
  SondeProfileProcess *process = data;

  g_free ((char *) process->process.comm);
  g_free ((char *) process->process.cmdline);
  g_free ((char *) process->command);
  sonde_call_tree_free (process->tree);
  g_clear_pointer (&process->depths, g_array_unref);
  g_clear_pointer (&process->pids, g_hash_table_unref);
  sonde_call_tree_free (process->beside);
  g_free (process);
}

SondeProfile *
sonde_profile_new (SondeUnit unit, const SondeSymbolResolver *resolver)
{
  SondeProfile *self = g_new0 (SondeProfile, 1);

  self->unit = unit;
  self->functions = g_ptr_array_new ();
  self->own = g_ptr_array_new_with_free_func (g_free);
  self->chunk = g_string_chunk_new (256);
  self->processes = g_ptr_array_new_with_free_func (process_free);
  for (guint32 i = 0; resolver != NULL && i < sonde_symbol_resolver_n_functions (resolver); i++)
    sonde_profile_add_function (self, sonde_symbol_resolver_function (resolver, i));
  return self;
}

void
sonde_profile_free (SondeProfile *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->functions);
  g_ptr_array_unref (self->own);
  g_string_chunk_free (self->chunk);
  g_ptr_array_unref (self->processes);
  sonde_grouping_free (self->grouping);
  g_free (self);
}

SondeUnit
sonde_profile_unit (const SondeProfile *self)
{
  return self->unit;
}

gboolean
sonde_profile_has_beside (const SondeProfile *self)
{
  return self->processes->len > 0 && sonde_profile_process (self, 0)->beside != NULL;
}

void
sonde_profile_add_function (SondeProfile *self, const SondeFunction *function)
{
  g_ptr_array_add (self->functions, (gpointer) function);
}

guint32
sonde_profile_name_function (SondeProfile *self, const char *name, const char *module)
{
  SondeFunction *function = g_new0 (SondeFunction, 1);

  function->name = g_string_chunk_insert (self->chunk, name);
  function->module = g_string_chunk_insert_const (self->chunk, module);
  function->source = function->file = g_string_chunk_insert_const (self->chunk, "");
  g_ptr_array_add (self->own, function);
  g_ptr_array_add (self->functions, function);
  return self->functions->len - 1;
}

guint32
sonde_profile_n_functions (const SondeProfile *self)
{
  return self->functions->len;
}

const SondeFunction *
sonde_profile_function (const SondeProfile *self, guint32 function)
{
  return g_ptr_array_index (self->functions, function);
}

void
sonde_profile_group (SondeProfile *self, SondeGrouping *grouping)
{
  g_assert (self->processes->len == 0 && self->grouping == NULL);
  self->grouping = grouping;
}

static void
set_text (const char **text, const char *value)
{
  g_free ((char *) *text);
  *text = g_strdup (value);
}

/* Adds to @group another process with @tree. It keeps its pid while there is but one. */
static void
merge (SondeProfileProcess *group,
       const SondeModelProcess *process,
       const char *name,
       const SondeCallTree *tree,
       const SondeCallTree *beside)
{
  guint64 total = sonde_call_tree_node (tree, 0)->total;

  sonde_call_tree_add_tree (group->tree, tree, NULL);
  if (beside != NULL)
    sonde_call_tree_add_tree (group->beside, beside, NULL);
  if (group->pids == NULL && group->process.pid != process->pid)
    {
      group->pids = g_hash_table_new (NULL, NULL);
      g_hash_table_add (group->pids, GINT_TO_POINTER (group->process.pid));
    }
  if (group->pids != NULL)
    {
      g_hash_table_add (group->pids, GINT_TO_POINTER (process->pid));
      group->n_processes = g_hash_table_size (group->pids);
    }
  if (group->n_processes > 1)
    {
      group->process.pid = -1;
      set_text (&group->process.comm, name);
    }
  if (g_strcmp0 (group->command, process->comm) != 0)
    set_text (&group->command, NULL);
  if (total <= group->heaviest)
    return;
  group->heaviest = total;
  set_text (&group->process.cmdline, process->cmdline);
}

void
sonde_profile_add_process (SondeProfile *self,
                           const SondeModelProcess *process,
                           gint32 tid,
                           SondeCallTree *tree,
                           SondeCallTree *beside)
{
  guint number = self->grouping != NULL ? sonde_grouping_find (self->grouping, process, tid)
                                        : self->processes->len;
  SondeProfileProcess *added;

  self->total += sonde_call_tree_node (tree, 0)->total;
  if (number < self->processes->len)
    {
      merge (g_ptr_array_index (self->processes, number), process,
             sonde_grouping_name (self->grouping, number), tree, beside);
      sonde_call_tree_free (tree);
      sonde_call_tree_free (beside);
      return;
    }
  added = g_new0 (SondeProfileProcess, 1);
  added->process.pid = process->pid;
  added->process.comm = g_strdup (process->comm);
  added->process.cmdline = g_strdup (process->cmdline);
  added->command = g_strdup (process->comm);
  added->tid = tid;
  added->n_processes = 1;
  added->tree = tree;
  added->heaviest = sonde_call_tree_node (tree, 0)->total;
  added->beside = beside;
  if (self->grouping != NULL)
    set_text (&added->process.comm, sonde_grouping_name (self->grouping, number));
  g_ptr_array_add (self->processes, added);
}

char *
sonde_profile_process_dup_label (const SondeProfileProcess *process)
{
  g_autofree char *comm = sonde_text_escape (process->process.comm, -1);
  g_autofree char *count = NULL;

  if (process->n_processes > 1)
    {
      count = sonde_text_count (process->n_processes);
      return g_strdup_printf ("%s (%s processes)", comm, count);
    }
  if (process->process.pid < 0)
    return g_steal_pointer (&comm);
  if (process->tid == SONDE_TID_TRUNCATED)
    return g_strdup_printf ("%s (pid %d, " SONDE_TRUNCATED ")", comm, process->process.pid);
  if (process->tid != SONDE_TID_ALL)
    return g_strdup_printf ("%s (pid %d, tid %d)", comm, process->process.pid, process->tid);
  return g_strdup_printf ("%s (pid %d)", comm, process->process.pid);
}

void
sonde_profile_limit (SondeProfile *self, guint max)
{
  SondeProfileProcess *rest;
  guint n = self->processes->len;
  g_autofree char *count = NULL;
  g_autofree char *name = NULL;

  if (n <= max)
    return;
  rest = g_ptr_array_index (self->processes, max - 1);
  count = sonde_text_count (n - max + 1);
  name = g_strdup_printf ("[%s more]", count);
  for (guint i = max; i < n; i++)
    {
      const SondeProfileProcess *process = g_ptr_array_index (self->processes, i);

      sonde_call_tree_add_tree (rest->tree, process->tree, NULL);
      if (rest->beside != NULL)
        sonde_call_tree_add_tree (rest->beside, process->beside, NULL);
    }
  rest->n_processes = 1;
  rest->process.pid = -1;
  rest->tid = SONDE_TID_ALL;
  set_text (&rest->command, NULL);
  set_text (&rest->process.comm, name);
  g_ptr_array_set_size (self->processes, (gint) max);
}

static int
compare_processes (gconstpointer a, gconstpointer b)
{
  const SondeProfileProcess *left = *(const SondeProfileProcess *const *) a;
  const SondeProfileProcess *right = *(const SondeProfileProcess *const *) b;
  guint64 left_total = sonde_call_tree_node (left->tree, 0)->total;
  guint64 right_total = sonde_call_tree_node (right->tree, 0)->total;

  if (left_total != right_total)
    return left_total > right_total ? -1 : 1;
  if (left->process.pid != right->process.pid)
    return left->process.pid < right->process.pid ? -1 : 1;
  return g_strcmp0 (left->process.comm, right->process.comm);
}

void
sonde_profile_sort (SondeProfile *self)
{
  g_ptr_array_sort (self->processes, compare_processes);
}

guint
sonde_profile_n_processes (const SondeProfile *self)
{
  return self->processes->len;
}

const SondeProfileProcess *
sonde_profile_process (const SondeProfile *self, guint process)
{
  return g_ptr_array_index (self->processes, process);
}

guint64
sonde_profile_total (const SondeProfile *self)
{
  return self->total;
}

guint64
sonde_profile_outermost (const SondeProfile *self, const char *name)
{
  guint64 n = 0;

  for (guint i = 0; i < self->processes->len; i++)
    {
      const SondeCallTree *tree = sonde_profile_process (self, i)->tree;
      guint32 node = sonde_call_tree_node (tree, 0)->first_child;

      for (; node != 0; node = sonde_call_tree_node (tree, node)->next_sibling)
        {
          const SondeCallNode *child = sonde_call_tree_node (tree, node);

          if (g_str_equal (sonde_profile_function (self, child->id)->name, name))
            n += child->total;
        }
    }
  return n;
}
