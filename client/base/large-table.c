/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/large-table.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES (2u << 20) /* of x86-64, and of aarch64 with small pages of 4 KiB */
#define MIN_BYTES  (4u << 20) /* less is found in the processor's own tables */

void *
sonde_large_table_allocate (size_t n, size_t bytes)
{
  void *table = NULL;
  size_t size_bytes;

  if (__builtin_mul_overflow (n, bytes, &size_bytes) || size_bytes < MIN_BYTES
      || posix_memalign (&table, PAGE_BYTES, size_bytes) != 0)
    return g_malloc0_n (n, bytes); /* which ends the program if there is no room */
  madvise (table, size_bytes / PAGE_BYTES * PAGE_BYTES, MADV_HUGEPAGE);
  memset (table, 0, size_bytes);
  return table;
}
