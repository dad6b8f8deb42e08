/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module's unwind data as an ELF image in memory, for libdw. */
#include "unwind/cfi-image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi-encoding.h"
#include "unwind/elf-file.h"

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

/* Room behind .eh_frame for a table of all functions. */
static int
make_room (SondeCfiIndex *index)
{
  size_t end = SONDE_CFI_IMAGE_SECTION_OFFSET + index->section.size_bytes;
  size_t offset = header_offset (index);
  size_t size = offset + sizeof (FrameHeader) + index->n_rows * sizeof (HeaderRow);
  uint8_t *image = realloc (index->image, size);

  if (image == NULL)
    return -ENOMEM;
  memset (image + end, 0, offset - end);
  index->image = image;
  index->image_size_bytes = size;
  index->section.bytes = image + SONDE_CFI_IMAGE_SECTION_OFFSET;
  return 0;
}

int
sonde_cfi_image_make (SondeCfiIndex *index,
                      uint64_t low,
                      uint64_t high,
                      bool (*keep) (const SondeCfiCie *cie, const SondeCfiFde *fde, void *data),
                      void *data)
{
  size_t offset = header_offset (index);
  int64_t distance = (int64_t) (offset - SONDE_CFI_IMAGE_SECTION_OFFSET);
  size_t n_rows = 0;
  HeaderRow *rows;

  if (make_room (index) < 0)
    return -ENOMEM;
  rows = (void *) (index->image + offset + sizeof (FrameHeader));
  for (size_t i = 0; i < index->n_rows; i++)
    {
      int64_t begin = index->rows[i].begin - distance;
      SondeCfiFde fde;
      SondeCfiCie cie;

      if (begin == (int32_t) begin && sonde_cfi_index_read (index, &index->rows[i], &fde, &cie)
          && keep (&cie, &fde, data))
        rows[n_rows++] = (HeaderRow){ (int32_t) begin, (int32_t) (index->rows[i].fde - distance) };
    }
  if (n_rows == 0)
    return -ENODATA;
  write_headers (index, low, high, n_rows);
  return 0;
}
