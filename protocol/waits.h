/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of the embedded files that have the times of threads. */
#pragma once

#include <stdint.h>

/**
 * SECTION: waits
 *
 * Files "sonde/waits/N": SONDE_WAITS_MAGIC, four numbers (version, what a switch takes in ns,
 * begin, end), then records of kind, bytes and body. Numbers are those of protocol/number-column.h.
 *
 * A row has what is known of its thread by then, and takes the place of the one before; so does
 * what is told of the others.
 *
 * Source: docs/protocol.md, "Waits"
 */
#define SONDE_WAITS_FOLDER      "sonde/waits/"
#define SONDE_WAITS_MAGIC       "SNDWAITS"
#define SONDE_WAITS_MAGIC_BYTES 8u
#define SONDE_WAITS_VERSION     1u

#define SONDE_WAITS_MAX_BYTES   (4u * 1024 * 1024)

typedef enum
{
  SONDE_WAITS_THREAD = 1, /* pid, tid, begin, whether it has ended, the times, then the counts */
  SONDE_WAITS_OTHERS = 2, /* threads, those without any times, the times */
  SONDE_WAITS_END = 3,    /* bytes before this record */
} SondeWaitsKind;

/* Times of a thread in ns, in this order. The life is the sum of the next five. */
typedef enum
{
  SONDE_TIME_LIFE,
  SONDE_TIME_ON,        /* it ran */
  SONDE_TIME_RUNNABLE,  /* it could have run, and had no processor */
  SONDE_TIME_BLOCKED,   /* it waited for something else */
  SONDE_TIME_SWITCHING, /* it was put on a processor, or an interrupt or the hypervisor had that */
  SONDE_TIME_UNKNOWN,   /* records were lost, or the session was paused */
  SONDE_TIME_UNSPLIT,   /* of BLOCKED: in it are waits for a processor of which nobody knows */
  SONDE_N_TIMES,
} SondeWaitsTime;

/* "life", "on", "runnable", "blocked", "switching", "unknown", "unsplit" */
static inline const char *
sonde_waits_time_name (SondeWaitsTime time)
{
  static const char *const names[SONDE_N_TIMES]
      = { "life", "on", "runnable", "blocked", "switching", "unknown", "unsplit" };

  return names[time];
}

/* What is counted of a thread. */
typedef enum
{
  SONDE_WAITS_SWITCHES,  /* times that it was put on a processor */
  SONDE_WAITS_PREEMPTED, /* of these, behind a wait for a processor alone */
  SONDE_N_WAITS_COUNTS,
} SondeWaitsCount;
