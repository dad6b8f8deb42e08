/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The present state of a model without its past. */
#include "client/model/capture-model-private.h"

typedef struct
{
  const SondeCaptureModel *from;
  SondeCaptureModel *to;
  GHashTable
      *copies; /* the newest mapping of a space of @from → the Space of @to with all of its */
} Copy;

static SondeMapping *
copy_mapping (SondeCaptureModel *to, const SondeMapping *mapping)
{
  SondeMapping *copy = g_memdup2 (mapping, sizeof *mapping);

  copy->path = g_string_chunk_insert_const (to->paths, mapping->path);
  if (mapping->build_id != NULL)
    copy->build_id = g_string_chunk_insert_const (to->paths, mapping->build_id);
  g_ptr_array_add (to->mappings, copy);
  return copy;
}

/* Without those that a newer one hides: a program that maps and unmaps all day has few that hold.
 */
static void
copy_mappings (SondeCaptureModel *to, Space *copy, const Space *space)
{
  g_autoptr (GHashTable) ends = g_hash_table_new (g_int64_hash, g_int64_equal); /* by start */
  g_autoptr (GPtrArray) kept = g_ptr_array_new ();
  guint n = space->mappings->len;

  for (; space != NULL; n = space->n_inherited, space = space->parent)
    for (guint i = n; i > 0; i--)
      {
        const SondeMapping *mapping = g_ptr_array_index (space->mappings, i - 1);
        const guint64 *end = g_hash_table_lookup (ends, &mapping->start);

        if (end != NULL && *end >= mapping->end)
          continue;
        g_hash_table_replace (ends, (gpointer) &mapping->start, (gpointer) &mapping->end);
        g_ptr_array_add (kept, (gpointer) mapping);
      }
  for (guint i = kept->len; i > 0; i--)
    g_ptr_array_add (copy->mappings, copy_mapping (to, g_ptr_array_index (kept, i - 1)));
}

static const SondeMapping *
newest_mapping (const Space *space)
{
  if (space->mappings->len > 0)
    return g_ptr_array_index (space->mappings, space->mappings->len - 1);
  return space->n_inherited > 0
             ? g_ptr_array_index (space->parent->mappings, space->n_inherited - 1)
             : NULL;
}

/* What spaces share stays shared. */
static void
copy_space (Copy *self, gint32 pid, const Space *space)
{
  Space *copy = sonde_capture_model_ensure_space (self->to, pid);
  const SondeMapping *newest = newest_mapping (space);

  copy->parent = g_hash_table_lookup (self->copies, newest);
  if (copy->parent != NULL)
    copy->n_inherited = copy->parent->mappings->len;
  else if (newest != NULL)
    {
      copy_mappings (self->to, copy, space);
      g_hash_table_insert (self->copies, (gpointer) newest, copy);
    }
  copy->vdso = space->vdso;
  if (space->process != G_MAXUINT)
    copy->process = sonde_process_list_ensure (
        self->to->processes, pid,
        sonde_process_list_get (self->from->processes, space->process)->cmdline);
}

static void
copy_metadata (SondeCaptureModel *to, const SondeCaptureModel *from)
{
  GHashTableIter iter;
  gpointer id, text;

  g_hash_table_iter_init (&iter, from->metadata);
  while (g_hash_table_iter_next (&iter, &id, &text))
    g_hash_table_insert (to->metadata, g_strdup (id), g_strdup (text));
}

SondeCaptureModel *
sonde_capture_model_new_present (const SondeCaptureModel *before,
                                 SondeModelIsAlive is_alive,
                                 const SondeModelFuncs *funcs,
                                 gpointer user_data)
{
  SondeCaptureModel *self = sonde_capture_model_new (funcs, user_data);
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL);
  Copy copy = { before, self, copies };
  GHashTableIter iter;
  gpointer pid, space;

  g_hash_table_iter_init (&iter, before->spaces);
  while (g_hash_table_iter_next (&iter, &pid, &space))
    if (is_alive (GPOINTER_TO_INT (pid)))
      copy_space (&copy, GPOINTER_TO_INT (pid), space);
  copy_metadata (self, before);
  sonde_embedded_files_copy_mountinfos (self->files, before->files);
  sonde_jit_names_free (self->jit_names);
  self->jit_names = sonde_jit_names_dup (before->jit_names);
  sonde_ledger_counters_clear (&self->ledger);
  sonde_ledger_counters_copy (&self->ledger, &before->ledger);
  return self;
}
