/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module's unwind data as an ELF image in memory, for libdw. */
#pragma once

#include "unwind/cfi-index.h"

/**
 * SECTION: cfi-image
 *
 *   ELF header | PT_LOAD, PT_GNU_EH_FRAME | .eh_frame, zero bytes | .eh_frame_hdr
 *
 * The bytes of .eh_frame are those that the evaluator uses; the table in .eh_frame_hdr is another
 * one than its table, since libdw must not see all that it may.
 */

/* Makes @index's image an ELF file of a module from @low to @high, with the functions that @keep
 * wants. Moves the section. Errors: -ENOMEM, and all stays as it was; -ENODATA: it wants none, and
 * libdw, which reads the whole section where there is no table, must not have it. */
int sonde_cfi_image_make (SondeCfiIndex *index,
                          uint64_t low,
                          uint64_t high,
                          bool (*keep) (const SondeCfiCie *cie, const SondeCfiFde *fde, void *data),
                          void *data);
