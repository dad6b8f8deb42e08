/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An ELF file with .text, one PT_LOAD, and a symbol table of one's own making. */
#pragma once

#include <elf.h>
#include <glib.h>
#include <string.h>

#define SYMBOL_FILE_TEXT      0x1000 /* virtual address */
#define SYMBOL_FILE_TEXT_SIZE 0x1000

typedef struct
{
  GByteArray *symbols;
  GByteArray *strings;
} SymbolFile;

static inline void
symbol_file_init (SymbolFile *self)
{
  self->symbols = g_byte_array_new ();
  self->strings = g_byte_array_new ();
  g_byte_array_append (self->strings, (const guint8 *) "", 1);
}

static inline void
symbol_file_clear (SymbolFile *self)
{
  g_byte_array_unref (self->symbols);
  g_byte_array_unref (self->strings);
}

/* @info: ELF64_ST_INFO() */
static inline void
symbol_file_add (SymbolFile *self, const char *name, guint info, guint64 value, guint64 size)
{
  Elf64_Sym symbol = { .st_name = self->strings->len,
                       .st_info = (guchar) info,
                       .st_shndx = 1,
                       .st_value = value,
                       .st_size = size };

  g_byte_array_append (self->symbols, (const guint8 *) &symbol, sizeof symbol);
  g_byte_array_append (self->strings, (const guint8 *) name, (guint) strlen (name) + 1);
}

static inline GByteArray *
symbol_file_build (const SymbolFile *self)
{
  GByteArray *file = g_byte_array_new ();
  Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                     .e_type = ET_DYN,
                     .e_phoff = sizeof elf,
                     .e_phentsize = sizeof (Elf64_Phdr),
                     .e_phnum = 1,
                     .e_shentsize = sizeof (Elf64_Shdr),
                     .e_shnum = 4 };
  Elf64_Phdr load = { .p_type = PT_LOAD,
                      .p_flags = PF_R | PF_X,
                      .p_offset = 0x2000,
                      .p_vaddr = SYMBOL_FILE_TEXT,
                      .p_filesz = SYMBOL_FILE_TEXT_SIZE,
                      .p_memsz = SYMBOL_FILE_TEXT_SIZE };
  Elf64_Shdr sections[4] = { 0 };

  sections[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
                              .sh_flags = SHF_EXECINSTR,
                              .sh_addr = SYMBOL_FILE_TEXT,
                              .sh_size = SYMBOL_FILE_TEXT_SIZE };
  elf.e_shoff = sizeof elf + sizeof load;
  sections[2].sh_type = SHT_SYMTAB;
  sections[2].sh_link = 3;
  sections[2].sh_entsize = sizeof (Elf64_Sym);
  sections[2].sh_offset = elf.e_shoff + sizeof sections;
  sections[2].sh_size = self->symbols->len;
  sections[3].sh_type = SHT_STRTAB;
  sections[3].sh_offset = sections[2].sh_offset + self->symbols->len;
  sections[3].sh_size = self->strings->len;
  g_byte_array_append (file, (const guint8 *) &elf, sizeof elf);
  g_byte_array_append (file, (const guint8 *) &load, sizeof load);
  g_byte_array_append (file, (const guint8 *) sections, sizeof sections);
  g_byte_array_append (file, self->symbols->data, self->symbols->len);
  g_byte_array_append (file, self->strings->data, self->strings->len);
  return file;
}

/* The same, of a 32-bit program; the names of its sections are among those of its symbols. */
static inline GByteArray *
symbol_file_build_32 (const SymbolFile *self)
{
  const Elf64_Sym *symbols = (gpointer) self->symbols->data;
  guint n_symbols = self->symbols->len / sizeof *symbols;
  GByteArray *file = g_byte_array_new ();
  Elf32_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
                     .e_type = ET_DYN,
                     .e_machine = EM_386,
                     .e_phoff = sizeof elf,
                     .e_shoff = sizeof elf + sizeof (Elf32_Phdr),
                     .e_phentsize = sizeof (Elf32_Phdr),
                     .e_phnum = 1,
                     .e_shentsize = sizeof (Elf32_Shdr),
                     .e_shnum = 4,
                     .e_shstrndx = 3 };
  Elf32_Phdr load = { .p_type = PT_LOAD,
                      .p_flags = PF_R | PF_X,
                      .p_offset = 0x2000,
                      .p_vaddr = SYMBOL_FILE_TEXT,
                      .p_filesz = SYMBOL_FILE_TEXT_SIZE,
                      .p_memsz = SYMBOL_FILE_TEXT_SIZE };
  Elf32_Shdr sections[4] = { 0 };

  sections[1] = (Elf32_Shdr){ .sh_type = SHT_PROGBITS,
                              .sh_flags = SHF_EXECINSTR,
                              .sh_addr = SYMBOL_FILE_TEXT,
                              .sh_size = SYMBOL_FILE_TEXT_SIZE };
  sections[2] = (Elf32_Shdr){ .sh_type = SHT_SYMTAB,
                              .sh_link = 3,
                              .sh_entsize = sizeof (Elf32_Sym),
                              .sh_offset = elf.e_shoff + sizeof sections,
                              .sh_size = n_symbols * sizeof (Elf32_Sym) };
  sections[3] = (Elf32_Shdr){ .sh_type = SHT_STRTAB,
                              .sh_offset = sections[2].sh_offset + sections[2].sh_size,
                              .sh_size = self->strings->len };
  g_byte_array_append (file, (const guint8 *) &elf, sizeof elf);
  g_byte_array_append (file, (const guint8 *) &load, sizeof load);
  g_byte_array_append (file, (const guint8 *) sections, sizeof sections);
  for (guint i = 0; i < n_symbols; i++)
    {
      Elf32_Sym symbol = { .st_name = symbols[i].st_name,
                           .st_value = (Elf32_Addr) symbols[i].st_value,
                           .st_size = (Elf32_Word) symbols[i].st_size,
                           .st_info = symbols[i].st_info,
                           .st_shndx = symbols[i].st_shndx };

      g_byte_array_append (file, (const guint8 *) &symbol, sizeof symbol);
    }
  g_byte_array_append (file, self->strings->data, self->strings->len);
  return file;
}
