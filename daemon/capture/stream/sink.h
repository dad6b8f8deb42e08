/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filter and a bounded queue in front of one reader's socket, which may be slow, or file. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/message.h"
#include "daemon/capture/stream/span.h"
#include "daemon/capture/stream/stream-state.h"
#include "daemon/capture/stream/tally.h"

/**
 * SondeFileOutput:
 *
 * Spans go from a queue into a regular file. Frames count as written only when they are whole, at a
 * position of our own: what a full disk cut is overwritten or cut off. The file ends at its limit,
 * when the disk is full, and before the disk holds less than SONDE_LIMIT_CAPTURE_FREE_PERCENT of
 * free room: others write to it as well. A little room is kept back for the last frames, which say
 * so: of the limit, and on the disk itself, where the file system can. Writing may wait for the
 * disk, hence the bound of each call. Main thread only.
 */
typedef struct SondeFileOutput SondeFileOutput;

#define SONDE_FILE_OUTPUT_RESERVE 4096 /* bytes for the last frames; the smallest limit */

/**
 * sonde_file_output_new:
 * @fd: (transfer full): a regular file that is empty, O_WRONLY
 *
 * Returns: NULL if it is anything else
 */
SondeFileOutput *sonde_file_output_new (int fd, guint64 max_bytes);
/* Cuts off what is not whole, and closes the file. Accepts NULL. */
void sonde_file_output_free (SondeFileOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFileOutput, sonde_file_output_free)

/* Writes at most one chunk of @queue and removes it there. Returns its bytes, 0 if nothing waits,
 * or a negative errno: -EFBIG the limit, -ENOSPC the disk; what is in @queue then was not written.
 */
gssize sonde_file_output_write (SondeFileOutput *self, SondeSpanQueue *queue);

/* What is written from now on may use the room that was kept back. */
void sonde_file_output_use_reserve (SondeFileOutput *self);

/**
 * SECTION: sink
 *
 * Life: the state (header, processes, ...) → backlog, if it has one → live spans → the embedded
 * symbols → the closing CTRSET → end of file. Spans that find the queue full are dropped and
 * counted; if one of them held state, all that follow are dropped too until the queue is empty,
 * then the reader gets the state again, a LOG frame that says what it missed, and live spans. A
 * socket is never waited for. A file takes all until it is full; then a LOG frame says so and the
 * closing CTRSET ends it.
 *
 * State passes the filter always: processes, mappings, forks, exits, names, counter definitions and
 * embedded files of all processes, as any frame may need them. Samples, allocations, marks,
 * counters and logs pass if their kind was asked for and they are of one of the processes, or of
 * none (pid -1). A span that passes whole is queued as it is; of others what passes is copied into
 * chunks of the reader's own. The struct is open to this folder alone. Main thread only.
 */
#define SONDE_SINK_STUCK_US (30 * G_USEC_PER_SEC) /* full and nothing taken: the sink is closed */

typedef struct SondeSink SondeSink;

/* What was recorded before a sink gets it: the state of a moment, and what came since. */
typedef struct
{
  SondeStateBase *base;
  char *metadata;           /* lines that the METADATA frame has besides */
  char *warning;            /* a LOG frame behind the state; NULL: none */
  GPtrArray *spans;         /* SondePackedSpan, oldest first */
  guint next;               /* of these */
  guint64 n_samples_before; /* recorded before that moment */
  guint64 n_events_before;
} SondeBacklog;

void sonde_backlog_free (SondeBacklog *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeBacklog, sonde_backlog_free)

/* What all sinks of a session are fed from; borrowed, and outliving them. */
typedef struct
{
  SondeChunkPool *pool;
  SondeStreamState *state;
  /* Of what all streams get: published before a stream is told the state, which has it, too. */
  SondeSpanWriter *writer;
  SondeTally *tally; /* the session's counts, for CTRSETs */
  gint64 awaited_us; /* since when the session is over, but for what its readers have no room for;
                      * 0: it is not */
  /* @reason: 0 all delivered, or errno. Called once; the sink may not be freed in it. */
  void (*closed) (SondeSink *sink, int reason, gpointer user_data);
  gpointer user_data;
} SondeSinkSource;

typedef enum
{
  SONDE_SINK_PHASE_WAITING, /* its backlog comes when the session ends, and nothing before that */
  SONDE_SINK_PHASE_STATE,   /* the state is being sent; live spans queue behind it */
  SONDE_SINK_PHASE_BACKLOG,
  SONDE_SINK_PHASE_LIVE,
  SONDE_SINK_PHASE_SYMBOLS,
  SONDE_SINK_PHASE_LAST, /* the closing CTRSET waits */
  SONDE_SINK_PHASE_CUT,  /* a file is full: what comes is lost */
  SONDE_SINK_PHASE_CLOSED,
} SondeSinkPhase;

struct SondeSink
{
  guint32 id;
  SondeSinkPhase phase;
  const SondeSinkSource *source;
  int fd;                /* of a socket */
  SondeFileOutput *file; /* NULL: a socket */

  /* The filter. */
  guint32 frames; /* SONDE_SINK_FRAMES_* */
  guint n_pids;
  gint32 pids[SONDE_MESSAGE_SINK_MAX_PIDS]; /* sorted */
  SondeSpanWriter *passed;                  /* NULL: everything passes */

  SondeSpanQueue *live;
  SondeSpanQueue *own;    /* state and symbols: sent before what is live */
  SondeSpanQueue *target; /* which of them the writer fills */
  SondeSpanWriter *writer;
  SondeStateCursor *cursor; /* in SONDE_SINK_PHASE_STATE */
  gboolean had_state;       /* the header was written */
  gboolean lost_state; /* since the cursor was made: what waits is sent, what comes is dropped */

  SondeBacklog *backlog; /* NULL: it has none, or all of it */

  gboolean finishing;
  GBytes *symbols;
  gsize symbols_sent;

  guint64 counters[SONDE_N_LEDGER]; /* the stream-* entries */
  guint64 n_bytes;
  guint64 missed_frames; /* since the last notice */
  guint64 missed_samples;
  gint64 missed_since_us;
  gint64 last_taken_us;

  guint hup_source;
  guint out_source;
};

/**
 * sonde_sink_new:
 * @fd: (transfer full): an AF_UNIX stream socket or an empty regular file, as @options say
 * @options: copied; at least two chunks are queued whatever their buffer size is
 *
 * Returns: NULL if @fd is not such a file
 */
SondeSink *sonde_sink_new (int fd, const SondeMessageSink *options, const SondeSinkSource *source);
void sonde_sink_free (SondeSink *self); /* accepts NULL; does not call closed() */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSink, sonde_sink_free)

/* Has it get what was recorded before, in the place of the state as it is now; before anything
 * else.
 * @backlog: (transfer full) (nullable): NULL: it gets the state, as others do */
void sonde_sink_give (SondeSink *self, SondeBacklog *backlog);

/* Queues what passes of @span, or counts it as lost. */
void sonde_sink_push (SondeSink *self, const SondeSpan *span);

/* Queues a CTRSET with all counters, if there is room to spare. */
void sonde_sink_push_counters (SondeSink *self);

/* No more spans will come. @symbols (nullable): content of the embedded file "__symbols__". */
void sonde_sink_finish (SondeSink *self, GBytes *symbols);

/* Sends what the socket takes now, a bounded amount. Not from within the recording of a frame. */
void sonde_sink_pump (SondeSink *self);

/* Whether its queue is less than half full: live spans may come as fast as it takes them. */
gboolean sonde_sink_has_room (const SondeSink *self);

/* Closes a socket that is full, or at the end of the session has no room, and took nothing for
 * SONDE_SINK_STUCK_US. @now_us: monotonic */
void sonde_sink_close_if_stuck (SondeSink *self, gint64 now_us);
