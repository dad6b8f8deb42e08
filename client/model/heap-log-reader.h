/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes events from a capture's log of heap events, and believes nothing that it says. */
#pragma once

#include <glib.h>

#include "client/model/stack-cache.h"
#include "protocol/heap-log.h"

/**
 * SECTION: heap-log-reader
 *
 * FILE_CHUNK frames go in, in the order of the capture; events come out, in which a block's address
 * is made up: that of its number (SONDE_HEAP_LOG_ADDRESS()). Whatever comes, it takes memory for
 * one segment and for what an epoch may define, and time for the events that a segment may have;
 * stacks are made once, and then only named, since some hundred bytes of log may have 262,144
 * events of a stack of 1,024 frames. A segment that cannot be read, and those that build on it, are
 * counted.
 */
typedef struct SondeHeapLogReader SondeHeapLogReader;

/* A stack of a process. It stays while who was told of it has a reference. */
typedef struct
{
  guint n_references;
  guint n_addrs;
  guint64 number;        /* counts up from 1; the same one may come again with another */
  guint64 n_told;        /* events, before this one */
  SondeStackPlace place; /* belongs to who is told */
  guint64 addrs[];       /* leaf first */
} SondeHeapLogStack;

static inline SondeHeapLogStack *
sonde_heap_log_stack_ref (SondeHeapLogStack *self)
{
  self->n_references++;
  return self;
}

void sonde_heap_log_stack_unref (SondeHeapLogStack *self); /* accepts NULL */

/* @event: without addresses; they are those of @stack, which is NULL for a free */
typedef void (*SondeHeapLogReaderFunc) (const SondeFrameAllocation *event,
                                        SondeHeapLogStack *stack,
                                        gpointer user_data);

/* @func: what is told of each event; NULL: nothing, they are but counted */
SondeHeapLogReader *sonde_heap_log_reader_new (SondeHeapLogReaderFunc func, gpointer user_data);
void sonde_heap_log_reader_free (SondeHeapLogReader *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapLogReader, sonde_heap_log_reader_free)

/* @chunk: accepted by sonde_frame_check(); any but the log's is left alone. */
void sonde_heap_log_reader_add (SondeHeapLogReader *self, const SondeFrame *chunk);

typedef struct
{
  guint64 n_events;     /* that labels promised */
  guint64 n_told;       /* of these */
  guint64 n_unreadable; /* of these; the rest is in a segment that is not whole yet */
  guint64 n_segments;
  const char *fault;      /* of the first that is unreadable: a clause; NULL: there is none. Such a
                             one may have no events, or no label that promises any */
  guint64 fault_at_bytes; /* where that segment begins in the log */
} SondeHeapLogCounts;

const SondeHeapLogCounts *sonde_heap_log_reader_counts (const SondeHeapLogReader *self);
