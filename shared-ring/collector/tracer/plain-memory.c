/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: stands in for functions that compilers call by themselves, and whose versions in
 * libc use vector registers. */
#include <stddef.h>

#if defined(__x86_64__)

/* Not for the program: each is hidden. */
#define KEPT __attribute__ ((used))

KEPT void *memcpy (void *restrict to, const void *restrict from, size_t size_bytes);
KEPT void *memset (void *memory, int byte, size_t size_bytes);
KEPT int memcmp (const void *a, const void *b, size_t size_bytes);

void *
memcpy (void *restrict to, const void *restrict from, size_t size_bytes)
{
  void *at = to;

  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size_bytes) : : "memory");
  return to;
}

void *
memset (void *memory, int byte, size_t size_bytes)
{
  void *at = memory;

  __asm__ volatile("rep stosb" : "+D"(at), "+c"(size_bytes) : "a"(byte) : "memory");
  return memory;
}

int
memcmp (const void *a, const void *b, size_t size_bytes)
{
  const unsigned char *left = a;
  const unsigned char *right = b;

  for (size_t i = 0; i < size_bytes; i++)
    if (left[i] != right[i])
      return left[i] < right[i] ? -1 : 1;
  return 0;
}

#endif
