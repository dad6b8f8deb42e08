/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes turns with other threads of the process at a few rings, for who gets none of his own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/writer.h"
#include "shared-ring/collector/control-link.h"

/**
 * SECTION: common-ring
 *
 * A ring has one writer at a time. So a thread builds its event in memory of its own, and then has
 * one of the process's common rings for as long as a copy takes. A word of that ring says whether
 * somebody has it; it is taken by compare-and-swap, and nobody sleeps on it. Who finds a ring taken
 * tries the next one, then all of them again after a while, as long as the session allows a wait,
 * and 10 ms at least; in the end the event is counted as lost. A thread that is stopped in the
 * middle of a copy, or never comes back from a signal handler there, so takes one ring with it, and
 * not the others.
 *
 * Where the ring allows it what is copied is said in short (heap-record.h): which stacks it has,
 * and whose event was the last, is known to who has taken it.
 *
 * A child of fork() has a copy of these words, in any state: they name the process that they are
 * of, and mean nothing in another one.
 *
 * All but sonde_common_ring_join() and sonde_common_ring_leave() may be called in signal handlers.
 * One that interrupts an event of its thread loses its own, which is counted. errno is left alone.
 */

/* The calling thread's. All zero: it has none. */
typedef struct
{
  uint32_t generation; /* of the process that joined */
  int32_t pid;         /* of that process; of a child of vfork() another */
  uint32_t home;       /* the ring that is tried first */
  uint32_t is_busy;    /* an event is being made */
  uint32_t is_broken;  /* the profiler is gone */
  uint32_t has_waited; /* in vain, and no event has found a place since */
  uint32_t is_pinned;  /* to its first ring, so that its events stay in their order */
  uint32_t reserved_bytes;
  void *stage; /* where an event is made */
  size_t stage_bytes;
  size_t mapped_bytes;  /* 0: the stage is @last */
  uint64_t stack_hash;  /* of the allocation that is being made: it may be said in short; 0: not */
  uint32_t is_defining; /* a stack, for which memory may be mapped */
  const void *writer;   /* of the first ring when it joined */
  const uint32_t *pause_word;
  uint64_t *n_definitions; /* counters that were defined in the first ring: see collector.c */
  uint64_t n_frames;
  uint64_t n_lost;
  SondeWriter frames;
  uint64_t last[6];
} SondeCommonRing;

/**
 * sonde_common_ring_join:
 * @self: all zero
 * @producer: the same for all of a process
 * @answer: (out): what the profiler said with the ring
 *
 * Asks for a further ring while there are few; if that is refused what others got will do. Signals
 * are to be blocked.
 *
 * Errors: those of sonde_control_link_get_ring() and sonde_ring_writer_open(), if there is no
 *   common ring at all; -EINPROGRESS one is being made, and was not there within 10 s; -ENOMEM
 */
int sonde_common_ring_join (SondeCommonRing *self,
                            SondeProducer producer,
                            SondeControlRingAnswer *answer);

/* The thread is about to be gone: from now on it has no events but of 48 bytes. */
void sonde_common_ring_dwindle (SondeCommonRing *self);

/* Leaves @self all zero. Accepts one that is. */
void sonde_common_ring_leave (SondeCommonRing *self);

/* Whether the profiler has left its home, as the program has closed the link: to be joined anew. */
bool sonde_common_ring_is_left (const SondeCommonRing *self);

/* As their namesakes of a ring that is the thread's own (ring-writer.h); what is reserved is the
 * thread's, so that there is always room. */
int sonde_common_ring_check_wanted (const SondeCommonRing *self);
int sonde_common_ring_reserve (SondeCommonRing *self, size_t size_bytes, void **place);
void sonde_common_ring_lose (SondeCommonRing *self, size_t size_bytes);

/**
 * sonde_common_ring_commit:
 *
 * Errors: -ENOBUFS there was no room in a ring: counted as lost; -EPIPE as of
 *   sonde_ring_writer_reserve(); -ECHILD the profiler has left the ring meanwhile, and what a
 *   counter is in that one means nothing in the next: not counted, to be made again
 */
int sonde_common_ring_commit (SondeCommonRing *self);
