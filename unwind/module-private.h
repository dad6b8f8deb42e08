/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What module.c and module-store.c share. */
#pragma once

#include <sys/types.h>

#include "unwind/cfi-builder.h"
#include "unwind/module.h"

/* The file that was opened; two ids that lead to it share one module. */
typedef struct
{
  uint64_t device;
  uint64_t inode;
  uint64_t size_bytes;
  int64_t modified_ns;
  int64_t changed_ns;
} SondeModuleIdentity;

struct SondeModule
{
  size_t n_refs;           /* one is the store's */
  SondeModuleStore *store; /* NULL once the store is gone */
  uint32_t id;
  int fd; /* owned, or -1 */
  SondeModuleIdentity identity;
  SondeElfSegment *loads;
  size_t n_loads;
  uint64_t entry;
  uint64_t low;
  uint64_t high;
  bool is_32_bit;
  SondeCfiIndex cfi;
  SondeCfiBuilder *builder; /* NULL: cfi is complete */
  size_t n_bytes;           /* what the store accounts for it */
  struct Elf *elf;
  void (*end_elf) (SondeModule *self); /* set with elf: only then libelf is there */
  unsigned n_elf_uses;
  bool has_image; /* cfi's image was made one for libdw */

  SondeModule *newer; /* the store's list by use; of modules being read, that by age */
  SondeModule *older;
};

/* Reads the headers. @fd is kept on success; NULL @memory: read from @fd. Errors: as
 * sonde_module_store_load(). */
int sonde_module_new (int fd, const uint8_t *memory, uint64_t size_bytes, SondeModule **module);
/* This process's own vdso, complete. Errors: -ENOENT without one. */
int sonde_module_new_vdso (SondeModule **module);
void sonde_module_free (SondeModule *self);

/* Reads the unwind data, with @work units of work (cfi-builder.h) at most, and takes from *@work
 * what it did. Returns 1 if there is more to do, 0 when the module is complete. Errors: -ENOMEM, or
 * what pread() said. */
int sonde_module_read (SondeModule *self, uint32_t *work);

/* The module takes more memory than was accounted for. */
void sonde_module_store_grow (SondeModuleStore *self, SondeModule *module, size_t n_bytes);

/* Nobody but the store holds it any more. */
void sonde_module_store_set_idle (SondeModuleStore *self, SondeModule *module);

/* For tests of the back-off: nanoseconds that only rise, instead of CLOCK_MONOTONIC. */
void sonde_module_store_set_clock (SondeModuleStore *self, int64_t (*now_ns) (void));
/* Changes whenever a module became ready. */
uint64_t sonde_module_store_serial (const SondeModuleStore *self);
