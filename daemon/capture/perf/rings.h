/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps the perf rings of a session, keeps its perf events open, and hands on the records of all
 * rings in the order of time. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/perf/perf-ring.h"

/**
 * SECTION: rings
 *
 * A ring belongs to an event that stays open for as long as the session lives. All rings of a kind
 * get one size, which RLIMIT_MEMLOCK may halve.
 *
 * The order of time comes from a heap over the front records of all rings; the rings themselves are
 * the reorder queue, nothing is copied. A record is handed on when it is older than
 * SONDE_RINGS_WINDOW_NS, when some ring is more than half full, or when draining. Main thread only.
 */
#define SONDE_RINGS_MAX_SAMPLE_BYTES   (16u << 20)  /* of one CPU */
#define SONDE_RINGS_MIN_SAMPLE_BYTES   (128u << 10) /* two records of the largest size */
#define SONDE_RINGS_SIDEBAND_BYTES     (512u << 10) /* of one CPU */
#define SONDE_RINGS_MIN_SIDEBAND_BYTES (32u << 10)
/* 13,000 times that a thread is put on a processor and taken off it; and 800. */
#define SONDE_RINGS_SWITCHES_BYTES     (1u << 20)
#define SONDE_RINGS_MIN_SWITCHES_BYTES (64u << 10)
#define SONDE_RINGS_WINDOW_NS          2000000
/* Closing the event of a thread that exited would end the events its children inherited, so none of
 * a task is closed before the session is over. */
#define SONDE_RINGS_MAX_EVENTS 65536 /* descriptors */
#define SONDE_RINGS_MAX_TASKS                                                                      \
  65536 /* see sonde_rings_is_duplicate(); beyond, all are forgotten                               \
         */

/* What the successor says of a record. */
typedef enum
{
  SONDE_RINGS_TAKEN, /* its room goes back to the kernel */
  SONDE_RINGS_WAIT,  /* not yet: it stays, and all behind it in time */
} SondeRingsAnswer;

typedef struct
{
  /* CLOCK_MONOTONIC; 0 unknown: goes at once. */
  int64_t (*time) (const struct perf_event_header *record, gpointer user_data);
  /* @kind: SondeEventKind of its ring. @pressed: waiting any longer would lose records. */
  SondeRingsAnswer (*record) (const struct perf_event_header *record,
                              unsigned kind,
                              gboolean pressed,
                              gpointer user_data);
  /* A ring of @kind was damaged and skipped to its end. */
  void (*damaged) (unsigned kind, gpointer user_data);
  /* For sonde_rings_foresee(), in no order; the record comes to @record in its time. */
  void (*foreseen) (const struct perf_event_header *record, gpointer user_data);
  /* Some ring has much to read. */
  void (*filled) (gpointer user_data);
} SondeRingsHandler;

typedef enum
{
  SONDE_RINGS_EMPTY,   /* nothing is left */
  SONDE_RINGS_YOUNG,   /* what is left is within the window */
  SONDE_RINGS_BUDGET,  /* there is more to do now */
  SONDE_RINGS_WAITING, /* the successor waits for something */
} SondeRingsState;

typedef struct SondeRings SondeRings;

SondeRings *sonde_rings_new (const SondeMessageSetup *setup,
                             const SondeRingsHandler *handler,
                             gpointer user_data);
/* Unmaps all rings and closes all events. Accepts NULL. */
void sonde_rings_free (SondeRings *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRings, sonde_rings_free)

/* Bytes of a ring that holds 0.25 s of samples: a power of two within the bounds above. */
size_t sonde_rings_wanted (const SondeMessageSetup *setup);

/**
 * sonde_rings_map:
 * @message: RINGS; the rings of several messages that belong together are mapped with the last one
 * @fds: (inout): one for each of its events, taken (-1 afterwards)
 * @answer: (out): RINGS_MAPPED, all but the header: the status is an errno of the mapping that
 *   failed at the smallest size, and then none of these rings is there
 *
 * Rings that come later get the size of the first ones, or less.
 *
 * Returns: whether that was the last message of those that belong together
 */
gboolean sonde_rings_map (SondeRings *self,
                          const SondeMessageEvents *message,
                          int *fds,
                          SondeMessageRingsMapped *answer);
/* @ring: (transfer full): one over memory that the caller keeps, and which nobody watches. */
void sonde_rings_add (SondeRings *self, SondePerfRing *ring, unsigned kind);
/* @filled comes no more. */
void sonde_rings_unwatch (SondeRings *self);
/* Size of all rings in bytes. */
guint64 sonde_rings_size (const SondeRings *self);

/* --- records --- */

/* Looks at the records of rings of @kind that were not looked at before, at most @budget. */
void sonde_rings_foresee (SondeRings *self, unsigned kind, guint budget);

/**
 * sonde_rings_run:
 * @now_ns: CLOCK_MONOTONIC, read before the call
 * @draining: hand everything on, whatever its age
 * @budget: records to hand on at most
 */
SondeRingsState sonde_rings_run (SondeRings *self, int64_t now_ns, gboolean draining, guint budget);

/* Records that were older than one handed on before. */
guint64 sonde_rings_n_late (const SondeRings *self);
guint64 sonde_rings_n_handed_on (const SondeRings *self);

/* --- events --- */

/**
 * sonde_rings_add_event:
 * @fd: (transfer full)
 *
 * The event of a whole processor replaces the one of its kind which the processor had: that one has
 * stood still since the processor was off, or would tell everything twice.
 *
 * Returns: FALSE: too many
 */
gboolean sonde_rings_add_event (SondeRings *self, const SondeMessageEvent *event, int fd);
/* Events that wait for an exec stay off until one was seen. */
void sonde_rings_enable (SondeRings *self, gboolean enable);
/* A task has executed a program: what the kernel enabled by that is disabled again if all is. */
void sonde_rings_exec_seen (SondeRings *self);

/* Whether the kernel counts per event what it lost (Linux 6.0). */
gboolean sonde_rings_counts_lost (const SondeRings *self);
/* Reads up to @budget events further round and returns the sum of the samples that all of them
 * lost, as last read. */
guint64 sonde_rings_read_lost (SondeRings *self, guint budget);
/* The same of what walks of interpreters lost, and of switches, as read with those. */
guint64 sonde_rings_n_walks_lost (const SondeRings *self);
/* And of hits of probes. */
guint64 sonde_rings_n_probes_lost (const SondeRings *self);
guint64 sonde_rings_n_switches_lost (const SondeRings *self);

/**
 * sonde_rings_is_duplicate:
 * @id: of the event that told the record: an inherited event has the number of its origin
 *
 * A task inherits the events of the task that made it. One that was found while events were being
 * opened, or that is added to a running session (SONDE_EVENT_LATE), may have inherited some and has
 * its own as well; the kernel cannot tell beforehand. So does all that it makes. Each of its
 * records then comes once for each event that was opened on one of its ancestors or on itself; the
 * first of these tasks that is heard of is believed. Costs nothing until the first late event.
 *
 * Returns: whether the record of @tid is to be dropped; records of unknown events are not
 * Source: perf_event_open(2), "inherit" and PERF_SAMPLE_IDENTIFIER
 */
gboolean sonde_rings_is_duplicate (SondeRings *self, uint64_t id, int32_t tid);
/* @tid has exited. */
void sonde_rings_forget_task (SondeRings *self, int32_t tid);
