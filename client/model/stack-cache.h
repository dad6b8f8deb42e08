/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the locations of stacks that were met before: the last one of a process, and whole ones by
 * their bytes. */
#pragma once

#include <glib.h>

/* A stack as it stands in a frame. */
typedef struct
{
  const guint8 *addrs; /* leaf first, context markers inline; unaligned */
  guint n_addrs;
  gboolean begins_in_caller; /* the first address is a return address already */
  guint32 generation;        /* of the mappings: another one than last time forgets everything */
} SondeFrameStack;

/* The last stack of a process: the next one mostly has the same callers. */
typedef struct SondeStackMemo SondeStackMemo;

/* The number of the location of @address; the same for the same arguments and generation. */
typedef guint32 (*SondeLocateFunc) (guint64 address,
                                    gboolean in_kernel,
                                    gboolean is_caller,
                                    gpointer user_data);

SondeStackMemo *sonde_stack_memo_new (void);
void sonde_stack_memo_free (SondeStackMemo *self); /* accepts NULL */

/* So that the next stack is compared with none. */
void sonde_stack_memo_forget (SondeStackMemo *self);

/**
 * sonde_stack_memo_locate:
 * @func: asked for each address that cannot be told from the last stack
 * @numbers: (out): guint32, outermost first; markers left out
 */
void sonde_stack_memo_locate (SondeStackMemo *self,
                              const SondeFrameStack *stack,
                              SondeLocateFunc func,
                              gpointer user_data,
                              GArray *numbers);

/**
 * SECTION: stack-cache
 *
 * Most allocations of a program come again. Each stack of a process and its mappings has a number,
 * from 0 upwards. When the cache is full it begins again, so its memory is bounded, and numbers are
 * given to other stacks.
 */
typedef struct SondeStackCache SondeStackCache;

typedef struct
{
  guint32 number;
  const guint32 *locations; /* outermost first */
  gsize n_locations;
} SondeCachedStack;

/* Where a stack was found last, for who has the same one again; all 0: nowhere yet. */
typedef struct
{
  guint32 round; /* of the cache */
  guint32 generation;
  guint32 process;
  guint32 number;
} SondeStackPlace;

SondeStackCache *sonde_stack_cache_new (void);
void sonde_stack_cache_free (SondeStackCache *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeStackCache, sonde_stack_cache_free)

/**
 * sonde_stack_cache_lookup:
 * @process: who has the stack; one of another process is another one
 * @known: (out): valid until the next sonde_stack_cache_add(); set only if the stack is there
 */
gboolean sonde_stack_cache_lookup (SondeStackCache *self,
                                   guint process,
                                   const SondeFrameStack *stack,
                                   SondeCachedStack *known);

/* The same, of the stack whose place that is: takes no time for its addresses. */
gboolean sonde_stack_cache_recall (const SondeStackCache *self,
                                   guint process,
                                   guint32 generation,
                                   const SondeStackPlace *place,
                                   SondeCachedStack *known);

/* The place of the stack that is @known, which belongs to @process. */
SondeStackPlace sonde_stack_cache_place (const SondeStackCache *self,
                                         guint process,
                                         guint32 generation,
                                         const SondeCachedStack *known);

/* Adds what sonde_stack_cache_lookup() was just asked for, and did not have. @locations: copied */
void sonde_stack_cache_add (SondeStackCache *self,
                            guint process,
                            const SondeFrameStack *stack,
                            const GArray *locations,
                            SondeCachedStack *known);
