/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the symbol table as an ELF file and looks names up. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/probe-note.h"
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

/* The places of a probe are in the file, and what its arguments say is read of a sample that has
 * little. */
static void
check_probes (int fd, size_t size)
{
  static const uint64_t registers[] = { 1, 2, 3, 4, 5, 6, 0x7ff0, 0x7000, 9 };
  static const uint64_t stack[] = { 1, 2, 3, 4 };
  const SondeProbeState state = { 0x1ff, registers, sizeof registers / sizeof registers[0],
                                  (const uint8_t *) stack, sizeof stack };
  SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS];
  SondeProbe probes[16];
  SondeElfFile file;
  uint64_t value;
  int n = 0;

  if (sonde_elf_file_load (&file, fd) == 0)
    n = sonde_probes_find (&file, "otel_memory", probes, 16);
  for (int i = 0; i < n; i++)
    {
      SondeProbe again;
      int n_arguments = sonde_probe_parse_arguments (probes[i].arguments, operands);

      if (probes[i].site >= size || probes[i].semaphore >= size
          || sonde_probe_read (&file, probes[i].note, "otel_memory", &again) != 0
          || again.site != probes[i].site)
        abort ();
      for (int j = 0; j < n_arguments; j++)
        (void) sonde_probe_evaluate (&operands[j], &state, &value);
    }
  sonde_elf_file_clear (&file);
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
  check_probes (fd, size);
  close (fd);

  return 0;
}
