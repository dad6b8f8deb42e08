/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps what profiled programs say of their heaps in the order of time, as a log or as sums. */
#pragma once

#include "daemon/capture/heap/heap-log.h"
#include "daemon/capture/heap/heap-sums.h"

/**
 * SECTION: heap-book
 *
 * Rings are read one after another, so that a block may be freed before it is told where it came
 * from. Events wait until all rings were read that may have earlier ones: an event of which another
 * one is the cause was in its ring before that one's time. Then each block of a process has a
 * number until it is freed (live-blocks.h), and the log has numbers. Or there is no log, and what
 * events have made is in sums.
 *
 * An exec and the end of a process end its heap. A child may free what its parent has: of that one
 * the number is told, as its blocks are the child's, too.
 *
 * Whatever programs say, memory is bounded: for blocks, for the tree's nodes, for threads, and for
 * the events that wait. Main thread only.
 */
#define SONDE_HEAP_BOOK_LIVE_BYTES  (128u << 20)
#define SONDE_HEAP_BOOK_MAX_WAITING (1u << 19) /* events, of 40 bytes */
#define SONDE_HEAP_BOOK_MAX_STACKS  (1u << 19) /* that are known by their hash */
#define SONDE_HEAP_BOOK_MAX_THREADS (1u << 18) /* of others their process's first is told */
#define SONDE_HEAP_BOOK_MAX_LEFT    4096       /* programs whose end is not known */

typedef struct SondeHeapBook SondeHeapBook;

/* One program in one process. */
typedef struct SondeHeapBookProcess SondeHeapBookProcess;

typedef struct
{
  gint64 time_ns;
  uint64_t address;
  uint64_t size_bytes; /* 0: it is a free */
  int32_t tid;
  uint32_t node; /* of sonde_heap_book_add_stack() */
} SondeHeapBookEvent;

/* @tick_ns: what times are rounded down to. @func: gets the segments */
SondeHeapBook *sonde_heap_book_new (guint tick_ns, SondeHeapLogFunc func, gpointer user_data);
/* The same, of sums. @interval_bytes: as in sonde_heap_sums_new() */
SondeHeapBook *
sonde_heap_book_new_sums (guint64 interval_bytes, SondeHeapLogFunc func, gpointer user_data);
void sonde_heap_book_free (SondeHeapBook *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapBook, sonde_heap_book_free)

/* Valid until it is ended or left. There may be several of one pid: a program that got another link
 * may free what it allocated before. */
SondeHeapBookProcess *sonde_heap_book_add_process (SondeHeapBook *self, int32_t pid);
/* Whether there is one that was not ended. */
gboolean sonde_heap_book_has_process (const SondeHeapBook *self, int32_t pid);
/* Nothing more comes of it: what waits of it is told. */
void sonde_heap_book_end_process (SondeHeapBook *self, SondeHeapBookProcess *process);
/* Nothing more comes of it, but its program may still run: another one of its pid knows its blocks.
 */
void sonde_heap_book_leave_process (SondeHeapBook *self, SondeHeapBookProcess *process);
/* Programs of @pid that were left are over, too. */
void sonde_heap_book_end_left (SondeHeapBook *self, int32_t pid);
/* Whoever @pid is next, or executes, has nothing of a parent's. Behind the ends of its programs. */
void sonde_heap_book_end_program (SondeHeapBook *self, int32_t pid);
/* @child begins with the blocks that @parent has at @time_ns. */
void sonde_heap_book_fork (SondeHeapBook *self, int32_t parent, int32_t child, gint64 time_ns);
/* Addresses of @pid mean something else from now on. */
void sonde_heap_book_remap (SondeHeapBook *self, int32_t pid);

/* Stacks are known by 64 bits of hash, which the caller makes: of what they are made of, and of
 * whose they are. FALSE: it has to be added. Nodes are valid until the seed is another one. */
uint64_t sonde_heap_book_seed (const SondeHeapBook *self);
gboolean sonde_heap_book_find_stack (SondeHeapBook *self, uint64_t hash, uint32_t *node);
uint32_t sonde_heap_book_add_stack (SondeHeapBook *self,
                                    uint64_t hash,
                                    const uint64_t *addrs,
                                    guint n_addrs);

void sonde_heap_book_add (SondeHeapBook *self,
                          SondeHeapBookProcess *process,
                          const SondeHeapBookEvent *event);

/* No event from before @before_ns will come; G_MAXINT64: none at all. */
void sonde_heap_book_turn (SondeHeapBook *self, gint64 before_ns);
/* Whether events wait. */
gboolean sonde_heap_book_has_waiting (const SondeHeapBook *self);

/* Events that sums have, and no segment yet. */
guint32 sonde_heap_book_n_untold (const SondeHeapBook *self);

/* What was told is in segments, if it is older than @before_ns; changed sums are, if none were told
 * of late. */
void sonde_heap_book_flush (SondeHeapBook *self, gint64 before_ns);
/* All events are, and what follows can be read by who has not read that. */
void sonde_heap_book_restart (SondeHeapBook *self, gint64 now_ns);

typedef struct
{
  guint64 n_cut;          /* stacks without room, of some of their frames */
  guint64 n_not_followed; /* blocks without room, whose frees are of blocks that nobody knows */
} SondeHeapBookLosses;

SondeHeapBookLosses sonde_heap_book_losses (const SondeHeapBook *self);
