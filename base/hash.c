/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/hash.h"

#include <string.h>
#include <sys/auxv.h>

/* Of the kernel's 16 random bytes of this process: no file and no system call needed. */
uint64_t
sonde_hash_seed (void)
{
  const void *random = (const void *) getauxval (AT_RANDOM);
  uint64_t words[2] = { 0 };

  if (random != NULL)
    memcpy (words, random, sizeof words);
  return words[0] ^ words[1];
}

uint64_t
sonde_hash_bytes (const void *bytes, size_t size)
{
  const uint8_t *at = bytes;
  uint64_t hash = sonde_hash_seed () ^ size;
  uint64_t word;

  for (; size >= sizeof word; at += sizeof word, size -= sizeof word)
    {
      memcpy (&word, at, sizeof word);
      hash = sonde_hash (hash, word);
    }
  word = 0;
  memcpy (&word, at, size);
  return sonde_hash (hash, word);
}
