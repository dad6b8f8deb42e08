/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Heap events of the calling thread, into its ring. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/self-unwinder.h"

/**
 * SECTION: heap-recorder
 *
 * To be told of each block behind its allocation, and before it is given back: at no time has
 * another thread the same address. In the mode `all` each becomes an ALLOCATION frame; in the mode
 * `sampled` each byte is as likely to be sampled as any other, a block with a sampled byte gets one
 * frame, and so does its end. docs/protocol.md, "Heap events", says what the frames mean.
 *
 * Any thread, and signal handlers; nothing here waits for a lock, allocates by malloc() or changes
 * errno. Who is in the middle of an event when a signal handler makes another one loses that one,
 * which is counted. A thread's first event makes its ring (thread-ring.h).
 */

/* The calling thread's. */
typedef struct
{
  uint64_t
      bytes_left; /* until something is to be done: 0 in the mode `all`, and before it is known */
} SondeHeapThread;

extern _Thread_local SondeHeapThread sonde_heap_thread __attribute__ ((tls_model ("initial-exec")));

/* The other half of sonde_heap_recorder_allocated(). */
void sonde_heap_recorder_reach (const void *block, size_t size_bytes, const SondeCallSite *caller);

/* @block: NULL: there is none. */
static inline void
sonde_heap_recorder_allocated (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  if (size_bytes < sonde_heap_thread.bytes_left)
    sonde_heap_thread.bytes_left -= size_bytes;
  else if (block != NULL)
    sonde_heap_recorder_reach (block, size_bytes, caller);
}

/**
 * sonde_heap_recorder_freeing:
 * @block: NULL: there is none
 *
 * Returns: whether its allocation counts as recorded, so that sonde_heap_recorder_kept() must be
 * told if the block is not given back after all
 */
bool sonde_heap_recorder_freeing (const void *block);

/* The block whose end was told of lives on. @size_bytes: as far as is known. */
void sonde_heap_recorder_kept (const void *block, size_t size_bytes, const SondeCallSite *caller);

/* Whether this thread is getting its ring: what it maps now is not the program's. */
bool sonde_heap_recorder_is_inside (void);
