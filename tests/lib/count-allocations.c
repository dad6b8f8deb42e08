/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* To be preloaded: counts what a program asks of the heap, in the file that ALLOCATIONS_FILE names,
 * for somebody else to read. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t counter_before;
static uint64_t *counter = &counter_before; /* the file's first bytes once it is mapped */

static void __attribute__ ((constructor)) map_file (void)
{
  const char *path = getenv ("ALLOCATIONS_FILE");
  int fd = path != NULL ? open (path, O_RDWR | O_CLOEXEC) : -1;
  void *mapping = fd >= 0 ? mmap (NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                          : MAP_FAILED;

  if (fd >= 0)
    close (fd);
  if (mapping != MAP_FAILED)
    counter = mapping;
}

static void
count (void)
{
  __atomic_fetch_add (counter, 1, __ATOMIC_RELAXED);
}

/* The C library's own names of its allocator. */
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

void *
malloc (size_t size)
{
  count ();
  return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
  count ();
  return __libc_calloc (n, size);
}

void *
realloc (void *memory, size_t size)
{
  count ();
  return __libc_realloc (memory, size);
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  count ();
  return __libc_memalign (alignment, size);
}

int
posix_memalign (void **memory, size_t alignment, size_t size)
{
  count ();
  *memory = __libc_memalign (alignment, size);
  return *memory != NULL ? 0 : 12; /* ENOMEM */
}
