/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loss ledger: which counters a capture carries, and what must add up. */
#pragma once

#include <stdint.h>

/**
 * SECTION: ledger
 *
 * A capture has the counters below, in category SONDE_LEDGER_CATEGORY, ids 1 ... in this order
 * (id = enum value + 1), all int64. They are set about once a second and at the end. The very last
 * frame of a complete stream is a CTRSET with every one of them. For the session, in samples:
 *
 *     produced = recorded + lost-kernel + lost-ring + lost-queue
 *
 * where produced is what the kernel says it made (records in the rings plus PERF_FORMAT_LOST). For
 * this stream, in frames (file header not counted):
 *
 *     stream-recorded + stream-resent = stream-delivered + stream-lost + stream-filtered
 *
 * and at the closing CTRSET stream-delivered counts every frame of the stream up to and including
 * that CTRSET; stream-samples counts the SAMPLE frames among them and
 *
 *     recorded = stream-samples + stream-samples-lost + stream-samples-filtered
 *                + stream-samples-before
 *
 * The same names are the keys of the D-Bus property Statistics.
 *
 * Source: docs/protocol.md, "Ledger"
 */
#define SONDE_LEDGER_CATEGORY "Sonde"

typedef enum
{
  SONDE_LEDGER_PRODUCED = 0,    /* samples: the kernel's count */
  SONDE_LEDGER_RECORDED,        /* samples that became SAMPLE frames */
  SONDE_LEDGER_LOST_KERNEL,     /* samples: PERF_FORMAT_LOST of the sampling events */
  SONDE_LEDGER_LOST_RING,       /* samples refused by the decoder: malformed or cut */
  SONDE_LEDGER_LOST_QUEUE,      /* samples that a later stage could not take */
  SONDE_LEDGER_STREAM_RECORDED, /* frames that the session recorded while this stream was open */
  SONDE_LEDGER_STREAM_RESENT,   /* frames made for this stream alone: snapshots, symbols, notices */
  SONDE_LEDGER_STREAM_DELIVERED,        /* frames put into this stream */
  SONDE_LEDGER_STREAM_LOST,             /* frames dropped because this stream's queue was full */
  SONDE_LEDGER_STREAM_FILTERED,         /* frames this stream did not ask for */
  SONDE_LEDGER_STREAM_SAMPLES,          /* SAMPLE frames put into this stream */
  SONDE_LEDGER_STREAM_SAMPLES_LOST,     /* SAMPLE frames among the lost ones */
  SONDE_LEDGER_STREAM_SAMPLES_FILTERED, /* SAMPLE frames among the filtered ones */
  SONDE_LEDGER_STREAM_SAMPLES_BEFORE,   /* SAMPLE frames recorded before this stream was opened */
  SONDE_N_LEDGER,
} SondeLedger;

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
    "stream-recorded",
    "stream-resent",
    "stream-delivered",
    "stream-lost",
    "stream-filtered",
    "stream-samples",
    "stream-samples-lost",
    "stream-samples-filtered",
    "stream-samples-before",
  };

  return (unsigned) entry < SONDE_N_LEDGER ? names[entry] : "?";
}
