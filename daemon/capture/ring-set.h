/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rings of all processors: mapped within what the kernel lets us lock, and watched. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/perf-ring.h"

#define SONDE_RING_MAX_SAMPLE_BYTES   (16u << 20)  /* of one CPU */
#define SONDE_RING_MIN_SAMPLE_BYTES   (128u << 10) /* two records of the largest size */
#define SONDE_RING_SIDEBAND_BYTES     (512u << 10) /* of one CPU */
#define SONDE_RING_MIN_SIDEBAND_BYTES (32u << 10)

typedef struct SondeRingSet SondeRingSet;

typedef struct
{
  /* A ring is mapped. @ring: (transfer full) */
  void (*mapped) (SondePerfRing *ring, SondeEventKind kind, gpointer user_data);
  /* Some ring has much to read. */
  void (*filled) (gpointer user_data);
} SondeRingSetHandler;

/* Bytes of a ring that holds 0.25 s of samples: a power of two within the bounds above. */
size_t sonde_ring_set_wanted (const SondeMessageSetup *setup);

/* @sample_bytes: wanted of each CPU's ring of samples */
SondeRingSet *
sonde_ring_set_new (size_t sample_bytes, const SondeRingSetHandler *handler, gpointer user_data);
/* Closes the events that own the rings, not their mappings. Accepts NULL. */
void sonde_ring_set_free (SondeRingSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRingSet, sonde_ring_set_free)

/**
 * sonde_ring_set_take:
 * @message: RINGS; the rings of several messages that belong together are mapped with the last one
 * @fds: (inout): one for each of its events, taken (-1 afterwards)
 * @answer: (out): RINGS_MAPPED, all but the header: the status is an errno of the mapping that
 *   failed at the smallest size, and then none of these rings is there
 *
 * All rings of a kind get one size, halved until they fit RLIMIT_MEMLOCK together. Later ones get
 * what the first ones have, or less.
 *
 * Returns: whether that was the last message of those that belong together
 */
gboolean sonde_ring_set_take (SondeRingSet *self,
                              const SondeMessageEvents *message,
                              int *fds,
                              SondeMessageRingsMapped *answer);

/* @filled comes no more. */
void sonde_ring_set_unwatch (SondeRingSet *self);
