/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/loaded-cfi.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "unwind/cfi-encoding.h"

/* Not in every libc. */
#pragma weak _dl_find_object

#define HEADER_VERSION      1
#define ROW_BYTES           8
#define MAX_PROGRAM_HEADERS 256

/* How every linker of today writes its table. */
#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

typedef struct
{
  uint8_t version;
  uint8_t eh_frame_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
} Preamble;

/* The end of the segment that holds @address; NULL if the module's headers are not where they
 * should be. */
static const uint8_t *
find_segment_end (const struct dl_find_object *module, const uint8_t *address)
{
  const ElfW (Ehdr) *elf = module->dlfo_map_start;
  const uint8_t *begin = module->dlfo_map_start;
  const uint8_t *end = module->dlfo_map_end;
  const ElfW (Phdr) * segments;

  if ((size_t) (end - begin) < sizeof *elf || memcmp (elf->e_ident, ELFMAG, SELFMAG) != 0
      || elf->e_phentsize != sizeof *segments || elf->e_phnum > MAX_PROGRAM_HEADERS
      || elf->e_phoff > 4096 || elf->e_phoff % sizeof (ElfW (Addr)) != 0)
    return NULL;

  segments = (const void *) (begin + elf->e_phoff);
  for (size_t i = 0; i < elf->e_phnum; i++)
    {
      uint64_t at = module->dlfo_link_map->l_addr + segments[i].p_vaddr;

      if (segments[i].p_type == PT_LOAD && (uintptr_t) address - at < segments[i].p_filesz)
        return address + (at + segments[i].p_filesz - (uintptr_t) address);
    }
  return NULL;
}

/* The table behind the preamble: the place of .eh_frame, the number of rows, the rows. */
static bool
read_header (SondeLoadedCfi *self, const uint8_t *end, uint64_t *eh_frame)
{
  SondeCfiCursor cursor = { self->header, end };
  uint64_t header = (uintptr_t) self->header;
  uint64_t n_rows;
  Preamble preamble;

  if ((size_t) (end - self->header) < sizeof preamble)
    return false;
  memcpy (&preamble, self->header, sizeof preamble);
  sonde_cfi_skip (&cursor, sizeof preamble);
  if (preamble.version != HEADER_VERSION || preamble.table_encoding != TABLE_ENCODING
      || !sonde_cfi_read_encoded (&cursor, preamble.eh_frame_encoding, false, (uintptr_t) cursor.at,
                                  header, eh_frame)
      || !sonde_cfi_read_encoded (&cursor, preamble.count_encoding, false, (uintptr_t) cursor.at,
                                  header, &n_rows))
    return false;
  self->rows = cursor.at;
  self->n_rows = n_rows;
  return n_rows <= (size_t) (end - cursor.at) / ROW_BYTES;
}

bool
sonde_loaded_cfi_find_module (uint64_t address, SondeLoadedCfi *self)
{
  struct dl_find_object module;
  const uint8_t *bytes;
  const uint8_t *end;
  uint64_t eh_frame;

  if (_dl_find_object == NULL || _dl_find_object ((void *) (uintptr_t) address, &module) != 0
      || module.dlfo_eh_frame == NULL)
    return false;
  self->header = module.dlfo_eh_frame;
  end = find_segment_end (&module, self->header);
  if (end == NULL || !read_header (self, end, &eh_frame))
    return false;

  bytes = (const uint8_t *) (uintptr_t) eh_frame;
  end = find_segment_end (&module, bytes);
  if (end == NULL)
    return false;
  self->section = (SondeCfiSection){
    .bytes = bytes,
    .size_bytes = (size_t) (end - bytes),
    .vaddr = eh_frame,
  };
  return true;
}

static int32_t
read_word (const uint8_t *at)
{
  int32_t word;

  memcpy (&word, at, sizeof word);
  return word;
}

bool
sonde_loaded_cfi_find_function (const SondeLoadedCfi *self,
                                uint64_t address,
                                SondeCfiCie *cie,
                                SondeCfiFde *fde)
{
  int64_t wanted = (int64_t) (address - (uintptr_t) self->header);
  SondeCfiEntry entry;
  size_t low = 0;
  size_t high = self->n_rows;
  uint64_t offset;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (read_word (self->rows + middle * ROW_BYTES) <= wanted)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == 0)
    return false;

  offset = (uintptr_t) self->header - self->section.vaddr
           + (uint64_t) (int64_t) read_word (self->rows + (low - 1) * ROW_BYTES + ROW_BYTES / 2);
  return offset < self->section.size_bytes
         && sonde_cfi_read_entry (&self->section, offset, &entry) == 1 && !entry.is_cie
         && sonde_cfi_read_cie (&self->section, entry.cie_offset, cie)
         && sonde_cfi_read_fde (&self->section, &entry, cie, fde) && address >= fde->begin
         && address < fde->end;
}
