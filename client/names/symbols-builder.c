/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Builds the embedded file "__symbols__". */
#include "client/names/symbols-builder.h"

#include <string.h>

#include "client/model/embedded-symbols.h"

typedef struct
{
  SondeSymbolRecord record; /* its offsets are into the strings */
  guint order;
} Added;

struct SondeSymbolsBuilder
{
  GArray *added; /* Added */
  GByteArray *strings;
  GHashTable *offsets; /* text → its offset in the strings */
};

SondeSymbolsBuilder *
sonde_symbols_builder_new (void)
{
  SondeSymbolsBuilder *self = g_new0 (SondeSymbolsBuilder, 1);

  self->added = g_array_new (FALSE, FALSE, sizeof (Added));
  self->strings = g_byte_array_new ();
  self->offsets = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_byte_array_append (self->strings, (const guint8 *) "", 1); /* offset 0: none */
  return self;
}

void
sonde_symbols_builder_free (SondeSymbolsBuilder *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->added);
  g_byte_array_unref (self->strings);
  g_hash_table_unref (self->offsets);
  g_free (self);
}

static guint32
ensure_string (SondeSymbolsBuilder *self, const char *text)
{
  gpointer found;

  if (!g_hash_table_lookup_extended (self->offsets, text, NULL, &found))
    {
      found = GUINT_TO_POINTER (self->strings->len);
      g_hash_table_insert (self->offsets, g_strdup (text), found);
      g_byte_array_append (self->strings, (const guint8 *) text, (guint) strlen (text) + 1);
    }
  return GPOINTER_TO_UINT (found);
}

void
sonde_symbols_builder_add (SondeSymbolsBuilder *self,
                           gint32 pid,
                           guint64 begin,
                           guint64 end,
                           const char *name,
                           const char *tag)
{
  Added added = { .order = self->added->len };
  guint64 size = (guint64) (added.order + 2) * sizeof (SondeSymbolRecord) + self->strings->len
                 + strlen (name) + 1 + (tag != NULL ? strlen (tag) + 1 : 0);

  if (size > SONDE_EMBEDDED_SYMBOLS_MAX_BYTES)
    return;
  added.record = (SondeSymbolRecord){
    .begin = begin,
    .end = end,
    .pid = (guint32) pid,
    .name_offset = ensure_string (self, name),
    .tag_offset = tag != NULL ? ensure_string (self, tag) : 0,
  };
  g_array_append_val (self->added, added);
}

guint
sonde_symbols_builder_size (const SondeSymbolsBuilder *self)
{
  return self->added->len;
}

static int
compare_added (gconstpointer a, gconstpointer b)
{
  const Added *left = a;
  const Added *right = b;

  if (left->record.pid != right->record.pid)
    return left->record.pid < right->record.pid ? -1 : 1;
  if (left->record.begin != right->record.begin)
    return left->record.begin < right->record.begin ? -1 : 1;
  return left->order < right->order ? -1 : left->order > right->order;
}

/* Sorts, and leaves records that do not overlap at the front. */
static void
separate (GArray *added)
{
  Added *all = (Added *) (void *) added->data;
  guint n = 0;

  g_array_sort (added, compare_added);
  for (guint i = 0; i < added->len; i++)
    {
      SondeSymbolRecord *last = n > 0 ? &all[n - 1].record : NULL;

      if (last != NULL && last->pid == all[i].record.pid)
        {
          if (last->begin == all[i].record.begin)
            continue;
          if (last->end >= all[i].record.begin)
            last->end = all[i].record.begin - 1;
        }
      all[n++] = all[i];
    }
  g_array_set_size (added, n);
}

GByteArray *
sonde_symbols_builder_build (SondeSymbolsBuilder *self)
{
  static const SondeSymbolRecord end = { 0 };
  GByteArray *file = g_byte_array_new ();
  guint32 strings_at;

  separate (self->added);
  strings_at = (guint32) ((self->added->len + 1) * sizeof end);
  for (guint i = 0; i < self->added->len; i++)
    {
      SondeSymbolRecord record = g_array_index (self->added, Added, i).record;

      record.name_offset += strings_at;
      if (record.tag_offset != 0)
        record.tag_offset += strings_at;
      g_byte_array_append (file, (const guint8 *) &record, sizeof record);
    }
  g_byte_array_append (file, (const guint8 *) &end, sizeof end);
  g_byte_array_append (file, self->strings->data, self->strings->len);
  return file;
}
