/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/module-file.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <lzma.h>
#include <string.h>
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

/* --- lines and inlined functions in DWARF --- */

enum
{
  MAX_RANGES = 4000000, /* of all units; and of the functions of one */
  MAX_NESTING = 64,     /* of namespaces and types around a function */
  MAX_WITHIN = 32,      /* ranges that begin within another one */
  MAX_BLOCKS = 512,     /* around an address within a function */
  MAX_INLINES = 64,     /* frames of one address; of more those next to the function are left out */
};

/* Of a unit or a function. Not all compilers write .debug_aranges, and libdw does not look for
 * functions in namespaces, where Rust has all of its own; so both are taken from the tree. */
typedef struct
{
  guint64 begin;
  guint64 end;
  Dwarf_Die die;
} Range;

typedef struct
{
  int fd;
  Dwarf *dwarf;
  GArray *units;         /* Range, by begin */
  GHashTable *functions; /* offset of a unit → GArray of Range, by begin */
} DebugLines;

static void
source_frame_clear (gpointer data)
{
  SondeSourceFrame *frame = data;

  g_free (frame->function);
  g_free (frame->file);
}

static GArray *
source_frames_new (void)
{
  GArray *frames = g_array_new (FALSE, FALSE, sizeof (SondeSourceFrame));

  g_array_set_clear_func (frames, source_frame_clear);
  return frames;
}

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const Range *left = a;
  const Range *right = b;

  return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static void
add_ranges (GArray *ranges, Dwarf_Die *die)
{
  Dwarf_Addr base;
  Dwarf_Addr begin;
  Dwarf_Addr end;
  ptrdiff_t offset = 0;

  while (ranges->len < MAX_RANGES && (offset = dwarf_ranges (die, offset, &base, &begin, &end)) > 0)
    {
      Range range = { begin, end, *die };

      if (begin < end)
        g_array_append_val (ranges, range);
    }
}

/* The innermost one around @vaddr: ranges may lie within one another, though few do. */
static Range *
find_range (GArray *ranges, guint64 vaddr)
{
  guint low = 0;
  guint high = ranges->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (g_array_index (ranges, Range, middle).begin <= vaddr)
        low = middle + 1;
      else
        high = middle;
    }
  for (guint n = 0; low > 0 && n < MAX_WITHIN; n++)
    {
      Range *range = &g_array_index (ranges, Range, --low);

      if (vaddr < range->end)
        return range;
    }
  return NULL;
}

static void
collect_functions (GArray *functions, Dwarf_Die *parent, guint depth)
{
  Dwarf_Die child;

  if (depth > MAX_NESTING || dwarf_child (parent, &child) != 0)
    return;
  do
    switch (dwarf_tag (&child))
      {
      case DW_TAG_subprogram:
        add_ranges (functions, &child);
        break;
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type:
      case DW_TAG_enumeration_type:
        collect_functions (functions, &child, depth + 1);
        break;
      default: /* has no functions */
        break;
      }
  while (dwarf_siblingof (&child, &child) == 0);
}

static void
debug_lines_free (DebugLines *self)
{
  if (self == NULL)
    return;
  if (self->dwarf != NULL)
    dwarf_end (self->dwarf);
  g_hash_table_unref (self->functions);
  g_array_unref (self->units);
  sonde_clear_fd (&self->fd);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (DebugLines, debug_lines_free)

/* @fd: (transfer full): an ELF file, of foreign origin. NULL if it has no debug information that
 * libdw can read */
static DebugLines *
debug_lines_new (int fd)
{
  g_autoptr (DebugLines) self = g_new0 (DebugLines, 1);
  Dwarf_CU *unit = NULL;
  Dwarf_Die die;
  guint8 type;

  self->fd = fd;
  self->units = g_array_new (FALSE, FALSE, sizeof (Range));
  self->functions
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, (GDestroyNotify) g_array_unref);
  self->dwarf = dwarf_begin (fd, DWARF_C_READ);
  if (self->dwarf == NULL)
    return NULL;
  while (dwarf_get_units (self->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0)
    if (type == DW_UT_compile || type == DW_UT_skeleton)
      add_ranges (self->units, &die);
  g_array_sort (self->units, compare_ranges);
  return self->units->len > 0 ? g_steal_pointer (&self) : NULL;
}

static GArray *
ensure_functions (DebugLines *self, Dwarf_Die *unit)
{
  guint64 offset = dwarf_dieoffset (unit);
  GArray *functions = g_hash_table_lookup (self->functions, &offset);
  Dwarf_Die split;

  if (functions != NULL)
    return functions;
  functions = g_array_new (FALSE, FALSE, sizeof (Range));
  /* of split DWARF the tree is in another file */
  if (dwarf_cu_info (unit->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) != 0
      || dwarf_tag (&split) == DW_TAG_invalid)
    split = *unit;
  collect_functions (functions, &split, 0);
  g_array_sort (functions, compare_ranges);
  g_hash_table_insert (self->functions, g_memdup2 (&offset, sizeof offset), functions);
  return functions;
}

/* Linkage names tell overloads apart; languages without them have plain names. */
static char *
dup_function_name (Dwarf_Die *die)
{
  Dwarf_Attribute attribute;
  const char *name;

  if (dwarf_attr_integrate (die, DW_AT_linkage_name, &attribute) == NULL
      && dwarf_attr_integrate (die, DW_AT_MIPS_linkage_name, &attribute) == NULL
      && dwarf_attr_integrate (die, DW_AT_name, &attribute) == NULL)
    return NULL;
  name = dwarf_formstring (&attribute);
  return g_strdup (name);
}

/* 0: unknown */
static guint
find_begin (Dwarf_Die *die)
{
  Dwarf_Attribute attribute;
  Dwarf_Word value;

  return dwarf_formudata (dwarf_attr_integrate (die, DW_AT_decl_line, &attribute), &value) == 0
                 && value <= G_MAXINT
             ? (guint) value
             : 0;
}

/* The child of @parent that @vaddr is in. */
static gboolean
find_child (Dwarf_Die *parent, guint64 vaddr, Dwarf_Die *found)
{
  if (dwarf_child (parent, found) != 0)
    return FALSE;
  do
    switch (dwarf_tag (found))
      {
      case DW_TAG_inlined_subroutine:
      case DW_TAG_lexical_block:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
        if (dwarf_haspc (found, vaddr) > 0)
          return TRUE;
        break;
      default: /* holds no code */
        break;
      }
  while (dwarf_siblingof (found, found) == 0);
  return FALSE;
}

/* Fills @chain from the function inwards; returns how many. */
static guint
find_inlined (Dwarf_Die *function, guint64 vaddr, Dwarf_Die chain[MAX_INLINES])
{
  Dwarf_Die block = *function;
  Dwarf_Die next;
  guint n = 0;

  chain[n++] = *function;
  for (guint depth = 0; depth < MAX_BLOCKS && find_child (&block, vaddr, &next); depth++)
    {
      block = next;
      if (dwarf_tag (&block) != DW_TAG_inlined_subroutine)
        continue;
      if (n == MAX_INLINES) /* the outermost ones but the function go */
        memmove (&chain[1], &chain[2], (--n - 1) * sizeof chain[0]);
      chain[n++] = block;
    }
  return n;
}

/* (transfer full): SondeSourceFrame, the innermost first, its clear function set; the last one is
 * the function itself, those before were inlined. Empty if nothing is known */
static GArray *
debug_lines_lookup (DebugLines *self, guint64 vaddr)
{
  GArray *frames = source_frames_new ();
  Range *unit = find_range (self->units, vaddr);
  Range *function = unit != NULL ? find_range (ensure_functions (self, &unit->die), vaddr) : NULL;
  Dwarf_Die chain[MAX_INLINES];
  guint n = function != NULL ? find_inlined (&function->die, vaddr, chain) : 0;
  SondeSourceFrame frame = { 0 };
  Dwarf_Line *line;
  int number = 0;

  if (unit == NULL)
    return frames;
  line = dwarf_getsrc_die (&unit->die, vaddr);
  if (line != NULL)
    {
      frame.file = g_strdup (dwarf_linesrc (line, NULL, NULL));
      if (dwarf_lineno (line, &number) == 0 && number > 0)
        frame.line = (guint) number;
    }
  for (guint i = n; i > 0; i--)
    {
      frame.function = dup_function_name (&chain[i - 1]);
      frame.begin = find_begin (&chain[i - 1]);
      g_array_append_val (frames, frame);
      frame = (SondeSourceFrame){ 0 };
      if (i > 1) /* the next one out is where this one is called */
        {
          Dwarf_Die *inlined = &chain[i - 1];
          Dwarf_Attribute attribute;
          Dwarf_Files *files;
          Dwarf_Word value;
          size_t n_files;

          /* The function that is inlined there is called at a line of the next one out. */
          if (dwarf_formudata (dwarf_attr (inlined, DW_AT_call_line, &attribute), &value) == 0
              && value <= G_MAXINT)
            frame.line = (guint) value;
          if (dwarf_formudata (dwarf_attr (inlined, DW_AT_call_file, &attribute), &value) == 0
              && dwarf_getsrcfiles (&unit->die, &files, &n_files) == 0 && value < n_files)
            frame.file = g_strdup (dwarf_filesrc (files, value, NULL, NULL));
        }
    }
  if (n == 0 && frame.file != NULL)
    g_array_append_val (frames, frame);
  return frames;
}

/* --- lines that are kept from one run to the next --- */

#define TYPE              "(sa(ta(ssuu)))" /* stamp, entries */
#define MAX_CACHE_BYTES   (64u << 20)      /* of all programs: the oldest ones go */
#define MAX_CACHE_ENTRIES 200000u          /* addresses of one program */

/* One file for each build id: a GVariant of type (sa(ta(ssuu))), of a stamp, and of addresses and
 * their frames ("" for what is unknown). A file that has another stamp, is damaged or somebody
 * else's counts as none. Looking up DWARF of a large program takes seconds, this takes none. */
typedef struct
{
  char *folder;
  char *path;
  char *stamp;
  GHashTable *entries; /* address → GArray of SondeSourceFrame */
  gboolean is_changed;
} LineCache;

static char *
dup_known (const char *text)
{
  return text[0] != '\0' ? g_strdup (text) : NULL;
}

static void
insert (LineCache *self, guint64 vaddr, GArray *frames)
{
  guint64 *key = g_new (guint64, 1);

  *key = vaddr;
  g_hash_table_replace (self->entries, key, frames);
}

static void
read_entry (LineCache *self, guint64 vaddr, GVariantIter *texts)
{
  GArray *frames = source_frames_new ();
  const char *function;
  const char *file;
  guint line;
  guint begin;

  while (frames->len < MAX_INLINES
         && g_variant_iter_next (texts, "(&s&suu)", &function, &file, &line, &begin))
    {
      SondeSourceFrame frame = { dup_known (function), dup_known (file), line, begin };

      g_array_append_val (frames, frame);
    }
  insert (self, vaddr, frames);
}

static void
load (LineCache *self)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (self->path, FALSE, NULL);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GVariant) content = NULL;
  g_autoptr (GVariantIter) entries = NULL;
  const char *stamp;
  GVariantIter *texts;
  guint64 vaddr;

  if (file == NULL || g_mapped_file_get_length (file) > MAX_CACHE_BYTES)
    return;
  /* a copy: another process may write or cut the file */
  bytes = g_bytes_new (g_mapped_file_get_contents (file), g_mapped_file_get_length (file));
  content = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (content))
    return;
  g_variant_get (content, "(&sa(ta(ssuu)))", &stamp, &entries);
  if (!g_str_equal (stamp, self->stamp) || g_variant_iter_n_children (entries) > MAX_CACHE_ENTRIES)
    return;
  while (g_variant_iter_next (entries, "(ta(ssuu))", &vaddr, &texts))
    {
      read_entry (self, vaddr, texts);
      g_variant_iter_free (texts);
    }
}

/* @folder: (nullable): made when first needed; usually "sonde/lines" in the user's cache; NULL
 * keeps nothing
 * @build_id: in hexadecimal
 * @stamp: of the program; what was kept with another one is not used */
static LineCache *
line_cache_new (const char *folder, const char *build_id, const char *stamp)
{
  LineCache *self = g_new0 (LineCache, 1);

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

/* (transfer none): SondeSourceFrame, or NULL if @vaddr is not there */
static const GArray *
line_cache_lookup (const LineCache *self, guint64 vaddr)
{
  return g_hash_table_lookup (self->entries, &vaddr);
}

/* @frames: (transfer full) */
static void
line_cache_add (LineCache *self, guint64 vaddr, GArray *frames)
{
  if (g_hash_table_size (self->entries) < MAX_CACHE_ENTRIES)
    self->is_changed = TRUE;
  insert (self, vaddr, frames);
}

static const char *
known (const char *text)
{
  return text != NULL && g_utf8_validate (text, -1, NULL) ? text : "";
}

static GVariant *
build (const LineCache *self)
{
  g_auto (GVariantBuilder) content = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE (TYPE));
  GHashTableIter iter;
  gpointer key;
  gpointer value;
  guint n = 0;

  g_variant_builder_add (&content, "s", self->stamp);
  g_variant_builder_open (&content, G_VARIANT_TYPE ("a(ta(ssuu))"));
  g_hash_table_iter_init (&iter, self->entries);
  while (n++ < MAX_CACHE_ENTRIES && g_hash_table_iter_next (&iter, &key, &value))
    {
      const GArray *frames = value;

      g_variant_builder_open (&content, G_VARIANT_TYPE ("(ta(ssuu))"));
      g_variant_builder_add (&content, "t", *(const guint64 *) key);
      g_variant_builder_open (&content, G_VARIANT_TYPE ("a(ssuu)"));
      for (guint i = 0; i < frames->len; i++)
        {
          const SondeSourceFrame *frame = &g_array_index (frames, SondeSourceFrame, i);

          g_variant_builder_add (&content, "(ssuu)", known (frame->function), known (frame->file),
                                 frame->line, frame->begin);
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
trim (const LineCache *self)
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
      if (sum > MAX_CACHE_BYTES)
        g_unlink (kept->path);
    }
}

/* Writes what was added. Accepts NULL. */
static void
line_cache_free (LineCache *self)
{
  if (self == NULL)
    return;
  if (self->is_changed && self->folder != NULL)
    {
      g_autoptr (GVariant) content = build (self);
      gsize size = g_variant_get_size (content);

      /* a cache that cannot be written is but slower */
      if (size > 0 && size <= MAX_CACHE_BYTES && g_mkdir_with_parents (self->folder, 0700) == 0
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
  DebugLines *lines; /* NULL: none */
  LineCache *cache;  /* NULL: without build id, or not wanted */
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
  stamp = g_strdup_printf (TYPE " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT ".%09" G_GINT64_FORMAT,
                           (gint64) st.st_size, (gint64) st.st_mtim.tv_sec,
                           (gint64) st.st_mtim.tv_nsec);
  self->cache = line_cache_new (folder, hex, stamp);
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
  debug_lines_free (self->lines);
  line_cache_free (self->cache);
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
  const GArray *known = self->cache != NULL ? line_cache_lookup (self->cache, vaddr) : NULL;

  if (known != NULL)
    return known;
  if (!self->has_opened_lines)
    {
      int fd = has_debug_information (&self->elf) ? self->fd : debug_fd (self);

      self->has_opened_lines = TRUE;
      if (fd >= 0)
        self->lines = debug_lines_new (fcntl (fd, F_DUPFD_CLOEXEC, 0));
    }
  if (self->lines == NULL)
    return NULL;
  if (self->cache == NULL) /* not kept, but found only once all the same */
    self->cache = line_cache_new (NULL, "", "");
  line_cache_add (self->cache, vaddr, debug_lines_lookup (self->lines, vaddr));
  return line_cache_lookup (self->cache, vaddr);
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
