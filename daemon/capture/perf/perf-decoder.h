/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Turns raw perf records into typed ones, every field bounded. */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum
{
  SONDE_PERF_RECORD_OTHER, /* a type that means nothing to us */
  SONDE_PERF_RECORD_SAMPLE,
  SONDE_PERF_RECORD_CHAIN, /* the user part of callchains that samples before it had none of */
  SONDE_PERF_RECORD_PROBE, /* a hit of a probe: registers and stack, as of a sample */
  SONDE_PERF_RECORD_WALK,  /* what a BPF program wrote, before the sample it ran at */
  SONDE_PERF_RECORD_MAP,
  SONDE_PERF_RECORD_COMM,
  SONDE_PERF_RECORD_FORK,
  SONDE_PERF_RECORD_EXIT,
  SONDE_PERF_RECORD_LOST,         /* the ring was full */
  SONDE_PERF_RECORD_LOST_SAMPLES, /* the hardware dropped them */
  SONDE_PERF_RECORD_THROTTLE,
  SONDE_PERF_RECORD_UNTHROTTLE,
  SONDE_PERF_RECORD_SWITCH, /* a thread was put on a processor, or taken off it */
} SondePerfRecordType;

/* Where the sampled instruction was. */
typedef enum
{
  SONDE_PERF_RECORD_MODE_UNKNOWN,
  SONDE_PERF_RECORD_MODE_KERNEL,
  SONDE_PERF_RECORD_MODE_USER,
  SONDE_PERF_RECORD_MODE_OTHER, /* hypervisor, guest */
} SondePerfRecordMode;

typedef struct
{
  SondePerfRecordMode mode;
  uint64_t ip;
  uint64_t period;
  const uint64_t *chain; /* PERF_CONTEXT_* markers inline */
  size_t n_chain;
  uint64_t abi; /* PERF_SAMPLE_REGS_ABI_* */
  const uint64_t *regs;
  size_t n_regs;
  const uint8_t *stack;
  size_t stack_size_bytes; /* valid */
  size_t dump_size_bytes;  /* asked for */
} SondePerfRecordSample;

/* In place of user addresses a sample has this mark, and the cookie of the record that has them. */
#define SONDE_PERF_CONTEXT_USER_DEFERRED ((uint64_t) -640)

typedef struct
{
  uint64_t cookie;
  const uint64_t *addrs; /* PERF_CONTEXT_* markers inline */
  size_t n_addrs;
} SondePerfRecordChain;

typedef struct
{
  const uint8_t *bytes; /* unaligned */
  size_t size_bytes;    /* up to 7 more than were written */
} SondePerfRecordWalk;

typedef struct
{
  uint64_t start; /* bytes */
  uint64_t end;   /* bytes, first address behind */
  uint64_t offset;
  uint64_t inode;
  uint64_t inode_generation; /* 0 unknown */
  uint32_t dev_major;
  uint32_t dev_minor;
  bool executable;
  const char *path; /* NUL-terminated within the record; hostile */
} SondePerfRecordMap;

typedef struct
{
  const char *name; /* NUL-terminated within the record; hostile */
  bool exec;
} SondePerfRecordComm;

typedef struct
{
  int32_t parent_pid;
  int32_t parent_tid;
} SondePerfRecordTask;

/* Which thread gave way to it, or came after it, records of whole processors tell, too: that is
 * skipped, since it may be a stranger's. */
typedef struct
{
  bool is_out;
  bool is_preempted; /* out, but it could go on */
  bool is_of_cpu;    /* told by an event of a whole processor */
} SondePerfRecordSwitch;

/* Pointers lead into the record: they are as old as it. */
typedef struct
{
  SondePerfRecordType type;
  int cpu;         /* -1 unknown */
  int32_t pid;     /* -1 unknown */
  int32_t tid;     /* -1 unknown */
  int64_t time_ns; /* CLOCK_MONOTONIC; 0 unknown */
  uint64_t id;     /* of the event that told it, or that this was inherited from; 0 unknown */
  union
  {
    SondePerfRecordSample sample; /* PROBE, too */
    SondePerfRecordChain chain;
    SondePerfRecordWalk walk;
    SondePerfRecordMap map;
    SondePerfRecordComm comm;
    SondePerfRecordTask task; /* FORK, EXIT */
    SondePerfRecordSwitch switched;
    uint64_t n_lost; /* LOST, LOST_SAMPLES */
  };
} SondePerfRecord;

/* Why a record is refused; each has a sentence in sonde_perf_record_fault_to_string(). */
typedef enum
{
  SONDE_PERF_RECORD_OK = 0,
  SONDE_PERF_RECORD_FAULT_SHORT, /* ends within a fixed field */
  SONDE_PERF_RECORD_FAULT_CHAIN, /* more addresses than bytes */
  SONDE_PERF_RECORD_FAULT_REGS,  /* an unknown ABI, or fewer bytes than registers */
  SONDE_PERF_RECORD_FAULT_STACK, /* the copy is longer than the record, or its valid part than it */
  SONDE_PERF_RECORD_FAULT_WALK,  /* what was written is longer than the record */
  SONDE_PERF_RECORD_FAULT_TERMINATION, /* a name lacks its NUL */
  SONDE_PERF_RECORD_FAULT_RANGE,       /* a mapping ends before it starts */
  SONDE_N_PERF_RECORD_FAULTS,
} SondePerfRecordFault;

const char *sonde_perf_record_fault_to_string (SondePerfRecordFault fault);

typedef struct
{
  uint64_t sample_type; /* PERF_SAMPLE_*, of the sampling events; others have the same sample_id */
  uint64_t regs_user;   /* register mask */
  const uint64_t *walk_ids; /* of events whose samples are WALK records, sorted; not owned */
  size_t n_walk_ids;
  const uint64_t *probe_ids; /* the same of PROBE records */
  size_t n_probe_ids;
} SondePerfDecoder;

/* Whether every bit of @sample_type is one that this decoder knows. */
bool sonde_perf_decoder_supports (uint64_t sample_type);

/**
 * sonde_perf_decoder_decode:
 * @header: a whole record, 8-aligned, header.size bytes long
 *
 * The kernel wrote these bytes, but names in it come from programs, and a worker maps the ring
 * writable: so each length is compared with what remains before it is used.
 *
 * Returns: SONDE_PERF_RECORD_OK and *@record, or why not; *@record is then untouched
 * Source: perf_event_open(2), linux/perf_event.h
 */
SondePerfRecordFault sonde_perf_decoder_decode (const SondePerfDecoder *self,
                                                const struct perf_event_header *header,
                                                SondePerfRecord *record);

/* The record's time alone, for ordering: cheap; 0 if it has none, or is to be taken at once: of a
 * WALK the kernel notes a later one than of its sample, which is behind it. */
int64_t sonde_perf_decoder_time (const SondePerfDecoder *self,
                                 const struct perf_event_header *header);
