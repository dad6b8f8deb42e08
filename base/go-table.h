/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the table of functions that Go's linker leaves in each program, stripped ones too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: go-table
 *
 * Go's programs have no .eh_frame; what their own runtime walks stacks by is .gopclntab: for each
 * function its name, and how far the stack pointer has come down at each of its instructions. Three
 * layouts are known: of Go 1.16 and 1.17, of 1.18 and 1.19, and of 1.20 and later.
 *
 * The bytes are a hostile file's: each number is compared with their size before it is used, and
 * nothing is kept but places in them. Source: Go's src/debug/gosym/pclntab.go and
 * src/runtime/symtab.go
 */
#define SONDE_GO_MAX_NAME 4096 /* bytes; a longer one is none */

typedef struct
{
  const uint8_t *bytes; /* not owned */
  size_t size_bytes;
  bool has_offsets;   /* entries count from text, in four bytes; else they are addresses */
  uint8_t quantum;    /* bytes of the shortest instruction */
  uint64_t text;      /* address of the first function */
  size_t n_functions; /* the table has one row more, which says where the last one ends */
  size_t names;       /* places in bytes: of names, */
  size_t sizes;       /* of what says how far the stack pointer has come down, */
  size_t functions;   /* of the table, and what its rows count from */
} SondeGoTable;

typedef struct
{
  uint64_t begin; /* bytes, virtual address in the file */
  uint64_t end;
  size_t name;  /* place in the table's bytes */
  size_t sizes; /* the same, of its own; 0: none */
} SondeGoFunction;

/**
 * sonde_go_table_parse:
 * @text: address of the file's .text
 * @entry: of its entry point
 *
 * Since Go 1.26 the table does not say where its functions begin. That it is at @text is believed
 * if @entry is where Go's own entry point would be then: with C's code before Go's it is another.
 *
 * Returns: false: there is no such table, or it has no place
 */
bool sonde_go_table_parse (
    SondeGoTable *self, const uint8_t *bytes, size_t size, uint64_t text, uint64_t entry);

/* Function number @i. False: it makes no sense, or there is none. */
bool sonde_go_table_get (const SondeGoTable *self, size_t i, SondeGoFunction *function);
/* The function around @vaddr. */
bool sonde_go_table_find (const SondeGoTable *self, uint64_t vaddr, SondeGoFunction *function);

/* Its name, which is the table's and ends with a NUL. NULL: it has none. */
const char *sonde_go_table_name (const SondeGoTable *self, const SondeGoFunction *function);

/**
 * sonde_go_table_stack_size:
 * @work: (inout): steps that may be made, and are left
 * @size_bytes: (out): how far the stack pointer has come down since the function's begin
 * @begin: (out): from which address on that holds
 * @end: (out): and up to which
 *
 * Returns: 0, -ENODATA the table does not say, -EBADMSG, or -EDQUOT: the steps were not enough
 */
int sonde_go_table_stack_size (const SondeGoTable *self,
                               const SondeGoFunction *function,
                               uint64_t vaddr,
                               uint32_t *work,
                               int32_t *size_bytes,
                               uint64_t *begin,
                               uint64_t *end);
