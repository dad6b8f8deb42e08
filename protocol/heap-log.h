/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of the log of heap events, an embedded file of captures. */
#pragma once

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "protocol/frame.h"

/**
 * SECTION: heap-log
 *
 * FILE_CHUNK frames of one path carry segments. A segment is a label and one zstd frame, which
 * zstd(1) unpacks, too, as a label is what zstd calls a skippable frame. It begins with a
 * FILE_CHUNK frame; what does not fit is in those that follow. Unpacked it is a header and columns,
 * in which numbers are LEB128: seven bits a byte, the lowest first, the highest bit set in all but
 * the last. All else is little-endian.
 *
 * What events refer to has numbers that count up, in each column of their own, from the beginning
 * of an *epoch*: a sequence of segments that decodes alone.
 *
 * Source: docs/protocol.md, "Heap events in a log"
 */
#define SONDE_HEAP_LOG_PATH    "sonde/heap.v1.zst"

#define SONDE_HEAP_LABEL_MAGIC 0x184D2A53u

typedef struct
{
  uint32_t magic;        /* SONDE_HEAP_LABEL_MAGIC */
  uint32_t size_bytes;   /* of what is behind this: 8 */
  uint32_t n_events;     /* in the segment */
  uint32_t packed_bytes; /* of the zstd frame behind the label */
} SondeHeapLabel;

/* Another frame that zstd skips, behind a segment's own, with nothing in it. */
typedef struct
{
  uint32_t magic;      /* SONDE_HEAP_FILLING_MAGIC */
  uint32_t size_bytes; /* of what is behind this */
} SondeHeapFilling;

#define SONDE_HEAP_FILLING_MAGIC 0x184D2A54u

typedef enum
{
  SONDE_HEAP_COLUMN_PCS,     /* of each: its difference to the one before, zigzag */
  SONDE_HEAP_COLUMN_NODES,   /* of each: how many nodes are between its caller's and it, or all that
                                were before, if it has none; its pc */
  SONDE_HEAP_COLUMN_SIZES,   /* of each: its node, or 0, less that of the one before, zigzag; its
                                bytes */
  SONDE_HEAP_COLUMN_THREADS, /* of each: its process, its id */
  SONDE_HEAP_COLUMN_EVENTS,  /* see SondeHeapLogKind */
  SONDE_HEAP_COLUMN_TIMES,   /* of each step: how many events are before it; ticks, zigzag */
  SONDE_HEAP_N_COLUMNS,
} SondeHeapColumn;

typedef struct
{
  uint32_t version;  /* SONDE_HEAP_LOG_VERSION */
  uint32_t epoch;    /* counts up from 0 */
  uint32_t sequence; /* in its epoch, from 0 */
  uint32_t tick_ns;
  int64_t time_ns;   /* of the first event, CLOCK_MONOTONIC */
  uint64_t n_before; /* blocks that were numbered before */
  uint32_t column_bytes[SONDE_HEAP_N_COLUMNS];
} SondeHeapSegment;

#define SONDE_HEAP_LOG_VERSION 1

/* The low two bits of a number in the column of events; above them is what it is of. */
typedef enum
{
  SONDE_HEAP_LOG_BLOCK = 0, /* the number of a size */
  SONDE_HEAP_LOG_FREE = 1,  /* of the block that was numbered so many blocks ago, from 1 */
  SONDE_HEAP_LOG_NEAR = 2,  /* zigzag: a free of the block of so many numbers more than that of the
                               last one of this kind; of the first in a segment, than @n_before */
  SONDE_HEAP_LOG_OTHER = 3, /* see SondeHeapLogOther */
} SondeHeapLogKind;

/* The low two bits of what OTHER is of; above them is what that is of. The last kind is none. */
typedef enum
{
  SONDE_HEAP_LOG_THREAD = 0,  /* from here on events are of the thread of that number */
  SONDE_HEAP_LOG_REPLACE = 1, /* the next block lies where the block lay that was numbered so many
                                 blocks ago, and takes its number: nobody told that it was freed */
  SONDE_HEAP_LOG_UNKNOWN = 2, /* a free, of an address that has no block here */
} SondeHeapLogOther;

#define SONDE_HEAP_LOG_KIND_BITS 2u

/* Bounds of a segment: what a reader need not take more of. */
#define SONDE_HEAP_LOG_MAX_EVENTS (1u << 18)
#define SONDE_HEAP_LOG_MAX_BYTES  (2u << 20) /* unpacked */
#define SONDE_HEAP_LOG_MAX_PACKED (SONDE_HEAP_LOG_MAX_BYTES + 65536)
/* Events for each byte of label and frame: loops say the same again and again, but time does not.
 * Who has more fills up with another skippable frame. */
#define SONDE_HEAP_LOG_MAX_DENSITY 1024u
/* Frames of stacks that a reader need make for each of these bytes, and for a log at all. A process
 * has each stack of an epoch once; who forgets some after 8 million frames makes fewer, too. */
#define SONDE_HEAP_LOG_MAX_MADE  32768u
#define SONDE_HEAP_LOG_FREE_MADE (1u << 24)
/* And of an epoch. */
#define SONDE_HEAP_LOG_MAX_NODES   (1u << 20)
#define SONDE_HEAP_LOG_MAX_SIZES   (1u << 20)
#define SONDE_HEAP_LOG_MAX_THREADS (1u << 20)

/* The addresses that blocks of the log have in frames: no program's. Of block N, from 1. */
#define SONDE_HEAP_LOG_ADDRESS(n) ((UINT64_C (1) << 62) + (uint64_t) (n) *16)

static_assert (sizeof (SondeHeapLabel) == 16, "a label is 16 bytes");
static_assert (sizeof (SondeHeapSegment) == 56, "a segment's header is 56 bytes");

/* Whether it is of the file at @path. */
static inline int
sonde_heap_is_chunk_of (const SondeFrame *frame, const char *path)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;

  return frame->type == SONDE_FRAME_FILE_CHUNK
         && strncmp (chunk->path, path, sizeof chunk->path) == 0;
}

/* Whether it is of the log. */
static inline int
sonde_heap_log_is_chunk (const SondeFrame *frame)
{
  return sonde_heap_is_chunk_of (frame, SONDE_HEAP_LOG_PATH);
}

/* The events of the segment that begins in the chunk; 0: none begins there, or it says more than
 * @most. */
static inline uint32_t
sonde_heap_label_n_events (const SondeFrame *frame, uint32_t most)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;
  SondeHeapLabel label;

  if (chunk->data_len < sizeof label)
    return 0;
  memcpy (&label, chunk->data, sizeof label);
  if (le32toh (label.magic) != SONDE_HEAP_LABEL_MAGIC || le32toh (label.n_events) > most)
    return 0;
  return le32toh (label.n_events);
}

/* The events of the segment that begins in it; 0: it is no chunk of the log, or goes on with one. A
 * liar's number is bounded. */
static inline uint32_t
sonde_heap_log_n_events (const SondeFrame *frame)
{
  return sonde_heap_log_is_chunk (frame)
             ? sonde_heap_label_n_events (frame, SONDE_HEAP_LOG_MAX_EVENTS)
             : 0;
}
