/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/module-symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIN_PAGE_BYTES  4096u
#define MAX_MAPS_BYTES  (1u << 20)
#define MAX_SECTIONS    4096u
#define MAX_SEGMENTS    128u
#define MAX_TABLE_BYTES (256u << 20)
#define MAX_SYMBOLS     (4u << 20)
#define DELETED         " (deleted)"

/* --- mappings --- */

typedef struct
{
  SondeCodeMappingCallback callback;
  void *user_data;
  char text[PATH_MAX + 128]; /* a line */
  size_t n_bytes;
  bool is_over; /* the caller wants no more */
} MapsReader;

static const char *
take_hex (const char *at, uint64_t *number)
{
  *number = 0;
  for (;; at++)
    if (*at >= '0' && *at <= '9')
      *number = *number << 4 | (uint64_t) (*at - '0');
    else if (*at >= 'a' && *at <= 'f')
      *number = *number << 4 | (uint64_t) (*at - 'a' + 10);
    else
      return at;
}

/* "LO-HI rwxp OFFSET DEVICE INODE   PATH" */
static void
take_line (MapsReader *self, const char *line)
{
  SondeCodeMapping mapping;
  const char *at = take_hex (line, &mapping.lo);
  const char *end;
  bool is_code;

  if (*at != '-')
    return;
  at = take_hex (at + 1, &mapping.hi);
  if (strnlen (at, 6) < 6)
    return;
  is_code = at[3] == 'x';
  take_hex (at + 6, &mapping.offset);
  mapping.path = strchr (at, '/');
  if (!is_code || mapping.path == NULL || mapping.hi <= mapping.lo)
    return;
  end = mapping.path + strlen (mapping.path);
  if (end - mapping.path > (ptrdiff_t) strlen (DELETED)
      && strcmp (end - strlen (DELETED), DELETED) == 0)
    return;
  self->is_over = !self->callback (&mapping, self->user_data);
}

static void
take_maps (MapsReader *self, const char *bytes, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes && !self->is_over; i++)
    if (bytes[i] != '\n')
      {
        if (self->n_bytes < sizeof self->text - 1)
          self->text[self->n_bytes++] = bytes[i];
      }
    else
      {
        self->text[self->n_bytes] = '\0';
        self->n_bytes = 0;
        take_line (self, self->text);
      }
}

void
sonde_module_symbols_list (SondeCodeMappingCallback callback, void *user_data)
{
  MapsReader reader = { .callback = callback, .user_data = user_data };
  int saved_errno = errno;
  int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char bytes[1024];
  ssize_t n = 1;

  for (size_t n_read = 0; fd >= 0 && n > 0 && !reader.is_over && n_read < MAX_MAPS_BYTES;
       n_read += (size_t) n)
    {
      n = read (fd, bytes, sizeof bytes);
      if (n > 0)
        take_maps (&reader, bytes, (size_t) n);
    }
  if (fd >= 0)
    close (fd);
  errno = saved_errno;
}

/* --- symbols --- */

/* A part of a file, copied: whoever cuts the file short does not make the program fault. */
typedef struct
{
  void *bytes; /* NULL: there is none */
  size_t size_bytes;
} Copy;

static void
drop (Copy *self)
{
  if (self->bytes != NULL)
    munmap (self->bytes, self->size_bytes);
  self->bytes = NULL;
}

static Copy
copy_part (int fd, uint64_t offset, uint64_t size_bytes)
{
  Copy self = { .size_bytes = (size_t) size_bytes };
  size_t n_read = 0;
  ssize_t n = 1;

  if (size_bytes == 0 || size_bytes > MAX_TABLE_BYTES || offset > INT64_MAX - MAX_TABLE_BYTES)
    return (Copy){ 0 };
  self.bytes
      = mmap (NULL, self.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (self.bytes == MAP_FAILED)
    return (Copy){ 0 };
  while (n > 0 && n_read < self.size_bytes)
    {
      n = pread (fd, (char *) self.bytes + n_read, self.size_bytes - n_read,
                 (off_t) (offset + n_read));
      n_read += n > 0 ? (size_t) n : 0;
    }
  if (n_read < self.size_bytes)
    drop (&self);
  return self;
}

/* What to add to an address of the file to have the process's. */
static bool
find_bias (int fd, const ElfW (Ehdr) * header, const SondeCodeMapping *mapping, uint64_t *bias)
{
  Copy segments = { 0 };
  bool is_found = false;

  if (header->e_phentsize == sizeof (ElfW (Phdr)) && header->e_phnum <= MAX_SEGMENTS)
    segments = copy_part (fd, header->e_phoff, header->e_phnum * sizeof (ElfW (Phdr)));
  for (size_t i = 0; segments.bytes != NULL && i < header->e_phnum && !is_found; i++)
    {
      const ElfW (Phdr) *segment = (const ElfW (Phdr) *) segments.bytes + i;
      uint64_t begin = segment->p_offset - segment->p_offset % MIN_PAGE_BYTES;

      is_found = segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0
                 && mapping->offset >= begin
                 && mapping->offset < segment->p_offset + segment->p_filesz;
      if (is_found)
        *bias = mapping->lo - mapping->offset + segment->p_offset - segment->p_vaddr;
    }
  drop (&segments);
  return is_found;
}

/* Returns: NULL: there is neither */
static const ElfW (Shdr) * find_table (const ElfW (Shdr) * sections, size_t n_sections)
{
  const ElfW (Shdr) *found = NULL;

  for (size_t i = 0; i < n_sections; i++)
    if (sections[i].sh_entsize == sizeof (ElfW (Sym)) && sections[i].sh_link < n_sections
        && (sections[i].sh_type == SHT_SYMTAB
            || (sections[i].sh_type == SHT_DYNSYM && found == NULL)))
      found = &sections[i];
  return found;
}

static void
tell_symbols (const Copy *symbols,
              const Copy *strings,
              const SondeCodeMapping *mapping,
              uint64_t bias,
              SondeSymbolCallback callback,
              void *user_data)
{
  size_t n_symbols = symbols->size_bytes / sizeof (ElfW (Sym));
  const char *text = strings->bytes;

  for (size_t i = 0; i < n_symbols && i < MAX_SYMBOLS; i++)
    {
      const ElfW (Sym) *symbol = (const ElfW (Sym) *) symbols->bytes + i;
      uint64_t address = symbol->st_value + bias;

      if ((symbol->st_info & 0xf) == STT_FUNC && symbol->st_shndx != SHN_UNDEF
          && symbol->st_name < strings->size_bytes && address >= mapping->lo
          && address < mapping->hi)
        callback (text + symbol->st_name, address, symbol->st_size, user_data);
    }
}

static void
read_tables (int fd, const SondeCodeMapping *mapping, SondeSymbolCallback callback, void *user_data)
{
  Copy sections = { 0 }, symbols = { 0 }, strings = { 0 };
  const ElfW (Shdr) *table = NULL;
  ElfW (Ehdr) header;
  uint64_t bias;

  if (pread (fd, &header, sizeof header, 0) != sizeof header
      || memcmp (header.e_ident, ELFMAG, SELFMAG) != 0
      || header.e_ident[EI_CLASS] != (sizeof (void *) == 8 ? ELFCLASS64 : ELFCLASS32)
      || header.e_shentsize != sizeof (ElfW (Shdr)) || header.e_shnum > MAX_SECTIONS
      || !find_bias (fd, &header, mapping, &bias))
    return;
  sections = copy_part (fd, header.e_shoff, header.e_shnum * sizeof (ElfW (Shdr)));
  if (sections.bytes != NULL)
    table = find_table (sections.bytes, header.e_shnum);
  if (table != NULL)
    {
      const ElfW (Shdr) *names = (const ElfW (Shdr) *) sections.bytes + table->sh_link;

      symbols = copy_part (fd, table->sh_offset, table->sh_size);
      strings = copy_part (fd, names->sh_offset, names->sh_size);
    }
  if (symbols.bytes != NULL && strings.bytes != NULL)
    {
      ((char *) strings.bytes)[strings.size_bytes - 1] = '\0';
      tell_symbols (&symbols, &strings, mapping, bias, callback, user_data);
    }
  drop (&strings);
  drop (&symbols);
  drop (&sections);
}

/* Not of what waits to be opened, as a FIFO does. */
void
sonde_module_symbols_read (const SondeCodeMapping *mapping,
                           SondeSymbolCallback callback,
                           void *user_data)
{
  int saved_errno = errno;
  int fd = open (mapping->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status;

  if (fd >= 0 && fstat (fd, &status) == 0 && S_ISREG (status.st_mode))
    read_tables (fd, mapping, callback, user_data);
  if (fd >= 0)
    close (fd);
  errno = saved_errno;
}
