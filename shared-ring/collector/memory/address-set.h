/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A set of the addresses whose allocation was sampled, so that their free is recorded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: address-set
 *
 * Of a fixed size, in memory that is used as it is needed; all zero is empty. No locks: any thread,
 * signal handlers, and children of fork(). A block has one owner at a time, who alone adds and
 * removes its address; that others who get the block see it follows from how they got it.
 *
 * Each address has a place in one bucket only, a cache line. How many of its places are used stands
 * apart, a byte for each: 8 KiB, which stay in the processor's nearest cache, so that the many
 * addresses that were not sampled cost one look there.
 */
#define SONDE_ADDRESS_SET_BITS 13u
#define SONDE_ADDRESS_SET_WAYS 8u

typedef struct
{
  _Alignas(64) uint64_t addresses[SONDE_ADDRESS_SET_WAYS]; /* 0: free */
} SondeAddressBucket;

typedef struct
{
  uint8_t n_used[1u << SONDE_ADDRESS_SET_BITS]; /* of each bucket, at most all */
  SondeAddressBucket buckets[1u << SONDE_ADDRESS_SET_BITS];
} SondeAddressSet;

/* The number of its bucket, by Fibonacci hashing: the upper bits are well mixed. */
static inline size_t
sonde_address_set_place (uint64_t address)
{
  return address * UINT64_C (0x9E3779B97F4A7C15) >> (64 - SONDE_ADDRESS_SET_BITS);
}

/* False: it is not in the set. Else it may be. */
static inline bool
sonde_address_set_may_have (const SondeAddressSet *self, uint64_t address)
{
  return __atomic_load_n (&self->n_used[sonde_address_set_place (address)], __ATOMIC_RELAXED) != 0;
}

/* @address: not 0, and not in the set. False: its bucket is full. */
static inline bool
sonde_address_set_add (SondeAddressSet *self, uint64_t address)
{
  size_t place = sonde_address_set_place (address);
  SondeAddressBucket *bucket = &self->buckets[place];

  for (unsigned i = 0; i < SONDE_ADDRESS_SET_WAYS; i++)
    {
      uint64_t expected = 0;

      if (__atomic_compare_exchange_n (&bucket->addresses[i], &expected, address, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        {
          __atomic_fetch_add (&self->n_used[place], 1, __ATOMIC_RELAXED);
          return true;
        }
    }
  return false;
}

/* False: it was not there. */
static inline bool
sonde_address_set_remove (SondeAddressSet *self, uint64_t address)
{
  size_t place = sonde_address_set_place (address);
  SondeAddressBucket *bucket = &self->buckets[place];

  for (unsigned i = 0; i < SONDE_ADDRESS_SET_WAYS; i++)
    if (__atomic_load_n (&bucket->addresses[i], __ATOMIC_RELAXED) == address)
      {
        __atomic_fetch_sub (&self->n_used[place], 1, __ATOMIC_RELAXED);
        __atomic_store_n (&bucket->addresses[i], 0, __ATOMIC_RELAXED);
        return true;
      }
  return false;
}
