/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads /proc/self/maps and the symbol tables of the files there, by system calls alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nothing here takes a lock or memory of libc's: hooks of signal handlers get here, too. */

/* Code of a file. */
typedef struct
{
  uint64_t lo;
  uint64_t hi;
  uint64_t offset;  /* of @lo, in the file */
  const char *path; /* as in maps; not followed by " (deleted)" */
} SondeCodeMapping;

/* FALSE ends it. */
typedef bool (*SondeCodeMappingCallback) (const SondeCodeMapping *mapping, void *user_data);

/* Those of files that are there, from the lowest address on; of the first MiB of the text. */
void sonde_module_symbols_list (SondeCodeMappingCallback callback, void *user_data);

/* @name: valid for the call */
typedef void (*SondeSymbolCallback) (const char *name,
                                     uint64_t address,
                                     uint64_t size_bytes,
                                     void *user_data);

/* The functions in the file's symbol table, or, if that was stripped, in its dynamic one, that lie
 * in @mapping. Of a file that cannot be read, or is none, there are none. */
void sonde_module_symbols_read (const SondeCodeMapping *mapping,
                                SondeSymbolCallback callback,
                                void *user_data);
