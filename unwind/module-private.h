/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What module.c and module-store.c share. */
#pragma once

#include <sys/types.h>

#include "unwind/cfi-index.h"
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
  SondeCfiIndex cfi;
  size_t n_bytes; /* what the store accounts for it */
  struct Elf *elf;
  void (*end_elf) (SondeModule *self); /* set with elf: only then libelf is there */
  unsigned n_elf_uses;
  bool is_checked; /* cfi was made safe for libdw */

  SondeModule *newer; /* the store's list by use */
  SondeModule *older;
};

/* @fd is kept; NULL @memory: read from @fd. Errors: as sonde_module_store_load(). */
int sonde_module_new (int fd, const uint8_t *memory, uint64_t size_bytes, SondeModule **module);
void sonde_module_free (SondeModule *self);

/* Nobody but the store holds it any more. */
void sonde_module_store_set_idle (SondeModuleStore *self, SondeModule *module);

/* For tests of the back-off: nanoseconds that only rise, instead of CLOCK_MONOTONIC. */
void sonde_module_store_set_clock (SondeModuleStore *self, int64_t (*now_ns) (void));
/* Changes whenever a module became ready. */
uint64_t sonde_module_store_serial (const SondeModuleStore *self);
