/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the function names of one ELF file with bounded pread(), sorted by address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: symbol-table
 *
 * Reads .symtab and .dynsym (both, merged) of a hostile file, and .gopclntab where a program of Go
 * has no .symtab: bounded sizes, nothing mapped, nothing decompressed. Names come out as stored;
 * see demangle.h. One thread per table.
 */
#define SONDE_SYMBOL_TABLE_MAX_BYTES (256u << 20) /* symbols and strings of one file */

typedef struct SondeSymbolTable SondeSymbolTable;

typedef struct
{
  uint64_t begin; /* bytes, virtual address in the file */
  uint64_t end; /* bytes, first address behind; from st_size, or the next symbol where that is 0 */
  const char *name; /* the table's; may be invalid UTF-8 */
} SondeSymbol;

/* Returns 0, -ENOEXEC not an ELF file of this machine's class and order, -EFBIG over the bound,
 * -ENODATA no symbols, -EBADMSG impossible headers, -ENOMEM, or what pread() said. @fd stays the
 * caller's. */
int sonde_symbol_table_new (int fd, SondeSymbolTable **self);
void sonde_symbol_table_free (SondeSymbolTable *self); /* accepts NULL */
size_t sonde_symbol_table_n_symbols (const SondeSymbolTable *self);

/* The function that holds @vaddr. Of several at one address: global before weak before local, then
 * the one with fewer leading underscores, then the shorter name. */
bool sonde_symbol_table_lookup (const SondeSymbolTable *self, uint64_t vaddr, SondeSymbol *symbol);

/* Turns a file offset into a virtual address through PT_LOAD. For readers of MAP frames. */
bool sonde_symbol_table_vaddr (const SondeSymbolTable *self, uint64_t file_offset, uint64_t *vaddr);
