/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile-view.h"

#include <string.h>

#include "client/base/text.h"
#include "client/names/short-name.h"

/* Takes @tree as the only one of @view, and its fellow. */
static void
take_tree (SondeProfile *view, const char *title, SondeCallTree *tree, SondeCallTree *beside)
{
  g_autofree char *comm = g_strdup (title);
  SondeModelProcess all = { .pid = -1, .comm = comm, .cmdline = comm };

  sonde_profile_add_process (view, &all, SONDE_TID_ALL, tree, beside);
}

static SondeProfile *
new_view (const SondeProfile *profile)
{
  SondeProfile *view = sonde_profile_new (sonde_profile_unit (profile), NULL);

  for (guint32 i = 0; i < sonde_profile_n_functions (profile); i++)
    sonde_profile_add_function (view, sonde_profile_function (profile, i));
  return view;
}

/* A tree for what stands beside, if there is anything. */
static SondeCallTree *
new_beside (const SondeProfile *profile)
{
  return sonde_profile_has_beside (profile) ? sonde_call_tree_new (NULL) : NULL;
}

SondeProfile *
sonde_profile_view_bottom_up (const SondeProfile *profile)
{
  SondeProfile *view = new_view (profile);
  SondeCallTree *tree = sonde_call_tree_new (NULL);
  SondeCallTree *beside = new_beside (profile);

  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      sonde_call_tree_add_inverted (tree, process->tree);
      if (beside != NULL)
        sonde_call_tree_add_inverted (beside, process->beside);
    }
  take_tree (view, "[functions, below them their callers]", tree, beside);
  return view;
}

static gboolean
has_name (const SondeFunction *function, const char *wanted, GPatternSpec *pattern)
{
  g_autofree char *bare = g_strchomp (g_strndup (function->name, strcspn (function->name, "(")));
  g_autofree char *short_name = sonde_short_name_new (function->name, SONDE_SHORT_BARE);

  if (g_str_equal (function->name, wanted) || g_str_equal (bare, wanted)
      || g_str_equal (short_name, wanted))
    return TRUE;
  return strpbrk (wanted, "*?") != NULL && g_pattern_spec_match_string (pattern, function->name);
}

SondeProfile *
sonde_profile_view_callers (const SondeProfile *profile, const char *name)
{
  guint32 n_functions = sonde_profile_n_functions (profile);
  g_autofree gboolean *is_wanted = g_new0 (gboolean, n_functions);
  g_autoptr (GPatternSpec) pattern = g_pattern_spec_new (name);
  g_autofree char *shown = sonde_text_escape (name, -1);
  g_autofree char *title = g_strdup_printf ("[%s, below it its callers]", shown);
  gboolean is_found = FALSE;
  SondeProfile *view;
  SondeCallTree *tree;
  SondeCallTree *beside;

  for (guint32 i = 0; i < n_functions; i++)
    {
      is_wanted[i] = has_name (sonde_profile_function (profile, i), name, pattern);
      is_found = is_found || is_wanted[i];
    }
  if (!is_found)
    return NULL;

  view = new_view (profile);
  tree = sonde_call_tree_new (NULL);
  beside = new_beside (profile);
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      sonde_call_tree_add_callers (tree, process->tree, is_wanted);
      if (beside != NULL)
        sonde_call_tree_add_callers (beside, process->beside, is_wanted);
    }
  take_tree (view, title, tree, beside);
  return view;
}

/* Names the group of a function; (transfer full). */
typedef char *(*GroupFunc) (const SondeFunction *function);

static SondeProfile *
group_functions (const SondeProfile *profile, GroupFunc group)
{
  SondeProfile *view = sonde_profile_new (sonde_profile_unit (profile), NULL);
  g_autoptr (GHashTable) numbers
      = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  guint32 n_functions = sonde_profile_n_functions (profile);
  g_autofree guint32 *group_of = g_new (guint32, n_functions);

  for (guint32 i = 0; i < n_functions; i++)
    {
      g_autofree char *name = group (sonde_profile_function (profile, i));
      gpointer found;

      if (!g_hash_table_lookup_extended (numbers, name, NULL, &found))
        {
          found = GUINT_TO_POINTER (sonde_profile_name_function (view, name, ""));
          g_hash_table_insert (numbers, g_steal_pointer (&name), found);
        }
      group_of[i] = GPOINTER_TO_UINT (found);
    }
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      sonde_profile_add_process (
          view, &process->process, process->tid, sonde_call_tree_remap (process->tree, group_of),
          process->beside != NULL ? sonde_call_tree_remap (process->beside, group_of) : NULL);
    }
  return view;
}

static char *
dup_module (const SondeFunction *function)
{
  return g_strdup (function->module[0] != '\0' ? function->module : "[unknown]");
}

static char *
dup_line (const SondeFunction *function)
{
  g_autofree char *module = dup_module (function);

  if (function->source[0] != '\0')
    return g_strdup_printf ("%-28s  %s", function->source, function->name);
  return g_strdup_printf ("%-28s  %s", "[no line]", module);
}

SondeProfile *
sonde_profile_view_by_module (const SondeProfile *profile)
{
  return group_functions (profile, dup_module);
}

SondeProfile *
sonde_profile_view_by_line (const SondeProfile *profile)
{
  return group_functions (profile, dup_line);
}

char *
sonde_profile_dup_row_name (const SondeFunction *function, SondeBy by)
{
  return by == SONDE_BY_LINE ? dup_line (function) : dup_module (function);
}

static char *
dup_name (const SondeProfileProcess *process)
{
  return sonde_text_escape (process->process.comm, -1);
}

/* @label: (transfer full) */
static SondeProfile *
view_by_label (const SondeProfile *profile, char *(*label) (const SondeProfileProcess *process))
{
  SondeProfile *view = sonde_profile_new (sonde_profile_unit (profile), NULL);

  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      g_autofree char *name = label (process);
      guint32 id = sonde_profile_name_function (view, name, "");
      SondeCallTree *tree = sonde_call_tree_new (NULL);
      SondeCallTree *beside = new_beside (profile);

      sonde_call_tree_add (tree, &id, 1, sonde_call_tree_node (process->tree, 0)->total);
      if (beside != NULL)
        sonde_call_tree_add (beside, &id, 1, sonde_call_tree_node (process->beside, 0)->total);
      sonde_profile_add_process (view, &process->process, process->tid, tree, beside);
    }
  return view;
}

SondeProfile *
sonde_profile_view_by_process (const SondeProfile *profile)
{
  return view_by_label (profile, sonde_profile_process_dup_label);
}

SondeProfile *
sonde_profile_view_by_name (const SondeProfile *profile)
{
  return view_by_label (profile, dup_name);
}

void
sonde_profile_add_thread (SondeProfile *view,
                          const SondeModelProcess *process,
                          gint32 tid,
                          const char *thread_name,
                          guint64 n_samples)
{
  const SondeProfileProcess thread
      = { .process = { .pid = process->pid, .comm = thread_name }, .tid = tid, .n_processes = 1 };
  g_autofree char *name = sonde_profile_process_dup_label (&thread);
  guint32 id = sonde_profile_name_function (view, name, "");
  SondeCallTree *tree = sonde_call_tree_new (NULL);

  sonde_call_tree_add (tree, &id, 1, n_samples);
  sonde_profile_add_process (view, process, tid, tree, NULL);
}

SondeProfile *
sonde_profile_view_by (const SondeProfile *profile, SondeBy by)
{
  switch (by)
    {
    case SONDE_BY_MODULE:
      return sonde_profile_view_by_module (profile);
    case SONDE_BY_LINE:
      return sonde_profile_view_by_line (profile);
    case SONDE_BY_FUNCTION:
      return NULL;
    default:
      return sonde_profile_view_by_process (profile);
    }
}
