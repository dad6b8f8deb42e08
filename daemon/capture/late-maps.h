/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mappings that were told before their file was read. */
#pragma once

#include <glib.h>

#include "unwind/process-table.h"

/**
 * SECTION: late-maps
 *
 * A MAP frame says which build of a file is mapped, but it has to come before the samples in it,
 * and those wait for a file only so long. Such a mapping is told again, then with its build id,
 * once the file is known. Bounded in number and time: what is forgotten was told without one.
 */
#define SONDE_LATE_MAPS_MAX     4096
#define SONDE_LATE_MAPS_WAIT_NS (G_GINT64_CONSTANT (10) * 1000000000)

typedef struct SondeLateMaps SondeLateMaps;

typedef void (*SondeLateMapTell) (SondeProcess *process,
                                  const SondeMapping *mapping,
                                  gpointer user_data);

SondeLateMaps *sonde_late_maps_new (SondeProcessTable *processes); /* borrowed */
void sonde_late_maps_free (SondeLateMaps *self);                   /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeLateMaps, sonde_late_maps_free)

/* @mapping was told. Does nothing if its file is known, or it has none. */
void sonde_late_maps_add (SondeLateMaps *self,
                          const SondeProcess *process,
                          const SondeMapping *mapping,
                          gint64 now_ns);

/* Calls @tell for those whose file was read since, and forgets them. */
void sonde_late_maps_tell (SondeLateMaps *self,
                           gint64 now_ns,
                           SondeLateMapTell tell,
                           gpointer user_data);
