/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/folding.h"

#include <string.h>

#include "client/base/choice.h"

void
sonde_folding_clear (SondeFolding *self)
{
  g_clear_pointer (&self->word, g_free);
}

gboolean
sonde_folding_check (SondeFolding *self, SondeRecursion usual)
{
  static const char *const words[] = { [SONDE_RECURSION_DIRECT] = "direct",
                                       [SONDE_RECURSION_ALL] = "all",
                                       [SONDE_RECURSION_NONE] = "no",
                                       NULL };
  int index = (int) usual;

  if (self->word != NULL)
    index = sonde_choice_find_or_complain ("--fold-recursion", self->word, words);
  self->recursion = (SondeRecursion) MAX (index, 0);
  return index >= 0;
}

/* "python3.11", "libpython3.11.so.1.0", "bin/php" */
static gboolean
is_interpreter (const char *module)
{
  const char *slash = strrchr (module, '/');
  const char *name = slash != NULL ? slash + 1 : module;

  if (g_str_has_prefix (name, "lib"))
    name += strlen ("lib");
  for (guint i = 0; sonde_interpreted_modules[i] != NULL; i++)
    if (g_str_has_prefix (name, sonde_interpreted_modules[i])
        && !g_str_equal (module, sonde_interpreted_modules[i]))
      return TRUE;
  return FALSE;
}

/* Functions that allocate for who calls them, without their parameters: a name, or all that begin
 * so. */
static gboolean
is_wrapper (const char *name)
{
  static const char *const names[] = { "malloc",
                                       "calloc",
                                       "realloc",
                                       "reallocarray",
                                       "aligned_alloc",
                                       "memalign",
                                       "valloc",
                                       "pvalloc",
                                       "posix_memalign",
                                       "strdup",
                                       "__strdup",
                                       "strndup",
                                       "__strndup",
                                       "operator new",
                                       "operator new[]",
                                       "g_malloc",
                                       "g_malloc0",
                                       "g_malloc_n",
                                       "g_malloc0_n",
                                       "g_realloc",
                                       "g_realloc_n",
                                       "g_strdup",
                                       "g_strndup",
                                       "g_memdup2",
                                       "g_slice_alloc",
                                       "g_try_malloc",
                                       "g_slice_alloc0",
                                       "xmalloc",
                                       "xcalloc",
                                       "xrealloc",
                                       "xstrdup",
                                       "vasprintf",
                                       "__vasprintf_internal",
                                       "asprintf",
                                       NULL };
  static const char *const beginnings[] = { "PyMem_",
                                            "PyObject_Malloc",
                                            "PyObject_Calloc",
                                            "PyObject_Realloc",
                                            "_PyMem_",
                                            "_PyObject_Malloc",
                                            "__rust_alloc",
                                            "__rdl_alloc",
                                            "__rg_alloc",
                                            "alloc::alloc::",
                                            "std::allocator",
                                            "__gnu_cxx::new_allocator",
                                            "std::__new_allocator",
                                            "std::allocator_traits",
                                            NULL };
  g_autofree char *bare = g_strchomp (g_strndup (name, strcspn (name, "(")));

  if (g_strv_contains (names, bare))
    return TRUE;
  for (guint i = 0; beginnings[i] != NULL; i++)
    if (g_str_has_prefix (name, beginnings[i]))
      return TRUE;
  return FALSE;
}

SondeFoldKind
sonde_fold_kind (const SondeFunction *function)
{
  if (g_strv_contains (sonde_interpreted_modules, function->module))
    return SONDE_FOLD_SCRIPT;
  if (is_wrapper (function->name))
    return SONDE_FOLD_WRAPPER;
  return is_interpreter (function->module) ? SONDE_FOLD_INTERNAL : SONDE_FOLD_PLAIN;
}

static void
note_depth (SondeFolder *self, guint32 node, guint32 depth)
{
  if (self->depths == NULL)
    self->depths = g_array_new (FALSE, TRUE, sizeof (guint32));
  if (self->depths->len <= node)
    g_array_set_size (self->depths, node + 1);
  if (g_array_index (self->depths, guint32, node) < depth)
    g_array_index (self->depths, guint32, node) = depth;
}

/* The node of @id at or above @node; 0: there is none where it may be. */
static guint32
find_recursion (const SondeFolder *self, guint32 node, guint32 id)
{
  for (; node != 0; node = sonde_call_tree_node (self->tree, node)->parent)
    {
      if (sonde_call_tree_node (self->tree, node)->id == id)
        return node;
      if (self->folding.recursion != SONDE_RECURSION_ALL)
        return 0;
    }
  return 0;
}

static guint32
enter (SondeFolder *self, guint32 parent, guint32 id, guint32 *run)
{
  guint32 known = self->folding.recursion != SONDE_RECURSION_NONE
                          /* what says that frames are missing is none */
                          && id != SONDE_CALL_TRUNCATED
                      ? find_recursion (self, parent, id)
                      : 0;

  if (known == 0)
    {
      *run = self->folding.recursion == SONDE_RECURSION_ALL ? *run : 0;
      return sonde_call_tree_ensure_child (self->tree, parent, id);
    }
  note_depth (self, known, ++*run + 1);
  return known;
}

SondeFoldPlace
sonde_folder_step (SondeFolder *self, SondeFoldPlace at, guint32 id)
{
  SondeFoldKind kind = (SondeFoldKind) self->kinds[id];
  guint32 ignored = at.run;

  if (self->folding.shows_internals || (kind != SONDE_FOLD_SCRIPT && kind != SONDE_FOLD_INTERNAL))
    {
      guint32 bare = at.bare;
      gboolean is_same = at.all == at.bare;

      at.all = enter (self, at.all, id, &at.run);
      at.bare = is_same ? at.all : enter (self, bare, id, &ignored);
    }
  else if (kind == SONDE_FOLD_SCRIPT)
    at.all = at.bare = enter (self, at.bare, id, &at.run);
  else
    at.all = enter (self, at.all, id, &ignored);
  return at;
}

/* Where the weight of a stack that ends at @node goes: to the caller of the wrappers there. */
static guint32
skip_wrappers (const SondeFolder *self, guint32 node)
{
  const SondeCallNode *at = sonde_call_tree_node (self->tree, node);

  while (node != 0 && at->parent != 0 && self->kinds[at->id] == SONDE_FOLD_WRAPPER)
    {
      node = at->parent;
      at = sonde_call_tree_node (self->tree, node);
    }
  return node;
}

static gboolean
has_something (const SondeFolder *self, const SondeCallTree *tree)
{
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);
      SondeFoldKind kind = (SondeFoldKind) self->kinds[node->id];

      if ((kind == SONDE_FOLD_SCRIPT && !self->folding.shows_internals)
          || (kind == SONDE_FOLD_WRAPPER && self->folding.folds_wrappers)
          || (self->folding.recursion == SONDE_RECURSION_DIRECT && node->parent != 0
              && sonde_call_tree_node (tree, node->parent)->id == node->id)
          || self->folding.recursion == SONDE_RECURSION_ALL)
        return TRUE;
    }
  return FALSE;
}

static void
weigh (SondeFolder *self, const SondeCallTree *from, const guint32 *ends, SondeCallTree *to)
{
  g_autofree guint64 *weights = g_new0 (guint64, sonde_call_tree_n_nodes (to));

  for (guint32 i = 0; i < sonde_call_tree_n_nodes (from); i++)
    weights[ends[i]] += sonde_call_tree_node (from, i)->self;
  sonde_call_tree_set_weights (to, weights);
}

/* Whether functions that call themselves are all that there is to fold. */
static gboolean
is_plain (const SondeFolder *self, const SondeCallTree *tree)
{
  gboolean is_bare = TRUE;

  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree) && is_bare; i++)
    {
      guint8 kind = self->kinds[sonde_call_tree_node (tree, i)->id];

      is_bare = kind != SONDE_FOLD_SCRIPT && kind != SONDE_FOLD_INTERNAL;
    }
  return self->folding.recursion == SONDE_RECURSION_DIRECT
         && (is_bare || self->folding.shows_internals);
}

/* As sonde_folder_step() would; but what a node calls may be there already only if another one has
 * become it, and else needs no look. */
static void
fold_direct (SondeFolder *self, const SondeCallTree *tree, SondeFoldPlace *places)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (tree);
  g_autofree guint8 *is_shared = g_new0 (guint8, n_nodes); /* by node of the new tree */

  for (guint32 i = 1; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);
      SondeFoldPlace at = places[node->parent];
      guint32 n_before = sonde_call_tree_n_nodes (self->tree);

      if (node->parent != 0 && node->id != SONDE_CALL_TRUNCATED
          && sonde_call_tree_node (tree, node->parent)->id == node->id)
        note_depth (self, at.all, ++at.run + 1);
      else
        {
          at.run = 0;
          at.all = is_shared[at.all] ? sonde_call_tree_ensure_child (self->tree, at.all, node->id)
                                     : sonde_call_tree_add_child (self->tree, at.all, node->id);
        }
      is_shared[at.all] = sonde_call_tree_n_nodes (self->tree) == n_before;
      places[i] = at;
    }
}

static void
fold_process (SondeFolder *self, SondeProfileProcess *process)
{
  g_autoptr (SondeCallTree) old = process->tree;
  g_autoptr (SondeCallTree) old_beside = process->beside;
  guint32 n_nodes = sonde_call_tree_n_nodes (old);
  g_autofree SondeFoldPlace *places = g_new0 (SondeFoldPlace, n_nodes);
  g_autofree guint32 *ends = g_new0 (guint32, n_nodes);

  self->tree = sonde_call_tree_new_like (old);
  if (is_plain (self, old))
    fold_direct (self, old, places);
  else
    for (guint32 i = 1; i < n_nodes; i++)
      {
        const SondeCallNode *node = sonde_call_tree_node (old, i);

        places[i] = sonde_folder_step (self, places[node->parent], node->id);
      }
  for (guint32 i = 1; i < n_nodes; i++)
    ends[i] = self->folding.folds_wrappers ? skip_wrappers (self, places[i].all) : places[i].all;
  if (old_beside != NULL)
    process->beside = sonde_call_tree_remap (self->tree, NULL);
  weigh (self, old, ends, self->tree);
  if (old_beside != NULL)
    weigh (self, old_beside, ends, process->beside);
  process->tree = g_steal_pointer (&self->tree);
  if (self->depths != NULL)
    g_array_set_size (self->depths, sonde_call_tree_n_nodes (process->tree));
  process->depths = g_steal_pointer (&self->depths);
}

void
sonde_profile_fold (SondeProfile *profile, const SondeFolding *folding)
{
  guint32 n_functions = sonde_profile_n_functions (profile);
  g_autofree guint8 *kinds = g_new (guint8, n_functions);
  SondeFolder folder = { .folding = *folding, .kinds = kinds };

  for (guint32 i = 0; i < n_functions; i++)
    kinds[i] = (guint8) sonde_fold_kind (sonde_profile_function (profile, i));
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      SondeProfileProcess *process = (SondeProfileProcess *) sonde_profile_process (profile, i);

      if (has_something (&folder, process->tree))
        fold_process (&folder, process);
    }
}
