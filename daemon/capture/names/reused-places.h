/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives names of their own to code that came where a pid had other code before. */
#pragma once

#include "daemon/capture/stream/recorder.h"

/**
 * SECTION: reused-places
 *
 * The embedded names know an address of a pid once, whenever it was. So the first file at a place
 * keeps it for the session; when another one comes there (dlclose and dlopen, exec of programs at a
 * fixed address, a pid used again), its addresses are recorded as made-up ones that have its names.
 * Main thread only.
 */
#define SONDE_REUSED_PLACES_MAX       131072 /* remembered in all: 3 MiB; beyond it first is last */
#define SONDE_REUSED_PLACES_MAX_A_PID 4096
#define SONDE_REUSED_PLACES_MAX_LOADS 1024 /* symbol tables read while recording */

typedef struct SondeReusedPlaces SondeReusedPlaces;

/* @recorder: borrowed */
SondeReusedPlaces *sonde_reused_places_new (SondeRecorder *recorder);
void sonde_reused_places_free (SondeReusedPlaces *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeReusedPlaces, sonde_reused_places_free)

/* Whether a mapping of the process is where its pid had another file. */
gboolean sonde_reused_places_is_contested (SondeReusedPlaces *self, SondeProcess *process);

/* Takes the place for the mapping's file. FALSE: it is another one's, so
 * sonde_reused_places_name() is to be used. */
gboolean sonde_reused_places_claim (SondeReusedPlaces *self,
                                    int32_t pid,
                                    const SondeProcessMapping *mapping);

/* The made-up address for the function at @address in @mapping. */
uint64_t sonde_reused_places_name (SondeReusedPlaces *self,
                                   const SondeProcessMapping *mapping,
                                   uint64_t address,
                                   gint64 time_ns);
