/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/exported-symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 32

int
sonde_exported_read_section (
    const SondeElfFile *file, const char *name, uint32_t type, void **bytes, size_t *size_bytes)
{
  Elf64_Shdr section;
  void *read;
  int result;

  if (!sonde_elf_file_find_section (file, name, type, &section) || section.sh_size == 0)
    return -ENOENT;
  if (section.sh_size > SONDE_EXPORTED_MAX_BYTES)
    return -E2BIG;
  read = malloc (section.sh_size);
  if (read == NULL)
    return -ENOMEM;
  result = sonde_elf_file_read (file, section.sh_offset, read, section.sh_size);
  if (result < 0)
    {
      free (read);
      return result;
    }
  *bytes = read;
  *size_bytes = section.sh_size;
  return 0;
}

static void
match (const Elf64_Sym *symbol,
       const char *strings,
       size_t strings_bytes,
       const char *const *names,
       size_t n_names,
       Elf64_Sym *symbols)
{
  size_t left;

  if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || symbol->st_name >= strings_bytes)
    return;
  left = strings_bytes - symbol->st_name;
  for (size_t i = 0; i < n_names; i++)
    {
      size_t length = strlen (names[i]) + 1;

      if (length <= left && memcmp (strings + symbol->st_name, names[i], length) == 0)
        symbols[i] = *symbol;
    }
}

int
sonde_exported_find (const SondeElfFile *file,
                     const char *const *names,
                     size_t n_names,
                     Elf64_Sym *symbols)
{
  void *table = NULL;
  void *strings = NULL;
  size_t table_bytes;
  size_t strings_bytes;
  int result;

  memset (symbols, 0, n_names * sizeof symbols[0]);
  if (n_names > MAX_NAMES)
    return -E2BIG;
  if (file->is_32_bit)
    return -ENOEXEC;
  result = sonde_exported_read_section (file, ".dynsym", SHT_DYNSYM, &table, &table_bytes);
  if (result == 0)
    result = sonde_exported_read_section (file, ".dynstr", SHT_STRTAB, &strings, &strings_bytes);
  for (size_t i = 0; result == 0 && i < table_bytes / sizeof (Elf64_Sym); i++)
    match ((const Elf64_Sym *) table + i, strings, strings_bytes, names, n_names, symbols);
  free (table);
  free (strings);
  return result;
}

int
sonde_exported_read (const SondeElfFile *file, uint64_t vaddr, void *bytes, size_t size_bytes)
{
  uint64_t offset;
  uint64_t left;

  if (!sonde_elf_file_locate (file, vaddr, &offset, &left) || left < size_bytes)
    return -EBADMSG;
  return sonde_elf_file_read (file, offset, bytes, size_bytes);
}
