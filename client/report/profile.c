/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile.h"

struct SondeProfile
{
  SondeUnit unit;
  GPtrArray *functions; /* const SondeFunction */
  GPtrArray *own;       /* those SondeFunction of them that are the profile's; texts in chunk */
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
  sonde_call_tree_free (process->tree);
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
  function->source = g_string_chunk_insert_const (self->chunk, "");
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
sonde_profile_add_process (SondeProfile *self,
                           const SondeModelProcess *process,
                           SondeCallTree *tree,
                           SondeCallTree *beside)
{
  SondeProfileProcess *added = g_new0 (SondeProfileProcess, 1);

  added->process.pid = process->pid;
  added->process.comm = g_strdup (process->comm);
  added->process.cmdline = g_strdup (process->cmdline);
  added->tree = tree;
  added->beside = beside;
  self->total += sonde_call_tree_node (tree, 0)->total;
  g_ptr_array_add (self->processes, added);
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
