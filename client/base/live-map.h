/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocks of a heap that are allocated at a moment, by address. */
#pragma once

#include <glib.h>

typedef struct
{
  guint64 address;
  gint64 size_bytes; /* above 0 */
  gint64 time_ns;    /* of the allocation */
  guint32 stack;     /* what these two number is the caller's business */
  guint32 thread;
} SondeLiveBlock;

/* Addresses may come from a hostile capture: the hash is seeded at random. 32 bytes a slot, of
 * which at most three quarters are used. */
typedef struct SondeLiveMap SondeLiveMap;

SondeLiveMap *sonde_live_map_new (void);
SondeLiveMap *sonde_live_map_ref (SondeLiveMap *self);
void sonde_live_map_unref (SondeLiveMap *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeLiveMap, sonde_live_map_unref)

/* Makes *@self the only reference to its map, by a copy if it is not. */
void sonde_live_map_own (SondeLiveMap **self);

/* TRUE if a block was there already: it is replaced, and moved to @old. The map has one owner. */
gboolean sonde_live_map_put (SondeLiveMap *self, const SondeLiveBlock *block, SondeLiveBlock *old);

/* FALSE if there is none. The map has one owner. */
gboolean sonde_live_map_take (SondeLiveMap *self, guint64 address, SondeLiveBlock *block);

/* To be said some time before the map is asked for @address: by then the processor has it. */
void sonde_live_map_prefetch (const SondeLiveMap *self, guint64 address);

gboolean sonde_live_map_has (const SondeLiveMap *self, guint64 address);

/* What a copy and a walk cost: slots, used or not. */
gsize sonde_live_map_n_slots (const SondeLiveMap *self);

typedef void (*SondeLiveBlockFunc) (const SondeLiveBlock *block, gpointer user_data);

/* In no order. @func must not change the map. */
void sonde_live_map_foreach (const SondeLiveMap *self, SondeLiveBlockFunc func, gpointer user_data);
