/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes ALLOCATION frames of a capture's log of heap events, and believes nothing that it says. */
#pragma once

#include <glib.h>

#include "protocol/heap-log.h"

/**
 * SECTION: heap-log-reader
 *
 * FILE_CHUNK frames go in, in the order of the capture; events come out, as frames in which a
 * block's address is made up: that of its number (SONDE_HEAP_LOG_ADDRESS()). Whatever comes, it
 * takes memory for one segment and for what an epoch may define, and time for what a segment may
 * have. A segment that cannot be read, and those that build on it, are counted.
 */
typedef struct SondeHeapLogReader SondeHeapLogReader;

typedef void (*SondeHeapLogReaderFunc) (const SondeFrame *frame, gpointer user_data);

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
  const char *fault; /* of the first that is unreadable: a clause; NULL: there is none */
} SondeHeapLogCounts;

const SondeHeapLogCounts *sonde_heap_log_reader_counts (const SondeHeapLogReader *self);
