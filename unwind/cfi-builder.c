/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the unwind data of a module, and makes its table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi-encoding.h"
#include "unwind/module-private.h"

enum
{
  MIN_FDE = 12,        /* bytes: length, CIE pointer, the shortest addresses */
  BYTES_PER_WORK = 64, /* read from the page cache into new memory */
  ROWS_PER_WORK = 4,   /* checked or moved */
  N_DIGITS = 4,        /* a row's key has four bytes */
};

#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

typedef enum
{
  STAGE_READ,    /* the section */
  STAGE_CONVERT, /* .debug_frame to .eh_frame */
  STAGE_TAKE,    /* the file's table */
  STAGE_COLLECT, /* our table, from the FDEs */
  STAGE_SORT,
  STAGE_GIVE_BACK, /* memory that was too much, or all of it after an error */
  STAGE_DONE,
} Stage;

/* Where the CFI lies in the file. */
typedef struct
{
  uint64_t vaddr;
  uint64_t offset;
  uint64_t size_bytes;
  bool is_debug_frame;
} SectionPlace;

/* What .eh_frame_hdr says. */
typedef struct
{
  uint64_t eh_frame_vaddr;
  uint64_t n_rows;
  uint64_t offset; /* of the table from .eh_frame_hdr */
  uint8_t encoding;
} FileTable;

struct SondeCfiBuilder
{
  SondeElfFile file; /* without what it owns */
  SectionPlace location;
  FileTable table;
  Stage stage;
  size_t at; /* how far the stage has come: bytes or rows */
  int error; /* to be told at the end */

  uint8_t *image;
  size_t image_bytes;
  SondeCfiSection section;
  SondeCfiIndexRow *rows;
  size_t rows_bytes;
  size_t n_rows;
  bool is_sorted;
  size_t last_fde;

  SondeCfiCie cie; /* the last one collected from */
  SondeCfiIndexRow *moved;
  size_t moved_bytes;
  unsigned digit;
  uint32_t counts[N_DIGITS][256]; /* of each digit's values; then where its rows go */
};

static bool
read_frame_header (const SondeElfFile *file, FileTable *table)
{
  const SondeElfSegment *segment = &file->eh_frame_hdr;
  uint8_t bytes[4 + 2 * sizeof (uint64_t)] = { 0 };
  size_t size = sizeof bytes;
  SondeCfiCursor cursor;

  if (segment->file_size_bytes < size)
    size = segment->file_size_bytes;
  if (size < 8 || sonde_elf_file_read (file, segment->offset, bytes, size) < 0 || bytes[0] != 1)
    return false;
  cursor = (SondeCfiCursor){ bytes + 4, bytes + size };
  if (!sonde_cfi_read_encoded (&cursor, bytes[1], file->is_32_bit, segment->vaddr + 4,
                               segment->vaddr, &table->eh_frame_vaddr))
    return false;
  if (!sonde_cfi_read_encoded (&cursor, bytes[2], file->is_32_bit, 0, 0, &table->n_rows))
    table->n_rows = 0;
  table->encoding = bytes[3];
  table->offset = (uint64_t) (cursor.at - bytes);
  return true;
}

/* A section with content that is not compressed. */
static bool
find_section (const SondeElfFile *file, const char *name, uint32_t type, Elf64_Shdr *section)
{
  return sonde_elf_file_find_section (file, name, type, section) && section->sh_size > 0
         && (section->sh_flags & SHF_COMPRESSED) == 0;
}

static bool
locate (SondeCfiBuilder *self)
{
  const SondeElfFile *file = &self->file;
  SectionPlace *location = &self->location;
  bool has_header = read_frame_header (file, &self->table);
  Elf64_Shdr section;

  if (find_section (file, ".eh_frame", SHT_PROGBITS, &section)
      || find_section (file, ".eh_frame", SHT_X86_64_UNWIND, &section))
    {
      *location = (SectionPlace){ section.sh_addr, section.sh_offset, section.sh_size, false };
      return true;
    }
  if (has_header
      && sonde_elf_file_locate (file, self->table.eh_frame_vaddr, &location->offset,
                                &location->size_bytes))
    {
      location->vaddr = self->table.eh_frame_vaddr;
      /* up to the end of its segment, which holds other things too; the terminator ends it */
      if (location->size_bytes > SONDE_MODULE_MAX_BYTES)
        location->size_bytes = SONDE_MODULE_MAX_BYTES;
      return true;
    }
  if (!find_section (file, ".debug_frame", SHT_PROGBITS, &section))
    return false;
  *location = (SectionPlace){ 0, section.sh_offset, section.sh_size, true };
  return true;
}

int
sonde_cfi_builder_new (const SondeElfFile *file, uint64_t low, SondeCfiBuilder **builder)
{
  SondeCfiBuilder *self = calloc (1, sizeof *self);
  const SectionPlace *location;
  int r = 0;

  if (self == NULL)
    return -ENOMEM;
  self->file = *file;
  self->cie.offset = SIZE_MAX;
  self->is_sorted = true;
  location = &self->location;
  if (!locate (self))
    r = -ENODATA;
  else if (location->size_bytes > SONDE_MODULE_MAX_BYTES)
    r = -EFBIG;
  else if (location->vaddr > UINT64_MAX - 2 * SONDE_MODULE_MAX_BYTES)
    r = -EBADMSG;
  if (r < 0)
    {
      free (self);
      return r;
    }
  self->section = (SondeCfiSection){
    .size_bytes = location->size_bytes,
    /* .debug_frame is not loaded, so any place near the code will do */
    .vaddr = location->is_debug_frame ? low : location->vaddr,
    .is_32_bit = self->file.is_32_bit,
  };
  self->file.loads = NULL; /* only the bytes are read from now on */
  self->file.names = NULL;
  *builder = self;
  return 0;
}

void
sonde_cfi_builder_free (SondeCfiBuilder *self)
{
  if (self == NULL)
    return;
  free (self->image);
  free (self->rows);
  free (self->moved);
  free (self);
}

static void
enter (SondeCfiBuilder *self, Stage stage)
{
  self->stage = stage;
  self->at = 0;
}

/* How many of @n_left things can be done with what is left of @work, @per_work for a unit; paid. */
static size_t
spend (uint32_t *work, size_t n_left, unsigned per_work)
{
  uint64_t n = (uint64_t) *work * per_work;

  if (n > n_left)
    n = n_left;
  *work -= (uint32_t) ((n + per_work - 1) / per_work);
  return (size_t) n;
}

/* How much of the image is used. */
static size_t
image_end (const SondeCfiBuilder *self)
{
  return SONDE_CFI_IMAGE_SECTION_OFFSET + self->section.size_bytes + SONDE_CFI_IMAGE_PADDING;
}

/* Takes room for as many rows as there can be; memory that is not written costs nothing. */
static int
allocate_rows (SondeCfiBuilder *self)
{
  if (self->rows == NULL)
    {
      self->rows_bytes = (self->section.size_bytes / MIN_FDE + 1) * sizeof *self->rows;
      self->rows = malloc (self->rows_bytes);
    }
  return self->rows != NULL ? 0 : -ENOMEM;
}

static int
read_section (SondeCfiBuilder *self, uint32_t *work)
{
  size_t n = spend (work, self->section.size_bytes - self->at, BYTES_PER_WORK);
  int r;

  if (self->image == NULL)
    {
      self->image_bytes = image_end (self);
      self->image = malloc (self->image_bytes);
      if (self->image == NULL)
        return -ENOMEM;
      memset (self->image, 0, SONDE_CFI_IMAGE_SECTION_OFFSET);
      self->section.bytes = self->image + SONDE_CFI_IMAGE_SECTION_OFFSET;
    }
  r = sonde_elf_file_read (&self->file, self->location.offset + self->at,
                           self->image + SONDE_CFI_IMAGE_SECTION_OFFSET + self->at, n);
  self->at += n;
  if (r == 0 && self->at == self->section.size_bytes)
    enter (self, self->location.is_debug_frame ? STAGE_CONVERT : STAGE_TAKE);
  return r;
}

/* In .debug_frame a CIE has the id 0xffffffff and an FDE the offset of its CIE; .eh_frame has 0 and
 * the distance back to it. An FDE that cannot be said in the other format gets a CIE pointer to
 * itself, which is refused later. */
static int
convert (SondeCfiBuilder *self, uint32_t *work)
{
  uint8_t *bytes = self->image + SONDE_CFI_IMAGE_SECTION_OFFSET;

  for (; *work > 0; --*work)
    {
      size_t id_offset = self->at + sizeof (uint32_t);
      uint32_t length = 0;
      uint32_t id;

      if (self->section.size_bytes - self->at >= 2 * sizeof (uint32_t))
        memcpy (&length, bytes + self->at, sizeof length);
      if (length < sizeof id || length > self->section.size_bytes - id_offset)
        {
          self->section.size_bytes = self->at;
          enter (self, STAGE_COLLECT);
          return 0;
        }
      memcpy (&id, bytes + id_offset, sizeof id);
      if (id == UINT32_MAX)
        id = 0;
      else
        id = id < self->at ? (uint32_t) id_offset - id : (uint32_t) sizeof length;
      memcpy (bytes + id_offset, &id, sizeof id);
      self->at = id_offset + length;
    }
  return 0;
}

/* Rows of the file's table, which has them relative to .eh_frame_hdr. False: it cannot be used. */
static bool
take_rows (SondeCfiBuilder *self, size_t n)
{
  const uint64_t distance = self->file.eh_frame_hdr.vaddr - self->section.vaddr;
  const size_t begin = self->at;

  if (sonde_elf_file_read (&self->file,
                           self->file.eh_frame_hdr.offset + self->table.offset
                               + begin * sizeof *self->rows,
                           self->rows + begin, n * sizeof *self->rows)
      < 0)
    return false;
  for (size_t i = begin; i < begin + n; i++)
    {
      SondeCfiIndexRow *row = &self->rows[i];
      int64_t from = (int64_t) (distance + (uint64_t) (int64_t) row->begin);
      uint64_t fde = distance + (uint64_t) (int64_t) (int32_t) row->fde;

      if (fde >= self->section.size_bytes || from != (int32_t) from)
        return false;
      *row = (SondeCfiIndexRow){ (int32_t) from, (uint32_t) fde };
      if (fde > self->last_fde)
        self->last_fde = fde;
      if (i > 0 && row->begin < row[-1].begin)
        return false;
    }
  self->at += n;
  return true;
}

/* Takes over the file's table, its rows made relative to the section. */
static int
take (SondeCfiBuilder *self, uint32_t *work)
{
  const FileTable *table = &self->table;
  const size_t n_rows = table->n_rows;
  const bool is_whole
      = table->encoding == TABLE_ENCODING && table->eh_frame_vaddr == self->section.vaddr
        && n_rows > 0 && n_rows <= self->section.size_bytes / MIN_FDE
        && n_rows * sizeof *self->rows <= self->file.eh_frame_hdr.file_size_bytes - table->offset;
  SondeCfiEntry entry;

  if (self->at == 0 && allocate_rows (self) < 0)
    return -ENOMEM;
  if (!is_whole || !take_rows (self, spend (work, n_rows - self->at, ROWS_PER_WORK)))
    {
      enter (self, STAGE_COLLECT);
      return 0;
    }
  if (self->at < n_rows)
    return 0;
  self->n_rows = n_rows;
  if (sonde_cfi_read_entry (&self->section, self->last_fde, &entry) != 1)
    {
      enter (self, STAGE_COLLECT);
      return 0;
    }
  /* What lies behind the last function is cut; without section headers we read up to the segment's
   * end. */
  self->section.size_bytes = entry.next;
  enter (self, STAGE_GIVE_BACK);
  return 0;
}

/* Makes the key sort as if it were unsigned. */
static unsigned
digit_of (const SondeCfiIndexRow *row, unsigned digit)
{
  return ((uint32_t) row->begin ^ UINT32_C (0x80000000)) >> (8 * digit) & 0xff;
}

static int
collect (SondeCfiBuilder *self, uint32_t *work)
{
  if (self->at == 0)
    {
      self->n_rows = 0;
      if (allocate_rows (self) < 0)
        return -ENOMEM;
    }
  while (*work > 0)
    {
      SondeCfiIndexRow *row = &self->rows[self->n_rows];
      SondeCfiEntry entry;
      SondeCfiFde fde;
      int64_t begin;

      --*work;
      if (sonde_cfi_read_entry (&self->section, self->at, &entry) != 1)
        {
          self->section.size_bytes = self->at;
          if (self->n_rows == 0)
            return -EBADMSG;
          enter (self, self->is_sorted ? STAGE_GIVE_BACK : STAGE_SORT);
          return 0;
        }
      self->at = entry.next;
      if (entry.is_cie)
        continue;
      if (entry.cie_offset != self->cie.offset)
        {
          *work -= *work > 0;
          if (!sonde_cfi_read_cie (&self->section, entry.cie_offset, &self->cie))
            {
              self->cie.offset = SIZE_MAX;
              continue;
            }
        }
      if (!sonde_cfi_read_fde (&self->section, &entry, &self->cie, &fde))
        continue;
      begin = (int64_t) (fde.begin - self->section.vaddr);
      if (begin != (int32_t) begin)
        continue; /* farther than 2 GiB from its code: no compiler makes that */
      *row = (SondeCfiIndexRow){ (int32_t) begin, (uint32_t) fde.offset };
      if (self->n_rows > 0 && row->begin < row[-1].begin)
        self->is_sorted = false;
      for (unsigned digit = 0; digit < N_DIGITS; digit++)
        self->counts[digit][digit_of (row, digit)]++;
      self->n_rows++;
    }
  return 0;
}

/* A radix sort: it can stop anywhere, and no order of the rows makes it slow. */
static int
sort (SondeCfiBuilder *self, uint32_t *work)
{
  uint32_t *places = self->counts[self->digit];
  SondeCfiIndexRow *rows = self->rows;
  uint32_t place = 0;
  size_t n, rows_bytes;

  if (self->moved == NULL)
    {
      self->moved_bytes = self->n_rows * sizeof *self->moved;
      self->moved = malloc (self->moved_bytes);
    }
  if (self->moved == NULL)
    return -ENOMEM;
  /* Do all rows have the same digit? */
  if (self->at == 0 && places[digit_of (&rows[0], self->digit)] == self->n_rows)
    {
      self->at = self->n_rows;
    }
  else
    {
      /* Turns the counts of values into the places where rows with each of them go. */
      for (unsigned value = 0; value < 256 && self->at == 0; value++)
        {
          uint32_t count = places[value];

          places[value] = place;
          place += count;
        }
      n = spend (work, self->n_rows - self->at, ROWS_PER_WORK);
      for (size_t end = self->at + n; self->at < end; self->at++)
        self->moved[places[digit_of (&rows[self->at], self->digit)]++] = rows[self->at];
      if (self->at < self->n_rows)
        return 0;
      rows_bytes = self->rows_bytes;
      self->rows = self->moved;
      self->rows_bytes = self->moved_bytes;
      self->moved = rows;
      self->moved_bytes = rows_bytes;
    }
  enter (self, ++self->digit == N_DIGITS ? STAGE_GIVE_BACK : STAGE_SORT);
  return 0;
}

/* Memory that was too much, or all of it after an error. */
static int
give_back (SondeCfiBuilder *self, uint32_t *work)
{
  const size_t n_bytes = self->n_rows * sizeof *self->rows;

  if (self->error == 0 && n_bytes > SONDE_MODULE_MAX_BYTES - self->section.size_bytes)
    self->error = -EFBIG;
  if (sonde_cfi_discard (self->image, self->error == 0 ? image_end (self) : 0, &self->image_bytes,
                         work)
      && sonde_cfi_discard (self->rows, self->error == 0 ? n_bytes : 0, &self->rows_bytes, work)
      && sonde_cfi_discard (self->moved, 0, &self->moved_bytes, work))
    enter (self, STAGE_DONE);
  return 0;
}

static int
finish (SondeCfiBuilder *self, SondeCfiIndex *index)
{
  uint8_t *image = realloc (self->image, image_end (self));
  SondeCfiIndexRow *rows;

  if (image == NULL)
    return -ENOMEM;
  self->image = image;
  rows = reallocarray (self->rows, self->n_rows, sizeof *rows);
  if (rows == NULL)
    return -ENOMEM;
  self->rows = rows;
  memset (image + image_end (self) - SONDE_CFI_IMAGE_PADDING, 0, SONDE_CFI_IMAGE_PADDING);
  self->section.bytes = image + SONDE_CFI_IMAGE_SECTION_OFFSET;
  *index = (SondeCfiIndex){
    .image = image,
    .image_size_bytes = image_end (self),
    .section = self->section,
    .rows = rows,
    .n_rows = self->n_rows,
  };
  self->image = NULL;
  self->rows = NULL;
  return 0;
}

int
sonde_cfi_builder_run (SondeCfiBuilder *self, uint32_t *work, SondeCfiIndex *index)
{
  while (*work > 0 && self->stage != STAGE_DONE)
    {
      int r = 0;

      switch (self->stage)
        {
        case STAGE_READ:
          r = read_section (self, work);
          break;
        case STAGE_CONVERT:
          r = convert (self, work);
          break;
        case STAGE_TAKE:
          r = take (self, work);
          break;
        case STAGE_COLLECT:
          r = collect (self, work);
          break;
        case STAGE_SORT:
          r = sort (self, work);
          break;
        case STAGE_GIVE_BACK:
          r = give_back (self, work);
          break;
        case STAGE_DONE:
        default:
          break;
        }
      if (r < 0)
        {
          self->error = r;
          enter (self, STAGE_GIVE_BACK);
        }
    }
  if (self->stage != STAGE_DONE)
    return 1;
  return self->error < 0 ? self->error : finish (self, index);
}
