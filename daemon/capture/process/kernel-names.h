/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replaces kernel addresses by made-up ones with names, so that none leaves the worker unless raw
 * data are asked for. */
#pragma once

#include "daemon/capture/stream/recorder.h"
#include "symbols/kallsyms.h"

typedef struct SondeKernelNames SondeKernelNames;

/* @kallsyms: (transfer full) (nullable): without it all kernel code is one leaf "[kernel]";
 * @is_raw: addresses stay what they are, and get their names */
SondeKernelNames *
sonde_kernel_names_new (SondeRecorder *recorder, SondeKallsyms *kallsyms, gboolean is_raw);
void sonde_kernel_names_free (SondeKernelNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeKernelNames, sonde_kernel_names_free)

/**
 * sonde_kernel_names_replace:
 * @chain: (nullable): the kernel's call chain, context markers inline, leaf first
 * @ip: the sampled address, for samples without a chain
 *
 * Returns: how many addresses were stored in @addrs, at most @max_addrs; at least 1
 */
size_t sonde_kernel_names_replace (SondeKernelNames *self,
                                   const uint64_t *chain,
                                   size_t n_chain,
                                   uint64_t ip,
                                   gint64 time_ns,
                                   uint64_t *addrs,
                                   size_t max_addrs);
