/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/line-cache.h"

#include <glib/gstdio.h>

#define TYPE "(sa(ta(ssu)))" /* stamp, entries */

struct SondeLineCache
{
  char *folder;
  char *path;
  char *stamp;
  GHashTable *entries; /* address → GArray of SondeSourceFrame */
  gboolean is_changed;
};

static char *
dup_known (const char *text)
{
  return text[0] != '\0' ? g_strdup (text) : NULL;
}

static void
insert (SondeLineCache *self, guint64 vaddr, GArray *frames)
{
  guint64 *key = g_new (guint64, 1);

  *key = vaddr;
  g_hash_table_replace (self->entries, key, frames);
}

static void
read_entry (SondeLineCache *self, guint64 vaddr, GVariantIter *texts)
{
  GArray *frames = g_array_new (FALSE, FALSE, sizeof (SondeSourceFrame));
  const char *function;
  const char *file;
  guint line;

  g_array_set_clear_func (frames, (GDestroyNotify) sonde_source_frame_clear);
  while (frames->len < SONDE_MAX_INLINES
         && g_variant_iter_next (texts, "(&s&su)", &function, &file, &line))
    {
      SondeSourceFrame frame = { dup_known (function), dup_known (file), line };

      g_array_append_val (frames, frame);
    }
  insert (self, vaddr, frames);
}

static void
load (SondeLineCache *self)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (self->path, FALSE, NULL);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GVariant) content = NULL;
  g_autoptr (GVariantIter) entries = NULL;
  const char *stamp;
  GVariantIter *texts;
  guint64 vaddr;

  if (file == NULL || g_mapped_file_get_length (file) > SONDE_LINE_CACHE_MAX_BYTES)
    return;
  /* a copy: another process may write or cut the file */
  bytes = g_bytes_new (g_mapped_file_get_contents (file), g_mapped_file_get_length (file));
  content = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (content))
    return;
  g_variant_get (content, "(&sa(ta(ssu)))", &stamp, &entries);
  if (!g_str_equal (stamp, self->stamp)
      || g_variant_iter_n_children (entries) > SONDE_LINE_CACHE_MAX_ENTRIES)
    return;
  while (g_variant_iter_next (entries, "(ta(ssu))", &vaddr, &texts))
    {
      read_entry (self, vaddr, texts);
      g_variant_iter_free (texts);
    }
}

SondeLineCache *
sonde_line_cache_new (const char *folder, const char *build_id, const char *stamp)
{
  SondeLineCache *self = g_new0 (SondeLineCache, 1);

  self->entries
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, (GDestroyNotify) g_array_unref);
  if (folder == NULL)
    return self;
  self->folder = g_strdup (folder);
  self->stamp = g_strdup (stamp);
  self->path = g_build_filename (folder, build_id, NULL);
  load (self);
  return self;
}

const GArray *
sonde_line_cache_lookup (const SondeLineCache *self, guint64 vaddr)
{
  return g_hash_table_lookup (self->entries, &vaddr);
}

void
sonde_line_cache_add (SondeLineCache *self, guint64 vaddr, GArray *frames)
{
  if (g_hash_table_size (self->entries) < SONDE_LINE_CACHE_MAX_ENTRIES)
    self->is_changed = TRUE;
  insert (self, vaddr, frames);
}

static const char *
known (const char *text)
{
  return text != NULL && g_utf8_validate (text, -1, NULL) ? text : "";
}

static GVariant *
build (const SondeLineCache *self)
{
  g_auto (GVariantBuilder) content = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE (TYPE));
  GHashTableIter iter;
  gpointer key;
  gpointer value;
  guint n = 0;

  g_variant_builder_add (&content, "s", self->stamp);
  g_variant_builder_open (&content, G_VARIANT_TYPE ("a(ta(ssu))"));
  g_hash_table_iter_init (&iter, self->entries);
  while (n++ < SONDE_LINE_CACHE_MAX_ENTRIES && g_hash_table_iter_next (&iter, &key, &value))
    {
      const GArray *frames = value;

      g_variant_builder_open (&content, G_VARIANT_TYPE ("(ta(ssu))"));
      g_variant_builder_add (&content, "t", *(const guint64 *) key);
      g_variant_builder_open (&content, G_VARIANT_TYPE ("a(ssu)"));
      for (guint i = 0; i < frames->len; i++)
        {
          const SondeSourceFrame *frame = &g_array_index (frames, SondeSourceFrame, i);

          g_variant_builder_add (&content, "(ssu)", known (frame->function), known (frame->file),
                                 frame->line);
        }
      g_variant_builder_close (&content);
      g_variant_builder_close (&content);
    }
  g_variant_builder_close (&content);
  return g_variant_ref_sink (g_variant_builder_end (&content));
}

typedef struct
{
  char *path;
  gint64 time_s;
  guint64 size_bytes;
} Kept;

static void
kept_clear (gpointer data)
{
  g_free (((Kept *) data)->path);
}

static int
compare_newest_first (gconstpointer a, gconstpointer b)
{
  const Kept *left = a;
  const Kept *right = b;

  return left->time_s > right->time_s ? -1 : left->time_s < right->time_s;
}

/* Removes the files that have not been written for the longest time. */
static void
trim (const SondeLineCache *self)
{
  g_autoptr (GDir) folder = g_dir_open (self->folder, 0, NULL);
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (Kept));
  guint64 sum = 0;
  const char *name;

  g_array_set_clear_func (all, kept_clear);
  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      Kept kept = { .path = g_build_filename (self->folder, name, NULL) };
      GStatBuf st = { 0 };

      if (g_lstat (kept.path, &st) == 0 && st.st_size > 0)
        kept.size_bytes = (guint64) st.st_size;
      kept.time_s = st.st_mtime;
      g_array_append_val (all, kept);
    }
  g_array_sort (all, compare_newest_first);
  for (guint i = 0; i < all->len; i++)
    {
      const Kept *kept = &g_array_index (all, Kept, i);

      sum += kept->size_bytes;
      if (sum > SONDE_LINE_CACHE_MAX_BYTES)
        g_unlink (kept->path);
    }
}

void
sonde_line_cache_free (SondeLineCache *self)
{
  if (self == NULL)
    return;
  if (self->is_changed && self->folder != NULL)
    {
      g_autoptr (GVariant) content = build (self);
      gsize size = g_variant_get_size (content);

      /* a cache that cannot be written is but slower */
      if (size > 0 && size <= SONDE_LINE_CACHE_MAX_BYTES
          && g_mkdir_with_parents (self->folder, 0700) == 0
          && g_file_set_contents_full (self->path, g_variant_get_data (content), (gssize) size,
                                       G_FILE_SET_CONTENTS_CONSISTENT, 0600, NULL))
        trim (self);
    }
  g_hash_table_unref (self->entries);
  g_free (self->folder);
  g_free (self->path);
  g_free (self->stamp);
  g_free (self);
}
