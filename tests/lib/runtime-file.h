/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An ELF file with dynamic symbols and bytes at addresses of one's own choice. */
#pragma once

#include <elf.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RUNTIME_FILE_MAX_PIECES 8
#define RUNTIME_FILE_N_SECTIONS 5 /* the last one is to be had where it is asked for */

typedef struct
{
  guint64 vaddr;
  const void *bytes;
  gsize size_bytes;
} RuntimeFilePiece;

typedef struct
{
  GByteArray *symbols;
  GByteArray *strings;
  RuntimeFilePiece pieces[RUNTIME_FILE_MAX_PIECES];
  guint n_pieces;
  const char *section_name; /* NULL: there is no other section */
  guint32 section_type;
  RuntimeFilePiece section;
} RuntimeFile;

static inline void
runtime_file_init (RuntimeFile *self)
{
  *self = (RuntimeFile){ .symbols = g_byte_array_new (), .strings = g_byte_array_new () };
  g_byte_array_append (self->symbols, (const guint8 *) &(Elf64_Sym){ 0 }, sizeof (Elf64_Sym));
  g_byte_array_append (self->strings, (const guint8 *) "", 1);
}

static inline void
runtime_file_clear (RuntimeFile *self)
{
  g_byte_array_unref (self->symbols);
  g_byte_array_unref (self->strings);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RuntimeFile, runtime_file_clear)

static inline void
runtime_file_add_typed (
    RuntimeFile *self, const char *name, guint64 value, guint64 size, guint8 type)
{
  Elf64_Sym symbol = { .st_name = self->strings->len,
                       .st_info = ELF64_ST_INFO (STB_GLOBAL, type),
                       .st_shndx = 1,
                       .st_value = value,
                       .st_size = size };

  g_byte_array_append (self->symbols, (const guint8 *) &symbol, sizeof symbol);
  g_byte_array_append (self->strings, (const guint8 *) name, (guint) strlen (name) + 1);
}

static inline void
runtime_file_add (RuntimeFile *self, const char *name, guint64 value, guint64 size)
{
  runtime_file_add_typed (self, name, value, size, STT_OBJECT);
}

/* @bytes: not copied */
static inline void
runtime_file_put (RuntimeFile *self, guint64 vaddr, const void *bytes, gsize size_bytes)
{
  g_assert_cmpuint (self->n_pieces, <, RUNTIME_FILE_MAX_PIECES);
  self->pieces[self->n_pieces++] = (RuntimeFilePiece){ vaddr, bytes, size_bytes };
}

/* A section that no segment has; @bytes: not copied */
static inline void
runtime_file_put_section (
    RuntimeFile *self, const char *name, guint32 type, const void *bytes, gsize size_bytes)
{
  self->section_name = name;
  self->section_type = type;
  self->section = (RuntimeFilePiece){ 0, bytes, size_bytes };
}

static inline GByteArray *
runtime_file_build (const RuntimeFile *self)
{
  static const char fixed[] = "\0.dynsym\0.dynstr\0.shstrtab";
  g_autoptr (GByteArray) names = g_byte_array_new ();
  GByteArray *file = g_byte_array_new ();
  Elf64_Ehdr elf
      = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
          .e_type = ET_DYN,
          .e_machine = EM_X86_64,
          .e_version = EV_CURRENT,
          .e_ehsize = sizeof elf,
          .e_phoff = sizeof elf,
          .e_phentsize = sizeof (Elf64_Phdr),
          .e_phnum = (guint16) self->n_pieces,
          .e_shentsize = sizeof (Elf64_Shdr),
          .e_shnum = RUNTIME_FILE_N_SECTIONS,
          .e_shstrndx = 3 };
  Elf64_Phdr loads[RUNTIME_FILE_MAX_PIECES] = { 0 };
  Elf64_Shdr sections[RUNTIME_FILE_N_SECTIONS] = { 0 };
  gsize at = sizeof elf + self->n_pieces * sizeof loads[0];

  g_byte_array_append (names, (const guint8 *) fixed, sizeof fixed);
  if (self->section_name != NULL)
    g_byte_array_append (names, (const guint8 *) self->section_name,
                         (guint) strlen (self->section_name) + 1);
  for (guint i = 0; i < self->n_pieces; at += self->pieces[i++].size_bytes)
    loads[i] = (Elf64_Phdr){ .p_type = PT_LOAD,
                             .p_flags = PF_R | PF_X,
                             .p_offset = at,
                             .p_vaddr = self->pieces[i].vaddr,
                             .p_filesz = self->pieces[i].size_bytes,
                             .p_memsz = self->pieces[i].size_bytes };
  sections[1] = (Elf64_Shdr){
    .sh_name = 1, .sh_type = SHT_DYNSYM, .sh_offset = at, .sh_size = self->symbols->len
  };
  at += self->symbols->len;
  sections[2] = (Elf64_Shdr){
    .sh_name = 9, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = self->strings->len
  };
  at += self->strings->len;
  sections[3] = (Elf64_Shdr){
    .sh_name = 17, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = names->len
  };
  at += names->len;
  if (self->section_name != NULL)
    sections[4] = (Elf64_Shdr){ .sh_name = sizeof fixed,
                                .sh_type = self->section_type,
                                .sh_offset = at,
                                .sh_size = self->section.size_bytes };
  at += self->section.size_bytes;
  elf.e_shoff = at;

  g_byte_array_append (file, (const guint8 *) &elf, sizeof elf);
  g_byte_array_append (file, (const guint8 *) loads, self->n_pieces * (guint) sizeof loads[0]);
  for (guint i = 0; i < self->n_pieces; i++)
    g_byte_array_append (file, self->pieces[i].bytes, (guint) self->pieces[i].size_bytes);
  g_byte_array_append (file, self->symbols->data, self->symbols->len);
  g_byte_array_append (file, self->strings->data, self->strings->len);
  g_byte_array_append (file, names->data, names->len);
  if (self->section_name != NULL)
    g_byte_array_append (file, self->section.bytes, (guint) self->section.size_bytes);
  g_byte_array_append (file, (const guint8 *) sections, sizeof sections);
  return file;
}

/* Returns: a descriptor of it */
static inline int
runtime_file_open (const RuntimeFile *self)
{
  g_autoptr (GByteArray) bytes = runtime_file_build (self);
  int fd = memfd_create ("python", MFD_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes->data, bytes->len), ==, bytes->len);
  return fd;
}
