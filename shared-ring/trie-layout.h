/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The call tries of a profiled program as they lie in memory that it shares with the profiler. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/calls.h"

/**
 * SECTION: trie-layout
 *
 * One region for each process, a sealed memfd: the header, a table of slots, then slabs of 16 KiB.
 * A *slot* is a trie: what one thread at a time counts, and, when that has ended, another one. A
 * *slab* belongs to one slot and has things of one kind:
 *
 * - nodes: a call path each, that is a function below the path of its caller. @calls is exact;
 * - timings: what is known of how long calls of a node took; made at the first that is timed;
 * - octaves: 16 equal buckets between two powers of two; those of a timing that are not empty;
 * - frames: a shadow stack. Several slabs of one are linked by @previous;
 * - slow calls, one by one: a ring, of a slab, whose newest entry replaces its oldest.
 *
 * References are counts of lines of 64 bytes from the start of the region, those to nodes counts of
 * 32 bytes; 0 is none. A node's parent was made before it, and slabs are handed out upwards, so
 * that **a parent's reference is less than its child's**.
 *
 * A slot's things are written by its thread alone. What is behind a slab's @n_used is not there
 * yet: it is raised, with a release, when an entry is complete; of slow calls it counts all that
 * there were, modulo 2^32. Where a word counts, it only grows;
 * buckets count modulo 2^32. The header's first line is of the maker and stays; its second is the
 * maker's, who raises @epoch behind all that he changed there; its third is the program's, and the
 * lists behind it are the maker's again.
 *
 * The account of a slot: @calls = those of its nodes + @lost_budget + @lost_depth. What
 * @lost_interrupted has, and the header's @lost_threads, is not among @calls.
 *
 * Source: docs/tracing.md
 */

#define SONDE_TRIE_MAGIC        UINT64_C (0x5452494550415448)
#define SONDE_TRIE_VERSION      1u

#define SONDE_TRIE_LINE_BYTES   64u
#define SONDE_TRIE_NODE_BYTES   32u
#define SONDE_TRIE_SLAB_BYTES   16384u
#define SONDE_TRIE_SLAB_LINES   (SONDE_TRIE_SLAB_BYTES / SONDE_TRIE_LINE_BYTES)
#define SONDE_TRIE_HEADER_BYTES 4096u

/* Room for a thread at least; what references reach is more than the upper bound. */
#define SONDE_TRIE_MIN_BYTES (64u * 1024)
#define SONDE_TRIE_MAX_BYTES (1024u * 1024 * 1024)

/* Of the frames of a shadow stack; calls below are counted as lost. */
#define SONDE_TRIE_MAX_DEPTH 4096u

/* What is said of functions in the header. */
#define SONDE_TRIE_MAX_LEFT_OUT 128u
#define SONDE_TRIE_FILTER_BYTES 2048u

typedef enum
{
  SONDE_TRIE_OFF = 0,
  SONDE_TRIE_COUNT = 1, /* nothing is timed */
  SONDE_TRIE_AUTO = 2,  /* one in @sample_every calls is, of paths that take long each */
  SONDE_TRIE_EXACT = 3, /* all are, and time of one's own is kept apart */
} SondeTrieMode;

/* What a tick is. */
typedef enum
{
  SONDE_TRIE_COUNTER = 1,     /* of the processor: TSC, or CNTVCT_EL0 */
  SONDE_TRIE_NANOSECONDS = 2, /* of CLOCK_MONOTONIC */
} SondeTrieClock;

typedef struct
{
  uint64_t magic;
  uint32_t version;
  uint32_t size_lines;
  uint32_t max_slots;
  uint32_t slabs_at; /* the line of the first slab */
  uint32_t max_slabs;
  uint32_t padding[9];

  union
  {
    struct
    {
      uint32_t epoch;      /* another one: what was written here before is different, and all shadow
                              stacks are void */
      uint32_t n_left_out; /* of @left_out */
    };
    uint64_t news; /* both */
  };
  uint32_t mode;              /* SondeTrieMode */
  uint32_t sample_every;      /* a power of two, 1 to 4,096 */
  uint64_t timed_from_ticks;  /* a path whose calls take longer has each timed */
  uint64_t timed_until_ticks; /* and no longer, when they take less than this */
  uint64_t slow_ticks;        /* a timed call that takes longer is slow; 0: none is */
  uint32_t filter_bytes;      /* of @filter */
  uint32_t max_depth;         /* 1 to SONDE_TRIE_MAX_DEPTH */
  uint32_t padding_2[4];

  uint32_t n_slots;      /* may be more than there are, for whoever was refused */
  uint32_t n_slabs;      /* the same */
  uint64_t lost_threads; /* calls of threads that got no slot */
  uint32_t owner;        /* the pid, of its own, of the process that has taken the region */
  uint32_t clock;        /* SondeTrieClock, of that one */
  uint32_t n_functions;  /* whose beginnings are places that can be switched to call hooks ... */
  uint32_t n_patched;    /* ... and that were, when calls were last wanted */
  uint32_t n_refused;    /* places that could not be */
  uint32_t reason;       /* SondeCallsReason, of the first of them */
  uint32_t n_switches;   /* of all of them together; odd while they call hooks */
  uint32_t padding_3[5];

  uint64_t left_out[SONDE_TRIE_MAX_LEFT_OUT]; /* of the maker: addresses of functions that are not
                                                 counted any more */
  char filter[SONDE_TRIE_FILTER_BYTES];       /* of the maker: lines "[!][MODULE-GLOB:]NAME-GLOB" or
                                                 "size>=BYTES", the last that matches wins; none: all */
} SondeTrieHeader;

typedef enum
{
  SONDE_TRIE_SLOT_NONE = 0,
  SONDE_TRIE_SLOT_LIVE = 1,
  SONDE_TRIE_SLOT_LEFT = 2, /* its thread has ended; the next one may adopt it */
} SondeTrieSlotState;

typedef struct
{
  uint32_t state;      /* SondeTrieSlotState */
  uint32_t generation; /* how many threads it has been of */
  int32_t tid;
  uint32_t root;       /* a node without a parent */
  uint32_t is_signals; /* of handlers that interrupted a hook */
  uint32_t top;        /* the line of the top frame of the stack that it runs on */
  uint64_t calls;
  uint64_t lost_budget;      /* no room for a node or a frame, also above */
  uint64_t lost_depth;       /* deeper than @max_depth */
  uint64_t lost_interrupted; /* handlers that interrupted a hook of a handler that did */
  uint64_t resynced;         /* frames that were dead when a later hook came */
  uint64_t unmatched;        /* exits without a frame */
  uint64_t lost_timings;     /* timed calls without room for their timing */
  uint64_t hook_ticks;       /* of @n_hooks hooks */
  uint64_t n_hooks;
  uint64_t lost_stacks; /* shadow stacks that others took the place of */
  uint64_t lost_slow;   /* slow calls without room for their ring */
  uint32_t padding[4];
} SondeTrieSlot;

typedef enum
{
  SONDE_TRIE_NO_SLAB = 0, /* not there yet */
  SONDE_TRIE_NODES = 1,
  SONDE_TRIE_TIMINGS = 2,
  SONDE_TRIE_OCTAVES = 3,
  SONDE_TRIE_FRAMES = 4,
  SONDE_TRIE_SLOW_CALLS = 5,
  SONDE_TRIE_N_KINDS,
} SondeTrieSlabKind;

/* What a slab begins with. */
typedef struct
{
  uint32_t kind;     /* SondeTrieSlabKind; written last */
  uint32_t slot;     /* its number */
  uint32_t n_used;   /* entries; of frames it means nothing */
  uint32_t previous; /* the line of the slab of the frames above */
  uint32_t next;     /* of those below; for the writer */
  uint32_t padding[11];
} SondeTrieSlab;

/* In @timing, for the writer: of a path whose calls are each timed, and of one that had no more
 * than the first few, which are, too. */
#define SONDE_TRIE_TIMED_EACH UINT32_C (0x80000000)
#define SONDE_TRIE_IS_NEW     UINT32_C (0x40000000)
#define SONDE_TRIE_FLAGS      (SONDE_TRIE_TIMED_EACH | SONDE_TRIE_IS_NEW)

typedef struct
{
  uint64_t function; /* its address; of a root SONDE_TRIE_ROOT or SONDE_TRIE_SIGNAL_ROOT */
  uint64_t calls;
  uint32_t parent;
  uint32_t timing;      /* a line; SONDE_TRIE_FLAGS beside it */
  uint32_t first_child; /* this and the next are for the writer */
  uint32_t sibling;
} SondeTrieNode;

#define SONDE_TRIE_ROOT        UINT64_C (0)
#define SONDE_TRIE_SIGNAL_ROOT UINT64_C (1)

/* Sums are weighted: a call that stands for 64 counts 64 times. */
typedef struct
{
  uint64_t timed;
  uint64_t total_ticks;
  uint64_t self_ticks; /* SONDE_TRIE_EXACT alone */
  uint64_t nested;     /* calls below, whose hooks are part of the total */
  uint64_t min_ticks;
  uint64_t max_ticks;
  uint32_t octaves[SONDE_CALLS_N_OCTAVES]; /* lines */
  uint32_t mean_ticks;                     /* of the last few; for the writer */
} SondeTrieTiming;

typedef struct
{
  uint32_t buckets[SONDE_CALLS_OCTAVE_BUCKETS]; /* modulo 2^32 */
} SondeTrieOctave;

/* Of one that stood before its thread was traced @sp is 0, @start_ticks is where on the stack its
 * return address is, and @children_ticks the stack pointer in it. */
typedef struct
{
  uint64_t sp;
  uint64_t function;
  uint64_t site; /* where it returns to, if that is known */
  uint64_t start_ticks;
  uint64_t children_ticks;
  uint64_t calls;  /* of the slot, when it began */
  uint32_t node;   /* 0: there was no room for one */
  uint32_t weight; /* 0: not timed; above all weights are flags of the writer */
  uint64_t padding;
} SondeTrieFrame;

typedef struct
{
  uint64_t start_ticks;
  uint64_t ticks;
  uint32_t node;
  uint32_t padding[3];
} SondeTrieSlowCall;

#define SONDE_TRIE_SLAB_NODES                                                                      \
  ((SONDE_TRIE_SLAB_BYTES - SONDE_TRIE_LINE_BYTES) / SONDE_TRIE_NODE_BYTES)
#define SONDE_TRIE_SLAB_TIMINGS                                                                    \
  ((uint32_t) ((SONDE_TRIE_SLAB_BYTES - SONDE_TRIE_LINE_BYTES) / sizeof (SondeTrieTiming)))
#define SONDE_TRIE_SLAB_OCTAVES (SONDE_TRIE_SLAB_LINES - 1)
#define SONDE_TRIE_SLAB_FRAMES  (SONDE_TRIE_SLAB_LINES - 1)
#define SONDE_TRIE_SLAB_SLOW_CALLS                                                                 \
  ((uint32_t) ((SONDE_TRIE_SLAB_BYTES - SONDE_TRIE_LINE_BYTES) / sizeof (SondeTrieSlowCall)))

/* Slabs of the deepest shadow stack, with the frame below its first call. */
#define SONDE_TRIE_MAX_STACK_SLABS (SONDE_TRIE_MAX_DEPTH / SONDE_TRIE_SLAB_FRAMES + 1)

static_assert (sizeof (SondeTrieHeader) <= SONDE_TRIE_HEADER_BYTES, "the header is a page");
static_assert (offsetof (SondeTrieHeader, left_out) == 3 * SONDE_TRIE_LINE_BYTES,
               "SondeTrieHeader.left_out is misplaced");
static_assert (offsetof (SondeTrieHeader, filter)
                   == 3 * SONDE_TRIE_LINE_BYTES + 8 * SONDE_TRIE_MAX_LEFT_OUT,
               "SondeTrieHeader.filter is misplaced");
static_assert (offsetof (SondeTrieHeader, epoch) == 64, "SondeTrieHeader.epoch is misplaced");
static_assert (offsetof (SondeTrieHeader, mode) == 72, "SondeTrieHeader.mode is misplaced");
static_assert (offsetof (SondeTrieHeader, timed_from_ticks) == 80,
               "SondeTrieHeader.timed_from_ticks is misplaced");
static_assert (offsetof (SondeTrieHeader, n_slots) == 128, "SondeTrieHeader.n_slots is misplaced");
static_assert (offsetof (SondeTrieHeader, lost_threads) == 136,
               "SondeTrieHeader.lost_threads is misplaced");
static_assert (offsetof (SondeTrieHeader, owner) == 144, "SondeTrieHeader.owner is misplaced");
static_assert (offsetof (SondeTrieHeader, n_functions) == 152,
               "SondeTrieHeader.n_functions is misplaced");
static_assert (sizeof (SondeTrieSlot) == 128, "a slot is two lines");
static_assert (offsetof (SondeTrieSlot, calls) == 24, "SondeTrieSlot.calls is misplaced");
static_assert (offsetof (SondeTrieSlot, lost_stacks) == 96,
               "SondeTrieSlot.lost_stacks is misplaced");
static_assert (sizeof (SondeTrieSlab) == SONDE_TRIE_LINE_BYTES, "a slab begins with a line");
static_assert (sizeof (SondeTrieNode) == SONDE_TRIE_NODE_BYTES, "two nodes share a line");
static_assert (offsetof (SondeTrieNode, parent) == 16, "SondeTrieNode.parent is misplaced");
static_assert (offsetof (SondeTrieNode, timing) == 20, "SondeTrieNode.timing is misplaced");
static_assert (sizeof (SondeTrieTiming) == 192, "a timing is three lines");
static_assert (offsetof (SondeTrieTiming, octaves) == 48, "SondeTrieTiming.octaves is misplaced");
static_assert (sizeof (SondeTrieOctave) == SONDE_TRIE_LINE_BYTES, "an octave is a line");
static_assert (sizeof (SondeTrieFrame) == SONDE_TRIE_LINE_BYTES, "a frame is a line");
static_assert (sizeof (SondeTrieSlowCall) == 32, "two slow calls share a line");
static_assert (offsetof (SondeTrieFrame, node) == 48, "SondeTrieFrame.node is misplaced");
static_assert (SONDE_TRIE_MAX_BYTES / SONDE_TRIE_LINE_BYTES < SONDE_TRIE_IS_NEW,
               "a line fits below the flags");
