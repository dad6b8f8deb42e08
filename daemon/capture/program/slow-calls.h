/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes MARK frames of single calls of a process, with the names of the functions on their path. */
#pragma once

#include "daemon/capture/calls/call-paths.h"
#include "daemon/capture/program/inferior.h"

/**
 * SECTION: slow-calls
 *
 * Calls are gathered for a turn, as many as SONDE_SLOW_CALLS_MAX, and then told together, so that
 * each module's symbol table is read once for all of their functions. A function keeps its name
 * for the process's life; one that cannot be named is told by its address. So is one that comes
 * when tables were read in so many turns, as they may be large: readers of the capture name it.
 * Main thread only.
 */
#define SONDE_SLOW_CALLS_MAX       4096 /* a turn */
#define SONDE_SLOW_CALLS_MAX_NAMES 8192 /* of a process */
#define SONDE_SLOW_CALLS_MAX_TURNS 64   /* in which names are looked up for a process */

typedef struct SondeSlowCalls SondeSlowCalls;

typedef struct
{
  gint64 begin_ns;
  gint64 duration_ns;
  guint32 path;
} SondeSlowCall;

/* @inferior, @paths: borrowed, and outlive it */
SondeSlowCalls *sonde_slow_calls_new (SondeInferior *inferior, const SondeCallPaths *paths);
void sonde_slow_calls_free (SondeSlowCalls *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSlowCalls, sonde_slow_calls_free)

/* FALSE: there are too many in this turn. */
gboolean sonde_slow_calls_add (SondeSlowCalls *self, const SondeSlowCall *call);
/* All that were added, in order of their beginnings. */
void sonde_slow_calls_tell (SondeSlowCalls *self);
