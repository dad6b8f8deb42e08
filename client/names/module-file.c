/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The symbols of one mapped file, from wherever they are to be had. */
#include "client/names/module-file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "client/base/fd.h"
#include "client/names/line-cache.h"
#include "client/names/packed-symbols.h"
#include "symbols/elf-headers.h"

typedef enum
{
  SOURCE_OWN,
  SOURCE_PACKED,
  SOURCE_DEBUG,
  N_SOURCES,
} Source;

struct SondeModuleFile
{
  int fd;
  char *path;
  SondeDebugFiles *debug_files;
  SondeDebugReference reference;
  SondeElfHeaders elf;
  int debug_fd;                        /* -1: none, or not looked for */
  gboolean has_looked;                 /* for the debug file */
  char *refusal;                       /* of a debug file of another one; NULL: none */
  guint n_opened;                      /* of the sources */
  SondeSymbolTable *tables[N_SOURCES]; /* NULL: it has none */
  gboolean has_opened_lines;
  SondeDebugLines *lines; /* NULL: none */
  SondeLineCache *cache;  /* NULL: without build id, or not wanted */
};

/* A build id is not always one: who links may choose it. So what is kept is also of one file. */
static void
open_cache (SondeModuleFile *self, const char *folder)
{
  char hex[2 * SONDE_BUILD_ID_MAX + 1];
  g_autofree char *stamp = NULL;
  struct stat st = { 0 };

  sonde_debug_reference_hex (&self->reference, hex);
  if (fstat (self->fd, &st) < 0)
    return;
  stamp = g_strdup_printf ("%" G_GINT64_FORMAT " %" G_GINT64_FORMAT ".%09" G_GINT64_FORMAT,
                           (gint64) st.st_size, (gint64) st.st_mtim.tv_sec,
                           (gint64) st.st_mtim.tv_nsec);
  self->cache = sonde_line_cache_new (folder, hex, stamp);
}

SondeModuleFile *
sonde_module_file_new (int fd,
                       const char *path,
                       SondeDebugFiles *debug_files,
                       const char *cache_folder)
{
  g_autoptr (SondeModuleFile) self = g_new0 (SondeModuleFile, 1);

  self->fd = fd;
  self->debug_fd = -1;
  self->path = g_strdup (path);
  self->debug_files = debug_files;
  self->elf.fd = fd;
  if (sonde_elf_headers_load (&self->elf) < 0
      || sonde_debug_reference_read (fd, &self->reference) < 0)
    return NULL;
  if (cache_folder != NULL && self->reference.build_id_size > 0)
    open_cache (self, cache_folder);
  return g_steal_pointer (&self);
}

void
sonde_module_file_free (SondeModuleFile *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < N_SOURCES; i++)
    sonde_symbol_table_free (self->tables[i]);
  sonde_debug_lines_free (self->lines);
  sonde_line_cache_free (self->cache);
  sonde_elf_headers_clear (&self->elf);
  sonde_clear_fd (&self->debug_fd);
  sonde_clear_fd (&self->fd);
  g_free (self->refusal);
  g_free (self->path);
  g_free (self);
}

gboolean
sonde_module_file_vaddr (const SondeModuleFile *self,
                         const SondeMapping *mapping,
                         guint64 address,
                         guint64 *vaddr)
{
  guint64 distance = address - mapping->start;

  return sonde_elf_headers_vaddr (&self->elf, mapping->offset + distance, vaddr)
         || sonde_elf_headers_code_vaddr (&self->elf, mapping->end - mapping->start, distance,
                                          vaddr);
}

static int
debug_fd (SondeModuleFile *self)
{
  if (!self->has_looked)
    self->debug_fd
        = sonde_debug_files_open (self->debug_files, self->path, &self->reference, &self->refusal);
  self->has_looked = TRUE;
  return self->debug_fd;
}

static void
open_table (SondeModuleFile *self, Source source)
{
  sonde_autofd int packed = -1;
  int fd;

  switch (source)
    {
    case SOURCE_PACKED:
      fd = packed = sonde_packed_symbols_open (self->fd, &self->reference);
      break;
    case SOURCE_DEBUG:
      fd = debug_fd (self);
      break;
    case SOURCE_OWN:
    case N_SOURCES:
    default:
      fd = self->fd;
    }
  if (fd >= 0 && sonde_symbol_table_new (fd, &self->tables[source]) < 0)
    self->tables[source] = NULL;
}

gboolean
sonde_module_file_lookup (SondeModuleFile *self, guint64 vaddr, SondeSymbol *symbol)
{
  for (guint i = 0; i < N_SOURCES; i++)
    {
      if (i == self->n_opened)
        {
          open_table (self, i);
          self->n_opened++;
        }
      if (self->tables[i] != NULL && sonde_symbol_table_lookup (self->tables[i], vaddr, symbol))
        return TRUE;
    }
  return FALSE;
}

static gboolean
has_debug_information (const SondeElfHeaders *elf)
{
  return sonde_elf_headers_find (elf, ".debug_info", SHT_PROGBITS) != NULL
         || sonde_elf_headers_find (elf, ".zdebug_info", SHT_PROGBITS) != NULL;
}

static void
open_lines (SondeModuleFile *self)
{
  int fd = has_debug_information (&self->elf) ? self->fd : debug_fd (self);

  self->has_opened_lines = TRUE;
  if (fd >= 0)
    self->lines = sonde_debug_lines_new (fcntl (fd, F_DUPFD_CLOEXEC, 0));
}

const GArray *
sonde_module_file_lines (SondeModuleFile *self, guint64 vaddr)
{
  const GArray *known = self->cache != NULL ? sonde_line_cache_lookup (self->cache, vaddr) : NULL;

  if (known != NULL)
    return known;
  if (!self->has_opened_lines)
    open_lines (self);
  if (self->lines == NULL)
    return NULL;
  if (self->cache == NULL) /* not kept, but found only once all the same */
    self->cache = sonde_line_cache_new (NULL, "", "");
  sonde_line_cache_add (self->cache, vaddr, sonde_debug_lines_lookup (self->lines, vaddr));
  return sonde_line_cache_lookup (self->cache, vaddr);
}

char *
sonde_module_file_describe_miss (SondeModuleFile *self)
{
  g_autofree char *miss = NULL;

  if (self->tables[SOURCE_DEBUG] != NULL)
    return g_strdup ("neither it nor its debug file has a symbol there");
  if (sonde_elf_headers_find (&self->elf, ".symtab", SHT_SYMTAB) != NULL)
    return g_strdup ("it has no symbol there");
  miss = sonde_debug_files_describe_miss (self->debug_files, &self->reference);
  return g_strdup_printf ("stripped, and %s%s%s", miss, self->refusal != NULL ? "; " : "",
                          self->refusal != NULL ? self->refusal : "");
}
