/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-memory: stands in for malloc() and its like in a program that has it preloaded. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared-ring/collector/memory/heap-recorder.h"
#include "shared-ring/collector/memory/real-allocator.h"

#define HOOK __attribute__ ((visibility ("default")))

#define real sonde_real_allocator

static void *
report (void *block, size_t size_bytes, const SondeCallSite *caller)
{
  sonde_heap_recorder_allocated (block, size_bytes, caller);
  return block;
}

/* Those that are called often ask first whether the block passes: then they end in a jump to the
 * real function. What they do else they jump to, too: it has their caller, and they have no frame,
 * which would cost as much as the rest. */
#ifdef __OPTIMIZE__
#define NOTICED static __attribute__ ((noinline))
#else
#define NOTICED static inline __attribute__ ((always_inline))
#endif

NOTICED void *
malloc_noticed (size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  if (!sonde_real_allocator_is_ready ())
    return sonde_bootstrap_allocate (size, 1);
  return report (real.malloc (size), size, &caller);
}

HOOK void *
malloc (size_t size)
{
  if (__builtin_expect (sonde_heap_recorder_passes (size), true))
    return real.malloc (size);
  return malloc_noticed (size);
}

NOTICED void *
calloc_noticed (size_t n, size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  if (!sonde_real_allocator_is_ready ())
    return size == 0 || n <= SIZE_MAX / size ? sonde_bootstrap_allocate (n * size, 1) : NULL;
  return report (real.calloc (n, size), n * size, &caller);
}

HOOK void *
calloc (size_t n, size_t size)
{
  if (__builtin_expect (sonde_heap_recorder_passes (n * size), true))
    return real.calloc (n, size);
  return calloc_noticed (n, size);
}

static __attribute__ ((noinline)) void
free_noticed (void *block, uint64_t caller)
{
  if (sonde_heap_recorder_is_linker (caller))
    sonde_self_unwinder_forget_modules ();
  /* Even the first block of all may be none of ours: a program may have a malloc() of its own that
   * calls libc's by another name. */
  if (sonde_bootstrap_owns (block) || !sonde_real_allocator_is_ready ())
    return;
  sonde_heap_recorder_freeing (block);
  real.free (block);
}

/* What is not wanted is so because a ring was made, or none could be: the real functions are known
 * since then. */
HOOK void
free (void *block)
{
  const uint64_t caller = (uintptr_t) __builtin_return_address (0);

  if (__builtin_expect (sonde_heap_recorder_wants_free (block), false)
      || __builtin_expect (sonde_heap_recorder_is_linker (caller), false)
      || __builtin_expect (sonde_bootstrap_owns (block), false))
    free_noticed (block, caller);
  else
    real.free (block);
}

static void *
leave_bootstrap (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  size_t behind_bytes = sonde_bootstrap_bytes_behind (block);
  void *new;

  if (sonde_real_allocator_is_ready ())
    new = report (real.malloc (size_bytes), size_bytes, caller);
  else
    new = sonde_bootstrap_allocate (size_bytes, 1);
  if (new != NULL)
    memmove (new, block, size_bytes < behind_bytes ? size_bytes : behind_bytes);
  return new;
}

/* As if the block were freed and another one allocated, even if it stays where it is. */
static void *
resize (void *block, size_t size_bytes, const SondeCallSite *caller)
{
  bool was_recorded;
  void *new;

  if (sonde_bootstrap_owns (block))
    return leave_bootstrap (block, size_bytes, caller);
  if (!sonde_real_allocator_is_ready ())
    return sonde_bootstrap_allocate (size_bytes, 1);

  was_recorded = sonde_heap_recorder_freeing (block);
  new = real.realloc (block, size_bytes);
  if (new != NULL)
    sonde_heap_recorder_allocated (new, size_bytes, caller);
  else if (was_recorded && size_bytes > 0)
    sonde_heap_recorder_kept (block, real.malloc_usable_size (block), caller);
  return new;
}

HOOK void *
realloc (void *block, size_t size)
{
  if (!sonde_bootstrap_owns (block) && !sonde_heap_recorder_wants_free (block)
      && sonde_heap_recorder_passes (size))
    return real.realloc (block, size);
  else
    {
      const SondeCallSite caller = SONDE_CALL_SITE ();

      return resize (block, size, &caller);
    }
}

/* libc's would call our realloc(). */
HOOK void *
reallocarray (void *block, size_t n, size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  if (size != 0 && n > SIZE_MAX / size)
    {
      errno = ENOMEM;
      return NULL;
    }
  return resize (block, n * size, &caller);
}

HOOK int
posix_memalign (void **block, size_t alignment, size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();
  int error;

  if (!sonde_real_allocator_is_ready ())
    {
      *block = sonde_bootstrap_allocate (size, alignment);
      return *block != NULL ? 0 : ENOMEM;
    }
  error = real.posix_memalign (block, alignment, size);
  if (error == 0)
    sonde_heap_recorder_allocated (*block, size, &caller);
  return error;
}

HOOK void *
aligned_alloc (size_t alignment, size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  if (!sonde_real_allocator_is_ready ())
    return sonde_bootstrap_allocate (size, alignment);
  return report (real.aligned_alloc (alignment, size), size, &caller);
}

HOOK void *
memalign (size_t alignment, size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  if (!sonde_real_allocator_is_ready ())
    return sonde_bootstrap_allocate (size, alignment);
  return report (real.memalign (alignment, size), size, &caller);
}

HOOK void *
valloc (size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  if (!sonde_real_allocator_is_ready ())
    return sonde_bootstrap_allocate (size, (size_t) getpagesize ());
  return report (real.valloc (size), size, &caller);
}

HOOK void *
pvalloc (size_t size)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();
  size_t page = (size_t) getpagesize ();

  if (!sonde_real_allocator_is_ready ())
    return sonde_bootstrap_allocate ((size + page - 1) & -page, page);
  return report (real.pvalloc (size), size, &caller);
}
