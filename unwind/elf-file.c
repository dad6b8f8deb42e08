/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The few ELF headers that an unwinder needs, read with bounded pread(). */
#include "unwind/elf-file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Both architectures are little-endian here; a big-endian AArch64 file is a foreign one. */
#define NATIVE_DATA ELFDATA2LSB

enum
{
  HEADERS_PER_READ = 64,
  MAX_SECTION_NAME = 32, /* bytes, with the final NUL */
};

int
sonde_elf_file_read (const SondeElfFile *self, uint64_t offset, void *buffer, size_t size_bytes)
{
  uint8_t *at = buffer;

  if (offset > self->size_bytes || size_bytes > self->size_bytes - offset)
    return -EBADMSG;
  if (self->fd < 0)
    {
      memcpy (buffer, self->memory + offset, size_bytes);
      return 0;
    }

  while (size_bytes > 0)
    {
      ssize_t n_read = pread (self->fd, at, size_bytes, (off_t) offset);

      if (n_read < 0 && errno == EINTR)
        continue;
      if (n_read < 0)
        return -errno;
      if (n_read == 0) /* truncated since its size was asked */
        return -EBADMSG;
      at += n_read;
      offset += (uint64_t) n_read;
      size_bytes -= (size_t) n_read;
    }
  return 0;
}

static int
check_ident (const Elf64_Ehdr *header)
{
  if (memcmp (header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64
      || header->e_ident[EI_DATA] != NATIVE_DATA || header->e_machine != SONDE_ELF_NATIVE_MACHINE)
    return -ENOEXEC;
  if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
    return -ENOEXEC;
  if (header->e_phentsize != sizeof (Elf64_Phdr) || header->e_phnum == 0
      || header->e_phnum > SONDE_ELF_MAX_SEGMENTS)
    return -EBADMSG;
  return 0;
}

static void
take_segment (SondeElfFile *self, const Elf64_Phdr *header)
{
  SondeElfSegment segment = {
    .vaddr = header->p_vaddr,
    .memory_size_bytes = header->p_memsz,
    .offset = header->p_offset,
    .file_size_bytes = header->p_filesz,
    .executable = (header->p_flags & PF_X) != 0,
  };

  if (header->p_vaddr + header->p_memsz < header->p_vaddr
      || header->p_offset + header->p_filesz < header->p_offset)
    return;
  if (header->p_type == PT_LOAD && header->p_filesz <= header->p_memsz && header->p_memsz > 0)
    self->loads[self->n_loads++] = segment;
  else if (header->p_type == PT_GNU_EH_FRAME)
    self->eh_frame_hdr = segment;
}

static int
read_segments (SondeElfFile *self, const Elf64_Ehdr *header)
{
  Elf64_Phdr chunk[HEADERS_PER_READ];

  self->loads = calloc (header->e_phnum, sizeof *self->loads);
  if (self->loads == NULL)
    return -ENOMEM;

  for (size_t done = 0; done < header->e_phnum;)
    {
      size_t n = header->e_phnum - done;
      int r;

      if (n > HEADERS_PER_READ)
        n = HEADERS_PER_READ;
      r = sonde_elf_file_read (self, header->e_phoff + done * sizeof *chunk, chunk,
                               n * sizeof *chunk);
      if (r < 0)
        return r;
      for (size_t i = 0; i < n; i++)
        take_segment (self, &chunk[i]);
      done += n;
    }
  return self->n_loads > 0 ? 0 : -EBADMSG;
}

/* Sections are optional: whatever is wrong with them leaves n_sections at 0. */
static void
find_sections (SondeElfFile *self, const Elf64_Ehdr *header)
{
  Elf64_Shdr names;

  if (header->e_shentsize != sizeof (Elf64_Shdr) || header->e_shnum == 0
      || header->e_shnum > SONDE_ELF_MAX_SECTIONS || header->e_shstrndx >= header->e_shnum)
    return;
  if (header->e_shoff > self->size_bytes
      || header->e_shnum * sizeof names > self->size_bytes - header->e_shoff)
    return;
  if (sonde_elf_file_read (self, header->e_shoff + header->e_shstrndx * sizeof names, &names,
                           sizeof names)
          < 0
      || names.sh_type != SHT_STRTAB)
    return;

  self->sections_offset = header->e_shoff;
  self->n_sections = header->e_shnum;
  self->names_offset = names.sh_offset;
  self->names_size_bytes = names.sh_size;
}

int
sonde_elf_file_read_headers (SondeElfFile *self)
{
  Elf64_Ehdr header;
  int r;

  r = sonde_elf_file_read (self, 0, &header, sizeof header);
  if (r < 0)
    return r == -EBADMSG ? -ENOEXEC : r;
  r = check_ident (&header);
  if (r < 0)
    return r;
  r = read_segments (self, &header);
  if (r < 0)
    {
      sonde_elf_file_clear (self);
      return r;
    }
  self->entry = header.e_entry;
  find_sections (self, &header);
  return 0;
}

void
sonde_elf_file_clear (SondeElfFile *self)
{
  free (self->loads);
  self->loads = NULL;
  self->n_loads = 0;
}

static bool
has_name (const SondeElfFile *self, const Elf64_Shdr *section, const char *name)
{
  char text[MAX_SECTION_NAME];
  size_t size = strlen (name) + 1;

  if (size > sizeof text || section->sh_name > self->names_size_bytes
      || size > self->names_size_bytes - section->sh_name
      || self->names_offset + section->sh_name < self->names_offset)
    return false;
  return sonde_elf_file_read (self, self->names_offset + section->sh_name, text, size) == 0
         && memcmp (text, name, size) == 0;
}

static bool
has_content (const SondeElfFile *self, const Elf64_Shdr *section)
{
  return (section->sh_type == SHT_PROGBITS || section->sh_type == SHT_X86_64_UNWIND)
         && (section->sh_flags & SHF_COMPRESSED) == 0 && section->sh_size > 0
         && section->sh_offset <= self->size_bytes
         && section->sh_size <= self->size_bytes - section->sh_offset;
}

bool
sonde_elf_file_find_section (const SondeElfFile *self, const char *name, Elf64_Shdr *section)
{
  Elf64_Shdr chunk[HEADERS_PER_READ];

  for (size_t done = 0; done < self->n_sections;)
    {
      size_t n = self->n_sections - done;

      if (n > HEADERS_PER_READ)
        n = HEADERS_PER_READ;
      if (sonde_elf_file_read (self, self->sections_offset + done * sizeof *chunk, chunk,
                               n * sizeof *chunk)
          < 0)
        return false;
      for (size_t i = 0; i < n; i++)
        {
          if (has_content (self, &chunk[i]) && has_name (self, &chunk[i], name))
            {
              *section = chunk[i];
              return true;
            }
        }
      done += n;
    }
  return false;
}

bool
sonde_elf_file_locate (const SondeElfFile *self,
                       uint64_t vaddr,
                       uint64_t *offset,
                       uint64_t *size_bytes)
{
  for (size_t i = 0; i < self->n_loads; i++)
    {
      const SondeElfSegment *load = &self->loads[i];

      if (vaddr >= load->vaddr && vaddr - load->vaddr < load->file_size_bytes)
        {
          *offset = load->offset + (vaddr - load->vaddr);
          *size_bytes = load->file_size_bytes - (vaddr - load->vaddr);
          return true;
        }
    }
  return false;
}
