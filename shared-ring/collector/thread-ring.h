/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the ring of the calling thread when it is first wanted, or lets it share one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared-ring/collector/common-ring.h"
#include "shared-ring/collector/control-link.h"
#include "shared-ring/ring-writer.h"

/* The calling thread's own; nobody else may touch it. */
typedef struct
{
  SondeRingWriter *writer; /* NULL: none of its own */
  SondeCommonRing common;  /* all zero if there is one, or nothing at all */
  int error;               /* why there is neither; else 0 */
  uint32_t generation;     /* of the process that asked for it; 0: not asked yet */
  uint32_t beacon;         /* its word, before that */
  uint32_t is_opening;
  int32_t pid;
  int32_t tid;
  uint64_t *n_definitions;       /* counters that were defined in its ring: see collector.c */
  uint64_t n_own_definitions;    /* if it is its own */
  uint32_t n_rounds;             /* of destructors that its end has waited for */
  bool has_ended;                /* its destructors are done: it gets no other ring */
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
 * its ring, as the program has closed the link, or its session is over; and if there was none,
 * whenever the beacon's word is another one (beacon.h). Otherwise it takes a few ns. Who is refused
 * one shares those of common-ring.h. When the thread ends, behind all other destructors of its
 * keys, the ring gets its end frame, and no event is taken after that; with @on_end it stays open
 * until another thread of the process sees that this one is gone. What a process's end leaves open
 * is drained as it is. errno is left alone.
 *
 * Signal handlers may call it on a thread that has its ring; none run on a thread that is just
 * getting it. What is called meanwhile gets @error -EBUSY, and so do handlers of pthread_atfork()
 * on a thread without a ring.
 *
 * Returns: (transfer none): never NULL; @error says why there is no ring: -ENODEV nobody listens or
 *   none was granted; -EBUSY
 */
SondeThreadRing *sonde_thread_ring_get (const SondeRingWish *wish);

/* Whether the calling thread has one, of its own or in common, of whatever session. */
bool sonde_thread_ring_is_held (void);

/* Ends the calling thread's ring, for a process that ends. */
void sonde_thread_ring_close (void);

/* Ends the calling thread's ring, if it has one, and makes none for it any more. */
void sonde_thread_ring_give_up (void);

/* What follows is as of ring-writer.h, or of common-ring.h. */
static inline int
sonde_thread_ring_check_wanted (const SondeThreadRing *self)
{
  if (self->writer != NULL)
    return sonde_ring_writer_check_wanted (self->writer);
  return self->error < 0 ? self->error : sonde_common_ring_check_wanted (&self->common);
}

static inline SondeWriter *
sonde_thread_ring_frames (SondeThreadRing *self)
{
  return self->writer != NULL ? sonde_ring_writer_frames (self->writer) : &self->common.frames;
}

/* Returns: 0, or why the event is lost after all */
static inline int
sonde_thread_ring_commit (SondeThreadRing *self)
{
  if (self->writer == NULL)
    return sonde_common_ring_commit (&self->common);
  sonde_ring_writer_commit (self->writer);
  return 0;
}
