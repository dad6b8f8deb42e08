/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct addresses that samples showed, to be named at the end. */
#pragma once

#include "daemon/capture/hit-archive.h"
#include "unwind/process-table.h"

/**
 * SECTION: address-set
 *
 * A hash of the addresses of processes that run, and an archive of those of processes that are
 * over, four bytes each. What is the same code in all of them is one place in the site table. Main
 * thread only.
 */
#define SONDE_ADDRESS_SET_MAX (1u << 20) /* addresses: about 64 MiB at most */

typedef struct SondeAddressSet SondeAddressSet;

/* @processes: borrowed; a process that it does not have any more is over */
SondeAddressSet *sonde_address_set_new (const SondeProcessTable *processes);
void sonde_address_set_free (SondeAddressSet *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeAddressSet, sonde_address_set_free)

/* These will be asked for: their places are fetched from memory all at once, as most are not in a
 * cache that the profiled programs use, too. */
void sonde_address_set_expect (const SondeAddressSet *self,
                               int32_t pid,
                               const uint64_t *addrs,
                               size_t n_addrs);

/* Asked for each frame of each sample: one probe, no allocation. */
gboolean sonde_address_set_contains (const SondeAddressSet *self, int32_t pid, uint64_t address);

/**
 * sonde_address_set_add:
 * @pid: in the process table
 * @module, @vaddr, @is_return, @path: as of sonde_site_table_intern()
 *
 * What is there already stays. Returns FALSE if it is full; the address is then counted as left
 * out.
 */
gboolean sonde_address_set_add (SondeAddressSet *self,
                                int32_t pid,
                                uint64_t address,
                                SondeModule *module,
                                uint64_t vaddr,
                                gboolean is_return,
                                const char *path);

guint sonde_address_set_size (const SondeAddressSet *self);
guint64 sonde_address_set_n_left_out (const SondeAddressSet *self);
/* What the hash, the archive and the sites take, in bytes. */
gsize sonde_address_set_bytes (const SondeAddressSet *self);

/* Nothing can be added any more: all that there is goes to the archive, sorted. */
void sonde_address_set_end (SondeAddressSet *self);
const SondeSiteTable *sonde_address_set_sites (const SondeAddressSet *self);
/* @n_groups: (out). After sonde_address_set_end() */
const SondeHitArchive *sonde_address_set_hits (const SondeAddressSet *self, guint *n_groups);
