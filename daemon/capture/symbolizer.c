/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names for the addresses of a session: the embedded file "__symbols__". */
#include "daemon/capture/symbolizer.h"

#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "daemon/base/fd.h"
#include "protocol/frame.h"
#include "symbols/demangle.h"
#include "symbols/symbol-table.h"

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

  const SondeModule *module; /* whose table is loaded */
  SondeSymbolTable *table;   /* NULL: it has none */
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

/* The kernel maps the vdso without a file; a copy of ours is the same for all 64-bit processes. */
static int
open_vdso (void)
{
  const ElfW (Ehdr) *image = (const void *) getauxval (AT_SYSINFO_EHDR);
  sonde_autofd int fd = -1;
  gsize size_bytes;

  if (image == NULL)
    return -1;
  fd = memfd_create ("vdso", MFD_CLOEXEC);
  size_bytes = image->e_shoff + (gsize) image->e_shnum * image->e_shentsize;
  if (fd < 0 || write (fd, image, size_bytes) != (gssize) size_bytes)
    return -1;

  return sonde_steal_fd (&fd);
}

static void
load_module (SondeSymbolizer *self, const SondeAddressHit *hit)
{
  int fd = sonde_module_fd (hit->module);
  sonde_autofd int vdso = fd < 0 ? open_vdso () : -1;

  g_clear_pointer (&self->table, sonde_symbol_table_free);
  self->module = hit->module;
  self->function.end = 0;
  if (!add_string (self, sonde_address_set_module_name (self->addresses, hit), &self->tag))
    self->tag = 0;
  if (sonde_symbol_table_new (fd < 0 ? vdso : fd, &self->table) < 0)
    self->table = NULL;
}

static gboolean
name_by_symbol (SondeSymbolizer *self, uint64_t vaddr)
{
  SondeSymbol symbol;
  char *name;
  gboolean added;

  if (self->table == NULL || !sonde_symbol_table_lookup (self->table, vaddr, &symbol))
    return FALSE;

  name = sonde_demangle (symbol.name);
  added = add_string (self, name != NULL ? name : symbol.name, &self->function.name);
  free (name);
  if (added)
    {
      self->function.begin = symbol.begin;
      self->function.end = symbol.end;
    }

  return added;
}

static gboolean
name_by_place (SondeSymbolizer *self, const SondeAddressHit *hit, uint64_t vaddr)
{
  g_autofree char *name = NULL;
  uint64_t begin, end;

  if (!sonde_module_find_function (hit->module, vaddr, &begin, &end) || vaddr < begin
      || vaddr >= end)
    {
      begin = vaddr;
      end = vaddr + 1;
    }
  name = g_strdup_printf ("%s+0x%" PRIx64, sonde_address_set_module_name (self->addresses, hit),
                          begin);
  if (!add_string (self, name, &self->function.name))
    return FALSE;
  self->function.begin = begin;
  self->function.end = end;

  return TRUE;
}

static void
name_hit (SondeSymbolizer *self, const SondeAddressHit *hit)
{
  uint64_t vaddr = hit->vaddr - hit->is_return;
  uint64_t bias = hit->address - hit->vaddr;
  SondeSymbolRecord record = { 0 };

  if (hit->module != self->module)
    load_module (self, hit);
  if (vaddr < self->function.begin || vaddr >= self->function.end)
    {
      self->function.end = 0;
      if (!name_by_symbol (self, vaddr) && !name_by_place (self, hit, vaddr))
        return;
    }

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
      gboolean loads = hit->module != self->module;

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
  sonde_symbol_table_free (self->table);
  g_array_unref (self->records);
  g_string_free (self->strings, TRUE);
  g_free (self);
}
