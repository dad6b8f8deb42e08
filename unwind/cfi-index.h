/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module's unwind data: the bytes of .eh_frame and a sorted table of its functions. */
#pragma once

#include "unwind/cfi-reader.h"
#include "unwind/elf-file.h"

/**
 * SECTION: cfi-index
 *
 * All of it lies in one allocation that is an ELF image at the same time, so that libdw can read it
 * without a copy of its own:
 *
 *   ELF header | PT_LOAD, PT_GNU_EH_FRAME | .eh_frame, 16 zero bytes | .eh_frame_hdr with our table
 *
 * The file's own .eh_frame_hdr is trusted for nothing: its table is taken over if it is sorted and
 * points into .eh_frame, else the table is built from the FDEs. A .debug_frame is rewritten to the
 * .eh_frame format, which differs in the CIE id and pointer only. Addresses are those in the file.
 */

/* As in .eh_frame_hdr: relative to @rows_vaddr. */
typedef struct
{
  int32_t begin;
  int32_t fde;
} SondeCfiIndexRow;

typedef struct
{
  uint8_t *image; /* owned; NULL: the module has no usable CFI */
  size_t image_size_bytes;
  SondeCfiSection section; /* into the image */
  SondeCfiIndexRow *rows;  /* into the image; sorted by begin */
  size_t n_rows;
  uint64_t rows_vaddr; /* of the image's .eh_frame_hdr */
} SondeCfiIndex;

/* @low and @high: the extent of the module. Leaves @self empty and returns -ENODATA without CFI,
 * -EFBIG over SONDE_MODULE_MAX_BYTES, -EBADMSG if nothing in it can be used, -ENOMEM, or what
 * pread() said. */
int
sonde_cfi_index_load (SondeCfiIndex *self, const SondeElfFile *file, uint64_t low, uint64_t high);
void sonde_cfi_index_clear (SondeCfiIndex *self);

/* The FDE around @vaddr and its CIE. */
bool sonde_cfi_index_find (const SondeCfiIndex *self,
                           uint64_t vaddr,
                           SondeCfiFde *fde,
                           SondeCfiCie *cie);

/* Does a function begin in [@begin, @end)? */
bool sonde_cfi_index_has_function_in (const SondeCfiIndex *self, uint64_t begin, uint64_t end);

/* Removes the functions that @keep does not want. */
void
sonde_cfi_index_filter (SondeCfiIndex *self,
                        bool (*keep) (const SondeCfiCie *cie, const SondeCfiFde *fde, void *data),
                        void *data);
