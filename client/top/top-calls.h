/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the calls of traced programs for a live view: what they are now, were a while ago, and at
 * the last reset. */
#pragma once

#include "client/model/calls-reader.h"

/**
 * SECTION: top-calls
 *
 * A capture tells what was called since it last did, so what was called in the last seconds is what
 * is known now less what was known then. What a program called before the view began is told at
 * once, and is of no time that is shown. All that has a bound, for all programs since the view
 * began, those that ended, too: paths beyond it make their program a partial one, programs are
 * counted as left out, and of the last seconds fewer are shown. One thread at a time.
 */
typedef struct SondeTopCalls SondeTopCalls;

#define SONDE_TOP_CALLS_MAX_PATHS (1u << 18)  /* and as many buckets, three times */
#define SONDE_TOP_CALLS_MAX_BYTES (16u << 20) /* of the frames of the last seconds */

/* @now_ns: CLOCK_MONOTONIC, here and below: when the view began */
SondeTopCalls *sonde_top_calls_new (gint64 now_ns);
void sonde_top_calls_free (SondeTopCalls *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopCalls, sonde_top_calls_free)

/* @frame: of calls, accepted by sonde_frame_check(); @now_ns: never less than before */
void sonde_top_calls_add_frame (SondeTopCalls *self, const SondeFrame *frame, gint64 now_ns);

/* Forgets the calls so far. */
void sonde_top_calls_reset (SondeTopCalls *self, gint64 now_ns);

/**
 * sonde_top_calls_select:
 * @from_ns: what was told after that; never less than before
 * @is_all: or all since the last reset
 * @covered_ns: (out): the time that the calls are of
 *
 * Returns: (transfer full): NULL: no program is traced
 */
SondeCallsReader *sonde_top_calls_select (
    SondeTopCalls *self, gint64 from_ns, gboolean is_all, gint64 now_ns, gint64 *covered_ns);
