/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes heap events of the calling thread into its ring. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared-ring/collector/memory/address-set.h"
#include "shared-ring/control-message.h"
#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"
#include "shared-ring/ring-layout.h"
#include "unwind/self-unwinder.h"

/**
 * SECTION: heap-recorder
 *
 * To be told of each block behind its allocation, and before it is given back: at no time has
 * another thread the same address. In the mode `all` each becomes an ALLOCATION frame; in the mode
 * `sampled` each byte is as likely to be sampled as any other, a block with a sampled byte gets one
 * frame, and so does its end. In a ring that takes them records stand for most frames
 * (shared-ring/heap-record.h). docs/protocol.md, "Heap events", says what the frames mean.
 *
 * Any thread, and signal handlers; nothing here waits for a lock, allocates by malloc() or changes
 * errno. Who is in the middle of an event when a signal handler makes another one loses that one,
 * which is counted. A thread's first event makes its ring (thread-ring.h). One that has none looks
 * at the beacon's word with each block, as at the word of a paused ring, and asks when that is
 * another one.
 */

#define SONDE_HEAP_HIDDEN __attribute__ ((visibility ("hidden")))

/* The calling thread's: what its hooks look at. */
typedef struct
{
  uint64_t bytes_left; /* until something is to be done: 0 in the mode `all`, and before it is
                          known; from SONDE_HEAP_NEVER on: nobody listens */
  const uint32_t *pause_word; /* of its ring, or the beacon's while it has none; NULL: neither */
  uint32_t pause_value;       /* what that is while no event is wanted */
  uint32_t generation;        /* of the process that has that ring */
} SondeHeapThread;

#define SONDE_HEAP_NEVER (UINT64_C (1) << 63)

extern _Thread_local SondeHeapThread sonde_heap_thread SONDE_HEAP_HIDDEN
    __attribute__ ((tls_model ("initial-exec")));

/* The part of the process's state that its hooks look at. */
typedef struct
{
  uint64_t linker_begin; /* where the dynamic linker is */
  uint64_t linker_bytes;
  uint32_t mode;           /* SondeMemoryMode, of the last ring; OFF before the first */
  SondeAddressSet sampled; /* blocks */
} SondeHeapProcess;

extern SondeHeapProcess sonde_heap_process SONDE_HEAP_HIDDEN;

/* Whether the session is paused, or nobody has called since there was none, as far as this thread
 * knows. A child of fork() has its parent's words, but not what they point at. */
static inline bool
sonde_heap_recorder_is_paused (void)
{
  const uint32_t *word = sonde_heap_thread.pause_word;

  return __builtin_expect (word != NULL, true)
         && __builtin_expect (sonde_heap_thread.generation == sonde_fork_guard_generation (), true)
         && __builtin_expect (sonde_ring_load_relaxed (word) == sonde_heap_thread.pause_value,
                              true);
}

/**
 * sonde_heap_recorder_passes:
 * @size_bytes: of a block that is about to be allocated
 *
 * What nearly all blocks cost when the mode is `sampled`, when the session is paused, or when
 * nobody listens. To be asked before anything else.
 *
 * Returns: true, once for each block: it was counted, no more is to be done for it, and
 *   sonde_real_allocator is ready
 */
static inline bool
sonde_heap_recorder_passes (size_t size_bytes)
{
  SondeHeapThread *thread = &sonde_heap_thread;

  /* An idle program is what is to cost least: it passes through without a branch that is taken. */
  if (__builtin_expect (thread->bytes_left == 0, true))
    return __builtin_expect (sonde_heap_recorder_is_paused (), true);
  if (__builtin_expect (size_bytes >= thread->bytes_left, false))
    return false;
  thread->bytes_left -= size_bytes;
  return true;
}

/* Records a block that did not pass. @block: allocated, not NULL */
void sonde_heap_recorder_reach (const void *block, size_t size_bytes, const SondeCallSite *caller);

/* @block: NULL: there is none */
static inline void
sonde_heap_recorder_allocated (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  if (!sonde_heap_recorder_passes (size_bytes) && block != NULL)
    sonde_heap_recorder_reach (block, size_bytes, caller);
}

/* Whether sonde_heap_recorder_freeing() is to be told; cheap. */
static inline bool
sonde_heap_recorder_wants_free (const void *block)
{
  if (__builtin_expect (sonde_ring_load_relaxed (&sonde_heap_process.mode) == SONDE_MEMORY_SAMPLED,
                        false))
    return sonde_address_set_may_have (&sonde_heap_process.sampled, (uintptr_t) block);
  return __builtin_expect (sonde_heap_thread.bytes_left < SONDE_HEAP_NEVER, true)
         && !sonde_heap_recorder_is_paused ();
}

/* Unmapping a module the dynamic linker frees what it knew of it; that is how we learn of each
 * dlclose(), libc's own as well. */
static inline bool
sonde_heap_recorder_is_linker (uint64_t caller)
{
  return caller - sonde_heap_process.linker_begin < sonde_heap_process.linker_bytes;
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

/* Says what sonde_other_allocators_tell() does, if this thread has a ring. */
void sonde_heap_recorder_tell_others (void);
