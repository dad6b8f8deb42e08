/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads perf's map files and jitdump: the names that a program gave to code it made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/symbol-table.h"

/**
 * SECTION: jit-map
 *
 * Both kinds of file are of foreign origin, and may be written to while they are read: what is
 * whole counts. Code is moved and its memory used again; of several names the one that came last
 * holds, since nothing else tells of times.
 */
#define SONDE_JIT_MAP_MAX_BYTES   (512u << 20) /* of one file */
#define SONDE_JIT_MAP_MAX_ENTRIES (4u << 20)

typedef struct SondeJitMap SondeJitMap;

/* NULL: out of memory. */
SondeJitMap *sonde_jit_map_new (void);
void sonde_jit_map_free (SondeJitMap *self); /* accepts NULL */

/**
 * sonde_jit_map_read_text:
 *
 * Lines of "BEGIN SIZE NAME", numbers in hexadecimal. Other lines are passed over.
 *
 * Returns: 0, -EFBIG over a bound, -ENOMEM, or what pread() said
 * Source: the kernel's tools/perf/Documentation/jit-interface.txt
 */
int sonde_jit_map_read_text (SondeJitMap *self, int fd);

/**
 * sonde_jit_map_read_dump:
 *
 * Returns: as sonde_jit_map_read_text(); -ENOEXEC not a jitdump of this machine's byte order
 * Source: the kernel's tools/perf/Documentation/jitdump-specification.txt
 */
int sonde_jit_map_read_dump (SondeJitMap *self, int fd);

size_t sonde_jit_map_n_entries (const SondeJitMap *self);

/* Nothing may be read after the first look-up. @symbol: as in symbol-table.h, of the process. */
bool sonde_jit_map_lookup (SondeJitMap *self, uint64_t address, SondeSymbol *symbol);
