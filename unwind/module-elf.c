/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module as libdw sees it: the only part of a module that needs libelf. */
#include <errno.h>
#include <libelf.h>

#include "unwind/cfi-check.h"
#include "unwind/cfi-image.h"
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

/* 32-bit files are not for libdwfl, see sonde_unwinder_new_libdwfl(). */
static bool
make_image (SondeModule *self)
{
  size_t n_bytes = sonde_cfi_index_bytes (&self->cfi);
  SondeCfiCheck check;
  int r;

  if (self->cfi.image == NULL || self->is_32_bit || self->is_unusable)
    return false;
  if (self->has_image)
    return true;
  sonde_cfi_check_init (&check, self->cfi.section.size_bytes);
  r = sonde_cfi_image_make (&self->cfi, self->low, self->high, is_safe, &check);
  self->has_image = r == 0;
  self->is_unusable = r == -ENODATA;
  if (self->store != NULL)
    sonde_module_store_grow (self->store, self, sonde_cfi_index_bytes (&self->cfi) - n_bytes);
  return self->has_image;
}

/* libdw 0.188 leaves two small allocations in the Elf for each Dwfl that used it, so a new one
 * takes over from time to time; the old one lives until its last user ends it. */
struct Elf *
sonde_module_elf (SondeModule *self)
{
  if (!make_image (self))
    return NULL;
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
