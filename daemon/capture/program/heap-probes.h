/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds allocators that have probes of their own, and makes heap events of their hits. */
#pragma once

#include "daemon/capture/process/sampler.h"
#include "daemon/capture/process/tracker.h"
#include "daemon/capture/process/unheard.h"
#include "daemon/capture/program/inferiors.h"

/**
 * SECTION: heap-probes
 *
 * An allocator that samples its blocks may tell of them by otel_memory:alloc (block, size, weight)
 * and otel_memory:free (block). Of each process whose mappings are known the files are looked
 * through for such probes, each file once; the broker is asked to have them followed
 * (SondeMessageProbes), and what the kernel writes at a hit becomes an ALLOCATION frame.
 *
 * In a sampled session a block of that size stands for others by the session's own distance of
 * samples. A program has a distance of its own, which its weights tell: the least of them, as no
 * block stands for less. Where that is shorter, blocks are left out so that the rest is what the
 * session's distance would have found; where it is longer, the capture says so.
 *
 * Frees of blocks that were recorded are, and no others. A block that the allocator was asked for
 * through libsonde-memory.so is not: that tells of it. Main thread only.
 */
#define SONDE_HEAP_PROBES_MAX_BLOCKS 262144 /* recorded and alive, of all processes */

typedef struct SondeHeapProbes SondeHeapProbes;

/* FALSE: the peer is gone. */
typedef gboolean (*SondeHeapProbesSend) (SondeMessageProbes *message, gpointer user_data);

/* All borrowed, and outliving it. */
typedef struct
{
  const SondeMessageSetup *setup;
  SondeProcessTable *processes;
  SondeTracker *tracker;
  SondeSampler *sampler;
  SondeInferiors *inferiors;
  SondeUnheard *unheard; /* (nullable) */
  SondeRecorder *recorder;
  SondeTally *tally;
} SondeHeapProbesParts;

SondeHeapProbes *sonde_heap_probes_new (const SondeHeapProbesParts *parts,
                                        SondeHeapProbesSend send,
                                        gpointer user_data);
void sonde_heap_probes_free (SondeHeapProbes *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapProbes, sonde_heap_probes_free)

/* There may be more to know of @process than at the last call. */
void sonde_heap_probes_meet (SondeHeapProbes *self, const SondeProcess *process);
/* A child of a process: it is looked at once it has not executed a program for a while. */
void sonde_heap_probes_forked (SondeHeapProbes *self, int32_t parent, int32_t child);
/* It has executed another program, or ended. */
void sonde_heap_probes_ended (SondeHeapProbes *self, int32_t pid);
/* Looks at those that were met, as far as they are known; each turn. */
void sonde_heap_probes_look (SondeHeapProbes *self);

void sonde_heap_probes_answer (SondeHeapProbes *self, const SondeMessageProbed *message);

/* A record of type PROBE, in the order of time; @process: (nullable): of it, known as far as it is
 * worth waiting for. */
void sonde_heap_probes_take (SondeHeapProbes *self,
                             SondeProcess *process,
                             const SondePerfRecord *record);
