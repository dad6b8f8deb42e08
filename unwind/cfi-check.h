/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads call frame instructions to the end, to tell which ones may be shown to libdw. */
#pragma once

#include "unwind/cfi-reader.h"

/**
 * SECTION: cfi-check
 *
 * libdw 0.188 interprets call frame instructions without limits of its own: it allocates one slot
 * for each register up to the largest number it meets, copies them at each remember_state, reads
 * behind truncated operands, and leaks when an expression has an unknown operation. Everything here
 * is what compilers emit, by a wide margin; the rest never reaches libdw.
 */
#define SONDE_CFI_MAX_REGISTER     128   /* x86-64 and AArch64 number theirs below */
#define SONDE_CFI_MAX_STATES       16    /* nested remember_state */
#define SONDE_CFI_MAX_EXPRESSION   256   /* bytes */
#define SONDE_CFI_MAX_INSTRUCTIONS 65536 /* bytes of one CIE or FDE */

/* The work for one module, so that many FDEs with one large CIE do not cost their product. */
typedef struct
{
  uint64_t budget_bytes;
  size_t cie_offset; /* the last one checked */
  bool cie_is_safe;
} SondeCfiCheck;

void sonde_cfi_check_init (SondeCfiCheck *self, size_t section_size_bytes);

/* False as well when the budget is used up. */
bool sonde_cfi_check_fde (SondeCfiCheck *self, const SondeCfiCie *cie, const SondeCfiFde *fde);
