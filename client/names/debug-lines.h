/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads lines and inlined functions out of the DWARF of one ELF file, and keeps what it found. */
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

#define SONDE_LINE_CACHE_MAX_BYTES   (64u << 20) /* of all programs: the oldest ones go */
#define SONDE_LINE_CACHE_MAX_ENTRIES 200000u     /* addresses of one program */

/**
 * SECTION: line-cache
 *
 * One file for each build id: a GVariant of type (sa(ta(ssu))), of a stamp, and of addresses and
 * their frames ("" for what is unknown). A file with another stamp that is
 * damaged, or of somebody else, counts as none. Looking up DWARF of a large program takes seconds,
 * this takes none.
 */
typedef struct SondeLineCache SondeLineCache;

/* @folder: (nullable): made when first needed; usually "sonde/lines" in the user's cache; NULL
 * keeps nothing
 * @build_id: in hexadecimal
 * @stamp: of the program; what was kept with another one is not used */
SondeLineCache *sonde_line_cache_new (const char *folder, const char *build_id, const char *stamp);

/* Writes what was added. Accepts NULL. */
void sonde_line_cache_free (SondeLineCache *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeLineCache, sonde_line_cache_free)

/* (transfer none): SondeSourceFrame, or NULL if @vaddr is not there */
const GArray *sonde_line_cache_lookup (const SondeLineCache *self, guint64 vaddr);

/* @frames: (transfer full) */
void sonde_line_cache_add (SondeLineCache *self, guint64 vaddr, GArray *frames);
