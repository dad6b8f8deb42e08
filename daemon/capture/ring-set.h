/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps the rings of all CPUs within what the kernel lets us lock. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/perf-ring.h"

#define SONDE_RING_MAX_SAMPLE_BYTES   (16u << 20)  /* of one CPU */
#define SONDE_RING_MIN_SAMPLE_BYTES   (128u << 10) /* two records of the largest size */
#define SONDE_RING_SIDEBAND_BYTES     (512u << 10) /* of one CPU */
#define SONDE_RING_MIN_SIDEBAND_BYTES (32u << 10)

/* Bytes of a ring that holds 0.25 s of samples: a power of two within the bounds above. */
size_t sonde_ring_set_wanted (const SondeMessageSetup *setup);

/**
 * sonde_ring_set_open:
 * @rings: (out): one for each of @events
 * @sample_bytes: (inout): wanted; what all sample rings got
 * @sideband_bytes: (inout): the same for side-band rings
 *
 * All rings of a kind get one size, halved until they fit RLIMIT_MEMLOCK together.
 *
 * Returns: 0, or the negative errno of the mapping that failed at the smallest size
 */
int sonde_ring_set_open (const SondeMessageEvent *events,
                         const int *fds,
                         guint n_events,
                         SondePerfRing **rings,
                         size_t *sample_bytes,
                         size_t *sideband_bytes);
