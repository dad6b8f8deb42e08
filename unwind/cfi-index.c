/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/cfi-index.h"

#include <dwarf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum
{
  WORK_PER_PAGE = 12,
  MAX_FREE_BYTES = 1 << 18, /* at once */
};

static void
charge (uint32_t *work, uint64_t n_pages)
{
  uint64_t cost = n_pages * WORK_PER_PAGE;

  *work -= *work < cost ? *work : (uint32_t) cost;
}

bool
sonde_cfi_discard (void *block, size_t keep_bytes, size_t *size_bytes, uint32_t *work)
{
  const uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t) block + keep_bytes + page - 1) & -page;
  uintptr_t end = ((uintptr_t) block + *size_bytes) & -page;
  uintptr_t wanted = (*work / WORK_PER_PAGE + 1) * page; /* one at least, so that it ends */

  if (block == NULL || end < begin)
    return true;
  if (end - begin > MAX_FREE_BYTES)
    {
      if (wanted > end - begin)
        wanted = end - begin;
      end -= wanted;
      madvise ((uint8_t *) block + (end - (uintptr_t) block), wanted, MADV_DONTNEED);
      *size_bytes = end - (uintptr_t) block;
      charge (work, wanted / page);
      if (end - begin > MAX_FREE_BYTES)
        return false;
    }
  charge (work, (end - begin) / page);
  return true;
}

bool
sonde_cfi_index_discard (SondeCfiIndex *self, uint32_t *work)
{
  size_t rows_bytes = self->n_rows * sizeof *self->rows;
  bool done = sonde_cfi_discard (self->image, 0, &self->image_size_bytes, work)
              && sonde_cfi_discard (self->rows, 0, &rows_bytes, work);

  self->n_rows = rows_bytes / sizeof *self->rows;
  return done;
}

void
sonde_cfi_index_clear (SondeCfiIndex *self)
{
  free (self->image);
  free (self->rows);
  *self = (SondeCfiIndex){ 0 };
}

size_t
sonde_cfi_index_bytes (const SondeCfiIndex *self)
{
  return self->image_size_bytes + self->n_rows * sizeof *self->rows;
}

/* How many rows begin at or before @begin. */
static size_t
count_rows_up_to (const SondeCfiIndex *self, int64_t begin)
{
  size_t low = 0;
  size_t high = self->n_rows;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (self->rows[middle].begin <= begin)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

bool
sonde_cfi_index_read (const SondeCfiIndex *self,
                      const SondeCfiIndexRow *row,
                      SondeCfiFde *fde,
                      SondeCfiCie *cie)
{
  SondeCfiEntry entry;

  return sonde_cfi_read_entry (&self->section, row->fde, &entry) == 1 && !entry.is_cie
         && sonde_cfi_read_cie (&self->section, entry.cie_offset, cie)
         && sonde_cfi_read_fde (&self->section, &entry, cie, fde);
}

bool
sonde_cfi_index_find (const SondeCfiIndex *self, uint64_t vaddr, SondeCfiFde *fde, SondeCfiCie *cie)
{
  size_t n = count_rows_up_to (self, (int64_t) (vaddr - self->section.vaddr));

  return n > 0 && sonde_cfi_index_read (self, &self->rows[n - 1], fde, cie) && vaddr >= fde->begin
         && vaddr < fde->end;
}

/* Whether the first thing that is said of the CFA holds from the first byte on. */
static bool
begins_in_a_frame (const SondeCfiFde *fde)
{
  SondeCfiCursor cursor = fde->instructions;
  uint8_t opcode;

  return sonde_cfi_read_u8 (&cursor, &opcode)
         && (opcode == DW_CFA_def_cfa || opcode == DW_CFA_def_cfa_register
             || opcode == DW_CFA_def_cfa_offset || opcode == DW_CFA_def_cfa_expression);
}

bool
sonde_cfi_index_find_part (const SondeCfiIndex *self,
                           uint64_t vaddr,
                           SondeCfiFde *fde,
                           SondeCfiCie *cie)
{
  SondeCfiEntry entry;

  if (!sonde_cfi_index_find (self, vaddr, fde, cie)
      || sonde_cfi_read_entry (&self->section, fde->offset, &entry) != 1
      || sonde_cfi_read_entry (&self->section, entry.next, &entry) != 1)
    return false;
  /* A CIE may stand between them. */
  if (entry.is_cie && sonde_cfi_read_entry (&self->section, entry.next, &entry) != 1)
    return false;
  return !entry.is_cie && sonde_cfi_read_cie (&self->section, entry.cie_offset, cie)
         && sonde_cfi_read_fde (&self->section, &entry, cie, fde) && begins_in_a_frame (fde);
}

bool
sonde_cfi_index_has_function_in (const SondeCfiIndex *self, uint64_t begin, uint64_t end)
{
  return count_rows_up_to (self, (int64_t) (end - 1 - self->section.vaddr))
         > count_rows_up_to (self, (int64_t) (begin - 1 - self->section.vaddr));
}
