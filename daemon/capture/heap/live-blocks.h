/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps a number for each live block of a heap, by address page. */
#pragma once

#include <glib.h>
#include <stdint.h>

#include "base/table.h"

/**
 * SECTION: live-blocks
 *
 * An allocator gives out neighbours of what it gave out last, so that nearly each event is of a
 * page whose entries are at hand: a page of 4 KiB has 128 places, one for each 32 bytes, since the
 * blocks of most allocators are no nearer to each other. What finds its place taken, and blocks
 * that are as large as a page, of which there is one in it, are in an ordinary table. Addresses are
 * a program's to choose: both tables are hashed with a seed. Main thread only.
 */
#define SONDE_LIVE_BLOCKS_PLACES    128
#define SONDE_LIVE_BLOCKS_MAX_VALUE ((UINT64_C (1) << 61) - 1)
#define SONDE_LIVE_BLOCKS_N_RECENT  256 /* a power of two */

/* What may be kept in all heaps of a session. */
typedef struct
{
  gsize used_bytes;
  gsize max_bytes;
} SondeLiveBudget;

typedef struct
{
  SondeLiveBudget *budget; /* borrowed */
  SondeTable pages;
  SondeTable others; /* of single blocks */
  /* by the lowest bits of a page's number: where one was found last, and how many of the others
   * are in such pages, mostly none */
  guint32 recent[SONDE_LIVE_BLOCKS_N_RECENT];
  guint32 n_others[SONDE_LIVE_BLOCKS_N_RECENT];
  gsize n_blocks;
} SondeLiveBlocks;

/* @budget: borrowed, and outliving it */
void sonde_live_blocks_init (SondeLiveBlocks *self, SondeLiveBudget *budget);
/* Gives all back; what is left is as after init. */
void sonde_live_blocks_clear (SondeLiveBlocks *self);

/* An event of @address comes soon: makes the processor fetch where its page is, and somewhat later
 * its place. */
void sonde_live_blocks_expect_page (const SondeLiveBlocks *self, uint64_t address);
void sonde_live_blocks_expect_place (SondeLiveBlocks *self, uint64_t address);

/* The block's value, or 0: none lives at @address. */
uint64_t sonde_live_blocks_find (SondeLiveBlocks *self, uint64_t address);
/* Takes the block away. Returns: its value, or 0 */
uint64_t sonde_live_blocks_take (SondeLiveBlocks *self, uint64_t address);
/* @value: 1 to SONDE_LIVE_BLOCKS_MAX_VALUE; at @address no block may be. FALSE: there is no room
 * for one more. */
gboolean sonde_live_blocks_put (SondeLiveBlocks *self,
                                uint64_t address,
                                uint64_t size_bytes,
                                uint64_t value);
/* The same in one step, where there is a place for it and nothing else may be there. FALSE: nothing
 * was done, and it is to be taken away and put. */
gboolean sonde_live_blocks_put_new (SondeLiveBlocks *self,
                                    uint64_t address,
                                    uint64_t size_bytes,
                                    uint64_t value);

typedef void (*SondeLiveBlockFunc) (uint64_t value, gpointer user_data);
/* Tells all of them, in no order; @func changes nothing here. */
void sonde_live_blocks_foreach (const SondeLiveBlocks *self,
                                SondeLiveBlockFunc func,
                                gpointer user_data);
