/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds call frame information of this process's own modules, where the dynamic linker put it. */
#pragma once

#include "unwind/cfi-reader.h"

/**
 * SECTION: loaded-cfi
 *
 * Read in place, by the linker's own table of functions (PT_GNU_EH_FRAME); all addresses are those
 * in memory. Which module an address is in tells _dl_find_object(), which takes no lock and may be
 * called anywhere, malloc() and signal handlers included. It is there since glibc 2.35; without it
 * nothing is ever found.
 *
 * The bytes are the process's own, but are read with all bounds, up to the end of their segment.
 * They are gone after a dlclose(): nothing found here may be used once the module can be gone.
 */
typedef struct
{
  SondeCfiSection section; /* .eh_frame, up to the end of its segment */
  const uint8_t *header;   /* .eh_frame_hdr */
  const uint8_t *rows;     /* of its table: two words of 4 bytes each, relative to @header */
  size_t n_rows;
} SondeLoadedCfi;

/* False: @address is in no module, or in one without such a table. Leaves errno alone. */
bool sonde_loaded_cfi_find_module (uint64_t address, SondeLoadedCfi *self);

/* The function around @address, in the module that was found for it. False: none. */
bool sonde_loaded_cfi_find_function (const SondeLoadedCfi *self,
                                     uint64_t address,
                                     SondeCfiCie *cie,
                                     SondeCfiFde *fde);
