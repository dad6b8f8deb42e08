/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Decodes the line tables of code objects, of CPython and of Ruby. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum
{
  SONDE_LINE_TABLE_NONE,      /* PHP: a frame has its line itself, and 0 for none */
  SONDE_LINE_TABLE_PAIRS,     /* 3.8, 3.9: co_lnotab */
  SONDE_LINE_TABLE_RANGES,    /* 3.10: co_linetable */
  SONDE_LINE_TABLE_LOCATIONS, /* 3.11 and later: the location table */
  SONDE_LINE_TABLE_INDEXED,   /* Ruby: SondeWalkLines, a succinct index, entries with lines */
} SondeLineTableKind;

/**
 * sonde_line_table_find:
 * @bytes: hostile; may have been cut
 * @at: bytes of code before the instruction; negative: before the first
 *
 * Returns: its line; @first_line if the table does not tell, 0 if it says that there is none
 * Source: Objects/lnotab_notes.txt and Objects/locations.md of CPython; of Ruby iseq.c,
 *   succ_index_lookup(), and struct iseq_insn_info_entry in iseq.h
 */
uint32_t sonde_line_table_find (SondeLineTableKind kind,
                                const uint8_t *bytes,
                                size_t size_bytes,
                                uint32_t first_line,
                                int64_t at);
