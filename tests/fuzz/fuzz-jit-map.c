/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads foreign bytes as a map file of perf and as a jitdump, and looks names up. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/jit-map.h"
#include "tests/fuzz/fuzz.h"

static void
check_lookup (SondeJitMap *map, uint64_t address)
{
  SondeSymbol symbol;

  if (!sonde_jit_map_lookup (map, address, &symbol))
    return;
  if (address < symbol.begin || address >= symbol.end || strlen (symbol.name) == 0)
    abort ();
}

/* At each word of the file, which is where a dump's addresses stand, and at small numbers. */
static void
look_up (SondeJitMap *map, const uint8_t *data, size_t size)
{
  for (size_t at = 0; at + sizeof (uint64_t) <= size; at++)
    {
      uint64_t address;

      memcpy (&address, data + at, sizeof address);
      check_lookup (map, address);
    }
  for (uint64_t address = 0; address < 0x3000; address += 8)
    check_lookup (map, address);
  check_lookup (map, UINT64_MAX);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  int fd = memfd_create ("jit", MFD_CLOEXEC);
  SondeJitMap *map = sonde_jit_map_new ();

  if (fd < 0 || map == NULL || (size > 0 && pwrite (fd, data, size, 0) != (ssize_t) size))
    abort ();
  sonde_jit_map_read_text (map, fd);
  sonde_jit_map_read_dump (map, fd);
  look_up (map, data, size);
  sonde_jit_map_free (map);
  close (fd);

  return 0;
}
