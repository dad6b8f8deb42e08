/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of the embedded files that have the calls of a process. */
#pragma once

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
