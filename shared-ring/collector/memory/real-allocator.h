/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the functions that stand behind ours: the program's own allocator, or libc's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * SECTION: real-allocator
 *
 * What the program would call without us, found by dlsym (RTLD_NEXT): so an allocator that is
 * linked with it, or preloaded behind us, stays in use. To find them may need memory itself; that
 * is bootstrap memory, of a small arena that is never given back.
 */
typedef struct
{
  bool is_ready;
  void *(*malloc) (size_t);
  void *(*calloc) (size_t, size_t);
  void *(*realloc) (void *, size_t);
  void (*free) (void *);
  int (*posix_memalign) (void **, size_t, size_t);
  void *(*aligned_alloc) (size_t, size_t);
  void *(*memalign) (size_t, size_t);
  void *(*valloc) (size_t);
  void *(*pvalloc) (size_t);
  size_t (*malloc_usable_size) (void *);
} SondeRealAllocator;

extern SondeRealAllocator sonde_real_allocator __attribute__ ((visibility ("hidden")));

/* False: they are just being looked for by this thread. */
bool sonde_real_allocator_find (void);

/* Whether sonde_real_allocator may be called; any thread, and signal handlers. */
static inline bool
sonde_real_allocator_is_ready (void)
{
  /* Pairs with the release in sonde_real_allocator_find(). */
  return __builtin_expect (__atomic_load_n (&sonde_real_allocator.is_ready, __ATOMIC_ACQUIRE), true)
         || sonde_real_allocator_find ();
}

/* @alignment_bytes: a power of two. Zeroed. NULL with ENOMEM: the arena is used up. */
void *sonde_bootstrap_allocate (size_t size_bytes, size_t alignment_bytes);

extern char sonde_bootstrap_arena[] __attribute__ ((visibility ("hidden")));

#define SONDE_BOOTSTRAP_BYTES ((size_t) 16 * 1024)

static inline bool
sonde_bootstrap_owns (const void *block)
{
  return (size_t) ((const char *) block - sonde_bootstrap_arena) < SONDE_BOOTSTRAP_BYTES;
}

/* Bytes from @block, of bootstrap memory, to the arena's end: as much may be read. */
static inline size_t
sonde_bootstrap_bytes_behind (const void *block)
{
  return SONDE_BOOTSTRAP_BYTES - (size_t) ((const char *) block - sonde_bootstrap_arena);
}
