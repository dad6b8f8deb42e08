/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The processes of a capture, numbered: a pid has a number for each name that it goes by. */
#include "client/model/process-list.h"

#include <string.h>

#define COMM_MAX 15 /* bytes, as TASK_COMM_LEN without the NUL */

struct SondeProcessList
{
  GPtrArray *processes; /* SondeModelProcess */
  GHashTable *by_name;  /* "PID COMM" → number of a process */
};

static void
process_free (gpointer data)
{
  SondeModelProcess *process = data;

  g_free (process->comm);
  g_free (process->cmdline);
  g_free (process);
}

SondeProcessList *
sonde_process_list_new (void)
{
  SondeProcessList *self = g_new0 (SondeProcessList, 1);

  self->processes = g_ptr_array_new_with_free_func (process_free);
  self->by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
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

/* The number of a process whose names are still to be filled in: of one without, or a new one. */
static guint
take_nameless (SondeProcessList *self, gint32 pid)
{
  g_autofree char *key = g_strdup_printf ("%d %s", pid, SONDE_PROCESS_NAMELESS);
  SondeModelProcess *process;
  gpointer found;

  if (g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
    {
      g_hash_table_remove (self->by_name, key);
      process = g_ptr_array_index (self->processes, GPOINTER_TO_UINT (found));
      g_clear_pointer (&process->comm, g_free);
      g_clear_pointer (&process->cmdline, g_free);
      return GPOINTER_TO_UINT (found);
    }
  process = g_new0 (SondeModelProcess, 1);
  process->pid = pid;
  g_ptr_array_add (self->processes, process);
  return self->processes->len - 1;
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
        {
          g_free (process->cmdline);
          process->cmdline = g_strdup (cmdline);
        }
      return GPOINTER_TO_UINT (found);
    }

  number = take_nameless (self, pid);
  process = g_ptr_array_index (self->processes, number);
  process->comm = g_steal_pointer (&comm);
  process->cmdline = g_strdup (cmdline);
  g_hash_table_insert (self->by_name, g_steal_pointer (&key), GUINT_TO_POINTER (number));
  return number;
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
