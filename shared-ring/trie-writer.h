/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts the calls of a thread by call path, and times some, in memory that somebody else reads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared-ring/trie-memory.h"

/**
 * SECTION: trie-writer
 *
 * A thread's hooks say of each call where it begins and ends, and what the stack pointer is. So a
 * shadow stack needs no help from the program: whatever is above the stack pointer (lower) is gone,
 * by longjmp(), an exception, a tail call, or because nobody says where calls end at all.
 *
 * A thread has two writers. A hook that a signal handler's hooks interrupt leaves those to the
 * second, and what interrupts that is counted as lost. Nothing waits, nothing is allocated but
 * slabs of the region, and at a thread's beginning its private table, by mmap(). errno is left
 * alone. What the hooks call uses no registers but the general ones.
 */
typedef struct SondeTrie SondeTrie;
typedef struct SondeTrieWriter SondeTrieWriter;

/* A stack: from its lowest address. */
typedef struct
{
  uint64_t lo;
  uint64_t size_bytes;
} SondeTrieRange;

/* What hooks call: functions may have arguments and results in vector registers then, which are to
 * be left as they are. */
typedef struct
{
  /* NULL: the processor's own counter */
  uint64_t (*read_clock) (void);
  /* NULL, or finds the stack that @sp is on: from hooks, also in signal handlers. False: unknown */
  bool (*find_stack) (uint64_t sp, SondeTrieRange *range);
  /* NULL: all are, or whether calls of a function are to be counted: 1 for good, 0 for good not, -1
   * not now. From sonde_trie_enter_within() and sonde_trie_exit_within(), also in signal handlers
   */
  int (*is_wanted) (uint64_t function);
} SondeTrieUser;

/**
 * sonde_trie_new:
 * @memory: (transfer full): of sonde_trie_memory_map()
 *
 * Errors: -ENOMEM
 */
int sonde_trie_new (SondeTrieMemory *memory, const SondeTrieUser *user, SondeTrie **self);

/* Also its writers and its memory; no hook is running. Accepts NULL. */
void sonde_trie_free (SondeTrie *self);

/**
 * sonde_trie_take_writer:
 * @stack: that the thread runs on
 *
 * A trie that another thread has left, or a new one. Not for signal handlers.
 *
 * Returns: (transfer none): NULL: there is no room, or no memory: what the thread calls is to be
 *   counted by sonde_trie_lose()
 */
SondeTrieWriter *sonde_trie_take_writer (SondeTrie *self, int32_t tid, const SondeTrieRange *stack);

/* Its thread has ended: the next may adopt it. */
void sonde_trie_leave_writer (SondeTrieWriter *self);

/* A call of a thread without a writer. */
void sonde_trie_lose (SondeTrie *self);

/**
 * sonde_trie_enter:
 * @function: more than SONDE_TRIE_SIGNAL_ROOT
 * @sp: where its return address is: the same at its exit, and of nobody else on this stack
 */
void sonde_trie_enter (SondeTrieWriter *self, uint64_t function, uint64_t sp);
void sonde_trie_exit (SondeTrieWriter *self, uint64_t sp);

/**
 * sonde_trie_enter_within:
 * @sp: of the call of the hook in the function, which those that were inlined there share, and
 *   which may be less at its exit
 * @site: where the function returns to, or the one that it was inlined into
 */
void sonde_trie_enter_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site);
void sonde_trie_exit_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site);

/**
 * sonde_trie_pass:
 * @sp: where its return address is
 *
 * A call whose end nobody tells: it is over when another one is as high, or higher. So it is not
 * timed.
 */
void sonde_trie_pass (SondeTrieWriter *self, uint64_t function, uint64_t sp);

/* A call that had begun before the thread had its writer. */
typedef struct
{
  uint64_t function;
  uint64_t site;  /* where it returns to */
  uint64_t place; /* where that address is, on the stack; 0: not known */
  uint64_t sp;    /* in the function, as sonde_trie_enter_within() has it */
} SondeTrieStanding;

/**
 * sonde_trie_seed:
 * @calls: of the stack that sonde_trie_take_writer() was told, the outermost first; as many are
 *   taken as a slab has room for
 *
 * Before the first call of a thread: where it is. These are not counted, nor are they timed.
 * Whether such a call has returned is told by the stack, as its function may have no hook.
 */
void sonde_trie_seed (SondeTrieWriter *self, const SondeTrieStanding *calls, size_t n_calls);

/* The program goes on at @sp: all calls above (lower) are over. */
void sonde_trie_unwind (SondeTrieWriter *self, uint64_t sp);
