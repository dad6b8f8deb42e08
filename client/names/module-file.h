/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The symbols and lines of one mapped file, from wherever they are to be had. */
#pragma once

#include "client/model/capture-model.h"
#include "client/names/debug-files.h"
#include "symbols/symbol-table.h"

/**
 * SECTION: module-file
 *
 * Sources are opened when those before them do not know an address: the symbol tables of the file,
 * the table packed into it, its separate debug file. A debug file may stand for the file itself
 * where that is not to be had. What comes out is of foreign origin.
 */
typedef struct SondeModuleFile SondeModuleFile;

/* One function that an address is in. */
typedef struct
{
  char *function; /* as stored, may be mangled; NULL: unknown */
  char *file;     /* path of the source as it was compiled; NULL: unknown */
  guint line;     /* 0: unknown; of a caller: of the call */
  guint begin;    /* line that the function begins at; 0: unknown */
} SondeSourceFrame;

/**
 * sonde_module_file_new:
 * @fd: (transfer full): the file itself, or its debug file
 * @path: where it was found
 * @debug_files: (transfer none): kept by the caller as long as the result
 * @cache_folder: (nullable): where lines are kept, a file for each build id
 *
 * Returns: NULL if it is no ELF file of this machine's kind
 */
SondeModuleFile *sonde_module_file_new (int fd,
                                        const char *path,
                                        SondeDebugFiles *debug_files,
                                        const char *cache_folder);
void sonde_module_file_free (SondeModuleFile *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeModuleFile, sonde_module_file_free)

/* Where @address is in the file, by the @mapping that holds it. */
gboolean sonde_module_file_vaddr (const SondeModuleFile *self,
                                  const SondeModelMapping *mapping,
                                  guint64 address,
                                  guint64 *vaddr);

/* @symbol: (out): valid as long as the file */
gboolean sonde_module_file_lookup (SondeModuleFile *self, guint64 vaddr, SondeSymbol *symbol);

/* (transfer none): SondeSourceFrame, the innermost first; the last one is the function itself,
 * those before were inlined. Empty if nothing is known, NULL if there is no debug information. */
const GArray *sonde_module_file_lines (SondeModuleFile *self, guint64 vaddr);

/* Why an address has no name: "stripped, and no debug file in ...". */
char *sonde_module_file_describe_miss (SondeModuleFile *self);
