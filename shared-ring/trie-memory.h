/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes, seals and maps the region of a process's call tries. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared-ring/trie-layout.h"

/* What follows from a region's size: private, and believed. */
typedef struct
{
  size_t size_bytes;
  uint32_t max_slots;
  uint32_t slabs_at; /* a line */
  uint32_t max_slabs;
} SondeTrieGeometry;

typedef struct
{
  uint8_t *base;           /* the program's: read and written; the maker's: read alone */
  SondeTrieHeader *header; /* to be written, also by the maker */
  SondeTrieGeometry geometry;
} SondeTrieMemory;

/* What is to be written down of calls. */
typedef struct
{
  SondeTrieMode mode;
  uint32_t sample_every; /* see SondeTrieHeader */
  uint32_t max_depth;
  uint64_t timed_from_ticks;
  uint64_t timed_until_ticks;
  uint64_t slow_ticks;
  const char *filter;       /* NULL: all functions; else less than SONDE_TRIE_FILTER_BYTES long */
  const uint64_t *left_out; /* of up to SONDE_TRIE_MAX_LEFT_OUT */
  uint32_t n_left_out;
} SondeTrieWish;

/* Of a clock with about 2.6 ticks a ns, a path of 2 µs. */
#define SONDE_TRIE_USUAL_WISH                                                                      \
  ((SondeTrieWish){ SONDE_TRIE_AUTO, 64, SONDE_TRIE_MAX_DEPTH, 5200, 4000, 0, NULL, NULL, 0 })

/**
 * sonde_trie_geometry_init:
 * @size_bytes: of the region; what is no multiple of a slab is left out
 *
 * Errors: -EINVAL less than SONDE_TRIE_MIN_BYTES, or more than SONDE_TRIE_MAX_BYTES
 */
int sonde_trie_geometry_init (SondeTrieGeometry *geometry, size_t size_bytes);

/**
 * sonde_trie_memory_create:
 * @memory: (out): to be unmapped with sonde_trie_memory_unmap()
 * @fd: (out): close-on-exec and sealed (SHRINK, GROW, SEAL); close it once it is sent
 *
 * Makes an empty region, for the reader, who cannot write to it but for the header. Its pages are
 * charged to whoever touches them first.
 *
 * Errors: -EINVAL the size or the wish is out of range; errno of memfd_create(2), ftruncate(2),
 *   fcntl(2) and mmap(2)
 */
int sonde_trie_memory_create (size_t size_bytes,
                              const SondeTrieWish *wish,
                              SondeTrieMemory *memory,
                              int *fd);

/**
 * sonde_trie_memory_map:
 * @fd: a region that somebody else made; stays the caller's
 *
 * For the writers. A child of fork() does not inherit the mapping.
 *
 * Errors: -EBADMSG the file is no region: not a regular file, or its size and header contradict
 * each other; -EPROTONOSUPPORT one of another version; -EPERM it is not sealed; errno of fstat(2)
 * and mmap(2)
 */
int sonde_trie_memory_map (int fd, SondeTrieMemory *memory);

/* Of the maker: all shadow stacks become void, and the wish that of all calls from here on. */
int sonde_trie_memory_wish (SondeTrieMemory *memory, const SondeTrieWish *wish);

/* Of the maker: one more function that is not to be counted; the stacks stay. Errors: -ENOSPC there
 * are SONDE_TRIE_MAX_LEFT_OUT */
int sonde_trie_memory_leave_out (SondeTrieMemory *memory, uint32_t n_before, uint64_t function);

/* Accepts one that is all zero, and leaves it so. */
void sonde_trie_memory_unmap (SondeTrieMemory *memory);
