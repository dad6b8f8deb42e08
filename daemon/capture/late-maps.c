/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mappings that were told before their file was read. */
#include "daemon/capture/late-maps.h"

typedef struct
{
  int32_t pid;
  uint64_t start;  /* bytes */
  gint64 until_ns; /* then it is given up */
} Late;

struct SondeLateMaps
{
  SondeProcessTable *processes;
  GArray *late; /* Late, oldest first */
};

SondeLateMaps *
sonde_late_maps_new (SondeProcessTable *processes)
{
  SondeLateMaps *self = g_new0 (SondeLateMaps, 1);

  self->processes = processes;
  self->late = g_array_sized_new (FALSE, FALSE, sizeof (Late), SONDE_LATE_MAPS_MAX);
  return self;
}

void
sonde_late_maps_free (SondeLateMaps *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->late);
  g_free (self);
}

void
sonde_late_maps_add (SondeLateMaps *self,
                     const SondeProcess *process,
                     const SondeMapping *mapping,
                     gint64 now_ns)
{
  Late late = { sonde_process_pid (process), mapping->start, now_ns + SONDE_LATE_MAPS_WAIT_NS };

  if (mapping->module != NULL || mapping->file.inode == 0 || self->late->len == SONDE_LATE_MAPS_MAX)
    return;
  g_array_append_val (self->late, late);
}

/* What the process has there now is what matters: after an exec that is another file. */
static gboolean
tell_one (SondeLateMaps *self, const Late *late, SondeLateMapTell tell, gpointer user_data)
{
  SondeProcess *process = sonde_process_table_find (self->processes, late->pid);
  const SondeMapping *mapping
      = process != NULL ? sonde_process_find_mapping (self->processes, process, late->start) : NULL;

  if (mapping == NULL)
    return TRUE;
  if (mapping->module == NULL)
    return FALSE;
  tell (process, mapping, user_data);
  return TRUE;
}

void
sonde_late_maps_tell (SondeLateMaps *self, gint64 now_ns, SondeLateMapTell tell, gpointer user_data)
{
  guint n_left = 0;

  for (guint i = 0; i < self->late->len; i++)
    {
      Late late = g_array_index (self->late, Late, i);

      if (!tell_one (self, &late, tell, user_data) && now_ns < late.until_ns)
        g_array_index (self->late, Late, n_left++) = late;
    }
  g_array_set_size (self->late, n_left);
}
