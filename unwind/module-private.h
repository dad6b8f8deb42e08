/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The struct of a module, between module.c, which fills it, and module-store.c, which keeps it. */
#pragma once

#include <sys/types.h>

#include "unwind/cfi-builder.h"
#include "unwind/module.h"

/* What tells opened files apart whatever names and ids lead to them. */
typedef struct
{
  uint64_t device;
  uint64_t inode;
  uint64_t size_bytes;
  int64_t modified_ns;
  int64_t changed_ns;
} SondeModuleIdentity;

struct SondeUnwindModule
{
  size_t n_refs;           /* one is the store's */
  SondeModuleStore *store; /* NULL once the store is gone */
  uint32_t id;
  int fd;                       /* owned, or -1 */
  SondeModuleIdentity identity; /* two ids that lead to it share one module */
  SondeElfSegment *loads;
  size_t n_loads;
  uint64_t entry;
  uint64_t low;
  uint64_t high;
  bool is_32_bit;
  char build_id[2 * SONDE_ELF_MAX_BUILD_ID + 1]; /* hexadecimal; "": none */
  SondeCfiIndex cfi;
  SondeCfiBuilder *builder; /* NULL: cfi is complete */
  size_t n_bytes;           /* what the store accounts for it */
  struct Elf *elf;
  void (*end_elf) (SondeUnwindModule *self); /* set with elf: only then libelf is there */
  unsigned n_elf_uses;
  bool has_image;   /* cfi's image was made one for libdw */
  bool is_unusable; /* none of its functions is for libdw */

  struct SondeModuleEntry *entries; /* the store's ids that lead to it */
  SondeUnwindModule *newer; /* the store's list by use; its queue of those being read or freed */
  SondeUnwindModule *older;
};

/* Reads the headers. @fd is kept on success; NULL @memory: read from @fd. Errors: as
 * sonde_module_store_load(). */
int
sonde_module_new (int fd, const uint8_t *memory, uint64_t size_bytes, SondeUnwindModule **module);
/* This process's own vdso, complete. Errors: -ENOENT without one. */
int sonde_module_new_vdso (SondeUnwindModule **module);
void sonde_module_free (SondeUnwindModule *self);

/* Reads the unwind data, with @work units of work (cfi-builder.h) at most, and takes from *@work
 * what it did. Returns 1 if there is more to do, 0 when the module is complete. Errors: -ENOMEM, or
 * what pread() said. */
int sonde_module_read (SondeUnwindModule *self, uint32_t *work);

/* The module takes more memory than was accounted for. */
void sonde_module_store_grow (SondeModuleStore *self, SondeUnwindModule *module, size_t n_bytes);

/* Nobody but the store holds it any more. */
void sonde_module_store_set_idle (SondeModuleStore *self, SondeUnwindModule *module);

/* For tests of the back-off: nanoseconds that only rise, instead of CLOCK_MONOTONIC. */
void sonde_module_store_set_clock (SondeModuleStore *self, int64_t (*now_ns) (void));
/* Changes whenever a module became ready. */
uint64_t sonde_module_store_serial (const SondeModuleStore *self);
