/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads a module's unwind data and makes its table, a slice of bounded work at a time. */
#pragma once

#include "unwind/cfi-index.h"
#include "base/elf-file.h"

/**
 * SECTION: cfi-builder
 *
 * The file's own .eh_frame_hdr is trusted for nothing: its table is taken over if it is sorted and
 * points into .eh_frame, else the table is built from the FDEs and sorted. A .debug_frame is
 * rewritten to the .eh_frame format, which differs in the CIE id and pointer only.
 *
 * Work is counted in units of about 50 ns: an FDE looked at, a few rows or some bytes moved.
 */
typedef struct SondeCfiBuilder SondeCfiBuilder;

/* @file must stay open, its other members need not stay; @low: the module's lowest address.
 * Errors: -ENODATA without CFI, -EFBIG over SONDE_MODULE_MAX_BYTES, -EBADMSG, -ENOMEM. */
int sonde_cfi_builder_new (const SondeElfFile *file, uint64_t low, SondeCfiBuilder **builder);
void sonde_cfi_builder_free (SondeCfiBuilder *self); /* accepts NULL */

/* Does @work units of work at most and takes from *@work what it did. Returns 1 if there is more
 * to do, 0 when @index (transfer full) is filled. Errors: -EFBIG, -EBADMSG if nothing can be used,
 * -ENOMEM, or what pread() said. */
int sonde_cfi_builder_run (SondeCfiBuilder *self, uint32_t *work, SondeCfiIndex *index);
