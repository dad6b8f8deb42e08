/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Holds each walk of an interpreter until its sample comes in the same ring. */
#pragma once

#include <glib.h>

#include "daemon/base/walk.h"
#include "daemon/capture/perf/perf-decoder.h"

/**
 * SECTION: walk-pairs
 *
 * A walk and what it tells of code lie directly before their sample in the ring of its processor.
 * They are taken as they come, whatever their time, for the kernel notes that of the sample first;
 * and they count once the sample is taken in the order of time, so that a name that replaces
 * another is not believed too early. What is parsed here is of the profiled program.
 */
#define SONDE_WALK_PAIRS_MAX_CODE_BYTES (256u << 10) /* that wait for a sample of one processor */

typedef struct SondeWalkPairs SondeWalkPairs;

/* @code: (transfer none): a checked record */
typedef void (*SondeWalkPairsCode) (const SondeWalkCode *code, gpointer user_data);

SondeWalkPairs *sonde_walk_pairs_new (SondeWalkPairsCode code, gpointer user_data);
void sonde_walk_pairs_free (SondeWalkPairs *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWalkPairs, sonde_walk_pairs_free)

/* A record of a walk program, @time_ns its time; what is none is dropped. FALSE: so it was */
gboolean sonde_walk_pairs_add (
    SondeWalkPairs *self, int cpu, int64_t time_ns, const uint8_t *bytes, size_t size_bytes);
/* The walk of @sample, the oldest record of its ring; NULL if there is none. The same again until
 * sonde_walk_pairs_end(), which is to be called once for each sample. Tells of code before: of what
 * came in the same ring, and of what came in others until the sample's time, as the sample that was
 * to follow there may be lost. */
const SondeWalkRecord *sonde_walk_pairs_find (SondeWalkPairs *self, const SondePerfRecord *sample);
void sonde_walk_pairs_end (SondeWalkPairs *self, int cpu);
/* Walks whose sample did not come. */
guint64 sonde_walk_pairs_n_unpaired (const SondeWalkPairs *self);
/* Records that did not come, by the numbers of those that did: all of them are among what the
 * kernel counts as lost, which may be more, by what it lost after the last one. */
guint64 sonde_walk_pairs_n_missing (const SondeWalkPairs *self);

/* As above, without the rest: FALSE: impossible. */
gboolean sonde_walk_record_parse (const uint8_t *bytes, size_t size_bytes, SondeWalkRecord *record);
gboolean sonde_walk_code_parse (const uint8_t *bytes, size_t size_bytes, SondeWalkCode *code);
