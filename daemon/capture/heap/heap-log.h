/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes heap events as segments of a log, some hundredths of a byte each. */
#pragma once

#include "daemon/capture/heap/stack-tree.h"
#include "protocol/heap-log.h"

/**
 * SECTION: heap-log
 *
 * Blocks have no addresses here but numbers, and a free tells how many blocks ago its block was
 * numbered: a loop that does the same each time says the same bytes each time, which zstd takes
 * out. Stacks and sizes are told when they are used first in an epoch. Main thread only.
 */
typedef struct SondeHeapLog SondeHeapLog;

typedef struct
{
  int32_t pid;
  int32_t tid;
} SondeHeapLogThread;

/* A segment, with its label. */
typedef void (*SondeHeapLogFunc) (const uint8_t *bytes,
                                  gsize size_bytes,
                                  guint n_events,
                                  gpointer user_data);

/* @tree, @threads: (element-type SondeHeapLogThread): what events refer to; borrowed, and outliving
 * the log. @tick_ns: what times are rounded down to, from a segment's first */
SondeHeapLog *sonde_heap_log_new (const SondeStackTree *tree,
                                  const GArray *threads,
                                  guint tick_ns,
                                  SondeHeapLogFunc func,
                                  gpointer user_data);
void sonde_heap_log_free (SondeHeapLog *self); /* accepts NULL; what was not told is dropped */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapLog, sonde_heap_log_free)

/* A block of these comes soon: makes the processor fetch what is known of them. */
void sonde_heap_log_expect_block (const SondeHeapLog *self, uint32_t node, uint64_t size_bytes);
/* Of the next block that replaces none. */
uint64_t sonde_heap_log_next_number (const SondeHeapLog *self);
/* @replaced: the number of a block that nobody freed, and that this one has the address of, which
 * it keeps; 0: none. Returns: the block's number, from 1 */
uint64_t sonde_heap_log_add_block (SondeHeapLog *self,
                                   guint32 thread,
                                   gint64 time_ns,
                                   uint32_t node,
                                   uint64_t size_bytes,
                                   uint64_t replaced);
/* @number: as add_block gave it */
void sonde_heap_log_add_free (SondeHeapLog *self, guint32 thread, gint64 time_ns, uint64_t number);
/* Of a block that has no number. */
void
sonde_heap_log_add_other (SondeHeapLog *self, guint32 thread, gint64 time_ns, uint64_t address);

/* That number is another thread's from now on. */
void sonde_heap_log_forget_thread (SondeHeapLog *self, guint32 thread);

/* When the segment that is being written began, or G_MAXINT64: none is. */
gint64 sonde_heap_log_since_ns (const SondeHeapLog *self);
/* Ends that segment. */
void sonde_heap_log_flush (SondeHeapLog *self);
/* The same, and what follows decodes alone. */
void sonde_heap_log_restart (SondeHeapLog *self);
