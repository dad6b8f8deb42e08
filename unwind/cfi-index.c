/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module's unwind data: the bytes of .eh_frame and a sorted table of its functions. */
#include "unwind/cfi-index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi-encoding.h"
#include "unwind/module.h"

enum
{
  SECTION_OFFSET = 192, /* behind the ELF header and two program headers, rounded up */
  PADDING = 16, /* zero bytes behind .eh_frame: a terminator, and room for a careless reader */
  MIN_FDE = 12, /* bytes: length, CIE pointer, the shortest addresses */
};

_Static_assert(sizeof (Elf64_Ehdr) + 2 * sizeof (Elf64_Phdr) <= SECTION_OFFSET,
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

#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

/* Where the CFI lies in the file, and the file's own table if there is one. */
typedef struct
{
  uint64_t vaddr;
  uint64_t offset;
  uint64_t size_bytes;
  bool is_debug_frame;
} Location;

typedef struct
{
  SondeCfiIndexRow *rows;
  size_t n_rows;
  size_t n_allocated;
} RowList;

static int
add_row (RowList *list, int64_t begin, int64_t fde)
{
  if (begin != (int32_t) begin || fde != (int32_t) fde)
    return 0; /* farther than 2 GiB from its code: no compiler makes that */
  if (list->n_rows == list->n_allocated)
    {
      size_t n = list->n_allocated == 0 ? 256 : list->n_allocated * 2;
      SondeCfiIndexRow *rows = reallocarray (list->rows, n, sizeof *rows);

      if (rows == NULL)
        return -ENOMEM;
      list->rows = rows;
      list->n_allocated = n;
    }
  list->rows[list->n_rows++] = (SondeCfiIndexRow){ (int32_t) begin, (int32_t) fde };
  return 0;
}

static bool
read_frame_header (const SondeElfFile *file,
                   FrameHeader *header,
                   uint64_t *eh_frame_vaddr,
                   uint64_t *n_rows,
                   uint64_t *table_offset)
{
  const SondeElfSegment *segment = &file->eh_frame_hdr;
  uint8_t bytes[4 + 2 * sizeof (uint64_t)] = { 0 };
  size_t size = sizeof bytes;
  SondeCfiCursor cursor;

  if (segment->file_size_bytes < size)
    size = segment->file_size_bytes;
  if (size < 8 || sonde_elf_file_read (file, segment->offset, bytes, size) < 0 || bytes[0] != 1)
    return false;
  memcpy (header, bytes, 4);
  cursor = (SondeCfiCursor){ bytes + 4, bytes + size };
  if (!sonde_cfi_read_encoded (&cursor, header->eh_frame_encoding, segment->vaddr + 4,
                               segment->vaddr, eh_frame_vaddr))
    return false;
  if (!sonde_cfi_read_encoded (&cursor, header->count_encoding, 0, 0, n_rows))
    *n_rows = 0;
  *table_offset = (uint64_t) (cursor.at - bytes);
  return true;
}

static bool
locate (const SondeElfFile *file, Location *location)
{
  FrameHeader header;
  uint64_t n_rows;
  uint64_t table_offset;
  Elf64_Shdr section;

  *location = (Location){ 0 };
  if (sonde_elf_file_find_section (file, ".eh_frame", &section))
    {
      location->vaddr = section.sh_addr;
      location->offset = section.sh_offset;
      location->size_bytes = section.sh_size;
      return true;
    }
  if (read_frame_header (file, &header, &location->vaddr, &n_rows, &table_offset)
      && sonde_elf_file_locate (file, location->vaddr, &location->offset, &location->size_bytes))
    {
      /* up to the end of its segment, which holds other things too; the terminator ends it */
      if (location->size_bytes > SONDE_MODULE_MAX_BYTES)
        location->size_bytes = SONDE_MODULE_MAX_BYTES;
      return true;
    }
  if (sonde_elf_file_find_section (file, ".debug_frame", &section))
    {
      location->offset = section.sh_offset;
      location->size_bytes = section.sh_size;
      location->is_debug_frame = true;
      return true;
    }
  return false;
}

static int
load_section (SondeCfiIndex *self, const SondeElfFile *file, const Location *location)
{
  if (location->size_bytes > SONDE_MODULE_MAX_BYTES)
    return -EFBIG;
  if (location->vaddr > UINT64_MAX - 2 * SONDE_MODULE_MAX_BYTES)
    return -EBADMSG;
  self->image = calloc (1, SECTION_OFFSET + location->size_bytes + PADDING);
  if (self->image == NULL)
    return -ENOMEM;
  self->section = (SondeCfiSection){
    .bytes = self->image + SECTION_OFFSET,
    .size_bytes = location->size_bytes,
    .vaddr = location->vaddr,
  };
  return sonde_elf_file_read (file, location->offset, self->image + SECTION_OFFSET,
                              location->size_bytes);
}

/* In .debug_frame a CIE has the id 0xffffffff and an FDE the offset of its CIE; .eh_frame has 0 and
 * the distance back to it. An FDE that cannot be said in the other format gets a CIE pointer to
 * itself, which is refused later. */
static void
convert_debug_frame (SondeCfiIndex *self)
{
  uint8_t *bytes = self->image + SECTION_OFFSET;
  size_t offset = 0;

  while (self->section.size_bytes - offset >= 2 * sizeof (uint32_t))
    {
      uint32_t length;
      uint32_t id;
      uint32_t id_offset = (uint32_t) offset + (uint32_t) sizeof length;

      memcpy (&length, bytes + offset, sizeof length);
      memcpy (&id, bytes + id_offset, sizeof id);
      if (length < sizeof id || length > self->section.size_bytes - id_offset)
        break;
      if (id == UINT32_MAX)
        id = 0;
      else
        id = id < offset ? id_offset - id : (uint32_t) sizeof length;
      memcpy (bytes + id_offset, &id, sizeof id);
      offset = id_offset + length;
    }
  self->section.size_bytes = offset;
}

/* Cuts what lies behind the last entry; without section headers we read up to the segment's end. */
static void
trim (SondeCfiIndex *self)
{
  SondeCfiEntry entry;
  size_t end = 0;

  while (sonde_cfi_read_entry (&self->section, end, &entry) == 1)
    end = entry.next;
  self->section.size_bytes = end;
}

static bool
is_sorted (const SondeCfiIndexRow *rows, size_t n_rows)
{
  for (size_t i = 1; i < n_rows; i++)
    if (rows[i].begin < rows[i - 1].begin)
      return false;
  return true;
}

/* Takes over the file's table, its rows made relative to ours. Returns 1 if it can be used. */
static int
take_table (const SondeCfiIndex *self, const SondeElfFile *file, RowList *list)
{
  const uint64_t hdr_vaddr = file->eh_frame_hdr.vaddr;
  FrameHeader header;
  uint64_t eh_frame_vaddr;
  uint64_t n_rows;
  uint64_t table_offset;
  SondeCfiIndexRow *rows;

  if (!read_frame_header (file, &header, &eh_frame_vaddr, &n_rows, &table_offset)
      || header.table_encoding != TABLE_ENCODING || eh_frame_vaddr != self->section.vaddr
      || n_rows == 0 || n_rows > self->section.size_bytes / MIN_FDE
      || n_rows * sizeof *rows > file->eh_frame_hdr.file_size_bytes - table_offset)
    return 0;
  rows = reallocarray (NULL, n_rows, sizeof *rows);
  if (rows == NULL)
    return -ENOMEM;
  *list = (RowList){ rows, n_rows, n_rows };
  if (sonde_elf_file_read (file, file->eh_frame_hdr.offset + table_offset, rows,
                           n_rows * sizeof *rows)
          < 0
      || !is_sorted (rows, n_rows))
    return 0;

  for (size_t i = 0; i < n_rows; i++)
    {
      uint64_t offset = hdr_vaddr + (uint64_t) (int64_t) rows[i].fde - self->section.vaddr;
      int64_t begin = (int64_t) (hdr_vaddr - self->rows_vaddr + (uint64_t) (int64_t) rows[i].begin);
      int64_t fde = (int64_t) (self->section.vaddr + offset - self->rows_vaddr);

      if (offset >= self->section.size_bytes || begin != (int32_t) begin || fde != (int32_t) fde)
        return 0;
      rows[i] = (SondeCfiIndexRow){ (int32_t) begin, (int32_t) fde };
    }
  return 1;
}

/* Linkers write FDEs in about the order of their functions, so most lists are sorted already. */
static int
compare_rows (const void *a, const void *b)
{
  const SondeCfiIndexRow *left = a;
  const SondeCfiIndexRow *right = b;

  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  return left->fde < right->fde ? -1 : left->fde > right->fde;
}

static int
collect_rows (SondeCfiIndex *self, RowList *list)
{
  SondeCfiCie cie = { .offset = SIZE_MAX };
  SondeCfiEntry entry;

  for (size_t at = 0; sonde_cfi_read_entry (&self->section, at, &entry) == 1; at = entry.next)
    {
      SondeCfiFde fde;
      int r;

      if (entry.is_cie)
        continue;
      if (entry.cie_offset != cie.offset
          && !sonde_cfi_read_cie (&self->section, entry.cie_offset, &cie))
        {
          cie.offset = SIZE_MAX;
          continue;
        }
      if (!sonde_cfi_read_fde (&self->section, &entry, &cie, &fde))
        continue;
      r = add_row (list, (int64_t) (fde.begin - self->rows_vaddr),
                   (int64_t) (self->section.vaddr + entry.offset - self->rows_vaddr));
      if (r < 0)
        return r;
    }
  return 0;
}

static int
build_table (SondeCfiIndex *self, RowList *list)
{
  int r = collect_rows (self, list);

  if (r < 0)
    return r;
  if (list->n_rows == 0)
    return -EBADMSG;
  if (!is_sorted (list->rows, list->n_rows))
    qsort (list->rows, list->n_rows, sizeof *list->rows, compare_rows);
  return 0;
}

static void
write_headers (SondeCfiIndex *self, size_t rows_offset, uint64_t low, uint64_t high)
{
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
      .p_offset = rows_offset,
      .p_vaddr = self->rows_vaddr,
      .p_filesz = self->image_size_bytes - rows_offset,
      .p_align = 4 },
  };
  FrameHeader header = {
    .version = 1,
    .eh_frame_encoding = DW_EH_PE_datarel | DW_EH_PE_sdata4,
    .count_encoding = DW_EH_PE_udata4,
    .table_encoding = TABLE_ENCODING,
    .eh_frame = (int32_t) (self->section.vaddr - self->rows_vaddr),
    .n_rows = (uint32_t) self->n_rows,
  };

  memcpy (self->image, &elf, sizeof elf);
  memcpy (self->image + sizeof elf, segments, sizeof segments);
  memcpy (self->image + rows_offset, &header, sizeof header);
}

/* Where the image's .eh_frame_hdr goes: behind .eh_frame and its padding, aligned for the rows. */
static size_t
rows_offset_for (size_t section_size)
{
  return (SECTION_OFFSET + section_size + PADDING + 7) & ~(size_t) 7;
}

static int
finish (SondeCfiIndex *self, const RowList *list, uint64_t low, uint64_t high)
{
  size_t old_size = SECTION_OFFSET + self->section.size_bytes;
  size_t rows_offset = (size_t) (self->rows_vaddr - self->section.vaddr) + SECTION_OFFSET;
  size_t rows_size = list->n_rows * sizeof *list->rows;
  size_t size = rows_offset + sizeof (FrameHeader) + rows_size;
  uint8_t *image;

  if (size > SONDE_MODULE_MAX_BYTES + SECTION_OFFSET)
    return -EFBIG;
  image = realloc (self->image, size);
  if (image == NULL)
    return -ENOMEM;
  memset (image + old_size, 0, rows_offset - old_size);
  self->image = image;
  self->image_size_bytes = size;
  self->section.bytes = image + SECTION_OFFSET;
  self->rows = (void *) (image + rows_offset + sizeof (FrameHeader));
  self->n_rows = list->n_rows;
  memcpy (self->rows, list->rows, rows_size);
  write_headers (self, rows_offset, low, high);
  return 0;
}

static int
load (SondeCfiIndex *self,
      const SondeElfFile *file,
      const Location *location,
      uint64_t low,
      uint64_t high,
      RowList *list)
{
  int r = load_section (self, file, location);

  if (r < 0)
    return r;
  if (location->is_debug_frame)
    {
      self->section.vaddr = low; /* it is not loaded, so any place near the code will do */
      convert_debug_frame (self);
    }
  trim (self);
  self->rows_vaddr
      = self->section.vaddr + rows_offset_for (self->section.size_bytes) - SECTION_OFFSET;

  r = location->is_debug_frame ? 0 : take_table (self, file, list);
  if (r == 0)
    {
      list->n_rows = 0;
      r = build_table (self, list);
    }
  return r < 0 ? r : finish (self, list, low, high);
}

int
sonde_cfi_index_load (SondeCfiIndex *self, const SondeElfFile *file, uint64_t low, uint64_t high)
{
  RowList list = { 0 };
  Location location;
  int r;

  *self = (SondeCfiIndex){ 0 };
  if (!locate (file, &location))
    return -ENODATA;
  r = load (self, file, &location, low, high, &list);
  free (list.rows);
  if (r < 0)
    sonde_cfi_index_clear (self);
  return r;
}

void
sonde_cfi_index_clear (SondeCfiIndex *self)
{
  free (self->image);
  *self = (SondeCfiIndex){ 0 };
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

static bool
read_row (const SondeCfiIndex *self,
          const SondeCfiIndexRow *row,
          SondeCfiFde *fde,
          SondeCfiCie *cie)
{
  uint64_t offset = self->rows_vaddr + (uint64_t) (int64_t) row->fde - self->section.vaddr;
  SondeCfiEntry entry;

  return sonde_cfi_read_entry (&self->section, offset, &entry) == 1 && !entry.is_cie
         && sonde_cfi_read_cie (&self->section, entry.cie_offset, cie)
         && sonde_cfi_read_fde (&self->section, &entry, cie, fde);
}

bool
sonde_cfi_index_find (const SondeCfiIndex *self, uint64_t vaddr, SondeCfiFde *fde, SondeCfiCie *cie)
{
  size_t n = count_rows_up_to (self, (int64_t) (vaddr - self->rows_vaddr));

  return n > 0 && read_row (self, &self->rows[n - 1], fde, cie) && vaddr >= fde->begin
         && vaddr < fde->end;
}

bool
sonde_cfi_index_has_function_in (const SondeCfiIndex *self, uint64_t begin, uint64_t end)
{
  return count_rows_up_to (self, (int64_t) (end - 1 - self->rows_vaddr))
         > count_rows_up_to (self, (int64_t) (begin - 1 - self->rows_vaddr));
}

void
sonde_cfi_index_filter (SondeCfiIndex *self,
                        bool (*keep) (const SondeCfiCie *cie, const SondeCfiFde *fde, void *data),
                        void *data)
{
  size_t n_kept = 0;
  uint32_t n_rows;

  for (size_t i = 0; i < self->n_rows; i++)
    {
      SondeCfiFde fde;
      SondeCfiCie cie;

      if (read_row (self, &self->rows[i], &fde, &cie) && keep (&cie, &fde, data))
        self->rows[n_kept++] = self->rows[i];
    }
  self->n_rows = n_kept;
  n_rows = (uint32_t) n_kept;
  memcpy ((uint8_t *) self->rows - sizeof n_rows, &n_rows, sizeof n_rows);
}
