/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells whether this process is still the one that opened a ring. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared-ring/ring-atomic.h"

/**
 * SECTION: fork-guard
 *
 * A ring has one writer. A child of fork() has a copy of everything that its parent knew, and must
 * not write to its parent's rings. So there is a number of the process, its generation, in a page
 * that the kernel empties in every child (MADV_WIPEONFORK), even one of a plain clone(). After
 * fork() a handler of pthread_atfork() gives the child the next number; in other children it stays
 * 0, which is nobody's. Where the kernel cannot empty pages (before Linux 4.14) only the handler
 * works.
 *
 * A child of vfork() shares its parent's memory, and so the number. It runs in its parent's place,
 * and what it does to the heap is done to its parent's: what that has open it may write to. It must
 * not open anything, as that would be the child's in the parent's memory: only the kernel tells the
 * two apart.
 */

/**
 * sonde_fork_guard_init:
 *
 * Once before anything else here; again does nothing. Any thread; not signal handlers.
 *
 * Errors: errno of mmap(2) and pthread_atfork(3)
 */
int sonde_fork_guard_init (void);

/* Gives this process its next number, as if it were a child: what its threads keep by the one
 * before is void from here on. One thread at a time, behind sonde_fork_guard_init(). */
void sonde_fork_guard_renew (void);

/* Whether the calling thread is one of the process whose memory this is, and not of a child of
 * vfork(). Any thread, and signal handlers; a system call. */
bool sonde_fork_guard_is_own_process (void);

/* The process's word, one that is always 0 before sonde_fork_guard_init();
 * sonde_fork_guard_generation() alone reads it. */
extern const uint32_t *sonde_fork_guard_word __attribute__ ((visibility ("hidden")));

/* This process's number: 0 before sonde_fork_guard_init() and in children without the handler. Any
 * thread, and signal handlers; a few cycles. */
static inline uint32_t
sonde_fork_guard_generation (void)
{
  /* Pairs with the release in fork-guard.c, as other threads may be the ones that begin. */
  return sonde_ring_load_relaxed (sonde_ring_load_acquire (&sonde_fork_guard_word));
}
