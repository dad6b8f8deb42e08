/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines and inlined functions of one program, kept from one run to the next. */
#pragma once

#include "client/names/debug-lines.h"

#define SONDE_LINE_CACHE_MAX_BYTES   (64u << 20) /* of all programs: the oldest ones go */
#define SONDE_LINE_CACHE_MAX_ENTRIES 200000u     /* addresses of one program */

/**
 * SECTION: line-cache
 *
 * One file for each build id: a GVariant of type (sa(ta(ssu))), of a stamp, and of addresses and
 * their frames as in debug-lines.h ("" for what is unknown). A file with another stamp that is
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
