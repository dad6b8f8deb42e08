/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The page that tells programs whose they are that a profiler wants. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared-ring/control-message.h"
#include "shared-ring/ring-atomic.h"

/**
 * SECTION: beacon-layout
 *
 * One page of the machine, the *beacon*: the profiler maps it and writes it, programs that have a
 * collector map it read-only when they start. It says that somebody is wanted, not who: each uid
 * has a place, which it may share with others, and one place is for all. A place has a *call*: what
 * is wanted, and the generation at which that was said last, so that who has answered a call is not
 * kept busy by what is said to others. Whether a process is wanted the profiler says when it comes;
 * where to, is the page's @address.
 *
 * With each change @generation grows, behind the calls: it is the one word that an idle program
 * looks at, or sleeps on by FUTEX_WAIT, which a mapping to be read allows. It begins anew behind
 * 2^32, and is 0 only before the first profiler. Growing alone, with all calls as they were, it
 * asks those again who could not come.
 *
 * The page is never truncated or replaced: whoever has it mapped would end by SIGBUS, or look at
 * what nobody writes any more. Readers believe nothing that is written there: who listens at the
 * address shows who he is, and an address is cut off at its place.
 *
 * Source: docs/protocol.md, "Beacon"
 */

#define SONDE_BEACON_PATH    "/run/sonde/beacon"
#define SONDE_BEACON_MAGIC   0x6E426553u /* "SeBn" in memory of a little-endian machine */
#define SONDE_BEACON_VERSION 1
#define SONDE_BEACON_BYTES   4096
#define SONDE_BEACON_PLACES  128

typedef struct
{
  uint32_t generation;
  uint32_t magic; /* SONDE_BEACON_MAGIC, once a profiler was there */
  uint16_t version;
  uint16_t padding[3];
  char address[112];                    /* of the rendezvous: a path, or "@" and an abstract name */
  uint64_t all;                         /* call of everybody */
  uint64_t places[SONDE_BEACON_PLACES]; /* calls, of uids */
} SondeBeacon;

/* A call: the generation << 32 | 1 << SondeProducer, of each that is wanted. */
static inline uint64_t
sonde_beacon_make_call (uint32_t generation, uint32_t producers)
{
  return (uint64_t) generation << 32 | producers;
}

/* By Fibonacci hashing: the upper bits are well mixed. */
static inline size_t
sonde_beacon_place (uint32_t uid)
{
  return (uid * 0x9E3779B9u) >> 25;
}

/* The generation at which processes of that uid were called, as both calls have it together: it
 * differs when either changes. 0: they are not called. */
static inline uint64_t
sonde_beacon_find_call (const SondeBeacon *self, uint32_t uid, SondeProducer producer)
{
  uint64_t all = sonde_ring_load_relaxed (&self->all);
  uint64_t own = sonde_ring_load_relaxed (&self->places[sonde_beacon_place (uid)]);
  uint64_t found = 0;

  if (self->magic != SONDE_BEACON_MAGIC || self->version != SONDE_BEACON_VERSION)
    return 0;
  if ((all >> producer & 1) != 0)
    found = all >> 32 << 32;
  if ((own >> producer & 1) != 0)
    found |= own >> 32;
  return found;
}

_Static_assert(offsetof (SondeBeacon, address) == 16, "SondeBeacon.address is misplaced");
_Static_assert(offsetof (SondeBeacon, all) == 128, "SondeBeacon.all is misplaced");
_Static_assert(offsetof (SondeBeacon, places) == 136, "SondeBeacon.places is misplaced");
_Static_assert(sizeof (SondeBeacon) <= SONDE_BEACON_BYTES, "the beacon is a page");
_Static_assert(SONDE_BEACON_PLACES == 1 << 7, "a place has the upper seven bits of 32");
