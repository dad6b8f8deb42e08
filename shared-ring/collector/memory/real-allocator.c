/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/memory/real-allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* The allocator of the process: all its threads find the same. */
SondeRealAllocator sonde_real_allocator;

_Alignas(64) char sonde_bootstrap_arena[SONDE_BOOTSTRAP_BYTES];
static size_t bootstrap_used_bytes;

static _Thread_local bool is_finding;

/* ISO C has no conversion from an object pointer to a function pointer. */
#define FIND(found, name)                                                                          \
  do                                                                                               \
    {                                                                                              \
      void *symbol = dlsym (RTLD_NEXT, #name);                                                     \
                                                                                                   \
      memcpy (&(found)->name, &symbol, sizeof symbol);                                             \
    }                                                                                              \
  while (0)

/* Threads that do so at the same time store the same. */
bool
sonde_real_allocator_find (void)
{
  SondeRealAllocator *found = &sonde_real_allocator;

  if (is_finding)
    return false;

  is_finding = true;
  FIND (found, malloc);
  FIND (found, calloc);
  FIND (found, realloc);
  FIND (found, free);
  FIND (found, posix_memalign);
  FIND (found, aligned_alloc);
  FIND (found, memalign);
  FIND (found, valloc);
  FIND (found, pvalloc);
  FIND (found, malloc_usable_size);
  /* Pairs with the acquire in sonde_real_allocator_is_ready(). */
  __atomic_store_n (&found->is_ready, true, __ATOMIC_RELEASE);
  is_finding = false;
  return true;
}

void *
sonde_bootstrap_allocate (size_t size_bytes, size_t alignment_bytes)
{
  /* A block is as aligned as malloc's, and of no size that leaves the next one unaligned. */
  const size_t least_bytes = _Alignof(max_align_t);
  size_t alignment = alignment_bytes > least_bytes ? alignment_bytes : least_bytes;
  size_t place;
  uintptr_t begin;

  if (size_bytes > SONDE_BOOTSTRAP_BYTES || alignment > SONDE_BOOTSTRAP_BYTES)
    {
      errno = ENOMEM;
      return NULL;
    }
  place = __atomic_fetch_add (&bootstrap_used_bytes, size_bytes + alignment, __ATOMIC_RELAXED);
  begin = (uintptr_t) sonde_bootstrap_arena + place;
  place += (size_t) (-begin & (alignment - 1));
  if (place > SONDE_BOOTSTRAP_BYTES || SONDE_BOOTSTRAP_BYTES - place < size_bytes)
    {
      errno = ENOMEM;
      return NULL;
    }
  return sonde_bootstrap_arena + place;
}
