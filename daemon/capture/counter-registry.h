/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every counter of a session but the ledger's: who has which number. */
#pragma once

#include <glib.h>

#include "protocol/writer.h"

/* Counters of a session; each is 136 bytes here and 128 in every snapshot. */
#define SONDE_COUNTER_REGISTRY_MAX 4096

typedef struct SondeCounterRegistry SondeCounterRegistry;

SondeCounterRegistry *sonde_counter_registry_new (void);
void sonde_counter_registry_free (SondeCounterRegistry *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCounterRegistry, sonde_counter_registry_free)

/**
 * sonde_counter_registry_add:
 * @pid: whose they are; -1: the machine's
 * @counters: (inout): their ids are filled in, the first free ones behind the ledger's
 *
 * An id is never given back: what it meant stands in streams.
 *
 * Returns: FALSE if not all of them have room, and none was added
 */
gboolean sonde_counter_registry_add (SondeCounterRegistry *self,
                                     gint32 pid,
                                     SondeCounter *counters,
                                     guint n_counters);

guint sonde_counter_registry_count (const SondeCounterRegistry *self);

/**
 * sonde_counter_registry_define:
 * @first: index of the first one
 * @end: index behind the last one that may be written, at most the count
 *
 * Writes one CTRDEF frame: of the first and those behind it that are of the same process.
 *
 * Returns: the index behind the last one written
 */
guint sonde_counter_registry_define (
    const SondeCounterRegistry *self, guint first, guint end, gint64 time_ns, SondeWriter *writer);
