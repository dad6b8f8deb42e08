/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps what the writers of tries have beside their regions: cursors, tables, stacks. */
#pragma once

#include "shared-ring/ring-atomic.h"
#include "shared-ring/trie-gaps.h"
#include "shared-ring/trie-writer.h"

/**
 * SECTION: trie-context
 *
 * Of trie-writer.c alone, which has what each call does; here is what is done now and then.
 */

#define LIKELY(condition)   __builtin_expect (!!(condition), true)
#define UNLIKELY(condition) __builtin_expect (!!(condition), false)
#define HOT                 static inline __attribute__ ((always_inline))
#define RARE                static __attribute__ ((noinline, cold))

/* Callees of a path are found by a table that holds about as many paths as programs have; lists of
 * them are behind it. */
#define TABLE_BITS 12
#define TABLE_SIZE (1u << TABLE_BITS)

/* Other stacks than the thread's own, and that. */
#define MAX_STACKS 64u

/* One in so many hooks is timed itself. What took longer was interrupted. */
#define HOOK_MASK      63u
#define MAX_HOOK_TICKS 400u

/* Of the frame above a stack's first call. */
#define NO_SP      UINT64_MAX

#define MEAN_SHIFT 3

/* Of functions, by their hash, whether the user wants them; another one with that hash replaces it.
 */
#define VERDICT_BITS 12
#define N_VERDICTS   (1u << VERDICT_BITS)

/* Beside a function's address, which never has this bit. */
#define IS_UNWANTED (UINT64_C (1) << 63)

/* Places of functions that are left out: twice as many as there may be. */
#define LEFT_OUT_BITS 8
#define LEFT_OUT_SIZE (1u << LEFT_OUT_BITS)

/* Where the next entry of a kind goes. */
typedef struct
{
  SondeTrieSlab *slab; /* NULL: none yet */
  uint32_t n_used;
} SondeTrieCursor;

typedef struct
{
  SondeTrieRange range; /* of size 0: free */
  uint32_t first_slab;  /* a line; 0: none */
  SondeTrieFrame *top;
  uint64_t last_used; /* in calls */
} SondeTrieStack;

/* Beside a frame's weight: its exit is timed, and is not told quickly. */
#define TIMED_EXIT   UINT32_C (0x80000000)
#define UNUSUAL_EXIT UINT32_C (0x40000000)
#define WEIGHT_FLAGS (TIMED_EXIT | UNUSUAL_EXIT)

/* Of SondeTrieHeader.news: none is. */
#define NO_NEWS UINT64_MAX

struct SondeTrieWriter
{
  /* Each call reads these. */
  uint64_t busy;       /* the stack pointer of the hook that is running; 0: none */
  uint64_t quick_news; /* the header's, while all is as of most calls; else NO_NEWS */
  SondeTrieHeader *header;
  uint8_t *base;
  SondeTrieSlot *slot;
  SondeTrieFrame *top;
  SondeTrieFrame *end; /* of the slab that @top is in: no frame fits there */
  uint32_t n_quick;    /* the call that is unusual whatever comes, counted from here */
  uint32_t n_planned;  /* what that was, less calls that are no steps to @gap */
  uint64_t stack_lo;
  uint64_t stack_bytes;

  SondeTrieFrame *first; /* of the same slab */
  uint64_t news;         /* the header's, as it was taken; NO_NEWS: no call is like most */
  uint64_t (*read_clock) (void);
  uint64_t random;
  uint64_t hook_mask; /* of the numbers of calls whose hooks are timed */
  uint64_t timed_from;
  uint64_t timed_until;
  uint64_t slow_from; /* UINT64_MAX: no call is slow */
  uint32_t epoch;
  uint32_t mode;
  uint32_t gap;          /* the call that is timed next, counted from here */
  uint32_t sample_every; /* and what it stands for */
  uint32_t max_depth;
  uint32_t slab_depth; /* of frames in the slabs before */
  uint32_t n_over;     /* calls without a frame that have not returned */
  uint32_t number;     /* of the slot */
  uint32_t is_taken;
  uint32_t stack;      /* in @stacks */
  uint32_t n_left_out; /* as the header had it */
  SondeTrieWriter *second;
  SondeTrie *trie;
  SondeTrieCursor nodes, timings, octaves, slow_calls;
  uint32_t table[TABLE_SIZE];
  uint64_t left_out[LEFT_OUT_SIZE]; /* addresses, by their hash; 0: free */
  uint16_t gaps[SONDE_TRIE_N_GAPS];
  SondeTrieStack stacks[MAX_STACKS];
};

struct SondeTrie
{
  SondeTrieMemory memory;
  SondeTrieUser user;
  size_t size_bytes;             /* of this struct */
  uint64_t verdicts[N_VERDICTS]; /* of all threads; 0: none */
  SondeTrieWriter *writers[];    /* by slot */
};

HOT void *
at_line (const SondeTrieWriter *self, uint32_t line)
{
  return self->base + (size_t) line * SONDE_TRIE_LINE_BYTES;
}

HOT uint32_t
line_of (const SondeTrieWriter *self, const void *place)
{
  return (uint32_t) ((size_t) ((const uint8_t *) place - self->base) / SONDE_TRIE_LINE_BYTES);
}

HOT SondeTrieNode *
node_at (const SondeTrieWriter *self, uint32_t node)
{
  return (SondeTrieNode *) (void *) (self->base + (size_t) node * SONDE_TRIE_NODE_BYTES);
}

/* A word that only its thread writes: by one instruction where there is one. */
HOT void
grow (uint64_t *word, uint64_t by)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  __asm__("addq %1, %0" : "+m"(*word) : "re"(by) : "cc");
#else
  sonde_ring_store_relaxed (word, *word + by);
#endif
}

HOT uint32_t
hash (uint32_t parent, uint64_t function)
{
  uint64_t word = (function ^ parent * UINT64_C (0x2545F491)) * UINT64_C (0x9E3779B97F4A7C15);

  return (uint32_t) (word >> (64 - TABLE_BITS));
}

HOT uint32_t
left_out_hash (uint64_t function)
{
  return (uint32_t) (function * UINT64_C (0x9E3779B97F4A7C15) >> (64 - LEFT_OUT_BITS));
}

HOT uint32_t
verdict_hash (uint64_t function)
{
  return (uint32_t) (function * UINT64_C (0x9E3779B97F4A7C15) >> (64 - VERDICT_BITS));
}

HOT SondeTrieSlab *
slab_of (const SondeTrieWriter *self, const SondeTrieFrame *frame)
{
  size_t offset = (size_t) ((const uint8_t *) frame - self->base);

  return (SondeTrieSlab *) (void *) (self->base + (offset - offset % SONDE_TRIE_SLAB_BYTES));
}

HOT void
set_top (SondeTrieWriter *self, SondeTrieFrame *top)
{
  self->top = top;
  /* Pairs with the acquire of who looks where the program was. */
  sonde_ring_store_release (&self->slot->top, line_of (self, top));
}

HOT uint64_t
now (const SondeTrieWriter *self)
{
#if defined(__x86_64__)
  if (LIKELY (self->read_clock == NULL))
    return __builtin_ia32_rdtsc ();
#elif defined(__aarch64__)
  if (LIKELY (self->read_clock == NULL))
    {
      uint64_t ticks;

      __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
      return ticks;
    }
#endif
  return self->read_clock ();
}

/* Returns: where an entry goes that is there after sonde_trie_context_publish(), or NULL */
void *sonde_trie_context_reserve (SondeTrieWriter *self,
                                  SondeTrieCursor *cursor,
                                  SondeTrieSlabKind kind,
                                  size_t size,
                                  uint32_t max);
void sonde_trie_context_publish (SondeTrieCursor *cursor);

/* Behind the table. Returns: 0 if there is no room */
uint32_t sonde_trie_context_find_callee (SondeTrieWriter *self, uint32_t parent, uint64_t function);

/* Returns: where a frame goes that has no room in this slab; NULL if there is none, which is
 * counted */
SondeTrieFrame *sonde_trie_context_deepen (SondeTrieWriter *self);

/* The frame above one that is the first of its slab. */
SondeTrieFrame *sonde_trie_context_ascend (const SondeTrieWriter *self,
                                           const SondeTrieFrame *frame);

/* @depth: of frames in the slabs before */
void sonde_trie_context_use_slab (SondeTrieWriter *self, SondeTrieSlab *slab, uint32_t depth);

/* Returns: false: there is no room for the frames of the stack that @sp is on */
bool sonde_trie_context_switch_stack (SondeTrieWriter *self, uint64_t sp);

/* Behind the verdicts: asks, and keeps the answer. */
bool sonde_trie_context_is_unwanted (SondeTrie *trie, uint64_t function);

/* A call of the top frame's took long. */
void
sonde_trie_context_note_slow (SondeTrieWriter *self, const SondeTrieFrame *frame, uint64_t ticks);

uint32_t sonde_trie_context_draw_gap (SondeTrieWriter *self);
void sonde_trie_context_take_epoch (SondeTrieWriter *self);
void sonde_trie_context_take_left_out (SondeTrieWriter *self);
