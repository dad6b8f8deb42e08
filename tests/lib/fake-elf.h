/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small ELF files with call frame information of one's own making. */
#pragma once

#include <elf.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/native-registers.h"

#define FAKE_ELF_CFI_OFFSET 0x400 /* the virtual address as well: one PT_LOAD from 0 */
#define FAKE_ELF_TEXT       0x10000
#define FAKE_ELF_SIZE       0x100000 /* of its image in memory */

#if defined(__x86_64__)
#define FAKE_ELF_MACHINE EM_X86_64
#else
#define FAKE_ELF_MACHINE EM_AARCH64
#endif

static inline void
fake_elf_append_u32 (GByteArray *bytes, guint32 value)
{
  g_byte_array_append (bytes, (const guint8 *) &value, sizeof value);
}

/* Closes the entry that began at @start: pads it with DW_CFA_nop and writes its length. */
static inline void
fake_elf_close_entry (GByteArray *cfi, guint start)
{
  guint32 length;

  while ((cfi->len - start) % 8 != 4)
    g_byte_array_append (cfi, (const guint8 *) "", 1);
  length = cfi->len - start - 4;
  memcpy (cfi->data + start, &length, sizeof length);
}

/* Version 1, plain 8-byte addresses, @letters "zR" or "zRS". Returns its offset. */
static inline guint
fake_elf_add_cie (GByteArray *cfi, const char *letters, const void *instructions, guint size)
{
  static const guint8 factors[]
      = { 1, 0x78, DWARF_RA, 1, 0 }; /* code, data -8, return register, "R" */
  guint start = cfi->len;

  fake_elf_append_u32 (cfi, 0);
  fake_elf_append_u32 (cfi, 0);
  g_byte_array_append (cfi, (const guint8 *) "\1", 1);
  g_byte_array_append (cfi, (const guint8 *) letters, (guint) strlen (letters) + 1);
  g_byte_array_append (cfi, factors, sizeof factors);
  g_byte_array_append (cfi, instructions, size);
  fake_elf_close_entry (cfi, start);
  return start;
}

static inline guint
fake_elf_add_fde (GByteArray *cfi,
                  guint cie,
                  guint64 begin,
                  guint64 n_bytes,
                  const void *instructions,
                  guint size)
{
  guint start = cfi->len;

  fake_elf_append_u32 (cfi, 0);
  fake_elf_append_u32 (cfi, start + 4 - cie);
  g_byte_array_append (cfi, (const guint8 *) &begin, sizeof begin);
  g_byte_array_append (cfi, (const guint8 *) &n_bytes, sizeof n_bytes);
  g_byte_array_append (cfi, (const guint8 *) "", 1);
  g_byte_array_append (cfi, instructions, size);
  fake_elf_close_entry (cfi, start);
  return start;
}

/* What the file has besides its CFI; rows are (begin, FDE) pairs of virtual addresses. */
typedef struct
{
  const char *section; /* name of the section with the CFI, NULL: no section headers */
  const guint64 *rows; /* of .eh_frame_hdr */
  guint n_rows;
  gboolean has_header; /* PT_GNU_EH_FRAME */
} FakeElf;

static inline void
fake_elf_append_header (GByteArray *file, const FakeElf *spec)
{
  guint start = file->len;

  g_byte_array_append (file, (const guint8 *) "\1\x1b\x03\x3b", 4);
  fake_elf_append_u32 (file, FAKE_ELF_CFI_OFFSET - (start + 4));
  fake_elf_append_u32 (file, spec->n_rows);
  for (guint i = 0; i < 2 * spec->n_rows; i++)
    fake_elf_append_u32 (file, (guint32) (spec->rows[i] - start));
}

static inline void
fake_elf_append_sections (GByteArray *file, const FakeElf *spec, guint cfi_size)
{
  Elf64_Ehdr *elf;
  Elf64_Shdr sections[3] = { 0 };
  guint names = file->len;

  g_byte_array_append (file, (const guint8 *) "", 1);
  g_byte_array_append (file, (const guint8 *) spec->section, (guint) strlen (spec->section) + 1);
  sections[1] = (Elf64_Shdr){ .sh_name = 1,
                              .sh_type = SHT_PROGBITS,
                              .sh_addr = FAKE_ELF_CFI_OFFSET,
                              .sh_offset = FAKE_ELF_CFI_OFFSET,
                              .sh_size = cfi_size };
  sections[2]
      = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = file->len - names };
  while (file->len % 8 != 0)
    g_byte_array_append (file, (const guint8 *) "", 1);
  elf = (gpointer) file->data;
  elf->e_shoff = file->len;
  elf->e_shentsize = sizeof *sections;
  elf->e_shnum = G_N_ELEMENTS (sections);
  elf->e_shstrndx = 2;
  g_byte_array_append (file, (const guint8 *) sections, sizeof sections);
}

static inline GByteArray *
fake_elf_build (GByteArray *cfi, const FakeElf *spec)
{
  GByteArray *file = g_byte_array_new ();
  Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                     .e_type = ET_DYN,
                     .e_machine = FAKE_ELF_MACHINE,
                     .e_version = EV_CURRENT,
                     .e_phoff = sizeof elf,
                     .e_ehsize = sizeof elf,
                     .e_phentsize = sizeof (Elf64_Phdr),
                     .e_phnum = 2 };
  Elf64_Phdr *segments;
  guint header;

  g_byte_array_set_size (file, FAKE_ELF_CFI_OFFSET);
  memset (file->data, 0, file->len);
  memcpy (file->data, &elf, sizeof elf);
  g_byte_array_append (file, cfi->data, cfi->len);
  fake_elf_append_u32 (file, 0);
  header = file->len;
  if (spec->has_header)
    fake_elf_append_header (file, spec);
  segments = (gpointer) (file->data + sizeof elf);
  segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
                              .p_flags = PF_R | PF_X,
                              .p_filesz = file->len,
                              .p_memsz = MAX (file->len, FAKE_ELF_SIZE),
                              .p_align = 0x1000 };
  if (spec->has_header)
    segments[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
                                .p_offset = header,
                                .p_vaddr = header,
                                .p_filesz = file->len - header };
  if (spec->section != NULL)
    fake_elf_append_sections (file, spec, cfi->len + 4);
  return file;
}

/* An open regular file with these bytes. */
static inline int
fake_elf_open (const void *bytes, gsize size)
{
  int fd = memfd_create ("elf", MFD_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes, size), ==, (gssize) size);
  return fd;
}
