/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The processes of a capture, numbered: a pid has a number for each name that it goes by. */
#include "client/model/process-list.h"

#include <string.h>

#include "client/base/text.h"

#define COMM_MAX 15 /* bytes, as TASK_COMM_LEN without the NUL */

struct SondeProcessList
{
  SondeBudget *budget;
  SondeTextPool *texts;
  GPtrArray *processes; /* SondeModelProcess, its texts of the pool */
  GHashTable *by_name;  /* "PID COMM" → number of a process */
  guint truncated;      /* number of a process; G_MAXUINT: none */
};

SondeProcessList *
sonde_process_list_new (SondeBudget *budget, SondeTextPool *texts)
{
  SondeProcessList *self = g_new0 (SondeProcessList, 1);

  self->budget = budget;
  self->texts = texts;
  self->processes = g_ptr_array_new_with_free_func (g_free);
  self->by_name = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->truncated = G_MAXUINT;
  return self;
}

void
sonde_process_list_free (SondeProcessList *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->processes);
  g_hash_table_unref (self->by_name);
  g_free (self);
}

/* "/usr/bin/python3 work.py" and the kernel's own "python3" are one name. */
static char *
dup_comm (const char *cmdline)
{
  const char *word = cmdline;
  gsize len = strcspn (cmdline, " ");

  if (*cmdline == '/' || *cmdline == '.')
    {
      const char *slash = memrchr (cmdline, '/', len);

      if (slash != NULL && slash + 1 < cmdline + len)
        word = slash + 1;
    }
  len -= (gsize) (word - cmdline);
  return g_strndup (word, MIN (len, COMM_MAX));
}

static guint
add_process (SondeProcessList *self, gint32 pid)
{
  SondeModelProcess *process = g_new0 (SondeModelProcess, 1);

  process->pid = pid;
  g_ptr_array_add (self->processes, process);
  return self->processes->len - 1;
}

/* The number of a process whose names are still to be filled in: of one without, or a new one;
 * G_MAXUINT: there is no room. */
static guint
take_nameless (SondeProcessList *self, gint32 pid)
{
  g_autofree char *key = g_strdup_printf ("%d %s", pid, SONDE_PROCESS_NAMELESS);
  gpointer found;

  if (g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
    {
      g_hash_table_remove (self->by_name, key);
      return GPOINTER_TO_UINT (found);
    }
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_PROCESSES, 1))
    return G_MAXUINT;
  return add_process (self, pid);
}

guint
sonde_process_list_ensure (SondeProcessList *self, gint32 pid, const char *cmdline)
{
  g_autofree char *comm = dup_comm (cmdline);
  g_autofree char *key = g_strdup_printf ("%d %s", pid, comm);
  gpointer found;
  SondeModelProcess *process;
  guint number;

  if (g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
    {
      process = g_ptr_array_index (self->processes, GPOINTER_TO_UINT (found));
      if (strlen (cmdline) > strlen (process->comm))
        process->cmdline = sonde_text_pool_add (self->texts, cmdline, SONDE_MAX_PATH_BYTES);
      return GPOINTER_TO_UINT (found);
    }

  number = take_nameless (self, pid);
  if (number == G_MAXUINT)
    return sonde_process_list_truncated (self);
  process = g_ptr_array_index (self->processes, number);
  process->comm = sonde_text_pool_add (self->texts, comm, COMM_MAX);
  process->cmdline = sonde_text_pool_add (self->texts, cmdline, SONDE_MAX_PATH_BYTES);
  g_hash_table_insert (self->by_name, g_steal_pointer (&key), GUINT_TO_POINTER (number));
  return number;
}

guint
sonde_process_list_truncated (SondeProcessList *self)
{
  SondeModelProcess *process;

  if (self->truncated == G_MAXUINT)
    {
      self->truncated = add_process (self, -1);
      process = g_ptr_array_index (self->processes, self->truncated);
      process->comm = process->cmdline = SONDE_TRUNCATED;
    }
  return self->truncated;
}

guint
sonde_process_list_size (const SondeProcessList *self)
{
  return self->processes->len;
}

const SondeModelProcess *
sonde_process_list_get (const SondeProcessList *self, guint process)
{
  return g_ptr_array_index (self->processes, process);
}
