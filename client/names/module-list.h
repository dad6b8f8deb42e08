/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files of a capture's mappings that are on this machine. */
#pragma once

#include "client/model/capture-model.h"
#include "client/names/module-file.h"

typedef struct
{
  SondeModuleFile *file; /* NULL: not here, or not the one that was mapped */
  char *path;            /* as recorded; may be invalid UTF-8 */
  char *problem;         /* why @file is NULL */
  guint n_misses;        /* places without a name; counted by the user of the list */
} SondeListedModule;

typedef struct SondeModuleList SondeModuleList;

/* @model: (transfer none): kept by the caller as long as the list
 * @debug_directory, @cache_folder: as in debug-files.h and module-file.h */
SondeModuleList *sonde_module_list_new (const SondeCaptureModel *model,
                                        const char *debug_directory,
                                        const char *cache_folder);
void sonde_module_list_free (SondeModuleList *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeModuleList, sonde_module_list_free)

/* (transfer none): the file of @mapping of the process @pid; opened when first asked for. */
SondeListedModule *
sonde_module_list_ensure (SondeModuleList *self, gint32 pid, const SondeModelMapping *mapping);

/* A line for each file with misses, those with most first. */
void sonde_module_list_append_misses (const SondeModuleList *self, GString *out);
