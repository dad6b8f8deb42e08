/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the call tries of a process's threads one: gives each call path a number. */
#pragma once

#include <glib.h>

#include "shared-ring/trie-reader.h"

/**
 * SECTION: call-paths
 *
 * A path is a function below the path of its caller, whichever threads have been there, so that it
 * is found by these two. What is kept grows with the nodes of the region, which is bounded. Main
 * thread only.
 */
typedef struct SondeCallPaths SondeCallPaths;

typedef struct
{
  guint32 parent; /* a path; 0: none */
  guint64 function;
} SondeCallPath;

SondeCallPaths *sonde_call_paths_new (void);
void sonde_call_paths_free (SondeCallPaths *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCallPaths, sonde_call_paths_free)

/* How many there are: their numbers are 1, 2, 3 … in the order in which they came. */
guint32 sonde_call_paths_n (const SondeCallPaths *self);
/* @number: one of these; what is returned holds until there are more. */
const SondeCallPath *sonde_call_paths_at (const SondeCallPaths *self, guint32 number);

/* The number of what a reader tells of, its parent before it; a new one if nobody was there yet. */
guint32 sonde_call_paths_take (SondeCallPaths *self, const SondeTrieChange *change);
/* Of a node. 0: nothing was told of it. */
guint32 sonde_call_paths_of_node (const SondeCallPaths *self, guint32 node);
