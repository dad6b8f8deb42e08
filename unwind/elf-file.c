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
  MAX_NOTE_BYTES = 1024, /* of a segment; what lies behind is not looked at */
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

/* The kernel of x86-64 also runs programs of its 32-bit ancestor. */
static bool
is_of_this_machine (const unsigned char *ident, uint16_t machine)
{
#ifdef __x86_64__
  if (ident[EI_CLASS] == ELFCLASS32)
    return machine == EM_386;
#endif
  return ident[EI_CLASS] == ELFCLASS64 && machine == SONDE_ELF_NATIVE_MACHINE;
}

static void
widen_header (Elf64_Ehdr *header)
{
  Elf32_Ehdr narrow;

  memcpy (&narrow, header, sizeof narrow);
  header->e_entry = narrow.e_entry;
  header->e_phoff = narrow.e_phoff;
  header->e_shoff = narrow.e_shoff;
  header->e_phentsize = narrow.e_phentsize;
  header->e_phnum = narrow.e_phnum;
  header->e_shentsize = narrow.e_shentsize;
  header->e_shnum = narrow.e_shnum;
  header->e_shstrndx = narrow.e_shstrndx;
}

/* e_ident, e_type and e_machine are at the same place in both classes. */
static int
read_header (SondeElfFile *self, Elf64_Ehdr *header)
{
  int r = sonde_elf_file_read (self, 0, header, sizeof *header);

  if (r < 0)
    return r == -EBADMSG ? -ENOEXEC : r;
  if (memcmp (header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_DATA] != NATIVE_DATA
      || !is_of_this_machine (header->e_ident, header->e_machine)
      || (header->e_type != ET_EXEC && header->e_type != ET_DYN))
    return -ENOEXEC;
  self->is_32_bit = header->e_ident[EI_CLASS] == ELFCLASS32;
  if (self->is_32_bit)
    widen_header (header);
  if (header->e_phentsize != (self->is_32_bit ? sizeof (Elf32_Phdr) : sizeof (Elf64_Phdr))
      || header->e_phnum == 0 || header->e_phnum > SONDE_ELF_MAX_SEGMENTS)
    return -EBADMSG;
  return 0;
}

static int
read_program_headers (const SondeElfFile *self, uint64_t offset, Elf64_Phdr *headers, size_t n)
{
  Elf32_Phdr narrow[HEADERS_PER_READ];
  int r;

  if (!self->is_32_bit)
    return sonde_elf_file_read (self, offset, headers, n * sizeof *headers);
  r = sonde_elf_file_read (self, offset, narrow, n * sizeof *narrow);
  for (size_t i = 0; i < n && r == 0; i++)
    headers[i] = (Elf64_Phdr){
      .p_type = narrow[i].p_type,
      .p_flags = narrow[i].p_flags,
      .p_offset = narrow[i].p_offset,
      .p_vaddr = narrow[i].p_vaddr,
      .p_filesz = narrow[i].p_filesz,
      .p_memsz = narrow[i].p_memsz,
    };
  return r;
}

static size_t
section_header_bytes (const SondeElfFile *self)
{
  return self->is_32_bit ? sizeof (Elf32_Shdr) : sizeof (Elf64_Shdr);
}

static int
read_section_headers (const SondeElfFile *self, size_t first, Elf64_Shdr *headers, size_t n)
{
  uint64_t offset = self->sections_offset + first * section_header_bytes (self);
  Elf32_Shdr narrow[HEADERS_PER_READ];
  int r;

  if (!self->is_32_bit)
    return sonde_elf_file_read (self, offset, headers, n * sizeof *headers);
  r = sonde_elf_file_read (self, offset, narrow, n * sizeof *narrow);
  for (size_t i = 0; i < n && r == 0; i++)
    headers[i] = (Elf64_Shdr){
      .sh_name = narrow[i].sh_name,
      .sh_type = narrow[i].sh_type,
      .sh_flags = narrow[i].sh_flags,
      .sh_addr = narrow[i].sh_addr,
      .sh_offset = narrow[i].sh_offset,
      .sh_size = narrow[i].sh_size,
    };
  return r;
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
  else if (header->p_type == PT_NOTE && self->n_notes < SONDE_ELF_MAX_NOTES)
    self->notes[self->n_notes++] = segment;
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
      r = read_program_headers (self, header->e_phoff + done * header->e_phentsize, chunk, n);
      if (r < 0)
        return r;
      for (size_t i = 0; i < n; i++)
        take_segment (self, &chunk[i]);
      done += n;
    }
  return self->n_loads > 0 ? 0 : -EBADMSG;
}

/* All at once, as a file may have thousands of sections. */
static int
read_names (SondeElfFile *self, const Elf64_Shdr *names)
{
  size_t size
      = names->sh_size < SONDE_ELF_MAX_NAME_BYTES ? names->sh_size : SONDE_ELF_MAX_NAME_BYTES;
  int r;

  self->names = malloc (size + 1);
  if (self->names == NULL)
    return -ENOMEM;
  r = sonde_elf_file_read (self, names->sh_offset, self->names, size);
  self->names_size_bytes = r == 0 ? size : 0;
  return r;
}

/* Sections are optional: whatever is wrong with them leaves n_sections at 0. */
static int
find_sections (SondeElfFile *self, const Elf64_Ehdr *header)
{
  Elf64_Shdr names;
  int r;

  if (header->e_shentsize != section_header_bytes (self) || header->e_shnum == 0
      || header->e_shnum > SONDE_ELF_MAX_SECTIONS || header->e_shstrndx >= header->e_shnum)
    return 0;
  if (header->e_shoff > self->size_bytes
      || header->e_shnum * section_header_bytes (self) > self->size_bytes - header->e_shoff)
    return 0;
  self->sections_offset = header->e_shoff;
  if (read_section_headers (self, header->e_shstrndx, &names, 1) < 0 || names.sh_type != SHT_STRTAB)
    return 0;
  r = read_names (self, &names);
  if (r == 0)
    self->n_sections = header->e_shnum;
  return r == -ENOMEM ? r : 0;
}

int
sonde_elf_file_read_headers (SondeElfFile *self)
{
  Elf64_Ehdr header;
  int r;

  r = read_header (self, &header);
  if (r == 0)
    r = read_segments (self, &header);
  if (r == 0)
    r = find_sections (self, &header);
  if (r < 0)
    sonde_elf_file_clear (self);
  else
    self->entry = header.e_entry;
  return r;
}

void
sonde_elf_file_clear (SondeElfFile *self)
{
  free (self->loads);
  free (self->names);
  self->loads = NULL;
  self->n_loads = 0;
  self->names = NULL;
  self->n_sections = 0;
}

static bool
has_name (const SondeElfFile *self, const Elf64_Shdr *section, const char *name)
{
  size_t size = strlen (name) + 1;

  return section->sh_name <= self->names_size_bytes
         && size <= self->names_size_bytes - section->sh_name
         && memcmp (self->names + section->sh_name, name, size) == 0;
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
      if (read_section_headers (self, done, chunk, n) < 0)
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
          if (*offset >= self->size_bytes)
            return false;
          if (*size_bytes > self->size_bytes - *offset)
            *size_bytes = self->size_bytes - *offset;
          return true;
        }
    }
  return false;
}

/* Notes are aligned to four bytes, some that are not ours to eight: those have segments of their
 * own. */
static size_t
align_note (size_t size_bytes)
{
  return (size_bytes + 3) & ~(size_t) 3;
}

static size_t
find_build_id (const uint8_t *notes, size_t left, uint8_t build_id[SONDE_ELF_MAX_BUILD_ID])
{
  while (left >= sizeof (Elf64_Nhdr))
    {
      Elf64_Nhdr header; /* the same in both classes */
      size_t name_size, id_size;

      memcpy (&header, notes, sizeof header);
      notes += sizeof header;
      left -= sizeof header;
      if (header.n_namesz > left || header.n_descsz > left)
        return 0;
      name_size = align_note (header.n_namesz);
      id_size = header.n_descsz;
      if (name_size > left || id_size > left - name_size)
        return 0;
      if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof "GNU"
          && memcmp (notes, "GNU", sizeof "GNU") == 0 && id_size <= SONDE_ELF_MAX_BUILD_ID)
        {
          memcpy (build_id, notes + name_size, id_size);
          return id_size;
        }
      if (align_note (id_size) > left - name_size)
        return 0;
      notes += name_size + align_note (id_size);
      left -= name_size + align_note (id_size);
    }
  return 0;
}

size_t
sonde_elf_file_read_build_id (const SondeElfFile *self, uint8_t build_id[SONDE_ELF_MAX_BUILD_ID])
{
  uint8_t notes[MAX_NOTE_BYTES];
  size_t found = 0;

  for (size_t i = 0; i < self->n_notes && found == 0; i++)
    {
      uint64_t size = self->notes[i].file_size_bytes;

      if (size > sizeof notes)
        size = sizeof notes;
      if (sonde_elf_file_read (self, self->notes[i].offset, notes, size) == 0)
        found = find_build_id (notes, size, build_id);
    }
  return found;
}
