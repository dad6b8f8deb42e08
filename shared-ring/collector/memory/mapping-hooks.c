/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-memory: records anonymous mappings as heap events, if SONDE_MEMORY_MMAP is 1. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared-ring/collector/memory/heap-recorder.h"
#include "shared-ring/collector/memory/real-allocator.h"

#define HOOK             __attribute__ ((visibility ("default")))

#define MMAP2_UNIT_BYTES 4096

/* The wish of the process, from its environment. */
enum
{
  WISH_UNKNOWN = 0,
  WISH_NO,
  WISH_YES,
};

static uint32_t wish;

/* Where mappings begin that were told of: of the others, such as files, nothing is. */
static SondeAddressSet told;

/* libc's own functions do no more; so there is no time at which they are not there. Where a word is
 * too short for an offset the kernel wants it in pages, of a size that is always this. */
static void *
map (void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
#ifdef SYS_mmap2
  if (offset < 0 || offset % MMAP2_UNIT_BYTES != 0
      || offset / MMAP2_UNIT_BYTES > (off64_t) ULONG_MAX)
    {
      errno = EINVAL;
      return MAP_FAILED;
    }
  return (void *) syscall (SYS_mmap2, address, length, protection, flags, fd,
                           (unsigned long) (offset / MMAP2_UNIT_BYTES));
#else
  return (void *) syscall (SYS_mmap, address, length, protection, flags, fd, offset);
#endif
}

static bool
is_wished (void)
{
  uint32_t known = sonde_ring_load_relaxed (&wish);
  const char *text;

  if (__builtin_expect (known == WISH_UNKNOWN && environ != NULL, false))
    {
      text = secure_getenv ("SONDE_MEMORY_MMAP");
      known = text != NULL && strcmp (text, "1") == 0 ? WISH_YES : WISH_NO;
      sonde_ring_store_relaxed (&wish, known);
    }
  return known == WISH_YES;
}

/* Before a mapping goes, by its beginning. False: it was not told of. */
static bool
tell_end (const void *block)
{
  if (!sonde_address_set_remove (&told, (uintptr_t) block))
    return false;
  sonde_heap_recorder_freeing (block);
  return true;
}

static void
tell (const void *block, size_t length, const SondeCallSite *caller)
{
  if (!sonde_heap_recorder_is_inside () && sonde_real_allocator_is_ready ()
      && sonde_address_set_add (&told, (uintptr_t) block))
    sonde_heap_recorder_allocated (block, length, caller);
}

static void *
map_and_tell (void *address,
              size_t length,
              int protection,
              int flags,
              int fd,
              off64_t offset,
              const SondeCallSite *caller)
{
  void *block;

  if (!is_wished ())
    return map (address, length, protection, flags, fd, offset);
  if ((flags & MAP_FIXED) != 0)
    tell_end (address);
  block = map (address, length, protection, flags, fd, offset);
  /* Address space that is only reserved holds nothing. */
  if (block != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0 && protection != PROT_NONE)
    tell (block, length, caller);
  return block;
}

/* Both names mean the same where addresses have 64 bits, but headers may take one for the other:
 * off_t is what the compiler's options say, __off_t what the name has. */
HOOK void *hook_mmap (void *address,
                      size_t length,
                      int protection,
                      int flags,
                      int fd,
                      __off_t offset) __asm__("mmap");
HOOK void *hook_mmap64 (void *address,
                        size_t length,
                        int protection,
                        int flags,
                        int fd,
                        off64_t offset) __asm__("mmap64");

void *
hook_mmap (void *address, size_t length, int protection, int flags, int fd, __off_t offset)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  return map_and_tell (address, length, protection, flags, fd, offset, &caller);
}

void *
hook_mmap64 (void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();

  return map_and_tell (address, length, protection, flags, fd, offset, &caller);
}

HOOK int
munmap (void *address, size_t length)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();
  bool is_told = is_wished () && tell_end (address);
  int r = (int) syscall (SYS_munmap, address, length);

  if (r < 0 && is_told)
    tell (address, length, &caller);
  return r;
}

HOOK void *
mremap (void *old, size_t old_length, size_t length, int flags, ...)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();
  bool is_told = is_wished () && tell_end (old);
  void *wanted = NULL;
  void *block;
  va_list rest;

  if ((flags & MREMAP_FIXED) != 0)
    {
      va_start (rest, flags);
      wanted = va_arg (rest, void *);
      va_end (rest);
    }
  block = (void *) syscall (SYS_mremap, old, old_length, length, flags, wanted);
  if (is_told)
    tell (block != MAP_FAILED ? block : old, block != MAP_FAILED ? length : old_length, &caller);
  return block;
}
