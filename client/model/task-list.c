/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/task-list.h"

#include <stdio.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/base/text.h"

#define MAX_NAME_BYTES 64 /* escaped, of 15 */

typedef enum
{
  NAME,
  CGROUP,
  N_FACTS
} Fact;

struct SondeTaskList
{
  SondeBudget *budget;
  GHashTable *facts[N_FACTS]; /* id → text */
  GHashTable *texts;          /* set of texts: few are different */
};

SondeTaskList *
sonde_task_list_new (SondeBudget *budget)
{
  SondeTaskList *self = g_new0 (SondeTaskList, 1);

  self->budget = budget;
  for (guint i = 0; i < N_FACTS; i++)
    self->facts[i] = g_hash_table_new (NULL, NULL);
  self->texts = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  return self;
}

void
sonde_task_list_free (SondeTaskList *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < N_FACTS; i++)
    g_hash_table_unref (self->facts[i]);
  g_hash_table_unref (self->texts);
  g_free (self);
}

static void
set (SondeTaskList *self, Fact fact, gint32 id, const char *text)
{
  gpointer key = GINT_TO_POINTER (id);
  char *kept;

  if (!g_hash_table_contains (self->facts[fact], key)
      && !sonde_budget_take (self->budget, SONDE_LIMIT_NAMES, 1))
    return;
  kept = g_hash_table_lookup (self->texts, text);
  if (kept == NULL)
    {
      if (!sonde_budget_take (self->budget, SONDE_LIMIT_TEXT, strlen (text) + 1))
        return;
      kept = g_strdup (text);
      g_hash_table_insert (self->texts, kept, kept);
    }
  g_hash_table_insert (self->facts[fact], key, kept);
}

/* "thread PID TID TIME NAME", "cgroup PID PATH"; the texts are escaped. */
static void
add_line (SondeTaskList *self, const char *line)
{
  gint32 pid, tid;
  gint64 time_ns;
  int at = 0;
  g_autofree char *text = NULL;

  if (sscanf (line, "thread %9d %9d %" G_GINT64_FORMAT " %n", &pid, &tid, &time_ns, &at) == 3
      && at > 0 && strlen (line + at) <= MAX_NAME_BYTES)
    {
      text = g_strcompress (line + at);
      set (self, NAME, tid, text);
    }
  else if (sscanf (line, "cgroup %9d %n", &pid, &at) == 1 && at > 0
           && strlen (line + at) <= SONDE_MAX_PATH_BYTES)
    {
      text = g_strcompress (line + at);
      set (self, CGROUP, pid, text);
    }
}

gboolean
sonde_task_list_is_chunk (const SondeFrameFileChunk *frame)
{
  return strncmp (frame->path, SONDE_TASK_LIST_PATH, sizeof frame->path) == 0;
}

void
sonde_task_list_add (SondeTaskList *self, const SondeFrameFileChunk *frame)
{
  g_autofree char *text = NULL;
  char *line;

  if (!sonde_task_list_is_chunk (frame))
    return;
  text = g_strndup ((const char *) frame->data, frame->data_len);
  for (line = text; *line != '\0';)
    {
      char *end = strchr (line, '\n');

      if (end == NULL)
        return;
      *end = '\0';
      add_line (self, line);
      line = end + 1;
    }
}

void
sonde_task_list_fork (SondeTaskList *self, gint32 parent, gint32 child)
{
  for (guint i = 0; i < N_FACTS; i++)
    {
      const char *text = g_hash_table_lookup (self->facts[i], GINT_TO_POINTER (parent));

      if (text != NULL)
        set (self, i, child, text);
    }
}

void
sonde_task_list_copy (SondeTaskList *self, const SondeTaskList *from)
{
  GHashTableIter iter;
  gpointer id, text;

  for (guint i = 0; i < N_FACTS; i++)
    {
      g_hash_table_iter_init (&iter, from->facts[i]);
      while (g_hash_table_iter_next (&iter, &id, &text))
        set (self, i, GPOINTER_TO_INT (id), text);
    }
}

const char *
sonde_task_list_name (const SondeTaskList *self, gint32 tid)
{
  return g_hash_table_lookup (self->facts[NAME], GINT_TO_POINTER (tid));
}

const char *
sonde_task_list_cgroup (const SondeTaskList *self, gint32 pid)
{
  return g_hash_table_lookup (self->facts[CGROUP], GINT_TO_POINTER (pid));
}
