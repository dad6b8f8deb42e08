/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A bounded queue in front of one reader's socket, which may be slow, or file. */
#pragma once

#include <gio/gio.h>

#include "daemon/capture/stream/tally.h"
#include "daemon/capture/stream/span-writer.h"

/**
 * SECTION: sink
 *
 * Life: the state (header, processes, ...) → live spans → the embedded symbols → the closing CTRSET
 * → end of file. Spans that find the queue full are dropped and counted; if one of them held state,
 * all that follow are dropped too until the queue is empty, then the reader gets the state again, a
 * LOG frame that says what it missed, and live spans. A socket is never waited for. A file takes
 * all until it is full; then a LOG frame says so and the closing CTRSET ends it. Main thread only.
 */
#define SONDE_SINK_STUCK_US (30 * G_USEC_PER_SEC) /* full and nothing taken: the sink is closed */

typedef struct SondeSink SondeSink;

typedef struct
{
  /* All that was recorded is pushed when this returns, so that the tally and the streams agree. */
  void (*settle) (gpointer user_data);
  /* A cursor over the session's state of this moment; @first: of this stream, so with the file
   * header. */
  gpointer (*begin_state) (gboolean first, gpointer user_data);
  /* Writes about 64 KiB of it; FALSE: that was the last piece. */
  gboolean (*write_state) (gpointer cursor, SondeSpanWriter *out);
  void (*end_state) (gpointer cursor);
  /* @reason: 0 all delivered, or errno. Called once; the sink may not be freed in it. */
  void (*closed) (SondeSink *sink, int reason, gpointer user_data);
} SondeSinkHandler;

/**
 * sonde_sink_new:
 * @fd: (transfer full): an AF_UNIX stream socket or an empty regular file, as @options say
 * @options: copied; at least two chunks are queued whatever their buffer size is
 * @tally: the session's counters, for its CTRSETs; settled
 *
 * Returns: NULL if @fd is not such a file
 */
SondeSink *sonde_sink_new (int fd,
                           const SondeMessageSink *options,
                           SondeChunkPool *pool,
                           const SondeTally *tally,
                           const SondeSinkHandler *handler,
                           gpointer user_data);
void sonde_sink_free (SondeSink *self); /* accepts NULL; does not call closed() */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSink, sonde_sink_free)

/* Queues @span, or counts it as lost. */
void sonde_sink_push (SondeSink *self, const SondeSpan *span);

/* Queues a CTRSET with all counters, if there is room to spare. */
void sonde_sink_push_counters (SondeSink *self);

/* No more spans will come. @symbols (nullable): content of the embedded file "__symbols__". */
void sonde_sink_finish (SondeSink *self, GBytes *symbols);

/* Sends what the socket takes now, a bounded amount. Not from within the recording of a frame. */
void sonde_sink_pump (SondeSink *self);

/* Whether its queue is less than half full: live spans may come as fast as it takes them. */
gboolean sonde_sink_has_room (const SondeSink *self);

/* Closes a socket that is full and took nothing for SONDE_SINK_STUCK_US. @now_us: monotonic */
void sonde_sink_close_if_stuck (SondeSink *self, gint64 now_us);

guint32 sonde_sink_id (const SondeSink *self);
gboolean sonde_sink_is_closed (const SondeSink *self);
/* The stream-* entries of the ledger; other entries are zero. */
const guint64 *sonde_sink_counters (const SondeSink *self);
guint64 sonde_sink_bytes (const SondeSink *self);
