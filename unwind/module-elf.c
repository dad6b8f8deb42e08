/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes an ELF image of a module's unwind data for libdw; nothing else of a module needs libelf. */
#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf-file.h"
#include "unwind/cfi-check.h"
#include "unwind/cfi-encoding.h"
#include "unwind/cfi-index.h"
#include "unwind/module-private.h"

/* The image: ELF header | PT_LOAD, PT_GNU_EH_FRAME | .eh_frame, zero bytes | .eh_frame_hdr
 *
 * The bytes of .eh_frame are those that the evaluator uses; the table in .eh_frame_hdr is another
 * one than its table, since libdw must not see all that it may. */

#define MAX_ELF_USES 1024

_Static_assert(sizeof (Elf64_Ehdr) + 2 * sizeof (Elf64_Phdr) <= SONDE_CFI_IMAGE_SECTION_OFFSET,
               "the headers must fit before .eh_frame");

/* .eh_frame_hdr as libdw expects it, with the encodings that every linker uses. */
typedef struct
{
  uint8_t version;
  uint8_t eh_frame_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t eh_frame;
  uint32_t n_rows;
} FrameHeader;

_Static_assert(sizeof (FrameHeader) == 12, "the wire size of .eh_frame_hdr without its table");

/* Both relative to .eh_frame_hdr. */
typedef struct
{
  int32_t begin;
  int32_t fde;
} HeaderRow;

/* Behind .eh_frame and its padding, aligned for the rows. */
static size_t
header_offset (const SondeCfiIndex *index)
{
  return (SONDE_CFI_IMAGE_SECTION_OFFSET + index->section.size_bytes + SONDE_CFI_IMAGE_PADDING + 7)
         & ~(size_t) 7;
}

static void
write_headers (SondeCfiIndex *index, uint64_t low, uint64_t high, size_t n_rows)
{
  const size_t offset = header_offset (index);
  const uint64_t vaddr = index->section.vaddr + offset - SONDE_CFI_IMAGE_SECTION_OFFSET;
  Elf64_Ehdr elf = {
    .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
    .e_type = ET_DYN,
    .e_machine = SONDE_ELF_NATIVE_MACHINE,
    .e_version = EV_CURRENT,
    .e_phoff = sizeof elf,
    .e_ehsize = sizeof elf,
    .e_phentsize = sizeof (Elf64_Phdr),
    .e_phnum = 2,
    .e_shentsize = sizeof (Elf64_Shdr),
  };
  Elf64_Phdr segments[2] = {
    { .p_type = PT_LOAD,
      .p_flags = PF_R | PF_X,
      .p_vaddr = low,
      .p_memsz = high - low,
      .p_align = 0x1000 },
    { .p_type = PT_GNU_EH_FRAME,
      .p_flags = PF_R,
      .p_offset = offset,
      .p_vaddr = vaddr,
      .p_filesz = sizeof (FrameHeader) + n_rows * sizeof (HeaderRow),
      .p_align = 4 },
  };
  FrameHeader header = {
    .version = 1,
    .eh_frame_encoding = DW_EH_PE_datarel | DW_EH_PE_sdata4,
    .count_encoding = DW_EH_PE_udata4,
    .table_encoding = DW_EH_PE_datarel | DW_EH_PE_sdata4,
    .eh_frame = (int32_t) (index->section.vaddr - vaddr),
    .n_rows = (uint32_t) n_rows,
  };

  memcpy (index->image, &elf, sizeof elf);
  memcpy (index->image + sizeof elf, segments, sizeof segments);
  memcpy (index->image + offset, &header, sizeof header);
}

/* Makes the module's image an ELF file of the functions that libdw may see, and moves the section
 * for room for their table. Errors: -ENOMEM, and all stays as it was; -ENODATA: it may see none,
 * and libdw, which reads the whole section where there is no table, must not have it. */
static int
fill_image (SondeUnwindModule *self)
{
  SondeCfiIndex *index = &self->cfi;
  const size_t end = SONDE_CFI_IMAGE_SECTION_OFFSET + index->section.size_bytes;
  const size_t offset = header_offset (index);
  const size_t size = offset + sizeof (FrameHeader) + index->n_rows * sizeof (HeaderRow);
  const int64_t distance = (int64_t) (offset - SONDE_CFI_IMAGE_SECTION_OFFSET);
  uint8_t *image = realloc (index->image, size);
  size_t n_rows = 0;
  SondeCfiCheck check;
  HeaderRow *rows;

  if (image == NULL)
    return -ENOMEM;
  memset (image + end, 0, offset - end);
  index->image = image;
  index->image_size_bytes = size;
  index->section.bytes = image + SONDE_CFI_IMAGE_SECTION_OFFSET;

  sonde_cfi_check_init (&check, index->section.size_bytes);
  rows = (void *) (image + offset + sizeof (FrameHeader));
  for (size_t i = 0; i < index->n_rows; i++)
    {
      int64_t begin = index->rows[i].begin - distance;
      SondeCfiFde fde;
      SondeCfiCie cie;

      if (begin == (int32_t) begin && sonde_cfi_index_read (index, &index->rows[i], &fde, &cie)
          && sonde_cfi_check_fde (&check, &cie, &fde))
        rows[n_rows++] = (HeaderRow){ (int32_t) begin, (int32_t) (index->rows[i].fde - distance) };
    }
  if (n_rows == 0)
    return -ENODATA;
  write_headers (index, self->low, self->high, n_rows);
  return 0;
}

static void
end_elf (SondeUnwindModule *self)
{
  elf_end (self->elf);
}

/* libdw 0.188 leaves two small allocations in the Elf for each Dwfl that used it, so a new one
 * takes over from time to time; the old one lives until its last user ends it. */
struct Elf *
sonde_module_elf (SondeUnwindModule *self)
{
  size_t n_bytes = sonde_cfi_index_bytes (&self->cfi);

  /* 32-bit files are not for libdwfl, see sonde_unwinder_new_libdwfl(). */
  if (self->cfi.image == NULL || self->is_32_bit || self->is_unusable)
    return NULL;
  if (!self->has_image)
    {
      int r = fill_image (self);

      self->has_image = r == 0;
      self->is_unusable = r == -ENODATA;
      if (self->store != NULL)
        sonde_module_store_grow (self->store, self, sonde_cfi_index_bytes (&self->cfi) - n_bytes);
      if (!self->has_image)
        return NULL;
    }
  if (self->elf == NULL || ++self->n_elf_uses >= MAX_ELF_USES)
    {
      elf_end (self->elf);
      elf_version (EV_CURRENT);
      self->elf = elf_memory ((char *) self->cfi.image, self->cfi.image_size_bytes);
      self->end_elf = end_elf;
      self->n_elf_uses = 0;
    }
  return self->elf;
}
