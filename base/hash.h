/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hashes for keys that somebody else chose. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Random, the same for all of a process' life: nobody can make a file or a program whose keys
 * collide in another process. */
uint64_t sonde_hash_seed (void);

/* The hash of @bytes, with the process's seed. */
uint64_t sonde_hash_bytes (const void *bytes, size_t size);

/* The finaliser of MurmurHash3: every bit of the key reaches the low bits. */
static inline uint64_t
sonde_hash (uint64_t seed, uint64_t key)
{
  key ^= seed;
  key ^= key >> 33;
  key *= UINT64_C (0xff51afd7ed558ccd);
  key ^= key >> 33;
  key *= UINT64_C (0xc4ceb9fe1a85ec53);
  key ^= key >> 33;
  return key;
}

/* The hash of the 64 bits at @number, with the same seed: in GLib's terms a GHashFunc. */
static inline unsigned
sonde_hash_number (const void *number)
{
  return (unsigned) sonde_hash (sonde_hash_seed (), *(const uint64_t *) number);
}
