/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module as libdw sees it: the only part of a module that needs libelf. */
#include <libelf.h>

#include "unwind/cfi-check.h"
#include "unwind/module-private.h"

#define MAX_ELF_USES 1024

static void
end_elf (SondeModule *self)
{
  elf_end (self->elf);
}

static bool
is_safe (const SondeCfiCie *cie, const SondeCfiFde *fde, void *data)
{
  return sonde_cfi_check_fde (data, cie, fde);
}

static void
drop_unsafe (SondeCfiIndex *cfi)
{
  SondeCfiCheck check;

  sonde_cfi_check_init (&check, cfi->section.size_bytes);
  sonde_cfi_index_filter (cfi, is_safe, &check);
}

/* libdw 0.188 leaves two small allocations in the Elf for each Dwfl that used it, so a new one
 * takes over from time to time; the old one lives until its last user ends it. */
struct Elf *
sonde_module_elf (SondeModule *self)
{
  if (self->cfi.image == NULL)
    return NULL;
  if (!self->is_checked)
    {
      drop_unsafe (&self->cfi);
      self->is_checked = true;
    }
  if (self->elf == NULL || ++self->n_elf_uses >= MAX_ELF_USES)
    {
      elf_end (self->elf);
      elf_version (EV_CURRENT);
      self->elf = elf_memory ((char *) self->cfi.image, self->cfi.image_size_bytes);
      self->end_elf = end_elf;
      self->n_elf_uses = 0;
    }
  return self->elf;
}
