/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/embedded-files.h"

#include <stdio.h>
#include <string.h>

#include "client/base/limits.h"

struct SondeEmbeddedSymbols
{
  GByteArray *bytes;
  GArray *records; /* SondeSymbolRecord, sorted by (pid, begin), checked */
};

/* Whether a string is at @offset, which does not end behind the file; a longer one than anybody
 * reads ends there. Looking for its end is as long, however many point at the same text. */
static gboolean
end_string (GByteArray *bytes, guint32 offset)
{
  gsize left = offset < bytes->len ? bytes->len - offset : 0;

  if (left == 0 || memchr (bytes->data + offset, 0, MIN (left, SONDE_MAX_PATH_BYTES)) != NULL)
    return left > 0;
  if (left <= SONDE_MAX_PATH_BYTES)
    return FALSE;
  bytes->data[offset + SONDE_MAX_PATH_BYTES] = '\0';
  return TRUE;
}

static int
compare_records (gconstpointer a, gconstpointer b)
{
  const SondeSymbolRecord *left = a;
  const SondeSymbolRecord *right = b;

  if (left->pid != right->pid)
    return left->pid < right->pid ? -1 : 1;
  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  return 0;
}

SondeEmbeddedSymbols *
sonde_embedded_symbols_new (GByteArray *bytes)
{
  SondeEmbeddedSymbols *self = g_new0 (SondeEmbeddedSymbols, 1);
  static const SondeSymbolRecord end = { 0 };
  SondeSymbolRecord record;

  self->bytes = bytes;
  self->records = g_array_new (FALSE, FALSE, sizeof (SondeSymbolRecord));
  for (gsize at = 0; bytes->len - at >= sizeof record; at += sizeof record)
    {
      memcpy (&record, bytes->data + at, sizeof record);
      if (memcmp (&record, &end, sizeof record) == 0)
        break;
      if (record.begin > record.end || !end_string (bytes, record.name_offset))
        continue;
      if (record.tag_offset != 0 && !end_string (bytes, record.tag_offset))
        record.tag_offset = 0;
      g_array_append_val (self->records, record);
    }
  g_array_sort (self->records, compare_records);
  return self;
}

void
sonde_embedded_symbols_free (SondeEmbeddedSymbols *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->bytes);
  g_array_unref (self->records);
  g_free (self);
}

gsize
sonde_embedded_symbols_size (const SondeEmbeddedSymbols *self)
{
  return self->records->len;
}

const SondeSymbolRecord *
sonde_embedded_symbols_get (const SondeEmbeddedSymbols *self, gsize index)
{
  return &g_array_index (self->records, SondeSymbolRecord, index);
}

void
sonde_embedded_symbols_texts (const SondeEmbeddedSymbols *self,
                              const SondeSymbolRecord *record,
                              const char **name,
                              const char **tag)
{
  *name = (const char *) self->bytes->data + record->name_offset;
  *tag = record->tag_offset == 0 ? NULL : (const char *) self->bytes->data + record->tag_offset;
}

gboolean
sonde_embedded_symbols_is_made_up (const char *name, const char *tag)
{
  return tag != NULL && g_str_has_prefix (name, tag)
         && g_str_has_prefix (name + strlen (tag), "+0x");
}

gboolean
sonde_embedded_symbols_find (const SondeEmbeddedSymbols *self,
                             gint32 pid,
                             guint64 address,
                             gsize *index)
{
  SondeSymbolRecord wanted = { .pid = (guint32) pid, .begin = address };
  gsize low = 0;
  gsize high = self->records->len;
  const SondeSymbolRecord *record;

  while (low < high)
    {
      gsize middle = low + (high - low) / 2;

      if (compare_records (&g_array_index (self->records, SondeSymbolRecord, middle), &wanted) <= 0)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == 0)
    return FALSE;

  record = &g_array_index (self->records, SondeSymbolRecord, low - 1);
  if (record->pid != wanted.pid || record->end < address)
    return FALSE;
  *index = low - 1;
  return TRUE;
}

gboolean
sonde_embedded_symbols_lookup (const SondeEmbeddedSymbols *self,
                               gint32 pid,
                               guint64 address,
                               const char **name,
                               const char **tag)
{
  gsize index;

  if (!sonde_embedded_symbols_find (self, pid, address, &index))
    return FALSE;
  sonde_embedded_symbols_texts (self, sonde_embedded_symbols_get (self, index), name, tag);
  return TRUE;
}

struct SondeEmbeddedFiles
{
  SondeBudget *budget;
  GByteArray *symbol_bytes; /* of an unfinished "__symbols__" */
  SondeEmbeddedSymbols *symbols;
  GString *cpuinfo; /* the beginning of an unfinished "/proc/cpuinfo" */
  char *cpu_model;
  GHashTable *unfinished; /* pid → GByteArray of its mountinfo */
  GHashTable *mountinfos; /* pid → text */
  gsize mountinfo_bytes;  /* of all, unfinished ones included */
};

#define CPUINFO_PATH      "/proc/cpuinfo"
#define CPUINFO_MAX_BYTES 4096 /* all there is about the first processor */

SondeEmbeddedFiles *
sonde_embedded_files_new (SondeBudget *budget)
{
  SondeEmbeddedFiles *self = g_new0 (SondeEmbeddedFiles, 1);

  self->budget = budget;
  self->unfinished = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_byte_array_unref);
  self->mountinfos = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

void
sonde_embedded_files_free (SondeEmbeddedFiles *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->symbol_bytes, g_byte_array_unref);
  sonde_embedded_symbols_free (self->symbols);
  if (self->cpuinfo != NULL)
    g_string_free (self->cpuinfo, TRUE);
  g_free (self->cpu_model);
  g_hash_table_unref (self->unfinished);
  g_hash_table_unref (self->mountinfos);
  g_free (self);
}

static void
add_symbols (SondeEmbeddedFiles *self, const SondeFrameFileChunk *frame)
{
  if (self->symbol_bytes == NULL)
    self->symbol_bytes = g_byte_array_new ();
  if (self->symbol_bytes->len + frame->data_len > SONDE_EMBEDDED_SYMBOLS_MAX_BYTES)
    {
      self->budget->n_cut[SONDE_LIMIT_NAMES]++;
      return;
    }
  g_byte_array_append (self->symbol_bytes, frame->data, frame->data_len);
  if (frame->is_last & 1)
    {
      sonde_embedded_symbols_free (self->symbols);
      self->symbols = sonde_embedded_symbols_new (g_steal_pointer (&self->symbol_bytes));
    }
}

/* "model name\t: Intel(R) Core(TM) i7"; of others "Model", "cpu model" or nothing. */
static void
add_cpuinfo (SondeEmbeddedFiles *self, const SondeFrameFileChunk *frame)
{
  static const char *const keys[] = { "model name", "Model", "cpu model", "cpu" };
  g_auto (GStrv) lines = NULL;

  if (self->cpuinfo == NULL)
    self->cpuinfo = g_string_new (NULL);
  g_string_append_len (self->cpuinfo, (const char *) frame->data,
                       (gssize) MIN (frame->data_len, CPUINFO_MAX_BYTES - self->cpuinfo->len));
  if ((frame->is_last & 1) == 0)
    return;
  g_clear_pointer (&self->cpu_model, g_free);
  lines = g_strsplit (self->cpuinfo->str, "\n", -1);
  for (guint key = 0; key < G_N_ELEMENTS (keys) && self->cpu_model == NULL; key++)
    for (guint i = 0; lines[i] != NULL && self->cpu_model == NULL; i++)
      {
        const char *colon = strchr (lines[i], ':');
        g_autofree char *name
            = colon != NULL ? g_strchomp (g_strndup (lines[i], (gsize) (colon - lines[i]))) : NULL;

        if (g_strcmp0 (name, keys[key]) == 0)
          self->cpu_model = g_strstrip (g_strdup (colon + 1));
      }
  g_string_free (g_steal_pointer (&self->cpuinfo), TRUE);
}

static gboolean
is_mountinfo (const SondeFrameFileChunk *frame, gint32 *pid)
{
  char path[64];
  char expected[64];

  if (memccpy (path, frame->path, '\0', MIN (sizeof path, sizeof frame->path)) == NULL
      || sscanf (path, "/proc/%9d/", pid) != 1 || *pid <= 0)
    return FALSE;
  g_snprintf (expected, sizeof expected, "/proc/%d/mountinfo", *pid);
  return g_str_equal (path, expected);
}

static void
add_mountinfo (SondeEmbeddedFiles *self, gint32 pid, const SondeFrameFileChunk *frame)
{
  gpointer key = GINT_TO_POINTER (pid);
  GByteArray *bytes = g_hash_table_lookup (self->unfinished, key);

  if (bytes == NULL)
    {
      if (g_hash_table_size (self->unfinished) + g_hash_table_size (self->mountinfos)
          >= SONDE_EMBEDDED_MOUNTINFO_MAX)
        return;
      bytes = g_byte_array_new ();
      g_hash_table_insert (self->unfinished, key, bytes);
    }
  if (bytes->len + frame->data_len <= SONDE_EMBEDDED_MOUNTINFO_MAX_BYTES
      && self->mountinfo_bytes + frame->data_len <= SONDE_EMBEDDED_MOUNTINFOS_MAX_BYTES)
    {
      g_byte_array_append (bytes, frame->data, frame->data_len);
      self->mountinfo_bytes += frame->data_len;
    }
  if (frame->is_last & 1)
    {
      g_hash_table_replace (self->mountinfos, key,
                            g_strndup ((const char *) bytes->data, bytes->len));
      g_hash_table_remove (self->unfinished, key);
    }
}

void
sonde_embedded_files_add (SondeEmbeddedFiles *self, const SondeFrameFileChunk *frame)
{
  gint32 pid;

  if (strncmp (frame->path, SONDE_EMBEDDED_SYMBOLS_PATH, sizeof frame->path) == 0)
    add_symbols (self, frame);
  else if (strncmp (frame->path, CPUINFO_PATH, sizeof frame->path) == 0)
    add_cpuinfo (self, frame);
  else if (is_mountinfo (frame, &pid))
    add_mountinfo (self, pid, frame);
}

void
sonde_embedded_files_copy_mountinfos (SondeEmbeddedFiles *self, const SondeEmbeddedFiles *from)
{
  GHashTableIter iter;
  gpointer pid, text;

  g_hash_table_iter_init (&iter, from->mountinfos);
  while (g_hash_table_iter_next (&iter, &pid, &text))
    g_hash_table_replace (self->mountinfos, pid, g_strdup (text));
}

const SondeEmbeddedSymbols *
sonde_embedded_files_symbols (const SondeEmbeddedFiles *self)
{
  return self->symbols;
}

const char *
sonde_embedded_files_cpu_model (const SondeEmbeddedFiles *self)
{
  return self->cpu_model;
}

static int
compare_pids (gconstpointer a, gconstpointer b)
{
  return *(const gint *) a < *(const gint *) b ? -1 : *(const gint *) a > *(const gint *) b;
}

GArray *
sonde_embedded_files_dup_mountinfo_pids (const SondeEmbeddedFiles *self)
{
  GArray *pids = g_array_new (FALSE, FALSE, sizeof (gint));
  GHashTableIter iter;
  gpointer key;

  g_hash_table_iter_init (&iter, self->mountinfos);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      gint pid = GPOINTER_TO_INT (key);

      g_array_append_val (pids, pid);
    }
  g_array_sort (pids, compare_pids);
  return pids;
}

const char *
sonde_embedded_files_mountinfo (const SondeEmbeddedFiles *self, gint32 pid)
{
  return g_hash_table_lookup (self->mountinfos, GINT_TO_POINTER (pid));
}
