/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the ring of the calling thread when it is first wanted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared-ring/collector/control-link.h"
#include "shared-ring/ring-writer.h"

/* The calling thread's own; nobody else may touch it. */
typedef struct
{
  SondeRingWriter *writer; /* NULL: none */
  int error;               /* why there is none */
  uint32_t generation;     /* of the process that asked for it; 0: not asked yet */
  uint32_t is_opening;
  int32_t pid;
  int32_t tid;
  uint32_t n_definitions;        /* counters that were defined in this ring: see collector.c */
  uint32_t n_rounds;             /* of destructors that its end has waited for */
  SondeControlRingAnswer answer; /* what the profiler said with the ring */
  void (*on_end) (void);   /* NULL; or the user's, who has events until the thread is gone: the
                              destructors are done */
  void (*on_close) (void); /* NULL, or the user's: the ring is about to be closed */
} SondeThreadRing;

/**
 * sonde_thread_ring_get:
 * @wish: what the ring is to be if there is none yet
 *
 * Asks for the ring if this thread has not, if it is a child of fork(), or if the profiler has left
 * its ring, as the program has closed the link; otherwise it takes a few ns. When the thread ends, behind all other destructors of its keys, the ring gets its end frame,
 * and no event is taken after that; with @on_end it stays open until another thread of the process
 * sees that this one is gone. What a process's end leaves open is drained as it is. errno is left
 * alone.
 *
 * Signal handlers may call it on a thread that has its ring; none run on a thread that is just
 * getting it. What is called meanwhile gets @error -EBUSY, and so do handlers of pthread_atfork()
 * on a thread without a ring.
 *
 * Returns: (transfer none): never NULL; @writer is NULL if there is no ring, then @error says why:
 *   -ENODEV nobody listens or no ring was granted; -EBUSY
 */
SondeThreadRing *sonde_thread_ring_get (const SondeRingWish *wish);

/* Ends the calling thread's ring, for a process that ends. */
void sonde_thread_ring_close (void);

/* Ends the calling thread's ring, if it has one, and makes none for it any more. */
void sonde_thread_ring_give_up (void);
