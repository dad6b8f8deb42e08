/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of functions from real files and from made-up ones. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/symbol-table.h"
#include "tests/lib/symbol-file.h"

#define TEXT      SYMBOL_FILE_TEXT
#define TEXT_SIZE SYMBOL_FILE_TEXT_SIZE

static void
set_up (SymbolFile *f, gconstpointer data)
{
  symbol_file_init (f);
}

static void
tear_down (SymbolFile *f, gconstpointer data)
{
  symbol_file_clear (f);
}

#define GLOBAL_FUNCTION ELF64_ST_INFO (STB_GLOBAL, STT_FUNC)
#define WEAK_FUNCTION   ELF64_ST_INFO (STB_WEAK, STT_FUNC)
#define LOCAL_FUNCTION  ELF64_ST_INFO (STB_LOCAL, STT_FUNC)
#define LABEL           ELF64_ST_INFO (STB_LOCAL, STT_NOTYPE)

static int
load_bytes (const void *bytes, gsize size, SondeSymbolTable **table)
{
  int fd = memfd_create ("elf", MFD_CLOEXEC);
  int r;

  g_assert_cmpint (write (fd, bytes, size), ==, (gssize) size);
  r = sonde_symbol_table_new (fd, table);
  close (fd);
  return r;
}

static SondeSymbolTable *
load (SymbolFile *f)
{
  g_autoptr (GByteArray) file = symbol_file_build (f);
  SondeSymbolTable *table = NULL;

  g_assert_cmpint (load_bytes (file->data, file->len, &table), ==, 0);
  return table;
}

static void
assert_symbol (const SondeSymbolTable *table, guint64 vaddr, const char *name, guint64 end)
{
  SondeSymbol symbol = { 0 };

  g_assert_cmpint (sonde_symbol_table_lookup (table, vaddr, &symbol), ==, name != NULL);
  g_assert_cmpstr (symbol.name, ==, name);
  if (name != NULL)
    g_assert_cmphex (symbol.end, ==, end);
}

static void
test_refuses_files (SymbolFile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  SondeSymbolTable *table;
  Elf64_Ehdr *elf;
  Elf64_Ehdr good;

  g_assert_cmpint (load_bytes ("", 0, &table), ==, -ENOEXEC);
  g_assert_cmpint (load_bytes ("#!/bin/sh", 9, &table), ==, -ENOEXEC);
  file = symbol_file_build (f);
  g_assert_cmpint (load_bytes (file->data, file->len, &table), ==, -ENODATA);
  symbol_file_add (f, "f", GLOBAL_FUNCTION, TEXT, 16);
  g_byte_array_unref (file);
  file = symbol_file_build (f);
  elf = (gpointer) file->data;
  good = *elf;
#define REFUSES(member, value, expected)                                                           \
  elf->member = value;                                                                             \
  g_assert_cmpint (load_bytes (file->data, file->len, &table), ==, expected);                      \
  *elf = good
  REFUSES (e_ident[EI_CLASS], ELFCLASSNONE, -ENOEXEC);
  REFUSES (e_ident[EI_CLASS], ELFCLASS32, -EBADMSG); /* its headers are not as long */
  REFUSES (e_ident[EI_DATA], ELFDATA2MSB, -ENOEXEC);
  REFUSES (e_shentsize, 0, -EBADMSG);
  REFUSES (e_shnum, 65535, -EBADMSG);
  REFUSES (e_shoff, UINT64_MAX - 8, -EBADMSG);
  REFUSES (e_shoff, 0, -ENODATA);
  REFUSES (e_phnum, 65535, -EBADMSG);
  REFUSES (e_phentsize, 0, -EBADMSG);
}

static void
test_ignores_tables (SymbolFile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  SondeSymbolTable *table;
  Elf64_Shdr *sections;
  Elf64_Shdr good;

  symbol_file_add (f, "f", GLOBAL_FUNCTION, TEXT, 16);
  file = symbol_file_build (f);
  sections = (gpointer) (file->data + ((Elf64_Ehdr *) (gpointer) file->data)->e_shoff);
#define IGNORES(index, member, value)                                                              \
  good = sections[index];                                                                          \
  sections[index].member = value;                                                                  \
  g_assert_cmpint (load_bytes (file->data, file->len, &table), ==, -ENODATA);                      \
  sections[index] = good
  IGNORES (2, sh_size, UINT64_C (1) << 63);
  IGNORES (2, sh_size, UINT64_MAX);
  IGNORES (2, sh_offset, UINT64_MAX - 8);
  IGNORES (2, sh_entsize, 0);
  IGNORES (2, sh_link, UINT32_MAX);
  IGNORES (2, sh_link, 2);
  IGNORES (2, sh_flags, SHF_COMPRESSED);
  IGNORES (3, sh_size, UINT64_MAX);
  IGNORES (3, sh_size, 0);
  IGNORES (3, sh_flags, SHF_COMPRESSED);
}

static void
test_over_the_bound (SymbolFile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  SondeSymbolTable *table;
  Elf64_Shdr *sections;
  int fd = memfd_create ("elf", MFD_CLOEXEC);

  symbol_file_add (f, "f", GLOBAL_FUNCTION, TEXT, 16);
  file = symbol_file_build (f);
  sections = (gpointer) (file->data + ((Elf64_Ehdr *) (gpointer) file->data)->e_shoff);
  sections[3].sh_size = SONDE_SYMBOL_TABLE_MAX_BYTES;
  g_assert_cmpint (write (fd, file->data, file->len), ==, (gssize) file->len);
  g_assert_cmpint (ftruncate (fd, 2l * SONDE_SYMBOL_TABLE_MAX_BYTES), ==, 0);
  g_assert_cmpint (sonde_symbol_table_new (fd, &table), ==, -EFBIG);
  close (fd);
}

static void
test_truncated_files (SymbolFile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;

  for (guint i = 0; i < 20; i++)
    symbol_file_add (f, "function", GLOBAL_FUNCTION, TEXT + i * 16, i % 2 * 16);
  file = symbol_file_build (f);
  for (guint size = 0; size < file->len; size++)
    {
      SondeSymbolTable *table = NULL;

      load_bytes (file->data, size, &table);
      sonde_symbol_table_free (table);
    }
}

static void
test_mutated_files (SymbolFile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  g_autoptr (GRand) random = g_rand_new_with_seed (7);

  for (guint i = 0; i < 20; i++)
    symbol_file_add (f, "function", GLOBAL_FUNCTION, TEXT + i * 16, i % 2 * 16);
  file = symbol_file_build (f);
  for (guint i = 0; i < 4000; i++)
    {
      g_autofree guint8 *copy = g_memdup2 (file->data, file->len);
      SondeSymbolTable *table = NULL;
      SondeSymbol symbol;

      for (gint n = g_rand_int_range (random, 1, 12); n > 0; n--)
        copy[g_rand_int_range (random, 0, (gint) file->len)] = (guint8) g_rand_int (random);
      if (load_bytes (copy, file->len, &table) == 0)
        for (guint64 vaddr = TEXT; vaddr < TEXT + 0x200; vaddr += 8)
          if (sonde_symbol_table_lookup (table, vaddr, &symbol))
            g_assert_true (symbol.begin <= vaddr && vaddr < symbol.end && *symbol.name != '\0');
      sonde_symbol_table_free (table);
    }
}

static void
test_preferred_names (SymbolFile *f, gconstpointer data)
{
  SondeSymbolTable *table;

  symbol_file_add (f, "local", LOCAL_FUNCTION, TEXT, 0x10);
  symbol_file_add (f, "weak", WEAK_FUNCTION, TEXT, 0x10);
  symbol_file_add (f, "__global", GLOBAL_FUNCTION, TEXT, 0x10);
  symbol_file_add (f, "long_global", GLOBAL_FUNCTION, TEXT, 0x20);
  symbol_file_add (f, "global", GLOBAL_FUNCTION, TEXT, 0x10);
  symbol_file_add (f, "a_label", LABEL, TEXT + 0x100, 0);
  symbol_file_add (f, "function", LOCAL_FUNCTION, TEXT + 0x100, 0x10);
  table = load (f);
  g_assert_cmpuint (sonde_symbol_table_n_symbols (table), ==, 2);
  assert_symbol (table, TEXT, "global", TEXT + 0x20);
  assert_symbol (table, TEXT + 0x1f, "global", TEXT + 0x20);
  assert_symbol (table, TEXT + 0x20, NULL, 0);
  assert_symbol (table, TEXT + 0x100, "function", TEXT + 0x110);
  sonde_symbol_table_free (table);
}

static void
test_sizes (SymbolFile *f, gconstpointer data)
{
  SondeSymbolTable *table;

  symbol_file_add (f, "no_size", GLOBAL_FUNCTION, TEXT, 0);
  symbol_file_add (f, "next", GLOBAL_FUNCTION, TEXT + 0x40, 0x10);
  symbol_file_add (f, "outer", GLOBAL_FUNCTION, TEXT + 0x100, 0x100);
  symbol_file_add (f, "inner", LOCAL_FUNCTION, TEXT + 0x120, 0x10);
  symbol_file_add (f, "huge", GLOBAL_FUNCTION, TEXT + 0x300, UINT64_MAX);
  symbol_file_add (f, "last", GLOBAL_FUNCTION, TEXT + 0x400, 0);
  table = load (f);
  assert_symbol (table, TEXT - 1, NULL, 0);
  assert_symbol (table, TEXT + 0x3f, "no_size", TEXT + 0x40);
  assert_symbol (table, TEXT + 0x50, NULL, 0);
  assert_symbol (table, TEXT + 0x125, "inner", TEXT + 0x130);
  assert_symbol (table, TEXT + 0x1ff, "outer", TEXT + 0x200);
  assert_symbol (table, TEXT + 0x3ff, "huge", TEXT + 0x400);
  assert_symbol (table, TEXT + TEXT_SIZE - 1, "last", TEXT + TEXT_SIZE);
  assert_symbol (table, TEXT + TEXT_SIZE, NULL, 0);
  sonde_symbol_table_free (table);
}

static void
test_what_is_no_function (SymbolFile *f, gconstpointer data)
{
  SondeSymbolTable *table;

  symbol_file_add (f, "$x", LABEL, TEXT, 0);
  symbol_file_add (f, "$d.12", LABEL, TEXT + 4, 0);
  symbol_file_add (f, ".L7", LABEL, TEXT + 8, 0);
  symbol_file_add (f, "", GLOBAL_FUNCTION, TEXT + 12, 4);
  symbol_file_add (f, "object", ELF64_ST_INFO (STB_GLOBAL, STT_OBJECT), TEXT + 16, 4);
  symbol_file_add (f, "label", LABEL, TEXT + 0x80, 0);
  table = load (f);
  g_assert_cmpuint (sonde_symbol_table_n_symbols (table), ==, 1);
  assert_symbol (table, TEXT + 16, NULL, 0);
  assert_symbol (table, TEXT + 0x80, "label", TEXT + TEXT_SIZE);
  sonde_symbol_table_free (table);
}

static void
test_offsets (SymbolFile *f, gconstpointer data)
{
  SondeSymbolTable *table;
  uint64_t vaddr;

  symbol_file_add (f, "f", GLOBAL_FUNCTION, TEXT, 0);
  table = load (f);
  g_assert_true (sonde_symbol_table_vaddr (table, 0x2345, &vaddr));
  g_assert_cmphex (vaddr, ==, TEXT + 0x345);
  g_assert_false (sonde_symbol_table_vaddr (table, 0x1fff, &vaddr));
  g_assert_false (sonde_symbol_table_vaddr (table, 0x3000, &vaddr));
  sonde_symbol_table_free (table);
}

static void
test_32_bit (SymbolFile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  SondeSymbolTable *table;
  uint64_t vaddr;

  symbol_file_add (f, "f", GLOBAL_FUNCTION, TEXT, 16);
  symbol_file_add (f, "g", WEAK_FUNCTION, TEXT + 0x20, 0);
  symbol_file_add (f, "object", ELF64_ST_INFO (STB_GLOBAL, STT_OBJECT), TEXT + 0x18, 4);
  file = symbol_file_build_32 (f);
  g_assert_cmpint (load_bytes (file->data, file->len, &table), ==, 0);
  g_assert_cmpuint (sonde_symbol_table_n_symbols (table), ==, 2);
  assert_symbol (table, TEXT + 15, "f", TEXT + 16);
  assert_symbol (table, TEXT + 0x18, NULL, 0);
  assert_symbol (table, TEXT + 0x30, "g", TEXT + TEXT_SIZE);
  g_assert_true (sonde_symbol_table_vaddr (table, 0x2345, &vaddr));
  g_assert_cmphex (vaddr, ==, TEXT + 0x345);
  sonde_symbol_table_free (table);
  for (guint size = 0; size < file->len; size++)
    {
      table = NULL;
      load_bytes (file->data, size, &table);
      sonde_symbol_table_free (table);
    }
}

static void
assert_knows (const SondeSymbolTable *table, void *libc, const char *name)
{
  Dl_info info;
  SondeSymbol symbol;
  guint64 vaddr;

  g_assert_cmpint (dladdr (dlsym (libc, name), &info), !=, 0);
  vaddr = (guint64) info.dli_saddr - (guint64) info.dli_fbase;
  g_assert_true (sonde_symbol_table_lookup (table, vaddr + 3, &symbol));
  g_assert_cmphex (symbol.begin, ==, vaddr);
  g_assert_cmpstr (symbol.name, ==, name);
}

static void
test_libc (SymbolFile *f, gconstpointer data)
{
  void *libc = dlopen ("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); /* not a sanitizer's */
  Dl_info info;
  SondeSymbolTable *table;
  int fd;

  g_assert_cmpint (dladdr (dlsym (libc, "qsort_r"), &info), !=, 0);
  fd = open (info.dli_fname, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (sonde_symbol_table_new (fd, &table), ==, 0);
  g_assert_cmpuint (sonde_symbol_table_n_symbols (table), >, 1000);
  assert_knows (table, libc, "qsort_r");
  assert_knows (table, libc, "write"); /* not __write, nor __GI___write */
  assert_knows (table, libc, "malloc_usable_size");
  sonde_symbol_table_free (table);
  close (fd);
  dlclose (libc);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test)                                                                            \
  g_test_add ("/symbol-table/" path, SymbolFile, NULL, set_up, test, tear_down)
  ADD ("refuses-what-is-no-elf-file-of-this-machine", test_refuses_files);
  ADD ("refuses-files-over-the-bound", test_over_the_bound);
  ADD ("ignores-impossible-tables", test_ignores_tables);
  ADD ("survives-truncation-at-every-byte", test_truncated_files);
  ADD ("survives-mutations", test_mutated_files);
  ADD ("ignores-what-is-no-function", test_what_is_no_function);
  ADD ("prefers-the-name-people-expect", test_preferred_names);
  ADD ("ends-symbols-without-size-at-the-next", test_sizes);
  ADD ("turns-offsets-into-addresses", test_offsets);
  ADD ("reads-32-bit-files", test_32_bit);
  ADD ("knows-libc", test_libc);
  return g_test_run ();
}
