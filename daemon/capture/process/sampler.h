/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Turns a SAMPLE record into a recorded stack: unwinds it, replaces what is not to be shown. */
#pragma once

#include "daemon/capture/interpreter/interpreters.h"
#include "daemon/capture/names/jit-names.h"
#include "daemon/capture/names/sampled-addresses.h"
#include "daemon/capture/perf/perf-decoder.h"
#include "daemon/capture/stream/recorder.h"
#include "symbols/kallsyms.h"
#include "unwind/unwinder.h"

#define SONDE_SAMPLER_MAX_DEPTH        1024 /* user frames */
#define SONDE_SAMPLER_MAX_KERNEL_DEPTH 512  /* kernel frames */

typedef struct SondeSampler SondeSampler;

/* All borrowed, and outliving the sampler. @setup: with SONDE_SPEC_RAW addresses of the kernel stay
 * what they are, and get their names. @kallsyms: (transfer full) (nullable): without it all kernel
 * code is one leaf "[kernel]". @addresses: (nullable): not to be collected. @interpreters:
 * (nullable): their programs are not shown. */
SondeSampler *sonde_sampler_new (const SondeMessageSetup *setup,
                                 SondeProcessTable *processes,
                                 SondeUnwinder *unwinder,
                                 SondeKallsyms *kallsyms,
                                 SondeSampledAddresses *addresses,
                                 SondeInterpreters *interpreters,
                                 SondeJitNames *jit_names,
                                 SondeRecorder *recorder,
                                 SondeTally *tally);
void sonde_sampler_free (SondeSampler *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSampler, sonde_sampler_free)

/* Other ones are collected from now on. Only where there were some. */
void sonde_sampler_set_addresses (SondeSampler *self, SondeSampledAddresses *addresses);

/* Whether the sample has frames of a program: then its process has to be known. */
gboolean sonde_sampler_has_user_part (const SondePerfRecordSample *sample);

/**
 * sonde_sampler_unwind:
 * @record: of type PROBE
 *
 * The program's stack at a hit, leaf first, as deep as the session's samples; nothing is recorded.
 * Returns: how many addresses @addrs has, at most @max_addrs
 */
size_t sonde_sampler_unwind (SondeSampler *self,
                             SondeProcess *process,
                             const SondePerfRecord *record,
                             uint64_t *addrs,
                             size_t max_addrs);

/* An address of a stack that did not come from a sample: it is to be named at the end, too. FALSE:
 * nothing is mapped there, as far as is known. */
gboolean sonde_sampler_collect (SondeSampler *self,
                                SondeProcess *process,
                                uint64_t address,
                                gboolean is_return);

/**
 * sonde_sampler_find_names:
 * @names: (out): one for each address, to be freed with g_free(); NULL: nothing is mapped there, as
 *   far as is known, or nothing is to be named
 *
 * What addresses are called while the session runs. Reads the symbol table of each of their modules
 * once: not for each sample.
 */
void sonde_sampler_find_names (SondeSampler *self,
                               SondeProcess *process,
                               const uint64_t *addresses,
                               guint n_addresses,
                               char **names);

/* The user part of callchains of samples that are recorded later, if not too much later: the last
 * 64 are kept, of 128 addresses each. */
void sonde_sampler_take_chain (SondeSampler *self, const SondePerfRecord *record);

/* @process: (nullable): NULL for tasks without one. Records exactly one sample. */
void
sonde_sampler_record (SondeSampler *self, SondeProcess *process, const SondePerfRecord *record);
