/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the reader of /proc/kallsyms and looks names up. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/kallsyms.h"
#include "tests/fuzz/fuzz.h"

static void
check_name (const SondeKallsyms *symbols, uint64_t address)
{
  const char *name;

  if (sonde_kallsyms_lookup (symbols, address, &name) && name[0] == '\0')
    abort ();
}

/* At each number in the text, and beside it. */
static void
look_up (const SondeKallsyms *symbols, const uint8_t *data, size_t size)
{
  for (size_t i = 0; i < size; i++)
    if (i == 0 || data[i - 1] == '\n')
      {
        char number[17] = { 0 };
        uint64_t address;

        memcpy (number, data + i, size - i < 16 ? size - i : 16);
        address = strtoull (number, NULL, 16);
        check_name (symbols, address);
        check_name (symbols, address - 1);
        check_name (symbols, address + (1 << 20));
      }
  check_name (symbols, 0);
  check_name (symbols, UINT64_MAX);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  int fd = memfd_create ("kallsyms", MFD_CLOEXEC);
  SondeKallsyms *symbols = NULL;

  if (fd < 0 || (size > 0 && pwrite (fd, data, size, 0) != (ssize_t) size))
    abort ();
  if (sonde_kallsyms_new (fd, &symbols) == 0)
    look_up (symbols, data, size);
  sonde_kallsyms_free (symbols);
  close (fd);

  return 0;
}
