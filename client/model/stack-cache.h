/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whole stacks that were met before, by their bytes: most allocations of a program come again. */
#pragma once

#include "client/model/stack-memo.h"

/**
 * SECTION: stack-cache
 *
 * Each stack of a process and its mappings has a number, from 0 upwards. When the cache is full it
 * begins again, so its memory is bounded, and numbers are given to other stacks.
 */
typedef struct SondeStackCache SondeStackCache;

typedef struct
{
  guint32 number;
  const guint32 *locations; /* outermost first */
  gsize n_locations;
} SondeCachedStack;

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

/* Adds what sonde_stack_cache_lookup() was just asked for, and did not have. @locations: copied */
void sonde_stack_cache_add (SondeStackCache *self,
                            guint process,
                            const SondeFrameStack *stack,
                            const GArray *locations,
                            SondeCachedStack *known);
