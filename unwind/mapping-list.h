/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The mappings of a process, sorted, shared between processes until one changes them. */
#pragma once

#include "unwind/item-table.h"
#include "unwind/process-table.h"

/**
 * SECTION: mapping-list
 *
 * The mappings do not overlap. Whoever changes a list must own it alone (n_refs 1), see
 * sonde_mapping_list_make_own(); only the module and bias of a mapping may be filled in while it is
 * shared, since they are the same for all who share it.
 */

/* What all lists of a table have in common. */
typedef struct
{
  SondeItemTable paths;
  size_t n_path_bytes;
  size_t n_bytes;       /* of the lists */
  uint64_t last_serial; /* never given twice */
} SondeMappingPool;

typedef struct
{
  SondeMappingPool *pool;
  size_t n_refs;
  size_t n_mappings;
  size_t n_allocated;
  SondeProcessMapping *mappings;
  uint32_t *epochs;        /* when each mapping was told */
  uint64_t modules_serial; /* rises when a module was filled in */
  uint64_t store_serial;   /* the store's, when modules were last looked for */
} SondeMappingList;

SondeMappingList *sonde_mapping_list_new (SondeMappingPool *pool); /* NULL on ENOMEM */
SondeMappingList *sonde_mapping_list_ref (SondeMappingList *self);
void sonde_mapping_list_unref (SondeMappingList *self); /* accepts NULL */

/* The list of a process, borrowed; NULL: it has none. With a reference it stays as it is, whatever
 * the process does, and counts as one of the table's. */
SondeMappingList *sonde_process_mapping_list (const SondeProcess *process);

/* Replaces *@self by a copy if others share it. Errors: -ENOMEM, and *@self stays. */
int sonde_mapping_list_make_own (SondeMappingList **self, SondeMappingPool *pool);

/* The mapping that holds @address, or NULL. */
SondeProcessMapping *sonde_mapping_list_find (const SondeMappingList *self, uint64_t address);
bool sonde_mapping_list_has_equal (const SondeMappingList *self,
                                   const SondeProcessMapping *mapping);

/* Adds @mapping and cuts what it overlaps, or fills only what is free. Returns 1 if something was
 * added, 0 if not. Errors: -ENOSPC over SONDE_PROCESS_MAX_MAPPINGS (the overlapped ones are cut
 * all the same, since they are gone), -ENOMEM. */
int sonde_mapping_list_replace (SondeMappingList *self,
                                SondeMappingPool *pool,
                                const SondeProcessMapping *mapping,
                                uint32_t epoch);
int sonde_mapping_list_fill (SondeMappingList *self,
                             SondeMappingPool *pool,
                             const SondeProcessMapping *mapping,
                             uint32_t epoch);
bool sonde_mapping_list_has_older (const SondeMappingList *self, uint32_t epoch); /* accepts NULL */
/* Removes what was told before @epoch. */
void sonde_mapping_list_drop_older (SondeMappingList *self, SondeMappingPool *pool, uint32_t epoch);
