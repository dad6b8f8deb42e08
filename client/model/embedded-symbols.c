/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names that a capture carries in its embedded file "__symbols__". */
#include "client/model/embedded-symbols.h"

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
