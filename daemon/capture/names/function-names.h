/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks up the functions of one module by name. */
#pragma once

#include <glib.h>
#include <stdint.h>

#define SONDE_FUNCTION_NAME_MAX 4096 /* bytes: a longer name is cut, of whatever file it is */

typedef struct SondeFunctionNames SondeFunctionNames;

/* Reads the symbol table, at most SONDE_SYMBOL_TABLE_MAX_BYTES. @fd: stays the caller's, who may
 * close it; -1: the file is not to be had any more. @file_name: for what has no symbol; copied */
SondeFunctionNames *sonde_function_names_new (int fd, const char *file_name);
void sonde_function_names_free (SondeFunctionNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFunctionNames, sonde_function_names_free)

/**
 * sonde_function_names_find:
 * @vaddr: in the file
 * @begin: (out): of the function
 * @end: (out): of the function, first address behind; always behind @vaddr
 *
 * Without a symbol the function is "FILE+0xADDRESS", where the address is its begin if the unwind
 * data tells that, else @vaddr.
 *
 * Returns: (transfer full): the name, demangled
 */
char *sonde_function_names_find (SondeFunctionNames *self,
                                 uint64_t vaddr,
                                 uint64_t *begin,
                                 uint64_t *end);
