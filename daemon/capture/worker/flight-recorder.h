/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the last window of a session with the names of its addresses, and writes it when asked. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/names/jit-names.h"
#include "daemon/capture/names/sampled-addresses.h"
#include "daemon/capture/process/sampler.h"
#include "daemon/capture/program/inferiors.h"
#include "daemon/capture/stream/recorder.h"

/**
 * SECTION: flight-recorder
 *
 * Each segment of the window has a table of the addresses that its samples showed, so that names
 * are bounded as the frames are. A snapshot is of the moment when it is frozen, and is written
 * piece by piece while the session goes on. Main thread only.
 */
typedef struct SondeFlightRecorder SondeFlightRecorder;

/* Called once for each snapshot. @status: as in SondeMessageSnapped */
typedef void (*SondeFlightRecorderDone) (guint64 request_id, int status, gpointer user_data);

/* All borrowed, and outliving it, but what is said. */
typedef struct
{
  const SondeAsked *asked; /* with recorder_bytes */
  SondeRecorder *recorder;
  SondeSampler *sampler;
  SondeInferiors *inferiors;
  SondeJitNames *jit_names;
  SondeSampledAddresses *addresses; /* (transfer full) (nullable): of the sampler, empty */
} SondeFlightRecorderParts;

SondeFlightRecorder *sonde_flight_recorder_new (const SondeFlightRecorderParts *parts,
                                                SondeFlightRecorderDone done,
                                                gpointer user_data);
/* What is being written is not told any more. Accepts NULL. */
void sonde_flight_recorder_free (SondeFlightRecorder *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFlightRecorder, sonde_flight_recorder_free)

/* What has happened until now is to be written. @fd: (transfer full): an empty regular file */
void sonde_flight_recorder_ask (
    SondeFlightRecorder *self, guint64 request_id, int fd, guint64 max_bytes, gint64 now_ns);
/* Whether a snapshot waits until the records of its moment are taken. */
gboolean sonde_flight_recorder_is_asked (const SondeFlightRecorder *self); /* accepts NULL */
/* Whether one is to be begun now. @taken_ns: no record from before that is to come. */
gboolean
sonde_flight_recorder_is_due (const SondeFlightRecorder *self, gint64 taken_ns, gint64 now_ns);
/* Begins those. All that is known is recorded. */
void sonde_flight_recorder_begin (SondeFlightRecorder *self, gint64 taken_ns, gint64 now_ns);

/* The session ends: what is not written yet is given up, which is told. Returns: (transfer full)
 * (nullable): the addresses that readers and files are to have names of */
SondeSampledAddresses *sonde_flight_recorder_end (SondeFlightRecorder *self);
