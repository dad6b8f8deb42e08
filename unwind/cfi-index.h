/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The bytes of a module's .eh_frame, with a sorted table of its functions. */
#pragma once

#include "unwind/cfi-reader.h"

/**
 * SECTION: cfi-index
 *
 * The bytes are those of the file, a .debug_frame rewritten to the .eh_frame format; the table is
 * ours, see module-private.h. Addresses are those in the file.
 */

typedef struct
{
  int32_t begin; /* bytes from the section's address */
  uint32_t fde;  /* bytes into the section */
} SondeCfiIndexRow;

typedef struct
{
  uint8_t *image; /* owned; room for headers, .eh_frame, zero bytes. NULL: there is no usable CFI */
  size_t image_size_bytes;
  SondeCfiSection section; /* into the image */
  SondeCfiIndexRow *rows;  /* owned; sorted by begin */
  size_t n_rows;
} SondeCfiIndex;

/* How an image begins and ends around .eh_frame. */
#define SONDE_CFI_IMAGE_SECTION_OFFSET                                                             \
  192                              /* behind an ELF header and two program headers, rounded up */
#define SONDE_CFI_IMAGE_PADDING 16 /* zero bytes: a terminator, and room for a careless reader */

void sonde_cfi_index_clear (SondeCfiIndex *self);

/* Gives the kernel back what of a @block of *@size_bytes lies behind the first @keep_bytes, with
 * *@work at most (see module-private.h): free() gives all back at once, which takes long if it is
 * much. What is given back must not be read again. True when so little is left that free() may have
 * it. */
bool sonde_cfi_discard (void *block, size_t keep_bytes, size_t *size_bytes, uint32_t *work);
/* The same for all of @self; then clear it. */
bool sonde_cfi_index_discard (SondeCfiIndex *self, uint32_t *work);

size_t sonde_cfi_index_bytes (const SondeCfiIndex *self); /* of memory */

/* The FDE that @row says and its CIE. */
bool sonde_cfi_index_read (const SondeCfiIndex *self,
                           const SondeCfiIndexRow *row,
                           SondeCfiFde *fde,
                           SondeCfiCie *cie);

/* The FDE around @vaddr and its CIE. */
bool sonde_cfi_index_find (const SondeCfiIndex *self,
                           uint64_t vaddr,
                           SondeCfiFde *fde,
                           SondeCfiCie *cie);

/* The FDE that stands behind the one around @vaddr in the section, if it is of the same function: a
 * compiler puts code that it takes for cold elsewhere, amid the frame that the function has made by
 * then; so its rules do not begin with those of a call. */
bool sonde_cfi_index_find_part (const SondeCfiIndex *self,
                                uint64_t vaddr,
                                SondeCfiFde *fde,
                                SondeCfiCie *cie);

/* Does a function begin in [@begin, @end)? */
bool sonde_cfi_index_has_function_in (const SondeCfiIndex *self, uint64_t begin, uint64_t end);
