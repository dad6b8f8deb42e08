/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes, seals and maps the memory of a ring. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared-ring/ring-layout.h"

/* A mapped ring. What stands here is private to the process, and believed; header and body are not.
 */
typedef struct
{
  SondeRingHeader *header;
  uint8_t *body; /* mapped twice: size_bytes bytes, then the same again */
  size_t header_bytes;
  size_t size_bytes;
  SondeRingKind kind;
  uint32_t wait_us;  /* as the maker wrote it */
  uint32_t features; /* the same, but for bits that are not known here; 0 of others than native */
} SondeRingMemory;

typedef struct
{
  SondeRingKind kind;
  size_t size_bytes; /* of the body: a power of two, SONDE_RING_MIN_BYTES to SONDE_RING_MAX_BYTES */
  uint32_t wait_us;  /* native writers may wait that long for room; 0: they drop */
  uint32_t features; /* SONDE_RING_COMPACT_HEAP, ...; bits that cannot be are left out */
} SondeRingOptions;

/**
 * sonde_ring_memory_create:
 * @memory: (out): to be unmapped with sonde_ring_memory_unmap()
 * @fd: (out): close-on-exec and sealed (SHRINK, GROW, SEAL), so that nobody who gets it can make a
 *   mapping fault; close it once it is sent
 *
 * Makes an empty ring, for the reader. Its pages are charged to whoever touches them first.
 *
 * Errors: -EINVAL an option is out of range, or the size is no multiple of a page; errno of
 *   memfd_create(2), ftruncate(2), fcntl(2) and mmap(2), such as -EMFILE and -ENOMEM
 * Source: memfd_create(2), "File sealing"
 */
int sonde_ring_memory_create (const SondeRingOptions *options, SondeRingMemory *memory, int *fd);

/**
 * sonde_ring_memory_map:
 * @fd: a ring that somebody else made; stays the caller's and may be closed, the mapping remains
 * @memory: (out): to be unmapped with sonde_ring_memory_unmap()
 *
 * For the writer. It is native if the header says so. A child of fork does not inherit the mapping.
 *
 * Errors: -EBADMSG the file is no ring: not a regular file, or size, offset and header contradict
 *   each other; -EPROTONOSUPPORT a native ring of another version; -EPERM a native ring that is
 *   not sealed, so that the other side could make it fault; errno of fstat(2) and mmap(2)
 */
int sonde_ring_memory_map (int fd, SondeRingMemory *memory);

/* Accepts one that is all zero, and leaves it so. */
void sonde_ring_memory_unmap (SondeRingMemory *memory);
