/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of the embedded files that have the calls of a process. */
#pragma once

#include <stdint.h>

/**
 * SECTION: calls
 *
 * Files "sonde/calls/PID-START/N": SONDE_CALLS_MAGIC, six numbers (version, ticks per second, mode,
 * sample every, begin, end), then records of kind, bytes and body. Numbers are those of
 * protocol/number-column.h.
 *
 * A file has what came since the one before, where it begins. One that begins earlier has the sum
 * so far, in place of all before it.
 *
 * Source: docs/protocol.md, "Calls"
 */
#define SONDE_CALLS_FOLDER      "sonde/calls/"
#define SONDE_CALLS_MAGIC       "SNDCALLS"
#define SONDE_CALLS_MAGIC_BYTES 8u
#define SONDE_CALLS_VERSION     1u

#define SONDE_CALLS_MAX_BYTES   (2u * 1024 * 1024)

/* Of MARK frames that are one call each. */
#define SONDE_CALLS_SLOW_GROUP "slow call"

typedef enum
{
  SONDE_CALLS_PATH = 1,
  SONDE_CALLS_CALLS = 2,
  SONDE_CALLS_TIMES = 3,
  SONDE_CALLS_ACCOUNT = 4,
  SONDE_CALLS_UNCOUNTED = 5,
  SONDE_CALLS_WORDS = 6,
  SONDE_CALLS_TOLD = 7,
  SONDE_CALLS_REFUSED = 8,
  SONDE_CALLS_END = 9,
} SondeCallsKind;

/* The numbers of an account, in order. */
typedef enum
{
  SONDE_CALLS_ACCOUNT_CALLS, /* = counted + lost-budget + lost-depth, once its process rests */
  SONDE_CALLS_ACCOUNT_COUNTED,
  SONDE_CALLS_ACCOUNT_LOST_BUDGET,
  SONDE_CALLS_ACCOUNT_LOST_DEPTH,
  SONDE_CALLS_ACCOUNT_LOST_INTERRUPTED,
  SONDE_CALLS_ACCOUNT_LOST_THREADS,
  SONDE_CALLS_ACCOUNT_LOST_TIMINGS,
  SONDE_CALLS_ACCOUNT_LOST_STACKS,
  SONDE_CALLS_ACCOUNT_RESYNCED,
  SONDE_CALLS_ACCOUNT_UNMATCHED,
  SONDE_CALLS_ACCOUNT_HOOK_TICKS,
  SONDE_CALLS_ACCOUNT_N_HOOKS,
  SONDE_CALLS_ACCOUNT_N_THREADS,
  SONDE_CALLS_ACCOUNT_N_PATHS,
  SONDE_CALLS_N_ACCOUNTS,
} SondeCallsAccount;

/* Distributions of times: octaves of 16 equal buckets each. */
#define SONDE_CALLS_N_OCTAVES      35u
#define SONDE_CALLS_OCTAVE_BUCKETS 16u
#define SONDE_CALLS_N_BUCKETS      (SONDE_CALLS_N_OCTAVES * SONDE_CALLS_OCTAVE_BUCKETS)

/* Which bucket a number of ticks is in: below 32 each has one of its own, else one is a sixteenth
 * of an octave wide. What is beyond the last is in the last. */
static inline uint32_t
sonde_calls_bucket (uint64_t ticks)
{
  uint32_t octave = 0;

  if (ticks >= SONDE_CALLS_OCTAVE_BUCKETS)
    octave = (uint32_t) (63 - __builtin_clzll (ticks)) - 3;
  if (octave >= SONDE_CALLS_N_OCTAVES)
    return SONDE_CALLS_N_BUCKETS - 1;
  if (octave > 1)
    ticks >>= octave - 1;
  return octave * SONDE_CALLS_OCTAVE_BUCKETS + (uint32_t) (ticks % SONDE_CALLS_OCTAVE_BUCKETS);
}

/* The least number that is in a bucket, of up to SONDE_CALLS_N_BUCKETS: one more than there are is
 * where the last ends. */
static inline uint64_t
sonde_calls_bucket_begin (uint32_t bucket)
{
  const uint32_t octave = bucket / SONDE_CALLS_OCTAVE_BUCKETS;

  if (octave <= 1)
    return bucket;
  return (uint64_t) (SONDE_CALLS_OCTAVE_BUCKETS + bucket % SONDE_CALLS_OCTAVE_BUCKETS)
         << (octave - 1);
}

/* Why functions that could call hooks do not, in SONDE_CALLS_TOLD. */
typedef enum
{
  SONDE_CALLS_REASON_NONE = 0,
  SONDE_CALLS_REASON_MAP = 1,        /* what says where their places are cannot be */
  SONDE_CALLS_REASON_CODE = 2,       /* other instructions are there */
  SONDE_CALLS_REASON_PROTECTION = 3, /* the kernel lets nobody change code */
  SONDE_CALLS_REASON_ROOM = 4,       /* no memory near enough */
  SONDE_CALLS_REASON_FILE = 5,       /* it cannot be read, or is not the one that was loaded */
  SONDE_CALLS_REASON_RUNNING = 6,    /* threads may stand in the middle of what would be changed */
  SONDE_CALLS_N_REASONS,
} SondeCallsReason;

/* For people: a clause. */
static inline const char *
sonde_calls_reason_to_string (uint64_t reason)
{
  static const char *const texts[SONDE_CALLS_N_REASONS] = {
    [SONDE_CALLS_REASON_NONE] = "it did not say why",
    [SONDE_CALLS_REASON_MAP] = "the map of such places is wrong",
    [SONDE_CALLS_REASON_CODE] = "other instructions are there",
    [SONDE_CALLS_REASON_PROTECTION] = "the kernel refuses to have code changed",
    [SONDE_CALLS_REASON_ROOM] = "there is no memory near enough",
    [SONDE_CALLS_REASON_FILE] = "a file of it cannot be read, or is another one now",
    [SONDE_CALLS_REASON_RUNNING] = "they can only be before the program runs",
  };

  return texts[reason < SONDE_CALLS_N_REASONS ? reason : SONDE_CALLS_REASON_NONE];
}
