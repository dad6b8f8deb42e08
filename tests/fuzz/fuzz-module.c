/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the module store as a file, then looks at every function in it. */
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "unwind/cfi-rule.h"
#include "unwind/module-private.h"

#define MAX_FUNCTIONS 256

static void
check_address (const SondeUnwindModule *module, uint64_t vaddr)
{
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  uint32_t work = UINT32_MAX;
  SondeCfiRow row;
  SondeRule rule;

  sonde_module_is_entry (module, vaddr);
  if (!sonde_module_find_cfi (module, vaddr, &section, &cie, &fde))
    return;
  if (vaddr < fde.begin || vaddr >= fde.end)
    abort ();
  if (sonde_cfi_row_find (section, &cie, &fde, vaddr, &work, &row) < 0)
    return;
  if (row.begin < fde.begin || row.begin > vaddr || row.end <= vaddr || row.end > fde.end)
    abort ();
  sonde_rule_from_row (&rule, &row, section, SONDE_ARCH_X86_64);
  sonde_rule_from_row (&rule, &row, section, SONDE_ARCH_AARCH64);
  sonde_rule_from_row (&rule, &row, section, SONDE_ARCH_I386);
}

static void
check_functions (const SondeUnwindModule *module)
{
  const SondeCfiIndex *cfi = &module->cfi;

  for (size_t i = 0; i < cfi->n_rows && i < MAX_FUNCTIONS; i++)
    {
      uint64_t vaddr = cfi->section.vaddr + (uint64_t) (int64_t) cfi->rows[i].begin;
      uint64_t begin, end;

      check_address (module, vaddr - 1);
      check_address (module, vaddr);
      if (!sonde_module_find_function (module, vaddr, &begin, &end))
        continue;
      check_address (module, begin + (end - begin) / 2);
      check_address (module, end - 1);
      if (sonde_module_find_part (module, vaddr, &begin, &end) && begin >= end)
        abort ();
    }
}

/* Around each function of Go's table: what holds, holds there. */
static void
check_go_functions (const SondeUnwindModule *module)
{
  const SondeGoFunctions *go = sonde_module_go_functions (module);

  for (size_t i = 0; go->is_usable && i < go->table.n_functions && i < MAX_FUNCTIONS; i++)
    {
      SondeGoFunction function;
      uint64_t places[3];

      if (!sonde_go_table_get (&go->table, i, &function))
        continue;
      places[0] = function.begin;
      places[1] = function.begin + (function.end - function.begin) / 2;
      places[2] = function.end - 1;
      for (unsigned k = 0; k < 3; k++)
        {
          uint64_t begin = places[k];
          uint64_t end = begin + 1;
          uint32_t work = 1u << 17;
          SondeRule rule;

          if (!sonde_go_functions_rule (go, places[k], SONDE_ARCH_X86_64, &work, &rule, &begin,
                                        &end))
            continue;
          if (begin > places[k] || end <= places[k] || rule.cfa_offset < 0)
            abort ();
        }
    }
}

/* Read in slices as small as they can be, the file gives the same table. */
static void
check_slices (const uint8_t *data, size_t size, const SondeUnwindModule *whole)
{
  SondeUnwindModule *module;
  int r;

  if (sonde_module_new (-1, data, size, &module) < 0)
    abort ();
  do
    {
      uint32_t work = 1;

      r = sonde_module_read (module, &work);
    }
  while (r == 1);
  if (r < 0 || module->go.is_usable != whole->go.is_usable
      || module->go.size_bytes != whole->go.size_bytes || module->cfi.n_rows != whole->cfi.n_rows
      || module->cfi.section.size_bytes != whole->cfi.section.size_bytes)
    abort ();
  if (whole->cfi.n_rows > 0
      && memcmp (module->cfi.rows, whole->cfi.rows, whole->cfi.n_rows * sizeof *whole->cfi.rows)
             != 0)
    abort ();
  sonde_module_free (module);
}

static int
open_bytes (const uint8_t *data, size_t size)
{
  int fd = memfd_create ("module", MFD_CLOEXEC);

  if (fd < 0 || write (fd, data, size) != (ssize_t) size)
    abort ();
  return fd;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  SondeModuleStore *store = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  const SondeFileId id = { .inode = 1 };
  SondeUnwindModule *module;
  uint64_t bias;

  elf_version (EV_CURRENT);
  if (store == NULL || sonde_module_store_load (store, &id, open_bytes (data, size)) < 0)
    {
      sonde_module_store_free (store);
      return 0;
    }
  if (sonde_module_store_lookup (store, &id, &module) != SONDE_MODULE_READY)
    abort ();
  sonde_module_bias (module, UINT64_C (0x7f0000000000), 0x1000, &bias);
  sonde_module_has_bare_entry (module);
  check_slices (data, size, module);
  check_functions (module);
  check_go_functions (module);
  sonde_module_elf (module); /* moves the section */
  check_functions (module);
  sonde_module_store_free (store);

  return 0;
}
