/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/debug-reference.h"

#include <string.h>

#include "base/elf-file.h"

/* A name, NUL, padding up to a multiple of four, CRC. */
static void
read_link (const SondeElfFile *elf, SondeDebugReference *self)
{
  Elf64_Shdr section;
  char bytes[sizeof self->link_name + sizeof self->link_crc];
  size_t name_size;

  if (!sonde_elf_file_find_section (elf, ".gnu_debuglink", SHT_PROGBITS, &section)
      || section.sh_size > sizeof bytes
      || sonde_elf_file_read (elf, section.sh_offset, bytes, section.sh_size) < 0)
    return;
  name_size = (strnlen (bytes, section.sh_size) + 1 + 3) & ~(size_t) 3;
  if (name_size + sizeof self->link_crc > section.sh_size || strchr (bytes, '/') != NULL
      || strcmp (bytes, ".") == 0 || strcmp (bytes, "..") == 0)
    return;
  memcpy (self->link_name, bytes, strlen (bytes) + 1);
  memcpy (&self->link_crc, bytes + name_size, sizeof self->link_crc);
}

int
sonde_debug_reference_read (int fd, SondeDebugReference *self)
{
  SondeElfFile elf;
  SondeDebugReference found = { 0 };
  int r = sonde_elf_file_load (&elf, fd);

  if (r == 0)
    {
      Elf64_Shdr packed;

      found.build_id_size = sonde_elf_file_read_build_id (&elf, found.build_id);
      read_link (&elf, &found);
      if (sonde_elf_file_find_section (&elf, ".gnu_debugdata", SHT_PROGBITS, &packed)
          && (packed.sh_flags & SHF_COMPRESSED) == 0)
        {
          found.packed_offset = packed.sh_offset;
          found.packed_size = packed.sh_size;
        }
      *self = found;
    }
  sonde_elf_file_clear (&elf);
  return r;
}

void
sonde_debug_reference_hex (const SondeDebugReference *self,
                           char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1])
{
  static const char digits[] = "0123456789abcdef";

  for (size_t i = 0; i < self->build_id_size; i++)
    {
      hex[2 * i] = digits[self->build_id[i] >> 4];
      hex[2 * i + 1] = digits[self->build_id[i] & 15];
    }
  hex[2 * self->build_id_size] = '\0';
}

static int
digit_value (char digit)
{
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  if (digit >= 'a' && digit <= 'f')
    return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool
sonde_debug_reference_parse (const char *hex, SondeDebugReference *self)
{
  SondeDebugReference found = { 0 };

  for (; hex[0] != '\0'; hex += 2)
    {
      int high = digit_value (hex[0]);
      int low = high >= 0 ? digit_value (hex[1]) : -1;

      if (low < 0 || found.build_id_size == SONDE_ELF_MAX_BUILD_ID)
        return false;
      found.build_id[found.build_id_size++] = (uint8_t) (high << 4 | low);
    }
  if (found.build_id_size < 2) /* the first byte names a folder, the others a file */
    return false;
  *self = found;
  return true;
}

bool
sonde_debug_reference_has_same_id (const SondeDebugReference *a, const SondeDebugReference *b)
{
  return a->build_id_size == b->build_id_size
         && memcmp (a->build_id, b->build_id, a->build_id_size) == 0;
}
