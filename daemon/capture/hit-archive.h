/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which places samples of which process showed, four bytes each. */
#pragma once

#include <gio/gio.h>
#include <stdint.h>

#include "daemon/capture/site-table.h"

/* An address of a process that is a place in a file. */
typedef struct
{
  uint64_t address; /* bytes, in the process */
  int32_t pid;
  uint32_t site; /* index in the site table */
} SondeHit;

/* Hits of one file in one process. */
typedef struct
{
  int32_t pid;
  uint64_t bias; /* bytes: address minus vaddr of the site */
  const uint32_t *sites;
  guint n_sites;
} SondeHitGroup;

/**
 * SECTION: hit-archive
 *
 * For processes that are over: what they showed is wanted again only in the end, so it is packed by
 * file, and only its length grows with the number of processes.
 */
typedef struct SondeHitArchive SondeHitArchive;

/* @sites: borrowed */
SondeHitArchive *sonde_hit_archive_new (const SondeSiteTable *sites);
void sonde_hit_archive_free (SondeHitArchive *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHitArchive, sonde_hit_archive_free)

/* Sorts @hits for it. */
void sonde_hit_archive_add (SondeHitArchive *self, SondeHit *hits, guint n_hits);

gsize sonde_hit_archive_bytes (const SondeHitArchive *self);

/* Puts the groups in the order of pids. Returns how many there are. */
guint sonde_hit_archive_sort (SondeHitArchive *self);
/* After that, and valid until something is added. */
SondeHitGroup sonde_hit_archive_group (const SondeHitArchive *self, guint index);
