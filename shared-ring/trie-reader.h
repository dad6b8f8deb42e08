/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the call tries of a program that goes on writing them, or is dead, and is not believed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared-ring/trie-memory.h"

/**
 * SECTION: trie-reader
 *
 * The reader has of each entry that it knows a copy of its own, and tells what has changed since.
 * Every word is copied once, then checked, then used; no loop follows what the program wrote. What
 * cannot be ends the reading of this region.
 *
 * Its memory grows with the region's use: at most four times as much as that.
 */
typedef struct SondeTrieReader SondeTrieReader;

typedef enum
{
  SONDE_TRIE_OK = 0,
  SONDE_TRIE_FAULT_KIND,      /* of a slab */
  SONDE_TRIE_FAULT_SLOT,      /* there is none, or another one's */
  SONDE_TRIE_FAULT_USED,      /* more than fit, or less than before */
  SONDE_TRIE_FAULT_PARENT,    /* not before its child, or nothing */
  SONDE_TRIE_FAULT_FUNCTION,  /* none, or that of a root */
  SONDE_TRIE_FAULT_REFERENCE, /* to nothing of that kind, or another than before */
  SONDE_TRIE_FAULT_OWNER,     /* two refer to it */
  SONDE_TRIE_FAULT_BACKWARDS, /* a counter */
  SONDE_TRIE_N_FAULTS,
} SondeTrieFault;

/* For people. */
const char *sonde_trie_fault_to_string (SondeTrieFault fault);

/* What is known of how long calls took; see SondeTrieTiming. */
typedef struct
{
  uint64_t timed;
  uint64_t total_ticks;
  uint64_t self_ticks;
  uint64_t nested;
  uint64_t min_ticks; /* of all, also in a difference */
  uint64_t max_ticks; /* the same */
  uint64_t buckets[SONDE_CALLS_N_BUCKETS];
} SondeTrieTimes;

/* A node, with what came since it was last told of, or with all. */
typedef struct
{
  uint32_t node;
  uint32_t parent; /* 0: it is a root */
  uint32_t slot;
  uint64_t function;
  uint64_t calls;
  bool is_timed; /* @times has something */
} SondeTrieChange;

typedef void (*SondeTrieCallback) (const SondeTrieChange *change,
                                   const SondeTrieTimes *times,
                                   void *user_data);

/* Sums over all slots, as the program says. */
typedef struct
{
  uint64_t calls;   /* = @counted + @lost_budget + @lost_depth, if it rests */
  uint64_t counted; /* of nodes that were read */
  uint64_t lost_budget;
  uint64_t lost_depth;
  uint64_t lost_interrupted;
  uint64_t lost_threads;
  uint64_t lost_timings;
  uint64_t lost_stacks;
  uint64_t lost_slow;
  uint64_t resynced;
  uint64_t unmatched;
  uint64_t hook_ticks;
  uint64_t n_hooks;
  uint32_t n_slots;
  uint32_t n_threads; /* that they were of, one after the other */
  uint32_t n_nodes;
  uint32_t n_slabs;
  uint32_t n_functions; /* see SondeTrieHeader, up to @reason */
  uint32_t n_patched;
  uint32_t n_refused;
  uint32_t reason;
} SondeTrieCounts;

/**
 * sonde_trie_reader_new:
 * @memory: stays the caller's, and must be there as long as the reader
 *
 * Errors: -ENOMEM
 */
int sonde_trie_reader_new (const SondeTrieMemory *memory, SondeTrieReader **self);
void sonde_trie_reader_free (SondeTrieReader *self); /* accepts NULL */

/**
 * sonde_trie_reader_turn:
 * @max_nodes: how many are looked at, at least 1
 * @callback: of each that has changed, its parent before it
 *
 * Goes on where the last turn stopped.
 *
 * Returns: 1 there is more to look at; 0 all was, as it stood when the first of these turns began
 * Errors: -EBADMSG sonde_trie_reader_fault() says why, also ever after; -ENOMEM
 */
int sonde_trie_reader_turn (SondeTrieReader *self,
                            uint32_t max_nodes,
                            SondeTrieCallback callback,
                            void *user_data);

SondeTrieFault sonde_trie_reader_fault (const SondeTrieReader *self);

/* @call: of a node that was told of */
typedef void (*SondeTrieSlowCallback) (const SondeTrieSlowCall *call, void *user_data);

/**
 * sonde_trie_reader_take_slow_calls:
 *
 * Those that came since the last time and whose paths are known; the rest come later. What is in
 * them but the node is as the program said it.
 *
 * Returns: how many were replaced by later ones before they were read, as the program says
 */
uint64_t sonde_trie_reader_take_slow_calls (SondeTrieReader *self,
                                            SondeTrieSlowCallback callback,
                                            void *user_data);
/* Whether there are any, also of paths that are not known yet. */
bool sonde_trie_reader_has_slow_calls (const SondeTrieReader *self);

/* All that turns have told so far, for who comes late: parents first. */
void
sonde_trie_reader_tell_all (SondeTrieReader *self, SondeTrieCallback callback, void *user_data);

/* Errors: -EBADMSG a counter went backwards */
int sonde_trie_reader_count (SondeTrieReader *self, SondeTrieCounts *counts);

/**
 * sonde_trie_reader_last_words:
 * @slot: less than the slots of sonde_trie_reader_count()
 * @nodes: (out): the path of the thread, innermost first; 0: a call without a node
 * @tid: (out): as the program said it
 *
 * Where the thread is, or was when it was killed. Of one that runs it may be a mixture.
 *
 * Returns: how many there are; 0: nothing sensible, or the thread has ended
 */
size_t sonde_trie_reader_last_words (
    SondeTrieReader *self, uint32_t slot, uint32_t *nodes, size_t max_nodes, int32_t *tid);

/* The ticks that a @part of calls, 0 to 1, took at most; between the bounds of a bucket each number
 * is taken for equally likely. 0 if there are none. */
double sonde_trie_quantile (const SondeTrieTimes *times, double part);
