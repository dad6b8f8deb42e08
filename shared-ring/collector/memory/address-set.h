/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses of blocks whose allocation was sampled: so that their free is recorded, and no other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * SECTION: address-set
 *
 * Of a fixed size, in memory that is used as it is needed; all zero is empty. No locks: any thread,
 * signal handlers, and children of fork(). A block has one owner at a time, who alone adds and
 * removes its address; that others who get the block see it follows from how they got it.
 *
 * Each address has a place in one bucket only, a cache line, so that the many that were not sampled
 * cost one look.
 */
#define SONDE_ADDRESS_SET_BITS 13u
#define SONDE_ADDRESS_SET_WAYS 8u

typedef struct
{
  _Alignas(64) uint64_t addresses[SONDE_ADDRESS_SET_WAYS]; /* 0: free */
} SondeAddressBucket;

typedef struct
{
  SondeAddressBucket buckets[1u << SONDE_ADDRESS_SET_BITS];
} SondeAddressSet;

static inline SondeAddressBucket *
sonde_address_set_bucket (SondeAddressSet *self, uint64_t address)
{
  /* Fibonacci hashing: the upper bits are well mixed. */
  return &self->buckets[address * UINT64_C (0x9E3779B97F4A7C15) >> (64 - SONDE_ADDRESS_SET_BITS)];
}

/* @address: not 0, and not in the set. False: its bucket is full. */
static inline bool
sonde_address_set_add (SondeAddressSet *self, uint64_t address)
{
  SondeAddressBucket *bucket = sonde_address_set_bucket (self, address);

  for (unsigned i = 0; i < SONDE_ADDRESS_SET_WAYS; i++)
    {
      uint64_t expected = 0;

      if (__atomic_compare_exchange_n (&bucket->addresses[i], &expected, address, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return true;
    }
  return false;
}

/* False: it was not there. */
static inline bool
sonde_address_set_remove (SondeAddressSet *self, uint64_t address)
{
  SondeAddressBucket *bucket = sonde_address_set_bucket (self, address);

  for (unsigned i = 0; i < SONDE_ADDRESS_SET_WAYS; i++)
    if (__atomic_load_n (&bucket->addresses[i], __ATOMIC_RELAXED) == address)
      {
        __atomic_store_n (&bucket->addresses[i], 0, __ATOMIC_RELAXED);
        return true;
      }
  return false;
}
