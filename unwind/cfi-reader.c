/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/cfi-reader.h"

#include <errno.h>
#include <string.h>

#include "unwind/cfi-encoding.h"

enum
{
  MAX_AUGMENTATION = 8, /* bytes, with the final NUL; "zPLRSB" is the longest known */
};

static bool
read_bytes (SondeCfiCursor *cursor, void *value, size_t size)
{
  if ((size_t) (cursor->end - cursor->at) < size)
    return false;
  memcpy (value, cursor->at, size);
  cursor->at += size;
  return true;
}

bool
sonde_cfi_read_u8 (SondeCfiCursor *cursor, uint8_t *value)
{
  return read_bytes (cursor, value, sizeof *value);
}

bool
sonde_cfi_read_u16 (SondeCfiCursor *cursor, uint16_t *value)
{
  return read_bytes (cursor, value, sizeof *value);
}

bool
sonde_cfi_read_u32 (SondeCfiCursor *cursor, uint32_t *value)
{
  return read_bytes (cursor, value, sizeof *value);
}

bool
sonde_cfi_read_u64 (SondeCfiCursor *cursor, uint64_t *value)
{
  return read_bytes (cursor, value, sizeof *value);
}

bool
sonde_cfi_skip (SondeCfiCursor *cursor, uint64_t n_bytes)
{
  if ((uint64_t) (cursor->end - cursor->at) < n_bytes)
    return false;
  cursor->at += n_bytes;
  return true;
}

/* The bits and how many of them the encoding has; longer than 64 bits is refused, since readers
 * disagree about it. */
static bool
read_leb128 (SondeCfiCursor *cursor, uint64_t *value, unsigned *n_bits, bool *is_negative)
{
  uint64_t result = 0;

  for (unsigned shift = 0; shift < 64; shift += 7)
    {
      uint8_t byte;

      if (!sonde_cfi_read_u8 (cursor, &byte))
        return false;
      result |= (uint64_t) (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0)
        {
          *value = result;
          *n_bits = shift + 7;
          *is_negative = (byte & 0x40) != 0;
          return true;
        }
    }
  return false;
}

bool
sonde_cfi_read_uleb128 (SondeCfiCursor *cursor, uint64_t *value)
{
  unsigned n_bits;
  bool is_negative;

  return read_leb128 (cursor, value, &n_bits, &is_negative);
}

bool
sonde_cfi_read_sleb128 (SondeCfiCursor *cursor, int64_t *value)
{
  unsigned n_bits;
  bool is_negative;
  uint64_t bits;

  if (!read_leb128 (cursor, &bits, &n_bits, &is_negative))
    return false;
  if (is_negative && n_bits < 64)
    bits |= ~UINT64_C (0) << n_bits;
  *value = (int64_t) bits;
  return true;
}

static bool
read_format (SondeCfiCursor *cursor, uint8_t format, bool is_32_bit, uint64_t *value)
{
  uint16_t half;
  uint32_t word;
  int64_t number;

  if (format == DW_EH_PE_absptr)
    format = is_32_bit ? DW_EH_PE_udata4 : DW_EH_PE_udata8;
  switch (format)
    {
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
      return read_bytes (cursor, value, sizeof *value);
    case DW_EH_PE_udata2:
    case DW_EH_PE_sdata2:
      if (!read_bytes (cursor, &half, sizeof half))
        return false;
      *value = format == DW_EH_PE_udata2 ? half : (uint64_t) (int64_t) (int16_t) half;
      return true;
    case DW_EH_PE_udata4:
    case DW_EH_PE_sdata4:
      if (!sonde_cfi_read_u32 (cursor, &word))
        return false;
      *value = format == DW_EH_PE_udata4 ? word : (uint64_t) (int64_t) (int32_t) word;
      return true;
    case DW_EH_PE_uleb128:
      return sonde_cfi_read_uleb128 (cursor, value);
    case DW_EH_PE_sleb128:
      if (!sonde_cfi_read_sleb128 (cursor, &number))
        return false;
      *value = (uint64_t) number;
      return true;
    default:
      return false;
    }
}

bool
sonde_cfi_read_encoded (SondeCfiCursor *cursor,
                        uint8_t encoding,
                        bool is_32_bit,
                        uint64_t vaddr,
                        uint64_t data_vaddr,
                        uint64_t *value)
{
  uint64_t raw;

  if (!read_format (cursor, encoding & 0x0f, is_32_bit, &raw))
    return false;

  switch (encoding & 0xf0)
    {
    case DW_EH_PE_absptr:
      break;
    case DW_EH_PE_pcrel:
      raw += vaddr;
      break;
    case DW_EH_PE_datarel:
      raw += data_vaddr;
      break;
    default:
      return false;
    }
  *value = is_32_bit ? (uint32_t) raw : raw;
  return true;
}

int
sonde_cfi_read_entry (const SondeCfiSection *section, size_t offset, SondeCfiEntry *entry)
{
  SondeCfiCursor cursor;
  uint32_t length;
  uint32_t id;
  size_t id_offset;

  if (offset >= section->size_bytes)
    return 0;
  cursor = (SondeCfiCursor){ section->bytes + offset, section->bytes + section->size_bytes };
  if (!sonde_cfi_read_u32 (&cursor, &length))
    return -EBADMSG;
  if (length == 0)
    return 0;
  /* 0xffffffff announces a 64-bit length; within our 32 MiB nobody needs one */
  if (length < sizeof id || length > (size_t) (cursor.end - cursor.at))
    return -EBADMSG;

  cursor.end = cursor.at + length;
  id_offset = (size_t) (cursor.at - section->bytes);
  sonde_cfi_read_u32 (&cursor, &id);
  if (id > id_offset)
    return -EBADMSG;
  *entry = (SondeCfiEntry){
    .offset = offset,
    .next = (size_t) (cursor.end - section->bytes),
    .is_cie = id == 0,
    .cie_offset = id_offset - id,
    .body = cursor,
  };
  return 1;
}

static bool
read_augmentation_data (SondeCfiCursor *cursor,
                        const char *letters,
                        bool is_32_bit,
                        SondeCfiCie *cie)
{
  uint8_t encoding;

  for (; *letters != '\0'; letters++)
    {
      uint64_t ignored;

      switch (*letters)
        {
        case 'R':
          if (!sonde_cfi_read_u8 (cursor, &cie->pointer_encoding))
            return false;
          break;
        case 'L':
          if (!sonde_cfi_read_u8 (cursor, &encoding))
            return false;
          break;
        case 'P': /* indirect is usual here, and the value does not matter */
          if (!sonde_cfi_read_u8 (cursor, &encoding) || (encoding & 0x70) == DW_EH_PE_aligned
              || !read_format (cursor, encoding & 0x0f, is_32_bit, &ignored))
            return false;
          break;
        case 'S':
          cie->is_signal_frame = true;
          break;
        case 'B': /* AArch64: return addresses are signed with the B key */
        case 'G': /* AArch64: stack frames are tagged */
          break;
        default:
          return false;
        }
    }
  return true;
}

static bool
read_augmentation (SondeCfiCursor *cursor, const char *letters, bool is_32_bit, SondeCfiCie *cie)
{
  SondeCfiCursor data;
  uint64_t size;

  if (letters[0] == '\0')
    return true;
  if (letters[0] != 'z' || !sonde_cfi_read_uleb128 (cursor, &size))
    return false;
  data.at = cursor->at;
  if (!sonde_cfi_skip (cursor, size))
    return false;
  data.end = cursor->at;
  cie->has_augmentation = true;
  return read_augmentation_data (&data, letters + 1, is_32_bit, cie);
}

static bool
read_letters (SondeCfiCursor *cursor, char letters[MAX_AUGMENTATION])
{
  for (size_t i = 0; i < MAX_AUGMENTATION; i++)
    {
      uint8_t byte;

      if (!sonde_cfi_read_u8 (cursor, &byte))
        return false;
      letters[i] = (char) byte;
      if (byte == 0)
        return true;
    }
  return false;
}

/* DWARF 4 added the sizes of addresses and segment selectors, for .debug_frame. */
static bool
read_version (SondeCfiCursor *cursor,
              bool is_32_bit,
              uint8_t *version,
              char letters[MAX_AUGMENTATION])
{
  uint8_t address_size;
  uint8_t segment_size;

  if (!sonde_cfi_read_u8 (cursor, version) || !read_letters (cursor, letters))
    return false;
  if (*version == 1 || *version == 3)
    return true;
  return *version == 4 && sonde_cfi_read_u8 (cursor, &address_size)
         && sonde_cfi_read_u8 (cursor, &segment_size) && address_size == (is_32_bit ? 4 : 8)
         && segment_size == 0;
}

bool
sonde_cfi_read_cie (const SondeCfiSection *section, size_t offset, SondeCfiCie *cie)
{
  SondeCfiEntry entry;
  SondeCfiCie result = { .offset = offset, .pointer_encoding = DW_EH_PE_absptr };
  char letters[MAX_AUGMENTATION];
  uint8_t version;
  uint8_t byte;

  if (sonde_cfi_read_entry (section, offset, &entry) != 1 || !entry.is_cie
      || !read_version (&entry.body, section->is_32_bit, &version, letters)
      || !sonde_cfi_read_uleb128 (&entry.body, &result.code_alignment)
      || !sonde_cfi_read_sleb128 (&entry.body, &result.data_alignment))
    return false;
  if (version == 1)
    {
      if (!sonde_cfi_read_u8 (&entry.body, &byte))
        return false;
      result.return_register = byte;
    }
  else if (!sonde_cfi_read_uleb128 (&entry.body, &result.return_register))
    return false;
  if (!read_augmentation (&entry.body, letters, section->is_32_bit, &result))
    return false;
  result.instructions = entry.body;
  *cie = result;
  return true;
}

bool
sonde_cfi_read_fde (const SondeCfiSection *section,
                    const SondeCfiEntry *entry,
                    const SondeCfiCie *cie,
                    SondeCfiFde *fde)
{
  SondeCfiCursor cursor = entry->body;
  uint64_t vaddr = section->vaddr + (uint64_t) (cursor.at - section->bytes);
  uint64_t begin;
  uint64_t size;
  uint64_t augmentation;

  if (entry->is_cie
      || !sonde_cfi_read_encoded (&cursor, cie->pointer_encoding, section->is_32_bit, vaddr, 0,
                                  &begin)
      || !sonde_cfi_read_encoded (&cursor, cie->pointer_encoding & 0x0f, section->is_32_bit, 0, 0,
                                  &size))
    return false;
  if (size == 0 || begin + size < begin)
    return false;
  if (cie->has_augmentation
      && (!sonde_cfi_read_uleb128 (&cursor, &augmentation)
          || !sonde_cfi_skip (&cursor, augmentation)))
    return false;
  *fde = (SondeCfiFde){
    .offset = entry->offset,
    .begin = begin,
    .end = begin + size,
    .instructions = cursor,
  };
  return true;
}
