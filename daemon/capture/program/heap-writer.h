/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes a book of heap events into the stream, as segments of its log or of its sums. */
#pragma once

#include "daemon/capture/heap/heap-book.h"
#include "daemon/capture/stream/recorder.h"

/**
 * SECTION: heap-writer
 *
 * A segment of the log is written when it is full, a second old, or of a process that ends. Readers
 * that missed one can read on where the log begins anew, which it does when that is seen. Main
 * thread only.
 */
typedef struct SondeHeapWriter SondeHeapWriter;

/* Of a session that wants the log or sums. @recorder: borrowed, and outliving it */
SondeHeapWriter *sonde_heap_writer_new (SondeRecorder *recorder, const SondeAsked *asked);
void sonde_heap_writer_free (SondeHeapWriter *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapWriter, sonde_heap_writer_free)

/* Its own, to be told of events. */
SondeHeapBook *sonde_heap_writer_book (SondeHeapWriter *self);

/* @before_ns: no event from before that will come */
void sonde_heap_writer_turn (SondeHeapWriter *self, gint64 before_ns, gint64 now_ns);
/* About once a second. Returns whether there are events that wait for a turn. */
gboolean sonde_heap_writer_count (SondeHeapWriter *self, gint64 now_ns);
/* No more events will come. */
void sonde_heap_writer_end (SondeHeapWriter *self);
