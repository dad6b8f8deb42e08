/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the build id of an ELF file, and where more of its symbols are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/elf-file.h"

typedef struct
{
  uint8_t build_id[SONDE_ELF_MAX_BUILD_ID];
  size_t build_id_size;   /* bytes, 0: it has none */
  char link_name[256];    /* of .gnu_debuglink, without any '/'; "" if it has none */
  uint32_t link_crc;      /* of the whole file of that name */
  uint64_t packed_offset; /* bytes into the file: .gnu_debugdata, an ELF file packed by xz */
  uint64_t packed_size;   /* bytes, 0: it has none */
} SondeDebugReference;

/* Returns 0, having left out what makes no sense, or as sonde_symbol_table_new(). @fd stays the
 * caller's. Source: gdb's manual, "Debugging Information in Separate Files" and "MiniDebugInfo". */
int sonde_debug_reference_read (int fd, SondeDebugReference *self);

/* Sets the build id alone, from hexadecimal digits. False if @hex is none that can name a file. */
bool sonde_debug_reference_parse (const char *hex, SondeDebugReference *self);
bool sonde_debug_reference_has_same_id (const SondeDebugReference *a, const SondeDebugReference *b);

/* The build id in hexadecimal; "" if there is none. */
void sonde_debug_reference_hex (const SondeDebugReference *self,
                                char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1]);
