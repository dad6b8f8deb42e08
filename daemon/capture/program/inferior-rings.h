/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the rings of profiled programs within limits, drains them as they fill, closes them with a
 * reason. */
#pragma once

#include "daemon/capture/program/frame-adopter.h"
#include "shared-ring/ring-memory.h"

/**
 * SECTION: inferior-rings
 *
 * One loop drains them all (shared-ring/ring-schedule.h): in a turn each ring gives up to a budget,
 * so that a noisy program starves nobody. What readers cannot take stays in the rings for a while,
 * where a program that may wait does so. A ring ends by its end frame, by the death of its program,
 * which is drained to its last whole frame, or by a fault of the program, and no other ring with
 * it: a LOG frame says why.
 *
 * Rings belong to a *peer*: the socket whose other end only their program has. Main thread only.
 */
typedef struct SondeInferiorRings SondeInferiorRings;

/* A ring of @inferior has closed. */
typedef void (*SondeInferiorRingsClosed) (SondeInferior *inferior, gpointer user_data);

/* All borrowed, and outliving the rings. */
SondeInferiorRings *sonde_inferior_rings_new (SondeFrameAdopter *adopter,
                                              SondeRecorder *recorder,
                                              SondeTally *tally,
                                              guint32 wait_us,
                                              SondeInferiorRingsClosed closed,
                                              gpointer user_data);
void sonde_inferior_rings_free (SondeInferiorRings *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeInferiorRings, sonde_inferior_rings_free)

typedef struct
{
  SondeRingKind kind;
  guint32 types;      /* SONDE_RING_TYPE() of each frame type that it may carry */
  guint32 size_bytes; /* of its body; 0: as we like */
  guint64 peer;
  const char *what; /* of its producer, for LOG frames; static */
} SondeInferiorRingWish;

/**
 * sonde_inferior_rings_add:
 * @inferior: borrowed until it is closed
 * @number: (out): of the ring
 *
 * Returns: its descriptor, to be closed, or a negative errno: -EDQUOT there are too many or they
 *   have too much memory, -EINVAL its size
 */
int sonde_inferior_rings_add (SondeInferiorRings *self,
                              SondeInferior *inferior,
                              const SondeInferiorRingWish *wish,
                              guint *number);
/* Nobody got it. */
void sonde_inferior_rings_drop (SondeInferiorRings *self, guint number);

/* The other end of a peer is closed everywhere: its rings get nothing more. */
void sonde_inferior_rings_peer_gone (SondeInferiorRings *self, guint64 peer);
/* Its process is over, or executes another program: takes all that is left in rings made before
 * @before_ns at once, and closes them. */
void sonde_inferior_rings_process_gone (SondeInferiorRings *self,
                                        const SondeInferior *inferior,
                                        gint64 before_ns);

/* A program rings the doorbell. */
void sonde_inferior_rings_wake (SondeInferiorRings *self);
/* Native programs make no events while it is on; those of others are refused. */
void sonde_inferior_rings_pause (SondeInferiorRings *self, gboolean is_paused);

/* At the end: native programs make no more events, and there is one more turn. @is_urgent: whatever
 * readers can take. Returns whether nothing is left. */
gboolean sonde_inferior_rings_drain (SondeInferiorRings *self, gboolean is_urgent);
/* Closes all. */
void sonde_inferior_rings_end (SondeInferiorRings *self);

/* Takes over what programs say that they lost; about once a second, and at the end. */
void sonde_inferior_rings_count (SondeInferiorRings *self);
