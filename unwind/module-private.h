/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module from inside: module.c fills it, cfi-builder.c makes its table, and module-store.c keeps
 * it. */
#pragma once

#include <sys/types.h>

#include "base/elf-file.h"
#include "unwind/cfi-index.h"
#include "unwind/go-functions.h"
#include "unwind/module.h"

/**
 * SondeCfiBuilder:
 *
 * Reads the unwind data and makes the table, a slice of bounded work at a time.
 *
 * The file's own .eh_frame_hdr is trusted for nothing: its table is taken over if it is sorted and
 * points into .eh_frame, else the table is built from the FDEs and sorted. A .debug_frame is
 * rewritten to the .eh_frame format, which differs in the CIE id and pointer only.
 *
 * Work is counted in units of about 50 ns: an FDE looked at, a few rows or some bytes moved.
 */
typedef struct SondeCfiBuilder SondeCfiBuilder;

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
  SondeGoFunctions go;      /* for code without CFI */
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

/* Reads the unwind data, with @work units of work at most, and takes from *@work what it did.
 * Returns 1 if there is more to do, 0 when the module is complete. Errors: -ENOMEM, or what pread()
 * said. */
int sonde_module_read (SondeUnwindModule *self, uint32_t *work);

/* Gives back memory of a module that nobody has any more, with *@work at most; true when it may be
 * freed. */
bool sonde_module_discard (SondeUnwindModule *self, uint32_t *work);

/* Of a complete module: it goes on without Go's table. Returns: how many bytes it is smaller by */
size_t sonde_module_drop_go_functions (SondeUnwindModule *self);

/* @file must stay open, its other members need not stay; @low: the module's lowest address.
 * Errors: -ENODATA without CFI, -EFBIG over SONDE_MODULE_MAX_BYTES, -EBADMSG, -ENOMEM. */
int sonde_cfi_builder_new (const SondeElfFile *file, uint64_t low, SondeCfiBuilder **builder);
void sonde_cfi_builder_free (SondeCfiBuilder *self); /* accepts NULL */

/* Does @work units of work at most and takes from *@work what it did. Returns 1 if there is more
 * to do, 0 when @index (transfer full) is filled. Errors: -EFBIG, -EBADMSG if nothing can be used,
 * -ENOMEM, or what pread() said. */
int sonde_cfi_builder_run (SondeCfiBuilder *self, uint32_t *work, SondeCfiIndex *index);

/* The module takes more memory than was accounted for. */
void sonde_module_store_grow (SondeModuleStore *self, SondeUnwindModule *module, size_t n_bytes);

/* Nobody but the store holds it any more. */
void sonde_module_store_set_idle (SondeModuleStore *self, SondeUnwindModule *module);

/* For tests of the back-off: nanoseconds that only rise, instead of CLOCK_MONOTONIC. */
void sonde_module_store_set_clock (SondeModuleStore *self, int64_t (*now_ns) (void));
/* Changes whenever a module became ready. */
uint64_t sonde_module_store_serial (const SondeModuleStore *self);
