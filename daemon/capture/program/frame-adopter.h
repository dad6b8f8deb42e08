/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rewrites frames of profiled programs so that they are the session's own. */
#pragma once

#include "daemon/capture/program/inferior.h"
#include "shared-ring/ring-reader.h"

/**
 * SECTION: frame-adopter
 *
 * A frame that comes here is well-formed and has the pid that the kernel tells
 * (shared-ring/ring-reader.h). What else a program may not say of itself is mended:
 *
 * - times before the session or after now become its start, or now;
 * - counters and made-up addresses get the session's numbers (inferior.h);
 * - stacks have addresses of the program alone, and those of a SAMPLE begin with the marker that
 *   says so;
 * - log lines and counters are not "sonde"'s.
 *
 * Names and definitions become state; the rest is recorded or counted as refused. Main thread only.
 */
typedef struct SondeFrameAdopter SondeFrameAdopter;

/* All borrowed, and outliving the adopter. @start_ns: of the session */
SondeFrameAdopter *
sonde_frame_adopter_new (SondeRecorder *recorder, SondeTally *tally, gint64 start_ns);
void sonde_frame_adopter_free (SondeFrameAdopter *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFrameAdopter, sonde_frame_adopter_free)

void sonde_frame_adopter_adopt (SondeFrameAdopter *self,
                                SondeInferior *inferior,
                                const SondeFrame *frame,
                                gint64 now_ns);
/* An event in short that @reader gave out last. What is looked at in a frame's stack is looked at
 * once for each stack that a program defines. */
void sonde_frame_adopter_adopt_short (SondeFrameAdopter *self,
                                      SondeInferior *inferior,
                                      SondeRingReader *reader,
                                      const SondeShortEvent *event,
                                      gint64 now_ns);
/* One that nobody wants: the session is paused. */
void sonde_frame_adopter_refuse (SondeFrameAdopter *self, const SondeFrame *frame);
