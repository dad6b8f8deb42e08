/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks the call trees that sondectl printed for programs, heaviest first, and finds locks there.
 */
#pragma once

#include "client/base/json-document.h"

typedef struct SondeMcpTree SondeMcpTree;

/* @told: (transfer none): of report or heap with --json; what is no tree in it has no nodes */
SondeMcpTree *sonde_mcp_tree_new (const SondeJsonDocument *told);
void sonde_mcp_tree_free (SondeMcpTree *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMcpTree, sonde_mcp_tree_free)

/**
 * sonde_mcp_tree_next:
 * @function: (out): a value of the document, with name, module and source
 * @depth: (out): nodes above it
 * @total: (out): its weight
 *
 * Nodes come before those below them, heavier ones first.
 *
 * Returns: FALSE if all were told
 */
gboolean sonde_mcp_tree_next (SondeMcpTree *self, guint32 *function, guint *depth, gint64 *total);

typedef struct
{
  char *caller; /* what called the lock */
  char *module; /* its module */
  char *lock;   /* pthread_mutex_lock, … */
  gint64 n_samples;
} SondeMcpLock;

/* (transfer full) (element-type SondeMcpLock): by who called which function that takes a lock,
 * waits for a condition or wakes others, the heaviest first. */
GPtrArray *sonde_mcp_tree_dup_locks (const SondeJsonDocument *told);
