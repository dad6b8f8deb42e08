/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the call tries of profiled programs while they run, and leads what is new to the capture.
 */
#pragma once

#include "daemon/capture/program/inferior.h"

/**
 * SECTION: call-tries
 *
 * A process that asks for it gets a *region*, memory in which it counts its calls
 * (shared-ring/trie-layout.h). Here it is read, in turns of bounded length, and the tries of its
 * threads become one set of paths (calls/), of which files in the capture have what is new. What is
 * in a region is not believed: what cannot be ends the reading of that one, and a LOG frame says
 * so. What a process counted before it was killed is there, as the memory is ours. Main thread
 * only.
 */
typedef struct SondeCallTries SondeCallTries;

/* Regions at a time, and what one of them has of the bytes that are left for all. */
#define SONDE_CALL_TRIES_MAX  256
#define SONDE_CALL_TRIES_PART 4

typedef struct
{
  SondeRecorder *recorder; /* this and the next are borrowed, and outlive it */
  SondeTally *tally;
  gint64 start_ns; /* of the session */
} SondeCallTriesParts;

SondeCallTries *sonde_call_tries_new (const SondeCallTriesParts *parts, const SondeAsked *asked);
/* Nothing more is read. Accepts NULL. */
void sonde_call_tries_free (SondeCallTries *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCallTries, sonde_call_tries_free)

/**
 * sonde_call_tries_add:
 * @inferior: which has one ring more from here on, until its region is over
 *
 * A refusal is told.
 *
 * Returns: the descriptor of a new region, to be closed; or -EDQUOT there is no room for one more,
 *   -EALREADY it has one, or another negative errno
 */
int sonde_call_tries_add (SondeCallTries *self, SondeInferior *inferior);
/* It could not be delivered. */
void sonde_call_tries_withdraw (SondeCallTries *self, const SondeInferior *inferior);

/* About once a second: what is to be read now, so much of it that nothing else has to wait. */
void sonde_call_tries_turn (SondeCallTries *self);
void sonde_call_tries_pause (SondeCallTries *self, gboolean is_paused);
/* A reader comes: the next file of each process has the sum so far. */
void sonde_call_tries_reader_comes (SondeCallTries *self);

/* @inferior is over, or executes another program, at @time_ns: what it has left in a region from
 * before is read. */
void
sonde_call_tries_end_process (SondeCallTries *self, const SondeInferior *inferior, gint64 time_ns);
/* The session is over: the same, of all. */
void sonde_call_tries_end (SondeCallTries *self);
