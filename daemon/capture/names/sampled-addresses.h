/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A hash of the distinct addresses that samples showed, kept as places in files to be named at the
 * end. */
#pragma once

#include <gio/gio.h>

#include "unwind/process-table.h"

/**
 * SECTION: sampled-addresses
 *
 * The same code is mapped at other addresses in each process, but it is one place in one file, a
 * *site*. The hash has the addresses of processes that run; of those of processes that are over
 * nothing is asked until the end, so they are packed by file, four bytes each. The files stay open,
 * as many as sonde_module_max_fds(), until their functions are named: by then their processes are
 * over, and they may be deleted or replaced. Main thread only.
 */
#define SONDE_SAMPLED_ADDRESSES_MAX (1u << 20) /* addresses: about 64 MiB at most */

typedef struct SondeSampledAddresses SondeSampledAddresses;

typedef struct
{
  uint64_t vaddr;     /* bytes, in the file */
  uint32_t file;      /* see sonde_sampled_addresses_fd() */
  uint32_t is_return; /* the call before it is what ran: look one byte lower */
} SondeSite;

/* What one process showed of one file. */
typedef struct
{
  int32_t pid;
  uint64_t bias; /* bytes: address minus vaddr of the site */
  const uint32_t *sites;
  guint n_sites;
} SondeSiteGroup;

/* @processes: borrowed; a process that it does not have any more is over */
SondeSampledAddresses *sonde_sampled_addresses_new (const SondeProcessTable *processes);
/* An empty one that shares the open files of @other, which counts as one with it for them. */
SondeSampledAddresses *sonde_sampled_addresses_new_beside (const SondeSampledAddresses *other);
void sonde_sampled_addresses_free (SondeSampledAddresses *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSampledAddresses, sonde_sampled_addresses_free)

/* These will be asked for: their places are fetched from memory all at once, as most are not in a
 * cache that the profiled programs use, too. */
void sonde_sampled_addresses_expect (const SondeSampledAddresses *self,
                                     int32_t pid,
                                     const uint64_t *addrs,
                                     size_t n_addrs);

/* Asked for each frame of each sample: one probe, no allocation. */
gboolean
sonde_sampled_addresses_contains (const SondeSampledAddresses *self, int32_t pid, uint64_t address);

/**
 * sonde_sampled_addresses_add:
 * @pid: in the process table
 * @mapping: has @address, and a module, whose file is kept open if it still is; the last part of
 *   the path is kept once for each module
 * @is_return: as of a site
 *
 * What is there already stays. Returns FALSE if it is full; the address is then counted as left
 * out.
 */
gboolean sonde_sampled_addresses_add (SondeSampledAddresses *self,
                                      int32_t pid,
                                      uint64_t address,
                                      const SondeProcessMapping *mapping,
                                      gboolean is_return);

/* Adds all that @other has; it may have ended. Both were made beside each other. */
void sonde_sampled_addresses_absorb (SondeSampledAddresses *self,
                                     const SondeSampledAddresses *other);

guint sonde_sampled_addresses_size (const SondeSampledAddresses *self);
guint64 sonde_sampled_addresses_n_left_out (const SondeSampledAddresses *self);
/* What the hash, the packed addresses and the sites take, in bytes. */
gsize sonde_sampled_addresses_bytes (const SondeSampledAddresses *self);

/* Nothing can be added any more. Returns: how many groups there are */
guint sonde_sampled_addresses_end (SondeSampledAddresses *self);
/* After that, in the order of pids. */
SondeSiteGroup sonde_sampled_addresses_group (const SondeSampledAddresses *self, guint index);

guint sonde_sampled_addresses_n_sites (const SondeSampledAddresses *self);
/* Valid until an address is added. */
const SondeSite *sonde_sampled_addresses_site (const SondeSampledAddresses *self, guint index);
/* Not the caller's; -1: there were too many */
int sonde_sampled_addresses_fd (const SondeSampledAddresses *self, const SondeSite *site);
const char *sonde_sampled_addresses_file_name (const SondeSampledAddresses *self,
                                               const SondeSite *site);
