/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/elf-file.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NATIVE_DATA (__BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB)

enum
{
  HEADERS_PER_READ = 64,
  MAX_NOTE_BYTES = 1024,     /* of a segment; what lies behind is not looked at */
  MAX_VDSO_BYTES = 64 << 10, /* what is looked at of it */
};

bool
sonde_elf_file_holds (const SondeElfFile *self, uint64_t offset, uint64_t size_bytes)
{
  return offset <= self->size_bytes && size_bytes <= self->size_bytes - offset;
}

int
sonde_elf_file_read (const SondeElfFile *self, uint64_t offset, void *buffer, size_t size_bytes)
{
  uint8_t *at = buffer;

  if (!sonde_elf_file_holds (self, offset, size_bytes))
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
int
sonde_elf_file_read_header (SondeElfFile *self)
{
  Elf64_Ehdr *header = &self->header;
  const unsigned char *ident = header->e_ident;
  int r = sonde_elf_file_read (self, 0, header, sizeof *header);

  if (r < 0)
    return r == -EBADMSG ? -ENOEXEC : r;
  if (memcmp (ident, ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != NATIVE_DATA
      || (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64))
    return -ENOEXEC;
  self->is_32_bit = ident[EI_CLASS] == ELFCLASS32;
  if (self->is_32_bit)
    widen_header (header);
  return 0;
}

bool
sonde_elf_file_runs_here (const SondeElfFile *self)
{
  const Elf64_Ehdr *header = &self->header;
  uint16_t machine = SONDE_ELF_NATIVE_MACHINE;

  if (self->is_32_bit)
    machine = SONDE_ELF_NATIVE_MACHINE == EM_X86_64 ? EM_386 : EM_NONE;
  return machine != EM_NONE && header->e_machine == machine
         && (header->e_type == ET_EXEC || header->e_type == ET_DYN);
}

static size_t
program_header_bytes (const SondeElfFile *self)
{
  return self->is_32_bit ? sizeof (Elf32_Phdr) : sizeof (Elf64_Phdr);
}

static size_t
section_header_bytes (const SondeElfFile *self)
{
  return self->is_32_bit ? sizeof (Elf32_Shdr) : sizeof (Elf64_Shdr);
}

/* Narrow headers are widened where they were read, the last one first. */
static int
read_program_headers (const SondeElfFile *self, size_t first, Elf64_Phdr *headers, size_t n)
{
  size_t size = program_header_bytes (self);
  Elf32_Phdr narrow;
  int r = sonde_elf_file_read (self, self->header.e_phoff + first * size, headers, n * size);

  for (size_t i = n; self->is_32_bit && i-- > 0 && r == 0;)
    {
      memcpy (&narrow, (const uint8_t *) headers + i * sizeof narrow, sizeof narrow);
      headers[i] = (Elf64_Phdr){
        .p_type = narrow.p_type,
        .p_flags = narrow.p_flags,
        .p_offset = narrow.p_offset,
        .p_vaddr = narrow.p_vaddr,
        .p_filesz = narrow.p_filesz,
        .p_memsz = narrow.p_memsz,
      };
    }
  return r;
}

int
sonde_elf_file_read_section_headers (const SondeElfFile *self,
                                     size_t first,
                                     Elf64_Shdr *sections,
                                     size_t n)
{
  size_t size = section_header_bytes (self);
  Elf32_Shdr narrow;
  int r = sonde_elf_file_read (self, self->header.e_shoff + first * size, sections, n * size);

  for (size_t i = n; self->is_32_bit && i-- > 0 && r == 0;)
    {
      memcpy (&narrow, (const uint8_t *) sections + i * sizeof narrow, sizeof narrow);
      sections[i] = (Elf64_Shdr){
        .sh_name = narrow.sh_name,
        .sh_type = narrow.sh_type,
        .sh_flags = narrow.sh_flags,
        .sh_addr = narrow.sh_addr,
        .sh_offset = narrow.sh_offset,
        .sh_size = narrow.sh_size,
        .sh_link = narrow.sh_link,
        .sh_info = narrow.sh_info,
        .sh_entsize = narrow.sh_entsize,
      };
    }
  return r;
}

int
sonde_elf_file_read_segments (SondeElfFile *self)
{
  const Elf64_Ehdr *header = &self->header;
  Elf64_Phdr chunk[HEADERS_PER_READ];

  if (header->e_phnum == 0)
    return 0;
  if (header->e_phentsize != program_header_bytes (self)
      || header->e_phnum > SONDE_ELF_MAX_SEGMENTS)
    return -EBADMSG;
  self->loads = calloc (header->e_phnum, sizeof *self->loads);
  if (self->loads == NULL)
    return -ENOMEM;

  for (size_t done = 0; done < header->e_phnum; done += HEADERS_PER_READ)
    {
      size_t left = header->e_phnum - done;
      size_t n = left < HEADERS_PER_READ ? left : HEADERS_PER_READ;
      int r = read_program_headers (self, done, chunk, n);

      if (r < 0)
        return r;
      for (size_t i = 0; i < n; i++)
        {
          const Elf64_Phdr *from = &chunk[i];
          SondeElfSegment segment = {
            .vaddr = from->p_vaddr,
            .memory_size_bytes = from->p_memsz,
            .offset = from->p_offset,
            .file_size_bytes = from->p_filesz,
            .executable = (from->p_flags & PF_X) != 0,
          };

          if (from->p_vaddr + from->p_memsz < from->p_vaddr
              || from->p_offset + from->p_filesz < from->p_offset)
            continue;
          if (from->p_type == PT_LOAD && from->p_filesz <= from->p_memsz && from->p_memsz > 0)
            self->loads[self->n_loads++] = segment;
          else if (from->p_type == PT_GNU_EH_FRAME)
            self->eh_frame_hdr = segment;
          else if (from->p_type == PT_NOTE && self->n_notes < SONDE_ELF_MAX_NOTES)
            self->notes[self->n_notes++] = segment;
        }
    }
  return 0;
}

/* Where a number has no place in the header, it is in the first section. */
int
sonde_elf_file_read_sections (SondeElfFile *self)
{
  const Elf64_Ehdr *header = &self->header;
  uint64_t n_sections = header->e_shnum;
  size_t names = header->e_shstrndx;
  Elf64_Shdr first, table;
  size_t size;
  int r;

  if (header->e_shoff == 0)
    return 0;
  if (header->e_shentsize != section_header_bytes (self))
    return -EBADMSG;
  if (n_sections == 0 || names == SHN_XINDEX)
    {
      r = sonde_elf_file_read_section_headers (self, 0, &first, 1);
      if (r < 0)
        return r;
      n_sections = n_sections == 0 ? first.sh_size : n_sections;
      names = names == SHN_XINDEX ? first.sh_link : names;
    }
  if (n_sections > SONDE_ELF_MAX_SECTIONS
      || !sonde_elf_file_holds (self, header->e_shoff, n_sections * section_header_bytes (self)))
    return -EBADMSG;
  self->n_sections = n_sections;

  /* All names at once, as a file may have thousands of sections. They are optional: what cannot be
   * read has none. */
  if (names >= n_sections || sonde_elf_file_read_section_headers (self, names, &table, 1) < 0
      || table.sh_type != SHT_STRTAB || table.sh_offset > self->size_bytes)
    return 0;
  size = table.sh_size < SONDE_ELF_MAX_NAME_BYTES ? table.sh_size : SONDE_ELF_MAX_NAME_BYTES;
  if (size > self->size_bytes - table.sh_offset)
    size = self->size_bytes - table.sh_offset;
  self->names = malloc (size + 1);
  if (self->names == NULL)
    return -ENOMEM;
  if (sonde_elf_file_read (self, table.sh_offset, self->names, size) == 0)
    self->names_size_bytes = size;
  return 0;
}

int
sonde_elf_file_load (SondeElfFile *self, int fd)
{
  struct stat st;
  int r;

  *self = (SondeElfFile){ .fd = fd };
  if (fstat (fd, &st) < 0)
    return -errno;
  self->size_bytes = st.st_size > 0 ? (uint64_t) st.st_size : 0;
  r = sonde_elf_file_read_header (self);
  if (r == 0)
    r = sonde_elf_file_read_segments (self);
  return r == 0 ? sonde_elf_file_read_sections (self) : r;
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

bool
sonde_elf_file_find_section (const SondeElfFile *self,
                             const char *name,
                             uint32_t type,
                             Elf64_Shdr *section)
{
  const size_t name_bytes = strlen (name) + 1;
  Elf64_Shdr chunk[HEADERS_PER_READ];

  for (size_t done = 0; done < self->n_sections; done += HEADERS_PER_READ)
    {
      size_t left = self->n_sections - done;
      size_t n = left < HEADERS_PER_READ ? left : HEADERS_PER_READ;

      if (sonde_elf_file_read_section_headers (self, done, chunk, n) < 0)
        return false;
      for (size_t i = 0; i < n; i++)
        if (chunk[i].sh_type == type
            && sonde_elf_file_holds (self, chunk[i].sh_offset, chunk[i].sh_size)
            && chunk[i].sh_name <= self->names_size_bytes
            && name_bytes <= self->names_size_bytes - chunk[i].sh_name
            && memcmp (self->names + chunk[i].sh_name, name, name_bytes) == 0)
          {
            *section = chunk[i];
            return true;
          }
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

static size_t
read_build_id_at (const SondeElfFile *self,
                  uint64_t offset,
                  uint64_t size_bytes,
                  uint8_t build_id[SONDE_ELF_MAX_BUILD_ID])
{
  uint8_t notes[MAX_NOTE_BYTES];

  if (size_bytes > sizeof notes)
    size_bytes = sizeof notes;
  if (sonde_elf_file_read (self, offset, notes, size_bytes) < 0)
    return 0;
  return find_build_id (notes, size_bytes, build_id);
}

/* A debug file has program headers that need not fit it: of them, at most what is a note counts. */
size_t
sonde_elf_file_read_build_id (const SondeElfFile *self, uint8_t build_id[SONDE_ELF_MAX_BUILD_ID])
{
  Elf64_Shdr section;
  size_t found = 0;

  for (size_t i = 0; i < self->n_notes && found == 0; i++)
    found
        = read_build_id_at (self, self->notes[i].offset, self->notes[i].file_size_bytes, build_id);
  if (found == 0 && sonde_elf_file_find_section (self, ".note.gnu.build-id", SHT_NOTE, &section))
    found = read_build_id_at (self, section.sh_offset, section.sh_size, build_id);
  return found;
}

/* Two segments may share a page of the file. The mappings we hear of are executable, so the
 * executable segment is meant, and that which begins in this page rather than one that ends
 * there. */
bool
sonde_elf_vaddr (const SondeElfSegment *loads,
                 size_t n_loads,
                 uint64_t file_offset,
                 uint64_t *vaddr)
{
  uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
  const SondeElfSegment *found = NULL;

  for (size_t i = 0; i < n_loads; i++)
    {
      const SondeElfSegment *load = &loads[i];

      /* A mapping begins at a page, a segment anywhere in one. */
      if (file_offset < (load->offset & -page)
          || file_offset >= load->offset + load->file_size_bytes)
        continue;
      if (found == NULL || load->executable > found->executable
          || (load->executable == found->executable && load->offset > found->offset))
        found = load;
    }
  if (found == NULL)
    return false;
  *vaddr = file_offset - found->offset + found->vaddr;
  return true;
}

bool
sonde_elf_code_vaddr (const SondeElfSegment *loads,
                      size_t n_loads,
                      uint64_t size_bytes,
                      uint64_t distance,
                      uint64_t *vaddr)
{
  uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
  const SondeElfSegment *code = NULL;
  uint64_t begin, end;

  for (size_t i = 0; i < n_loads; i++)
    {
      if (!loads[i].executable)
        continue;
      if (code != NULL)
        return false;
      code = &loads[i];
    }
  if (code == NULL || code->vaddr > UINT64_MAX - page
      || code->memory_size_bytes > UINT64_MAX - page - code->vaddr)
    return false;
  begin = code->vaddr & -page;
  end = (code->vaddr + code->memory_size_bytes + page - 1) & -page;
  if (end - begin != size_bytes || distance >= size_bytes)
    return false;
  *vaddr = begin + distance;
  return true;
}

const uint8_t *
sonde_elf_find_vdso (uint64_t *size_bytes)
{
  SondeElfFile vdso = { .fd = -1,
                        .memory = (const void *) getauxval (AT_SYSINFO_EHDR),
                        .size_bytes = MAX_VDSO_BYTES };
  uint64_t size;

  if (vdso.memory == NULL || sonde_elf_file_read_header (&vdso) < 0
      || sonde_elf_file_read_segments (&vdso) < 0)
    {
      sonde_elf_file_clear (&vdso);
      return NULL;
    }
  /* It has no size of its own: its section headers come last, and its segments hold the rest. */
  size = vdso.header.e_shoff + (uint64_t) vdso.header.e_shnum * vdso.header.e_shentsize;
  for (size_t i = 0; i < vdso.n_loads; i++)
    if (vdso.loads[i].offset + vdso.loads[i].file_size_bytes > size)
      size = vdso.loads[i].offset + vdso.loads[i].file_size_bytes;
  sonde_elf_file_clear (&vdso);
  *size_bytes = size;
  return vdso.memory;
}

int
sonde_elf_copy_vdso (void)
{
  uint64_t size_bytes;
  const uint8_t *memory = sonde_elf_find_vdso (&size_bytes);
  ssize_t n_written;
  int fd, r;

  if (memory == NULL)
    return -ENOENT;
  fd = memfd_create ("vdso", MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  n_written = write (fd, memory, size_bytes);
  if (n_written == (ssize_t) size_bytes)
    return fd;
  r = n_written < 0 ? -errno : -EIO;
  close (fd);
  return r;
}
