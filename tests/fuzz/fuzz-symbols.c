/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the symbol table as an ELF file and looks names up. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/debug-reference.h"
#include "symbols/symbol-table.h"
#include "tests/fuzz/fuzz.h"

static void
check_lookup (const SondeSymbolTable *table, uint64_t vaddr)
{
  SondeSymbol symbol;

  if (!sonde_symbol_table_lookup (table, vaddr, &symbol))
    return;
  if (vaddr < symbol.begin || vaddr >= symbol.end || strlen (symbol.name) == 0)
    abort ();
}

/* At each word of the file, which is where its addresses stand. */
static void
look_up (const SondeSymbolTable *table, const uint8_t *data, size_t size)
{
  for (size_t at = 0; at + sizeof (uint64_t) <= size; at += sizeof (uint64_t))
    {
      uint64_t address, vaddr;

      memcpy (&address, data + at, sizeof address);
      check_lookup (table, address);
      check_lookup (table, address - 1);
      if (sonde_symbol_table_vaddr (table, address, &vaddr))
        check_lookup (table, vaddr);
    }
  check_lookup (table, UINT64_MAX);
}

/* What is said to be elsewhere is a name and no path, what is said to be inside is. */
static void
check_reference (int fd, size_t size)
{
  SondeDebugReference reference;
  char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1];

  if (sonde_debug_reference_read (fd, &reference) < 0)
    return;
  sonde_debug_reference_hex (&reference, hex);
  if (strlen (hex) != 2 * reference.build_id_size || strchr (reference.link_name, '/') != NULL
      || strlen (reference.link_name) >= sizeof reference.link_name)
    abort ();
  if (reference.packed_size > size || reference.packed_offset > size - reference.packed_size)
    abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  int fd = memfd_create ("symbols", MFD_CLOEXEC);
  SondeSymbolTable *table = NULL;

  if (fd < 0 || (size > 0 && pwrite (fd, data, size, 0) != (ssize_t) size))
    abort ();
  if (sonde_symbol_table_new (fd, &table) == 0)
    {
      if (sonde_symbol_table_n_symbols (table) == 0)
        abort ();
      look_up (table, data, size);
    }
  sonde_symbol_table_free (table);
  check_reference (fd, size);
  close (fd);

  return 0;
}
