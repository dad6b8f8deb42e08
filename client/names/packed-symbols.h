/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The small symbol table that Fedora and others pack into stripped files. */
#pragma once

#include "symbols/debug-reference.h"

#define SONDE_PACKED_SYMBOLS_MAX_BYTES (64u << 20) /* packed or not; libc's is 100 KiB */

/**
 * sonde_packed_symbols_open:
 * @fd: the file that @reference was read from; stays the caller's
 *
 * Unpacks .gnu_debugdata into memory, of which xz itself may use as much again.
 *
 * Returns: a descriptor of an ELF file; -1 if there is none or it is broken or too large
 */
int sonde_packed_symbols_open (int fd, const SondeDebugReference *reference);
