/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts frames into a ring, inside a profiled program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "protocol/writer.h"
#include "shared-ring/compact-writer.h"
#include "shared-ring/ring-layout.h"
#include "shared-ring/ring-memory.h"

/**
 * SECTION: ring-writer
 *
 * One thread writes to a ring: reserve room, fill it with one capture frame in place, commit or
 * discard it. There are no locks, no system calls but to ring the doorbell or to wait for room, and
 * no allocations after sonde_ring_writer_open().
 *
 * Everything but opening and closing may also be called in signal handlers that interrupt that
 * thread. A handler that comes between the reserve and the commit of its thread cannot write: it
 * gets -EBUSY, and its event is counted as lost. errno is left alone everywhere.
 *
 * In a child of fork() every call is refused: the ring stays its parent's.
 */
typedef struct SondeRingWriter SondeRingWriter;

/* Now, by the clock of all frames: CLOCK_MONOTONIC. */
static inline int64_t
sonde_ring_now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/**
 * sonde_ring_writer_open:
 * @ring_fd: the ring; stays the caller's and may be closed
 * @link_fd: the link to ring the doorbell on, or -1; stays the caller's, who keeps it open
 * @self: (out): to be closed with sonde_ring_writer_close()
 *
 * Writes natively or as libsysprof-capture does, as the ring's header wants. Calls no malloc.
 *
 * Errors: those of sonde_ring_memory_map(), sonde_known_socket_init() and sonde_fork_guard_init();
 *   -EUCLEAN somebody wrote to the ring before, or its positions are impossible; -ECHILD
 *   this process was made by a plain clone() of one that had rings; -ENOMEM
 */
int sonde_ring_writer_open (int ring_fd, int link_fd, SondeRingWriter **self);

/**
 * sonde_ring_writer_new:
 * @memory: (transfer none): stays mapped until the writer is closed
 *
 * Over memory that somebody else mapped and keeps: for a writer and a reader in one process.
 *
 * Errors: as of sonde_ring_writer_open()
 */
int sonde_ring_writer_new (const SondeRingMemory *memory, int link_fd, SondeRingWriter **self);

/* Writes the end frame, for which there is always room, wakes the reader and unmaps the ring. In a
 * child of fork() it only frees what is the child's. Accepts NULL. */
void sonde_ring_writer_close (SondeRingWriter *self);

/**
 * sonde_ring_writer_reserve:
 * @size_bytes: a multiple of 8, SONDE_FRAME_MIN_SIZE to SONDE_FRAME_MAX_SIZE
 * @place: (out): that many bytes, 8-aligned, with what the ring held there before
 *
 * Makes room for one frame. If the ring is full the event is dropped and counted; if the session
 * allows a wait, the reader is woken and up to that many µs are waited for it first: at most
 * SONDE_RING_FAIR_WAIT_US, and a fifth of the time, if the session wants that to be fair
 * (ring-layout.h). After a wait in vain there is none until the reader has made room: a profiler
 * that hangs does not stop the program more than once. The wait ends when the session is paused or
 * the profiler is gone, is no point of cancellation, and is left out between vfork() and exec and,
 * as far as can be told by the signals that are blocked, in signal handlers.
 *
 * Returns: 0; the reservation must then be committed or discarded
 * Errors: -ENOBUFS there is no room: counted as lost; -EBUSY a reservation is open: counted as
 * lost; -EAGAIN the session is paused: not a loss; -EMSGSIZE not such a size, or more than this
 * ring can hold; -ECHILD this is a child of the process that opened it, or the profiler has left
 * this ring: another one is to be had; -EPIPE the profiler is gone
 * or its position is impossible, and this ring takes no more
 */
int sonde_ring_writer_reserve (SondeRingWriter *self, size_t size_bytes, void **place);

/**
 * sonde_ring_writer_commit:
 *
 * Publishes the frame in the open reservation. Its length is the frame's own, which may be less
 * than what was reserved. One that is impossible is the caller's mistake: the frame is dropped and
 * counted as lost. Without an open reservation it does nothing.
 */
void sonde_ring_writer_commit (SondeRingWriter *self);

/* What a heap event is written by in short, in the open reservation, or NULL: then it is a frame.
 */
SondeCompactWriter *sonde_ring_writer_compact (SondeRingWriter *self);

/* As sonde_ring_writer_commit(), of records of one event, which are @size_bytes long. */
void sonde_ring_writer_commit_records (SondeRingWriter *self, size_t size_bytes);

/* Gives the open reservation up; not a loss. Without one it does nothing. */
void sonde_ring_writer_discard (SondeRingWriter *self);

/**
 * sonde_ring_writer_check_room:
 *
 * Whether there is room for a frame of that size now. Nothing is waited for or counted.
 *
 * Errors: -ENOBUFS there is none; -EPIPE as of sonde_ring_writer_reserve()
 */
int sonde_ring_writer_check_room (SondeRingWriter *self, size_t size_bytes);

/**
 * SondeRingGrow:
 * @number: of a ring, as the profiler knows it
 * @ring_fd: (out): a larger one, to be closed
 * @new_number: (out): of that
 *
 * Asks the profiler; called with all signals blocked and no cancellation.
 *
 * Returns: 0 or a negative errno
 */
typedef int (*SondeRingGrow) (uint32_t number,
                              size_t size_bytes,
                              int *ring_fd,
                              uint32_t *new_number);

/**
 * sonde_ring_writer_let_grow:
 *
 * From now on a ring whose waits took more than 10 ms of a second, or that was full eight times in
 * it, is exchanged for a larger one, in which the writer goes on: it stays the same, and so does
 * its pause word. Of a ring whose maker does not offer that, nothing. Not of
 * sonde_ring_writer_new().
 */
void sonde_ring_writer_let_grow (SondeRingWriter *self, uint32_t number, SondeRingGrow grow);

/* Bytes of its ring's body. */
size_t sonde_ring_writer_size (const SondeRingWriter *self);

/* Threads take turns at it: which signals one of them blocks says nothing of another, so any of
 * them waits for room, in signal handlers, too. */
void sonde_ring_writer_share (SondeRingWriter *self);

/* How long the session lets an event wait for room, in ns. */
int64_t sonde_ring_writer_patience_ns (const SondeRingWriter *self);

/* Counts an event as lost that was wanted and could not be made: of @size_bytes, as it would have
 * been asked for. */
void sonde_ring_writer_lose (SondeRingWriter *self, size_t size_bytes);

/**
 * sonde_ring_writer_frames:
 *
 * Returns: (transfer none): a writer whose sonde_writer_add_*() build their frame in the ring. When
 *   one returned 0, commit; when it returned an error, there is nothing to commit or to discard.
 *   Errors are those of sonde_ring_writer_reserve() and of the function. One call makes one frame:
 *   a table that does not fit one must be split by the caller
 */
SondeWriter *sonde_ring_writer_frames (SondeRingWriter *self);

/**
 * sonde_ring_writer_check_wanted:
 *
 * To be asked before work is done for an event; a few ns.
 *
 * Returns: 0 an event is wanted
 * Errors: -EAGAIN, -ECHILD, -EPIPE as of sonde_ring_writer_reserve()
 */
int sonde_ring_writer_check_wanted (const SondeRingWriter *self);

/* Whether the profiler takes nothing of this ring any more, since the program has closed the link
 * that it came by, and would give another. Threads that share it may ask, too. */
bool sonde_ring_writer_is_left (const SondeRingWriter *self);

/* Or since it has gone itself: to be closed. */
bool sonde_ring_writer_is_over (const SondeRingWriter *self);

/* The word that is not 0 while the session is paused, or NULL if this ring has none: to be looked
 * at in place, in the process that opened the ring, until it is closed. */
const uint32_t *sonde_ring_writer_pause_word (const SondeRingWriter *self);

/* The writer's own account: frames committed, and losses. Both pointers may be NULL. */
void
sonde_ring_writer_count (const SondeRingWriter *self, uint64_t *n_frames, SondeRingLosses *losses);
