/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/module-file.h"

#include <fcntl.h>
#include <glib.h>
#include <lzma.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/elf-file.h"
#include "base/fd.h"
#include "symbols/debug-reference.h"

/* --- the small symbol table that Fedora and others pack into stripped files --- */

#define MAX_PACKED_BYTES (64u << 20) /* packed or not; libc's is 100 KiB */
#define BLOCK_SIZE       65536

/* Whether all of the @size_bytes at @offset of @fd were unpacked into @out. */
static gboolean
unpack (lzma_stream *stream, int fd, guint64 offset, guint64 size_bytes, int out)
{
  g_autofree guint8 *packed = g_malloc (BLOCK_SIZE);
  g_autofree guint8 *plain = g_malloc (BLOCK_SIZE);
  lzma_ret result = LZMA_OK;

  while (result == LZMA_OK && stream->total_out <= MAX_PACKED_BYTES)
    {
      gsize n_plain;

      if (stream->avail_in == 0 && size_bytes > 0)
        {
          gssize n = pread (fd, packed, MIN (size_bytes, BLOCK_SIZE), (off_t) offset);

          if (n <= 0)
            return FALSE;
          stream->next_in = packed;
          stream->avail_in = (gsize) n;
          offset += (gsize) n;
          size_bytes -= (gsize) n;
        }
      stream->next_out = plain;
      stream->avail_out = BLOCK_SIZE;
      result = lzma_code (stream, size_bytes == 0 ? LZMA_FINISH : LZMA_RUN);
      n_plain = BLOCK_SIZE - stream->avail_out;
      if (write (out, plain, n_plain) != (gssize) n_plain)
        return FALSE;
    }
  return result == LZMA_STREAM_END;
}

/*
 * @fd: the file that @reference was read from; stays the caller's
 *
 * Unpacks .gnu_debugdata into memory, of which xz itself may use as much again.
 *
 * Returns: a descriptor of an ELF file; -1 if there is none or it is broken or too large
 */
static int
packed_symbols_open (int fd, const SondeDebugReference *reference)
{
  lzma_stream stream = LZMA_STREAM_INIT;
  sonde_autofd int out = -1;
  gboolean is_whole;

  if (reference->packed_size == 0 || reference->packed_size > MAX_PACKED_BYTES
      || lzma_stream_decoder (&stream, MAX_PACKED_BYTES, 0) != LZMA_OK)
    return -1;
  out = memfd_create ("debugdata", MFD_CLOEXEC);
  is_whole
      = out >= 0 && unpack (&stream, fd, reference->packed_offset, reference->packed_size, out);
  lzma_end (&stream);
  return is_whole ? sonde_steal_fd (&out) : -1;
}

/* --- files --- */

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
  SondeElfFile elf;
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
  char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1];
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
  if (sonde_elf_file_load (&self->elf, fd) < 0
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
  sonde_elf_file_clear (&self->elf);
  sonde_clear_fd (&self->debug_fd);
  sonde_clear_fd (&self->fd);
  g_free (self->refusal);
  g_free (self->path);
  g_free (self);
}

gboolean
sonde_module_file_vaddr (const SondeModuleFile *self,
                         const SondeModelMapping *mapping,
                         guint64 address,
                         guint64 *vaddr)
{
  guint64 distance = address - mapping->start;

  const SondeElfFile *elf = &self->elf;

  return sonde_elf_vaddr (elf->loads, elf->n_loads, mapping->offset + distance, vaddr)
         || sonde_elf_code_vaddr (elf->loads, elf->n_loads, mapping->end - mapping->start, distance,
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

gboolean
sonde_module_file_lookup (SondeModuleFile *self, guint64 vaddr, SondeSymbol *symbol)
{
  for (guint i = 0; i < N_SOURCES; i++)
    {
      if (i == self->n_opened)
        {
          sonde_autofd int packed = -1;
          int fd;

          switch (i)
            {
            case SOURCE_PACKED:
              fd = packed = packed_symbols_open (self->fd, &self->reference);
              break;
            case SOURCE_DEBUG:
              fd = debug_fd (self);
              break;
            case SOURCE_OWN:
            case N_SOURCES:
            default:
              fd = self->fd;
            }
          if (fd >= 0 && sonde_symbol_table_new (fd, &self->tables[i]) < 0)
            self->tables[i] = NULL;
          self->n_opened++;
        }
      if (self->tables[i] != NULL && sonde_symbol_table_lookup (self->tables[i], vaddr, symbol))
        return TRUE;
    }
  return FALSE;
}

static gboolean
has_debug_information (const SondeElfFile *elf)
{
  Elf64_Shdr section;

  return sonde_elf_file_find_section (elf, ".debug_info", SHT_PROGBITS, &section)
         || sonde_elf_file_find_section (elf, ".zdebug_info", SHT_PROGBITS, &section);
}

const GArray *
sonde_module_file_lines (SondeModuleFile *self, guint64 vaddr)
{
  const GArray *known = self->cache != NULL ? sonde_line_cache_lookup (self->cache, vaddr) : NULL;

  if (known != NULL)
    return known;
  if (!self->has_opened_lines)
    {
      int fd = has_debug_information (&self->elf) ? self->fd : debug_fd (self);

      self->has_opened_lines = TRUE;
      if (fd >= 0)
        self->lines = sonde_debug_lines_new (fcntl (fd, F_DUPFD_CLOEXEC, 0));
    }
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
  Elf64_Shdr section;

  if (self->tables[SOURCE_DEBUG] != NULL)
    return g_strdup ("neither it nor its debug file has a symbol there");
  if (sonde_elf_file_find_section (&self->elf, ".symtab", SHT_SYMTAB, &section))
    return g_strdup ("it has no symbol there");
  miss = sonde_debug_files_describe_miss (self->debug_files, &self->reference);
  return g_strdup_printf ("stripped, and %s%s%s", miss, self->refusal != NULL ? "; " : "",
                          self->refusal != NULL ? self->refusal : "");
}
