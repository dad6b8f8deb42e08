/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines and inlined functions of one ELF file with DWARF. */
#pragma once

#include <glib.h>

typedef struct SondeDebugLines SondeDebugLines;

#define SONDE_MAX_INLINES                                                                          \
  64 /* frames of one address; of more those next to the function are left out */

/* One function that an address is in. */
typedef struct
{
  char *function; /* as stored, may be mangled; NULL: unknown */
  char *file;     /* base name of the source; NULL: unknown */
  guint line;     /* 0: unknown; of a caller: of the call */
} SondeSourceFrame;

void sonde_source_frame_clear (SondeSourceFrame *frame);

/**
 * sonde_debug_lines_new:
 * @fd: (transfer full): an ELF file, of foreign origin
 *
 * Returns: NULL if it has no debug information that libdw can read
 */
SondeDebugLines *sonde_debug_lines_new (int fd);
void sonde_debug_lines_free (SondeDebugLines *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeDebugLines, sonde_debug_lines_free)

/**
 * sonde_debug_lines_lookup:
 * @vaddr: in the file
 *
 * Returns: (transfer full): SondeSourceFrame, the innermost first, its clear function set; the last
 *   one is the function itself, those before were inlined. Empty if nothing is known
 */
GArray *sonde_debug_lines_lookup (SondeDebugLines *self, guint64 vaddr);
