/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Section and program headers of a hostile file. */
#include "symbols/elf-headers.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NATIVE_DATA (__BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB)

bool
sonde_elf_headers_holds (const SondeElfHeaders *self, uint64_t offset, uint64_t size_bytes)
{
  return offset <= self->size_bytes && size_bytes <= self->size_bytes - offset;
}

int
sonde_elf_headers_read (const SondeElfHeaders *self,
                        uint64_t offset,
                        void *buffer,
                        size_t size_bytes)
{
  uint8_t *at = buffer;

  if (!sonde_elf_headers_holds (self, offset, size_bytes))
    return -EBADMSG;
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
read_array (const SondeElfHeaders *self, uint64_t offset, size_t n, size_t size, void *array)
{
  void *items;
  int r;

  if (n > SONDE_ELF_HEADERS_MAX || !sonde_elf_headers_holds (self, offset, (uint64_t) n * size))
    return -EBADMSG;
  items = calloc (n > 0 ? n : 1, size);
  if (items == NULL)
    return -ENOMEM;
  r = sonde_elf_headers_read (self, offset, items, n * size);
  if (r < 0)
    free (items);
  else
    memcpy (array, &items, sizeof items);
  return r;
}

/* From 65280 sections on, the count is in the first section. */
static int
load_sections (SondeElfHeaders *self, const Elf64_Ehdr *header)
{
  uint64_t n_sections = header->e_shnum;
  Elf64_Shdr first;
  int r;

  if (header->e_shoff == 0)
    return 0;
  if (header->e_shentsize != sizeof first)
    return -EBADMSG;
  if (n_sections == 0)
    {
      r = sonde_elf_headers_read (self, header->e_shoff, &first, sizeof first);
      if (r < 0)
        return r;
      n_sections = first.sh_size;
    }
  r = read_array (self, header->e_shoff, n_sections, sizeof first, &self->sections);
  if (r < 0)
    return r;
  self->n_sections = n_sections;
  self->names_section = header->e_shstrndx;
  if (header->e_shstrndx == SHN_XINDEX && n_sections > 0)
    self->names_section = self->sections[0].sh_link;
  if (self->names_section >= n_sections
      || self->sections[self->names_section].sh_type != SHT_STRTAB)
    self->names_section = n_sections;
  return 0;
}

static int
load_segments (SondeElfHeaders *self, const Elf64_Ehdr *header)
{
  int r;

  if (header->e_phnum == 0)
    return 0;
  if (header->e_phentsize != sizeof (Elf64_Phdr))
    return -EBADMSG;
  r = read_array (self, header->e_phoff, header->e_phnum, sizeof (Elf64_Phdr), &self->loads);
  if (r < 0)
    return r;
  for (size_t i = 0; i < header->e_phnum; i++)
    if (self->loads[i].p_type == PT_LOAD)
      self->loads[self->n_loads++] = self->loads[i];
  return 0;
}

int
sonde_elf_headers_load (SondeElfHeaders *self)
{
  Elf64_Ehdr header;
  struct stat st;
  int r;

  if (fstat (self->fd, &st) < 0)
    return -errno;
  self->size_bytes = st.st_size > 0 ? (uint64_t) st.st_size : 0;
  r = sonde_elf_headers_read (self, 0, &header, sizeof header);
  if (r < 0)
    return r == -EBADMSG ? -ENOEXEC : r;
  if (memcmp (header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64
      || header.e_ident[EI_DATA] != NATIVE_DATA)
    return -ENOEXEC;
  r = load_segments (self, &header);
  return r < 0 ? r : load_sections (self, &header);
}

void
sonde_elf_headers_clear (SondeElfHeaders *self)
{
  free (self->sections);
  free (self->loads);
  self->sections = NULL;
  self->loads = NULL;
  self->n_sections = 0;
  self->n_loads = 0;
}

/* Whether the name at @offset of the section of names is @name. */
static bool
is_named (const SondeElfHeaders *self, uint32_t offset, const char *name)
{
  const Elf64_Shdr *names = &self->sections[self->names_section];
  size_t size = strlen (name) + 1;
  char found[32];

  return size <= sizeof found && offset <= names->sh_size && size <= names->sh_size - offset
         && names->sh_offset <= UINT64_MAX - offset
         && sonde_elf_headers_read (self, names->sh_offset + offset, found, size) == 0
         && memcmp (found, name, size) == 0;
}

const Elf64_Shdr *
sonde_elf_headers_find (const SondeElfHeaders *self, const char *name, uint32_t type)
{
  if (self->names_section >= self->n_sections)
    return NULL;
  for (size_t i = 0; i < self->n_sections; i++)
    {
      const Elf64_Shdr *section = &self->sections[i];

      if (section->sh_type == type
          && sonde_elf_headers_holds (self, section->sh_offset, section->sh_size)
          && is_named (self, section->sh_name, name))
        return section;
    }
  return NULL;
}

/* As sonde_module_bias() does: the executable segment, and the one that begins last. Pages are
 * asked for, since a mapping's offset is a multiple of one and a segment's need not be. */
bool
sonde_elf_headers_vaddr (const SondeElfHeaders *self, uint64_t file_offset, uint64_t *vaddr)
{
  uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
  const Elf64_Phdr *found = NULL;

  for (size_t i = 0; i < self->n_loads; i++)
    {
      const Elf64_Phdr *load = &self->loads[i];
      uint64_t begin = load->p_offset & -page;

      if (file_offset < begin || load->p_offset + load->p_filesz < begin
          || file_offset >= load->p_offset + load->p_filesz)
        continue;
      if (found == NULL || (load->p_flags & PF_X) > (found->p_flags & PF_X)
          || ((load->p_flags & PF_X) == (found->p_flags & PF_X)
              && load->p_offset > found->p_offset))
        found = load;
    }
  if (found == NULL)
    return false;
  *vaddr = file_offset - found->p_offset + found->p_vaddr;
  return true;
}

bool
sonde_elf_headers_code_vaddr (const SondeElfHeaders *self,
                              uint64_t size_bytes,
                              uint64_t distance,
                              uint64_t *vaddr)
{
  uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
  const Elf64_Phdr *code = NULL;
  uint64_t begin, end;

  for (size_t i = 0; i < self->n_loads; i++)
    {
      if ((self->loads[i].p_flags & PF_X) == 0)
        continue;
      if (code != NULL)
        return false;
      code = &self->loads[i];
    }
  if (code == NULL || code->p_vaddr > UINT64_MAX - page
      || code->p_memsz > UINT64_MAX - page - code->p_vaddr)
    return false;
  begin = code->p_vaddr & -page;
  end = (code->p_vaddr + code->p_memsz + page - 1) & -page;
  if (end - begin != size_bytes || distance >= size_bytes)
    return false;
  *vaddr = begin + distance;
  return true;
}
