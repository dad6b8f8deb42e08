/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct places in files that samples showed. */
#pragma once

#include <gio/gio.h>
#include <stdint.h>

#include "unwind/module.h"

/**
 * SECTION: site-table
 *
 * The same code is mapped at other addresses in each process, but it is one place in one file. So
 * this grows with the code that ran, not with the processes that ran it. The files stay open, as
 * many as sonde_module_max_fds(), until their functions are named in the end: by then their
 * processes are over, and they may be deleted or replaced. Main thread only.
 */
typedef struct
{
  uint64_t vaddr;     /* bytes, in the file */
  uint32_t file;      /* see sonde_site_table_fd() */
  uint32_t is_return; /* the call before it is what ran: look one byte lower */
} SondeSite;

typedef struct SondeSiteTable SondeSiteTable;

SondeSiteTable *sonde_site_table_new (void);
void sonde_site_table_free (SondeSiteTable *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSiteTable, sonde_site_table_free)

/**
 * sonde_site_table_intern:
 * @module: its file is kept open if it still is
 * @path: of a mapping; the last part of it is kept once for each module
 *
 * Returns: the index of the place, which is added if it is new
 */
guint sonde_site_table_intern (SondeSiteTable *self,
                               SondeModule *module,
                               uint64_t vaddr,
                               gboolean is_return,
                               const char *path);

guint sonde_site_table_size (const SondeSiteTable *self);
/* Valid until one is added. */
const SondeSite *sonde_site_table_get (const SondeSiteTable *self, guint index);
/* The table's; -1: there were too many */
int sonde_site_table_fd (const SondeSiteTable *self, const SondeSite *site);
const char *sonde_site_table_file_name (const SondeSiteTable *self, const SondeSite *site);
