/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unwind/module-private.h"

#define MAX_ENTRY_BYTES 256  /* the dynamic linker's entry code has about 80 */
#define MAX_SECTIONS    4096 /* more would take too long to search: as if the file had none */

/* Without unwind data, or with useless data, there are still its names. */
static int
forgive (int error)
{
  return error == -ENODATA || error == -EFBIG || error == -EBADMSG ? 0 : error;
}

/* Takes the segments from @file. Of a file without sections the segments tell all. */
static int
take_headers (SondeUnwindModule *self, SondeElfFile *file)
{
  static const char digits[] = "0123456789abcdef";
  const uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
  uint64_t low = UINT64_MAX;
  uint64_t high = 0;
  uint8_t id[SONDE_ELF_MAX_BUILD_ID];
  size_t id_bytes;
  int r = sonde_elf_file_read_sections (file);

  if (r == -ENOMEM)
    return r;
  if (file->n_sections > MAX_SECTIONS)
    file->n_sections = 0;
  self->entry = file->header.e_entry;
  self->is_32_bit = file->is_32_bit;
  id_bytes = sonde_elf_file_read_build_id (file, id);
  for (size_t i = 0; i < id_bytes; i++)
    {
      self->build_id[2 * i] = digits[id[i] >> 4];
      self->build_id[2 * i + 1] = digits[id[i] & 15];
    }
  self->loads = file->loads;
  self->n_loads = file->n_loads;
  file->loads = NULL;

  /* the page-aligned range of all PT_LOAD, none of which wraps around */
  for (size_t i = 0; i < self->n_loads; i++)
    {
      uint64_t end = self->loads[i].vaddr + self->loads[i].memory_size_bytes;

      low = self->loads[i].vaddr < low ? self->loads[i].vaddr : low;
      high = end > high ? end : high;
    }
  if (high > UINT64_MAX - page)
    return -EBADMSG;
  self->low = low & -page;
  self->high = (high + page - 1) & -page;

  file->loads = self->loads; /* lent: the builder locates sections through them */
  r = forgive (sonde_cfi_builder_new (file, self->low, &self->builder));
  file->loads = NULL;
  sonde_go_functions_find (&self->go, file);
  return r;
}

int
sonde_module_new (int fd, const uint8_t *memory, uint64_t size_bytes, SondeUnwindModule **module)
{
  SondeElfFile file
      = { .fd = memory != NULL ? -1 : fd, .memory = memory, .size_bytes = size_bytes };
  SondeUnwindModule *self = NULL;
  int r = sonde_elf_file_read_header (&file);

  if (r == 0 && !sonde_elf_file_runs_here (&file))
    r = -ENOEXEC;
  if (r == 0)
    r = sonde_elf_file_read_segments (&file);
  if (r == 0 && file.n_loads == 0)
    r = -EBADMSG;
  if (r == 0)
    {
      self = calloc (1, sizeof *self);
      r = self != NULL ? 0 : -ENOMEM;
    }
  if (r == 0)
    {
      self->n_refs = 1;
      self->fd = -1;
      r = take_headers (self, &file);
    }
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
sonde_module_read (SondeUnwindModule *self, uint32_t *work)
{
  size_t cfi_bytes;
  int r;

  if (self->builder != NULL)
    {
      r = sonde_cfi_builder_run (self->builder, work, &self->cfi);
      if (r > 0)
        return r;
      sonde_cfi_builder_free (self->builder);
      self->builder = NULL;
      self->n_bytes += sonde_cfi_index_bytes (&self->cfi);
      if (forgive (r) < 0)
        return r;
    }
  if (self->go.at == self->go.size_bytes)
    return 0;
  cfi_bytes = sonde_cfi_index_bytes (&self->cfi);
  r = sonde_go_functions_read (
      &self->go, cfi_bytes < SONDE_MODULE_MAX_BYTES ? SONDE_MODULE_MAX_BYTES - cfi_bytes : 0, work);
  if (r == 0)
    self->n_bytes += self->go.size_bytes;
  return r;
}

bool
sonde_module_discard (SondeUnwindModule *self, uint32_t *work)
{
  return sonde_cfi_index_discard (&self->cfi, work) && sonde_go_functions_discard (&self->go, work);
}

size_t
sonde_module_drop_go_functions (SondeUnwindModule *self)
{
  const size_t n_bytes = self->go.size_bytes;

  sonde_go_functions_clear (&self->go);
  self->n_bytes -= n_bytes;
  return n_bytes;
}

int
sonde_module_new_vdso (SondeUnwindModule **module)
{
  uint64_t size_bytes;
  const uint8_t *memory = sonde_elf_find_vdso (&size_bytes);
  uint32_t work = SONDE_MODULE_STORE_SLICE; /* a hundredth would do */
  SondeUnwindModule *self;
  int r;

  if (memory == NULL)
    return -ENOENT;
  r = sonde_module_new (-1, memory, size_bytes, &self);
  if (r < 0)
    return r;
  self->fd = sonde_elf_copy_vdso (); /* for those who read its names; below 0: none */
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
sonde_module_free (SondeUnwindModule *self)
{
  if (self == NULL)
    return;
  if (self->end_elf != NULL)
    self->end_elf (self);
  sonde_cfi_builder_free (self->builder);
  sonde_cfi_index_clear (&self->cfi);
  sonde_go_functions_clear (&self->go);
  free (self->loads);
  if (self->fd >= 0)
    close (self->fd);
  free (self);
}

SondeUnwindModule *
sonde_module_ref (SondeUnwindModule *self)
{
  self->n_refs++;
  return self;
}

void
sonde_module_unref (SondeUnwindModule *self)
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
sonde_module_id (const SondeUnwindModule *self)
{
  return self->id;
}

int
sonde_module_fd (const SondeUnwindModule *self)
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

bool
sonde_module_bias (const SondeUnwindModule *self,
                   uint64_t start,
                   uint64_t file_offset,
                   uint64_t *bias)
{
  uint64_t vaddr;

  if (!sonde_elf_vaddr (self->loads, self->n_loads, file_offset, &vaddr))
    return false;
  *bias = start - vaddr;
  return true;
}

const char *
sonde_module_build_id (const SondeUnwindModule *self)
{
  return self->build_id;
}

bool
sonde_module_is_32_bit (const SondeUnwindModule *self)
{
  return self->is_32_bit;
}

void
sonde_module_extent (const SondeUnwindModule *self, uint64_t *low, uint64_t *high)
{
  *low = self->low;
  *high = self->high;
}

bool
sonde_module_find_cfi (const SondeUnwindModule *self,
                       uint64_t vaddr,
                       const SondeCfiSection **section,
                       SondeCfiCie *cie,
                       SondeCfiFde *fde)
{
  *section = &self->cfi.section;
  return sonde_cfi_index_find (&self->cfi, vaddr, fde, cie);
}

const SondeGoFunctions *
sonde_module_go_functions (const SondeUnwindModule *self)
{
  return &self->go;
}

bool
sonde_module_find_function (const SondeUnwindModule *self,
                            uint64_t vaddr,
                            uint64_t *begin,
                            uint64_t *end)
{
  SondeCfiFde fde;
  SondeCfiCie cie;

  if (!sonde_cfi_index_find (&self->cfi, vaddr, &fde, &cie))
    return sonde_go_functions_range (&self->go, vaddr, begin, end);
  *begin = fde.begin;
  *end = fde.end;
  return true;
}

bool
sonde_module_find_part (const SondeUnwindModule *self,
                        uint64_t vaddr,
                        uint64_t *begin,
                        uint64_t *end)
{
  SondeCfiFde fde;
  SondeCfiCie cie;

  if (!sonde_cfi_index_find_part (&self->cfi, vaddr, &fde, &cie))
    return false;
  *begin = fde.begin;
  *end = fde.end;
  return true;
}

bool
sonde_module_is_entry (const SondeUnwindModule *self, uint64_t vaddr)
{
  uint64_t begin;
  uint64_t end;

  return self->entry != 0 && vaddr >= self->entry && vaddr - self->entry < MAX_ENTRY_BYTES
         && !sonde_module_find_function (self, vaddr, &begin, &end)
         && !sonde_cfi_index_has_function_in (&self->cfi, self->entry, vaddr + 1);
}

bool
sonde_module_has_bare_entry (const SondeUnwindModule *self)
{
  return sonde_module_is_entry (self, self->entry);
}
