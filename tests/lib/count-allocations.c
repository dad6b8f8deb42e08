/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* To be preloaded: counts what a program asks of the heap and of mmap(), in the file that
 * ALLOCATIONS_FILE names, for somebody else to read. The one whose number is ALLOCATION_TO_FAIL
 * gets nothing. What the program starts is left alone. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t counter_before;
static uint64_t *counter = &counter_before; /* the file's first bytes once it is mapped */
static uint64_t to_fail;                    /* from 1; 0: none */

static void __attribute__ ((constructor)) start (void)
{
  const char *number = getenv ("ALLOCATION_TO_FAIL");
  const char *path = getenv ("ALLOCATIONS_FILE");
  int fd = path != NULL ? open (path, O_RDWR | O_CLOEXEC) : -1;
  void *mapping = fd >= 0 ? mmap (NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                          : MAP_FAILED;

  if (fd >= 0)
    close (fd);
  if (mapping != MAP_FAILED)
    counter = mapping;
  to_fail = number != NULL ? strtoull (number, NULL, 10) : 0;
  unsetenv ("LD_PRELOAD");
}

/* False: this one fails. */
static int
count (void)
{
  if (__atomic_add_fetch (counter, 1, __ATOMIC_RELAXED) != to_fail)
    return 1;
  errno = ENOMEM;
  return 0;
}

/* The C library's own names of its allocator. */
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

void *
malloc (size_t size)
{
  return count () ? __libc_malloc (size) : NULL;
}

void *
calloc (size_t n, size_t size)
{
  return count () ? __libc_calloc (n, size) : NULL;
}

void *
realloc (void *memory, size_t size)
{
  return count () ? __libc_realloc (memory, size) : NULL;
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  return count () ? __libc_memalign (alignment, size) : NULL;
}

int
posix_memalign (void **memory, size_t alignment, size_t size)
{
  *memory = count () ? __libc_memalign (alignment, size) : NULL;
  return *memory != NULL ? 0 : ENOMEM;
}

void *
mmap (void *place, size_t size, int protection, int flags, int fd, off_t offset)
{
  long result = -1;

  if (count ())
    result = syscall (SYS_mmap, place, size, protection, flags, fd, offset);
  return (void *) result;
}
