/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads foreign bytes as a map file of perf and as a jitdump, in two parts as a program writes
 * them, and looks names up. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/jit-file.h"
#include "tests/fuzz/fuzz.h"

#define ROOM (1u << 20)

static void
check_lookup (SondeJitMap *map, uint64_t address, int64_t time_ns)
{
  SondeJitCode code;

  if (!sonde_jit_map_lookup (map, address, time_ns, &code))
    return;
  if (address < code.begin || address >= code.end || strlen (code.name) == 0
      || strlen (code.name) > SONDE_JIT_MAP_MAX_NAME)
    abort ();
}

/* At each word of the file, which is where a dump's addresses stand, and at small numbers. */
static void
look_up (SondeJitMap *map, const uint8_t *data, size_t size, int64_t time_ns)
{
  for (size_t at = 0; at + sizeof (uint64_t) <= size; at++)
    {
      uint64_t address;

      memcpy (&address, data + at, sizeof address);
      check_lookup (map, address, time_ns);
    }
  for (uint64_t address = 0; address < 0x3000; address += 8)
    check_lookup (map, address, time_ns);
  check_lookup (map, UINT64_MAX, time_ns);
}

static void
follow (const uint8_t *data, size_t size, SondeJitFileKind kind)
{
  int fd = memfd_create ("jit", MFD_CLOEXEC);
  SondeJitMap *map = sonde_jit_map_new (ROOM);
  SondeJitFile *file = fd < 0 ? NULL : sonde_jit_file_new (dup (fd), kind, ROOM);
  size_t sizes[] = { size / 2, size, size / 3 };

  if (file == NULL || map == NULL)
    abort ();
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    {
      unsigned n_turns = 0;

      if (ftruncate (fd, (off_t) sizes[i]) < 0
          || (sizes[i] > 0 && pwrite (fd, data, sizes[i], 0) != (ssize_t) sizes[i]))
        abort ();
      while (sonde_jit_file_read (file, map, 1, i + 1) == 1)
        if (n_turns++ > size)
          abort ();
      look_up (map, data, size, i);
      if (sonde_jit_map_bytes (map) > ROOM)
        abort ();
    }
  look_up (map, data, size, INT64_MAX);
  sonde_jit_file_free (file);
  sonde_jit_map_free (map);
  close (fd);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  follow (data, size, SONDE_JIT_FILE_MAP);
  follow (data, size, SONDE_JIT_FILE_DUMP);

  return 0;
}
