/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Go's table of functions in a module, and the rules that follow from it. */
#pragma once

#include "base/elf-file.h"
#include "base/go-table.h"
#include "unwind/cfi-rule.h"

/**
 * SECTION: go-functions
 *
 * The bytes of .gopclntab in private memory, read in slices as .eh_frame is. Frames of Go's
 * functions have a fixed shape, so a rule needs no more than how far the stack pointer has come
 * down.
 */
typedef struct SondeGoFunctions
{
  SondeElfFile file; /* without what it owns; until all is read */
  uint64_t offset;   /* of the section */
  uint64_t text;     /* address of .text, for tables that leave it out */
  uint8_t *bytes;    /* owned; NULL: no table */
  size_t size_bytes;
  size_t at; /* how many bytes are there */
  SondeGoTable table;
  bool is_usable; /* it is a table */
} SondeGoFunctions;

/* Looks for the section in @file, which must stay open. */
void sonde_go_functions_find (SondeGoFunctions *self, const SondeElfFile *file);
void sonde_go_functions_clear (SondeGoFunctions *self);
/* As sonde_cfi_index_discard(): then clear it. */
bool sonde_go_functions_discard (SondeGoFunctions *self, uint32_t *work);

/* Does @work units at most, takes from *@work what it did (see module-private.h). @max_bytes: a
 * larger table is left out. Returns 1 if there is more to do, 0 when it is complete. Errors:
 * -ENOMEM. What cannot be read or is no table is left out, too. */
int sonde_go_functions_read (SondeGoFunctions *self, size_t max_bytes, uint32_t *work);

/* The function around @vaddr. */
bool sonde_go_functions_range (const SondeGoFunctions *self,
                               uint64_t vaddr,
                               uint64_t *begin,
                               uint64_t *end);

/* The rule at @vaddr, which holds from *@begin up to *@end. It is NONE, and they stay as they were,
 * outside of Go's functions. False: @work was not enough, which says nothing of the rule. */
bool sonde_go_functions_rule (const SondeGoFunctions *self,
                              uint64_t vaddr,
                              SondeArch arch,
                              uint32_t *work,
                              SondeRule *rule,
                              uint64_t *begin,
                              uint64_t *end);
