/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Headers, names and notes of made-up files. */
#include "base/elf-file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/symbol-file.h"

#define SECTION(file, index)                                                                       \
  ((Elf64_Shdr *) (gpointer) (file->data + ((Elf64_Ehdr *) (gpointer) file->data)->e_shoff) + index)

static GByteArray *
build_file (void)
{
  SymbolFile symbols;
  GByteArray *file;

  symbol_file_init (&symbols);
  symbol_file_add (&symbols, "f", ELF64_ST_INFO (STB_GLOBAL, STT_FUNC), SYMBOL_FILE_TEXT, 16);
  file = symbol_file_build (&symbols);
  symbol_file_clear (&symbols);
  return file;
}

static int
open_bytes (const void *bytes, gsize size)
{
  int fd = memfd_create ("elf", MFD_CLOEXEC);

  g_assert_cmpint (write (fd, bytes, size), ==, (gssize) size);
  return fd;
}

static int
load (const GByteArray *file, SondeElfFile *self)
{
  int fd = open_bytes (file->data, file->len);
  int r = sonde_elf_file_load (self, fd);

  self->memory = file->data;
  self->fd = -1;
  close (fd);
  return r;
}

static void
assert_impossible (const GByteArray *file)
{
  SondeElfFile self;

  g_assert_cmpint (load (file, &self), ==, -EBADMSG);
  sonde_elf_file_clear (&self);
}

static void
test_passes_on_what_the_kernel_says (void)
{
  SondeElfFile self;
  int folder = open ("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  char bytes[64];

  g_assert_cmpint (sonde_elf_file_load (&self, -1), ==, -EBADF);
  sonde_elf_file_clear (&self);
  g_assert_cmpint (sonde_elf_file_load (&self, folder), <, 0);
  sonde_elf_file_clear (&self);
  self.size_bytes = 1 << 20;
  g_assert_cmpint (sonde_elf_file_read (&self, 0, bytes, sizeof bytes), ==, -EISDIR);
  close (folder);
}

static void
test_sees_that_a_file_was_cut (void)
{
  char byte;
  SondeElfFile self = { .fd = open_bytes ("abc", 3), .size_bytes = 3 };

  g_assert_cmpint (sonde_elf_file_read (&self, 2, &byte, 1), ==, 0);
  g_assert_cmpint (byte, ==, 'c');
  g_assert_cmpint (ftruncate (self.fd, 1), ==, 0);
  g_assert_cmpint (sonde_elf_file_read (&self, 2, &byte, 1), ==, -EBADMSG);
  g_assert_cmpint (sonde_elf_file_read (&self, 4, &byte, 0), ==, -EBADMSG);
  g_assert_cmpint (sonde_elf_file_read (&self, UINT64_MAX, &byte, 1), ==, -EBADMSG);
  close (self.fd);
}

/* From 65280 on both numbers are in the first section. */
static void
test_large_numbers_of_sections (void)
{
  g_autoptr (GByteArray) file = build_file ();
  Elf64_Ehdr *elf = (gpointer) file->data;
  static const char names[] = ".text";
  Elf64_Shdr found;
  SondeElfFile self;

  SECTION (file, 3)->sh_offset = file->len;
  SECTION (file, 3)->sh_size = sizeof names;
  g_byte_array_append (file, (const guint8 *) names, sizeof names);
  elf = (gpointer) file->data;
  elf->e_shnum = 0;
  elf->e_shstrndx = SHN_XINDEX;
  SECTION (file, 0)->sh_size = 4;
  SECTION (file, 0)->sh_link = 3;
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_cmpuint (self.n_sections, ==, 4);
  g_assert_true (sonde_elf_file_find_section (&self, ".text", SHT_SYMTAB, &found));
  g_assert_cmpuint (found.sh_offset, ==, SECTION (file, 2)->sh_offset);
  g_assert_false (sonde_elf_file_find_section (&self, "text", SHT_STRTAB + 100, &found));
  sonde_elf_file_clear (&self);

  SECTION (file, 0)->sh_link = UINT32_MAX;
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_cmpuint (self.n_sections, ==, 4);
  g_assert_false (sonde_elf_file_find_section (&self, ".text", SHT_SYMTAB, &found));
  sonde_elf_file_clear (&self);

  SECTION (file, 0)->sh_size = SONDE_ELF_MAX_SECTIONS + 1;
  assert_impossible (file);
  SECTION (file, 0)->sh_size = UINT64_MAX;
  assert_impossible (file);
  elf->e_shoff = file->len - 8;
  assert_impossible (file);
}

static void
test_32_bit_headers_are_widened (void)
{
  g_autoptr (GByteArray) file = NULL;
  SymbolFile symbols;
  SondeElfFile self;
  Elf64_Shdr sections[4];

  symbol_file_init (&symbols);
  symbol_file_add (&symbols, "f", ELF64_ST_INFO (STB_GLOBAL, STT_FUNC), SYMBOL_FILE_TEXT, 16);
  file = symbol_file_build_32 (&symbols);
  symbol_file_clear (&symbols);
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_true (self.is_32_bit);
  g_assert_cmpuint (self.n_loads, ==, 1);
  g_assert_cmphex (self.loads[0].offset, ==, 0x2000);
  g_assert_cmphex (self.loads[0].vaddr, ==, SYMBOL_FILE_TEXT);
  g_assert_cmphex (self.loads[0].memory_size_bytes, ==, SYMBOL_FILE_TEXT_SIZE);
  g_assert_true (self.loads[0].executable);
  g_assert_cmpuint (self.n_sections, ==, G_N_ELEMENTS (sections));
  g_assert_cmpint (sonde_elf_file_read_section_headers (&self, 0, sections, 4), ==, 0);
  g_assert_cmpuint (sections[1].sh_flags, ==, SHF_EXECINSTR);
  g_assert_cmphex (sections[1].sh_addr, ==, SYMBOL_FILE_TEXT);
  g_assert_cmpuint (sections[2].sh_entsize, ==, sizeof (Elf32_Sym));
  g_assert_cmpuint (sections[2].sh_link, ==, 3);
  g_assert_cmpuint (sections[3].sh_offset + sections[3].sh_size, ==, file->len);
  sonde_elf_file_clear (&self);
}

/* As in a debug file, whose program headers are of the file that it was made of. */
static void
test_build_id_of_a_section (void)
{
  static const struct
  {
    Elf64_Nhdr header;
    char owner[4];
    guint8 id[4];
    char name[sizeof ".note.gnu.build-id"];
  } note = { { 4, 4, NT_GNU_BUILD_ID }, "GNU", { 1, 2, 3, 4 }, ".note.gnu.build-id" };
  g_autoptr (GByteArray) file = build_file ();
  uint8_t build_id[SONDE_ELF_MAX_BUILD_ID];
  SondeElfFile self;

  *SECTION (file, 1) = (Elf64_Shdr){ .sh_type = SHT_NOTE,
                                     .sh_offset = file->len,
                                     .sh_size = offsetof (typeof (note), name) };
  SECTION (file, 3)->sh_offset = file->len + offsetof (typeof (note), name);
  SECTION (file, 3)->sh_size = sizeof note.name;
  ((Elf64_Ehdr *) (gpointer) file->data)->e_shstrndx = 3;
  g_byte_array_append (file, (const guint8 *) &note, sizeof note);
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_cmpuint (sonde_elf_file_read_build_id (&self, build_id), ==, sizeof note.id);
  g_assert_cmpmem (build_id, sizeof note.id, note.id, sizeof note.id);
  sonde_elf_file_clear (&self);

  SECTION (file, 1)->sh_size = sizeof note.header + sizeof note.owner + 3;
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_cmpuint (sonde_elf_file_read_build_id (&self, build_id), ==, 0);
  sonde_elf_file_clear (&self);
}

static void
test_copies_the_vdso (void)
{
  uint64_t size_bytes;
  const uint8_t *memory = sonde_elf_find_vdso (&size_bytes);
  SondeElfFile copy;
  Elf64_Shdr section;
  int fd = sonde_elf_copy_vdso ();

  if (memory == NULL)
    {
      g_assert_cmpint (fd, ==, -ENOENT);
      return;
    }
  g_assert_cmpint (sonde_elf_file_load (&copy, fd), ==, 0);
  g_assert_cmpuint (copy.size_bytes, ==, size_bytes);
  g_assert_true (sonde_elf_file_runs_here (&copy));
  g_assert_true (sonde_elf_file_find_section (&copy, ".dynsym", SHT_DYNSYM, &section));
  sonde_elf_file_clear (&copy);
  close (fd);
}

/* @vaddr: 0 if there is none */
static void
assert_code_vaddr (const SondeElfSegment loads[2],
                   guint64 size_bytes,
                   guint64 distance,
                   guint64 vaddr)
{
  uint64_t found = 0;

  g_assert_cmpint (sonde_elf_code_vaddr (loads, 2, size_bytes, distance, &found), ==, vaddr != 0);
  g_assert_cmphex (found, ==, vaddr);
}

static void
test_code_of_a_file_without_content (void)
{
  const guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  SondeElfSegment loads[2]
      = { { .memory_size_bytes = 64 * page },
          { .vaddr = 64 * page + 16, .memory_size_bytes = page, .executable = true } };

  assert_code_vaddr (loads, 2 * page, 0, 64 * page);
  assert_code_vaddr (loads, 2 * page, page + 5, 65 * page + 5);
  assert_code_vaddr (loads, 2 * page, 2 * page, 0);
  assert_code_vaddr (loads, page, 0, 0);
  assert_code_vaddr (loads, 3 * page, 0, 0);
  loads[0].executable = true; /* which of them? */
  assert_code_vaddr (loads, 2 * page, 0, 0);
  loads[0].executable = loads[1].executable = false;
  assert_code_vaddr (loads, 2 * page, 0, 0);
}

static void
test_code_whose_size_wraps (void)
{
  SondeElfSegment code[2]
      = { { .executable = true, .vaddr = UINT64_MAX - 8, .memory_size_bytes = 8 } };

  assert_code_vaddr (code, 8, 0, 0);
  code[0].vaddr = 8;
  code[0].memory_size_bytes = UINT64_MAX - 8;
  assert_code_vaddr (code, UINT64_MAX & -4096, 0, 0);
  code[0].vaddr = 1;
  code[0].memory_size_bytes = UINT64_MAX;
  assert_code_vaddr (code, 0, 0, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/elf-file/passes-on-what-the-kernel-says", test_passes_on_what_the_kernel_says);
  g_test_add_func ("/elf-file/sees-that-a-file-was-cut", test_sees_that_a_file_was_cut);
  g_test_add_func ("/elf-file/large-numbers-of-sections", test_large_numbers_of_sections);
  g_test_add_func ("/elf-file/32-bit-headers-are-widened", test_32_bit_headers_are_widened);
  g_test_add_func ("/elf-file/build-id-of-a-section", test_build_id_of_a_section);
  g_test_add_func ("/elf-file/copies-the-vdso", test_copies_the_vdso);
  g_test_add_func ("/elf-file/code-of-a-file-without-content", test_code_of_a_file_without_content);
  g_test_add_func ("/elf-file/code-whose-size-wraps", test_code_whose_size_wraps);
  return g_test_run ();
}
