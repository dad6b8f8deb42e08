/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loads and stores words that two processes share. */
#pragma once

/**
 * SECTION: ring-atomic
 *
 * On words of 4 and 8 bytes, naturally aligned. Names say the order: an acquire sees everything
 * that was written before the release whose value it reads. Compilers without the builtins of C11
 * (GCC before 4.7) get full barriers, which are stronger than what is asked for;
 * SONDE_RING_FULL_BARRIERS asks for them everywhere, so that they can be tested.
 *
 * Source: GCC manual, "__atomic Builtins" and "__sync Builtins"
 */
#if defined(__ATOMIC_ACQUIRE) && !defined(SONDE_RING_FULL_BARRIERS)

#define sonde_ring_load_relaxed(word)         __atomic_load_n ((word), __ATOMIC_RELAXED)
#define sonde_ring_load_acquire(word)         __atomic_load_n ((word), __ATOMIC_ACQUIRE)
#define sonde_ring_store_relaxed(word, value) __atomic_store_n ((word), (value), __ATOMIC_RELAXED)
#define sonde_ring_store_release(word, value) __atomic_store_n ((word), (value), __ATOMIC_RELEASE)
#define sonde_ring_add(word, value)           ((void) __atomic_fetch_add ((word), (value), __ATOMIC_RELAXED))

#elif defined(__LP64__)

#define sonde_ring_load_relaxed(word) (*(const volatile __typeof__ (*(word)) *) (word))
#define sonde_ring_load_acquire(word)                                                              \
  __extension__({                                                                                  \
    __typeof__ (*(word) + 0) sonde_value = sonde_ring_load_relaxed (word);                         \
    __sync_synchronize ();                                                                         \
    sonde_value;                                                                                   \
  })
#define sonde_ring_store_relaxed(word, value)                                                      \
  ((void) (*(volatile __typeof__ (*(word)) *) (word) = (value)))
#define sonde_ring_store_release(word, value)                                                      \
  (__sync_synchronize (), sonde_ring_store_relaxed ((word), (value)))
#define sonde_ring_add(word, value) ((void) __sync_fetch_and_add ((word), (value)))

#else
#error "words of 8 bytes would be torn: a compiler with __atomic builtins is needed"
#endif

/* Orders this thread's accesses before and behind it as its own signal handlers see them. */
#define sonde_ring_signal_fence() __asm__ volatile("" ::: "memory")

/* A store before it is seen by all before a load behind it is made. */
#define sonde_ring_full_fence() __sync_synchronize ()
