/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The wire structs of the capture format, version 1. */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: frame
 *
 * A capture is one 256-byte file header, then frames back to back until the end of the file. Every
 * frame starts at a multiple of 8 and its length is a multiple of 8. All numbers have the byte
 * order of the machine that wrote the capture; the magic alone is always little-endian. Times are
 * nanoseconds of CLOCK_MONOTONIC. Frames are not sorted by time.
 *
 * Source: docs/protocol.md, "Frames"
 */

#define SONDE_CAPTURE_MAGIC   0xFDCA975Eu
#define SONDE_CAPTURE_VERSION 1
#define SONDE_FRAME_ALIGN     8
#define SONDE_FRAME_MIN_SIZE  24
#define SONDE_FRAME_MAX_SIZE  65528
#define SONDE_FRAME_PACKED    __attribute__ ((packed))

/* Made-up addresses of JIT names start here; the kernel never maps user or kernel text there. */
#define SONDE_JIT_ADDRESS_BASE 0xE000000000000000ull
/* Of them, 2^32 for code that programs made at run time, so that no name they choose is taken for
 * one of ours. */
#define SONDE_JIT_CODE_BASE 0xE000010000000000ull

/* Context markers that stand inline in SAMPLE addresses. Source: PERF_CONTEXT_* in perf_event.h */
#define SONDE_CONTEXT_KERNEL ((uint64_t) -128)
#define SONDE_CONTEXT_USER   ((uint64_t) -512)

typedef enum
{
  SONDE_FRAME_TIMESTAMP = 1,
  SONDE_FRAME_SAMPLE = 2,
  SONDE_FRAME_MAP = 3,
  SONDE_FRAME_PROCESS = 4,
  SONDE_FRAME_FORK = 5,
  SONDE_FRAME_EXIT = 6,
  SONDE_FRAME_JITMAP = 7,
  SONDE_FRAME_CTRDEF = 8,
  SONDE_FRAME_CTRSET = 9,
  SONDE_FRAME_MARK = 10,
  SONDE_FRAME_METADATA = 11,
  SONDE_FRAME_LOG = 12,
  SONDE_FRAME_FILE_CHUNK = 13,
  SONDE_FRAME_ALLOCATION = 14,
  SONDE_FRAME_OVERLAY = 15,
  SONDE_FRAME_LAST = 16, /* first type that is not written to a file */
} SondeFrameType;

/* What newer versions of Sysprof write: their length is checked, what they say is nobody's. */
enum
{
  SONDE_FRAME_TRACE = 16,
  SONDE_FRAME_DBUS_MESSAGE = 17,
  SONDE_FRAME_N_READ = 18, /* first type that is not read either */
};

typedef struct
{
  uint32_t magic;        /* SONDE_CAPTURE_MAGIC, little-endian */
  uint8_t version;       /* SONDE_CAPTURE_VERSION */
  uint8_t little_endian; /* 1 or 0 */
  uint16_t padding;      /* zero */
  char capture_time[64]; /* ISO 8601 UTC wall clock of the start, NUL-padded */
  int64_t time_ns;       /* start, CLOCK_MONOTONIC */
  int64_t end_time_ns;   /* 0 or before the start: scan for it */
  uint8_t suffix[168];   /* zero */
} SONDE_FRAME_PACKED SondeFileHeader;

typedef struct
{
  uint16_t len;    /* bytes, this header and padding included */
  int16_t cpu;     /* -1 unknown */
  int32_t pid;     /* -1 none */
  int64_t time_ns; /* CLOCK_MONOTONIC */
  uint8_t type;    /* SondeFrameType */
  uint8_t padding1[3];
  uint32_t padding2;
} SONDE_FRAME_PACKED SondeFrame;

typedef struct
{
  SondeFrame frame;
  uint16_t n_addrs;
  uint16_t padding;
  int32_t tid;
  uint64_t addrs[]; /* leaf first, context markers inline */
} SONDE_FRAME_PACKED SondeFrameSample;

typedef struct
{
  SondeFrame frame;
  uint64_t start;  /* bytes, virtual address */
  uint64_t end;    /* bytes, first address behind */
  uint64_t offset; /* bytes into the file */
  uint64_t inode;
  char path[]; /* NUL-terminated, runs to the frame's end */
} SONDE_FRAME_PACKED SondeFrameMap;

typedef struct
{
  SondeFrame frame;
  char cmdline[]; /* NUL-terminated, runs to the frame's end */
} SONDE_FRAME_PACKED SondeFrameProcess;

typedef struct
{
  SondeFrame frame;
  int32_t child; /* thread id; frame.pid holds the parent's thread id */
  uint32_t padding;
} SONDE_FRAME_PACKED SondeFrameFork;

typedef struct
{
  SondeFrame frame;
} SONDE_FRAME_PACKED SondeFrameExit;

typedef struct
{
  SondeFrame frame;
  uint32_t n_names;
  uint8_t data[]; /* n_names times: u64 address, then a NUL-terminated name; unaligned */
} SONDE_FRAME_PACKED SondeFrameJitmap;

typedef union
{
  int64_t v64;
  double vdbl;
} SondeCounterValue;

enum
{
  SONDE_COUNTER_INT64 = 0,
  SONDE_COUNTER_DOUBLE = 1,
};

typedef struct
{
  char category[32];
  char name[32];
  char description[52];
  uint32_t id_type; /* id of 24 bits, from 1, and type: see sonde_counter_id(), _type() */
  SondeCounterValue value;
} SONDE_FRAME_PACKED SondeCounterDefinition;

typedef struct
{
  SondeFrame frame;
  uint16_t n_counters;
  uint16_t padding1;
  uint32_t padding2;
  SondeCounterDefinition counters[];
} SONDE_FRAME_PACKED SondeFrameCounterDefine;

#define SONDE_COUNTERS_PER_GROUP 8

typedef struct
{
  uint32_t ids[SONDE_COUNTERS_PER_GROUP]; /* 0: unused slot */
  SondeCounterValue values[SONDE_COUNTERS_PER_GROUP];
} SONDE_FRAME_PACKED SondeCounterGroup;

typedef struct
{
  SondeFrame frame;
  uint16_t n_groups;
  uint16_t padding1;
  uint32_t padding2;
  SondeCounterGroup groups[];
} SONDE_FRAME_PACKED SondeFrameCounterSet;

typedef struct
{
  SondeFrame frame;
  int64_t duration_ns;
  char group[24];
  char name[40];
  char message[]; /* NUL-terminated, runs to the frame's end */
} SONDE_FRAME_PACKED SondeFrameMark;

typedef struct
{
  SondeFrame frame;
  char id[40];
  char metadata[]; /* NUL-terminated, runs to the frame's end */
} SONDE_FRAME_PACKED SondeFrameMetadata;

typedef struct
{
  SondeFrame frame;
  uint16_t severity; /* GLib's log level bits */
  uint16_t padding1;
  uint32_t padding2;
  char domain[32];
  char message[]; /* NUL-terminated, runs to the frame's end */
} SONDE_FRAME_PACKED SondeFrameLog;

typedef struct
{
  SondeFrame frame;
  uint16_t is_last;  /* SONDE_FILE_CHUNK_LAST or zero */
  uint16_t data_len; /* bytes */
  char path[256];
  uint8_t data[];
} SONDE_FRAME_PACKED SondeFrameFileChunk;

typedef struct
{
  SondeFrame frame;
  uint64_t address;
  int64_t size_bytes; /* above 0: allocation; 0: free */
  int32_t tid;
  uint16_t n_addrs;
  uint16_t padding;
  uint64_t addrs[]; /* leaf first, user addresses only */
} SONDE_FRAME_PACKED SondeFrameAllocation;

typedef struct
{
  SondeFrame frame;
  uint32_t layer;   /* 8 bits: see sonde_overlay_layer() */
  uint16_t src_len; /* bytes without the NUL */
  uint16_t dst_len; /* bytes without the NUL */
  char data[];      /* src NUL dst NUL */
} SONDE_FRAME_PACKED SondeFrameOverlay;

/* One record of the embedded file "__symbols__": sorted by (pid, begin), ended by an all-zero
 * record, then the strings that the offsets (from the start of the file) point at. */
typedef struct
{
  uint64_t begin;
  uint64_t end; /* inclusive */
  uint32_t pid;
  uint32_t name_offset; /* bytes */
  uint32_t tag_offset;  /* bytes; the module's base name; 0 none */
  uint32_t padding;
} SONDE_FRAME_PACKED SondeSymbolRecord;

/* These three fields were C bit fields first, so where their bits lie follows the byte order. */
#if __BYTE_ORDER == __LITTLE_ENDIAN
#define SONDE_FILE_CHUNK_LAST     0x0001
#define SONDE_COUNTER_ID_SHIFT    0
#define SONDE_COUNTER_TYPE_SHIFT  24
#define SONDE_OVERLAY_LAYER_SHIFT 0
#else
#define SONDE_FILE_CHUNK_LAST     0x8000
#define SONDE_COUNTER_ID_SHIFT    8
#define SONDE_COUNTER_TYPE_SHIFT  0
#define SONDE_OVERLAY_LAYER_SHIFT 24
#endif
#define SONDE_COUNTER_MAX_ID 0xFFFFFFu

/* @id_type: of a SondeCounterDefinition. */
static inline uint32_t
sonde_counter_id (uint32_t id_type)
{
  return (id_type >> SONDE_COUNTER_ID_SHIFT) & SONDE_COUNTER_MAX_ID;
}

/* SONDE_COUNTER_INT64 or SONDE_COUNTER_DOUBLE in a checked frame. */
static inline uint8_t
sonde_counter_type (uint32_t id_type)
{
  return (uint8_t) (id_type >> SONDE_COUNTER_TYPE_SHIFT);
}

/* @layer: of a SondeFrameOverlay. */
static inline uint8_t
sonde_overlay_layer (uint32_t layer)
{
  return (uint8_t) (layer >> SONDE_OVERLAY_LAYER_SHIFT);
}

#define SONDE_FRAME_ASSERT_SIZE(type, size)                                                        \
  _Static_assert(sizeof (type) == (size), #type " has a wrong size")
#define SONDE_FRAME_ASSERT_OFFSET(type, field, at)                                                 \
  _Static_assert(offsetof (type, field) == (at), #type "." #field " is misplaced")

SONDE_FRAME_ASSERT_SIZE (SondeFileHeader, 256);
SONDE_FRAME_ASSERT_OFFSET (SondeFileHeader, version, 4);
SONDE_FRAME_ASSERT_OFFSET (SondeFileHeader, little_endian, 5);
SONDE_FRAME_ASSERT_OFFSET (SondeFileHeader, capture_time, 8);
SONDE_FRAME_ASSERT_OFFSET (SondeFileHeader, time_ns, 72);
SONDE_FRAME_ASSERT_OFFSET (SondeFileHeader, end_time_ns, 80);
SONDE_FRAME_ASSERT_SIZE (SondeFrame, 24);
SONDE_FRAME_ASSERT_OFFSET (SondeFrame, pid, 4);
SONDE_FRAME_ASSERT_OFFSET (SondeFrame, time_ns, 8);
SONDE_FRAME_ASSERT_OFFSET (SondeFrame, type, 16);
SONDE_FRAME_ASSERT_SIZE (SondeFrameSample, 32);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameSample, n_addrs, 24);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameSample, tid, 28);
SONDE_FRAME_ASSERT_SIZE (SondeFrameMap, 56);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameMap, path, 56);
SONDE_FRAME_ASSERT_SIZE (SondeFrameProcess, 24);
SONDE_FRAME_ASSERT_SIZE (SondeFrameFork, 32);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameFork, child, 24);
SONDE_FRAME_ASSERT_SIZE (SondeFrameExit, 24);
SONDE_FRAME_ASSERT_SIZE (SondeFrameJitmap, 28);
SONDE_FRAME_ASSERT_SIZE (SondeCounterDefinition, 128);
SONDE_FRAME_ASSERT_OFFSET (SondeCounterDefinition, id_type, 116);
SONDE_FRAME_ASSERT_OFFSET (SondeCounterDefinition, value, 120);
SONDE_FRAME_ASSERT_SIZE (SondeFrameCounterDefine, 32);
SONDE_FRAME_ASSERT_SIZE (SondeCounterGroup, 96);
SONDE_FRAME_ASSERT_OFFSET (SondeCounterGroup, values, 32);
SONDE_FRAME_ASSERT_SIZE (SondeFrameCounterSet, 32);
SONDE_FRAME_ASSERT_SIZE (SondeFrameMark, 96);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameMark, group, 32);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameMark, name, 56);
SONDE_FRAME_ASSERT_SIZE (SondeFrameMetadata, 64);
SONDE_FRAME_ASSERT_SIZE (SondeFrameLog, 64);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameLog, domain, 32);
SONDE_FRAME_ASSERT_SIZE (SondeFrameFileChunk, 284);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameFileChunk, data_len, 26);
SONDE_FRAME_ASSERT_SIZE (SondeFrameAllocation, 48);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameAllocation, n_addrs, 44);
SONDE_FRAME_ASSERT_SIZE (SondeFrameOverlay, 32);
SONDE_FRAME_ASSERT_OFFSET (SondeFrameOverlay, src_len, 28);
SONDE_FRAME_ASSERT_SIZE (SondeSymbolRecord, 32);
