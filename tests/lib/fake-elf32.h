/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small i386 files with call frame information of one's own making. */
#pragma once

#include "tests/lib/fake-elf.h"

/* CFA esp+4, return address (column 8) below it, data factor -4, "zR" with plain addresses, which
 * have 4 bytes. */
static inline guint
fake_elf32_add_cie (GByteArray *cfi)
{
  static const guint8 body[] = { 1, 'z', 'R', 0, 1, 0x7c, 8, 1, 0, 0x0c, 4, 4, 0x88, 1 };
  guint start = cfi->len;

  fake_elf_append_u32 (cfi, 0);
  fake_elf_append_u32 (cfi, 0);
  g_byte_array_append (cfi, body, sizeof body);
  fake_elf_close_entry (cfi, start);
  return start;
}

static inline guint
fake_elf32_add_fde (GByteArray *cfi,
                    guint cie,
                    guint32 begin,
                    guint32 n_bytes,
                    const void *instructions,
                    guint size)
{
  guint start = cfi->len;

  fake_elf_append_u32 (cfi, 0);
  fake_elf_append_u32 (cfi, start + 4 - cie);
  fake_elf_append_u32 (cfi, begin);
  fake_elf_append_u32 (cfi, n_bytes);
  g_byte_array_append (cfi, (const guint8 *) "", 1);
  g_byte_array_append (cfi, instructions, size);
  fake_elf_close_entry (cfi, start);
  return start;
}

/* With one PT_LOAD from 0 and the section .eh_frame. */
static inline GByteArray *
fake_elf32_build (GByteArray *cfi)
{
  static const char names[] = "\0.eh_frame";
  GByteArray *file = g_byte_array_new ();
  Elf32_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
                     .e_type = ET_EXEC,
                     .e_machine = EM_386,
                     .e_version = EV_CURRENT,
                     .e_phoff = sizeof elf,
                     .e_ehsize = sizeof elf,
                     .e_phentsize = sizeof (Elf32_Phdr),
                     .e_phnum = 1,
                     .e_shentsize = sizeof (Elf32_Shdr),
                     .e_shnum = 3,
                     .e_shstrndx = 2 };
  Elf32_Phdr segment = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = FAKE_ELF_SIZE };
  Elf32_Shdr sections[3] = { 0 };

  g_byte_array_set_size (file, FAKE_ELF_CFI_OFFSET);
  memset (file->data, 0, file->len);
  g_byte_array_append (file, cfi->data, cfi->len);
  fake_elf_append_u32 (file, 0);
  segment.p_filesz = file->len;
  sections[1] = (Elf32_Shdr){ .sh_name = 1,
                              .sh_type = SHT_PROGBITS,
                              .sh_addr = FAKE_ELF_CFI_OFFSET,
                              .sh_offset = FAKE_ELF_CFI_OFFSET,
                              .sh_size = cfi->len + 4 };
  sections[2]
      = (Elf32_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = file->len, .sh_size = sizeof names };
  g_byte_array_append (file, (const guint8 *) names, sizeof names);
  elf.e_shoff = file->len;
  g_byte_array_append (file, (const guint8 *) sections, sizeof sections);
  memcpy (file->data, &elf, sizeof elf);
  memcpy (file->data + sizeof elf, &segment, sizeof segment);
  return file;
}
