/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names for the addresses of a session: the embedded file "__symbols__". */
#include "daemon/capture/symbolizer.h"

#include <string.h>

#include "daemon/capture/function-names.h"
#include "protocol/frame.h"

#define HITS_A_SLICE 2048

/* The function found last: hits are sorted, so the next one is often in it. */
typedef struct
{
  uint64_t begin; /* bytes, in the file */
  uint64_t end;   /* first address behind; 0: none */
  uint32_t name;  /* bytes, into the strings */
} Function;

struct SondeSymbolizer
{
  SondeAddressSet *addresses;
  const SondeAddressHit *hits;
  guint n_hits;
  guint next;
  SondeSymbolizerDone done;
  gpointer user_data;
  guint source;

  SondeFunctionNames *names; /* of the module the last hit was in */
  uint32_t tag;
  Function function;

  GArray *records;  /* SondeSymbolRecord, name and tag relative to the strings */
  GString *strings; /* begins with an empty one */
};

static gboolean
add_string (SondeSymbolizer *self, const char *text, uint32_t *offset)
{
  gsize size_bytes = strlen (text) + 1;

  if (size_bytes > SONDE_SYMBOLIZER_MAX_STRINGS - self->strings->len)
    return FALSE;
  *offset = (uint32_t) self->strings->len;
  g_string_append_len (self->strings, text, (gssize) size_bytes);

  return TRUE;
}

static void
load_module (SondeSymbolizer *self, const SondeAddressHit *hit)
{
  const char *file_name = sonde_address_set_module_name (self->addresses, hit);

  sonde_function_names_free (self->names);
  self->names = sonde_function_names_new (hit->module, file_name);
  self->function.end = 0;
  if (!add_string (self, file_name, &self->tag))
    self->tag = 0;
}

static gboolean
find_function (SondeSymbolizer *self, uint64_t vaddr)
{
  uint64_t begin, end;
  g_autofree char *name = sonde_function_names_find (self->names, vaddr, &begin, &end);

  self->function.end = 0;
  if (!add_string (self, name, &self->function.name))
    return FALSE;
  self->function.begin = begin;
  self->function.end = end;

  return TRUE;
}

static gboolean
is_loaded (const SondeSymbolizer *self, const SondeModule *module)
{
  return self->names != NULL && sonde_function_names_module (self->names) == module;
}

static void
name_hit (SondeSymbolizer *self, const SondeAddressHit *hit)
{
  uint64_t vaddr = hit->vaddr - hit->is_return;
  uint64_t bias = hit->address - hit->vaddr;
  SondeSymbolRecord record = { 0 };

  if (!is_loaded (self, hit->module))
    load_module (self, hit);
  if ((vaddr < self->function.begin || vaddr >= self->function.end) && !find_function (self, vaddr))
    return;

  record.begin = self->function.begin + bias;
  /* A call that never returns may be the last instruction: the address behind it counts too. */
  record.end = MAX (self->function.end + bias - 1, hit->address);
  record.pid = (uint32_t) hit->pid;
  record.name_offset = self->function.name;
  record.tag_offset = self->tag;
  g_array_append_val (self->records, record);
}

static int
compare_records (gconstpointer first, gconstpointer second)
{
  const SondeSymbolRecord *a = first;
  const SondeSymbolRecord *b = second;

  if (a->pid != b->pid)
    return a->pid < b->pid ? -1 : 1;
  if (a->begin != b->begin)
    return a->begin < b->begin ? -1 : 1;
  return (a->end > b->end) - (a->end < b->end);
}

/* Leaves ranges of a process that do not overlap: the same function becomes one, a later one cuts
 * the one before it. */
static guint
merge_records (GArray *records)
{
  SondeSymbolRecord *all = (SondeSymbolRecord *) (void *) records->data;
  guint n = 0;

  g_array_sort (records, compare_records);
  for (guint i = 0; i < records->len; i++)
    {
      SondeSymbolRecord *last = n > 0 ? &all[n - 1] : NULL;

      if (last == NULL || last->pid != all[i].pid || last->end < all[i].begin)
        all[n++] = all[i];
      else if (last->begin == all[i].begin || last->name_offset == all[i].name_offset)
        last->end = MAX (last->end, all[i].end);
      else
        {
          last->end = all[i].begin - 1;
          all[n++] = all[i];
        }
    }

  return n;
}

static GBytes *
build_file (SondeSymbolizer *self)
{
  guint n_records = merge_records (self->records);
  SondeSymbolRecord *records = (SondeSymbolRecord *) (void *) self->records->data;
  uint32_t strings_at = (uint32_t) ((n_records + 1) * sizeof *records);
  GByteArray *file;

  if (n_records == 0)
    return NULL;

  for (guint i = 0; i < n_records; i++)
    {
      records[i].name_offset += strings_at;
      if (records[i].tag_offset != 0)
        records[i].tag_offset += strings_at;
    }
  file = g_byte_array_sized_new ((guint) (strings_at + self->strings->len));
  g_byte_array_append (file, (const guint8 *) records, (guint) (n_records * sizeof *records));
  g_byte_array_append (file, (const guint8 *) &(SondeSymbolRecord){ 0 }, sizeof *records);
  g_byte_array_append (file, (const guint8 *) self->strings->str, (guint) self->strings->len);

  return g_byte_array_free_to_bytes (file);
}

static gboolean
on_slice (gpointer user_data)
{
  SondeSymbolizer *self = user_data;
  g_autoptr (GBytes) file = NULL;
  guint end = MIN (self->n_hits, self->next + HITS_A_SLICE);

  while (self->next < end)
    {
      const SondeAddressHit *hit = &self->hits[self->next++];
      gboolean loads = !is_loaded (self, hit->module);

      name_hit (self, hit);
      if (loads)
        break; /* reading a symbol table is a slice's work */
    }
  if (self->next < self->n_hits)
    return G_SOURCE_CONTINUE;

  self->source = 0;
  file = build_file (self);
  self->done (file, self->user_data);

  return G_SOURCE_REMOVE;
}

SondeSymbolizer *
sonde_symbolizer_start (SondeAddressSet *addresses, SondeSymbolizerDone done, gpointer user_data)
{
  SondeSymbolizer *self = g_new0 (SondeSymbolizer, 1);

  self->addresses = addresses;
  self->hits = sonde_address_set_sort (addresses, &self->n_hits);
  self->done = done;
  self->user_data = user_data;
  self->records = g_array_new (FALSE, FALSE, sizeof (SondeSymbolRecord));
  self->strings = g_string_new (NULL);
  g_string_append_c (self->strings, '\0');
  self->source = g_idle_add (on_slice, self);

  return self;
}

void
sonde_symbolizer_free (SondeSymbolizer *self)
{
  if (self == NULL)
    return;

  if (self->source != 0)
    g_source_remove (self->source);
  sonde_function_names_free (self->names);
  g_array_unref (self->records);
  g_string_free (self->strings, TRUE);
  g_free (self);
}
