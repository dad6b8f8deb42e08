/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adds heap events up by process and stack, and writes what has changed as segments. */
#pragma once

#include "daemon/capture/heap/heap-log.h"
#include "protocol/heap-sums.h"

/**
 * SECTION: heap-sums
 *
 * What a session of weeks has room for: how many events there are does not matter, nor how many
 * processes have ended. Each stack of a process that allocates has a *sum*; where there is no room
 * for another one the block counts for that of a caller. What is live at the peak is exact: a sum
 * keeps what it had at the newest peak when it changes for the first time after it.
 *
 * A sum that has changed is told each SONDE_HEAP_SUMS_INTERVAL_NS, so many at a time that nothing
 * else has to wait, and a new one's stack a second after its first block. Main thread only.
 */
#define SONDE_HEAP_SUMS_INTERVAL_NS (10 * G_GINT64_CONSTANT (1000000000))
#define SONDE_HEAP_SUMS_MAX_SUMS    (1u << 18) /* of 160 bytes */
#define SONDE_HEAP_SUMS_MAX_OTHERS  4096       /* beside these, of processes without another */
#define SONDE_HEAP_SUMS_MAX_BLOCKS  (1u << 22) /* live ones, of 16 bytes beside their place */
#define SONDE_HEAP_SUMS_N_AT_A_TIME 16384

typedef struct SondeHeapSums SondeHeapSums;

/* Whose sums they are; all zero has none. Stays where it is until it is ended. */
typedef struct
{
  uint32_t serial;
  uint32_t first; /* of its sums, + 1 */
  SondeHeapSumsAmount live;
} SondeHeapSumsOwner;

/* @tree: what stacks are numbered in; borrowed, and outliving it. @interval_bytes: mean distance of
 * sampled bytes; 0: all blocks are told. @func: gets the segments, with how many events were taken
 * since the one before */
SondeHeapSums *sonde_heap_sums_new (const SondeStackTree *tree,
                                    guint64 interval_bytes,
                                    SondeHeapLogFunc func,
                                    gpointer user_data);
void sonde_heap_sums_free (SondeHeapSums *self); /* accepts NULL; what was not told is dropped */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapSums, sonde_heap_sums_free)

/* A block's number, from 1; 0: there is no room for one more. */
uint32_t sonde_heap_sums_reserve_block (SondeHeapSums *self);

typedef struct
{
  gint64 time_ns;
  uint64_t size_bytes;
  int32_t pid;
  int32_t tid;
  uint32_t node;
} SondeHeapSumsBlock;

/* @number: of reserve_block(), and given back with it */
void sonde_heap_sums_begin_block (SondeHeapSums *self,
                                  SondeHeapSumsOwner *owner,
                                  uint32_t number,
                                  const SondeHeapSumsBlock *block);
/* @number: as above, of a block that has no room elsewhere; or 0 */
void sonde_heap_sums_skip_block (SondeHeapSums *self,
                                 SondeHeapSumsOwner *owner,
                                 uint32_t number,
                                 const SondeHeapSumsBlock *block);

/* @is_newest: nothing was allocated by that thread since */
void sonde_heap_sums_free_block (
    SondeHeapSums *self, uint32_t number, gint64 time_ns, int32_t tid, gboolean is_newest);
/* Nobody told that it was freed, but something else lies there. */
void sonde_heap_sums_replace_block (SondeHeapSums *self, uint32_t number, gint64 time_ns);
/* A child has freed what it has from its parent, @number being the parent's. Takes it of
 * @inherited. */
void sonde_heap_sums_free_inherited (SondeHeapSums *self,
                                     uint32_t number,
                                     gint64 time_ns,
                                     SondeHeapSumsAmount *inherited);
void sonde_heap_sums_free_unknown (SondeHeapSums *self, gint64 time_ns);

/* Its blocks, too, are given back, by sonde_heap_sums_forget_block(). */
void sonde_heap_sums_end_owner (SondeHeapSums *self,
                                SondeHeapSumsOwner *owner,
                                const SondeHeapSumsAmount *inherited);
void sonde_heap_sums_forget_block (SondeHeapSums *self, uint32_t number);
/* Its addresses mean something else from now on: blocks to come have other sums. */
void sonde_heap_sums_renew_owner (SondeHeapSums *self, SondeHeapSumsOwner *owner);

/* Segments of what is older than @before_ns, by the times of events; G_MAXINT64: of all. */
void sonde_heap_sums_flush (SondeHeapSums *self, gint64 before_ns);
/* Stacks that were not told of are, before what tells that their addresses mean something else. */
void sonde_heap_sums_define (SondeHeapSums *self);
/* What follows decodes alone: to its readers stacks begin at @now_ns. */
void sonde_heap_sums_restart (SondeHeapSums *self, gint64 now_ns);

/* What @func says of each sum's node is its node, of the tree that is set then. Behind a restart.
 */
void sonde_heap_sums_foreach_node (SondeHeapSums *self,
                                   uint32_t (*func) (uint32_t node, gpointer user_data),
                                   gpointer user_data);
void sonde_heap_sums_set_tree (SondeHeapSums *self, const SondeStackTree *tree);
/* Events that are added up, and in no segment yet. */
guint32 sonde_heap_sums_n_untold (const SondeHeapSums *self);
/* Sums, and those that were told for the last time and are no more. */
guint32 sonde_heap_sums_n_used (const SondeHeapSums *self);
guint64 sonde_heap_sums_n_gone (const SondeHeapSums *self);
/* Sums of stacks that had no room, and count for callers. */
guint64 sonde_heap_sums_n_cut (const SondeHeapSums *self);
