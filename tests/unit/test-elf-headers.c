/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Section and program headers of made-up files. */
#include "symbols/elf-headers.h"

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
load (const GByteArray *file, SondeElfHeaders *self)
{
  int r;

  *self = (SondeElfHeaders){ .fd = open_bytes (file->data, file->len) };
  r = sonde_elf_headers_load (self);
  close (self->fd);
  return r;
}

static void
assert_impossible (const GByteArray *file)
{
  SondeElfHeaders self;

  g_assert_cmpint (load (file, &self), ==, -EBADMSG);
  sonde_elf_headers_clear (&self);
}

static void
test_passes_on_what_the_kernel_says (void)
{
  SondeElfHeaders none = { .fd = -1 };
  SondeElfHeaders folder = { .fd = open ("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };

  g_assert_cmpint (sonde_elf_headers_load (&none), ==, -EBADF);
  g_assert_cmpint (sonde_elf_headers_load (&folder), <, 0);
  sonde_elf_headers_clear (&none);
  sonde_elf_headers_clear (&folder);
  folder.size_bytes = 1 << 20;
  g_assert_cmpint (sonde_elf_headers_read (&folder, 0, &none, sizeof none), ==, -EISDIR);
  close (folder.fd);
}

static void
test_sees_that_a_file_was_cut (void)
{
  char byte;
  SondeElfHeaders self = { .fd = open_bytes ("abc", 3), .size_bytes = 3 };

  g_assert_cmpint (sonde_elf_headers_read (&self, 2, &byte, 1), ==, 0);
  g_assert_cmpint (byte, ==, 'c');
  g_assert_cmpint (ftruncate (self.fd, 1), ==, 0);
  g_assert_cmpint (sonde_elf_headers_read (&self, 2, &byte, 1), ==, -EBADMSG);
  g_assert_cmpint (sonde_elf_headers_read (&self, 4, &byte, 0), ==, -EBADMSG);
  g_assert_cmpint (sonde_elf_headers_read (&self, UINT64_MAX, &byte, 1), ==, -EBADMSG);
  close (self.fd);
}

/* From 65280 on both numbers are in the first section. */
static void
test_large_numbers_of_sections (void)
{
  g_autoptr (GByteArray) file = build_file ();
  Elf64_Ehdr *elf = (gpointer) file->data;
  SondeElfHeaders self;

  elf->e_shnum = 0;
  elf->e_shstrndx = SHN_XINDEX;
  SECTION (file, 0)->sh_size = 4;
  SECTION (file, 0)->sh_link = 3;
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_cmpuint (self.n_sections, ==, 4);
  g_assert_cmpuint (self.names_section, ==, 3);
  sonde_elf_headers_clear (&self);

  SECTION (file, 0)->sh_link = UINT32_MAX;
  g_assert_cmpint (load (file, &self), ==, 0);
  g_assert_cmpuint (self.names_section, ==, self.n_sections);
  sonde_elf_headers_clear (&self);

  SECTION (file, 0)->sh_size = SONDE_ELF_HEADERS_MAX + 1;
  assert_impossible (file);
  SECTION (file, 0)->sh_size = UINT64_MAX;
  assert_impossible (file);
  elf->e_shoff = file->len - 8;
  assert_impossible (file);
}

/* @vaddr: 0 if there is none */
static void
assert_code_vaddr (const SondeElfHeaders *self, guint64 size_bytes, guint64 distance, guint64 vaddr)
{
  uint64_t found = 0;

  g_assert_cmpint (sonde_elf_headers_code_vaddr (self, size_bytes, distance, &found), ==,
                   vaddr != 0);
  g_assert_cmphex (found, ==, vaddr);
}

static void
test_code_of_a_file_without_content (void)
{
  const guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  Elf64_Phdr loads[] = { { .p_flags = PF_R, .p_memsz = 64 * page },
                         { .p_flags = PF_R | PF_X, .p_vaddr = 64 * page + 16, .p_memsz = page } };
  SondeElfHeaders self = { .loads = loads, .n_loads = G_N_ELEMENTS (loads) };

  assert_code_vaddr (&self, 2 * page, 0, 64 * page);
  assert_code_vaddr (&self, 2 * page, page + 5, 65 * page + 5);
  assert_code_vaddr (&self, 2 * page, 2 * page, 0);
  assert_code_vaddr (&self, page, 0, 0);
  assert_code_vaddr (&self, 3 * page, 0, 0);
  loads[0].p_flags |= PF_X; /* which of them? */
  assert_code_vaddr (&self, 2 * page, 0, 0);
  loads[0].p_flags = loads[1].p_flags = PF_R;
  assert_code_vaddr (&self, 2 * page, 0, 0);
}

static void
test_code_whose_size_wraps (void)
{
  Elf64_Phdr code = { .p_flags = PF_X, .p_vaddr = UINT64_MAX - 8, .p_memsz = 8 };
  SondeElfHeaders self = { .loads = &code, .n_loads = 1 };

  assert_code_vaddr (&self, 8, 0, 0);
  code = (Elf64_Phdr){ .p_flags = PF_X, .p_vaddr = 8, .p_memsz = UINT64_MAX - 8 };
  assert_code_vaddr (&self, UINT64_MAX & -4096, 0, 0);
  code = (Elf64_Phdr){ .p_flags = PF_X, .p_vaddr = 1, .p_memsz = UINT64_MAX };
  assert_code_vaddr (&self, 0, 0, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/elf-headers/passes-on-what-the-kernel-says",
                   test_passes_on_what_the_kernel_says);
  g_test_add_func ("/elf-headers/sees-that-a-file-was-cut", test_sees_that_a_file_was_cut);
  g_test_add_func ("/elf-headers/large-numbers-of-sections", test_large_numbers_of_sections);
  g_test_add_func ("/elf-headers/code-of-a-file-without-content",
                   test_code_of_a_file_without_content);
  g_test_add_func ("/elf-headers/code-whose-size-wraps", test_code_whose_size_wraps);
  return g_test_run ();
}
