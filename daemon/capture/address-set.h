/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct addresses that samples showed, to be named at the end. */
#pragma once

#include <gio/gio.h>
#include <stdint.h>

#include "unwind/module.h"

#define SONDE_ADDRESS_SET_MAX (1u << 20) /* addresses: 80 MiB at most */

typedef struct
{
  uint64_t address; /* bytes, in the process */
  uint64_t vaddr;   /* bytes, in the file */
  SondeModule *module;
  int32_t pid;
  uint32_t name : 31;     /* see sonde_address_set_module_name() */
  uint32_t is_return : 1; /* the call before it is what ran: look one byte lower */
} SondeAddressHit;

typedef struct SondeAddressSet SondeAddressSet;

SondeAddressSet *sonde_address_set_new (void);
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
 * @module: its reference is taken
 * @path: of the mapping; the last part of it is kept once for each module
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
const char *sonde_address_set_module_name (const SondeAddressSet *self, const SondeAddressHit *hit);

/* All of them sorted by module, then place in it, then pid; the set's hash is given up for it, so
 * nothing can be added any more. */
const SondeAddressHit *sonde_address_set_sort (SondeAddressSet *self, guint *n_hits);
