/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adds up a program's ALLOCATION frames. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"

typedef struct
{
  guint64 n_allocations;
  guint64 n_frees; /* of blocks that were allocated */
  guint64 allocated_bytes;
  guint64 live_bytes; /* at the end */
  guint64 n_live;
  guint64 peak_bytes;
  guint64 n_unknown; /* frees of what was not allocated, as far as the frames say */
  guint64 n_twice;   /* allocations of what was not freed: never, if frames are right */
  guint64 n_addrs;   /* of all stacks */
} HeapSummary;

typedef struct HeapEvents HeapEvents;

HeapEvents *heap_events_new (void);
void heap_events_free (HeapEvents *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HeapEvents, heap_events_free)

/* A frame of any type, from any ring. */
void heap_events_take (HeapEvents *self, const SondeFrame *frame);

/* Of the process @pid, or of 0: of all that had frames, each with a heap of its own. */
void heap_events_sum (HeapEvents *self, gint32 pid, HeapSummary *summary);
