/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes the names of all sampled addresses into the embedded file "__symbols__", on a thread. */
#pragma once

#include "daemon/capture/names/jit-names.h"
#include "daemon/capture/names/sampled-addresses.h"

/**
 * SECTION: symbolizer
 *
 * Works in slices from the main loop, one module's symbol table in memory at a time.
 *
 * Source: docs/protocol.md, "Embedded symbols"
 */
#define SONDE_SYMBOLIZER_MAX_STRINGS (64u << 20) /* bytes of names; the rest stays without */

typedef struct SondeSymbolizer SondeSymbolizer;

/* @symbols: (nullable): the content of the file; NULL if there was nothing to name. */
typedef void (*SondeSymbolizerDone) (GBytes *symbols, gpointer user_data);

/* @addresses: borrowed until done; nothing can be added to it any more.
 * @late: (nullable) (element-type SondeLateName): in the order of pids; the same */
SondeSymbolizer *sonde_symbolizer_start (SondeSampledAddresses *addresses,
                                         const GArray *late,
                                         SondeSymbolizerDone done,
                                         gpointer user_data);
/* Cancels what is left to do. May be called in @done. Accepts NULL. */
void sonde_symbolizer_free (SondeSymbolizer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSymbolizer, sonde_symbolizer_free)
