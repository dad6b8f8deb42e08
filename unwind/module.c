/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The unwind data of one mapped file. */
#include "unwind/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unwind/hash.h"
#include "unwind/module-private.h"

#define MAX_ENTRY_BYTES 256 /* the dynamic linker's entry code has about 80 */

static uint64_t
page_size (void)
{
  return (uint64_t) sysconf (_SC_PAGESIZE);
}

/* The page-aligned range of all PT_LOAD; none of them wraps around. */
static int
find_extent (SondeModule *self)
{
  uint64_t page = page_size ();
  uint64_t low = UINT64_MAX;
  uint64_t high = 0;

  for (size_t i = 0; i < self->n_loads; i++)
    {
      uint64_t end = self->loads[i].vaddr + self->loads[i].memory_size_bytes;

      if (self->loads[i].vaddr < low)
        low = self->loads[i].vaddr;
      if (end > high)
        high = end;
    }
  if (high > UINT64_MAX - page)
    return -EBADMSG;
  self->low = low & -page;
  self->high = (high + page - 1) & -page;
  return 0;
}

/* Without unwind data, or with useless data, there are still its names. */
static int
forgive (int error)
{
  return error == -ENODATA || error == -EFBIG || error == -EBADMSG ? 0 : error;
}

static void
take_build_id (SondeModule *self, const SondeElfFile *file)
{
  static const char digits[] = "0123456789abcdef";
  uint8_t id[SONDE_ELF_MAX_BUILD_ID];
  size_t size = sonde_elf_file_read_build_id (file, id);

  for (size_t i = 0; i < size; i++)
    {
      self->build_id[2 * i] = digits[id[i] >> 4];
      self->build_id[2 * i + 1] = digits[id[i] & 15];
    }
}

/* Takes the segments from @file. */
static int
take_headers (SondeModule *self, SondeElfFile *file)
{
  int r;

  self->entry = file->entry;
  self->is_32_bit = file->is_32_bit;
  take_build_id (self, file);
  self->loads = file->loads;
  self->n_loads = file->n_loads;
  file->loads = NULL;
  r = find_extent (self);
  if (r < 0)
    return r;
  file->loads = self->loads; /* lent: the builder locates sections through them */
  r = forgive (sonde_cfi_builder_new (file, self->low, &self->builder));
  file->loads = NULL;
  return r;
}

int
sonde_module_new (int fd, const uint8_t *memory, uint64_t size_bytes, SondeModule **module)
{
  SondeElfFile file
      = { .fd = memory != NULL ? -1 : fd, .memory = memory, .size_bytes = size_bytes };
  SondeModule *self;
  int r = sonde_elf_file_read_headers (&file);

  if (r < 0)
    return r;
  self = calloc (1, sizeof *self);
  if (self == NULL)
    {
      sonde_elf_file_clear (&file);
      return -ENOMEM;
    }

  self->n_refs = 1;
  self->fd = -1;
  r = take_headers (self, &file);
  sonde_elf_file_clear (&file);
  if (r < 0)
    {
      sonde_module_free (self);
      return r;
    }
  self->fd = fd;
  self->n_bytes = sizeof *self + self->n_loads * sizeof *self->loads;
  *module = self;
  return 0;
}

int
sonde_module_read (SondeModule *self, uint32_t *work)
{
  int r;

  if (self->builder == NULL)
    return 0;
  r = sonde_cfi_builder_run (self->builder, work, &self->cfi);
  if (r > 0)
    return r;
  sonde_cfi_builder_free (self->builder);
  self->builder = NULL;
  self->n_bytes += sonde_cfi_index_bytes (&self->cfi);
  return forgive (r);
}

/* The vdso has no size of its own: its section headers come last, and its segments hold the rest.
 */
static uint64_t
measure_vdso (const uint8_t *memory)
{
  const Elf64_Ehdr *header = (const void *) memory;
  uint64_t size = header->e_shoff + (uint64_t) header->e_shnum * header->e_shentsize;

  for (size_t i = 0; i < header->e_phnum; i++)
    {
      const Elf64_Phdr *segment = (const void *) (memory + header->e_phoff + i * sizeof *segment);

      if (segment->p_type == PT_LOAD && segment->p_offset + segment->p_filesz > size)
        size = segment->p_offset + segment->p_filesz;
    }
  return size;
}

/* For those who read its names: a copy, as the kernel maps it without a file. */
static int
copy_vdso (const uint8_t *memory, uint64_t size_bytes)
{
  int fd = memfd_create ("vdso", MFD_CLOEXEC);

  if (fd >= 0 && write (fd, memory, size_bytes) != (ssize_t) size_bytes)
    {
      close (fd);
      fd = -1;
    }
  return fd;
}

int
sonde_module_new_vdso (SondeModule **module)
{
  const uint8_t *memory = (const void *) getauxval (AT_SYSINFO_EHDR);
  uint32_t work = SONDE_MODULE_STORE_SLICE; /* a hundredth would do */
  SondeModule *self;
  int r;

  if (memory == NULL)
    return -ENOENT;
  r = sonde_module_new (-1, memory, measure_vdso (memory), &self);
  if (r < 0)
    return r;
  self->fd = copy_vdso (memory, measure_vdso (memory));
  r = sonde_module_read (self, &work);
  if (r != 0)
    {
      sonde_module_free (self);
      return r < 0 ? r : -EFBIG;
    }
  *module = self;
  return 0;
}

void
sonde_module_free (SondeModule *self)
{
  if (self == NULL)
    return;
  if (self->end_elf != NULL)
    self->end_elf (self);
  sonde_cfi_builder_free (self->builder);
  sonde_cfi_index_clear (&self->cfi);
  free (self->loads);
  if (self->fd >= 0)
    close (self->fd);
  free (self);
}

SondeModule *
sonde_module_ref (SondeModule *self)
{
  self->n_refs++;
  return self;
}

void
sonde_module_unref (SondeModule *self)
{
  if (self == NULL)
    return;
  self->n_refs--;
  if (self->n_refs == 0)
    sonde_module_free (self);
  else if (self->n_refs == 1 && self->store != NULL)
    sonde_module_store_set_idle (self->store, self);
}

uint32_t
sonde_module_id (const SondeModule *self)
{
  return self->id;
}

int
sonde_module_fd (const SondeModule *self)
{
  return self->fd;
}

size_t
sonde_module_max_fds (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 > SONDE_MODULE_MAX_FDS)
    return SONDE_MODULE_MAX_FDS;
  return limit.rlim_cur / 4;
}

/* A mapping begins at a page, a segment anywhere in one. */
static bool
holds_offset (const SondeElfSegment *load, uint64_t file_offset, uint64_t page)
{
  uint64_t begin = load->offset & -page;

  return file_offset >= begin && file_offset < load->offset + load->file_size_bytes;
}

bool
sonde_module_bias (const SondeModule *self, uint64_t start, uint64_t file_offset, uint64_t *bias)
{
  const SondeElfSegment *found = NULL;
  uint64_t page = page_size ();

  /* Two segments may share a page of the file. The mappings we hear of are executable, so the
   * executable segment is meant, and that which begins in this page rather than one that ends
   * there. */
  for (size_t i = 0; i < self->n_loads; i++)
    {
      const SondeElfSegment *load = &self->loads[i];

      if (!holds_offset (load, file_offset, page))
        continue;
      if (found == NULL || load->executable > found->executable
          || (load->executable == found->executable && load->offset > found->offset))
        found = load;
    }
  if (found == NULL)
    return false;
  *bias = start - file_offset + found->offset - found->vaddr;
  return true;
}

const char *
sonde_module_build_id (const SondeModule *self)
{
  return self->build_id;
}

bool
sonde_module_is_32_bit (const SondeModule *self)
{
  return self->is_32_bit;
}

void
sonde_module_extent (const SondeModule *self, uint64_t *low, uint64_t *high)
{
  *low = self->low;
  *high = self->high;
}

bool
sonde_module_find_cfi (const SondeModule *self,
                       uint64_t vaddr,
                       const SondeCfiSection **section,
                       SondeCfiCie *cie,
                       SondeCfiFde *fde)
{
  *section = &self->cfi.section;
  return sonde_cfi_index_find (&self->cfi, vaddr, fde, cie);
}

bool
sonde_module_find_function (const SondeModule *self, uint64_t vaddr, uint64_t *begin, uint64_t *end)
{
  SondeCfiFde fde;
  SondeCfiCie cie;

  if (!sonde_cfi_index_find (&self->cfi, vaddr, &fde, &cie))
    return false;
  *begin = fde.begin;
  *end = fde.end;
  return true;
}

bool
sonde_module_is_entry (const SondeModule *self, uint64_t vaddr)
{
  uint64_t begin;
  uint64_t end;

  return self->entry != 0 && vaddr >= self->entry && vaddr - self->entry < MAX_ENTRY_BYTES
         && !sonde_module_find_function (self, vaddr, &begin, &end)
         && !sonde_cfi_index_has_function_in (&self->cfi, self->entry, vaddr + 1);
}

bool
sonde_module_has_bare_entry (const SondeModule *self)
{
  return sonde_module_is_entry (self, self->entry);
}

/* The generation is left out, since it may be unknown on one side. */
uint64_t
sonde_file_id_hash (const SondeFileId *id)
{
  uint64_t words[] = { id->inode, (uint64_t) id->dev_major << 32 | id->dev_minor };

  return sonde_hash_bytes (words, sizeof words);
}
