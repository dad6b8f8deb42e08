/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/grouping.h"

#include <string.h>

#include "client/base/text.h"
#include "client/base/unit-name.h"

#define ALL          "[all processes]"
#define NO_UNIT      "[no unit]"
#define NO_CONTAINER "[no container]"

const char *const sonde_by_words[] = {
  [SONDE_BY_NONE] = "none",       [SONDE_BY_CONTAINER] = "container",
  [SONDE_BY_UNIT] = "unit",       [SONDE_BY_COMMAND] = "command",
  [SONDE_BY_PROCESS] = "process", [SONDE_BY_THREAD] = "thread",
  [SONDE_BY_MODULE] = "module",   [SONDE_BY_FUNCTION] = "function",
  [SONDE_BY_LINE] = "line",       NULL,
};

struct SondeGrouping
{
  SondeBy by;
  const SondeCaptureModel *model;
  GPtrArray *names;    /* by number of the group */
  GHashTable *numbers; /* key → number */
};

gboolean
sonde_by_is_of_functions (SondeBy by)
{
  return by >= SONDE_BY_MODULE;
}

SondeGrouping *
sonde_grouping_new (SondeBy by, const SondeCaptureModel *model)
{
  SondeGrouping *self = g_new0 (SondeGrouping, 1);

  self->by = by;
  self->model = model;
  self->names = g_ptr_array_new_with_free_func (g_free);
  self->numbers = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  return self;
}

void
sonde_grouping_free (SondeGrouping *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->names);
  g_hash_table_unref (self->numbers);
  g_free (self);
}

static char *
dup_name (const SondeGrouping *self, const SondeModelProcess *process, gint32 tid)
{
  const char *cgroup;
  char *name;

  switch (self->by)
    {
    case SONDE_BY_NONE:
      return g_strdup (ALL);
    case SONDE_BY_UNIT:
    case SONDE_BY_CONTAINER:
      cgroup = sonde_capture_model_cgroup (self->model, process->pid);
      name = cgroup == NULL              ? NULL
             : self->by == SONDE_BY_UNIT ? sonde_cgroup_dup_unit (cgroup)
                                         : sonde_cgroup_dup_container (cgroup);
      if (name != NULL)
        return name;
      return g_strdup (self->by == SONDE_BY_UNIT ? NO_UNIT : NO_CONTAINER);
    case SONDE_BY_THREAD:
      return g_strdup (sonde_capture_model_thread_name (self->model, process, tid));
    default:
      return g_strdup (process->comm);
    }
}

guint
sonde_grouping_find (SondeGrouping *self, const SondeModelProcess *process, gint32 tid)
{
  g_autofree char *name = dup_name (self, process, tid);
  g_autofree char *key = NULL;
  gpointer found;

  if (self->by == SONDE_BY_THREAD)
    key = g_strdup_printf ("%d %d %s", process->pid, tid, name);
  else if (self->by == SONDE_BY_PROCESS)
    key = g_strdup_printf ("%d %s", process->pid, name);
  else
    key = g_strdup (name);
  if (g_hash_table_lookup_extended (self->numbers, key, NULL, &found))
    return GPOINTER_TO_UINT (found);
  g_hash_table_insert (self->numbers, g_steal_pointer (&key), GUINT_TO_POINTER (self->names->len));
  g_ptr_array_add (self->names, g_steal_pointer (&name));
  return self->names->len - 1;
}

const char *
sonde_grouping_name (const SondeGrouping *self, guint group)
{
  return g_ptr_array_index (self->names, group);
}
