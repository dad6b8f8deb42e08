/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/bench/allocations.h"

#include <stdlib.h>

static uint64_t n_calls;

uint64_t
allocations_count (void)
{
  return n_calls;
}

/* The C library's own names of its allocator; a program's malloc() goes before the library's. */
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

void *
malloc (size_t size)
{
  n_calls++;
  return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
  n_calls++;
  return __libc_calloc (n, size);
}

void *
realloc (void *memory, size_t size)
{
  n_calls++;
  return __libc_realloc (memory, size);
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  n_calls++;
  return __libc_memalign (alignment, size);
}
