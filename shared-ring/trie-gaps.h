/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Computes how many calls lie between two that are timed, by integers. */
#pragma once

#include <stdint.h>

/* How many gaps are as likely as each other: an index is ten random bits. */
#define SONDE_TRIE_N_GAPS 1024u

/* The middle of each of so many equal parts of a geometric distribution: each call is timed with
 * the same chance, one in @mean, whatever the calls before. The chance that a gap is longer than k
 * is (1 - 1 / mean)^k. */
static inline void
sonde_trie_gaps_init (uint16_t gaps[SONDE_TRIE_N_GAPS], uint32_t mean)
{
  const uint64_t one = UINT64_C (1) << 62;
  const uint64_t part = one / SONDE_TRIE_N_GAPS;
  uint64_t longer = one;
  uint32_t gap = 0;

  for (uint32_t i = 0; i < SONDE_TRIE_N_GAPS; i++)
    {
      uint64_t wanted = one - (part * i + part / 2);

      while (longer > wanted)
        {
          longer -= longer / mean;
          gap++;
        }
      gaps[i] = (uint16_t) (gap > 0 ? gap : 1);
    }
}
