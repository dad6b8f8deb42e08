/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks for dynamic symbols of an ELF file by name. */
#pragma once

#include <elf.h>
#include <stddef.h>

#include "base/elf-file.h"

#define SONDE_EXPORTED_MAX_BYTES (8u << 20) /* of the symbols, and of their names */

/**
 * sonde_exported_find:
 * @file: loaded; hostile
 * @names: at most 32
 * @symbols: (out): one for each of @names; st_value 0: it is not defined
 *
 * Returns: 0 or a negative errno: -ENOENT there is no dynamic symbol table, -E2BIG it is too large,
 *   -EBADMSG it is impossible, -ENOEXEC a 32-bit file, -ENOMEM, or what pread() said
 */
int sonde_exported_find (const SondeElfFile *file,
                         const char *const *names,
                         size_t n_names,
                         Elf64_Sym *symbols);

/* All of a section. Returns: 0 and its bytes, free() them, or a negative errno as above */
int sonde_exported_read_section (
    const SondeElfFile *file, const char *name, uint32_t type, void **bytes, size_t *size_bytes);

/* @size_bytes at a virtual address of the file. Errors: -EBADMSG it has no such bytes, or what
 * pread() said. */
int sonde_exported_read (const SondeElfFile *file, uint64_t vaddr, void *bytes, size_t size_bytes);
