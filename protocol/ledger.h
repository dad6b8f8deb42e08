/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters of made and lost that a capture carries, and what must add up. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/frame.h"
#include "protocol/heap-sums.h"

/**
 * SECTION: ledger
 *
 * A capture has the counters below, in category SONDE_LEDGER_CATEGORY, ids 1 ... in this order
 * (id = enum value + 1), all int64. They are set about once a second and at the end. The very last
 * frame of a complete stream is a CTRSET with every one of them. For the session, in samples:
 *
 *     produced = recorded + lost-kernel + lost-ring + lost-queue
 *
 * where produced is what the kernel says it made (records in the rings plus PERF_FORMAT_LOST), and
 * samples that profiled programs made themselves. For the session, in events of profiled programs,
 * which sonde_ledger_n_events() knows in frames: most are a frame each, and a segment of the log or
 * of the sums of heap events begins with how many are in it.
 *
 *     events-produced = events-recorded + events-lost-ring + events-refused
 *
 * where produced is the programs' own account: what they put into their rings, and what had no room
 * there. For this stream, in frames (file header not counted):
 *
 *     stream-recorded + stream-resent = stream-delivered + stream-lost + stream-filtered
 *
 * and at the closing CTRSET stream-delivered counts every frame of the stream up to and including
 * that CTRSET; stream-samples counts the SAMPLE frames among them and
 *
 *     recorded = stream-samples + stream-samples-lost + stream-samples-filtered
 *                + stream-samples-before
 *
 * and stream-events in the same way the events among them:
 *
 *     events-recorded = stream-events + stream-events-lost + stream-events-filtered
 *                       + stream-events-before
 *
 * The same names are the keys of the D-Bus property Statistics.
 *
 * Source: docs/protocol.md, "Ledger"
 */
#define SONDE_LEDGER_CATEGORY "Sonde"

/* How a LOG frame of the session begins that tells of a loss which a program claims, and which is
 * more than is possible; the ledger has what is. */
#define SONDE_LEDGER_CLAIM "Claim: "
/* The same of one that tells of events which nobody counts: their thread had no ring. */
#define SONDE_LEDGER_MISSING "Missing: "

typedef enum
{
  SONDE_LEDGER_PRODUCED = 0,     /* samples: the kernel's count */
  SONDE_LEDGER_RECORDED,         /* samples that became SAMPLE frames */
  SONDE_LEDGER_LOST_KERNEL,      /* samples: PERF_FORMAT_LOST of the sampling events */
  SONDE_LEDGER_LOST_RING,        /* samples refused by the decoder: malformed or cut */
  SONDE_LEDGER_LOST_QUEUE,       /* samples that a later stage could not take */
  SONDE_LEDGER_EVENTS_PRODUCED,  /* events: the profiled programs' count */
  SONDE_LEDGER_EVENTS_RECORDED,  /* events that became frames */
  SONDE_LEDGER_EVENTS_LOST_RING, /* events: no room in a ring, or left in one that was closed */
  SONDE_LEDGER_EVENTS_REFUSED,   /* events that the session does not take: impossible, or while it
                                    was paused */
  SONDE_LEDGER_STREAM_RECORDED,  /* frames that the session recorded while this stream was open */
  SONDE_LEDGER_STREAM_RESENT, /* frames made for this stream alone: snapshots, symbols, notices */
  SONDE_LEDGER_STREAM_DELIVERED,        /* frames put into this stream */
  SONDE_LEDGER_STREAM_LOST,             /* frames dropped because this stream's queue was full */
  SONDE_LEDGER_STREAM_FILTERED,         /* frames this stream did not ask for */
  SONDE_LEDGER_STREAM_SAMPLES,          /* SAMPLE frames put into this stream */
  SONDE_LEDGER_STREAM_SAMPLES_LOST,     /* SAMPLE frames among the lost ones */
  SONDE_LEDGER_STREAM_SAMPLES_FILTERED, /* SAMPLE frames among the filtered ones */
  SONDE_LEDGER_STREAM_SAMPLES_BEFORE,   /* SAMPLE frames recorded before this stream was opened */
  SONDE_LEDGER_STREAM_EVENTS,           /* events put into this stream */
  SONDE_LEDGER_STREAM_EVENTS_LOST,      /* events among the lost frames */
  SONDE_LEDGER_STREAM_EVENTS_FILTERED,  /* events among the filtered frames */
  SONDE_LEDGER_STREAM_EVENTS_BEFORE,    /* events recorded before this stream was opened */
  SONDE_N_LEDGER,
} SondeLedger;

/* Whether a frame is an event of a profiled program: what sonded itself counts or says is of no
 * process, and samples are in the ledger of their own. */
static inline bool
sonde_ledger_is_event (const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_MARK:
    case SONDE_FRAME_ALLOCATION:
      return true;
    case SONDE_FRAME_CTRSET:
    case SONDE_FRAME_LOG:
      return frame->pid > 0;
    default:
      return false;
    }
}

/* How many events it stands for. */
static inline uint32_t
sonde_ledger_n_events (const SondeFrame *frame)
{
  return sonde_ledger_is_event (frame) ? 1 : sonde_heap_chunk_n_events (frame);
}

/* "produced", "lost-kernel", ...: also the Statistics keys. */
static inline const char *
sonde_ledger_name (SondeLedger entry)
{
  static const char *const names[SONDE_N_LEDGER] = {
    "produced",
    "recorded",
    "lost-kernel",
    "lost-ring",
    "lost-queue",
    "events-produced",
    "events-recorded",
    "events-lost-ring",
    "events-refused",
    "stream-recorded",
    "stream-resent",
    "stream-delivered",
    "stream-lost",
    "stream-filtered",
    "stream-samples",
    "stream-samples-lost",
    "stream-samples-filtered",
    "stream-samples-before",
    "stream-events",
    "stream-events-lost",
    "stream-events-filtered",
    "stream-events-before",
  };

  return (unsigned) entry < SONDE_N_LEDGER ? names[entry] : "?";
}
